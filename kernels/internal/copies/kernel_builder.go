package copies

import (
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// KernelBuilder builds a kernel from parts that run one after another. A part is a phase of copies into the layout and
// dtype that loops need, the kernel of another op, or phases of the op itself. Intermediate values are in scratch
// memory of the run. A kernel that uses the kernel of argmax, for example, is built by
//
//	builder := NewKernelBuilder(call)
//	x := builder.ToRowMajor(builder.Operand(0), tensor.Float32) // adds copies if the operand has another layout
//	positions := builder.NewScratch(tensor.Int64, rows)
//	builder.AddCall(argmax, attrs, []kit.Buffer{positions}, x)
//	builder.AddPhases(NoScratch, NoScratch, []kit.Buffer{builder.Result(0, tensor.Float32), positions}, phase)
//	return builder.Kernel()
//
// Ops use a KernelBuilder instead of Decompose if the nodes of a decomposition would access memory more often, or would
// round intermediate values to the dtypes of the nodes' results.
type KernelBuilder struct {
	Call         *graph.Call
	scratchBytes int // bytes of scratch memory for intermediate values
	partScratch  int // maximum bytes of scratch memory that a part uses besides intermediate values
	workerBytes  int // maximum bytes of worker memory that a phase uses
	phases       []graph.Phase
	resultCopies []Job // the jobs of the last phase: results are copied from scratch memory to the outputs
	listings     []func() []expr.Listing
	foldOrder    string           // see graph.Kernel
	err          error            // the first error; parts after it are not added
	inner        kit.InnerKernels // runs the parts
}

// NewKernelBuilder starts the kernel of a call.
func NewKernelBuilder(c *graph.Call) *KernelBuilder { return &KernelBuilder{Call: c} }

// Operand returns operand i in its own layout, or the zero Buffer if it was omitted. The offset of a view of this
// buffer counts from the operand's first element.
func (builder *KernelBuilder) Operand(i int) kit.Buffer {
	buffer := kit.InBuffer(builder.Call, i)
	buffer.Meta.Offset = 0
	buffer.Data = builder.Call.Const(i)
	return buffer
}

// NewScratch returns scratch memory for a row-major value.
func (builder *KernelBuilder) NewScratch(dtype tensor.DType, shape ...int) kit.Buffer {
	return builder.scratch(tensor.New(dtype, shape...))
}

// scratch returns scratch memory for a dense value.
func (builder *KernelBuilder) scratch(meta tensor.Meta) kit.Buffer {
	buffer := kit.ScratchBuffer(builder.scratchBytes, meta)
	builder.scratchBytes += kit.AlignUp(meta.Bytes())
	return buffer
}

// ToRowMajor returns the elements of a buffer in a dtype and in row-major order: the buffer itself if possible, else a
// copy.
func (builder *KernelBuilder) ToRowMajor(source kit.Buffer, dtype tensor.DType) kit.Buffer {
	if !source.IsGiven() || source.Packed || source.Meta.DType == dtype && source.Meta.IsContiguous() {
		return source
	}
	if source.Data != nil {
		return kit.DataBuffer(source.Data.CopyTo(tensor.New(dtype, source.Meta.Shape...)))
	}
	copied := builder.NewScratch(dtype, source.Meta.Shape...)
	builder.AddCopies(Job{Dst: copied, Src: source})
	return copied
}

// Operands returns all operands in row-major order. Floats and complex numbers are converted to dtype.OpMath(), the
// dtype in which results of the given dtype are computed.
func (builder *KernelBuilder) Operands(dtype tensor.DType) []kit.Buffer {
	var out []kit.Buffer
	for i := range builder.Call.In {
		operand := builder.Operand(i)
		if operand.Meta.DType.IsFloat() || operand.Meta.DType.IsComplex() {
			operand = builder.ToRowMajor(operand, dtype.OpMath())
		} else {
			operand = builder.ToRowMajor(operand, operand.Meta.DType)
		}
		out = append(out, operand)
	}
	return out
}

// AddCopies adds a phase of copies.
func (builder *KernelBuilder) AddCopies(jobs ...Job) {
	phase, workerBytes := Phase(jobs...)
	builder.phases = append(builder.phases, phase)
	builder.workerBytes = max(builder.workerBytes, workerBytes)
}

// Result returns the row-major destination of output i in a dtype. It is the output itself if possible. Otherwise it is
// scratch memory, which is copied to the output in the last phase.
func (builder *KernelBuilder) Result(i int, dtype tensor.DType) kit.Buffer {
	meta := builder.Call.Out[i]
	if meta.DType == dtype && meta.IsContiguous() {
		meta.Offset = 0
		return kit.PtrBuffer(i, meta)
	}
	result := builder.NewScratch(dtype, meta.Shape...)
	builder.resultCopies = append(builder.resultCopies, Job{Dst: kit.OutBuffer(builder.Call, i), Src: result})
	return result
}

// StridedResult returns the destination of output i in a dtype, like [KernelBuilder.Result], for parts that write any
// strides. It is the output itself, or scratch memory if the output has another dtype.
func (builder *KernelBuilder) StridedResult(i int, dtype tensor.DType) kit.Buffer {
	if meta := builder.Call.Out[i]; meta.DType == dtype {
		meta.Offset = 0
		return kit.PtrBuffer(i, meta)
	}
	return builder.Result(i, dtype)
}

// NoScratch is the argument scratchBytes or workerBytes of [KernelBuilder.AddPhases] for phases that use no such
// memory.
const NoScratch = 0

// AddPhases adds phases of the op. In the phases, Mem.Ptrs has the addresses of the buffers. scratchBytes and
// workerBytes are the sizes of the scratch memory and of the worker memory that the phases use.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func (builder *KernelBuilder) AddPhases(scratchBytes, workerBytes int, buffers []kit.Buffer, phases ...graph.Phase) {
	builder.partScratch = max(builder.partScratch, scratchBytes)
	builder.workerBytes = max(builder.workerBytes, workerBytes)
	for _, phase := range phases {
		builder.phases = append(builder.phases, builder.inner.Phase(phase, buffers))
	}
}

// AddListings adds the machine-code listings of a part.
func (builder *KernelBuilder) AddListings(code func() []expr.Listing) {
	builder.listings = append(builder.listings, code)
}

// AddFoldOrder adds the FoldOrder of a part: see [graph.Kernel].
func (builder *KernelBuilder) AddFoldOrder(order string) {
	if order != "" {
		builder.foldOrder += order + ";"
	}
}

// AddCall adds the kernel of another op with the given attributes. A zero Buffer in ins stands for an omitted operand.
func (builder *KernelBuilder) AddCall(op *graph.Op, attrs graph.Attrs, outs []kit.Buffer, ins ...kit.Buffer) {
	decoded, err := op.Schema.Decode(attrs, nil)
	if builder.err == nil {
		builder.err = err
	}
	builder.addKernel(op.Name, op.Compile, decoded, outs, ins)
}

// AddKernel adds the kernel that compile returns for a call without attributes. Errors contain name.
func (builder *KernelBuilder) AddKernel(name string, compile func(c *graph.Call) (*graph.Kernel, error),
	outs []kit.Buffer, ins ...kit.Buffer) {
	builder.addKernel(name, compile, nil, outs, ins)
}

// addKernel adds the kernel that compile returns for a call with the given attributes.
func (builder *KernelBuilder) addKernel(name string, compile func(c *graph.Call) (*graph.Kernel, error), attrs any,
	outs, ins []kit.Buffer) {
	if builder.err != nil {
		return
	}
	call := &graph.Call{Attrs: attrs}
	for _, out := range outs {
		call.Out = append(call.Out, out.Meta)
	}
	buffers := append(append([]kit.Buffer(nil), outs...), ins...)
	for _, in := range ins {
		arg := graph.Arg{}
		if in.IsGiven() {
			arg = graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Meta: in.Meta, Const: in.Data}}
		}
		call.In = append(call.In, arg)
	}
	kernel, err := compile(call)
	if err != nil {
		builder.err = fmt.Errorf("%s: %w", name, err)
		return
	}
	builder.addCompiled(kernel, len(outs), buffers)
}

// addCompiled adds the phases of a kernel. Operands that are bound to the kernel (Kernel.EmbeddedOperands) replace the
// corresponding elements of buffers.
func (builder *KernelBuilder) addCompiled(kernel *graph.Kernel, outCount int, buffers []kit.Buffer) {
	builder.AddFoldOrder(kernel.FoldOrder)
	for i, embedded := range kernel.EmbeddedOperands {
		if embedded != nil {
			buffers[outCount+i] = kit.DataBuffer(embedded)
		}
	}
	builder.AddPhases(kernel.Scratch, kernel.WorkerScratch, buffers, kernel.Phases...)
	if kernel.Code != nil {
		builder.AddListings(kernel.Code)
	}
}

// Kernel returns the complete kernel.
func (builder *KernelBuilder) Kernel() (*graph.Kernel, error) {
	if len(builder.resultCopies) > 0 {
		builder.AddCopies(builder.resultCopies...)
	}
	builder.inner.ScratchOffset = builder.scratchBytes
	kernel := &graph.Kernel{Phases: builder.phases, Scratch: builder.scratchBytes + builder.partScratch,
		WorkerScratch: builder.workerBytes, FoldOrder: builder.foldOrder}
	if list := builder.listings; len(list) > 0 {
		kernel.Code = func() (all []expr.Listing) {
			for _, code := range list {
				all = append(all, code()...)
			}
			return all
		}
	}
	return kernel, builder.err
}

// ChunkedPhase returns a phase that divides units of work into chunks. compute computes units [begin, end). A unit
// costs as much as copying elementsPerUnit elements.
func ChunkedPhase(units, elementsPerUnit int, compute func(m *graph.Mem, begin, end int) error) graph.Phase {
	division := machine.DivideUnits(units, elementsPerUnit, machine.MoveGrain)
	return graph.Phase{Chunks: division.Chunks, Run: func(m *graph.Mem, chunk int) error {
		begin, end := division.ChunkRange(chunk)
		return compute(m, begin, end)
	}}
}
