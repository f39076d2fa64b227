package composite

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/tensor"
)

// The losses of this file are sequences of other ops, with the roundings of PyTorch's sequences. Function loss defines
// an op from a formula for the loss of each element; applyReduction then returns these losses, their mean or their sum.
// s.inPlace(x, y) stands for an op of PyTorch that stores y in the memory of x: y gets the dtype and layout of x
// (steps.go).

// loss defines a loss by a sequence of ops. The function compute gets the operands; omitted ones are null. It
// returns the loss of each element, and the attribute "reduction".
func loss[A any](name, doc string, params []graph.Param, examples []graph.Example,
	compute func(s applier, a A, in []*graph.Arg) (loss *graph.Arg, reduction int)) *graph.Op {
	return define(graph.Semantics{Name: name, Doc: doc, Params: params, Examples: examples},
		func(s applier, a A, in []*graph.Arg) []*graph.Arg {
			losses, reduction := compute(s, a, in)
			return s.applyReduction(losses, reduction)
		})
}

// applyReduction returns the losses, or their mean or sum.
func (s applier) applyReduction(losses *graph.Arg, reduction int) []*graph.Arg {
	s.Reject(reduction < 0 || reduction > 2, "%d is not a valid value for reduction", reduction)
	switch reduction {
	case 1: // the mean
		losses = s.Apply(reduce.Mean, nil, losses)
	case 2: // the sum
		losses = s.Apply(reduce.Sum, nil, losses)
	}
	return []*graph.Arg{losses}
}

type lossAttrs struct {
	Reduction int `attr:"reduction" default:"1" doc:"0: the loss of each element; 1: their mean; 2: their sum"`
}

type smoothL1LossAttrs struct {
	Reduction int     `attr:"reduction" default:"1" doc:"0: the loss of each element; 1: their mean; 2: their sum"`
	Beta      float64 `attr:"beta" default:"1" doc:"difference from which on the loss is linear; 0: everywhere, as in l1_loss"`
}

type huberLossAttrs struct {
	Reduction int     `attr:"reduction" default:"1" doc:"0: the loss of each element; 1: their mean; 2: their sum"`
	Delta     float64 `attr:"delta" default:"1" doc:"difference above which the loss is linear; greater than 0"`
}

type klDivAttrs struct {
	Reduction int  `attr:"reduction" default:"1" doc:"0: the loss of each element; 1: their mean; 2: their sum"`
	LogTarget bool `attr:"log_target" default:"false" doc:"target has logarithms of probabilities, too"`
}

type poissonNllLossAttrs struct {
	LogInput  bool    `attr:"log_input" default:"true" doc:"self has logarithms of expectations"`
	Full      bool    `attr:"full" default:"false" doc:"add Stirling's approximation of log(target!) where target is above 1"`
	Eps       float64 `attr:"eps" default:"1e-8" doc:"number added to self before the logarithm is taken"`
	Reduction int     `attr:"reduction" default:"1" doc:"0: the loss of each element; 1: their mean; 2: their sum"`
}

type gaussianNllLossAttrs struct {
	Full      bool    `attr:"full" default:"false" doc:"add the constant log(2*pi) / 2, which does not depend on the operands"`
	Eps       float64 `attr:"eps" default:"1e-6" doc:"least variance"`
	Reduction int     `attr:"reduction" default:"1" doc:"0: the loss of each element; 1: their mean; 2: their sum"`
}

type hingeLossAttrs struct {
	Margin    float64 `attr:"margin" default:"1" doc:"margin"`
	Reduction int     `attr:"reduction" default:"1" doc:"0: the loss of each element; 1: their mean; 2: their sum"`
}

type marginLossAttrs struct {
	Margin    float64 `attr:"margin" default:"0" doc:"margin"`
	Reduction int     `attr:"reduction" default:"1" doc:"0: the loss of each element; 1: their mean; 2: their sum"`
}

type tripletLossAttrs struct {
	Margin    float64 `attr:"margin" default:"1" doc:"margin"`
	P         float64 `attr:"p" default:"2" doc:"order of the norm of differences"`
	Eps       float64 `attr:"eps" default:"1e-6" doc:"number added to each difference"`
	Swap      bool    `attr:"swap" default:"false" doc:"use |positive - negative| in place of |anchor - negative| where it is less"`
	Reduction int     `attr:"reduction" default:"1" doc:"0: the loss of each sample; 1: their mean; 2: their sum"`
}

var (
	target       = graph.Param{Name: "target"}
	lossParams   = []graph.Param{kit.Self, target}
	lossExamples = []graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.TransposedMatrix),
		kit.Example(graph.Attrs{"reduction": 0}, kit.TransposedMatrix, kit.FloatMatrix)}
)

// The losses of a value and a target.
var (
	MseLoss = loss("mse_loss", "Returns (self - target)^2.", lossParams, lossExamples,
		func(s applier, a *lossAttrs, in []*graph.Arg) (*graph.Arg, int) {
			return s.Apply(compose.MseElements, nil, in...), a.Reduction
		})
	L1Loss = loss("l1_loss", "Returns abs(self - target).", lossParams, lossExamples,
		func(s applier, a *lossAttrs, in []*graph.Arg) (*graph.Arg, int) {
			return s.Apply(pointwise.Abs, nil, s.sub(in[0], in[1])), a.Reduction
		})
	SmoothL1Loss = loss("smooth_l1_loss", "Returns d^2 / (2 * beta) if d < beta, else d - beta/2, with d = abs(self - "+
		"target).", lossParams, lossExamples,
		func(s applier, a *smoothL1LossAttrs, in []*graph.Arg) (*graph.Arg, int) {
			s.Reject(!(a.Beta >= 0), "smooth_l1_loss does not support negative values for beta.")
			return s.Apply(compose.SmoothL1Elements, graph.Attrs{"beta": a.Beta}, in...), a.Reduction
		})
	HuberLoss = loss("huber_loss", "Returns d^2 / 2 if d <= delta, else delta * (d - delta/2), with d = abs(self - "+
		"target).", lossParams, lossExamples,
		func(s applier, a *huberLossAttrs, in []*graph.Arg) (*graph.Arg, int) {
			s.Reject(!(a.Delta > 0), "huber_loss does not support non-positive values for delta.")
			losses := s.Apply(compose.HuberElements, graph.Attrs{"delta": a.Delta}, in...)
			return s.preserveFormat(losses, in[0]), a.Reduction
		})
	SoftMarginLoss = loss("soft_margin_loss", "Returns log(1 + exp(-self * target)).", lossParams, lossExamples,
		softMarginLoss)
	HingeEmbeddingLoss = loss("hinge_embedding_loss", "Returns self where `target` is 1, and max(0, margin - self) "+
		"where it is -1.", lossParams, lossExamples, hingeEmbeddingLoss)
	KlDiv = loss("kl_div", "Returns the Kullback-Leibler divergence of `target` from self, which has logarithms of "+
		"probabilities.", lossParams,
		append(lossExamples, kit.Example(graph.Attrs{"log_target": true}, kit.TransposedMatrix, kit.FloatMatrix)),
		klDiv)
	PoissonNllLoss = loss("poisson_nll_loss", "Returns the negative logarithm of the likelihood of `target` under "+
		"Poisson distributions with the expectations self.", lossParams, append(lossExamples,
		kit.Example(graph.Attrs{"log_input": false, "full": true}, kit.TransposedMatrix, kit.FloatMatrix)),
		poissonNllLoss)
	BinaryCrossEntropy = loss("binary_cross_entropy", "Returns the cross entropy of the probabilities self and "+
		"`target`, times `weight`. Logarithms are at least -100. PyTorch rejects elements of self outside [0, 1], for "+
		"which the result is unspecified.", []graph.Param{kit.Self, target, kit.OptWeight}, lossExamples,
		binaryCrossEntropy)
	BinaryCrossEntropyWithLogits = loss("binary_cross_entropy_with_logits",
		"Returns the cross entropy of sigmoid(self) and `target`, times `weight`. `pos_weight` multiplies the term "+
			"target * log(sigmoid(self)).",
		[]graph.Param{kit.Self, target, kit.OptWeight, {Name: "pos_weight", Optional: true}},
		append(lossExamples, kit.Example(nil, kit.FloatMatrix, kit.FloatMatrix, kit.FloatRow, kit.FloatRow)),
		crossEntropyWithLogits)
)

// softMarginLoss returns log(1 + exp(-x * target)).
func softMarginLoss(s applier, a *lossAttrs, in []*graph.Arg) (losses *graph.Arg, reduction int) {
	x, target := in[0], in[1]
	exponent := s.neg(x)
	exponent = s.inPlace(exponent, s.mul(exponent, target))
	exponential := s.inPlace(exponent, s.exp(exponent))
	if exponential.Type().DType.IsComplex() {
		return s.log(s.addNumber(exponential, 1)), a.Reduction
	}
	return s.Apply(pointwise.Log1p, nil, exponential), a.Reduction
}

// hingeEmbeddingLoss adds two terms: max(0, margin - x) where target is not 1, and x where target is not -1. Elsewhere
// a term is 0.
func hingeEmbeddingLoss(s applier, a *hingeLossAttrs, in []*graph.Arg) (losses *graph.Arg, reduction int) {
	x, target := in[0], in[1]
	margin := s.Apply(view.FullLike, graph.Attrs{"fill_value": a.Margin}, x)
	hinge := s.atLeastZero(s.inPlace(margin, s.sub(margin, x)))
	notOne := s.Apply(pointwise.Ne, nil, target, float(1))
	notMinusOne := s.Apply(pointwise.Ne, nil, target, float(-1))
	return s.add(s.keepOnly(notOne, hinge), s.keepOnly(notMinusOne, x)), a.Reduction
}

// klDiv returns target * (log(target) - x), or exp(target) * (target - x) if target has logarithms.
func klDiv(s applier, a *klDivAttrs, in []*graph.Arg) (losses *graph.Arg, reduction int) {
	x, target := in[0], in[1]
	for _, operand := range in {
		s.Reject(operand.Type().DType.IsComplex(), "kl_div: Complex inputs not supported.")
		s.Reject(operand.Type().DType.IsIntegral(true), "kl_div: Integral inputs not supported.")
	}
	if a.LogTarget {
		return s.mul(s.exp(target), s.sub(target, x)), a.Reduction
	}
	return s.sub(s.Apply(pointwise.Xlogy, nil, target, target), s.mul(target, x)), a.Reduction
}

// binaryCrossEntropy returns the cross entropies of elements, in the layout of x, times weight if it is given.
func binaryCrossEntropy(s applier, a *lossAttrs, in []*graph.Arg) (losses *graph.Arg, reduction int) {
	x, target, weight := in[0], in[1], in[2]
	xShape, targetShape := x.Type().Shape, target.Type().Shape
	s.Reject(!tensor.SameSizes(xShape, targetShape),
		"Using a target size (%s) that is different to the input size (%s) is "+
			"deprecated. Please ensure they have the same size.", tensor.Sizes(targetShape), tensor.Sizes(xShape))
	losses = s.preserveFormat(s.Apply(compose.BinaryCrossEntropyElements, nil, x, target), x)
	if weight.Kind != graph.Null {
		losses = s.inPlace(losses, s.mul(losses, weight))
	}
	return losses, a.Reduction
}

// poissonNllLoss returns exp(x) - target*x or, if self has no logarithms, x - target*log(x + eps). With a.Full, it adds
// Stirling's approximation of log(target!) where target is above 1.
func poissonNllLoss(s applier, a *poissonNllLossAttrs, in []*graph.Arg) (losses *graph.Arg, reduction int) {
	x, target := in[0], in[1]
	if a.LogInput {
		losses = s.sub(s.exp(x), s.mul(target, x))
	} else {
		losses = s.sub(x, s.mul(target, s.log(s.addNumber(x, a.Eps))))
	}
	if a.Full {
		// target*log(target) - target + log(2*pi*target) / 2
		logTwoPiTarget := s.log(s.mul(float(2*math.Pi), target))
		stirling := s.add(s.sub(s.mul(target, s.log(target)), target), s.mul(float(0.5), logTwoPiTarget))
		isAboveOne := s.Apply(pointwise.Gt, nil, target, float(1))
		losses = s.inPlace(losses, s.add(losses, s.keepOnly(isAboveOne, stirling)))
	}
	return losses, a.Reduction
}

// crossEntropyWithLogits returns (1-target)*x + shift + log(exp(-shift) + exp(-x-shift)) with shift = max(-x, 0). The
// shift prevents overflow. pos_weight multiplies all but the first term by (pos_weight-1)*target + 1. weight, if given,
// multiplies the result.
func crossEntropyWithLogits(s applier, a *lossAttrs, in []*graph.Arg) (losses *graph.Arg, reduction int) {
	x, target, weight, posWeight := in[0], in[1], in[2], in[3]
	shift := s.atLeastZero(s.neg(x))
	exponentials := s.exp(s.neg(shift))
	logarithms := s.log(s.inPlace(exponentials, s.add(exponentials, s.exp(s.sub(s.neg(x), shift)))))
	oneMinusTarget := s.oneMinus(target)
	losses = s.inPlace(oneMinusTarget, s.mul(oneMinusTarget, x))
	if posWeight.Kind != graph.Null {
		factor := s.mul(s.sub(posWeight, integer(1)), target)
		factor = s.inPlace(factor, s.add(factor, integer(1)))
		weighted := s.inPlace(factor, s.mul(factor, s.inPlace(logarithms, s.add(logarithms, shift))))
		losses = s.inPlace(losses, s.add(losses, weighted))
	} else {
		losses = s.inPlace(losses, s.add(s.inPlace(losses, s.add(losses, shift)), logarithms))
	}
	if weight.Kind != graph.Null {
		losses = s.inPlace(losses, s.mul(losses, weight))
	}
	return losses, a.Reduction
}

// The losses of several values.
var (
	GaussianNllLoss = loss("gaussian_nll_loss", "Returns the negative logarithm of the likelihood of `target` under "+
		"normal distributions with the expectations self and the variances `var`. `var` has self's shape, but its last "+
		"dimension may have size 1 or be missing. Negative variances, which PyTorch rejects, are replaced by `eps`.",
		[]graph.Param{kit.Self, target, {Name: "var"}},
		[]graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.TransposedMatrix, kit.TransposedMatrix),
			kit.Example(graph.Attrs{"reduction": 0, "full": true}, kit.FloatMatrix, kit.FloatMatrix, kit.F32(2))},
		gaussianNllLoss)
	MarginRankingLoss = loss("margin_ranking_loss", "Returns max(0, margin - target * (input1 - input2)).",
		[]graph.Param{{Name: "input1"}, {Name: "input2"}, target},
		[]graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.TransposedMatrix, kit.TransposedMatrix),
			kit.Example(graph.Attrs{"reduction": 0, "margin": 0.5}, kit.FloatRow, kit.FloatRow, kit.FloatRow)},
		func(s applier, a *marginLossAttrs, in []*graph.Arg) (*graph.Arg, int) {
			losses := s.addNumber(s.mul(s.neg(in[2]), s.sub(in[0], in[1])), a.Margin)
			return s.inPlace(losses, s.atLeastZero(losses)), a.Reduction
		})
	CosineEmbeddingLoss = loss("cosine_embedding_loss",
		"Returns 1 - cos for pairs of vectors whose `target` is 1, and max(0, cos - margin) for pairs whose `target` is "+
			"-1, where cos is the cosine of their angle.",
		[]graph.Param{{Name: "input1"}, {Name: "input2"}, target},
		[]graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.TransposedMatrix, kit.F32(2)),
			kit.Example(graph.Attrs{"reduction": 0, "margin": 0.5}, kit.FloatRow, kit.FloatRow, kit.F32())},
		cosineEmbeddingLoss)
	TripletMarginLoss = loss("triplet_margin_loss", "Returns max(0, margin + |anchor - positive| - |anchor - "+
		"negative|). |v| is the `p`-norm of v + eps over the last dimension.",
		[]graph.Param{{Name: "anchor"}, {Name: "positive"}, {Name: "negative"}},
		[]graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.TransposedMatrix, kit.TransposedMatrix),
			kit.Example(graph.Attrs{"reduction": 0, "swap": true, "p": 1}, kit.FloatMatrix, kit.FloatMatrix,
				kit.FloatMatrix)},
		tripletMarginLoss)
	MultilabelSoftMarginLoss = loss("multilabel_soft_margin_loss", "Returns the mean over the last dimension of the "+
		"cross entropies of sigmoid(self) and `target`, times `weight`.", []graph.Param{kit.Self, target, kit.OptWeight},
		append(lossExamples, kit.Example(nil, kit.FloatMatrix, kit.FloatMatrix, kit.FloatRow)),
		multilabelSoftMarginLoss)
)

// gaussianNllLoss returns (log(variance) + (self-target)^2 / variance) / 2. With a.Full, it adds log(2*pi) / 2.
// Variances below a.Eps are replaced by it.
func gaussianNllLoss(s applier, a *gaussianNllLossAttrs, in []*graph.Arg) (losses *graph.Arg, reduction int) {
	variance := s.Apply(pointwise.Clamp, graph.Attrs{"min": a.Eps}, s.broadcastVariance(in[2], in[0].Type()))
	squares := s.Apply(pointwise.Square, nil, s.sub(in[0], in[1]))
	losses = s.mul(float(0.5), s.add(s.log(variance), s.div(squares, variance)))
	if a.Full {
		losses = s.addNumber(losses, 0.5*math.Log(2*math.Pi))
	}
	return losses, a.Reduction
}

// broadcastVariance returns the variances in a shape that broadcasts with self, whose last dimension they may lack.
func (s applier) broadcastVariance(variance *graph.Arg, xType tensor.Type) *graph.Arg {
	varianceType := variance.Type()
	batchRank := max(xType.Rank()-1, 0)
	switch {
	case tensor.SameSizes(varianceType.Shape, xType.Shape): // no change
	case xType.Rank() > 0 && tensor.SameSizes(varianceType.Shape, xType.Shape[:batchRank]):
		variance = s.Apply(view.Unsqueeze, graph.Attrs{"dim": -1}, variance)
	case varianceType.Rank() != xType.Rank() || !tensor.SameSizes(varianceType.Shape[:batchRank],
		xType.Shape[:batchRank]) || !kit.SizeIs(varianceType.Shape[batchRank], 1):
		s.Reject(true, "var is of incorrect size")
	}
	s.Reject(!varianceType.DType.IsFloat(), "result type Float can't be cast to the desired output type %s",
		varianceType.DType.TorchName())
	return variance
}

// cosineEmbeddingLoss computes cos as x.y / sqrt((x.x + 1e-12) * (y.y + 1e-12)), as PyTorch does.
func cosineEmbeddingLoss(s applier, a *marginLossAttrs, in []*graph.Arg) (losses *graph.Arg, reduction int) {
	x, y, target := in[0], in[1], in[2]
	targetRank := target.Type().Rank()
	s.Reject(targetRank > 1, "0D or 1D target tensor expected, multi-target not supported")
	s.Reject(x.Type().Rank() != targetRank+1 || y.Type().Rank() != targetRank+1,
		"%dD target tensor expects %dD input tensors, but found inputs with sizes %s and %s.", targetRank, targetRank+1,
		tensor.Sizes(x.Type().Shape), tensor.Sizes(y.Type().Shape))
	dot := func(x, y *graph.Arg) *graph.Arg {
		return s.Apply(reduce.Sum, graph.Attrs{"dim": []int{targetRank}}, s.mul(x, y))
	}
	squaredNorm := func(x *graph.Arg) *graph.Arg { return s.addNumber(dot(x, x), 1e-12) }
	cos := s.div(dot(x, y), s.Apply(pointwise.Sqrt, nil, s.mul(squaredNorm(x), squaredNorm(y))))
	equals := func(n int64) *graph.Arg { return s.Apply(pointwise.Eq, nil, target, integer(n)) }
	return s.add(s.keepOnly(equals(1), s.oneMinus(cos)),
		s.keepOnly(equals(-1), s.atLeastZero(s.addNumber(cos, -a.Margin)))), a.Reduction
}

// tripletMarginLoss returns max(0, margin + |anchor - positive| - |anchor - negative|). With swap, the subtracted
// distance is the minimum of |anchor - negative| and |positive - negative|.
func tripletMarginLoss(s applier, a *tripletLossAttrs, in []*graph.Arg) (losses *graph.Arg, reduction int) {
	anchor, positive, negative := in[0], in[1], in[2]
	anchorRank, positiveRank, negativeRank := anchor.Type().Rank(), positive.Type().Rank(), negative.Type().Rank()
	s.Reject(anchorRank != positiveRank || anchorRank != negativeRank,
		"All inputs should have same dimension but got %dD, %dD and %dD inputs.", anchorRank, positiveRank,
		negativeRank)
	distance := func(x, y *graph.Arg) *graph.Arg { return s.distance(x, y, a.P, a.Eps) }
	positiveDistance, negativeDistance := distance(anchor, positive), distance(anchor, negative)
	if a.Swap {
		negativeDistance = s.Apply(pointwise.Minimum, nil, negativeDistance, distance(positive, negative))
	}
	return s.atLeastZero(s.sub(s.addNumber(positiveDistance, a.Margin), negativeDistance)), a.Reduction
}

// multilabelSoftMarginLoss returns the means of -(target*log(sigmoid(x)) + (1-target)*log(sigmoid(-x))) over the last
// dimension.
func multilabelSoftMarginLoss(s applier, a *lossAttrs, in []*graph.Arg) (losses *graph.Arg, reduction int) {
	x, target, weight := in[0], in[1], in[2]
	positive := s.mul(target, s.Apply(pointwise.LogSigmoid, nil, x))
	negative := s.mul(s.oneMinus(target), s.Apply(pointwise.LogSigmoid, nil, s.neg(x)))
	losses = s.neg(s.add(positive, negative))
	if weight.Kind != graph.Null {
		losses = s.mul(losses, weight)
	}
	s.Check(lastDimError(x.Type()))
	return s.Apply(reduce.Mean, graph.Attrs{"dim": []int{-1}}, losses), a.Reduction
}

// lastDimError returns the error of a value without dimensions.
func lastDimError(t tensor.Type) error {
	if t.Rank() == 0 {
		return fmt.Errorf("Dimension specified as -1 but tensor has no dimensions")
	}
	return nil
}

// atLeastZero returns max(x, 0).
func (s applier) atLeastZero(x *graph.Arg) *graph.Arg {
	return s.Apply(pointwise.ClampMin, graph.Attrs{"min": 0}, x)
}

// keepOnly returns x where the condition holds, else 0.
func (s applier) keepOnly(condition, x *graph.Arg) *graph.Arg {
	return s.Apply(pointwise.Where, nil, condition, x, s.Apply(view.FullLike, graph.Attrs{"fill_value": 0}, x))
}

// distance returns pairwise_distance(x, y) of order p.
func (s applier) distance(x, y *graph.Arg, p, eps float64) *graph.Arg {
	return s.Apply(reduce.Norm, graph.Attrs{"p": p, "dim": []int{-1}}, s.addNumber(s.sub(x, y), eps))
}
