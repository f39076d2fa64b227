package kit

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// ElementOp defines an op whose elements depend only on the attributes, the sizes of operands, and the position of the
// element, such as rand. infer returns the type of the result. formula returns the function that computes element i of
// the result, in row-major order.
func ElementOp[A any](op graph.Op, infer func(c *graph.Call) (tensor.Type, error),
	formula func(c *graph.Call) func(i int) tensor.Scalar) *graph.Op {
	return ElementOpWith(graph.SchemaOf[A](), op, infer, formula)
}

// ElementOpWith is ElementOp with a schema of the attributes instead of their struct.
func ElementOpWith(attrs *graph.Schema, op graph.Op, infer func(c *graph.Call) (tensor.Type, error),
	formula func(c *graph.Call) func(i int) tensor.Scalar) *graph.Op {
	const grain = machine.CallGrain // elements per chunk
	op.WritesAnyDenseLayout = true
	op.Infer = func(c *graph.Call) ([]graph.Result, error) {
		resultType, err := infer(c)
		return c.NewResult(resultType), err
	}
	op.Compile = func(c *graph.Call) (*graph.Kernel, error) {
		element, meta := formula(c), c.Out[0]
		count, strides := meta.Numel(), ByteStrides(meta)
		return &graph.Kernel{Phases: []graph.Phase{{Chunks: DivUp(count, grain), Run: func(mem *graph.Mem, chunk int) error {
			for i := chunk * grain; i < min(count, (chunk+1)*grain); i++ {
				offset, quotient := 0, i // offset in bytes
				for dim := meta.Rank() - 1; dim >= 0; dim-- {
					offset += quotient % meta.Shape[dim] * strides[dim]
					quotient /= meta.Shape[dim]
				}
				element(i).Store(meta.DType, unsafe.Add(mem.Ptrs[0], offset))
			}
			return nil
		}}}}, nil
	}
	op.Ref = func(c *graph.Call, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
		resultType, err := infer(c)
		if err != nil {
			return nil, err
		}
		element, out := formula(c), tensor.Zeros(resultType.DType, KnownSizes(resultType.Shape)...)
		for i := range out.Numel() {
			out.SetFlat(i, element(i))
		}
		return []*tensor.Tensor{out}, nil
	}
	return DefineWith(attrs, op)
}
