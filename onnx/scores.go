package onnx

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the steps that several classifiers and regressors of ai.onnx.ml share.

// floatsLike returns a constant vector of x's dtype.
func (n *node) floatsLike(list []float64, x *val) *val {
	return n.cast(constValue(tensor.Must(tensor.FromSlice(list, len(list)))), x.dtype())
}

// postTransform applies the function of the attribute post_transform to the rows of x.
func (n *node) postTransform(x *val, name string) *val {
	switch name {
	case "NONE":
		return x
	case "LOGISTIC":
		return n.op("sigmoid", nil, x)
	case "SOFTMAX":
		return n.op("softmax", graph.Attrs{"dim": -1}, x)
	case "SOFTMAX_ZERO":
		return n.softmaxZero(x)
	case "PROBIT":
		return n.probit(x)
	}
	n.failf("post_transform %q is not supported", name)
	return nil
}

// softmaxZero is a softmax that maps zeros to 0. Zeros do not contribute to the sum of exponentials.
func (n *node) softmaxZero(x *val) *val {
	most := n.op("amax", graph.Attrs{"dim": []int{-1}, "keepdim": true}, x)
	power := n.op("exp", nil, n.op("sub", nil, x, most))
	nearZero := n.op("mul", nil, x, n.op("exp", nil, n.op("neg", nil, most)))
	isZero := n.op("le", nil, n.op("abs", nil, x), 1e-7)
	y := n.op("where", nil, isZero, nearZero, power)
	sum := n.op("sum", graph.Attrs{"dim": []int{-1}, "keepdim": true}, n.op("where", nil, isZero, 0.0, power))
	return n.op("div", nil, y, sum)
}

// probit is the inverse of the normal distribution function, sqrt(2) erfinv(y) with y = 2x - 1. As ONNX defines it,
// erfinv is approximated (S. Winitzki, A handy approximation for the error function and its inverse, 2008).
func (n *node) probit(x *val) *val {
	const a = 0.147
	dtype := x.dtype()
	// In float64, because root - v (below) loses digits by cancellation for y near 0.
	y := n.op("sub", nil, n.op("mul", nil, n.cast(x, tensor.Float64), 2.0), 1.0)
	log := n.op("log", nil, n.op("mul", nil, n.op("rsub", nil, y, 1.0), n.op("add", nil, y, 1.0)))
	v := n.op("add", nil, n.op("mul", nil, log, 0.5), 2/(3.14159*a))
	root := n.op("sqrt", nil, n.op("sub", nil, n.op("mul", nil, v, v), n.op("div", nil, log, a)))
	magnitude := n.op("sqrt", nil, n.op("sub", nil, root, v))
	signed := n.op("where", nil, n.op("lt", nil, y, 0.0), n.op("neg", nil, magnitude), magnitude)
	return n.cast(n.op("mul", nil, signed, 1.41421356), dtype)
}
