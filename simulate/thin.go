package simulate

// Thin reduces the series of the result to at most n instants, at equal distances and with the last one.
// n must be at least 2.
func (r *Result) Thin(n int) {
	if len(r.Times) <= n {
		return
	}
	r.Times, r.Demand = thinned(r.Times, n), thinned(r.Demand, n)
	for i := range r.Rows {
		r.Rows[i].Replicas, r.Rows[i].Ready = thinned(r.Rows[i].Replicas, n), thinned(r.Rows[i].Ready, n)
	}
}

func thinned[T any](all []T, n int) []T {
	few := make([]T, n)
	for i := range few {
		few[i] = all[i*(len(all)-1)/(n-1)]
	}
	return few
}
