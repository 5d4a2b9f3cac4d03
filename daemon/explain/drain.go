package explain

import (
	"fmt"
	"time"

	"github.com/hpad/hpad/targets/drain"
)

// DrainText says in one line what is under way with an instance, or how it ended. Times are
// in a zone.
func DrainText(operation drain.Operation, zone *time.Location) string {
	text := InstanceText(operation.Instance.ID, operation.Instance.Name) + ": "
	if operation.State == drain.Ended {
		text += fmt.Sprintf("%s at %s", operation.Outcome, Stamp(operation.Ended.In(zone)))
	} else {
		text += fmt.Sprintf("%s since %s", operation.State, Stamp(operation.Changed.In(zone)))
	}
	if operation.State == drain.Waiting || operation.State == drain.Draining {
		text += ", to be drained by " + Stamp(operation.Deadline.In(zone))
	}
	if operation.Why != "" {
		text += "; taken back: " + OneLine(operation.Why)
	}
	if operation.Error != "" {
		text += "; " + OneLine(operation.Error)
	}
	return text
}

// InstanceText writes an instance as "NAME (ID)", or as its ID where it has no other
// name.
func InstanceText(id, name string) string {
	if name == "" || name == id {
		return id
	}
	return fmt.Sprintf("%s (%s)", name, id)
}
