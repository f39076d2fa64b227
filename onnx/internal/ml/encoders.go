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

// This file converts the operators of ai.onnx.ml that prepare data: encoders, scalers, and operators on maps. A string
// is its int64 code: see strings.go of package convert.
//
// An encoder looks up each element in a list of keys (positionOf), and selects by the position (translateKeys). For
// example, LabelEncoder with the keys [10, 20], the values ["a", "b"] and the default "?" maps [20, 7] to the positions
// [1, 2], where 2 means that there is no such key, and then to ["b", "?"].

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
	case valuesSuffix == "_int64s" || values.DType().IsIntegral(false):
		defaultValue = n.Cast(convert.IntVector(n.Int("default_int64", -1)), values.DType())
	}
	return single(translateKeys(n, x, keys, values, defaultValue))
}

// labelList reads the keys or the values of LabelEncoder. They are in one of four attributes; its name is the prefix
// ("keys" or "values") and a suffix for the type. labelList returns the suffix of the attribute that is given.
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

// translateTextsOrInts maps texts[i] to integers[i] if the operand x has strings, and otherwise integers[i] to
// texts[i].
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

// oneHotEncoder converts OneHotEncoder: it adds a last dimension with 1 at the position of the category, and 0
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

// maxSpread limits the size of lookup tables: the range of n keys is at most maxSpread*(n+64).
const maxSpread = 16

// positionOf returns the position of each element of x in a list of keys. For an element that is not a key, the result
// is the number of keys. If keys are equal, the result is the position of the last. NaN equals NaN. Integers in a small
// range are looked up in a table. Other elements are searched by a decision tree on float64.
func positionOf(n *node, x, keys *value) *value {
	checkSameKind(n, x, keys)
	if keys.DType().IsIntegral(false) { // false: bool does not count as an integer
		if !x.DType().IsIntegral(false) {
			n.Failf("the operand is %v, but the keys are integers", x.DType())
		}
		if position := positionInTable(n, n.Cast(x, tensor.Int64), convert.IntsOf(keys.Data())); position != nil {
			return position
		}
	}
	tree := &treeEnsemble{roots: []treeRef{0}, describe: func(treeRef) string { return "the list of keys" }}
	positions, nanPosition := keyPositions(n, keys)
	tree.branches, tree.leaves = searchTree(positions, keys.Data().Numel(), nanPosition)
	column := n.Op("reshape", graph.Attrs{"shape": []int{-1, 1}}, n.Cast(x, tensor.Float64))
	const columns, targets = 1, 1
	operands := append([]any{column}, tree.operands(n, tensor.Float64, columns, targets)...)
	position := n.Op("tree_ensemble", graph.Attrs{"outputs": 1}, operands...)
	return n.Cast(n.ReshapeBy(position, sizeAttrs(n, x)), tensor.Int64)
}

// checkSameKind fails if one of x and keys has strings, and the other has numbers.
func checkSameKind(n *node, x, keys *value) {
	if x.HasStrings() != keys.HasStrings() {
		kinds := map[bool]string{true: "strings", false: "numbers"}
		n.Failf("the operand has %s, but the keys are %s", kinds[x.HasStrings()], kinds[keys.HasStrings()])
	}
}

// keyPositions returns the position of each key in a list, and the position of NaN or, if it is no key, the number of
// keys.
func keyPositions(n *node, keys *value) (positions map[float64]int, nanPosition int) {
	numbers := floatsOf(n, keys.Data())
	positions, nanPosition = map[float64]int{}, len(numbers)
	for i, key := range numbers {
		switch {
		case key != key: // NaN
			nanPosition = i
		case keys.DType().IsIntegral(false) && math.Abs(key) >= 1<<53: // float64 does not represent all integers
			n.Failf("key %d is not supported: want less than 2^53 in absolute value", int64(key))
		default:
			positions[key] = i
		}
	}
	return positions, nanPosition
}

// sizeAttrs returns the shape of x as a list of ints and texts of expressions.
func sizeAttrs(n *node, x *value) []any {
	switch sizes := n.SizesAttr(n.SymShape(x)...).(type) {
	case []int:
		list := make([]any, len(sizes))
		for i, size := range sizes {
			list[i] = size
		}
		return list
	case []any:
		return sizes
	}
	return nil
}

// positionInTable is [positionOf] for int64 elements and keys in a small range. It returns nil for other keys. The
// table has an entry for each integer from least-1 to most+1. The first and the last entry belong to no key; smaller
// and greater integers are clamped to them.
func positionInTable(n *node, x *value, keys []int) *value {
	least, most := slices.Min(keys), slices.Max(keys)
	if least == math.MinInt || most == math.MaxInt || uint(most-least) > uint(maxSpread*(len(keys)+64)) {
		return nil
	}
	table := slices.Repeat([]int{len(keys)}, most-least+3)
	for i, key := range keys {
		table[key-least+1] = i
	}
	x = n.Op("clamp", graph.Attrs{"min": least - 1, "max": most + 1}, x)
	return n.Op("take", nil, convert.IntVector(table...), n.Op("sub", nil, x, least-1))
}

// searchTree returns a decision tree that searches for an element among keys. keys maps each key to its position. The
// weight of a leaf is the position of the element: missingPosition if it is not a key, nanPosition if it is NaN.
func searchTree(keys map[float64]int, missingPosition, nanPosition int) (branches []treeBranch,
	leaves [][]leafWeight) {
	// addLeaf adds a leaf and returns its reference: the complement of its index, which differs from all references of
	// branches.
	addLeaf := func(position int) treeRef {
		leaves = append(leaves, []leafWeight{{target: 0, weight: float64(position)}})
		return ^treeRef(len(leaves) - 1)
	}
	sorted := make([]float64, 0, len(keys))
	for key := range keys {
		sorted = append(sorted, key)
	}
	slices.Sort(sorted)
	// addSearch adds the branches for the keys sorted[low] to sorted[high], and returns the first of them.
	var addSearch func(low, high int) treeRef
	addSearch = func(low, high int) treeRef {
		index := treeRef(len(branches))
		branches = append(branches, treeBranch{})
		if low == high {
			branches[index] = treeBranch{mode: branchEQ, value: sorted[low], yes: addLeaf(keys[sorted[low]]),
				no: addLeaf(missingPosition)}
			return index
		}
		middle := (low + high) / 2
		branches[index] = treeBranch{mode: branchLEQ, value: sorted[middle], yes: addSearch(low, middle),
			no: addSearch(middle+1, high)}
		return index
	}
	branches = append(branches, treeBranch{}) // the root, which is set below
	// The root separates NaN: x <= infinity is false only for NaN.
	root := treeBranch{mode: branchLEQ, value: math.Inf(1), no: addLeaf(nanPosition)}
	if len(sorted) > 0 {
		root.yes = addSearch(0, len(sorted)-1)
	} else {
		root.yes = addLeaf(missingPosition)
	}
	branches[0] = root
	return branches, leaves
}

// scaler converts Scaler: (x - offset) * scale. offset and scale are one number, or a number for each column.
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

// normalizer converts Normalizer: x divided by the maximum (not of absolute values), the 1-norm or the 2-norm of its
// row. Rows with norm 0 are not divided.
func normalizer(n *node) []*value {
	x := n.Cast(n.Operand(0), tensor.Float32)
	attrs := graph.Attrs{"dim": []int{-1}, "keepdim": true}
	var norms *value
	switch norm := n.Text("norm", "MAX"); norm {
	case "MAX":
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

// imputer converts Imputer, which replaces elements that equal a value (which may be NaN) by one number, or by the
// number of their column.
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

// featureVectorizer converts FeatureVectorizer: the concatenation of the operands' columns. A vector is a single row.
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

// arrayFeatureExtractor selects columns. A vector is a single row.
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

// mapValues returns a row [1, count] with the values of a map for the wanted keys. The map is two vectors, its keys and
// their values. Entry i of the row is the sum of the values whose keys equal wantedKeys[i], or 0 if no key does.
func mapValues(n *node, keys, values, wantedKeys *value, count int) *value {
	checkSameKind(n, keys, wantedKeys)
	if values.HasStrings() {
		n.Failf("maps with values that are strings are not supported")
	}
	isWanted := n.Op("eq", nil, n.Reshape(wantedKeys, count, 1), n.Reshape(keys, 1, -1)) // [count, keys of the map]
	zero := n.Cast(convert.IntVector(0), values.DType())
	wantedValues := n.Op("where", nil, isWanted, n.Reshape(values, 1, -1), zero)
	return n.Reshape(n.Op("sum", graph.Attrs{"dim": []int{1}, "dtype": values.DType()}, wantedValues), 1, count)
}

// dictVectorizer converts DictVectorizer: a row with the values of a map for the keys of a vocabulary.
func dictVectorizer(n *node) []*value {
	keys, values := n.MapOperand()
	wantedKeys, count := vocabulary(n, "string_vocabulary", "int64_vocabulary")
	return single(mapValues(n, keys, values, wantedKeys, count))
}

// castMap converts CastMap: a row with the values of a map, converted to the type cast_to.
func castMap(n *node) []*value {
	row := mapRow(n)
	castTo := n.Text("cast_to", "TO_FLOAT")
	switch {
	case (castTo == "TO_STRING") != row.HasStrings():
		n.Failf("cast_to %q is not supported for these values", castTo)
	case castTo == "TO_FLOAT":
		row = n.Cast(row, tensor.Float32)
	case castTo == "TO_INT64":
		row = n.Cast(row, tensor.Int64)
	case castTo != "TO_STRING":
		n.Failf("cast_to %q is not supported", castTo)
	}
	return single(row)
}

// mapRow returns the values of the map operand as a row. A dense row has them in the order of their keys. A sparse row
// has max_map elements: at index k, the value of key k, or 0.
func mapRow(n *node) *value {
	keys, values := n.MapOperand()
	switch form := n.Text("map_form", "DENSE"); form {
	case "DENSE":
		order := n.Op("argsort", nil, keys)
		sorted := n.MarkStrings(n.Op("index_select", graph.Attrs{"dim": 0}, values, order), values.HasStrings())
		return n.MarkStrings(n.Reshape(sorted, 1, -1), values.HasStrings())
	case "SPARSE":
		count := n.Int("max_map", 1)
		if count < 1 || count > convert.FoldLimit {
			n.Failf("max_map %d is not supported: want 1 to %d", count, convert.FoldLimit)
		}
		return mapValues(n, keys, values, n.IndexVector(sym.Of(count)), count)
	default:
		n.Failf("map_form %q is not supported", form)
		return nil
	}
}

// zipMap converts ZipMap, which makes each row a map from the class labels to the elements of the row. The maps can
// only be a result of the model: see [convert.Maps].
func zipMap(n *node) []*value {
	x := n.Operand(0)
	if n.Rank(x) == 1 {
		x = n.Reshape(x, 1, -1)
	}
	if n.Rank(x) != 2 {
		n.Failf("operand 0 has %d dimensions, want 1 or 2", n.Rank(x))
	}
	var labels graph.Labels
	labels.StringKeys, _ = n.Strings("classlabels_strings")
	integers, _ := n.Ints("classlabels_int64s")
	for _, key := range integers {
		labels.IntKeys = append(labels.IntKeys, int64(key))
	}
	count := len(labels.Keys())
	if count == 0 || len(integers) > 0 && len(labels.StringKeys) > 0 {
		n.Failf("one of the attributes classlabels_strings and classlabels_int64s must have elements")
	}
	if columns := n.Sizes(x)[1]; columns >= 0 && columns != count {
		n.Failf("operand 0 has %d columns, but there are %d labels", columns, count)
	}
	return single(convert.Maps(x, labels))
}
