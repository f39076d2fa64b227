package reduce

import (
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/rowprog"
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
	attrs any                                      // attributes of a call, for its expression
	each  graph.Each                               // of what has no expression
	rows  func(c *graph.Call) (*graph.Rows, error) // the expression over a row; nil where there is none
	lower func(c *graph.Call, dim int, by lineWalk) (*graph.Kernel, error)
}

// The inner kernels of lines beside those of expressions, as profiles name them.
const (
	lineBegin   = "line.begin"   // a line, or a step of lines side by side
	lineStrided = "line.strided" // an element that is brought to or from its place in a run with steps
)

// impls lists both walks. Results are in any order.
func (o lineOp) impls() []graph.Impl {
	effort := sync.OnceValues(o.effort)
	list := []graph.Impl{
		lineRows:    {Name: "rows", Doc: "Goes along the lines one after another."},
		lineColumns: {Name: "columns", Doc: "Goes along lines side by side, hundreds at a time."},
	}
	for i := range list {
		by := lineWalk(i)
		list[i].Work = func(c *graph.Call, w graph.Walk) graph.Work {
			e, ok := effort()
			return o.work(c, by, w, e, ok)
		}
		list[i].Read = func(c *graph.Call, w graph.Walk, _ int, m tensor.Meta) (work graph.Work, ok bool) {
			_, run, _ := o.runs(c, by, m, w.Lay(0, c.Out[0]))
			stridden(&work, m, run.N == 1 || run.In == m.DType.Size())
			return work, true
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
			r.Way = [...]rowprog.Way{lineRows: rowprog.ByRows, lineColumns: rowprog.ByColumns}[by]
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

// effort is that of the expression over a row of float32; false where there is none, or no machine code.
func (o lineOp) effort() (e graph.Effort, ok bool) {
	if o.rows == nil || !loops.Compiles() {
		return e, false
	}
	defer func() { _ = recover() }() // of an op whose attributes have no zero values
	m := tensor.New(tensor.Float32, 2, 3)
	r, err := o.rows(&graph.Call{In: []graph.Arg{graph.Of(&graph.Value{Meta: m, Type: m.Type()})}, Out: []tensor.Meta{m},
		Attrs: o.attrs})
	if err != nil || r == nil {
		return e, false
	}
	return graph.EffortOf(r.Code), true
}

// work is what the lines take, as if the operand lay as the result does.
func (o lineOp) work(c *graph.Call, by lineWalk, w graph.Walk, e graph.Effort, compiled bool) graph.Work {
	work, out := graph.Work{Steps: 1}, w.Lay(0, c.Out[0])
	c.Streamed(&work)
	line, run, err := o.runs(c, by, out, out)
	if err != nil {
		return work
	}
	n := float64(out.Numel())
	if compiled {
		rows := n / float64(max(1, line.N))
		if by == lineColumns {
			rows /= float64(max(1, min(run.N, columnLanes)))
		}
		e.Do(&work, n, rows)
	} else {
		work.Do(graph.GoSimple, n*o.each.Simple)
		work.Do(graph.GoFunction, n*o.each.Function)
		work.Flops = n * (o.each.Simple + o.each.Function)
	}
	if !compiled || by == lineColumns {
		work.Do(lineBegin, n/float64(max(1, run.N)))
	}
	stridden(&work, out, run.N == 1 || run.Out[0] == out.DType.Size())
	return work
}

// columnLanes is how many lines side by side are one register.
const columnLanes = 16

// stridden adds what it takes more that a value is gone through by runs with steps.
func stridden(w *graph.Work, m tensor.Meta, dense bool) {
	if !dense {
		w.Do(lineStrided, float64(m.Numel()))
	}
}

// dimOf reads the dimension of a call.
func dimOf(dim func(c *graph.Call) int) func(c *graph.Call) (int, error) {
	return func(c *graph.Call) (int, error) { return tensor.WrapDim(dim(c), c.Meta(0).Rank()) }
}
