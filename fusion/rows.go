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

// rowWorkerBytes is the maximum memory of a worker for stored rows, in bytes. If rows need more memory, [CompileRows]
// leaves the call to another kernel.
const rowWorkerBytes = 4 << 20

// LowerRows returns the kernel of a row program, an expression that folds rows: see [graph.Rows]. Loops without machine
// code are interpreted.
func LowerRows(r *graph.Rows, call *graph.Call) (*graph.Kernel, error) {
	plan, err := planRows(r, call)
	if err != nil {
		return nil, err
	}
	return rowKernel(r, call, plan), nil
}

// CompileRows is [LowerRows] for ops that have another kernel. It returns nil without an error if a loop has no machine
// code, or if a worker would need more than 4 MiB for stored rows. The op then uses its other kernel.
func CompileRows(r *graph.Rows, call *graph.Call) (*graph.Kernel, error) {
	plan, err := planRows(r, call)
	if err != nil || !plan.Compiled() || plan.WorkerScratch() > rowWorkerBytes {
		return nil, err
	}
	return rowKernel(r, call, plan), nil
}

// rowprogDirection translates the loop directions of package graph to package rowprog.
var rowprogDirection = [...]rowprog.Direction{graph.AnyDirection: rowprog.AnyDirection, graph.ByRows: rowprog.ByRows,
	graph.ByColumns: rowprog.ByColumns}

// rowPlan is a compiled row program: a [rowprog.Plan], or a [rowprog.Pieces] if rows are cut into pieces. InPlace lists
// pairs of indices, of an output and of an operand that it may overwrite.
type rowPlan interface {
	Phases() int
	Chunks(phase int) int
	Scratch() int
	WorkerScratch() int
	Compiled() bool
	ElementNS() float64
	InPlace() [][2]int
	Listings() []expr.Listing
	Run(s *rowprog.State, phase, chunk int, ptrs []unsafe.Pointer, scratch, worker []byte) error
}

// rowKernel returns the kernel of a plan.
func rowKernel(r *graph.Rows, call *graph.Call, plan rowPlan) *graph.Kernel {
	runner := &rowRunner{plan: plan, operands: r.In, numOuts: len(call.Out), numAddresses: len(call.Out) + len(call.In)}
	kernel := &graph.Kernel{Scratch: plan.Scratch(), WorkerScratch: plan.WorkerScratch(), Code: plan.Listings}
	kernel.Arithmetic = plan.ElementNS() * float64(tensor.Numel(rowShapeOf(r, call)))
	for phase := range plan.Phases() {
		run := func(m *graph.Mem, chunk int) error { return runner.run(m, phase, chunk) }
		kernel.Phases = append(kernel.Phases, graph.Phase{Chunks: plan.Chunks(phase), Run: run})
	}
	for _, pair := range plan.InPlace() {
		if in := r.In[pair[1]]; slices.Equal(call.Meta(in).Shape, call.Out[pair[0]].Shape) {
			kernel.InPlace = append(kernel.InPlace, graph.InPlace{Out: pair[0], In: in})
		}
	}
	return kernel
}

// rowShapeOf returns the shape to which all operands are broadcast.
func rowShapeOf(r *graph.Rows, call *graph.Call) []int {
	if r.Shape != nil {
		return r.Shape
	}
	return call.Meta(0).Shape
}

// planRows compiles the row program for the layouts of the call.
func planRows(r *graph.Rows, call *graph.Call) (rowPlan, error) {
	outs, ins, err := RowMetas(r, call)
	if err != nil {
		return nil, err
	}
	fullShape, direction := rowShapeOf(r, call), rowprogDirection[r.Direction]
	// NewPieces returns nil if the program cannot be cut into pieces.
	if r.SplitsRows(fullShape) || r.UnsuitedReason(fullShape) != "" {
		if pieces, err := rowprog.NewPieces(r.Code, outs, ins, r.Mask, direction); pieces != nil || err != nil {
			return pieces, err
		}
	}
	return rowprog.New(r.Code, outs, ins, r.Mask, direction)
}

// RowMetas returns the layouts of the outputs and operands of a row program, for a call. The layouts have the rank of
// the program's mask. A dimension along which a value is broadcast or reduced has size 1 or stride 0.
func RowMetas(r *graph.Rows, call *graph.Call) (outs, ins []tensor.Meta, err error) {
	if r == nil || r.Code == nil || call == nil {
		return nil, nil, errors.New("a row program needs a call and an expression")
	}
	fullShape := rowShapeOf(r, call)
	if r.ChannelGroups != 0 && (r.ChannelGroups < 0 || len(fullShape) < 2 || fullShape[1]%r.ChannelGroups != 0) {
		return nil, nil, fmt.Errorf("dimension 1 of shape %s cannot be split into %d parts", tensor.ListString(fullShape),
			r.ChannelGroups)
	}
	if len(r.Mask) != r.Rank(len(fullShape)) {
		return nil, nil, fmt.Errorf("a mask of %d dimensions does not fit shape %s", len(r.Mask),
			tensor.ListString(fullShape))
	}
	for i, meta := range call.Out {
		keepsDims := meta.Rank() == len(fullShape)
		switch {
		case slices.Equal(meta.Shape, fullShape):
			meta = splitRows(r, meta)
		case r.ChannelGroups != 0:
			return nil, nil, fmt.Errorf("result %d has shape %s, not the shape of the operand", i,
				tensor.ListString(meta.Shape))
		case !slices.Equal(meta.Shape, rule.ReduceShape(fullShape, r.Mask, keepsDims)):
			return nil, nil, fmt.Errorf("result %d has shape %s, neither the operand's shape nor its reduced shape", i,
				tensor.ListString(meta.Shape))
		default:
			meta = rule.ReduceOutput(meta, r.Mask, keepsDims)
		}
		outs = append(outs, meta)
	}
	for k, i := range r.In {
		if i < 0 || i >= len(call.In) || call.In[i].Kind != graph.TensorArg {
			return nil, nil, errors.New("an operand of a row program is not a tensor")
		}
		meta := call.Meta(i)
		if r.IsAlongChannels(k) {
			if meta.Rank() != 1 || len(fullShape) < 2 {
				return nil, nil, fmt.Errorf("operand %d of shape %s is not a vector along dimension 1", i,
					tensor.ListString(meta.Shape))
			}
			meta = alongChannels(meta, len(fullShape))
		}
		meta, err := meta.Expand(fullShape)
		if err != nil {
			return nil, nil, err
		}
		ins = append(ins, splitRows(r, meta))
	}
	return outs, ins, nil
}

// alongChannels returns a vector as a value of the given rank whose dimension 1 is the vector.
func alongChannels(meta tensor.Meta, rank int) tensor.Meta {
	shape, strides := slices.Repeat([]int{1}, rank), make([]int, rank)
	shape[1], strides[1] = meta.Shape[0], meta.Strides[0]
	meta.Shape, meta.Strides = shape, strides
	return meta
}

// splitRows returns meta, a value of the full shape, with dimension 1 split into r.ChannelGroups parts.
func splitRows(r *graph.Rows, meta tensor.Meta) tensor.Meta {
	if r.ChannelGroups == 0 {
		return meta
	}
	size := meta.Shape[1] / r.ChannelGroups
	meta.Shape = slices.Concat(meta.Shape[:1], []int{r.ChannelGroups, size}, meta.Shape[2:])
	meta.Strides = slices.Concat(meta.Strides[:1], []int{meta.Strides[1] * size, meta.Strides[1]}, meta.Strides[2:])
	return meta
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
	state.ptrs = append(state.ptrs[:0], m.Ptrs[:w.numOuts]...)
	for _, i := range w.operands {
		state.ptrs = append(state.ptrs, m.Ptrs[w.numOuts+i])
	}
	state.Context = m.Context
	err := w.plan.Run(&state.State, phase, chunk, state.ptrs, m.Scratch, m.WorkerScratch)
	clear(state.ptrs)
	return err
}
