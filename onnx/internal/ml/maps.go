package ml

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts the operators of ai.onnx.ml on maps. A map is represented by two vectors, the keys and the values.

// mapValues returns a row [1, count] with the values of a map for the wanted keys. Entry i of the row is the sum of the
// values whose keys equal wantedKeys[i]. The sum is 0 if there is no such key.
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

// dictVectorizer converts DictVectorizer, which returns a row with the values of a map for the keys of a vocabulary.
func dictVectorizer(n *node) []*value {
	keys, values := n.MapOperand()
	wantedKeys, count := vocabulary(n, "string_vocabulary", "int64_vocabulary")
	return single(mapValues(n, keys, values, wantedKeys, count))
}

// castMap converts CastMap, which returns a row with the values of a map, converted to the type cast_to.
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

// mapRow returns the values of the map operand as a row. A dense row has the values in the order of their keys. A
// sparse row has max_map elements. Element k is the value of key k, or 0 if there is no such key.
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

// zipMap converts ZipMap, which converts each row to a map from the class labels to the elements of the row. The maps
// can only be a result of the model: see [convert.Maps].
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
