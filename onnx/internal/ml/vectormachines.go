package ml

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts support vector machines. A kernel is a function of two vectors, such as their product. Kernels are
// computed in float64, because the squared distance of two vectors is a difference of large products and loses digits
// by cancellation.

// svmRegressor converts SVMRegressor. The score is the sum of coefficients[i] * kernel(x, vector i), plus rho. If there
// are no support vectors, the score is x·coefficients + rho. With the attribute one_class, positive scores become 1,
// and other scores become -1.
func svmRegressor(n *node) []*value {
	coefficients, rho := floatsOrTensor(n, "coefficients"), floatsOrTensor(n, "rho")
	kernelType := n.Text("kernel_type", "LINEAR")
	checkLength(n, "rho", len(rho), 1)
	var scores *value
	if count := n.Int("n_supports", 0); count > 0 {
		checkLength(n, "coefficients", len(coefficients), count)
		products := kernelProducts(n, "support_vectors", floatsOrTensor(n, "support_vectors"), count, kernelType)
		scores = n.Op("linear", nil, products, n.Reshape(floatsLike(n, coefficients, products), 1, count))
	} else {
		scores = kernelProducts(n, "coefficients", coefficients, 1, "LINEAR")
	}
	scores = n.Op("add", nil, scores, rho[0])
	if n.Flag("one_class", false) {
		scores = n.Op("where", nil, n.Op("gt", nil, scores, 0.0), floatsLike(n, []float64{1}, scores),
			floatsLike(n, []float64{-1}, scores))
	}
	return single(n.Cast(postTransform(n, scores, n.Text("post_transform", "NONE")), tensor.Float32))
}

// svmClassifier converts SVMClassifier. Each pair of classes (0,1), (0,2) ... (1,2) ... has a decision. It is the
// weighted sum of the kernels with the support vectors of the two classes, plus rho. A positive decision is a vote for
// the first class of the pair, and any other decision is a vote for the second. For example, the decisions [1, -1, -2]
// of three classes are votes for 0, 2 and 2.
//
// The label is the class with most votes. The scores are the decisions. With the attributes prob_a and prob_b, the
// scores are the probabilities of the classes instead. The op pairwise_probabilities computes them from one number per
// pair, the probability of the first class against the second: 1/(1 + exp(prob_a*decision + prob_b)).
func svmClassifier(n *node) []*value {
	classes, transform := readClasses(n, "classlabels_strings", "classlabels_ints"), n.Text("post_transform", "NONE")
	coefficients, rho := floatsOrTensor(n, "coefficients"), floatsOrTensor(n, "rho")
	counts, _ := n.Ints("vectors_per_class")
	if len(counts) == 0 {
		return linearMachine(n, classes, coefficients, rho, transform)
	}
	checkLength(n, "vectors_per_class", len(counts), classes.count)
	pairs := classes.count * (classes.count - 1) / 2
	if classes.count < 2 || classes.count > 1<<10 {
		n.Failf("%d classes are not supported: want 2 to 1024", classes.count)
	}
	total := 0 // number of support vectors
	for _, count := range counts {
		total += count
		if count < 0 || total > math.MaxInt32 {
			n.Failf("vectors_per_class has %d: want numbers from 0, with a sum below 2^31", count)
		}
	}
	checkLength(n, "coefficients", len(coefficients), total*(classes.count-1))
	checkLength(n, "rho", len(rho), pairs)
	vectors, kernelType := floatsOrTensor(n, "support_vectors"), n.Text("kernel_type", "LINEAR")
	products := kernelProducts(n, "support_vectors", vectors, total, kernelType)
	weights := pairWeights(n, products, coefficients, counts, pairs)
	decisions := n.Op("add", nil, n.Op("matmul", nil, products, weights), floatsLike(n, rho, products))
	labels := classes.topLabels(n, votes(n, decisions, classes.count))
	return []*value{labels, n.Cast(svmScores(n, decisions, classes.count, pairs, transform), tensor.Float32)}
}

// svmScores returns the scores of SVMClassifier: see [svmClassifier]. count is the number of classes. If there are two
// classes and no probabilities, bothScores makes two scores from the single decision. The sum of the two scores is 0 or
// 1.
func svmScores(n *node, decisions *value, count, pairs int, transform string) *value {
	const zeroSum, unitSum = 0, 1
	slopes, offsets := floatsOrTensor(n, "prob_a"), floatsOrTensor(n, "prob_b")
	checkLength(n, "prob_b", len(offsets), len(slopes))
	switch {
	case len(slopes) > 0:
		checkLength(n, "prob_a", len(slopes), pairs)
		// The attributes prob_a and prob_b are the slope and the offset of a line for each pair.
		scaled := n.Op("mul", nil, decisions, floatsLike(n, slopes, decisions))
		negLogits := n.Op("add", nil, scaled, floatsLike(n, offsets, decisions))
		probabilities := n.Op("sigmoid", nil, n.Op("neg", nil, negLogits))
		probabilities = n.Op("clamp", graph.Attrs{"min": 1e-7, "max": 1 - 1e-7}, probabilities)
		return postTransform(n, n.Op("pairwise_probabilities", graph.Attrs{"classes": count}, probabilities), transform)
	case count > 2:
		return postTransform(n, decisions, transform)
	case transform == "NONE":
		return bothScores(n, decisions, zeroSum, transform)
	}
	return bothScores(n, decisions, unitSum, transform)
}

// linearMachine converts SVMClassifier without support vectors. The score of a class is the product of the row and the
// coefficients of the class, plus rho. The label is the class with the greatest score. As in ONNX Runtime, two classes
// are special: the label is also the second class if the greatest score is above 0. If no coefficient is negative, the
// greatest score must be at least 0.5 instead.
func linearMachine(n *node, labelled classes, coefficients, rho []float64, transform string) []*value {
	if len(rho) == 0 {
		n.Failf("attribute \"rho\" is missing")
	}
	scores := n.Op("add", nil, kernelProducts(n, "coefficients", coefficients, labelled.count, "LINEAR"), rho[0])
	labels := labelled.topLabels(n, scores)
	if labelled.count == 2 {
		nonNegative := true
		for _, coefficient := range coefficients {
			nonNegative = nonNegative && coefficient >= 0
		}
		greatest := n.Op("amax", graph.Attrs{"dim": []int{1}}, scores)
		isSecond := n.Op("gt", nil, greatest, 0.0)
		if nonNegative {
			isSecond = n.Op("ge", nil, greatest, 0.5)
		}
		isGreater := n.Op("gt", nil, column(n, scores, 1), column(n, scores, 0))
		labels = labelled.binaryLabels(n, n.Op("logical_or", nil, isSecond, isGreater))
	}
	return []*value{labels, n.Cast(postTransform(n, scores, transform), tensor.Float32)}
}

// kernelProducts applies a kernel to each row x of operand 0 and each of `count` vectors v: x·v (LINEAR),
// (gamma*x·v + coef0)^degree (POLY), tanh(gamma*x·v + coef0) (SIGMOID) or exp(-gamma*|x-v|²) (RBF). The attribute
// kernel_params has gamma, coef0 and degree. vectors are the elements of the attribute `name`. The result is float64
// [rows, count].
func kernelProducts(n *node, name string, vectors []float64, count int, kernelType string) *value {
	x := n.Cast(operandRows(n), tensor.Float64)
	matrix := matrixLike(n, name, vectors, count, x)
	params := floatsOrTensor(n, "kernel_params")
	if len(params) == 0 {
		params = []float64{0, 0, 0}
	}
	checkLength(n, "kernel_params", len(params), 3)
	gamma, coef0, degree := params[0], params[1], params[2]
	dot := n.Op("linear", nil, x, matrix)
	scaled := func() *value { return n.Op("add", nil, n.Op("mul", nil, dot, gamma), coef0) }
	switch kernelType {
	case "LINEAR":
		return dot
	case "POLY":
		return n.Op("pow", nil, scaled(), degree)
	case "SIGMOID":
		return n.Op("tanh", nil, scaled())
	case "RBF":
		// |x-v|² = |x|² + |v|² - 2 x·v, at least 0 in spite of rounding
		const asColumn, asVector = true, false // [rows, 1] and [count], whose sum is [rows, count]
		norms := n.Op("add", nil, squaredNorms(n, x, asColumn), squaredNorms(n, matrix, asVector))
		distance := n.Op("sub", nil, norms, n.Op("mul", nil, dot, 2.0))
		return n.Op("exp", nil, n.Op("mul", nil, n.Op("clamp", graph.Attrs{"min": 0.0}, distance), -gamma))
	}
	n.Failf("kernel_type %q is not supported", kernelType)
	return nil
}

// squaredNorms returns the squared norm of each row: [rows, 1] if keepDim is true, else [rows].
func squaredNorms(n *node, x *value, keepDim bool) *value {
	return n.Op("sum", graph.Attrs{"dim": []int{1}, "keepdim": keepDim}, n.Op("mul", nil, x, x))
}

// pairWeights returns the weight of each support vector in the decision of each pair of classes. The result is a matrix
// [vectors, pairs] with the dtype of dtypeSource. The vectors are sorted by class, and counts has the number of vectors
// of each class. The coefficients are a matrix [classes-1, vectors]. Row r has the weight of each vector in the
// decision of the vector's class against the r-th other class. For a vector of class 1, row 0 has the weight in the
// decision against class 0, and row 1 has the weight in the decision against class 2.
func pairWeights(n *node, dtypeSource *value, coefficients []float64, counts []int, pairs int) *value {
	starts, total := make([]int, len(counts)), 0
	for i, count := range counts {
		starts[i] = total
		total += count
	}
	if total > 0 && pairs > (1<<28)/total {
		n.Failf("%d classes and %d support vectors are not supported", len(counts), total)
	}
	weights, pair := make([]float64, total*pairs), 0
	for i := range counts {
		for j := i + 1; j < len(counts); j++ {
			rowAgainstJ := j - 1 // without class i < j, class j has index j-1
			for vector := starts[i]; vector < starts[i]+counts[i]; vector++ {
				weights[vector*pairs+pair] = coefficients[rowAgainstJ*total+vector]
			}
			rowAgainstI := i // without class j > i, class i has index i
			for vector := starts[j]; vector < starts[j]+counts[j]; vector++ {
				weights[vector*pairs+pair] = coefficients[rowAgainstI*total+vector]
			}
			pair++
		}
	}
	return n.Reshape(floatsLike(n, weights, dtypeSource), total, pairs)
}

// votes returns the number of decisions in favour of each of `count` classes, as [rows, classes]. For a pair (i, j)
// with i < j, a positive decision favours i, and any other decision favours j.
func votes(n *node, decisions *value, count int) *value {
	pairs := count * (count - 1) / 2
	// votes = isFirst @ first + (1 - isFirst) @ second. The matrices first and second are [pairs, count]. For the pair
	// (i, j), first[pair, i] and second[pair, j] are 1. All other elements are 0.
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
