package fusion

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/tensor"
)

// This file estimates the work of loops that fold (reduce) dimensions of an operand. A row consists of the elements
// along the folded dimensions. A loop runs along rows if the fastest dimension is folded. Otherwise the loop runs along
// columns and folds many adjacent columns at the same time. There is work for each element, and for each row or
// contiguous run of columns. With a row-major operand [64, 100], for example, a sum along dimension 1 starts 64 rows,
// and a sum along dimension 0 starts 64 runs of 100 columns. AddUnoverlapped adds work that does not overlap with
// memory access, such as starting a row.
//
// [OpCounts] has the operations of the expression: Folds is the number of folds for each element, and Passes is the
// number of passes over each row.

// folding describes the folded dimensions of an operand.
type folding struct {
	operandShape []int   // shape of the operand
	folded       []bool  // marks the folded dimensions
	rows         float64 // number of rows
}

// noSplit is the argument split of newFolding if the mask is for the shape of the operand.
const noSplit = 0

// newFolding returns the folding of the dimensions that mask marks. Unless split is noSplit, mask is for a shape whose
// dimension 1 is split into `split` parts. For example, the operand [2, 6, 4] with split 3 has the split shape [2, 3,
// 2, 4], and the mask [false, false, true, true] folds it to 6 rows. Dimension 1 of the operand then counts as folded,
// because the mask folds the faster of the two dimensions into which it is split.
func newFolding(operandShape []int, mask []bool, split int) folding {
	fold, splitShape := folding{operandShape: operandShape, folded: mask, rows: 1}, operandShape
	if split > noSplit && len(operandShape) > 1 && len(mask) > 1 {
		splitShape = slices.Concat(operandShape[:1], []int{split, operandShape[1] / split}, operandShape[2:])
		fold.folded = slices.Delete(slices.Clone(mask), 1, 2)
	}
	for dim, size := range splitShape {
		if dim >= len(mask) || !mask[dim] {
			fold.rows *= float64(size)
		}
	}
	return fold
}

// foldingOf guesses the folded dimensions of a call from its shapes. They are the dimensions that the first result
// lacks. If this result has the shape of the operand, the last dimension is folded.
func foldingOf(call *graph.Call) folding {
	if len(call.In) == 0 || call.In[0].Kind != graph.TensorArg || len(call.Out) == 0 {
		return newFolding(nil, nil, noSplit)
	}
	shape, out := call.Meta(0).Shape, call.Out[0].Shape
	mask, rank := make([]bool, len(shape)), len(shape)
	for dim := range mask {
		if len(out) == rank {
			mask[dim] = out[dim] != shape[dim]
		} else {
			mask[dim] = dim >= len(out)
		}
	}
	if rank > 0 && slices.Equal(out, shape) {
		mask[rank-1] = true
	}
	return newFolding(shape, mask, noSplit)
}

// addWork adds the work of the elements to total. If a result determines the direction of loops, it also adds the work
// of starting the rows or runs of this result. walk has the loop order and the layouts of the results.
func (fold *folding) addWork(total *graph.Work, counts OpCounts, call *graph.Call, walk graph.Walk) {
	const rows = 0 // addLoopStarts adds the work of starting rows
	counts.AddTo(total, float64(tensor.Numel(fold.operandShape)), rows)
	if i := fold.firstFullResult(call); i >= 0 && counts.Folds > 0 {
		fold.addLoopStarts(total, counts, walk.ResultLayout(i, call.Out[i]))
	}
}

// read returns the additional work for operand i in layout meta. If a result determines the direction of loops, an
// operand with another fastest dimension is transposed. Otherwise the first operand determines the direction; its
// additional work is the starts of rows or runs.
func (fold *folding) read(counts OpCounts, call *graph.Call, walk graph.Walk, i int,
	meta tensor.Meta) (work graph.Work) {
	if !slices.Equal(meta.Shape, fold.operandShape) {
		return work
	}
	fullResult := fold.firstFullResult(call)
	if fullResult >= 0 {
		if graph.Fastest(meta) != graph.Fastest(walk.ResultLayout(fullResult, call.Out[fullResult])) {
			work.AddUnits(graph.FoldTransposed, float64(meta.Numel()))
		}
		return work
	}
	first := slices.IndexFunc(call.In, func(a graph.Arg) bool {
		return a.Kind == graph.TensorArg && slices.Equal(a.Meta().Shape, fold.operandShape)
	})
	if i == first {
		fold.addLoopStarts(&work, counts, meta)
	}
	return work
}

// firstFullResult returns the index of the first result with the shape operandShape. The layout of that result
// determines the direction of loops. If all results are smaller, firstFullResult returns -1, and the first operand with
// this shape determines the direction.
func (fold *folding) firstFullResult(call *graph.Call) int {
	return slices.IndexFunc(call.Out, func(meta tensor.Meta) bool { return slices.Equal(meta.Shape, fold.operandShape) })
}

// addLoopStarts adds the work of starting rows or runs of columns of meta. meta has the shape of the operand
// (operandShape).
func (fold *folding) addLoopStarts(work *graph.Work, counts OpCounts, meta tensor.Meta) {
	switch {
	case fold.foldsFastest(meta):
		counts.addRowLoops(work, float64(meta.Numel()), fold.rows)
	case loops.CodeAvailable(): // machine code runs along columns
		work.AddUnoverlapped(counts.foldKernel(graph.FoldRun, graph.MultipassRun), fold.columnRuns(meta)*counts.Passes)
	}
}

// addRowLoops adds the work of starting and ending loops along rows. elements is the number of elements of all rows.
func (e OpCounts) addRowLoops(work *graph.Work, elements, rows float64) {
	if rows <= 0 || elements <= 0 || !loops.CodeAvailable() {
		return
	}
	work.AddUnoverlapped(e.foldKernel(graph.FoldRow, graph.MultipassRow), rows*e.Passes)
	// If a row fits in a register, the lanes of the register belong to several rows, and there is no tail.
	if length := elements / rows; length > floatsPerRegister && math.Mod(length, floatsPerRegister) != 0 {
		work.AddUnoverlapped(e.foldKernel(graph.FoldTail, graph.MultipassTail), rows*e.Passes)
	}
}

// floatsPerRegister is the number of float32 elements of a 64-byte register. The last elements of a row are processed
// with a partly filled register.
const floatsPerRegister = 16

// columnRuns returns the number of runs of at most columnTile columns. A run is contiguous in meta, which has the shape
// of the operand (operandShape).
func (fold *folding) columnRuns(meta tensor.Meta) float64 {
	elements, runLength := meta.Numel(), 1
	for { // extend the run by the dimension whose stride is the length so far
		next := -1
		for dim, stride := range meta.Strides {
			if stride == runLength && meta.Shape[dim] > 1 && !fold.isFolded(dim) {
				next = dim
			}
		}
		if next < 0 {
			break
		}
		runLength *= meta.Shape[next]
	}
	return float64(elements/max(1, runLength)) * math.Ceil(float64(runLength)/columnTile)
}

// columnTile is the approximate number of columns that a loop along columns processes together.
const columnTile = 256

// foldKernel selects the name of an inner kernel of the cost profile: `single` if the loop passes over a row at most
// once, otherwise `several`.
func (e OpCounts) foldKernel(single, several string) string {
	if e.Passes > 1 {
		return several
	}
	return single
}

// foldsFastest reports whether the fastest dimension of meta is folded. meta has the shape of the operand
// (operandShape).
func (fold *folding) foldsFastest(meta tensor.Meta) bool {
	dim := graph.Fastest(meta)
	return dim < 0 || fold.isFolded(dim) // dim is negative if meta has one element
}

// isFolded reports whether a dimension of the operand is folded.
func (fold *folding) isFolded(dim int) bool { return dim < len(fold.folded) && fold.folded[dim] }
