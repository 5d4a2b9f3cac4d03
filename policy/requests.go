package policy

import (
	"strconv"
	"strings"
)

// hugePagesPrefix starts the names of huge page resources (R17, R29).
const hugePagesPrefix = "hugepages-"

// nanoPerMilli is the number of nano-units in a milli-unit.
const nanoPerMilli = 1_000_000

// requestOf is what an instance requests of the metric's resource: the named
// task's amount for a ContainerResource metric, else the whole instance's. It
// is false where a needed request is not stated (R28, R29).
func requestOf(instance *Instance, metric *MetricSpec) (int64, bool) {
	if metric.Type == ContainerResourceMetric {
		return taskRequest(instance.Tasks, metric.Task, metric.Name)
	}
	if len(instance.Requests) > 0 && statesWhole(instance.Requests) {
		if amount := find(instance.Requests, metric.Name); amount != nil {
			return amount.Milli, true
		}
		return sumStated(instance.Tasks, metric.Name)
	}
	return sumAll(instance.Tasks, metric.Name)
}

// taskRequest is the request of the one task of that name (R28).
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

// sumAll adds the requests of all tasks, each of which has to state one (R28).
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

// sumStated adds the requests of the tasks that state one, exactly, and rounds
// the sum to milli-units once (R29). It is false when no task states one.
func sumStated(tasks []Task, resource string) (sum int64, ok bool) {
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

// statesWhole reports whether requests of a whole instance name a resource for
// which such requests count: cpu, memory or huge pages (R29).
func statesWhole(amounts []Amount) bool {
	for i := range amounts {
		name := amounts[i].Resource
		if name == "cpu" || name == "memory" || strings.HasPrefix(name, hugePagesPrefix) {
			return true
		}
	}
	return false
}

// find is the amount of a resource, and nil where it is not listed.
func find(amounts []Amount, resource string) *Amount {
	for i := range amounts {
		if amounts[i].Resource == resource {
			return &amounts[i]
		}
	}
	return nil
}

// missingRequest says which request an instance lacks.
func missingRequest(instance *Instance, metric *MetricSpec) string {
	lacks := "instance " + strconv.Quote(instance.ID) + " states no " + metric.Name + " request"
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
