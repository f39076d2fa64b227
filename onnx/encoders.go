package onnx

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts the operators of ai.onnx.ml that prepare data: encoders, scalers, and operators on maps.

// vocabulary reads a list of strings or integers from one of two attributes, as a constant int64 vector.
func (n *node) vocabulary(strings, integers string) (list *val, count int) {
	texts, _ := n.strings(strings)
	numbers, _ := n.ints(integers)
	switch {
	case len(texts) > 0 && len(numbers) > 0:
		n.failf("attributes %q and %q exclude each other", strings, integers)
	case len(texts) > 0:
		return n.codes(texts...), len(texts)
	case len(numbers) > 0:
		return constValue(intTensor(numbers...)), len(numbers)
	}
	n.failf("attribute %q or %q must have elements", strings, integers)
	return nil, 0
}

// checkText fails if only one of x and keys has strings.
func (n *node) checkText(x, keys *val) {
	if x.isText != keys.isText {
		kinds := map[bool]string{true: "strings", false: "numbers"}
		n.failf("the operand has %s, but the keys are %s", kinds[x.isText], kinds[keys.isText])
	}
}

// maxSpread limits the size of lookup tables: the range of the keys is at most maxSpread times their number.
const maxSpread = 16

// positionOf returns the position of each element of x in a list of keys. For an element that is not a key, the result
// is the number of keys. If keys are equal, the result is the position of the last. NaN equals NaN.
func (n *node) positionOf(x, keys *val) *val {
	n.checkText(x, keys)
	if keys.dtype().IsIntegral(false) {
		if !x.dtype().IsIntegral(false) {
			n.failf("the operand is %v, but the keys are integers", x.dtype())
		}
		if y := n.positionInTable(n.cast(x, tensor.Int64), ints(keys.data)); y != nil {
			return y
		}
	}
	list := n.floatsOf(keys.data)
	tree, last := &treeEnsemble{roots: []treeRef{0}}, map[float64]int{}
	nanPosition := len(list)
	for i, k := range list {
		switch {
		case k != k:
			nanPosition = i
		case keys.dtype().IsIntegral(false) && math.Abs(k) >= 1<<53:
			n.failf("key %d is not supported: want less than 2^53 in absolute value", int(k))
		default:
			last[k] = i
		}
	}
	tree.branches, tree.leaves = searchTree(last, len(list), nanPosition)
	tree.describe = func(treeRef) string { return "the list of keys" }
	column := n.op("reshape", graph.Attrs{"shape": []int{-1, 1}}, n.cast(x, tensor.Float64))
	operands := append([]any{column}, tree.operands(n, tensor.Float64, 1, 1)...)
	found := n.op("tree_ensemble", graph.Attrs{"outputs": 1}, operands...)
	return n.cast(n.reshapeBy(found, n.sizeAttrs(x)), tensor.Int64)
}

// sizeAttrs returns the shape of x as a list of attributes.
func (n *node) sizeAttrs(x *val) []any {
	switch list := n.sizeAttr(n.symShape(x)...).(type) {
	case []int:
		out := make([]any, len(list))
		for i, s := range list {
			out[i] = s
		}
		return out
	case []any:
		return list
	}
	return nil
}

// positionInTable is [node.positionOf] for int64 elements and keys in a small range. It returns nil for other keys.
func (n *node) positionInTable(x *val, keys []int) *val {
	least, most := slices.Min(keys), slices.Max(keys)
	if least == math.MinInt || most == math.MaxInt || uint(most-least) > uint(maxSpread*(len(keys)+64)) {
		return nil
	}
	table := slices.Repeat([]int{len(keys)}, most-least+3)
	for i, k := range keys {
		table[k-least+1] = i
	}
	x = n.op("clamp", graph.Attrs{"min": least - 1, "max": most + 1}, x)
	return n.op("take", nil, constValue(intTensor(table...)), n.op("sub", nil, x, least-1))
}

// searchTree returns a decision tree that searches for an element among keys. keys maps each key to its position. The
// weight of a leaf is the position of the element, `missing` if the element is not a key, or `nan` if it is NaN.
func searchTree(keys map[float64]int, missing, nan int) (branches []treeBranch, leaves [][]leafWeight) {
	leaf := func(position int) treeRef {
		leaves = append(leaves, []leafWeight{{0, float64(position)}})
		return ^treeRef(len(leaves) - 1)
	}
	sorted := make([]float64, 0, len(keys))
	for k := range keys {
		sorted = append(sorted, k)
	}
	slices.Sort(sorted)
	var search func(low, high int) treeRef
	search = func(low, high int) treeRef {
		i := treeRef(len(branches))
		branches = append(branches, treeBranch{})
		if low == high {
			branches[i] = treeBranch{mode: branchEQ, value: sorted[low], yes: leaf(keys[sorted[low]]), no: leaf(missing)}
			return i
		}
		middle := (low + high) / 2
		branches[i] = treeBranch{mode: branchLEQ, value: sorted[middle], yes: search(low, middle), no: search(middle+1, high)}
		return i
	}
	branches = append(branches, treeBranch{})
	// The comparison x <= infinity is false only for NaN.
	isNumber := treeBranch{mode: branchLEQ, value: math.Inf(1), no: leaf(nan)}
	if len(sorted) > 0 {
		isNumber.yes = search(0, len(sorted)-1)
	} else {
		isNumber.yes = leaf(missing)
	}
	branches[0] = isNumber
	return branches, leaves
}

// valuesAt returns elements of a constant vector, with the shape of positions.
func (n *node) valuesAt(values, positions *val) *val {
	return n.markText(n.op("take", nil, values, positions), values.isText)
}

// translated maps each element of x from keys to values, and other elements to def.
func (n *node) translated(x, keys, values, def *val) *val {
	if k, v := keys.data.Numel(), values.data.Numel(); k != v || k == 0 {
		n.failf("%d keys do not suit %d values", k, v)
	}
	if def.dtype() != values.dtype() || def.isText != values.isText || def.data.Numel() != 1 {
		n.failf("the default does not suit the values")
	}
	all := n.op("cat", graph.Attrs{"dim": 0}, values, n.reshape(def, 1))
	return n.valuesAt(n.markText(all, values.isText), n.positionOf(x, keys))
}

// labelList reads keys or values of LabelEncoder from one of four attributes. kind is the suffix of the attribute.
func (n *node) labelList(prefix string) (list *val, kind string) {
	for _, suffix := range []string{"_strings", "_int64s", "_floats", "_tensor"} {
		a := n.attrs[prefix+suffix]
		if a == nil {
			continue
		}
		if list != nil {
			n.failf("attributes %q and %q exclude each other", prefix+kind, prefix+suffix)
		}
		switch kind = suffix; suffix {
		case "_strings":
			texts, _ := n.strings(prefix + suffix)
			list = n.codes(texts...)
		case "_int64s":
			numbers, _ := n.ints(prefix + suffix)
			list = constValue(intTensor(numbers...))
		case "_floats":
			floats := n.attr(prefix+suffix, pb.AttributeFloats).Floats
			list = constValue(tensor.Must(tensor.FromSlice(slices.Clone(floats), len(floats))))
		default:
			list = n.tensorValue(prefix + suffix)
			list = n.markText(n.reshape(list, list.data.Numel()), list.isText)
		}
	}
	if list == nil {
		n.failf("the attributes %s_* are missing", prefix)
	}
	return list, kind
}

// tensorValue returns a tensor attribute as a constant.
func (n *node) tensorValue(name string) *val {
	t := n.tensorAttr(name)
	if t == nil {
		n.failf("attribute %q has no tensor", name)
	}
	return weightValue(n.attrs[name].T, t)
}

func labelEncoder(n *node) []*val {
	x := n.operand(0)
	if n.opset < 2 {
		texts, _ := n.strings("classes_strings")
		list, positions := n.codes(texts...), make([]int, len(texts))
		for i := range positions {
			positions[i] = i
		}
		return one(n.textsAndInts(x, list, constValue(intTensor(positions...))))
	}
	keys, _ := n.labelList("keys")
	values, kind := n.labelList("values")
	def := values
	switch {
	case n.attrs["default_tensor"] != nil:
		def = n.tensorValue("default_tensor")
	case values.isText:
		def = n.codes(n.text("default_string", "_Unused"))
	case values.dtype().IsFloat():
		def = n.cast(floatVector(n.float("default_float", math.Copysign(0, -1))), values.dtype())
	case kind == "_int64s" || values.dtype().IsIntegral(false):
		def = n.cast(constValue(intTensor(n.int("default_int64", -1))), values.dtype())
	}
	return one(n.translated(x, keys, values, def))
}

// textsAndInts maps strings to integers or integers to strings, as the operand requires.
func (n *node) textsAndInts(x, texts, integers *val) *val {
	if x.isText {
		return n.translated(x, texts, integers, constValue(intTensor(n.int("default_int64", -1))))
	}
	return n.translated(x, integers, texts, n.codes(n.text("default_string", "_Unused")))
}

func categoryMapper(n *node) []*val {
	texts, _ := n.strings("cats_strings")
	integers, _ := n.ints("cats_int64s")
	return one(n.textsAndInts(n.operand(0), n.codes(texts...), constValue(intTensor(integers...))))
}

// oneHotEncoder adds a dimension with 1 at the position of the category. If the attribute zeros is 0, an unknown
// category is an error of one_hot.
func oneHotEncoder(n *node) []*val {
	x := n.operand(0)
	list, count := n.vocabulary("cats_strings", "cats_int64s")
	if !x.isText {
		x = n.cast(x, tensor.Int64)
	}
	position := n.positionOf(x, list)
	if !n.flag("zeros", true) {
		return one(n.cast(n.op("one_hot", graph.Attrs{"num_classes": count}, position), tensor.Float32))
	}
	column := n.op("unsqueeze", graph.Attrs{"dim": -1}, position)
	return one(n.cast(n.op("eq", nil, column, n.indexVector(sym.Of(count))), tensor.Float32))
}

func scaler(n *node) []*val {
	x := n.cast(n.operand(0), tensor.Float32)
	for _, step := range []struct{ attr, op string }{{"offset", "sub"}, {"scale", "mul"}} {
		if list := n.floatsOrTensor(step.attr); len(list) > 0 {
			x = n.op(step.op, nil, x, n.perColumn(step.attr, list, x))
		}
	}
	return one(x)
}

// perColumn returns a constant with one number, or with a number for each column of x.
func (n *node) perColumn(name string, list []float64, x *val) *val {
	sizes := n.sizes(x)
	if len(sizes) == 0 {
		n.failf("operand 0 has no dimensions")
	}
	if last := sizes[len(sizes)-1]; len(list) != 1 && last >= 0 {
		n.checkLength(name, len(list), last)
	}
	return n.floatsLike(list, x)
}

func normalizer(n *node) []*val {
	x := n.cast(n.operand(0), tensor.Float32)
	attrs := graph.Attrs{"dim": []int{-1}, "keepdim": true}
	var size *val
	switch norm := n.text("norm", "MAX"); norm {
	case "MAX":
		size = n.op("amax", attrs, x)
	case "L1":
		size = n.op("sum", attrs, n.op("abs", nil, x))
	case "L2":
		size = n.op("sqrt", nil, n.op("sum", attrs, n.op("mul", nil, x, x)))
	default:
		n.failf("norm %q is not supported", norm)
	}
	isZero := n.op("eq", nil, size, 0.0)
	return one(n.op("div", nil, x, n.op("where", nil, isZero, n.floatsLike([]float64{1}, x), size)))
}

func imputer(n *node) []*val {
	x := n.operand(0)
	var list []float64
	var old *val
	if x.dtype().IsFloat() {
		list = n.floatsOrTensor("imputed_value_floats")
		if a := n.attr("replaced_value_float", pb.AttributeFloat); a != nil && a.F != a.F {
			old = n.op("isnan", nil, x)
		} else {
			old = n.op("eq", nil, x, n.float("replaced_value_float", 0))
		}
	} else {
		integers, _ := n.ints("imputed_value_int64s")
		for _, v := range integers {
			list = append(list, float64(v))
		}
		old = n.op("eq", nil, x, n.int("replaced_value_int64", 0))
	}
	if len(list) == 0 {
		n.failf("the imputed values for %v are missing", x.dtype())
	}
	return one(n.op("where", nil, old, n.perColumn("imputed_value", list, x), x))
}

func binarizer(n *node) []*val {
	x := n.operand(0)
	return one(n.cast(n.op("gt", nil, x, n.float("threshold", 0)), x.dtype()))
}

func featureVectorizer(n *node) []*val {
	sizes, given := n.ints("inputdimensions")
	if given {
		n.checkLength("inputdimensions", len(sizes), len(n.in))
	}
	var parts []any
	for i := range n.in {
		x := n.operand(i)
		switch n.rank(x) {
		case 1:
			x = n.reshape(x, 1, -1)
		case 2:
		default:
			n.failf("operand %d has %d dimensions, want 1 or 2", i, n.rank(x))
		}
		if have := n.sizes(x)[1]; given && have >= 0 && have != sizes[i] {
			n.failf("operand %d has %d columns, attribute \"inputdimensions\" has %d", i, have, sizes[i])
		}
		parts = append(parts, n.cast(x, tensor.Float32))
	}
	if len(parts) == 0 {
		n.failf("operand 0 is missing")
	}
	return one(n.op("cat", graph.Attrs{"dim": 1}, parts...))
}

// arrayFeatureExtractor selects columns. A vector is a single row.
func arrayFeatureExtractor(n *node) []*val {
	x, index := n.operand(0), n.operand(1)
	switch n.rank(x) {
	case 0:
		n.failf("operand 0 has no dimensions")
	case 1:
		x = n.reshape(x, 1, -1)
	}
	return one(n.op("index_select", graph.Attrs{"dim": -1}, x, n.reshape(index, -1)))
}

// mapOperand returns the keys and the values of operand 0, which must be a map.
func (n *node) mapOperand() (keys, values *val) {
	if !n.hasOperand(0) || n.in[0].kind != mapKind {
		n.failf("operand 0 must be a map")
	}
	return n.in[0].members[0], n.in[0].members[1]
}

// mapValues returns a row with the values of a map for a list of keys. A value without a key in the map is 0.
func (n *node) mapValues(keys, values, list *val, count int) *val {
	n.checkText(keys, list)
	if values.isText {
		n.failf("maps with values that are strings are not supported")
	}
	column := n.reshape(list, count, 1)
	isKey := n.op("eq", nil, column, n.reshape(keys, 1, -1))
	zero := n.cast(constValue(intTensor(0)), values.dtype())
	found := n.op("where", nil, isKey, n.reshape(values, 1, -1), zero)
	return n.reshape(n.op("sum", graph.Attrs{"dim": []int{1}, "dtype": values.dtype()}, found), 1, count)
}

func dictVectorizer(n *node) []*val {
	keys, values := n.mapOperand()
	list, count := n.vocabulary("string_vocabulary", "int64_vocabulary")
	return one(n.mapValues(keys, values, list, count))
}

func castMap(n *node) []*val {
	keys, values := n.mapOperand()
	var converted *val
	switch form := n.text("map_form", "DENSE"); form {
	case "DENSE":
		order := n.op("argsort", nil, keys)
		converted = n.reshape(n.markText(n.op("index_select", graph.Attrs{"dim": 0}, values, order),
			values.isText), 1, -1)
		converted.isText = values.isText
	case "SPARSE":
		count := n.int("max_map", 1)
		if count < 1 || count > foldLimit {
			n.failf("max_map %d is not supported", count)
		}
		converted = n.mapValues(keys, values, n.indexVector(sym.Of(count)), count)
	default:
		n.failf("map_form %q is not supported", form)
	}
	to := n.text("cast_to", "TO_FLOAT")
	switch {
	case (to == "TO_STRING") != converted.isText:
		n.failf("cast_to %q is not supported for these values", to)
	case to == "TO_FLOAT":
		converted = n.cast(converted, tensor.Float32)
	case to == "TO_INT64":
		converted = n.cast(converted, tensor.Int64)
	case to != "TO_STRING":
		n.failf("cast_to %q is not supported", to)
	}
	return one(converted)
}

// zipMap makes each row a map. The maps are a result only: see [importer.addOutput].
func zipMap(n *node) []*val {
	x := n.operand(0)
	if n.rank(x) == 1 {
		x = n.reshape(x, 1, -1)
	}
	if n.rank(x) != 2 {
		n.failf("operand 0 has %d dimensions, want 1 or 2", n.rank(x))
	}
	maps := &val{kind: mapsKind, members: []*val{x}}
	maps.labels.StringKeys, _ = n.strings("classlabels_strings")
	integers, _ := n.ints("classlabels_int64s")
	for _, k := range integers {
		maps.labels.IntKeys = append(maps.labels.IntKeys, int64(k))
	}
	count := len(maps.labels.Keys())
	if count == 0 || len(integers) > 0 && len(maps.labels.StringKeys) > 0 {
		n.failf("one of the attributes classlabels_strings and classlabels_int64s must have elements")
	}
	if have := n.sizes(x)[1]; have >= 0 && have != count {
		n.failf("operand 0 has %d columns, but there are %d labels", have, count)
	}
	return one(maps)
}
