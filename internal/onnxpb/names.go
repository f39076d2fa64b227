package onnxpb

import (
	"slices"
	"strconv"
)

// dataTypes and attributeTypes have the names of onnx.proto, by number.
var dataTypes = []string{"UNDEFINED", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL",
	"FLOAT16", "DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ",
	"FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4", "INT4"}

var attributeTypes = []string{"UNDEFINED", "FLOAT", "INT", "STRING", "TENSOR", "GRAPH", "FLOATS", "INTS", "STRINGS",
	"TENSORS", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"}

// String returns the name in onnx.proto, or the number of an unknown type.
func (d DataType) String() string { return nameOf(dataTypes, int(d)) }

// String returns the name in onnx.proto, or the number of an unknown type.
func (t AttributeType) String() string { return nameOf(attributeTypes, int(t)) }

// nameOf returns names[i], or the number i if there is no such name.
func nameOf(names []string, i int) string {
	if 0 <= i && i < len(names) {
		return names[i]
	}
	return strconv.Itoa(i)
}

// DataTypeOf returns the element type with a name of onnx.proto.
func DataTypeOf(name string) (DataType, bool) {
	i := slices.Index(dataTypes, name)
	return DataType(max(i, 0)), i >= 0
}
