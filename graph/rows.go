package graph

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Rows is a row program: it computes the results of a call for each row of operand 0. A row is a set of elements whose
// positions differ only in the reduced dimensions. Code is the expression of an element of a result. It can contain
// folds of the row, such as its sum or its maximum. For example, a softmax of x along the last dimension, with x of
// shape [8, 100], has 8 rows of 100 elements:
//
//	Rows{Mask: []bool{false, true}, In: []int{0}, Code: code of exp(x - max(x)) / sum(exp(x - max(x)))}
//
// Passes can inline Code into larger expressions.
type Rows struct {
	// Mask marks the reduced dimensions of operand 0. In a result, these dimensions have the same size as in operand 0,
	// have size 1, or are absent: the example permits the shapes [8, 100], [8, 1] and [8].
	Mask []bool
	// ChannelGroups is the number of groups into which dimension 1 of operand 0, the channels, is divided, or 0. If it
	// is not 0, operand 0 of shape [n, c, ...] is viewed as [n, ChannelGroups, c/ChannelGroups, ...], and Mask marks
	// dimensions of this view. Results have the shape of operand 0.
	ChannelGroups int
	// In lists the operands of Code: operand k of Code is operand In[k] of the call. Operands are broadcast to Shape
	// or, if Shape is nil, to the shape of operand 0.
	In []int
	// Channels marks the operands of Code that are vectors along dimension 1, such as a bias for each channel. Nil
	// means that there are none. All other vectors are along the last dimension.
	Channels []bool
	// Code has the dtypes that operands and results have in memory.
	Code *expr.Code
	// Direction is the direction of loops that an implementation must use.
	Direction RowDirection
	// Shape is the shape to which operands are broadcast, if it is not the shape of operand 0; otherwise nil.
	Shape []int
}

// RowDirection is the direction of the inner loops of a row program.
type RowDirection uint8

// An inner loop visits the elements of one row (ByRows), or one element of each of several adjacent rows (ByColumns).
// With AnyDirection, the layouts of the operands determine the direction.
const (
	AnyDirection RowDirection = iota
	ByRows
	ByColumns
)

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

// The functions below decide how rows are folded. Either one worker folds each row as a whole, or rows are split into
// pieces, which are folded separately, and the results of the pieces are combined. The decision depends on the length
// and the number of rows:
//
//	length 1 to 2^12                         rows are folded whole
//	length 2^12+1 to 2^16, at least 4 rows   rows are folded whole
//	fewer or longer rows                     rows are split, if results of pieces can be combined
const (
	maxRowLength = 1 << 16 // maximum length of a row that is folded whole; it stays in the cache between its folds
	longRow      = 1 << 12 // rows of more elements are long
	minRows      = 4       // minimum number of long rows, so that all workers have rows
)

// Fits reports whether a row program is possible for an operand 0 of the given shape. Another kernel may still be
// better. For example, let fewer than minRows rows have at most maxRowLength elements. If such rows cannot be split,
// Fits returns true, but [Rows.UnsuitedReason] returns a reason.
func (r *Rows) Fits(shape []int) bool {
	length, _, ok := r.lengthAndCount(shape)
	return ok && length > 0 && length <= maxRowLength || r.SplitsRows(shape)
}

// SplitsRows reports whether the rows of an operand 0 of the given shape are split into pieces. If they are, a softmax
// needs two steps of the graph, because its expression combines each element of a row with folds of the whole row.
func (r *Rows) SplitsRows(shape []int) bool {
	if r == nil || r.Code == nil || len(r.Mask) != r.Rank(len(shape)) {
		return false
	}
	if tensor.Numel(shape) == 0 || r.notWholeReason(shape) == "" {
		return false
	}
	length, _, ok := r.lengthAndCount(shape)
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

// notWholeReason returns the reason why rows are not folded as a whole, or "" if they are.
func (r *Rows) notWholeReason(shape []int) string {
	length, count, ok := r.lengthAndCount(shape)
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

// lengthAndCount returns the length of rows in elements and the number of rows, for an operand 0 of the given shape. It
// returns false if Mask and ChannelGroups do not fit the shape.
func (r *Rows) lengthAndCount(shape []int) (length, count int, ok bool) {
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

// maxSplitLength returns the maximum length, in elements, of rows that can be split. It returns 0 if the results of
// pieces cannot be combined.
func (r *Rows) maxSplitLength() int {
	isUniform := make([]bool, len(r.Code.In)) // marks operands with one element for each row: none
	pieces, err := r.Code.Pieces(isUniform)
	switch {
	case err != nil:
		return 0
	case pieces.DependentFolds == 0: // no fold needs the result of another fold
		return math.MaxInt
	}
	// An argmax finds the position of the maximum, and the maximum is another fold. Positions must fit an int32.
	return expr.MaxCutLen
}

// Suits evaluates [Rows.Fits] and [Rows.SplitsRows] for sizes that may be unknown. It returns the conditions on the
// sizes under which these functions return true.
func (r *Rows) Suits(shape []sym.Int) (fits, splits sym.Bool) {
	if r == nil || r.Code == nil || !r.hasRank(len(shape)) {
		return fits, splits
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
		splits = hasElements.And(isWithinLimits.Not().Or(hasFewLongRows))
		if maxLength < math.MaxInt {
			splits = splits.And(length.Le(sym.Of(maxLength)))
		}
	}
	return isWithinLimits.Or(splits), splits
}

// loops returns the loops with independent iterations over the dimensions of operand 0 that are not reduced. It returns
// none if operands are broadcast to Shape.
func (r *Rows) loops(call *Call) []Parallel {
	rank := call.Meta(0).Rank()
	if r.Code == nil || r.Shape != nil || len(r.Mask) != r.Rank(rank) {
		return nil
	}
	var loops []Parallel
	reduced := 0 // number of reduced dimensions before dim
	for dim := range rank {
		// With ChannelGroups, Mask has two dimensions for dimension 1 of the operand: the groups, and the channels of a
		// group. In this case dimension 1 is no loop, and dimension d > 1 of the operand is dimension d+1 of Mask.
		maskDim := dim
		if r.ChannelGroups != 0 && dim > 0 {
			maskDim = dim + 1
		}
		switch {
		case r.ChannelGroups != 0 && dim == 1: // no loop
		case r.Mask[maskDim]:
			reduced++
		default:
			if loop, ok := r.loopOver(call, dim, reduced); ok {
				loops = append(loops, loop)
			}
		}
	}
	return loops
}

// loopOver returns the loop over dimension dim of operand 0. `reduced` is the number of reduced dimensions before dim.
// It returns false if a result does not have this dimension.
func (r *Rows) loopOver(call *Call, dim, reduced int) (loop Parallel, ok bool) {
	rank, size := call.Meta(0).Rank(), call.Meta(0).Shape[dim]
	loop = undividedLoop(call) // reads every operand as a whole; ResultDims are not set yet
	loop.OperandDims[0], loop.MayBroadcast = dim, everyOperand(call)
	for k, i := range r.In { // operand k of the program is operand i of the call
		meta := call.Meta(i)
		operandDim := dim - (rank - meta.Rank()) // operands are broadcast from the last dimension
		if r.IsAlongChannels(k) {                // a vector along dimension 1
			operandDim = dim - 1
		}
		if i > 0 && operandDim >= 0 && operandDim < meta.Rank() && meta.Shape[operandDim] == size {
			loop.OperandDims[i] = operandDim
		}
	}
	for i, meta := range call.Out {
		resultDim := dim
		if meta.Rank() < rank { // the result lacks the reduced dimensions
			resultDim -= reduced
		}
		if resultDim >= meta.Rank() || meta.Shape[resultDim] != size {
			return loop, false
		}
		loop.ResultDims[i] = resultDim
	}
	return loop, true
}
