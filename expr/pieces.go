package expr

// pieces is a function of numbers of float32 that are not negative, by a polynomial for each of 16 or 32 intervals:
// scripts/tables.py makes them. The lowest bits of scale*a + offset, shifted, say which interval a is in. With AVX2 16
// are looked up in half the time, with AVX-512 a shorter polynomial for each of 32 takes less.
type pieces struct {
	first         uint64 // of the tables: a point of each interval, and the coefficients in what a is beyond it
	degree        uint64
	scale, offset float64
	shift         uint64
}

// piece is the function of c*a, a product that is not rounded where what it is beyond the point is computed.
// Operations: 5, and 2 for each degree.
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
	constant := p.first + 1
	v := e.lookup(constant+p.degree, at)
	for k := constant + p.degree; k > constant; k-- {
		v = e.fma(v, beyond, e.lookup(k-1, at))
	}
	return v
}

// lookup is the number in a table that the lowest bits of a value say.
func (e *expander) lookup(table uint64, at Value) Value {
	return e.Make(Inst{Op: Lookup, DType: e.d, A: at, B: None, C: None, Imm: table})
}
