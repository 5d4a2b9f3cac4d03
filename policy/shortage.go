package policy

// Shortage is a recommendation above the allowed maximum.
type Shortage struct {
	// Wanted is the recommendation, Max the allowed maximum.
	Wanted int32 `json:"wanted"`
	Max    int32 `json:"max"`
	// Reason is TooManyReplicas for max_replicas, and PlatformMax for the platform's maximum.
	Reason string `json:"reason"`
}

// Shortage returns the shortage of a pass; nil if the recommendation is allowed, or while a
// rate limit or window keeps the count below the maximum.
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

func (s *Shortage) String() string {
	text := "wants " + itoa(s.Wanted) + ", max " + itoa(s.Max)
	if s.Reason == platformMax {
		text += " (" + platformMax + ")"
	}
	return text
}
