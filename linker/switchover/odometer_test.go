package switchover

// odometer enumerates all choices of a run with at most budget that are not 0.
type odometer struct {
	path, sizes []int
	at          int
	budget      int
}

func (o *odometer) pick(_ string, n int) int {
	if o.at == len(o.path) {
		o.path, o.sizes = append(o.path, 0), append(o.sizes, n)
	}
	v := o.path[o.at]
	o.at++
	return v
}

// turn moves on to the next run; false when there is none.
func (o *odometer) turn() bool {
	o.path, o.sizes = o.path[:o.at], o.sizes[:o.at]
	o.at = 0
	for i := len(o.path) - 1; i >= 0; i-- {
		used := 0
		for _, v := range o.path[:i] {
			if v != 0 {
				used++
			}
		}
		if o.path[i]+1 < o.sizes[i] && used < o.budget {
			o.path, o.sizes = o.path[:i+1], o.sizes[:i+1]
			o.path[i]++
			return true
		}
	}
	return false
}
