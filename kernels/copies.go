package kernels

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// copyCall compiles a copy of the first operand.
func copyCall(c *graph.Call) (*graph.Kernel, error) {
	return copyKernel(copyJob{dst: outSide(c, 0), src: inSide(c, 0)})
}

// copyRef copies element by element, to the dtype that the call infers.
func copyRef(infer func(*graph.Call) ([]graph.Result, error)) func(*graph.Call, []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		res, err := infer(c)
		if err != nil {
			return nil, err
		}
		out := tensor.Zeros(res[0].Type.DType, in[0].Shape...)
		eachIndex(in[0].Shape, func(index []int) { out.Set(in[0].At(index...), index...) })
		return []*tensor.Tensor{out}, nil
	}
}

// copySelf is the phase that copies operand 0 to the output, from which these ops start.
func copySelf(c *graph.Call) (*graph.Kernel, error) {
	k, err := copyKernel(copyJob{dst: outSide(c, 0), src: inSide(c, 0)})
	if err == nil {
		k.Worker = max(k.Worker, placeBlock*8)
	}
	return k, err
}
