package expand

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/elementary"
)

// evalPiecewise evaluates a piecewise polynomial at c*a. The polynomial of an interval is a polynomial of the distance
// of c*a from a point of the interval. The distance is computed from a without rounding c*a. Operations: 5 + 2*degree.
func (e *expander) evalPiecewise(p *elementary.Pieces, a expr.Value, c float64) expr.Value {
	scaled := e.fma(a, e.constant(c*p.Scale), e.constant(p.Offset))
	index := e.asFloat(e.Emit(expr.Shr, e.asInt(scaled), e.intConst(p.Shift)))
	point := e.lookup(p.First, index)
	var distance expr.Value
	if c == 1 {
		distance = e.sub(a, point)
	} else {
		distance = e.fma(a, e.constant(c), e.Emit(expr.Neg, point))
	}
	coefficients := p.First + 1 // the table of the constant coefficients; tables of higher degrees follow
	sum := e.lookup(coefficients+p.Degree, index)
	for k := coefficients + p.Degree; k > coefficients; k-- {
		sum = e.fma(sum, distance, e.lookup(k-1, index))
	}
	return sum
}

// lookup returns an entry of a table. The lowest 5 bits of `index` are the index of the entry.
func (e *expander) lookup(table uint64, index expr.Value) expr.Value {
	return e.AddInst(expr.Inst{Op: expr.Lookup, DType: e.dtype, A: index, B: expr.None, C: expr.None, Imm: table})
}
