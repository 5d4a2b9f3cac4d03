package policy

// ResourceSample is an instance's sample of a Resource metric: the sum over its
// tasks in milli-units. It is false, and the instance then has no sample, where
// no task was measured or any of them lacks the resource (R26).
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

// TaskSample is an instance's sample of a ContainerResource metric: the named
// task's use in milli-units. It is false, and the instance then has no sample,
// where that task was not measured or lacks the resource (R26).
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
