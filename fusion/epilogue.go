package fusion

import (
	"errors"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// Epilogue is an expression that a fused step applies to each element of the result of its anchor, a product or a
// convolution. The expression may have further operands. The outputs of the expression are the results of the step. The
// memory of one of these results contains the anchor's result until the epilogue overwrites it. Implementations with
// [graph.Impl.Epilogues] apply the epilogue to each part of the anchor's result when the part is final and still in a
// cache. An Epilogue is immutable once its kernel is made, and may then be used by several goroutines.
//
// A kernel that is being made calls [EpilogueOf]. It then has three choices:
//   - It applies [Epilogue.Chain] in registers, and calls [Epilogue.SetInRegisters].
//   - When it runs, it calls [Epilogue.Apply] for each rectangle of final elements.
//   - It calls [Epilogue.Defer]. A phase after the kernel then applies the epilogue.
//
// For example, a kernel computes a row-major product of 64 x 32 elements in tiles of 8 x 16. After the second tile of
// the second row of tiles, it calls
//
//	var run EpilogueRun    // of a worker
//	e.Bind(&run, mem)
//	e.Apply(&run, 8*32+16, 8, 32, 16, 1)    // rows 8 to 15, columns 16 to 31
//	run.Release()
type Epilogue struct {
	code    *expr.Code  // operand 0 is the anchor's result
	loop    *loops.Loop // compiled loop of the expression; nil if the kernel applies the code in registers
	streams []stream    // results, then operands, in the order of the expression
	sizes   []int       // dimensions of the anchor's result in memory, joined where possible, the fastest first
	strides []int       // strides of these dimensions in elements
	numel   int         // number of elements of the anchor's result
	isDense bool        // whether the anchor's result is dense

	stageBytes int // size of the buffer of staged streams (see stream); 0 if there are none

	inRegisters bool // whether the kernel applies the code in registers: see SetInRegisters
	isDeferred  bool // whether a phase after the kernel applies the epilogue: see Defer
}

// stream describes the memory of an operand or a result of an epilogue. If the memory is not contiguous, the stream is
// staged: the loop accesses a copy in a buffer.
type stream struct {
	addressIndex int   // index of the stream's address among the addresses of the anchor's kernel
	strides      []int // strides in bytes of the dimensions of Epilogue.sizes
	size         int   // size of an element in bytes
	isStaged     bool
	stageOffset  int // of a staged stream: offset of the copy in the buffer
}

// EpilogueOf returns the epilogue that the kernel of a call must apply, or nil if there is none.
func EpilogueOf(call *graph.Call) *Epilogue {
	if call == nil {
		return nil
	}
	epilogue, _ := call.Epilogue.(*Epilogue)
	return epilogue
}

// Code returns the expression of the epilogue. Operand 0 is the anchor's result.
func (e *Epilogue) Code() *expr.Code {
	if e == nil {
		return nil
	}
	return e.code
}

// SetInRegisters records that the kernel applies [Epilogue.Chain] in registers. It must be called while the kernel is
// made. Listings of code then have no loop for the epilogue.
func (e *Epilogue) SetInRegisters() {
	if e != nil {
		e.inRegisters = true
	}
}

// Defer records that the kernel does not apply the epilogue. It must be called while the kernel is made. A phase after
// the kernel then applies the epilogue.
func (e *Epilogue) Defer() {
	if e != nil {
		e.isDeferred = true
	}
}

// newEpilogue prepares the epilogue of a fused node for the layouts of a call of the node. The carrier is the result
// whose memory contains the anchor's result. The anchor's operands are the first fused.AnchorOperands operands of the
// call. The addresses of the anchor's kernel are the carrier, then all operands, and then the other results.
func newEpilogue(fused *Fusion, call *graph.Call) (*Epilogue, error) {
	carrier := fused.carrierResult()
	if carrier < 0 || len(call.Out) != len(fused.code.Out) || len(fused.code.In) != 1+len(call.In)-fused.AnchorOperands {
		return nil, errors.New("only passes can make epilogues")
	}
	epilogue := &Epilogue{code: fused.code}
	metas := make([]tensor.Meta, 0, len(call.Out)+len(fused.code.In)) // the layout of each stream
	addStream := func(meta tensor.Meta, addressIndex int) {
		epilogue.streams = append(epilogue.streams, stream{addressIndex: addressIndex, size: meta.DType.Size()})
		metas = append(metas, meta)
	}
	const carrierAddress = 0
	nextAddress := 1 + len(call.In)
	for i, meta := range call.Out {
		if i == carrier {
			addStream(meta, carrierAddress)
			continue
		}
		addStream(meta, nextAddress)
		nextAddress++
	}
	result := call.Out[carrier]
	addStream(result, carrierAddress) // operand 0 of the expression: the anchor's result
	for i := fused.AnchorOperands; i < len(call.In); i++ {
		operandAddress := 1 + i // after the carrier
		addStream(call.Meta(i), operandAddress)
	}
	if err := epilogue.setDimensions(result, metas); err != nil {
		return nil, err
	}
	return epilogue, nil
}

// setDimensions sets sizes, strides and the strides of all streams. It joins two adjacent dimensions of the anchor's
// result if, in every stream, one stride steps through both. metas has the layout of each stream. For example, a
// row-major result [2, 3, 4] has sizes [24] if all streams have its layout. If an operand of 4-byte elements has shape
// [3, 1], no dimensions are joined: sizes is [4, 3, 2], strides is [1, 4, 12], and the strides of the operand are [0,
// 4, 0].
func (e *Epilogue) setDimensions(result tensor.Meta, metas []tensor.Meta) error {
	e.numel, e.isDense = result.Numel(), result.IsNonOverlappingAndDense()
	e.sizes, e.strides = []int{1}, []int{1} // the fastest dimension replaces the size; its stride is 1
	for i := range e.streams {
		e.streams[i].strides = []int{e.streams[i].size}
	}
	extent := 1 // distance in elements from the first element to the end of the dimensions so far
	for _, dim := range dimensionsByStride(result) {
		if result.Strides[dim] < extent {
			return errors.New("elements of the anchor's result overlap in memory")
		}
		extent = result.Strides[dim] * result.Shape[dim]
		last := len(e.sizes) - 1
		canJoin := true // whether, in every stream, one stride steps through dimension `last` of sizes and dim
		streamStrides := e.streamStrides(metas, dim, result.Rank())
		for i, stride := range streamStrides {
			canJoin = canJoin && stride == e.streams[i].strides[last]*e.sizes[last]
		}
		switch {
		case e.sizes[last] == 1: // dim is the fastest dimension
			e.sizes[last] = result.Shape[dim]
		case canJoin: // dimension `last` becomes longer, and the strides stay
			e.sizes[last] *= result.Shape[dim]
			continue
		default: // dim is a further dimension
			e.sizes, e.strides = append(e.sizes, result.Shape[dim]), append(e.strides, result.Strides[dim])
		}
		for i := range e.streams {
			stream := &e.streams[i]
			stream.strides = append(stream.strides[:len(e.sizes)-1], streamStrides[i])
		}
	}
	return nil
}

// dimensionsByStride returns the dimensions of more than one element, the fastest first.
func dimensionsByStride(meta tensor.Meta) (dims []int) {
	for dim, size := range meta.Shape {
		if size > 1 {
			dims = append(dims, dim)
		}
	}
	sorted.Func(dims, func(first, second int) int { return meta.Strides[first] - meta.Strides[second] })
	return dims
}

// streamStrides returns the stride in bytes of each stream along dimension dim of the anchor's result, which has the
// given rank. The stride is 0 where a stream is broadcast.
func (e *Epilogue) streamStrides(metas []tensor.Meta, dim, rank int) []int {
	strides := make([]int, len(metas))
	for i, meta := range metas {
		// Operands of lower rank lack the first dimensions of the result.
		if streamDim := dim - (rank - meta.Rank()); streamDim >= 0 && meta.Shape[streamDim] > 1 {
			strides[i] = meta.Strides[streamDim] * e.streams[i].size
		}
	}
	return strides
}

// stageElements is the number of elements of each staged stream in the buffer.
const stageElements = 2048

// compile compiles the loop of an epilogue that no kernel applies in registers.
func (e *Epilogue) compile() (err error) {
	resultCount := len(e.code.Out)
	loop := &expr.Loop{Code: e.code, Uniform: make([]bool, len(e.code.In))}
	for i := range e.streams {
		stream := &e.streams[i]
		switch stride := stream.strides[0]; {
		case stride == stream.size: // contiguous
		case stride == 0 && i >= resultCount: // an operand with one element along the loop
			loop.Uniform[i-resultCount] = true
		default:
			stream.isStaged, stream.stageOffset = true, e.stageBytes
			e.stageBytes += stageElements * stream.size
		}
	}
	e.loop, err = loops.New(loop, loops.Options{})
	return err
}

// listings lists the code of the anchor's kernel. It also lists the code of the epilogue, if the kernel does not
// contain it.
func (e *Epilogue) listings(kernel *graph.Kernel) (list []expr.Listing) {
	if kernel.Code != nil {
		list = kernel.Code()
	}
	if e.inRegisters {
		return list
	}
	return append(list, e.loop.Listing("epilogue"))
}
