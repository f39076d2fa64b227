package rowprog

// Way is how loops go: along reduced dimensions or along a kept one.
type Way uint8

// Choose goes by the layouts. Nothing to reduce is always gone through by columns.
const (
	Choose Way = iota
	ByRows
	ByColumns
)

const (
	// leastColumns is how many side by side are worth a loop along them.
	leastColumns = 8
	// turnedBytes is how much of an operand is turned at a time, at most: what stays in the caches of a core.
	turnedBytes = 1 << 20
)

// choose decides between rows and columns.
func (p *Plan) choose(way Way) {
	k, a, i := p.kept[0], p.red[0], p.lead()
	switch {
	case way != Choose:
		p.columns = way == ByColumns
	case a.step[i] <= k.step[i] || k.n == 1:
		p.columns = a.n < 16 && k.n >= a.n && k.n > 1 || p.turns(k) || p.parted()
	default:
		p.columns = k.n >= leastColumns || k.n > a.n
	}
	if p.reduced == 0 {
		p.columns = true
	}
	p.single = !p.columns && len(p.red) == 1
}

// turns reports whether outputs of all elements lie along a kept axis, and none along rows, so that operands that lie
// along rows are turned, in tiles. By rows each element of such outputs would be written far from the next.
func (p *Plan) turns(k axis) bool {
	if k.n < leastColumns {
		return false
	}
	some := false
	for o := range p.nouts {
		if !p.s.Whole[o] {
			continue
		}
		if size := p.metas[o].DType.Size(); k.step[o] != size || min(k.n, minColumns)*p.reduced*size > turnedBytes {
			return false
		}
		some = true
	}
	return some
}
