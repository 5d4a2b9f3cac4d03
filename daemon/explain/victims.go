package explain

import (
	"fmt"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/targets/drain"
)

// victims adds whom the decision takes, where hpad chooses.
func (p *page) victims(view api.Explanation) {
	if view.VictimsError != "" {
		p.line(1, "whom it takes is not known: %s", oneLine(view.VictimsError))
	}
	for _, victim := range view.Victims {
		p.line(1, "takes %s: %s", nameOf(victim.ID, victim.Name), victim.Reason)
	}
}

// drains adds a step for what is under way with instances that earlier decisions
// took.
func (p *page) drains(view api.Explanation) {
	begun := false
	for _, operation := range view.Drains {
		if operation.State == drain.Ended {
			continue
		}
		if !begun {
			p.step("Under way")
			begun = true
		}
		p.line(1, "%s", DrainText(operation))
	}
}

// DrainText says in one line what is under way with an instance, or how it ended.
func DrainText(operation drain.Operation) string {
	text := nameOf(operation.Instance.ID, operation.Instance.Name) + ": "
	if operation.State == drain.Ended {
		text += fmt.Sprintf("%s at %s", operation.Outcome, stamp(operation.Ended))
	} else {
		text += fmt.Sprintf("%s since %s", operation.State, stamp(operation.Changed))
	}
	if operation.State == drain.Waiting || operation.State == drain.Draining {
		text += ", to be drained by " + stamp(operation.Deadline)
	}
	if operation.Why != "" {
		text += "; taken back: " + oneLine(operation.Why)
	}
	if operation.Error != "" {
		text += "; " + oneLine(operation.Error)
	}
	return text
}

func nameOf(id, name string) string {
	if name == "" || name == id {
		return id
	}
	return fmt.Sprintf("%s (%s)", name, id)
}
