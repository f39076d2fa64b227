package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts the classifiers and regressors of ai.onnx.ml other than support vector machines. Where the
// standard defines no result, the result is that of ONNX Runtime.

// classes has the labels of a classifier.
type classes struct {
	labels *val // int64 [count]
	count  int
}

// classes reads the labels from one of two attributes.
func (n *node) classes(strings, integers string) classes {
	labels, count := n.vocabulary(strings, integers)
	return classes{labels, count}
}

// at returns the labels at the given positions in the list of classes.
func (c classes) at(n *node, position *val) *val {
	return n.markText(n.op("index_select", graph.Attrs{"dim": 0}, c.labels, position), c.labels.isText)
}

// top returns the label of the greatest score of each row.
func (c classes) top(n *node, scores *val) *val {
	return c.at(n, n.op("argmax", graph.Attrs{"dim": -1}, scores))
}

// binary returns, for two classes, the second label where a condition holds and the first label elsewhere. If there are
// not two classes, it returns 1 and 0 instead of labels, as ONNX Runtime does.
func (c classes) binary(n *node, isSecond *val) *val {
	position := n.cast(isSecond, tensor.Int64)
	if c.count != 2 {
		if c.labels.isText {
			n.failf("a single score needs 2 labels, but there are %d", c.count)
		}
		return position
	}
	return c.at(n, position)
}

// bothScores returns the scores of two classes, [rows, 2]. second has the scores of the second class, [rows, 1]. The
// score of the first class is scoreSum - second or, after post_transform LOGISTIC, sigmoid(-second).
func (n *node) bothScores(second *val, scoreSum float64, post string) *val {
	first := n.op("rsub", nil, second, scoreSum)
	switch post {
	case "LOGISTIC":
		first, second = n.op("sigmoid", nil, n.op("neg", nil, second)), n.op("sigmoid", nil, second)
	case "PROBIT":
		n.failf("post_transform PROBIT of a single score is not supported")
	}
	return n.op("cat", graph.Attrs{"dim": 1}, first, second)
}

// column returns column i of a matrix as a vector.
func (n *node) column(x *val, i int) *val {
	return n.op("select", graph.Attrs{"dim": 1, "index": i}, x)
}

// rows returns operand 0 as a matrix of floats. A vector is a single row.
func (n *node) rows() *val {
	x := n.operand(0)
	switch n.rank(x) {
	case 1:
		x = n.reshape(x, 1, -1)
	case 2:
	default:
		n.failf("operand 0 has %d dimensions, want 1 or 2", n.rank(x))
	}
	if x.dtype() == tensor.Float64 {
		return x
	}
	return n.cast(x, tensor.Float32)
}

// matrixLike returns a list as a constant [rows, columns of x], of x's dtype.
func (n *node) matrixLike(name string, list []float64, rows int, x *val) *val {
	if rows < 1 || len(list)%rows != 0 {
		n.failf("the %d numbers of attribute %q cannot form %d rows", len(list), name, rows)
	}
	if have := n.sizes(x)[1]; have >= 0 && have*rows != len(list) {
		n.failf("attribute %q has %d numbers, want %d for %d rows of %d columns", name, len(list), have*rows, rows, have)
	}
	return n.reshape(n.floatsLike(list, x), rows, len(list)/rows)
}

// linearScores returns the products of the rows of operand 0 with `count` lists of coefficients, plus intercepts.
func (n *node) linearScores(count int) *val {
	x, intercepts := n.rows(), n.floatsOrTensor("intercepts")
	weights := n.matrixLike("coefficients", n.floatsOrTensor("coefficients"), count, x)
	if len(intercepts) == 0 {
		return n.op("linear", nil, x, weights)
	}
	n.checkLength("intercepts", len(intercepts), count)
	return n.op("linear", nil, x, weights, n.floatsLike(intercepts, x))
}

func linearRegressor(n *node) []*val {
	y := n.linearScores(n.int("targets", 1))
	return one(n.cast(n.postTransform(y, n.text("post_transform", "NONE")), tensor.Float32))
}

func linearClassifier(n *node) []*val {
	classes, post := n.classes("classlabels_strings", "classlabels_ints"), n.text("post_transform", "NONE")
	count := len(n.floatsOrTensor("intercepts"))
	if count == 0 {
		count = classes.count
	}
	if count != 1 && count != classes.count {
		n.failf("%d intercepts do not suit %d labels", count, classes.count)
	}
	scores := n.linearScores(count)
	if count > 1 {
		return []*val{classes.top(n, scores), n.cast(n.postTransform(scores, post), tensor.Float32)}
	}
	labels := classes.binary(n, n.op("gt", nil, n.column(scores, 0), 0.0))
	if classes.count == 2 {
		scores = n.bothScores(scores, 1, post)
	} else {
		scores = n.postTransform(scores, post)
	}
	return []*val{labels, n.cast(scores, tensor.Float32)}
}

// treeEnsembleClassifier converts TreeEnsembleClassifier. If there are at most two classes and only one of them has
// weights, the trees give a single score: the score of the second class.
func treeEnsembleClassifier(n *node) []*val {
	lists, classes := n.nodeLists(), n.classes("classlabels_strings", "classlabels_int64s")
	trees, post, base := lists.ensemble(), n.text("post_transform", "NONE"), n.floatsOrTensor("base_values")
	weightedClasses, nonNegative := lists.addWeights(trees, "class", "class_ids")
	scores := n.evaluate(trees, max(classes.count, 1), "sum")
	isSingle := classes.count <= 2 && len(weightedClasses) == 1
	if len(base) > 0 {
		want := classes.count
		if isSingle {
			want = 1
		}
		n.checkLength("base_values", len(base), want)
		if isSingle && !weightedClasses[0] {
			n.failf("base_values are not supported if only class 1 has weights")
		}
		if isSingle && classes.count == 2 {
			base = append(slices.Clone(base), 0)
		}
		scores = n.op("add", nil, scores, n.floatsLike(base, scores))
	}
	if !isSingle {
		return []*val{classes.top(n, scores), n.cast(n.postTransform(scores, post), tensor.Float32)}
	}
	// Scores that are not negative are probabilities of the second class. Other scores are positive for this class.
	limit, scoreSum := 0.0, 0.0
	if nonNegative {
		limit, scoreSum = 0.5, 1
	}
	if weightedClasses[0] {
		scores = n.op("narrow", graph.Attrs{"dim": 1, "start": 0, "length": 1}, scores)
		labels := classes.binary(n, n.op("gt", nil, n.column(scores, 0), limit))
		return []*val{labels, n.cast(n.bothScores(scores, scoreSum, post), tensor.Float32)}
	}
	labels := classes.binary(n, n.op("gt", nil, n.column(scores, 1), limit))
	return []*val{labels, n.cast(n.postTransform(scores, post), tensor.Float32)}
}
