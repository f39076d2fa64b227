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

// Form returns the form (the description for GPU kernels) of a copy of src to dst, which have the same shape. It
// converts elements if the dtypes differ.
func Form(dst, src graph.FormOperand) (graph.Form, error) {
	code, err := kit.Conversion(src.Meta.DType, dst.Meta.DType)
	return &graph.Elements{Code: code, Operands: []graph.FormOperand{dst, src}}, err
}

// forms returns the form of a copy of operand 0 to the result. If the shapes differ, elements are copied in row-major
// order of both shapes. There is then no form if the strides of the result do not allow a view in the operand's shape.
func forms(c *graph.Call) ([]graph.Form, error) {
	// Index counts the results and then the operands.
	dst, src := graph.FormOperand{Meta: c.Out[0]}, graph.FormOperand{Index: len(c.Out), Meta: c.Meta(0)}
	if !slices.Equal(dst.Meta.Shape, src.Meta.Shape) {
		view, err := dst.Meta.View(src.Meta.Shape)
		if err != nil {
			return nil, nil
		}
		dst.Meta = view
	}
	form, err := Form(dst, src)
	return []graph.Form{form}, err
}

// Ref returns a reference implementation that copies element by element, to the dtype that infer gives.
func Ref(infer func(*graph.Call) ([]graph.Result, error)) func(*graph.Call, []*tensor.Tensor) ([]*tensor.Tensor,
	error) {
	return func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		results, err := infer(c)
		if err != nil {
			return nil, err
		}
		out := tensor.Zeros(results[0].Type.DType, in[0].Shape...)
		tensor.CopyElements(out, in[0])
		return []*tensor.Tensor{out}, nil
	}
}
