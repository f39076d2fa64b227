package graph

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// RowWay is the direction of the loops of a row program.
type RowWay uint8

// AnyWay: as the layouts of the operands suggest. ByRows: along each row. ByColumns: across neighbouring rows.
const (
	AnyWay RowWay = iota
	ByRows
	ByColumns
)

// Rows is a row program: what a call that folds dimensions computes, as an expression over the rows of operand 0. A row
// has the elements whose positions differ in reduced dimensions only. Passes can inline it into larger expressions.
type Rows struct {
	// Mask marks the reduced dimensions of operand 0. A result has its shape, or that shape with the reduced dimensions
	// removed or of size 1.
	Mask []bool
	// If Split is not 0, dimension 1 is seen as two: operand 0 is [n, c, ...], and Mask marks the dimensions of its view
	// [n, Split, c/Split, ...]. Results then have the shape of operand 0.
	Split int
	// In has the operand of the call for each operand of Code. They are broadcast to the shape of operand 0.
	In []int
	// Channels marks operands of Code that are vectors along dimension 1, not along the last one; nil for none.
	Channels []bool
	// Code has the dtypes that operands and results have in memory.
	Code *expr.Code
	// Way is the direction of the loops, if an implementation decides it.
	Way RowWay
	// Shape is the shape that operands are broadcast to; nil: that of operand 0.
	Shape []int
}

// Rank is the number of dimensions that Mask has for operands of a rank.
func (r *Rows) Rank(operands int) int {
	if r.Split != 0 {
		return operands + 1
	}
	return operands
}

// Along reports whether operand k of Code is a vector along dimension 1.
func (r *Rows) Along(k int) bool { return k >= 0 && k < len(r.Channels) && r.Channels[k] }

// Limits of rows: a row stays in the cache from pass to pass, and long rows are numerous enough to occupy the workers.
const (
	maxRow  = 1 << 16
	longRow = 1 << 12
	minRows = 4
)

// Fits reports whether loops over rows of values of a shape are possible; [Rows.Unsuited] says whether they pay.
func (r *Rows) Fits(shape []int) bool {
	length, _, ok := r.lengths(shape)
	return ok && length > 0 && length <= maxRow || r.Cut(shape)
}

// Cut reports whether rows of values of a shape, which are long or few, are cut into pieces that are combined
// afterwards. No other pass over the rows can follow in the same step.
func (r *Rows) Cut(shape []int) bool {
	if r == nil || r.Code == nil || len(r.Mask) != r.Rank(len(shape)) || tensor.Numel(shape) == 0 ||
		r.unsuited(shape) == "" {
		return false
	}
	length, _, ok := r.lengths(shape)
	return ok && length <= r.mostCut()
}

// mostCut is the length of the longest rows that can be cut; 0 if pieces do not determine the result.
func (r *Rows) mostCut() int {
	p, err := r.Code.Pieces(make([]bool, len(r.Code.In)))
	switch {
	case err != nil:
		return 0
	case p.Waits == 0:
		return math.MaxInt
	}
	return expr.MaxCutPlaces
}

// Suits is [Rows.Fits] and [Rows.Cut] for sizes that may be unknown.
func (r *Rows) Suits(shape []sym.Int) (fits, cut sym.Bool) {
	if r == nil || r.Code == nil || r.Split < 0 || r.Split > 0 && len(shape) < 2 || len(r.Mask) != r.Rank(len(shape)) {
		return fits, cut
	}
	if r.Split != 0 {
		parts := sym.Of(r.Split)
		shape = slices.Concat(shape[:1], []sym.Int{parts, shape[1].Div(parts)}, shape[2:])
	}
	length, count := sym.Of(1), sym.Of(1)
	for d, size := range shape {
		if r.Mask[d] {
			length = length.Mul(size)
		} else {
			count = count.Mul(size)
		}
	}
	within := length.Ge(sym.Of(1)).And(length.Le(sym.Of(maxRow)))
	if most := r.mostCut(); most > 0 {
		few := length.Gt(sym.Of(longRow)).And(count.Lt(sym.Of(minRows)))
		cut = length.Ge(sym.Of(1)).And(count.Ge(sym.Of(1))).And(within.Not().Or(few))
		if most < math.MaxInt {
			cut = cut.And(length.Le(sym.Of(most)))
		}
	}
	return within.Or(cut), cut
}

// lengths returns the length of the rows of values of a shape, and their number; false if it has no rows.
func (r *Rows) lengths(shape []int) (length, count int, ok bool) {
	if r == nil || r.Split < 0 || r.Split > 0 && len(shape) < 2 || len(r.Mask) != r.Rank(len(shape)) {
		return 0, 0, false
	}
	if r.Split != 0 {
		shape = slices.Concat(shape[:1], []int{r.Split, shape[1] / r.Split}, shape[2:])
	}
	length, count = 1, 1
	for d, size := range shape {
		if r.Mask[d] {
			length *= size
		} else {
			count *= size
		}
	}
	return length, count, true
}

// Unsuited returns the reason why rows of values of a shape are left to another kernel; empty if they are not.
func (r *Rows) Unsuited(shape []int) string {
	if r.Cut(shape) {
		return ""
	}
	return r.unsuited(shape)
}

func (r *Rows) unsuited(shape []int) string {
	length, count, ok := r.lengths(shape)
	switch {
	case !ok:
		return "has no rows"
	case length == 0:
		return "has rows of no elements"
	case length > maxRow:
		return fmt.Sprintf("has rows of %d elements, and %d are the most", length, maxRow)
	case length > longRow && count < minRows:
		return fmt.Sprintf("has %d rows, too few for workers to share", count)
	}
	return ""
}
