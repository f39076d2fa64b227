package view

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type copyAttrs struct {
	NonBlocking bool `attr:"non_blocking" default:"false" doc:"has no effect"`
}

// CopyOp is aten::copy, the functional form of Tensor.copy_.
var CopyOp = kit.Define[*copyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "copy",
		Doc: "Returns the elements of `src` in the shape and dtype of self. The strides are those of `src` after the ops " +
			"`to`, `expand` and `clone`, not those of self. If `src` already has the shape and dtype, `src` itself is " +
			"returned.",
		Params: []graph.Param{kit.Self, {Name: "src"}},
		Infer:  inferCopy,
		Ref: func(call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			expanded, err := in[1].Expand(in[0].Shape)
			if err != nil {
				return nil, err
			}
			src, err := in[1].View(expanded)
			if err != nil {
				return nil, err
			}
			return copies.Ref(inferCopy)(call, []*tensor.Tensor{src})
		},
		Examples: []graph.Example{{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5), kit.F32(2, 3, 4, 5)}},
			{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5), tensor.New(tensor.Int32, 3, 1, 1)}}},
	},
	Facts: graph.Facts{Parallel: copyLoops},
	Lowerings: graph.Lowerings{
		Decompose: func(p *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
			out, err := p.Add(To, graph.Attrs{"dtype": c.Type(0).DType}, c.In[1])
			if err != nil || tensor.SameSizes(c.Type(0).Shape, c.Type(1).Shape) {
				return out, err
			}
			if out, err = p.Add(Expand, graph.Attrs{"size": c.Meta(0).Shape}, graph.ArgOf(out[0])); err != nil {
				return nil, err
			}
			return p.Add(Clone, nil, graph.ArgOf(out[0]))
		},
	},
})

// copyLoops returns the loops over the dimensions of self, to which src is broadcast. Each iteration has a separate
// slice of self (operand 0), but all iterations may read the same slice of src (operand 1).
func copyLoops(c *graph.Call) []graph.Parallel {
	loops := graph.BroadcastLoops(c)
	for i := range loops {
		loops[i].MayBroadcast = []bool{false, true}
	}
	return loops
}

// inferCopy mirrors at::copy: src.to(self), expanded and cloned if the shapes differ.
func inferCopy(call *graph.Call) ([]graph.Result, error) {
	self, src, sharedOperand := call.Type(0), call.Type(1), 1
	var err error
	if src.DType != self.DType {
		if src, err = kit.LikeType(src.WithDType(self.DType), tensor.Preserve); err != nil {
			return nil, err
		}
		sharedOperand = graph.NoAlias
	}
	if !tensor.SameSizes(self.Shape, src.Shape) {
		if src, err = src.Expand(self.Shape); err != nil {
			return nil, err
		}
		// clone
		if src, err = kit.LikeType(src, tensor.Preserve); err != nil {
			return nil, err
		}
		sharedOperand = graph.NoAlias
	}
	return call.AliasResult(src, sharedOperand), nil
}
