package reduce

import (
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file makes the implementations of ops along one dimension, such as cumsum. A line has all elements along the
// dimension at one index of the other dimensions: an operand [2, 3, 500] and dimension 1 have 1000 lines of 3 elements.
// There are two implementations. The implementation by rows processes one line after another. The implementation by
// columns processes up to columnUnit adjacent lines at once, one element of each line per step.

// lineOp describes an op along one dimension whose result has the shape of the operand. Its lines are the rows of
// [graph.Rows].
type lineOp struct {
	dim func(c *graph.Call) int // returns the dimension of a call; it may be negative or invalid
	// rows returns the expression that computes a line, or nil if the call has no expression. The field is nil if the
	// op processes lines without an expression.
	rows         rowsFunc
	typicalAttrs any                // attributes of a call whose expression gives the cost of an element
	elementCost  graph.ElementFlops // cost of an element if rows is nil or there is no machine code
	// lower returns the kernel that processes lines along dim, counted from the front, in a direction: ByRows or
	// ByColumns.
	lower func(c *graph.Call, dim int, direction graph.RowDirection) (*graph.Kernel, error)
}

// columnUnit is the maximum number of adjacent lines that are processed at once by columns.
const columnUnit = 256

// wrappedDim returns the dimension of a call, counted from the front.
func (o lineOp) wrappedDim(c *graph.Call) (int, error) {
	return tensor.WrapDim(o.dim(c), c.Meta(0).Rank())
}

// impls returns an implementation for each direction. Results may have any order of dimensions. line_work.go computes
// the work for a [graph.Walk], which is a loop order with the layouts of the results.
func (o lineOp) impls() []graph.Impl {
	opCounts := sync.OnceValues(o.opCounts)
	impl := func(name, doc string, direction graph.RowDirection) graph.Impl {
		return graph.Impl{
			Name: name, Doc: doc,
			Work: func(c *graph.Call, walk graph.Walk) pricing.Work { return o.work(c, direction, walk, opCounts) },
			Read: func(c *graph.Call, walk graph.Walk, _ int, operand tensor.Meta) (pricing.Work, bool) {
				return o.readWork(c, direction, walk, operand), true
			},
			Lower: func(c *graph.Call) (*graph.Kernel, error) {
				dim, err := o.wrappedDim(c)
				if err != nil {
					return nil, err
				}
				return o.lower(c, dim, direction)
			},
		}
	}
	return []graph.Impl{impl("rows", "Processes lines one after another.", graph.ByRows),
		impl("columns", "Processes hundreds of adjacent lines at once.", graph.ByColumns)}
}

// inDirection returns a function that calls rows, and sets the direction in which the expression processes lines.
func inDirection(rows rowsFunc, direction graph.RowDirection) rowsFunc {
	return func(c *graph.Call) (*graph.Rows, error) {
		expression, err := rows(c)
		if expression != nil {
			expression.Direction = direction
		}
		return expression, err
	}
}

// lineMask returns a mask that marks the dimension of the lines, or no dimension if dim is negative.
func lineMask(rank, dim int) []bool {
	mask := make([]bool, rank)
	if rank > 0 && dim >= 0 {
		mask[dim] = true
	}
	return mask
}
