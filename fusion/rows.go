package fusion

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/rowprog"
	"github.com/graphrun/graphrun/iter/rule"
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
