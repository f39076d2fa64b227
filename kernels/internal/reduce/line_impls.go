package reduce

import (
	"sync"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/tensor"
)

// This file makes the implementations of ops along one dimension, such as cumsum, and computes the work of their
// kernels. A line has all elements along the dimension at one index of the other dimensions. An operand [2, 3, 500] and
// dimension 1 have 1000 lines of 3 elements.
//
// A run has the elements that a loop accesses one after another. In order lineRows, it is a line. In order lineColumns,
// it is one step of adjacent lines: one element of each of up to columnUnit lines. In the example, the lines of index 0
// of dimension 0 have two runs for each of the 3 steps, of 256 and 244 elements.

// lineOrder is the order in which an op processes the lines along its dimension.
type lineOrder uint8

const (
	lineRows    lineOrder = iota // one line after another
	lineColumns                  // many adjacent lines at once, step by step
)

// lineOp describes an op along one dimension whose result has the shape of the operand. Its lines are the rows of
// [graph.Rows].
type lineOp struct {
	dim func(c *graph.Call) (int, error) // returns the dimension of a call, counted from the front
	// rows returns the expression that computes a line, or nil if the call has no expression. The field is nil if the
	// op processes lines without an expression.
	rows         rowsFunc
	typicalAttrs any                // attributes of the call whose expression, from rows, gives the cost of an element
	elementCost  graph.ElementFlops // cost of an element if rows is nil or there is no machine code
	// lower returns the kernel that processes lines in the given order.
	lower func(c *graph.Call, dim int, order lineOrder) (*graph.Kernel, error)
}

const (
	columnUnit  = 256 // maximum number of adjacent lines that order lineColumns processes at once
	columnLanes = 16  // number of adjacent lines that a vector register holds
)

// Names of units of work. A machine profile has the measured time of each unit. Expressions have other units.
const (
	lineBegin   = "line.begin"   // the start of a run
	lineStrided = "line.strided" // an element that is copied because its run is not contiguous
)

// impls returns an implementation for each order. Results may have any order of dimensions. A [graph.Walk] is a loop
// order with the layouts of the results.
func (o lineOp) impls() []graph.Impl {
	opCounts := sync.OnceValues(o.opCounts)
	list := []graph.Impl{
		lineRows:    {Name: "rows", Doc: "Processes lines one after another."},
		lineColumns: {Name: "columns", Doc: "Processes hundreds of adjacent lines at once."},
	}
	for i := range list {
		order := lineOrder(i)
		list[i].Work = func(c *graph.Call, walk graph.Walk) graph.Work {
			counts, isCompiled := opCounts()
			return o.work(c, order, walk, counts, isCompiled)
		}
		list[i].Read = func(c *graph.Call, walk graph.Walk, _ int, operand tensor.Meta) (work graph.Work, ok bool) {
			_, run, _ := o.lineAndRun(c, order, operand, walk.ResultLayout(0, c.Out[0]))
			isContiguous := run.Size == 1 || run.InStride == operand.DType.Size()
			addStridedAccess(&work, operand, isContiguous)
			return work, true
		}
		list[i].Lower = func(c *graph.Call) (*graph.Kernel, error) {
			dim, err := o.dim(c)
			if err != nil {
				return nil, err
			}
			return o.lower(c, dim, order)
		}
	}
	return list
}

// applyTo returns a function that calls rows, and sets the order in which the resulting expression processes lines.
func (order lineOrder) applyTo(rows rowsFunc) rowsFunc {
	return func(c *graph.Call) (*graph.Rows, error) {
		expression, err := rows(c)
		if expression != nil {
			expression.Direction = [...]graph.RowDirection{lineRows: graph.ByRows, lineColumns: graph.ByColumns}[order]
		}
		return expression, err
	}
}

// lineAndRun returns the axes along a line and along a run: their sizes and strides in operand and out, the metas of
// the operand and of the result.
func (o lineOp) lineAndRun(c *graph.Call, order lineOrder, operand, out tensor.Meta) (line, run axes.Axis, err error) {
	dim, err := o.dim(c)
	if err != nil {
		return line, run, err
	}
	const inOrder = true // keep the order of the elements of a line
	acrossLines, alongLine := axes.Split(axes.Dims(operand, out), lineMask(operand.Rank(), dim), inOrder)
	line = alongLine[0]
	if order == lineRows {
		return line, line, nil
	}
	run = acrossLines[0] // the axis with the least stride
	run.Size = min(run.Size, columnUnit)
	return line, run, nil
}

// lineMask returns a mask that marks the dimension of the lines, or no dimension if dim is negative.
func lineMask(rank, dim int) []bool {
	mask := make([]bool, rank)
	if rank > 0 && dim >= 0 {
		mask[dim] = true
	}
	return mask
}

// opCounts counts the operations of the expression for lines of float32. isCompiled is false if there is no expression
// or no machine code.
func (o lineOp) opCounts() (counts fusion.OpCounts, isCompiled bool) {
	if o.rows == nil || !loops.CodeAvailable() {
		return counts, false
	}
	defer func() { _ = recover() }() // rows may panic without valid attributes; then isCompiled is false
	meta := tensor.New(tensor.Float32, 2, 3)
	rows, err := o.rows(&graph.Call{In: []graph.Arg{graph.ArgOf(&graph.Value{Meta: meta, Type: meta.Type()})},
		Out:   []tensor.Meta{meta},
		Attrs: o.typicalAttrs})
	if err != nil || rows == nil {
		return counts, false
	}
	return fusion.EffortOf(rows.Code), true
}

// work returns the work of the op for an operand in the layout of the result. The function Read of impls adds the work
// of other layouts. counts and isCompiled are the results of opCounts.
func (o lineOp) work(c *graph.Call, order lineOrder, walk graph.Walk, counts fusion.OpCounts,
	isCompiled bool) graph.Work {
	work, out := graph.Work{StartedSteps: 1}, walk.ResultLayout(0, c.Out[0])
	c.AddStreamed(&work) // reads the operands and writes the results
	line, run, err := o.lineAndRun(c, order, out, out)
	if err != nil {
		return work
	}
	elements := float64(out.Numel())
	if isCompiled {
		lines := elements / float64(max(1, line.Size))
		if order == lineColumns { // the lines in a vector register count as one
			lines /= float64(max(1, min(run.Size, columnLanes)))
		}
		counts.AddTo(&work, elements, lines)
	} else {
		work.AddUnits(graph.GoSimple, elements*o.elementCost.Simple)
		work.AddUnits(graph.GoFunction, elements*o.elementCost.Function)
		work.Flops = elements * (o.elementCost.Simple + o.elementCost.Function)
	}
	if !isCompiled || order == lineColumns {
		work.AddUnits(lineBegin, elements/float64(max(1, run.Size)))
	}
	isContiguous := run.Size == 1 || run.OutStrides[0] == out.DType.Size()
	addStridedAccess(&work, out, isContiguous)
	return work
}

// addStridedAccess adds the cost of the copies of a value with the given layout if its runs are not contiguous.
func addStridedAccess(work *graph.Work, meta tensor.Meta, isContiguous bool) {
	if !isContiguous {
		work.AddUnits(lineStrided, float64(meta.Numel()))
	}
}

// dimOf returns a function that gives the dimension of a call, counted from the front.
func dimOf(dim func(c *graph.Call) int) func(c *graph.Call) (int, error) {
	return func(c *graph.Call) (int, error) { return tensor.WrapDim(dim(c), c.Meta(0).Rank()) }
}
