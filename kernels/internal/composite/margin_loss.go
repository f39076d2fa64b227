package composite

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/index"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type multiMarginLossAttrs struct {
	P         float64 `attr:"p" default:"1" doc:"exponent, 1 or 2"`
	Margin    float64 `attr:"margin" default:"1" doc:"margin"`
	Reduction int     `attr:"reduction" default:"1" doc:"0: the loss of each row; 1: their mean; 2: their sum"`
}

type multilabelMarginLossAttrs struct {
	Reduction int `attr:"reduction" default:"1" doc:"0: the loss of each row; 1: their mean; 2: their sum"`
}

// Losses by margins: the distances between the score of a target class and the scores of the other classes. Self has a
// row of scores for each of n samples, [n, classes], or is one row. The function of an op applies other ops by the
// methods of an applier, s. s.Reject(condition, ...) and s.Check(err) end the function with an error.
var (
	MultiMarginLoss = define(graph.Semantics{
		Name: "multi_margin_loss", Doc: "Returns the sums of max(0, margin - self[target] + self[j])^p over the classes j " +
			"other than `target`, divided by the number of classes. Self is [n, classes] or [classes], and `target` [n] or " +
			"[]. A sum is multiplied by the element of `weight` [classes] for its target.",
		Params: []graph.Param{kit.Self, targetClasses, kit.OptWeight},
		Examples: []graph.Example{kit.Example(nil, kit.F32(3, 4), tensor.New(tensor.Int64, 3)),
			kit.Example(graph.Attrs{"p": 2, "reduction": 0}, kit.F32(3, 4), tensor.New(tensor.Int64, 3), kit.F32(4))},
	}, multiMarginLoss)
	MultilabelMarginLoss = define(graph.Semantics{
		Name: "multilabel_margin_loss", Doc: "Returns the sums of max(0, 1 - self[k] + self[j]) over the classes k of " +
			"`target` and all other classes j, divided by the number of classes. Self and `target` are [n, classes] or " +
			"[classes]. The classes of a row of `target` end before its first -1.",
		Params: []graph.Param{kit.Self, targetClasses},
		Examples: []graph.Example{kit.Example(nil, kit.F32(3, 4), tensor.New(tensor.Int64, 3, 4)),
			kit.Example(graph.Attrs{"reduction": 0}, kit.F32(4), tensor.New(tensor.Int64, 4))},
	}, multilabelMarginLoss)
)

// targetClasses is an operand with indices of classes.
var targetClasses = graph.Param{Name: "target", IndexBound: classIndexBound}

// classIndexBound returns the bound on indices of classes: the size of the last dimension of self.
func classIndexBound(call *graph.Call) int {
	shape := call.Meta(0).Shape
	if len(shape) == 0 {
		return 1
	}
	return shape[len(shape)-1]
}

// scoreRows returns self as a matrix, and its number of rows and of classes. It rejects the shapes and dtypes that
// PyTorch rejects. name is the name of PyTorch's kernel in the error.
func (s applier) scoreRows(x *graph.Arg, name string) (matrix *graph.Arg, rows, classes sym.Int) {
	shape, dtype := s.shape(x), x.Type().DType
	rank := len(shape)
	s.Reject(rank > 2 || rank > 0 && kit.SizeIs(shape[rank-1], 0), "Expected non-empty vector or matrix with optional "+
		"0-dim batch size, but got: %s", tensor.Sizes(shape))
	if dtype != tensor.Float32 && dtype != tensor.Float64 {
		s.Check(kit.NotImplementedBy(name, dtype))
	}
	rows, classes = sym.Of(1), sym.Of(1)
	if rank > 0 {
		classes = shape[rank-1]
	}
	if rank == 2 {
		rows = shape[0]
	}
	return s.reshape(x, rows, classes), rows, classes
}

// multiMarginLoss computes margin - x[target] + x[j] for all classes j. The loss of a row is the mean of these numbers
// or of their squares. Negative numbers, and the number of the target class, count as 0.
func multiMarginLoss(s applier, a *multiMarginLossAttrs, in []*graph.Arg) []*graph.Arg {
	x, rows, classes := s.scoreRows(in[0], "multi_margin_loss_forward_out_frame")
	targetType := in[1].Type()
	s.Reject(a.P != 1 && a.P != 2, "only p == 1 and p == 2 supported")
	s.Reject(targetType.Rank() > 1 || tensor.Product(targetType.Shape).Ne(rows).Holds(),
		"inconsistent target size, expected %v but got %s", rows, tensor.Sizes(targetType.Shape))
	s.Reject(targetType.DType != tensor.Int64, "expected scalar type Long but found %s", targetType.DType.TorchName())
	target := s.reshape(in[1], rows, sym.Of(1))
	targetScores := s.Apply(index.Gather, graph.Attrs{"dim": 1}, x, target)
	margins := s.add(s.Apply(pointwise.Rsub, nil, targetScores, float(a.Margin)), x)
	isOther := s.Apply(pointwise.Ne, nil, s.arange(classes), target)
	isCounted := s.and(isOther, s.Apply(pointwise.Gt, nil, margins, float(0))) // PyTorch ignores NaN
	if a.P == 2 {
		margins = s.mul(margins, margins)
	}
	if in[2].Kind != graph.Null {
		weightType := in[2].Type()
		s.Reject(weightType.Rank() > 1 || tensor.Product(weightType.Shape).Ne(classes).Holds(),
			"inconsistent weight size, expected %v but got %s", classes, tensor.Sizes(weightType.Shape))
		s.Reject(weightType.DType != x.Type().DType, "expected scalar type %s but found %s",
			x.Type().DType.TorchName(), weightType.DType.TorchName())
		weights := s.Apply(index.Take, nil, in[2], target)
		margins = s.mul(margins, weights)
	}
	return s.applyReduction(s.rowMeans(s.keepOnly(isCounted, margins), targetType.Rank()), a.Reduction)
}

// multilabelMarginLoss computes 1 - x[k] + x[j] for all pairs of a listed class k and a class j that is not listed. For
// example, the target [3, 1, -1, 2] of a row lists the classes 3 and 1; the other classes are 0 and 2.
func multilabelMarginLoss(s applier, a *multilabelMarginLossAttrs, in []*graph.Arg) []*graph.Arg {
	x, rows, classes := s.scoreRows(in[0], "multilabel_margin_loss_forward_out_frame")
	xType, targetType := in[0].Type(), in[1].Type()
	matches := tensor.SameSizes(xType.Shape, targetType.Shape)
	if xType.Rank() < 2 {
		matches = targetType.Rank() < 2 && tensor.Product(targetType.Shape).Eq(classes).Holds()
	}
	s.Reject(!matches, "inconsistent target size: %s for input of size: %s", tensor.Sizes(targetType.Shape),
		tensor.Sizes(xType.Shape))
	s.Reject(targetType.DType != tensor.Int64, "expected scalar type Long but found %s", targetType.DType.TorchName())
	target := s.reshape(in[1], rows, classes)
	isTerminator := s.Apply(pointwise.Eq, nil, target, integer(-1))
	target = s.Apply(index.MaskedFill, nil, target, isTerminator, integer(0))       // gather rejects negative indices
	isListed := s.Apply(reduce.Cumprod, graph.Attrs{"dim": 1}, s.not(isTerminator)) // 1 before the first -1 of a row
	zeros := s.Apply(view.ZerosLike, nil, target)
	listings := s.Apply(index.ScatterAdd, graph.Attrs{"dim": 1}, zeros, target, isListed) // counts by class
	isOther := s.Apply(pointwise.Eq, nil, listings, integer(0))
	targetScores := s.Apply(index.Gather, graph.Attrs{"dim": 1}, x, target)
	margins := s.add(s.unsqueeze(s.oneMinus(targetScores), 2), s.unsqueeze(x, 1)) // [row, listed class, other class]
	isCounted := s.and(s.and(s.unsqueeze(isListed, 2), s.unsqueeze(isOther, 1)),
		s.Apply(pointwise.Gt, nil, margins, float(0))) // PyTorch ignores NaN
	sums := s.sum(s.keepOnly(isCounted, margins), dropDims, []int{1})
	return s.applyReduction(s.rowMeans(sums, targetType.Rank()-1), a.Reduction)
}

// rowMeans returns the mean of each row of the matrix x: a vector, or a scalar if resultRank is at most 0 (x then has
// one row).
func (s applier) rowMeans(x *graph.Arg, resultRank int) *graph.Arg {
	means := s.Apply(reduce.Mean, graph.Attrs{"dim": []int{1}}, x)
	if resultRank <= 0 {
		means = s.reshape(means)
	}
	return means
}
