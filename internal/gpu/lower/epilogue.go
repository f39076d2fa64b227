package lower

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// maxEpilogue is the maximum number of instructions of all epilogues of a thread. A thread applies the epilogue once
// for each result that it computes.
const maxEpilogue = 2048

// epilogue is the expression that the kernel of a contraction applies to its results. The kernel has the parameters of
// the contraction (the result, A, B and, if there is one, the addend), followed by the parameters of the epilogue. For
// example, let a contraction have 3 parameters. Let its epilogue have an output that overwrites the result, and one
// operand, a bias. Then dtypes has the dtypes of the output and the bias, params is [0 3], and buffers is [5].
type epilogue struct {
	code    *expr.Code
	dtypes  []tensor.DType // of the outputs, then of the operands; without the result of the contraction
	params  []int          // by index in dtypes: the parameter of the kernel
	buffers []int          // by parameter of the epilogue: the number of the parameter's buffer (see newEpilogue)
	shape   []int          // axes of the result, the fastest first
	strides [][]int        // by index in dtypes and axis, in bytes
}

// newEpilogue returns the epilogue of a contraction. params is the number of the contraction's parameters.
// source.Epilogue.Operands lists the outputs, the contraction's result, and then the other operands. Entry i of this
// list has the buffer number params+i.
func newEpilogue(source *graph.Contraction, params int, target Target) (*epilogue, error) {
	code, err := expandFunctions(source.Epilogue.Code, target)
	if err != nil {
		return nil, err
	}
	outs, operands := len(code.Out), source.Epilogue.Operands
	result := operands[outs].Meta
	var metas []tensor.Meta // indexed like lowered.dtypes
	lowered := &epilogue{code: code}
	for i, operand := range operands {
		meta := operand.Meta
		hasNegativeStride := slices.ContainsFunc(meta.Strides, func(stride int) bool { return stride < 0 })
		if meta.Extent()*meta.DType.Size() > math.MaxInt32 || hasNegativeStride {
			return nil, fmt.Errorf("gpu: an epilogue with an operand %v is %w", meta, ErrUnsupported)
		}
		switch {
		case i == outs: // in a register
			continue
		case i < outs && operand.Index == source.Out.Index: // the output overwrites the result, which is parameter 0
			lowered.params = append(lowered.params, 0)
		default:
			lowered.params = append(lowered.params, params+len(lowered.buffers))
			lowered.buffers = append(lowered.buffers, params+i)
		}
		lowered.dtypes, metas = append(lowered.dtypes, meta.DType), append(metas, meta)
	}
	if !result.IsNonOverlappingAndDense() { // the index of an element must follow from its offset
		return nil, fmt.Errorf("gpu: an epilogue of a result with gaps is %w", ErrUnsupported)
	}
	lowered.setAxes(result, metas)
	return lowered, nil
}

// setAxes sets the axes of the result of the contraction, and the strides of outputs and operands along them.
func (e *epilogue) setAxes(result tensor.Meta, metas []tensor.Meta) {
	var dims []int
	for dim, size := range result.Shape {
		if size > 1 {
			dims = append(dims, dim)
		}
	}
	sorted.Func(dims, func(a, b int) int { return result.Strides[a] - result.Strides[b] })
	var axes []axis
	for _, dim := range dims {
		added := axis{size: result.Shape[dim]}
		for _, meta := range metas {
			stride := 0 // broadcast, if the operand lacks the dimension or has size 1 in it
			if ownDim := dim - (result.Rank() - meta.Rank()); ownDim >= 0 && meta.Shape[ownDim] > 1 {
				stride = meta.Strides[ownDim] * meta.DType.Size()
			}
			added.strides = append(added.strides, stride)
		}
		axes = merge(axes, added) // enlarges the last axis if its strides also reach the elements of the added axis
	}
	e.shape = make([]int, len(axes))
	for k := range axes {
		e.shape[k] = axes[k].size
	}
	for i := range metas {
		e.strides = append(e.strides, stridesOf(axes, i))
	}
}

// storeOutputs adds the code that computes and stores the outputs for an element of the result. `value` is the value of
// the element, and `offset` is its offset in the result, in elements.
func (e *epilogue) storeOutputs(s *scalarBuilder, value, offset ir.Value) {
	index := s.indexInShape(offset, e.shape) // along each axis
	address := func(i int) ir.Value {
		return s.addOffset(s.EmitImm(ir.Param, tensor.Uint64, uint64(e.params[i])), s.offset(index, e.shape, e.strides[i]))
	}
	loaded := [][]ir.Value{{value}}
	for i := len(e.code.Out); i < len(e.dtypes); i++ {
		loaded = append(loaded, s.load(oneElement(e.dtypes[i]), address(i)))
	}
	values := s.eval(e.code, func(operand, part int) ir.Value { return loaded[operand][part] })
	for output, computed := range e.code.Out {
		numbers := []ir.Value{values[computed.Re]}
		if computed.Im != expr.None {
			numbers = append(numbers, values[computed.Im])
		}
		s.store(oneElement(computed.DType), address(output), numbers)
	}
}
