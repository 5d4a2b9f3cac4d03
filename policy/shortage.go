package policy

// Shortage is a recommendation above the highest count that is allowed.
type Shortage struct {
	// Wanted is the recommendation, Max the highest count that is allowed.
	Wanted int32 `json:"wanted"`
	Max    int32 `json:"max"`
	// Reason is TooManyReplicas if the limit is max_replicas, PlatformMax if it is the
	// platform's own maximum.
	Reason string `json:"reason"`
}

// Shortage returns the shortage of a pass that wants the highest count that is allowed; nil
// if the recommendation is no higher, or while a rate limit or a window keeps the count lower.
func (d *Decision) Shortage() *Shortage {
	if d.Recommendation == nil {
		return nil
	}
	s := Shortage{Wanted: *d.Recommendation, Max: d.MaxReplicas, Reason: tooManyReplicas}
	if d.PlatformMax != nil && *d.PlatformMax < s.Max {
		s.Max, s.Reason = *d.PlatformMax, platformMax
	}
	if s.Wanted <= s.Max || d.DesiredReplicas < s.Max {
		return nil
	}
	return &s
}

// String returns "wants 61, max 2", with the reason if the maximum is the platform's.
func (s *Shortage) String() string {
	text := "wants " + itoa(s.Wanted) + ", max " + itoa(s.Max)
	if s.Reason == platformMax {
		text += " (" + platformMax + ")"
	}
	return text
}
