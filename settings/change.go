package settings

// Change is a difference between two configurations.
type Change struct {
	// Key is the path of a table that only one configuration has, such as "autoscalers.web",
	// or of a value, such as "autoscalers.web.max_replicas".
	Key string `json:"key"`
	// Before and After are the values in TOML without secrets; empty if the value is absent
	// or a secret, and for whole tables.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Kind is "added", "removed" or "changed".
	Kind ChangeKind `json:"kind"`
	// NextStart reports whether it takes effect at the next start only.
	NextStart bool `json:"next_start,omitempty"`
	// Note is a further effect of the change, as a clause; it may be empty.
	Note string `json:"note,omitempty"`
}

// ChangeKind is the kind of a Change.
type ChangeKind string

// The kinds of changes.
const (
	Added   ChangeKind = "added"
	Removed ChangeKind = "removed"
	Changed ChangeKind = "changed"
)

// String returns the change in one line, as "~ autoscalers.web.max_replicas: 5 -> 8".
func (c Change) String() string {
	text := map[ChangeKind]string{Added: "+ ", Removed: "- ", Changed: "~ "}[c.Kind] + c.Key
	switch {
	case c.Before != "" && c.After != "" && c.Before != c.After:
		text += ": " + c.Before + " -> " + c.After
	case c.Before != "" && c.After != "":
		text += " (another value)"
	case c.Before+c.After != "":
		text += ": " + c.Before + c.After
	case c.Kind == Changed:
		text += " (a value that is not shown)"
	}
	if c.NextStart {
		text += " (at the next start)"
	}
	if c.Note != "" {
		text += ": " + c.Note
	}
	return text
}

// Reload is a change of the configuration that affects an autoscaler.
type Reload struct {
	// Author is the user who requested the reload, or its cause, such as "SIGHUP".
	Author string `json:"author"`
	// Changes are the first 10. Keys in the autoscaler's own table are relative to it.
	Changes []Change `json:"changes"`
	// More counts the changes that are left out.
	More int `json:"more,omitempty"`
}
