package onnx

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts support vector machines. Kernels are computed in float64, because the squared distance of two
// vectors is a difference of large products and cancels.

// kernelProducts applies a kernel (a function of two vectors) to each row of operand 0 and each of `count` vectors. The
// attribute kernel_params has the kernel's parameters. name is the attribute with the vectors. The result is float64
// [rows, count].
func (n *node) kernelProducts(name string, vectors []float64, count int, kind string) *val {
	x := n.cast(n.rows(), tensor.Float64)
	matrix := n.matrixLike(name, vectors, count, x)
	params := n.floatsOrTensor("kernel_params")
	if len(params) == 0 {
		params = []float64{0, 0, 0}
	}
	n.checkLength("kernel_params", len(params), 3)
	gamma, coef0, degree := params[0], params[1], params[2]
	dot := n.op("linear", nil, x, matrix)
	scaled := func() *val { return n.op("add", nil, n.op("mul", nil, dot, gamma), coef0) }
	switch kind {
	case "LINEAR":
		return dot
	case "POLY":
		return n.op("pow", nil, scaled(), degree)
	case "SIGMOID":
		return n.op("tanh", nil, scaled())
	case "RBF":
		squares := func(x *val, keep bool) *val {
			return n.op("sum", graph.Attrs{"dim": []int{1}, "keepdim": keep}, n.op("mul", nil, x, x))
		}
		distance := n.op("sub", nil, n.op("add", nil, squares(x, true), squares(matrix, false)),
			n.op("mul", nil, dot, 2.0))
		return n.op("exp", nil, n.op("mul", nil, n.op("clamp", graph.Attrs{"min": 0.0}, distance), -gamma))
	}
	n.failf("kernel_type %q is not supported", kind)
	return nil
}

func svmRegressor(n *node) []*val {
	coefficients, rho, kind := n.floatsOrTensor("coefficients"), n.floatsOrTensor("rho"), n.text("kernel_type", "LINEAR")
	n.checkLength("rho", len(rho), 1)
	var scores *val
	if count := n.int("n_supports", 0); count > 0 {
		n.checkLength("coefficients", len(coefficients), count)
		k := n.kernelProducts("support_vectors", n.floatsOrTensor("support_vectors"), count, kind)
		scores = n.op("linear", nil, k, n.reshape(n.floatsLike(coefficients, k), 1, count))
	} else {
		scores = n.kernelProducts("coefficients", coefficients, 1, "LINEAR")
	}
	scores = n.op("add", nil, scores, rho[0])
	if n.flag("one_class", false) {
		scores = n.op("where", nil, n.op("gt", nil, scores, 0.0), n.floatsLike([]float64{1}, scores),
			n.floatsLike([]float64{-1}, scores))
	}
	return one(n.cast(n.postTransform(scores, n.text("post_transform", "NONE")), tensor.Float32))
}

func svmClassifier(n *node) []*val {
	classes, post := n.classes("classlabels_strings", "classlabels_ints"), n.text("post_transform", "NONE")
	coefficients, rho := n.floatsOrTensor("coefficients"), n.floatsOrTensor("rho")
	counts, _ := n.ints("vectors_per_class")
	if len(counts) == 0 {
		return n.linearMachine(classes, coefficients, rho, post)
	}
	n.checkLength("vectors_per_class", len(counts), classes.count)
	pairs := classes.count * (classes.count - 1) / 2
	if classes.count < 2 || classes.count > 1<<10 {
		n.failf("%d classes are not supported", classes.count)
	}
	total := 0
	for _, k := range counts {
		if total += k; k < 0 || total > math.MaxInt32 {
			n.failf("vectors_per_class has %d", k)
		}
	}
	n.checkLength("coefficients", len(coefficients), total*(classes.count-1))
	n.checkLength("rho", len(rho), pairs)
	k := n.kernelProducts("support_vectors", n.floatsOrTensor("support_vectors"), total, n.text("kernel_type", "LINEAR"))
	decisions := n.op("add", nil, n.op("matmul", nil, k, n.pairWeights(k, coefficients, counts, pairs)),
		n.floatsLike(rho, k))
	labels := classes.top(n, n.votes(decisions, classes.count))
	a, b := n.floatsOrTensor("prob_a"), n.floatsOrTensor("prob_b")
	n.checkLength("prob_b", len(b), len(a))
	switch {
	case len(a) > 0:
		n.checkLength("prob_a", len(a), pairs)
		z := n.op("add", nil, n.op("mul", nil, decisions, n.floatsLike(a, decisions)), n.floatsLike(b, decisions))
		p := n.op("clamp", graph.Attrs{"min": 1e-7, "max": 1 - 1e-7}, n.op("sigmoid", nil, n.op("neg", nil, z)))
		decisions = n.postTransform(n.op("pairwise_probabilities", graph.Attrs{"classes": classes.count}, p), post)
	case classes.count > 2:
		decisions = n.postTransform(decisions, post)
	case post == "NONE":
		decisions = n.bothScores(decisions, 0, post)
	default:
		decisions = n.bothScores(decisions, 1, post)
	}
	return []*val{labels, n.cast(decisions, tensor.Float32)}
}

// linearMachine converts SVMClassifier without support vectors: a score for each class.
func (n *node) linearMachine(c classes, coefficients, rho []float64, post string) []*val {
	if len(rho) == 0 {
		n.failf("attribute \"rho\" is missing")
	}
	scores := n.op("add", nil, n.kernelProducts("coefficients", coefficients, c.count, "LINEAR"), rho[0])
	labels := c.top(n, scores)
	if c.count == 2 {
		nonNegative := true
		for _, w := range coefficients {
			nonNegative = nonNegative && w >= 0
		}
		most := n.op("amax", graph.Attrs{"dim": []int{1}}, scores)
		isSecond := n.op("gt", nil, most, 0.0)
		if nonNegative {
			isSecond = n.op("ge", nil, most, 0.5)
		}
		isGreater := n.op("gt", nil, n.column(scores, 1), n.column(scores, 0))
		labels = c.binary(n, n.op("logical_or", nil, isSecond, isGreater))
	}
	return []*val{labels, n.cast(n.postTransform(scores, post), tensor.Float32)}
}

// pairWeights returns the weights of the support vectors in the decision between each pair of classes, as a matrix
// [vectors, pairs]. The vectors are sorted by class. Row r of the coefficients, [classes-1, vectors], has the weights
// of the vectors of a class in its decision against the r-th other class.
func (n *node) pairWeights(like *val, coefficients []float64, counts []int, pairs int) *val {
	starts, total := make([]int, len(counts)), 0
	for i, k := range counts {
		starts[i] = total
		total += k
	}
	if total > 0 && pairs > (1<<28)/total {
		n.failf("%d classes and %d support vectors are not supported", len(counts), total)
	}
	weights, pair := make([]float64, total*pairs), 0
	for i := range counts {
		for j := i + 1; j < len(counts); j++ {
			for m := starts[i]; m < starts[i]+counts[i]; m++ {
				weights[m*pairs+pair] = coefficients[(j-1)*total+m]
			}
			for m := starts[j]; m < starts[j]+counts[j]; m++ {
				weights[m*pairs+pair] = coefficients[i*total+m]
			}
			pair++
		}
	}
	return n.reshape(n.floatsLike(weights, like), total, pairs)
}

// votes returns the number of decisions in favour of each class, [rows, classes].
func (n *node) votes(decisions *val, count int) *val {
	pairs := count * (count - 1) / 2
	first, second, pair := make([]float64, pairs*count), make([]float64, pairs*count), 0
	for i := range count {
		for j := i + 1; j < count; j++ {
			first[pair*count+i], second[pair*count+j] = 1, 1
			pair++
		}
	}
	isFirst := n.cast(n.op("gt", nil, decisions, 0.0), tensor.Float32)
	matrix := func(list []float64) *val { return n.reshape(n.floatsLike(list, isFirst), pairs, count) }
	return n.op("add", nil, n.op("matmul", nil, isFirst, matrix(first)),
		n.op("matmul", nil, n.op("rsub", nil, isFirst, 1.0), matrix(second)))
}
