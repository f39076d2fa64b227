package view

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type eyeAttrs struct {
	N     sym.Int      `attr:"n" doc:"number of rows"`
	M     *sym.Int     `attr:"m" default:"none" doc:"number of columns; default: n"`
	DType tensor.DType `attr:"dtype" default:"float32" doc:"dtype of the result"`
}

// Eye is torch.eye.
var Eye = kit.Define[*eyeAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:     "eye",
		Doc:      "Creates a matrix with ones on the diagonal and zeros elsewhere.",
		Infer:    inferEye,
		Ref:      refEye,
		Examples: []graph.Example{{Attrs: graph.Attrs{"n": 3, "m": 4}}},
	},
	Facts:     graph.Facts{WritesAnyDenseLayout: true},
	Lowerings: graph.Lowerings{Compile: compileEye},
})

// inferEye infers the type of the result: n rows and m columns, row-major.
func inferEye(call *graph.Call) ([]graph.Result, error) {
	attrs := kit.Attrs[*eyeAttrs](call)
	size := []sym.Int{attrs.N, attrs.N}
	if attrs.M != nil {
		size[1] = *attrs.M
	}
	for i, name := range []string{"n", "m"} {
		if kit.IsNegative(size[i]) {
			return nil, fmt.Errorf("%s must be greater or equal to 0, got %v", name, size[i])
		}
	}
	dtype := attrs.DType
	if dtype == tensor.Invalid { // the attribute is null, which selects PyTorch's default dtype
		dtype = tensor.Float32
	}
	result, err := kit.FreshType(dtype, size)
	return call.NewResult(result), err
}

// compileEye returns a kernel that fills the result with zeros and then the diagonal with ones.
func compileEye(c *graph.Call) (*graph.Kernel, error) {
	out := kit.OutBuffer(c, 0)
	if out.Meta.Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	zeros, zerosScratch := copies.Phase(copies.Job{Dst: out, Fill: tensor.Zeros(out.Meta.DType)})
	diagonal, err := out.Meta.Diagonal(0, 0, 1) // offset 0, dimensions 0 and 1
	if err != nil {
		return nil, err
	}
	one := tensor.IntScalar(1).Tensor(out.Meta.DType)
	ones, onesScratch := copies.Phase(copies.Job{Dst: out.View(diagonal), Fill: one})
	return &graph.Kernel{Phases: []graph.Phase{zeros, ones},
		WorkerScratch: max(zerosScratch, onesScratch)}, nil
}

// refEye is the reference implementation of eye.
func refEye(c *graph.Call, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
	inferred, err := inferEye(c)
	if err != nil {
		return nil, err
	}
	meta := inferred[0].Meta()
	out := tensor.Zeros(meta.DType, meta.Shape...)
	for i := range min(meta.Shape[0], meta.Shape[1]) {
		out.Set(tensor.IntScalar(1), i, i)
	}
	return []*tensor.Tensor{out}, nil
}
