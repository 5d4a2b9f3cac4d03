package observe

import (
	"iter"
	"strings"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/sources"
)

// Input is the configured input of one metric, with the labels that select its series.
type Input struct {
	*config.Input
	// Labels lists the names of the labels that select series: the labels in Select in order,
	// followed by InstanceLabel if it is set.
	Labels []string
	// selected is the part of the index key that corresponds to Select.
	selected string
}

// NewInput returns an Input that refers to c.
func NewInput(c *config.Input) Input {
	in := Input{Input: c}
	var values []string
	for _, label := range c.Select {
		in.Labels, values = append(in.Labels, label.Name), append(values, label.Value)
	}
	in.selected = strings.Join(values, keySeparator)
	if c.InstanceLabel != "" {
		in.Labels = append(in.Labels, c.InstanceLabel)
	}
	return in
}

// Selected yields the series in a result that Select matches.
func (in *Input) Selected(response *Response) iter.Seq[*sources.Series] {
	return func(yield func(*sources.Series) bool) {
		series := response.Vector.Series
		if len(in.Labels) == 0 {
			for i := range series {
				if !yield(&series[i]) {
					return
				}
			}
			return
		}
		index := response.indexBy(in.Labels)
		for i := index.at(in.selected); i >= 0; i = index.next[i] {
			if !yield(&series[i]) {
				return
			}
		}
	}
}
