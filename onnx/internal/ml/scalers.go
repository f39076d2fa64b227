package ml

import (
	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts the operators of ai.onnx.ml that scale, replace or select the numbers of a table.

// scaler converts Scaler: (x - offset) * scale. offset and scale have one number, or one number for each column.
func scaler(n *node) []*value {
	x := n.Cast(n.Operand(0), tensor.Float32)
	for _, operation := range []struct{ attr, op string }{{"offset", "sub"}, {"scale", "mul"}} {
		if list := floatsOrTensor(n, operation.attr); len(list) > 0 {
			x = n.Op(operation.op, nil, x, perColumn(n, operation.attr, list, x))
		}
	}
	return single(x)
}

// perColumn returns a constant with the given numbers: one number, or a number for each column of x. name is the
// attribute that lists the numbers.
func perColumn(n *node, name string, numbers []float64, x *value) *value {
	sizes := n.Sizes(x)
	if len(sizes) == 0 {
		n.Failf("operand 0 has no dimensions")
	}
	if last := sizes[len(sizes)-1]; len(numbers) != 1 && last >= 0 {
		checkLength(n, name, len(numbers), last)
	}
	return floatsLike(n, numbers, x)
}

// normalizer converts Normalizer, which divides each row by its norm: the maximum (of signed values), the 1-norm or the
// 2-norm. Rows with norm 0 are not divided.
func normalizer(n *node) []*value {
	x := n.Cast(n.Operand(0), tensor.Float32)
	attrs := graph.Attrs{"dim": []int{-1}, "keepdim": true}
	var norms *value
	switch norm := n.Text("norm", "MAX"); norm {
	case "MAX":
		attrs["accept_empty"] = true // of rows without elements
		norms = n.Op("amax", attrs, x)
	case "L1":
		norms = n.Op("sum", attrs, n.Op("abs", nil, x))
	case "L2":
		norms = n.Op("sqrt", nil, n.Op("sum", attrs, n.Op("mul", nil, x, x)))
	default:
		n.Failf("norm %q is not supported", norm)
	}
	isZero := n.Op("eq", nil, norms, 0.0)
	return single(n.Op("div", nil, x, n.Op("where", nil, isZero, floatsLike(n, []float64{1}, x), norms)))
}

// imputer converts Imputer, which replaces elements that equal a value. The value may be NaN. The replacement is one
// number for all elements, or one number for each column.
func imputer(n *node) []*value {
	x := n.Operand(0)
	var imputed []float64
	var isReplaced *value
	if x.DType().IsFloat() {
		imputed = floatsOrTensor(n, "imputed_value_floats")
		if attr := n.Attr("replaced_value_float", pb.AttributeFloat); attr != nil && attr.F != attr.F {
			isReplaced = n.Op("isnan", nil, x)
		} else {
			isReplaced = n.Op("eq", nil, x, n.Float("replaced_value_float", 0))
		}
	} else {
		integers, _ := n.Ints("imputed_value_int64s")
		for _, number := range integers {
			imputed = append(imputed, float64(number))
		}
		isReplaced = n.Op("eq", nil, x, n.Int("replaced_value_int64", 0))
	}
	if len(imputed) == 0 {
		n.Failf("the imputed values for %v are missing", x.DType())
	}
	return single(n.Op("where", nil, isReplaced, perColumn(n, "imputed_value", imputed, x), x))
}

// binarizer converts Binarizer: 1 where x exceeds the threshold, and otherwise 0.
func binarizer(n *node) []*value {
	x := n.Operand(0)
	return single(n.Cast(n.Op("gt", nil, x, n.Float("threshold", 0)), x.DType()))
}

// featureVectorizer converts FeatureVectorizer, which concatenates the columns of the operands. A vector is a single
// row.
func featureVectorizer(n *node) []*value {
	sizes, given := n.Ints("inputdimensions")
	if given {
		checkLength(n, "inputdimensions", len(sizes), len(n.In))
	}
	var parts []any
	for i := range n.In {
		x := n.Operand(i)
		switch n.Rank(x) {
		case 1:
			x = n.Reshape(x, 1, -1)
		case 2:
		default:
			n.Failf("operand %d has %d dimensions, want 1 or 2", i, n.Rank(x))
		}
		if columns := n.Sizes(x)[1]; given && columns >= 0 && columns != sizes[i] {
			n.Failf("operand %d has %d columns, attribute \"inputdimensions\" has %d", i, columns, sizes[i])
		}
		parts = append(parts, n.Cast(x, tensor.Float32))
	}
	if len(parts) == 0 {
		n.Failf("operand 0 is missing")
	}
	return single(n.Op("cat", graph.Attrs{"dim": 1}, parts...))
}

// arrayFeatureExtractor converts ArrayFeatureExtractor, which selects columns. A vector is a single row.
func arrayFeatureExtractor(n *node) []*value {
	x, index := n.Operand(0), n.Operand(1)
	switch n.Rank(x) {
	case 0:
		n.Failf("operand 0 has no dimensions")
	case 1:
		x = n.Reshape(x, 1, -1)
	}
	return single(n.Op("index_select", graph.Attrs{"dim": -1}, x, n.Reshape(index, -1)))
}
