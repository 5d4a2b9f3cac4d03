package policy

import (
	"cmp"
	"strconv"
	"strings"
)

// hugePagesPrefix is the prefix of huge page resources (R17, R29).
const hugePagesPrefix = "hugepages-"

const nanoPerMilli = 1_000_000

// requestOf returns the request of an instance for the metric's resource. It returns false if a
// request is missing (R28, R29).
func requestOf(instance *Instance, metric *MetricSpec) (int64, bool) {
	if metric.Type == ContainerResourceMetric {
		return taskRequest(instance.Tasks, metric.Task, metric.Name)
	}
	if len(instance.Requests) > 0 && hasOwnRequest(instance.Requests) {
		if amount := find(instance.Requests, metric.Name); amount != nil {
			return amount.Milli, true
		}
		return sumExisting(instance.Tasks, metric.Name)
	}
	return sumAll(instance.Tasks, metric.Name)
}

// taskRequest returns the request of one task (R28).
func taskRequest(tasks []Task, name, resource string) (int64, bool) {
	for i := range tasks {
		if tasks[i].Name != name {
			continue
		}
		if amount := find(tasks[i].Requests, resource); amount != nil {
			return amount.Milli, true
		}
		return 0, false
	}
	return 0, false
}

// sumAll adds the requests of all tasks. Each task must have a request (R28).
func sumAll(tasks []Task, resource string) (sum int64, ok bool) {
	for i := range tasks {
		amount := find(tasks[i].Requests, resource)
		if amount == nil {
			return 0, false
		}
		sum += amount.Milli
	}
	return sum, true
}

// sumExisting adds the existing requests exactly and rounds the sum once (R29).
func sumExisting(tasks []Task, resource string) (sum int64, ok bool) {
	var roundedUp int64
	for i := range tasks {
		if amount := find(tasks[i].Requests, resource); amount != nil {
			sum += amount.Milli
			roundedUp += int64(amount.RoundedUpNano)
			ok = true
		}
	}
	return sum - roundedUp/nanoPerMilli, ok
}

// hasOwnRequest reports whether an instance's own requests apply. They apply if it requests cpu,
// memory or huge pages (R29).
func hasOwnRequest(amounts []Amount) bool {
	for i := range amounts {
		name := amounts[i].Resource
		if name == "cpu" || name == "memory" || strings.HasPrefix(name, hugePagesPrefix) {
			return true
		}
	}
	return false
}

func find(amounts []Amount, resource string) *Amount {
	for i := range amounts {
		if amounts[i].Resource == resource {
			return &amounts[i]
		}
	}
	return nil
}

func missingRequest(instance *Instance, metric *MetricSpec) string {
	lacks := "instance " + strconv.Quote(cmp.Or(instance.Name, instance.ID)) + " states no " + metric.Name + " request"
	for i := range instance.Tasks {
		task := &instance.Tasks[i]
		if metric.Type == ContainerResourceMetric && task.Name != metric.Task || find(task.Requests, metric.Name) != nil {
			continue
		}
		lacks += " for task " + strconv.Quote(task.Name)
		if task.RequestHint != "" {
			lacks += "; " + task.RequestHint
		}
		return lacks
	}
	if metric.Type == ContainerResourceMetric {
		lacks += " for task " + strconv.Quote(metric.Task)
	}
	return lacks
}

// ResourceSample returns the sample of a Resource metric, the sum over all tasks in milli-units. It
// returns false if a task lacks the resource (R26).
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

// TaskSample returns the sample of a ContainerResource metric in milli-units. It returns false if
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
