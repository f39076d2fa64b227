package copies

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// CompileCopy compiles a copy of the first operand.
func CompileCopy(c *graph.Call) (*graph.Kernel, error) {
	return Kernel(Job{Dst: kit.OutBuffer(c, 0), Src: kit.InBuffer(c, 0)}), nil
}

// Form returns the form of a copy between values of the same shape. It converts if dtypes differ.
func Form(to, from graph.FormOperand) (graph.Form, error) {
	code, err := kit.Conversion(from.Meta.DType, to.Meta.DType)
	return &graph.Elements{Code: code, Operands: []graph.FormOperand{to, from}}, err
}

// forms returns the form of a copy of operand 0 to the result, in row-major order if the shapes differ. It returns none
// if the shapes differ and the result has no view of the operand's shape.
func forms(c *graph.Call) ([]graph.Form, error) {
	to, from := graph.FormOperand{Meta: c.Out[0]}, graph.FormOperand{Index: len(c.Out), Meta: c.Meta(0)}
	if !slices.Equal(to.Meta.Shape, from.Meta.Shape) {
		view, err := to.Meta.View(from.Meta.Shape)
		if err != nil {
			return nil, nil
		}
		to.Meta = view
	}
	f, err := Form(to, from)
	return []graph.Form{f}, err
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
