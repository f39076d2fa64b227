// Package onnx imports ONNX models, of operator sets 1 to 24, as graphs.
//
// [Load] reads a file and returns its graph:
//
//	g, err := onnx.Load("model.onnx", onnx.Options{})
//
// [Open] and [Read] return a [Model] instead, from which [Model.Graph] makes graphs with fixed or symbolic
// sizes. [LoadSome] skips nodes that cannot be converted.
//
// Every ONNX operator becomes one op of the catalogue or a few, by the tables of table.go, which also have the operator
// QuickGelu of ONNX Runtime's domain com.microsoft. A [Converter] imports a custom operator of any domain
// ([Options.Operators]); [As] converts an operator to one op, which may be custom too ([Options.Lookup]):
//
//	onnx.Options{Lookup: lookup, Operators: onnx.Operators{"com.example": {"Swish": onnx.As("swish")}}}
//
// Each weight is read into its own memory. Nodes that depend only on constants and known sizes, such as shape
// computations, are evaluated during the import. Where ONNX has a tensor operand and the op an attribute (a
// shape, axes, k), a constant operand becomes the attribute; if the graph computes it, the attribute refers
// to the value ([graph.Ref]).
//
// Symbolic sizes of a model become symbols of the graph. Sizes that the model computes become expressions
// over them, and an If on a size becomes a node that is decided when the sizes are known. No size is
// specialized to a number. [Options.Dims] fixes sizes first, which folds shape computations.
package onnx
