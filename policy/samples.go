package policy

// ResourceSample returns the sample of a Resource metric, the sum over all tasks in
// milli-units. It is false if a task lacks the resource (R26).
func ResourceSample(tasks []TaskUsage, resource string) (milli int64, ok bool) {
	for i := range tasks {
		amount := find(tasks[i].Usage, resource)
		if amount == nil {
			return 0, false
		}
		milli += amount.Milli
	}
	return milli, len(tasks) > 0
}

// TaskSample returns the sample of a ContainerResource metric in milli-units. It is false if
// the task lacks the resource (R26).
func TaskSample(tasks []TaskUsage, task, resource string) (milli int64, ok bool) {
	for i := range tasks {
		if tasks[i].Task != task {
			continue
		}
		if amount := find(tasks[i].Usage, resource); amount != nil {
			return amount.Milli, true
		}
		return 0, false
	}
	return 0, false
}
