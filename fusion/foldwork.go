package fusion

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/tensor"
)

// This file prices loops that fold dimensions. A loop runs along rows if the fastest dimension is folded. Otherwise the
// loop runs along columns and folds many adjacent columns at the same time. The price has a cost for each element and a
// cost for each row or contiguous run of columns.

// folding describes the folded dimensions of an operand.
type folding struct {
	operandShape []int  // shape of the operand
	mask         []bool // marks the folded dimensions of splitShape
	split        int    // if not 0, the number of parts into which dimension 1 is split
}

// floatsPerRegister is the number of float32 elements of a 64-byte register. The last elements of a row are processed
// with a partly filled register.
const floatsPerRegister = 16

// foldKernel returns the name `single` if the expression has at most one fold, otherwise `several`. Both are names of
// inner kernels.
func (e Effort) foldKernel(single, several string) string {
	if e.Passes > 1 {
		return several
	}
	return single
}

// addRowLoops adds to w the work of starting and ending loops along rows. n is the number of elements of all rows
// together.
func (e Effort) addRowLoops(w *graph.Work, n, rows float64) {
	if rows <= 0 || n <= 0 || !loops.CodeAvailable() {
		return
	}
	w.DoUnoverlapped(e.foldKernel(graph.FoldRow, graph.MultipassRow), rows*e.Passes)
	// Loops over rows that fit in a register have lanes for several rows, and no tail.
	if length := n / rows; length > floatsPerRegister && math.Mod(length, floatsPerRegister) != 0 {
		w.DoUnoverlapped(e.foldKernel(graph.FoldTail, graph.MultipassTail), rows*e.Passes)
	}
}

// exampleFolding returns the dimensions that a call folds: the dimensions that its first result lacks, or the last
// dimension if the result has the shape of the operand.
func exampleFolding(c *graph.Call) folding {
	x := folding{}
	if len(c.In) == 0 || c.In[0].Kind != graph.TensorArg || len(c.Out) == 0 {
		return x
	}
	x.operandShape = c.Meta(0).Shape
	x.mask = make([]bool, len(x.operandShape))
	out, rank := c.Out[0].Shape, len(x.operandShape)
	for d := range x.mask {
		if len(out) == rank {
			x.mask[d] = out[d] != x.operandShape[d]
		} else {
			x.mask[d] = d >= len(out)
		}
	}
	if rank > 0 && slices.Equal(out, x.operandShape) {
		x.mask[rank-1] = true
	}
	return x
}

// numRows returns the number of rows.
func (x *folding) numRows() float64 {
	rows := 1.0
	for d, n := range x.splitShape() {
		if d >= len(x.mask) || !x.mask[d] {
			rows *= float64(n)
		}
	}
	return rows
}

// splitShape returns the shape with dimension 1 split.
func (x *folding) splitShape() []int {
	if x.split > 0 && len(x.operandShape) > 1 {
		return slices.Concat(x.operandShape[:1], []int{x.split, x.operandShape[1] / x.split}, x.operandShape[2:])
	}
	return x.operandShape
}

// foldsFastest reports whether the fastest dimension of m is folded. m has the shape of the operand (operandShape).
func (x *folding) foldsFastest(m tensor.Meta) bool {
	d := graph.Fastest(m)
	return d < 0 || x.isFolded(d) // d is negative if m has one element
}

// isFolded reports whether dimension d of the operand is folded. For a split dimension, the second part decides.
func (x *folding) isFolded(d int) bool {
	if x.split > 0 && d >= 1 {
		d++
	}
	return d < len(x.mask) && x.mask[d]
}

// columnTile is the approximate number of columns that the passes of a loop along columns process together.
const columnTile = 256

// columnRuns returns the number of runs of columns. A run is contiguous in m. m has the shape of the operand
// (operandShape).
func (x *folding) columnRuns(m tensor.Meta) float64 {
	n, run := m.Numel(), 1
	for {
		next := -1
		for d, s := range m.Strides {
			if s == run && m.Shape[d] > 1 && !x.isFolded(d) {
				next = d
			}
		}
		if next < 0 {
			break
		}
		run *= m.Shape[next]
	}
	return float64(n/max(1, run)) * math.Ceil(float64(run)/columnTile)
}

// addLoopStarts adds to w the work of starting rows or runs of columns of m. m has the shape of the operand
// (operandShape).
func (x *folding) addLoopStarts(w *graph.Work, e Effort, m tensor.Meta) {
	switch {
	case x.foldsFastest(m):
		e.addRowLoops(w, float64(m.Numel()), x.numRows())
	case loops.CodeAvailable():
		w.DoUnoverlapped(e.foldKernel(graph.FoldRun, graph.MultipassRun), x.columnRuns(m)*e.Passes)
	}
}

// firstFullResult returns the index of the first result with the shape operandShape. The layout of that result
// determines the direction of loops. If all results are smaller, firstFullResult returns -1, and the first operand with
// this shape determines the direction.
func (x *folding) firstFullResult(c *graph.Call) int {
	return slices.IndexFunc(c.Out, func(m tensor.Meta) bool { return slices.Equal(m.Shape, x.operandShape) })
}

// work adds to w the work of the elements. If a result determines the direction of loops, it also adds the work of
// starting the rows or runs of this result.
func (x *folding) work(w *graph.Work, e Effort, c *graph.Call, walk graph.Walk) {
	e.Do(w, float64(tensor.Numel(x.operandShape)), 0)
	if i := x.firstFullResult(c); i >= 0 && e.Folds > 0 {
		x.addLoopStarts(w, e, walk.ResultLayout(i, c.Out[i]))
	}
}

// read returns the additional work for operand i in layout m. If a result determines the direction of loops, an operand
// with another fastest dimension is transposed. Otherwise the first operand determines the direction, and its
// additional work is the work of beginning rows or runs.
func (x *folding) read(e Effort, c *graph.Call, walk graph.Walk, i int, m tensor.Meta) (w graph.Work) {
	if !slices.Equal(m.Shape, x.operandShape) {
		return w
	}
	fullResult := x.firstFullResult(c)
	if fullResult >= 0 {
		if graph.Fastest(m) != graph.Fastest(walk.ResultLayout(fullResult, c.Out[fullResult])) {
			w.Do(graph.FoldTransposed, float64(m.Numel()))
		}
		return w
	}
	first := slices.IndexFunc(c.In, func(a graph.Arg) bool {
		return a.Kind == graph.TensorArg && slices.Equal(a.Meta().Shape, x.operandShape)
	})
	if i == first {
		x.addLoopStarts(&w, e, m)
	}
	return w
}
