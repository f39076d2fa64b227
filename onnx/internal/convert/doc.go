// Package convert converts an ONNX model to a graph. The caller passes a [Table] with the converters of operators. Only
// the converters of sequences, optionals and control flow are in this package ([Control]).
//
// [Model.Convert] calls the [Converter] of each node. A converter reads the operands and attributes of its [Node], adds
// ops with [Node.Op], and returns the outputs as [Value]s:
//
//	func leakyRelu(n *convert.Node) []*convert.Value {
//		slope := n.Float("alpha", 0.01)
//		return []*convert.Value{n.Op("leaky_relu", graph.Attrs{"negative_slope": slope}, n.Operand(0))}
//	}
//
// A converter reports a mistake of the model by [Node.Failf], which does not return.
//
// Sizes have three forms. [Node.Sizes] returns numbers, with -1 for unknown sizes. [Node.SymShape] returns expressions.
// [Node.ShapeVector] returns a value, which has the sizes even if they depend on data. [Node.SizesAttr] and
// [Node.IntsAttr] convert expressions and values to attributes of ops.
package convert
