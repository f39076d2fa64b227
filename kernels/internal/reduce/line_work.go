package reduce

import (
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes the work of the implementations of a [lineOp], from which the planner estimates their time.
//
// A run has the elements that a loop accesses one after another. By rows, a run is a line. By columns, a run has one
// element of each of up to columnUnit adjacent lines. For example, an operand [2, 3, 500] has 500 adjacent lines along
// dimension 1 at index 0 of dimension 0. For each of the 3 steps, these lines have two runs, of 256 and 244 elements.

// Names of units of work. A machine profile has the measured time of each unit. Expressions have other units.
const (
	lineBegin   = "line.begin"   // the start of a run
	lineStrided = "line.strided" // an element that is copied because its run is not contiguous
)

// columnLanes is the number of adjacent lines that a vector register holds.
const columnLanes = 16

// work returns the work of the op for an operand in the layout of the result. readWork adds the work of other layouts.
// The argument opCounts calls o.opCounts once and caches the results, because o.opCounts builds the expression.
func (o lineOp) work(c *graph.Call, direction graph.RowDirection, walk graph.Walk,
	opCounts func() (counts fusion.OpCounts, isCompiled bool)) pricing.Work {
	work, out := pricing.Work{StartedSteps: 1}, walk.ResultLayout(0, c.Out[0])
	c.AddStreamed(&work) // reads the operands and writes the results
	line, run, err := o.lineAndRun(c, direction, out, out)
	if err != nil {
		return work
	}
	elements := float64(out.Numel())
	counts, isCompiled := opCounts()
	if isCompiled {
		lines := elements / float64(max(1, line.Size))
		if direction == graph.ByColumns { // the lines in one vector register count as one line
			lines /= float64(max(1, min(run.Size, columnLanes)))
		}
		counts.AddTo(&work, elements, lines)
	} else {
		work.AddUnits(graph.GoSimple, elements*o.elementCost.Simple)
		work.AddUnits(graph.GoFunction, elements*o.elementCost.Function)
		work.Flops = elements * (o.elementCost.Simple + o.elementCost.Function)
	}
	if !isCompiled || direction == graph.ByColumns {
		work.AddUnits(lineBegin, elements/float64(max(1, run.Size)))
	}
	addStridedAccess(&work, out, run)
	return work
}

// readWork returns the work of reading the operand in another layout than the layout of the result.
func (o lineOp) readWork(c *graph.Call, direction graph.RowDirection, walk graph.Walk,
	operand tensor.Meta) (work pricing.Work) {
	_, run, _ := o.lineAndRun(c, direction, operand, walk.ResultLayout(0, c.Out[0]))
	addStridedAccess(&work, operand, run)
	return work
}

// addStridedAccess adds the cost of the copies of an operand with the given layout if its runs are not contiguous.
func addStridedAccess(work *pricing.Work, operand tensor.Meta, run axes.Axis) {
	if isContiguous := run.Size == 1 || run.InStride == operand.DType.Size(); !isContiguous {
		work.AddUnits(lineStrided, float64(operand.Numel()))
	}
}

// lineAndRun returns the axes along a line and along a run. An axis has a size, and strides in the layouts operand and
// out.
func (o lineOp) lineAndRun(c *graph.Call, direction graph.RowDirection, operand, out tensor.Meta) (line, run axes.Axis,
	err error) {
	dim, err := o.wrappedDim(c)
	if err != nil {
		return line, run, err
	}
	const inOrder = true // keep the order of the elements of a line
	acrossLines, alongLine := axes.Split(axes.Dims(operand, out), lineMask(operand.Rank(), dim), inOrder)
	line = alongLine[0]
	if direction == graph.ByRows {
		return line, line, nil
	}
	run = acrossLines[0] // the axis with the least stride
	run.Size = min(run.Size, columnUnit)
	return line, run, nil
}

// opCounts counts the operations of the expression for lines of float32. isCompiled is false if there is no expression
// or no machine code.
func (o lineOp) opCounts() (counts fusion.OpCounts, isCompiled bool) {
	if o.rows == nil || !loops.CodeAvailable() {
		return counts, false
	}
	meta := tensor.New(tensor.Float32, 2, 3)
	rows, err := o.rows(&graph.Call{In: []graph.Arg{graph.ArgOf(&graph.Value{Meta: meta, Type: meta.Type()})},
		Out: []tensor.Meta{meta}, Attrs: o.typicalAttrs})
	if err != nil || rows == nil {
		return counts, false
	}
	return fusion.EffortOf(rows.Code), true
}
