// Package onnx reads ONNX models, of operator sets 1 to 24, as graphs.
//
// [Load] reads a file:
//
//	g, err := onnx.Load("model.onnx", onnx.Options{})
//
// Every ONNX operator becomes one op of the catalogue or a few: table.go says which. An operator of
// one's own, of any domain, is imported by a [Converter] ([Options.Operators]); [As] is that of an
// operator which is an op, be it one of one's own ([Options.Lookup]):
//
//	onnx.Options{Lookup: lookup, Operators: onnx.Operators{"com.example": {"Swish": onnx.As("swish")}}}
//
// Weights are in the file as it is mapped, and what depends on constants and known sizes
// alone, such as the computation of a shape, is computed once, here. What an operator takes
// as a tensor and an op as an attribute (a shape, axes, a k) becomes the attribute; where
// it is computed by the graph, the attribute refers to the value ([graph.Ref]).
//
// A model with symbolic sizes becomes a graph with symbols, whose attributes are expressions over them where the
// model computes sizes; an If on a size becomes a node that is settled when sizes are known. Nothing is decided
// for sizes that nobody gave. [Model.Graph] can fix them first, and then shape computations vanish.
package onnx
