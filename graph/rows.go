package graph

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// RowDirection is the direction of the loops of a row program.
type RowDirection uint8

// The inner loops go along each row (ByRows) or across adjacent rows (ByColumns). With AnyDirection the implementation
// chooses the direction by the layouts of the operands.
const (
	AnyDirection RowDirection = iota
	ByRows
	ByColumns
)

// Rows is a row program: an expression over the rows of operand 0, for a call that folds (reduces) dimensions. A row
// consists of elements whose positions differ only in reduced dimensions. Passes can inline the expression into larger
// expressions. For example, a softmax of x along the last dimension, with x of shape [8, 100], has 8 rows of 100
// elements:
//
//	Rows{Mask: []bool{false, true}, In: []int{0}, Code: code of exp(x - max(x)) / sum(exp(x - max(x)))}
//
// where max and sum fold a row.
type Rows struct {
	// Mask marks the reduced dimensions of operand 0. A result has the shape of operand 0, this shape without the reduced
	// dimensions, or this shape with size 1 for the reduced dimensions.
	Mask []bool
	// ChannelGroups, if not 0, divides dimension 1 into two dimensions: operand 0 is [n, c, ...], and Mask marks
	// dimensions of the view [n, ChannelGroups, c/ChannelGroups, ...] of operand 0. Results then have the shape of
	// operand 0.
	ChannelGroups int
	// In lists operands of the call: operand i of Code is operand In[i] of the call, broadcast to Shape or, if Shape is
	// nil, to the shape of operand 0.
	In []int
	// Channels marks the operands of Code that are vectors along dimension 1. Nil marks none. All other vectors are along
	// the last dimension.
	Channels []bool
	// Code is the expression, in the dtypes that operands and results have in memory.
	Code *expr.Code
	// Direction is the direction of loops that an implementation must use.
	Direction RowDirection
	// Shape is the shape to which operands are broadcast, if it is not the shape of operand 0; otherwise nil.
	Shape []int
}

// Rank returns the length that Mask must have if operand 0 has the given rank: this rank, or one more if ChannelGroups
// divides a dimension.
func (r *Rows) Rank(operandRank int) int {
	if r.ChannelGroups != 0 {
		return operandRank + 1
	}
	return operandRank
}

// hasRank reports whether Mask and ChannelGroups fit an operand 0 of the given rank.
func (r *Rows) hasRank(operandRank int) bool {
	if r.ChannelGroups < 0 || r.ChannelGroups > 0 && operandRank < 2 {
		return false
	}
	return len(r.Mask) == r.Rank(operandRank)
}

// IsAlongChannels reports whether operand k of Code is a vector along dimension 1, the channels.
func (r *Rows) IsAlongChannels(k int) bool { return k >= 0 && k < len(r.Channels) && r.Channels[k] }

// Limits on the length of a row, in elements, and on the number of rows.
const (
	maxRowLength = 1 << 16 // maximum length of a row, so that it stays in the cache between passes over it
	longRow      = 1 << 12 // rows that are longer are called long; they are suited if there are at least minRows
	minRows      = 4       // minimum number of long rows, so that all workers have rows
)

// The functions below decide, by the length and number of rows, whether rows are folded whole or split:
//
//	length 1 to 2^12                         a worker folds each row as a whole
//	length 2^12+1 to 2^16, at least 4 rows   the same
//	fewer or longer rows                     rows are split into pieces, if results of pieces can be combined

// Fits reports whether a row program is possible for an operand 0 of the given shape. Another kernel may still be
// better: see [Rows.UnsuitedReason].
func (r *Rows) Fits(shape []int) bool {
	length, _, ok := r.lengths(shape)
	return ok && length > 0 && length <= maxRowLength || r.SplitsRows(shape)
}

// SplitsRows reports whether the rows of an operand 0 of the given shape are cut into pieces, because they are too long
// or too few. The pieces are folded separately, and their results are combined. An expression that combines
// elements of a row with the result of a fold of this row then needs a second step of the graph.
func (r *Rows) SplitsRows(shape []int) bool {
	if r == nil || r.Code == nil || len(r.Mask) != r.Rank(len(shape)) {
		return false
	}
	if tensor.Numel(shape) == 0 || r.notWholeReason(shape) == "" {
		return false
	}
	length, _, ok := r.lengths(shape)
	return ok && length <= r.maxSplitLength()
}

// UnsuitedReason returns the reason why another kernel is better than a row program for an operand 0 of the given
// shape. It returns "" if there is no reason.
func (r *Rows) UnsuitedReason(shape []int) string {
	if r.SplitsRows(shape) {
		return ""
	}
	return r.notWholeReason(shape)
}

// notWholeReason returns the reason why rows cannot be folded whole, or "".
func (r *Rows) notWholeReason(shape []int) string {
	length, count, ok := r.lengths(shape)
	switch {
	case !ok:
		return "has no rows"
	case length == 0:
		return "has rows of no elements"
	case length > maxRowLength:
		return fmt.Sprintf("has rows of %d elements; the limit is %d", length, maxRowLength)
	case length > longRow && count < minRows:
		return fmt.Sprintf("has %d rows, too few for workers to share", count)
	}
	return ""
}

// lengths returns the length of rows in elements and the number of rows, if operand 0 has the given shape. It returns
// false if the shape does not fit Mask and ChannelGroups.
func (r *Rows) lengths(shape []int) (length, count int, ok bool) {
	if r == nil || !r.hasRank(len(shape)) {
		return 0, 0, false
	}
	if r.ChannelGroups != 0 {
		shape = slices.Concat(shape[:1], []int{r.ChannelGroups, shape[1] / r.ChannelGroups}, shape[2:])
	}
	length, count = 1, 1
	for dim, size := range shape {
		if r.Mask[dim] {
			length *= size
		} else {
			count *= size
		}
	}
	return length, count, true
}

// maxSplitLength returns the maximum length, in elements, of rows that can be cut into pieces. It returns 0 if the
// results of pieces cannot be combined.
func (r *Rows) maxSplitLength() int {
	pieces, err := r.Code.Pieces(make([]bool, len(r.Code.In)))
	switch {
	case err != nil:
		return 0
	case pieces.DependentFolds == 0: // no fold needs the result of another fold
		return math.MaxInt
	}
	return expr.MaxCutLen
}

// Suits returns the conditions on sizes, which may be unknown, under which [Rows.Fits] and [Rows.SplitsRows] return
// true.
func (r *Rows) Suits(shape []sym.Int) (fits, cut sym.Bool) {
	if r == nil || r.Code == nil || !r.hasRank(len(shape)) {
		return fits, cut
	}
	if r.ChannelGroups != 0 {
		groups := sym.Of(r.ChannelGroups)
		shape = slices.Concat(shape[:1], []sym.Int{groups, shape[1].Div(groups)}, shape[2:])
	}
	length, count := sym.Of(1), sym.Of(1)
	for dim, size := range shape {
		if r.Mask[dim] {
			length = length.Mul(size)
		} else {
			count = count.Mul(size)
		}
	}
	isWithinLimits := length.Ge(sym.Of(1)).And(length.Le(sym.Of(maxRowLength)))
	if maxLength := r.maxSplitLength(); maxLength > 0 {
		hasFewLongRows := length.Gt(sym.Of(longRow)).And(count.Lt(sym.Of(minRows)))
		hasElements := length.Ge(sym.Of(1)).And(count.Ge(sym.Of(1)))
		cut = hasElements.And(isWithinLimits.Not().Or(hasFewLongRows))
		if maxLength < math.MaxInt {
			cut = cut.And(length.Le(sym.Of(maxLength)))
		}
	}
	return isWithinLimits.Or(cut), cut
}
