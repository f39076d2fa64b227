// Package onnx imports ONNX models, of operator sets 1 to 24, as graphs.
//
// [Load] reads a file and returns its graph:
//
//	g, err := onnx.Load("model.onnx", onnx.Options{})
//
// [Open] and [Read] return a [Model] instead, from which [Model.Graph] makes graphs with fixed or symbolic
// sizes. [LoadSome] skips nodes that cannot be converted.
//
// Each ONNX operator becomes one or more ops of the catalogue. table.go lists the converters. They include QuickGelu of
// ONNX Runtime's domain com.microsoft. A [Converter] imports a custom operator of any domain ([Options.Operators]).
// [As] converts an operator to one op, which may be a custom op ([Options.Lookup]):
//
//	onnx.Options{Lookup: lookup, Operators: onnx.Operators{"com.example": {"Swish": onnx.As("swish")}}}
//
// Each weight is read into its own memory. Nodes that depend only on constants and known sizes, such as shape
// computations, are evaluated during the import. Some parameters (a shape, axes, k) are tensor operands in ONNX and
// attributes of the op. A constant operand becomes the attribute. If the graph computes the operand, the attribute
// refers to the value ([graph.Ref]).
//
// Symbolic sizes of a model become symbols of the graph. Sizes that the model computes from symbols become expressions.
// An If on a size becomes a node that is decided when the sizes are known. No size is specialized to a number.
// [Options.Dims] fixes sizes before the conversion; shape computations with these sizes are folded.
package onnx
