package ml

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the steps that several classifiers and regressors of ai.onnx.ml share.

// floatsLike returns a constant vector of x's dtype.
func floatsLike(n *node, list []float64, x *value) *value {
	return n.Cast(convert.Constant(tensor.Must(tensor.FromSlice(list, len(list)))), x.DType())
}

// postTransform applies the function of the attribute post_transform to the rows of x.
func postTransform(n *node, x *value, name string) *value {
	switch name {
	case "NONE":
		return x
	case "LOGISTIC":
		return n.Op("sigmoid", nil, x)
	case "SOFTMAX":
		return n.Op("softmax", graph.Attrs{"dim": -1}, x)
	case "SOFTMAX_ZERO":
		return softmaxZero(n, x)
	case "PROBIT":
		return probit(n, x)
	}
	n.Failf("post_transform %q is not supported", name)
	return nil
}

// softmaxZero is a softmax over the elements of each row that are not 0 (within 1e-7). Let max be the maximum of the
// row, and sum the sum of exp(x-max) over these elements. Such an element x becomes exp(x-max)/sum. An element x near 0
// becomes x*exp(-max)/sum.
func softmaxZero(n *node, x *value) *value {
	rowMaximum := n.Op("amax", graph.Attrs{"dim": []int{-1}, "keepdim": true}, x)
	exponentials := n.Op("exp", nil, n.Op("sub", nil, x, rowMaximum))
	nearZero := n.Op("mul", nil, x, n.Op("exp", nil, n.Op("neg", nil, rowMaximum)))
	isZero := n.Op("le", nil, n.Op("abs", nil, x), 1e-7)
	y := n.Op("where", nil, isZero, nearZero, exponentials)
	sum := n.Op("sum", graph.Attrs{"dim": []int{-1}, "keepdim": true}, n.Op("where", nil, isZero, 0.0, exponentials))
	return n.Op("div", nil, y, sum)
}

// probit is the inverse of the normal distribution function, sqrt(2) erfinv(y) with y = 2x - 1. As ONNX defines it,
// erfinv is approximated (S. Winitzki, A handy approximation for the error function and its inverse, 2008).
func probit(n *node, x *value) *value {
	// erfinv(y) = sign(y) sqrt(sqrt(v² - log/a) - v), with log = ln(1 - y²) and v = 2/(πa) + log/2. This is computed in
	// float64, because sqrt(v² - log/a) - v loses digits by cancellation for y near 0.
	const a = 0.147
	dtype := x.DType()
	y := n.Op("sub", nil, n.Op("mul", nil, n.Cast(x, tensor.Float64), 2.0), 1.0)
	log := n.Op("log", nil, n.Op("mul", nil, n.Op("rsub", nil, y, 1.0), n.Op("add", nil, y, 1.0)))
	v := n.Op("add", nil, n.Op("mul", nil, log, 0.5), 2/(3.14159*a))
	root := n.Op("sqrt", nil, n.Op("sub", nil, n.Op("mul", nil, v, v), n.Op("div", nil, log, a)))
	magnitude := n.Op("sqrt", nil, n.Op("sub", nil, root, v))
	signed := n.Op("where", nil, n.Op("lt", nil, y, 0.0), n.Op("neg", nil, magnitude), magnitude)
	return n.Cast(n.Op("mul", nil, signed, 1.41421356), dtype)
}
