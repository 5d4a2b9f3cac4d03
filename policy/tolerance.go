package policy

// tolerance is the band around a ratio of 1 without a change (R30).
type tolerance struct {
	down, up float64
}

// toleranceOf returns the tolerance of each direction (R30).
func toleranceOf(settings *Settings, spec *Spec) tolerance {
	band := tolerance{down: settings.Tolerance, up: settings.Tolerance}
	if spec.Behavior == nil {
		return band
	}
	if rules := spec.Behavior.ScaleDown; rules != nil && rules.Tolerance != nil {
		band.down = *rules.Tolerance
	}
	if rules := spec.Behavior.ScaleUp; rules != nil && rules.Tolerance != nil {
		band.up = *rules.Tolerance
	}
	return band
}

// within reports whether a ratio is in the band, including its ends; false for NaN (R30).
func (t tolerance) within(ratio float64) bool {
	return 1-t.down <= ratio && ratio <= 1+t.up
}
