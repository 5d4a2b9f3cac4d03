package show

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
)

// MaxInstances is the default maximum number of listed instances.
const MaxInstances = 20

// instances adds a table of the instances. Its columns are independent of the other lines.
func (d description) instances(list api.InstanceList, most int) error {
	if list.Error != "" {
		d.line(1, "not listed:\t%s", explain.OneLine(list.Error))
		return nil
	}
	for _, failed := range list.Failed {
		d.line(1, "%s:\t%s", columnTitle(failed.Name, failed.Task), explain.OneLine(failed.Error))
	}
	if len(list.Instances) == 0 {
		return nil
	}
	var text strings.Builder
	table := newTable(&text)
	own := description{w: table, now: d.now}
	nodes, addresses := hasNodes(&list), hasAddresses(&list)
	for i := range list.Instances[:min(most, len(list.Instances))] {
		if i == 0 {
			own.line(1, "%s", strings.Join(instanceTitles(&list, nodes, addresses), "\t"))
		}
		own.line(1, "%s", strings.Join(own.instance(&list.Instances[i], nodes, addresses), "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for i, row := range slices.Collect(strings.Lines(text.String())) {
		d.line(0, "%s", strings.TrimRight(row, " \n"))
		if i == 0 {
			continue
		}
		if text := explain.InstanceUnreadyText(&list.Instances[i-1], d.now); text != "" {
			d.line(2, "%s", text)
		}
		if output := list.Instances[i-1].LastOutput; output != "" {
			d.line(2, "last output: %s", explain.OneLine(output))
		}
	}
	if more := len(list.Instances) - most; more > 0 {
		d.line(1, "and %d more (--instances lists all)", more)
	}
	return nil
}

func instanceTitles(list *api.InstanceList, nodes, addresses bool) []string {
	titles := []string{"NAME"}
	if nodes {
		titles = append(titles, "NODE")
	}
	if addresses {
		titles = append(titles, "ADDRESS")
	}
	titles = append(titles, "STATE", "AGE")
	for _, metric := range list.Instances[0].Metrics {
		titles = append(titles, strings.ToUpper(columnTitle(metric.Name, metric.Task)))
	}
	return titles
}

func columnTitle(name, task string) string {
	if task != "" {
		return name + " of " + task
	}
	return name
}

func hasNodes(list *api.InstanceList) bool {
	return slices.ContainsFunc(list.Instances, func(i api.Instance) bool { return i.Node != "" })
}

func hasAddresses(list *api.InstanceList) bool {
	return slices.ContainsFunc(list.Instances, func(i api.Instance) bool { return i.Address != "" })
}

func (d description) instance(instance *api.Instance, node, address bool) []string {
	columns := []string{explain.OneLine(cmp.Or(instance.Name, instance.ID))}
	if node {
		columns = append(columns, orNone(explain.OneLine(instance.Node)))
	}
	if address {
		columns = append(columns, orNone(explain.OneLine(instance.Address)))
	}
	columns = append(columns, explain.StateText(instance), age(instance.Started, d.now))
	for i := range instance.Metrics {
		columns = append(columns, explain.MeasuredText(&instance.Metrics[i]))
	}
	return columns
}
