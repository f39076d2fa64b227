package copies

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// CompileCopy compiles a copy of the first operand.
func CompileCopy(c *graph.Call) (*graph.Kernel, error) {
	return Kernel(Job{Dst: kit.OutBuffer(c, 0), Src: kit.InBuffer(c, 0)}), nil
}

// Ref returns a reference implementation that copies element by element, to the dtype that infer gives.
func Ref(infer func(*graph.Call) ([]graph.Result, error)) func(*graph.Call, []*tensor.Tensor) ([]*tensor.Tensor,
	error) {
	return func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		res, err := infer(c)
		if err != nil {
			return nil, err
		}
		out := tensor.Zeros(res[0].Type.DType, in[0].Shape...)
		tensor.CopyElements(out, in[0])
		return []*tensor.Tensor{out}, nil
	}
}
