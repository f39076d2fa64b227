package reduce

import (
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type softmaxAttrs struct {
	Dim   int          `attr:"dim" doc:"dimension along which the results sum to 1"`
	DType tensor.DType `attr:"dtype" default:"none" doc:"dtype to which self is converted first"`
}

// Softmax and LogSoftmax compute exponentials in the dtype of the computation, float32 or float64, and sums of many
// exponentials in float64.
var (
	Softmax    = softmaxOp("softmax", "Computes exp(x) divided by the sum of exp(x) along a dimension.", false)
	LogSoftmax = softmaxOp("log_softmax", "Computes the logarithm of softmax along a dimension.", true)
)

// softmaxOp defines softmax, or log_softmax if isLog is set.
func softmaxOp(name, doc string, isLog bool) *graph.Op {
	rows := func(c *graph.Call) (*graph.Rows, error) {
		dim, err := tensor.WrapDim(kit.Attrs[*softmaxAttrs](c).Dim, c.Meta(0).Rank())
		if err != nil {
			return nil, err
		}
		return softmaxRows(c, dim, softmaxDType(c), isLog)
	}
	return kit.Define[*softmaxAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: []graph.Param{kit.Self},
			Infer: func(c *graph.Call) ([]graph.Result, error) { return inferSoftmax(c, name) },
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				dim, err := tensor.WrapDim(kit.Attrs[*softmaxAttrs](c).Dim, in[0].Rank())
				if err != nil {
					return nil, err
				}
				return []*tensor.Tensor{softmaxReference(in[0], dim, softmaxDType(c), isLog)}, nil
			},
			Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)}, Attrs: graph.Attrs{"dim": 1}}},
		},
		Facts: graph.Facts{WritesAnyDenseLayout: true},
		Lowerings: graph.Lowerings{
			Rows: rows,
			Impls: lineOp{
				dim:         func(c *graph.Call) int { return kit.Attrs[*softmaxAttrs](c).Dim },
				elementCost: graph.ElementFlops{Simple: 1, Function: 0.7}, // estimated numbers of simple operations and functions
				rows:        rows, typicalAttrs: &softmaxAttrs{Dim: 1},
				lower: func(c *graph.Call, _ int, direction graph.RowDirection) (*graph.Kernel, error) {
					if c.Out[0].Numel() == 0 {
						return &graph.Kernel{}, nil
					}
					expression, err := inDirection(rows, direction)(c)
					if err != nil {
						return nil, err
					}
					return fusion.LowerRows(expression, c)
				}}.impls(),
		},
	})
}

// softmaxDType returns the dtype of the result, to which the operand is converted.
func softmaxDType(c *graph.Call) tensor.DType {
	if dtype := kit.Attrs[*softmaxAttrs](c).DType; dtype != tensor.Invalid {
		return dtype
	}
	return c.Type(0).DType
}

// inferSoftmax infers a call of the op with the given name. If the dtype is not supported, the error names the kernel
// of PyTorch that rejects it.
func inferSoftmax(call *graph.Call, name string) ([]graph.Result, error) {
	self, dtype := call.Type(0), softmaxDType(call)
	dim, err := tensor.WrapDim(kit.Attrs[*softmaxAttrs](call).Dim, self.Rank())
	if err != nil {
		return nil, err
	}
	if !dtype.IsFloat() && !kit.IsEmpty(self) {
		kernel := "softmax_kernel_impl"
		if dim >= self.Rank()-1 {
			kernel = name + "_lastdim_kernel_impl"
		}
		return nil, kit.NotImplementedBy(kernel, dtype)
	}
	return call.NewResult(self.RowMajor().WithDType(dtype)), nil
}
