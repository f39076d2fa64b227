package reduce

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/axes"
	"github.com/graphrun/graphrun/iter/sweeps"
	"github.com/graphrun/graphrun/tensor"
)

// lineWalk is how an op goes through the lines that it works along.
type lineWalk uint8

const (
	lineRows    lineWalk = iota // one after another
	lineColumns                 // many side by side, element by element
)

// lineOp is an op that works along one dimension and keeps the shape.
type lineOp struct {
	dim   func(c *graph.Call) (int, error)
	each  graph.Each
	again float64 // functions an element that are computed again where results are not side by side
	lower func(c *graph.Call, dim int, by lineWalk) (*graph.Kernel, error)
}

// What lines take besides what their elements do, in simple operations (measured).
const (
	beginLine  = 25 // to begin a line, or a step of lines side by side
	stridedRun = 2  // to bring an element to or from its place in a run with steps
)

// impls lists both walks. Results are in any order.
func (o lineOp) impls() []graph.Impl {
	list := []graph.Impl{
		lineRows:    {Name: "rows", Doc: "Goes along the lines one after another."},
		lineColumns: {Name: "columns", Doc: "Goes along lines side by side, hundreds at a time."},
	}
	for i := range list {
		by := lineWalk(i)
		list[i].Work = func(c *graph.Call, w graph.Walk) graph.Work { return o.work(c, by, w) }
		list[i].Read = func(c *graph.Call, w graph.Walk, _ int, m tensor.Meta) (graph.Work, bool) {
			_, run, _ := o.runs(c, by, m, w.Lay(0, c.Out[0]))
			return runWork(m, run.N == 1 || run.In == m.DType.Size()), true
		}
		list[i].Lower = func(c *graph.Call) (*graph.Kernel, error) {
			dim, err := o.dim(c)
			if err != nil {
				return nil, err
			}
			return o.lower(c, dim, by)
		}
	}
	return list
}

// rows has the rows of a call gone through as the walk says.
func (by lineWalk) rows(rows func(c *graph.Call) (*graph.Rows, error)) func(c *graph.Call) (*graph.Rows, error) {
	return func(c *graph.Call) (*graph.Rows, error) {
		r, err := rows(c)
		if r != nil {
			r.Way = [...]sweeps.Way{lineRows: sweeps.ByRows, lineColumns: sweeps.ByColumns}[by]
		}
		return r, err
	}
}

// runs returns the lines of a call, and the runs of elements by which a walk goes through operand and result.
func (o lineOp) runs(c *graph.Call, by lineWalk, m, out tensor.Meta) (line, run axes.Axis, err error) {
	dim, err := o.dim(c)
	if err != nil {
		return line, run, err
	}
	kept, lines := axes.Split(axes.Dims(m, out), lineMask(m.Rank(), dim), true)
	if by == lineRows {
		return lines[0], lines[0], nil
	}
	run = kept[0]
	run.N = min(run.N, columnUnit)
	return lines[0], run, nil
}

// lineMask marks the dimension of the lines; none if dim is negative.
func lineMask(rank, dim int) []bool {
	mask := make([]bool, rank)
	if rank > 0 && dim >= 0 {
		mask[dim] = true
	}
	return mask
}

func (o lineOp) work(c *graph.Call, by lineWalk, w graph.Walk) graph.Work {
	out := w.Lay(0, c.Out[0])
	_, run, err := o.runs(c, by, out, out) // how the operand lies is priced where it is read
	if err != nil {
		return graph.Work{Steps: 1}
	}
	n, dense := float64(out.Numel()), run.N == 1 || run.Out[0] == out.DType.Size()
	work := runWork(out, dense)
	work.Steps = 1
	work.Ops[graph.Simple] += n*o.each.Simple + n/float64(max(1, run.N))*beginLine
	work.Ops[graph.Function] = n * o.each.Function
	if by == lineColumns && !dense {
		work.Ops[graph.Function] += n * o.again
	}
	return work
}

// runWork is the work of going through a value by runs.
func runWork(m tensor.Meta, dense bool) (w graph.Work) {
	if dense {
		w.Bytes[graph.Dense] = float64(m.Bytes())
		return w
	}
	w.Bytes[graph.Strided] = float64(m.Bytes())
	w.Ops[graph.Simple] = float64(m.Numel()) * stridedRun
	return w
}

// dimOf reads the dimension of a call.
func dimOf(dim func(c *graph.Call) int) func(c *graph.Call) (int, error) {
	return func(c *graph.Call) (int, error) { return tensor.WrapDim(dim(c), c.Meta(0).Rank()) }
}
