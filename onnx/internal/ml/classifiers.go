package ml

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts the classifiers and regressors of ai.onnx.ml other than support vector machines. For each row, a
// classifier returns a label and the scores of the classes. For example, with the labels ["cat", "dog"], the scores
// [0.2, 0.8] give the label "dog". Many models of two classes compute only the score of the second class. From this
// score, binaryLabels makes the label, and bothScores makes two scores. Where the standard defines no result, the
// result equals ONNX Runtime's.

// linearRegressor converts LinearRegressor.
func linearRegressor(n *node) []*value {
	y := linearScores(n, n.Int("targets", 1))
	return single(n.Cast(postTransform(n, y, n.Text("post_transform", "NONE")), tensor.Float32))
}

// linearClassifier converts LinearClassifier. There is one score for each intercept. Without intercepts, there is one
// score for each label. A single score belongs to the second class. If it is positive, the label is the second class.
func linearClassifier(n *node) []*value {
	classes, transform := readClasses(n, "classlabels_strings", "classlabels_ints"), n.Text("post_transform", "NONE")
	count := len(floatsOrTensor(n, "intercepts"))
	if count == 0 {
		count = classes.count
	}
	if count != 1 && count != classes.count {
		n.Failf("%d intercepts do not suit %d labels", count, classes.count)
	}
	scores := linearScores(n, count)
	if count > 1 {
		return []*value{classes.topLabels(n, scores), n.Cast(postTransform(n, scores, transform), tensor.Float32)}
	}
	labels := classes.binaryLabels(n, n.Op("gt", nil, column(n, scores, 0), 0.0))
	if classes.count == 2 {
		const scoreSum = 1
		scores = bothScores(n, scores, scoreSum, transform)
	} else {
		scores = postTransform(n, scores, transform)
	}
	return []*value{labels, n.Cast(scores, tensor.Float32)}
}

// linearScores returns the products of the rows of operand 0 with `count` lists of coefficients, plus intercepts.
func linearScores(n *node, count int) *value {
	x, intercepts := operandRows(n), floatsOrTensor(n, "intercepts")
	weights := matrixLike(n, "coefficients", floatsOrTensor(n, "coefficients"), count, x)
	if len(intercepts) == 0 {
		return n.Op("linear", nil, x, weights)
	}
	checkLength(n, "intercepts", len(intercepts), count)
	return n.Op("linear", nil, x, weights, floatsLike(n, intercepts, x))
}

// treeEnsembleClassifier converts TreeEnsembleClassifier. If there are at most two classes and only one of them has
// weights, the trees give only the score of the second class.
func treeEnsembleClassifier(n *node) []*value {
	lists, classes := readNodeLists(n), readClasses(n, "classlabels_strings", "classlabels_int64s")
	trees, transform, base := lists.ensemble(), n.Text("post_transform", "NONE"), floatsOrTensor(n, "base_values")
	weightedClasses, nonNegative := lists.addWeights(trees, "class", "class_ids")
	scores := evaluate(n, trees, max(classes.count, 1), "sum")
	isSingle := classes.count <= 2 && len(weightedClasses) == 1 // the trees give a single score
	switch {
	case len(base) == 0: // nothing is added
	case isSingle && len(base) == 1 && !weightedClasses[0]:
		n.Failf("base_values are not supported if only class 1 has weights")
	case isSingle:
		checkLength(n, "base_values", len(base), 1)
		if classes.count == 2 {
			base = append(slices.Clone(base), 0) // of class 1, which has no weights
		}
		scores = n.Op("add", nil, scores, floatsLike(n, base, scores))
	default:
		checkLength(n, "base_values", len(base), classes.count)
		scores = n.Op("add", nil, scores, floatsLike(n, base, scores))
	}
	if !isSingle {
		return []*value{classes.topLabels(n, scores), n.Cast(postTransform(n, scores, transform), tensor.Float32)}
	}
	// If no weight is negative, the single score is the probability of the second class. Otherwise the sign of the
	// score decides. The score is in the column of the class with weights.
	threshold, scoreSum := 0.0, 0.0
	if nonNegative {
		threshold, scoreSum = 0.5, 1
	}
	if weightedClasses[0] {
		scores = n.Op("narrow", graph.Attrs{"dim": 1, "start": 0, "length": 1}, scores)
		labels := classes.binaryLabels(n, n.Op("gt", nil, column(n, scores, 0), threshold))
		return []*value{labels, n.Cast(bothScores(n, scores, scoreSum, transform), tensor.Float32)}
	}
	// Class 1 has the weights. The scores of class 0 are 0.
	labels := classes.binaryLabels(n, n.Op("gt", nil, column(n, scores, 1), threshold))
	return []*value{labels, n.Cast(postTransform(n, scores, transform), tensor.Float32)}
}

// classes has the labels of a classifier.
type classes struct {
	labels *value // constant [count]: int64, or codes of strings
	count  int
}

// readClasses reads the labels from one of two attributes with the given names.
func readClasses(n *node, stringsAttr, integersAttr string) classes {
	labels, count := vocabulary(n, stringsAttr, integersAttr)
	return classes{labels: labels, count: count}
}

// labelsAt returns the labels at the given positions in the list of classes.
func (c classes) labelsAt(n *node, position *value) *value {
	return n.MarkStrings(n.Op("index_select", graph.Attrs{"dim": 0}, c.labels, position), c.labels.HasStrings())
}

// topLabels returns the label of the greatest score of each row.
func (c classes) topLabels(n *node, scores *value) *value {
	return c.labelsAt(n, n.Op("argmax", graph.Attrs{"dim": -1}, scores))
}

// binaryLabels returns the second label where a condition holds, and the first label elsewhere. If the number of
// classes is not two, it returns 1 and 0 instead of labels, as ONNX Runtime does.
func (c classes) binaryLabels(n *node, isSecond *value) *value {
	position := n.Cast(isSecond, tensor.Int64)
	if c.count != 2 {
		if c.labels.HasStrings() {
			n.Failf("a single score needs 2 labels, but there are %d", c.count)
		}
		return position
	}
	return c.labelsAt(n, position)
}

// bothScores returns the scores of two classes, [rows, 2]. second has the scores of the second class, [rows, 1]. The
// score of the first class is scoreSum - second. With post_transform LOGISTIC, the scores are sigmoid(-second) and
// sigmoid(second). PROBIT is an error. Other transforms are not applied to a single score.
func bothScores(n *node, second *value, scoreSum float64, transform string) *value {
	first := n.Op("rsub", nil, second, scoreSum)
	switch transform {
	case "LOGISTIC":
		first, second = n.Op("sigmoid", nil, n.Op("neg", nil, second)), n.Op("sigmoid", nil, second)
	case "PROBIT":
		n.Failf("post_transform PROBIT of a single score is not supported")
	}
	return n.Op("cat", graph.Attrs{"dim": 1}, first, second)
}

// column returns column i of a matrix as a vector.
func column(n *node, x *value, i int) *value {
	return n.Op("select", graph.Attrs{"dim": 1, "index": i}, x)
}

// operandRows returns operand 0 as a matrix of floats. A vector is a single row.
func operandRows(n *node) *value {
	x := n.Operand(0)
	switch n.Rank(x) {
	case 1:
		x = n.Reshape(x, 1, -1)
	case 2:
	default:
		n.Failf("operand 0 has %d dimensions, want 1 or 2", n.Rank(x))
	}
	if x.DType() == tensor.Float64 {
		return x
	}
	return n.Cast(x, tensor.Float32)
}

// matrixLike returns a list as a constant [rows, columns of x], of x's dtype.
func matrixLike(n *node, name string, list []float64, rows int, x *value) *value {
	if rows < 1 || len(list)%rows != 0 {
		n.Failf("the %d numbers of attribute %q cannot form %d rows", len(list), name, rows)
	}
	if columns := n.Sizes(x)[1]; columns >= 0 && columns*rows != len(list) {
		n.Failf("attribute %q has %d numbers, want %d for %d rows of %d columns", name, len(list), columns*rows, rows,
			columns)
	}
	return n.Reshape(floatsLike(n, list, x), rows, len(list)/rows)
}
