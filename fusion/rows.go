package fusion

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/rowprog"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// LowerRows returns the kernel of a row program, an expression that folds (reduces) rows: see [graph.Rows]. A row has
// the elements along the dimensions that rows.Mask marks. These are dimensions of the shape to which all operands are
// broadcast. Loops without machine code are interpreted. LowerRows expands the layouts of all operands and outputs to
// the dimensions of this shape ([RowMetas]), compiles the program for these layouts (package rowprog), and translates
// the plan to the phases of a kernel.
func LowerRows(rows *graph.Rows, call *graph.Call) (*graph.Kernel, error) {
	plan, err := planRows(rows, call)
	if err != nil {
		return nil, err
	}
	return rowKernel(rows, call, plan), nil
}

// CompileRows does the work of [LowerRows] for ops that have another kernel. It returns a nil kernel and a nil error if
// the op should use the other kernel: if a loop has no machine code, or if a worker would need more than 4 MiB for
// stored rows.
func CompileRows(rows *graph.Rows, call *graph.Call) (*graph.Kernel, error) {
	plan, err := planRows(rows, call)
	if err != nil || !plan.Compiled() || plan.WorkerScratch() > rowWorkerBytes {
		return nil, err
	}
	return rowKernel(rows, call, plan), nil
}

// rowWorkerBytes is the maximum memory of a worker for stored rows, in bytes. If rows need more memory, [CompileRows]
// leaves the call to another kernel.
const rowWorkerBytes = 4 << 20

// planRows compiles the row program for the layouts of the call.
func planRows(rows *graph.Rows, call *graph.Call) (rowPlan, error) {
	outs, ins, err := RowMetas(rows, call)
	if err != nil {
		return nil, err
	}
	fullShape, direction := rowShapeOf(rows, call), rowprogDirection[rows.Direction]
	// Rows are cut into pieces if they are too long, or if there are too few of them for all workers. Several workers
	// can then share a row. SplitsRows reports such rows. If UnsuitedReason is not empty, another kernel is better than
	// a row program. If the row program is used nevertheless, its rows are cut, too. NewPieces returns nil if the
	// program cannot be cut into pieces.
	if rows.SplitsRows(fullShape) || rows.UnsuitedReason(fullShape) != "" {
		if pieces, err := rowprog.NewPieces(rows.Code, outs, ins, rows.Mask, direction); pieces != nil || err != nil {
			return pieces, err
		}
	}
	return rowprog.New(rows.Code, outs, ins, rows.Mask, direction)
}

// rowPlan is a compiled row program: a [rowprog.Plan], or a [rowprog.Pieces] if rows are cut into pieces.
type rowPlan interface {
	Phases() int          // number of phases, which run one after another
	Chunks(phase int) int // number of chunks of a phase, which may run concurrently
	Scratch() int         // size in bytes of the memory that all chunks share
	WorkerScratch() int   // size in bytes of the memory of each worker
	Compiled() bool       // whether all loops are machine code
	ElementNS() float64   // time for one element in nanoseconds
	FoldOrder() string    // see graph.Kernel
	InPlace() [][2]int    // pairs of indices, of an output and of an operand that it may overwrite
	Listings() []expr.Listing
	// Run runs a chunk. ptrs has the addresses of the outputs, followed by the addresses of the operands.
	Run(s *rowprog.State, phase, chunk int, ptrs []unsafe.Pointer, scratch, worker []byte) error
}

// rowprogDirection translates the loop directions of package graph to package rowprog.
var rowprogDirection = [...]rowprog.Direction{graph.AnyDirection: rowprog.AnyDirection, graph.ByRows: rowprog.ByRows,
	graph.ByColumns: rowprog.ByColumns}

// rowShapeOf returns the shape to which all operands are broadcast.
func rowShapeOf(rows *graph.Rows, call *graph.Call) []int {
	if rows.Shape != nil {
		return rows.Shape
	}
	return call.Meta(0).Shape
}

// RowMetas returns the layouts of the outputs and operands of a row program, for a call. rows.Mask has an entry for
// each dimension of the layouts: true if rows extend along the dimension. If a value is broadcast or reduced along a
// dimension, the dimension has size 1 or stride 0. For example, a mean of x [2, 6, 4] over the last dimension has the
// operand [2, 6, 4] and the output [2, 6, 1]. For a group norm of x with 3 ChannelGroups, the operand is [2, 3, 2, 4]:
// 3 groups of 2 channels.
func RowMetas(rows *graph.Rows, call *graph.Call) (outs, ins []tensor.Meta, err error) {
	if rows == nil || rows.Code == nil || call == nil {
		return nil, nil, errors.New("a row program needs a call and an expression")
	}
	fullShape := rowShapeOf(rows, call)
	groups := rows.ChannelGroups
	if groups != 0 && (groups < 0 || len(fullShape) < 2 || fullShape[1]%groups != 0) {
		return nil, nil, fmt.Errorf("dimension 1 of shape %s cannot be split into %d parts", tensor.ListString(fullShape),
			groups)
	}
	if len(rows.Mask) != rows.Rank(len(fullShape)) {
		return nil, nil, fmt.Errorf("a mask of %d dimensions does not fit shape %s", len(rows.Mask),
			tensor.ListString(fullShape))
	}
	for i := range call.Out {
		meta, err := rowOutMeta(rows, call, i, fullShape)
		if err != nil {
			return nil, nil, err
		}
		outs = append(outs, meta)
	}
	for k := range rows.In {
		meta, err := rowInMeta(rows, call, k, fullShape)
		if err != nil {
			return nil, nil, err
		}
		ins = append(ins, meta)
	}
	return outs, ins, nil
}

// rowOutMeta returns the layout of output i of a row program.
func rowOutMeta(rows *graph.Rows, call *graph.Call, i int, fullShape []int) (meta tensor.Meta, err error) {
	meta = call.Out[i]
	keepsDims := meta.Rank() == len(fullShape) // reduced dimensions have size 1; otherwise they are absent
	switch {
	case slices.Equal(meta.Shape, fullShape):
		return splitRows(rows, meta), nil
	case rows.ChannelGroups != 0:
		return meta, fmt.Errorf("result %d has shape %s, not the shape of the operand", i, tensor.ListString(meta.Shape))
	case !slices.Equal(meta.Shape, rule.ReduceShape(fullShape, rows.Mask, keepsDims)):
		return meta, fmt.Errorf("result %d has shape %s, neither the operand's shape nor its reduced shape", i,
			tensor.ListString(meta.Shape))
	}
	return rule.ReduceOutput(meta, rows.Mask, keepsDims), nil
}

// rowInMeta returns the layout of operand k of a row program.
func rowInMeta(rows *graph.Rows, call *graph.Call, k int, fullShape []int) (meta tensor.Meta, err error) {
	i := rows.In[k]
	if i < 0 || i >= len(call.In) || call.In[i].Kind != graph.TensorArg {
		return meta, errors.New("an operand of a row program is not a tensor")
	}
	meta = call.Meta(i)
	if rows.IsAlongChannels(k) {
		if meta.Rank() != 1 || len(fullShape) < 2 {
			return meta, fmt.Errorf("operand %d of shape %s is not a vector along dimension 1", i,
				tensor.ListString(meta.Shape))
		}
		meta = alongChannels(meta, len(fullShape))
	}
	if meta, err = meta.Expand(fullShape); err != nil {
		return meta, err
	}
	return splitRows(rows, meta), nil
}

// alongChannels returns a vector as a value of the given rank whose dimension 1 is the vector.
func alongChannels(meta tensor.Meta, rank int) tensor.Meta {
	shape, strides := slices.Repeat([]int{1}, rank), make([]int, rank)
	shape[1], strides[1] = meta.Shape[0], meta.Strides[0]
	meta.Shape, meta.Strides = shape, strides
	return meta
}

// splitRows returns meta, a value of the full shape, with dimension 1 split into rows.ChannelGroups parts.
func splitRows(rows *graph.Rows, meta tensor.Meta) tensor.Meta {
	if rows.ChannelGroups == 0 {
		return meta
	}
	size := meta.Shape[1] / rows.ChannelGroups
	meta.Shape = slices.Concat(meta.Shape[:1], []int{rows.ChannelGroups, size}, meta.Shape[2:])
	meta.Strides = slices.Concat(meta.Strides[:1], []int{meta.Strides[1] * size, meta.Strides[1]}, meta.Strides[2:])
	return meta
}

// rowKernel returns the kernel of a plan.
func rowKernel(rows *graph.Rows, call *graph.Call, plan rowPlan) *graph.Kernel {
	runner := &rowRunner{plan: plan, operands: rows.In, numOuts: len(call.Out), numAddresses: len(call.Out) + len(call.In)}
	kernel := &graph.Kernel{Scratch: plan.Scratch(), WorkerScratch: plan.WorkerScratch(), Code: plan.Listings}
	kernel.FoldOrder = plan.FoldOrder()
	kernel.Arithmetic = plan.ElementNS() * float64(tensor.Numel(rowShapeOf(rows, call))) // in nanoseconds
	for phase := range plan.Phases() {
		run := func(m *graph.Mem, chunk int) error { return runner.run(m, phase, chunk) }
		kernel.Phases = append(kernel.Phases, graph.Phase{Chunks: plan.Chunks(phase), Run: run})
	}
	// plan.InPlace compares layouts in the shape of the rows. If the call has different shapes, memory is not shared.
	for _, pair := range plan.InPlace() {
		out, in := pair[0], rows.In[pair[1]]
		if slices.Equal(call.Meta(in).Shape, call.Out[out].Shape) {
			kernel.InPlace = append(kernel.InPlace, graph.InPlace{Out: out, In: in})
		}
	}
	return kernel
}

// rowRunner runs the chunks of a kernel.
type rowRunner struct {
	plan         rowPlan
	operands     []int // for each operand of the plan: index of the operand of the call
	numOuts      int   // number of results
	numAddresses int   // number of results and operands
	state        graph.PerWorker[rowState]
}

// rowState is the state of a worker in a plan.
type rowState struct {
	rowprog.State
	ptrs []unsafe.Pointer
}

// run runs a chunk of a phase of the plan.
func (w *rowRunner) run(m *graph.Mem, phase, chunk int) error {
	if len(m.Ptrs) < w.numAddresses {
		return fmt.Errorf("got %d of %d addresses", len(m.Ptrs), w.numAddresses)
	}
	state := w.state.Get(m)
	state.ptrs = append(state.ptrs[:0], m.Ptrs[:w.numOuts]...) // Ptrs has the results and then the operands of the call
	for _, i := range w.operands {
		state.ptrs = append(state.ptrs, m.Ptrs[w.numOuts+i])
	}
	state.Context = m.Context
	err := w.plan.Run(&state.State, phase, chunk, state.ptrs, m.Scratch, m.WorkerScratch)
	clear(state.ptrs) // so that the addresses keep no memory alive
	return err
}

// This part estimates the work of loops that fold (reduce) dimensions of an operand. A row consists of the elements
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
func (fold *folding) addWork(total *pricing.Work, counts OpCounts, call *graph.Call, walk graph.Walk) {
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
	meta tensor.Meta) (work pricing.Work) {
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
func (fold *folding) addLoopStarts(work *pricing.Work, counts OpCounts, meta tensor.Meta) {
	switch {
	case fold.foldsFastest(meta):
		counts.addRowLoops(work, float64(meta.Numel()), fold.rows)
	case loops.CodeAvailable(): // machine code runs along columns
		work.AddUnoverlapped(counts.foldKernel(graph.FoldRun, graph.MultipassRun), fold.columnRuns(meta)*counts.Passes)
	}
}

// addRowLoops adds the work of starting and ending loops along rows. elements is the number of elements of all rows.
func (e OpCounts) addRowLoops(work *pricing.Work, elements, rows float64) {
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
