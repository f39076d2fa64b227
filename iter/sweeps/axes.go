package sweeps

// axis is a dimension of the iteration, with the steps in bytes of outputs and operands.
type axis struct {
	n    int
	step []int
}

// joined drops axes of one position and joins neighbours that form one run of everything. There is always one left.
func joined(list []axis, operands int) []axis {
	out := list[:0]
	for _, a := range list {
		if a.n == 1 {
			continue
		}
		if k := len(out) - 1; k >= 0 && continues(out[k], a) {
			out[k].n *= a.n
			continue
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		out = append(out, axis{n: 1, step: make([]int, operands)})
	}
	return out
}

func continues(a, next axis) bool {
	for i, s := range a.step {
		if a.n*s != next.step[i] {
			return false
		}
	}
	return true
}
