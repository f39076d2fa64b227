package ml

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
func kernelProducts(n *node, name string, vectors []float64, count int, kind string) *value {
	x := n.Cast(rows(n), tensor.Float64)
	matrix := matrixLike(n, name, vectors, count, x)
	params := floatsOrTensor(n, "kernel_params")
	if len(params) == 0 {
		params = []float64{0, 0, 0}
	}
	checkLength(n, "kernel_params", len(params), 3)
	gamma, coef0, degree := params[0], params[1], params[2]
	dot := n.Op("linear", nil, x, matrix)
	scaled := func() *value { return n.Op("add", nil, n.Op("mul", nil, dot, gamma), coef0) }
	switch kind {
	case "LINEAR":
		return dot
	case "POLY":
		return n.Op("pow", nil, scaled(), degree)
	case "SIGMOID":
		return n.Op("tanh", nil, scaled())
	case "RBF":
		squares := func(x *value, keep bool) *value {
			return n.Op("sum", graph.Attrs{"dim": []int{1}, "keepdim": keep}, n.Op("mul", nil, x, x))
		}
		distance := n.Op("sub", nil, n.Op("add", nil, squares(x, true), squares(matrix, false)),
			n.Op("mul", nil, dot, 2.0))
		return n.Op("exp", nil, n.Op("mul", nil, n.Op("clamp", graph.Attrs{"min": 0.0}, distance), -gamma))
	}
	n.Failf("kernel_type %q is not supported", kind)
	return nil
}

func svmRegressor(n *node) []*value {
	coefficients, rho, kind := floatsOrTensor(n, "coefficients"), floatsOrTensor(n, "rho"), n.Text("kernel_type", "LINEAR")
	checkLength(n, "rho", len(rho), 1)
	var scores *value
	if count := n.Int("n_supports", 0); count > 0 {
		checkLength(n, "coefficients", len(coefficients), count)
		k := kernelProducts(n, "support_vectors", floatsOrTensor(n, "support_vectors"), count, kind)
		scores = n.Op("linear", nil, k, n.Reshape(floatsLike(n, coefficients, k), 1, count))
	} else {
		scores = kernelProducts(n, "coefficients", coefficients, 1, "LINEAR")
	}
	scores = n.Op("add", nil, scores, rho[0])
	if n.Flag("one_class", false) {
		scores = n.Op("where", nil, n.Op("gt", nil, scores, 0.0), floatsLike(n, []float64{1}, scores),
			floatsLike(n, []float64{-1}, scores))
	}
	return one(n.Cast(postTransform(n, scores, n.Text("post_transform", "NONE")), tensor.Float32))
}

func svmClassifier(n *node) []*value {
	classes, post := readClasses(n, "classlabels_strings", "classlabels_ints"), n.Text("post_transform", "NONE")
	coefficients, rho := floatsOrTensor(n, "coefficients"), floatsOrTensor(n, "rho")
	counts, _ := n.Ints("vectors_per_class")
	if len(counts) == 0 {
		return linearMachine(n, classes, coefficients, rho, post)
	}
	checkLength(n, "vectors_per_class", len(counts), classes.count)
	pairs := classes.count * (classes.count - 1) / 2
	if classes.count < 2 || classes.count > 1<<10 {
		n.Failf("%d classes are not supported", classes.count)
	}
	total := 0
	for _, k := range counts {
		if total += k; k < 0 || total > math.MaxInt32 {
			n.Failf("vectors_per_class has %d", k)
		}
	}
	checkLength(n, "coefficients", len(coefficients), total*(classes.count-1))
	checkLength(n, "rho", len(rho), pairs)
	k := kernelProducts(n, "support_vectors", floatsOrTensor(n, "support_vectors"), total, n.Text("kernel_type", "LINEAR"))
	decisions := n.Op("add", nil, n.Op("matmul", nil, k, pairWeights(n, k, coefficients, counts, pairs)),
		floatsLike(n, rho, k))
	labels := classes.top(n, votes(n, decisions, classes.count))
	a, b := floatsOrTensor(n, "prob_a"), floatsOrTensor(n, "prob_b")
	checkLength(n, "prob_b", len(b), len(a))
	switch {
	case len(a) > 0:
		checkLength(n, "prob_a", len(a), pairs)
		z := n.Op("add", nil, n.Op("mul", nil, decisions, floatsLike(n, a, decisions)), floatsLike(n, b, decisions))
		p := n.Op("clamp", graph.Attrs{"min": 1e-7, "max": 1 - 1e-7}, n.Op("sigmoid", nil, n.Op("neg", nil, z)))
		decisions = postTransform(n, n.Op("pairwise_probabilities", graph.Attrs{"classes": classes.count}, p), post)
	case classes.count > 2:
		decisions = postTransform(n, decisions, post)
	case post == "NONE":
		decisions = bothScores(n, decisions, 0, post)
	default:
		decisions = bothScores(n, decisions, 1, post)
	}
	return []*value{labels, n.Cast(decisions, tensor.Float32)}
}

// linearMachine converts SVMClassifier without support vectors: a score for each class.
func linearMachine(n *node, c classes, coefficients, rho []float64, post string) []*value {
	if len(rho) == 0 {
		n.Failf("attribute \"rho\" is missing")
	}
	scores := n.Op("add", nil, kernelProducts(n, "coefficients", coefficients, c.count, "LINEAR"), rho[0])
	labels := c.top(n, scores)
	if c.count == 2 {
		nonNegative := true
		for _, w := range coefficients {
			nonNegative = nonNegative && w >= 0
		}
		most := n.Op("amax", graph.Attrs{"dim": []int{1}}, scores)
		isSecond := n.Op("gt", nil, most, 0.0)
		if nonNegative {
			isSecond = n.Op("ge", nil, most, 0.5)
		}
		isGreater := n.Op("gt", nil, column(n, scores, 1), column(n, scores, 0))
		labels = c.binary(n, n.Op("logical_or", nil, isSecond, isGreater))
	}
	return []*value{labels, n.Cast(postTransform(n, scores, post), tensor.Float32)}
}

// pairWeights returns the weights of the support vectors in the decision between each pair of classes, as a matrix
// [vectors, pairs]. The vectors are sorted by class. Row r of the coefficients, [classes-1, vectors], has the weights
// of the vectors of a class in its decision against the r-th other class.
func pairWeights(n *node, like *value, coefficients []float64, counts []int, pairs int) *value {
	starts, total := make([]int, len(counts)), 0
	for i, k := range counts {
		starts[i] = total
		total += k
	}
	if total > 0 && pairs > (1<<28)/total {
		n.Failf("%d classes and %d support vectors are not supported", len(counts), total)
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
	return n.Reshape(floatsLike(n, weights, like), total, pairs)
}

// votes returns the number of decisions in favour of each class, [rows, classes].
func votes(n *node, decisions *value, count int) *value {
	pairs := count * (count - 1) / 2
	first, second, pair := make([]float64, pairs*count), make([]float64, pairs*count), 0
	for i := range count {
		for j := i + 1; j < count; j++ {
			first[pair*count+i], second[pair*count+j] = 1, 1
			pair++
		}
	}
	isFirst := n.Cast(n.Op("gt", nil, decisions, 0.0), tensor.Float32)
	matrix := func(list []float64) *value { return n.Reshape(floatsLike(n, list, isFirst), pairs, count) }
	return n.Op("add", nil, n.Op("matmul", nil, isFirst, matrix(first)),
		n.Op("matmul", nil, n.Op("rsub", nil, isFirst, 1.0), matrix(second)))
}
