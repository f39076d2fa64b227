package view

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// sequenceKernel returns the kernel of an op with a one-dimensional result. The function element computes element i of
// the result.
func sequenceKernel(c *graph.Call, element func(i int) tensor.Scalar) (*graph.Kernel, error) {
	const grain = machine.CallGrain
	meta := c.Out[0]
	elements := meta.Numel()
	return &graph.Kernel{Phases: []graph.Phase{{
		Chunks: kit.DivUp(elements, grain),
		Run: func(mem *graph.Mem, chunk int) error {
			step := meta.Strides[0] * meta.DType.Size() // in bytes
			for i := chunk * grain; i < min(elements, (chunk+1)*grain); i++ {
				element(i).Store(meta.DType, unsafe.Add(mem.Ptrs[0], i*step))
			}
			return nil
		},
	}}}, nil
}

// sequenceRef returns the reference of an op with a one-dimensional result. For a call, element returns the function
// that computes element i.
func sequenceRef(infer func(*graph.Call) ([]graph.Result, error),
	element func(c *graph.Call) func(i int) tensor.Scalar) func(*graph.Call, []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return func(c *graph.Call, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
		inferred, err := infer(c)
		if err != nil {
			return nil, err
		}
		out := tensor.Zeros(inferred[0].Type.DType, kit.KnownSizes(inferred[0].Type.Shape)...)
		elementOfCall := element(c)
		for i := range out.Numel() {
			out.Set(elementOfCall(i), i)
		}
		return []*tensor.Tensor{out}, nil
	}
}
