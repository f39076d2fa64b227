package expr

// pieces is a function of numbers of float32 that are not negative, by a polynomial of degree 4 for each of 32
// intervals: scripts/tables.py makes them. The lowest 5 bits of scale*a + offset, shifted, say which interval a is in.
type pieces struct {
	first         uint64 // of six tables: a point of each interval, and the coefficients in what a is beyond it
	scale, offset float64
	shift         uint64
}

// piece is the function of c*a, a product that is not rounded where what it is beyond the point is computed.
// Operations: 13.
func (e *expander) piece(p *pieces, a Value, c float64) Value {
	t := e.fma(a, e.num(c*p.scale), e.num(p.offset))
	at := e.float(e.Do(Shr, e.int(t), e.mask(p.shift)))
	point := e.lookup(p.first, at)
	var beyond Value
	if c == 1 {
		beyond = e.sub(a, point)
	} else {
		beyond = e.fma(a, e.num(c), e.Do(Neg, point))
	}
	v := e.lookup(p.first+5, at)
	for k := p.first + 4; k > p.first; k-- {
		v = e.fma(v, beyond, e.lookup(k, at))
	}
	return v
}

// lookup is the number in a table that the lowest bits of a value say.
func (e *expander) lookup(table uint64, at Value) Value {
	return e.Make(Inst{Op: Lookup, DType: e.d, A: at, B: None, C: None, Imm: table})
}
