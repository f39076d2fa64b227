package ml

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts the encoders of ai.onnx.ml. A string is represented by an int64 code: see strings.go of package
// convert.
//
// An encoder finds the position of each element in a list of keys (positionOf in keysearch.go), and selects a value by
// this position (translateKeys). For example, let LabelEncoder have the keys [10, 20], the values ["a", "b"] and the
// default "?". It maps [20, 7] to the positions [1, 2], where 2 means that 7 is not a key. It then maps the positions
// to ["b", "?"].

// labelEncoder converts LabelEncoder, which maps keys to values. Before operator set 2, it maps strings to their
// positions in classes_strings, or positions to strings.
func labelEncoder(n *node) []*value {
	x := n.Operand(0)
	if n.Opset < 2 {
		texts, _ := n.Strings("classes_strings")
		classes, positions := n.StringCodes(texts...), make([]int, len(texts))
		for i := range positions {
			positions[i] = i
		}
		return single(translateTextsOrInts(n, x, classes, convert.IntVector(positions...)))
	}
	keys, _ := labelList(n, "keys")
	values, valuesSuffix := labelList(n, "values")
	defaultValue := values // if no case applies; translateKeys rejects it unless there is a single value
	switch {
	case n.HasAttr("default_tensor"):
		defaultValue = tensorValue(n, "default_tensor")
	case values.HasStrings():
		defaultValue = n.StringCodes(n.Text("default_string", "_Unused"))
	case values.DType().IsFloat(): // the standard's default is -0
		defaultValue = n.Cast(convert.FloatVector(n.Float("default_float", math.Copysign(0, -1))), values.DType())
	case valuesSuffix == "_int64s" || values.DType().IsIntegral(false): // false: without bool
		defaultValue = n.Cast(convert.IntVector(n.Int("default_int64", -1)), values.DType())
	}
	return single(translateKeys(n, x, keys, values, defaultValue))
}

// labelList reads the keys or the values of LabelEncoder. The list is one of four attributes. The name of the attribute
// is the prefix ("keys" or "values") and a suffix for the type. labelList returns the suffix of the attribute that is
// given.
func labelList(n *node, prefix string) (list *value, givenSuffix string) {
	for _, suffix := range []string{"_strings", "_int64s", "_floats", "_tensor"} {
		attr := n.RawAttr(prefix + suffix)
		if attr == nil {
			continue
		}
		if list != nil {
			n.Failf("attributes %q and %q exclude each other", prefix+givenSuffix, prefix+suffix)
		}
		switch givenSuffix = suffix; suffix {
		case "_strings":
			texts, _ := n.Strings(prefix + suffix)
			list = n.StringCodes(texts...)
		case "_int64s":
			numbers := n.Attr(prefix+suffix, pb.AttributeInts).Ints
			list = convert.Constant(tensor.Must(tensor.FromSlice(slices.Clone(numbers), len(numbers))))
		case "_floats":
			floats := n.Attr(prefix+suffix, pb.AttributeFloats).Floats
			list = convert.Constant(tensor.Must(tensor.FromSlice(slices.Clone(floats), len(floats))))
		default:
			list = tensorValue(n, prefix+suffix)
			list = n.MarkStrings(n.Reshape(list, list.Data().Numel()), list.HasStrings())
		}
	}
	if list == nil {
		n.Failf("the attributes %s_* are missing", prefix)
	}
	return list, givenSuffix
}

// tensorValue returns a tensor attribute as a constant.
func tensorValue(n *node, name string) *value {
	t := n.TensorAttr(name)
	if t == nil {
		n.Failf("attribute %q has no tensor", name)
	}
	return convert.WeightValue(n.RawAttr(name).T, t)
}

// categoryMapper converts CategoryMapper, which maps strings to integers or integers to strings.
func categoryMapper(n *node) []*value {
	texts, _ := n.Strings("cats_strings")
	integers, _ := n.Ints("cats_int64s")
	return single(translateTextsOrInts(n, n.Operand(0), n.StringCodes(texts...), convert.IntVector(integers...)))
}

// If x has strings, translateTextsOrInts maps texts[i] to integers[i]. Otherwise it maps integers[i] to texts[i].
func translateTextsOrInts(n *node, x, texts, integers *value) *value {
	if x.HasStrings() {
		return translateKeys(n, x, texts, integers, convert.IntVector(n.Int("default_int64", -1)))
	}
	return translateKeys(n, x, integers, texts, n.StringCodes(n.Text("default_string", "_Unused")))
}

// translateKeys maps each element of x that equals keys[i] to values[i], and other elements to defaultValue.
func translateKeys(n *node, x, keys, values, defaultValue *value) *value {
	if keyCount, valueCount := keys.Data().Numel(), values.Data().Numel(); keyCount != valueCount || keyCount == 0 {
		n.Failf("got %d keys and %d values, want equal numbers, at least 1", keyCount, valueCount)
	}
	defaults := defaultValue.Data().Numel()
	if defaultValue.DType() != values.DType() || defaultValue.HasStrings() != values.HasStrings() || defaults != 1 {
		n.Failf("want one default of the values' type %v: got %d of type %v", values.DType(), defaults,
			defaultValue.DType())
	}
	valuesAndDefault := n.Op("cat", graph.Attrs{"dim": 0}, values, n.Reshape(defaultValue, 1))
	return valuesAt(n, n.MarkStrings(valuesAndDefault, values.HasStrings()), positionOf(n, x, keys))
}

// valuesAt returns the elements of a constant vector at the given positions, in the shape of positions.
func valuesAt(n *node, values, positions *value) *value {
	return n.MarkStrings(n.Op("take", nil, values, positions), values.HasStrings())
}

// oneHotEncoder converts OneHotEncoder, which adds a last dimension with 1 at the position of the category, and 0
// elsewhere. An unknown category gives only zeros. If the attribute zeros is 0, the op one_hot rejects unknown
// categories when the graph runs.
func oneHotEncoder(n *node) []*value {
	x := n.Operand(0)
	categories, count := vocabulary(n, "cats_strings", "cats_int64s")
	if !x.HasStrings() {
		x = n.Cast(x, tensor.Int64)
	}
	position := positionOf(n, x, categories)
	if !n.Flag("zeros", true) {
		return single(n.Cast(n.Op("one_hot", graph.Attrs{"num_classes": count}, position), tensor.Float32))
	}
	column := n.Op("unsqueeze", graph.Attrs{"dim": -1}, position)
	return single(n.Cast(n.Op("eq", nil, column, n.IndexVector(sym.Of(count))), tensor.Float32))
}

// vocabulary reads a list of strings or integers from one of two attributes, as a constant int64 vector. The parameters
// are the names of the attributes.
func vocabulary(n *node, stringsAttr, integersAttr string) (list *value, count int) {
	texts, _ := n.Strings(stringsAttr)
	numbers, _ := n.Ints(integersAttr)
	switch {
	case len(texts) > 0 && len(numbers) > 0:
		n.Failf("attributes %q and %q exclude each other", stringsAttr, integersAttr)
	case len(texts) > 0:
		return n.StringCodes(texts...), len(texts)
	case len(numbers) > 0:
		return convert.IntVector(numbers...), len(numbers)
	}
	n.Failf("attribute %q or %q must have elements", stringsAttr, integersAttr)
	return nil, 0
}
