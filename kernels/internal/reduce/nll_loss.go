package reduce

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type nllLossAttrs struct {
	Reduction   int `attr:"reduction" default:"1" doc:"0: the loss of each target; 1: their weighted mean; 2: their sum"`
	IgnoreIndex int `attr:"ignore_index" default:"-100" range:"int64" doc:"target class whose loss and weight are 0"`
}

type crossEntropyAttrs struct {
	Reduction   int     `attr:"reduction" default:"1" doc:"0: the loss of each target; 1: their weighted mean; 2: their sum"`
	IgnoreIndex int     `attr:"ignore_index" default:"-100" range:"int64" doc:"target class whose loss and weight are 0"`
	Smoothing   float64 `attr:"label_smoothing" default:"0" doc:"share of the targets that is spread evenly over all classes, 0 to 1"`
}

// NllLoss is the negated element of the target class. CrossEntropyLoss is the negated log-softmax at the target class.
var (
	NllLoss = nllLossOp(graph.SchemaOf[*nllLossAttrs](), "nll_loss",
		"Returns minus the element of the target class, times the weight of the class: self [n, c, ...] or [c], "+
			"`target` int64 [n, ...] and `weight` [c].", isNllLoss,
		func(c *graph.Call) (reduction, ignoreIndex int, smoothing float64) {
			attrs := kit.Attrs[*nllLossAttrs](c)
			return attrs.Reduction, attrs.IgnoreIndex, 0
		})
	CrossEntropyLoss = nllLossOp(graph.SchemaOf[*crossEntropyAttrs](), "cross_entropy_loss",
		"Returns minus the logarithm of the softmax at the target class, times the weight of the class: self [n, c, "+
			"...] or [c], `target` int64 [n, ...] and `weight` [c]. A `target` of self's shape has the probability of each "+
			"class instead of a class; the mean then divides by the number of targets, not by the sum of weights.",
		isCrossEntropyLoss, func(c *graph.Call) (reduction, ignoreIndex int, smoothing float64) {
			attrs := kit.Attrs[*crossEntropyAttrs](c)
			return attrs.Reduction, attrs.IgnoreIndex, attrs.Smoothing
		})
)

// Values of isCrossEntropy.
const isNllLoss, isCrossEntropyLoss = false, true

// nllLossOp defines cross_entropy_loss if isCrossEntropy is set, else nll_loss.
func nllLossOp(attrs *graph.Schema, name, doc string, isCrossEntropy bool,
	readAttrs func(c *graph.Call) (reduction, ignoreIndex int, smoothing float64)) *graph.Op {
	lossOf := func(c *graph.Call) (*nllLoss, error) {
		loss := &nllLoss{isCrossEntropy: isCrossEntropy}
		loss.reduction, loss.ignoreIndex, loss.smoothing = readAttrs(c)
		if !(loss.smoothing > 0) { // PyTorch ignores negative numbers and NaN
			loss.smoothing = 0
		}
		loss.hasProbabilities = isCrossEntropy && tensor.SameSizes(c.Type(0).Shape, c.Type(1).Shape)
		return loss, loss.checkAndSetSizes(c)
	}
	return kit.DefineWith(attrs, graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc,
			Params: []graph.Param{kit.Self, {Name: "target", IndexBound: classIndexBound}, kit.OptWeight},
			Infer: func(call *graph.Call) ([]graph.Result, error) {
				loss, err := lossOf(call)
				if err != nil {
					return nil, err
				}
				dtype, err := loss.resultDType(call)
				if err != nil || loss.reduction != reductionNone {
					return call.NewResult(tensor.NewType(dtype)), err
				}
				return call.NewResult(tensor.NewType(dtype, targetSizes(call.Type(0))...)), nil
			},
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				loss, err := lossOf(c)
				if err != nil {
					return nil, err
				}
				dtype, err := loss.resultDType(c)
				if err != nil {
					return nil, err
				}
				return loss.ref(dtype, in)
			},
			Examples: []graph.Example{
				{In: []tensor.Meta{kit.F32(2, 3), tensor.New(tensor.Int64, 2), kit.F32(3)}},
				{In: []tensor.Meta{kit.F32(2, 3, 4), tensor.New(tensor.Int64, 2, 4)},
					Attrs: graph.Attrs{"reduction": reductionNone, "ignore_index": 1}},
			},
		},
		Facts: graph.Facts{FixedLayoutReason: "losses are written in row-major order while they are summed"},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) {
				loss, err := lossOf(c)
				if err != nil {
					return nil, err
				}
				if c.Out[0].DType.OpMath() == tensor.Float32 {
					return compileNllLoss[float32](c, loss)
				}
				return compileNllLoss[float64](c, loss)
			},
		},
	})
}

// classIndexBound returns the bound on targets: the number of classes. self is [n, classes, ...] or [classes].
func classIndexBound(c *graph.Call) int {
	return kit.SizeOrMissing(c.Meta(0), min(1, c.Meta(0).Rank()-1))
}
