package graph

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/tensor"
)

// folding is what is folded: along which dimensions of a shape, of which dimension 1 is split in so many parts where
// that is not 0.
type folding struct {
	full  []int
	mask  []bool
	split int
}

// lanes are the elements of a register: a row is gone over by whole ones, and what is left by a part of one.
const lanes = 16

// either is the inner kernel of one sweep over rows, or that of several.
func (e Effort) either(one, several string) string {
	if e.Sweeps > 1 {
		return several
	}
	return one
}

// along adds what it takes more that loops go along so many rows of n elements in all.
func (e Effort) along(w *Work, n, rows float64) {
	if rows <= 0 || n <= 0 || !loops.Compiles() {
		return
	}
	w.Wait(e.either(FoldedRow, SweepRow), rows*e.Sweeps)
	if math.Mod(n/rows, lanes) != 0 {
		w.Wait(e.either(FoldTail, SweepTail), rows*e.Sweeps)
	}
}

// foldsOf tells what a call of an op that folds does: along the dimensions that its first result has not, or else along
// the last one.
func (o *Op) foldsOf(c *Call) folding {
	x := folding{}
	if len(c.In) == 0 || c.In[0].Kind != TensorArg || len(c.Out) == 0 {
		return x
	}
	x.full = c.Meta(0).Shape
	x.mask = make([]bool, len(x.full))
	out, rank := c.Out[0].Shape, len(x.full)
	for d := range x.mask {
		if len(out) == rank {
			x.mask[d] = out[d] != x.full[d]
		} else {
			x.mask[d] = d >= len(out)
		}
	}
	if rank > 0 && slices.Equal(out, x.full) {
		x.mask[rank-1] = true
	}
	return x
}

// rows is how many there are.
func (x *folding) rows() float64 {
	rows := 1.0
	for d, n := range x.seen() {
		if d >= len(x.mask) || !x.mask[d] {
			rows *= float64(n)
		}
	}
	return rows
}

// seen is the shape with dimension 1 split.
func (x *folding) seen() []int {
	if x.split > 0 && len(x.full) > 1 {
		return slices.Concat(x.full[:1], []int{x.split, x.full[1] / x.split}, x.full[2:])
	}
	return x.full
}

// reduces reports whether a value of the whole shape has its elements along a dimension that is folded.
func (x *folding) reduces(m tensor.Meta) bool {
	d := fastest(m)
	return d < 0 || x.folded(d) // one element
}

// folded reports whether a dimension is folded: of one that is split, its second part.
func (x *folding) folded(d int) bool {
	if x.split > 0 && d >= 1 {
		d++
	}
	return d < len(x.mask) && x.mask[d]
}

// columnTile is how many columns of several sweeps go together, about.
const columnTile = 256

// runs is how many runs of elements side by side a value of the whole shape has where loops go along columns.
func (x *folding) runs(m tensor.Meta) float64 {
	n, side := m.Numel(), 1
	for {
		next := -1
		for d, s := range m.Strides {
			if s == side && m.Shape[d] > 1 && !x.folded(d) {
				next = d
			}
		}
		if next < 0 {
			break
		}
		side *= m.Shape[next]
	}
	return float64(n/max(1, side)) * math.Ceil(float64(side)/columnTile)
}

// begins adds what begins rows or runs of columns, as a value of the whole shape lies.
func (x *folding) begins(w *Work, e Effort, m tensor.Meta) {
	switch {
	case x.reduces(m):
		e.along(w, float64(m.Numel()), x.rows())
	case loops.Compiles():
		w.Wait(e.either(FoldedRun, SweepRun), x.runs(m)*e.Sweeps)
	}
}

// whole is the place of the first result of the whole shape, which leads; -1: results are rows' alone, and operands
// lead.
func (x *folding) whole(c *Call) int {
	return slices.IndexFunc(c.Out, func(m tensor.Meta) bool { return slices.Equal(m.Shape, x.full) })
}

// work adds what the elements take, and where a result leads what begins its rows or runs.
func (x *folding) work(w *Work, e Effort, c *Call, walk Walk) {
	e.Do(w, float64(tensor.Numel(x.full)), 0)
	if i := x.whole(c); i >= 0 && e.Folds > 0 {
		x.begins(w, e, walk.Lay(i, c.Out[i]))
	}
}

// read is what it takes more that operand i has layout m: where a result leads, to turn it, else what begins rows or
// runs.
func (x *folding) read(e Effort, c *Call, walk Walk, i int, m tensor.Meta) (w Work) {
	if !slices.Equal(m.Shape, x.full) {
		return w
	}
	lead := x.whole(c)
	if lead >= 0 {
		if fastest(m) != fastest(walk.Lay(lead, c.Out[lead])) {
			w.Do(FoldTurned, float64(m.Numel()))
		}
		return w
	}
	first := slices.IndexFunc(c.In, func(a Arg) bool {
		return a.Kind == TensorArg && slices.Equal(a.Meta().Shape, x.full)
	})
	if i == first {
		x.begins(&w, e, m)
	}
	return w
}

// read is that of implementations that do not tell.
func (o *Op) read(c *Call, w Walk, i int, m tensor.Meta) (Work, bool) {
	if e, ok := o.effortOf(); ok && e.Folds > 0 && len(c.Out) > 0 && o.Flops == nil {
		x := o.foldsOf(c)
		return x.read(e, c, w, i, m), true
	}
	return readAny(c, w, i, m)
}
