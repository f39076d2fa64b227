// Package onnx imports ONNX models, of operator sets 1 to 28, as graphs.
//
// [Load] reads a file and returns its graph:
//
//	g, err := onnx.Load("model.onnx", onnx.Options{})
//
// [Open] and [Read] return a [Model] instead. [Model.Graph] makes graphs with fixed or symbolic sizes from the model.
// [LoadSome] skips nodes that cannot be converted.
//
// Each ONNX operator becomes one or more ops of the catalogue. [SupportedOperators] lists the operators, including
// ONNX Runtime's domain com.microsoft and the domain ai.onnx.ml. A [Converter] imports a custom operator of any domain
// ([Options.Operators]). [As] converts an operator to one op, which may be a custom op ([Options.Lookup]):
//
//	onnx.Options{Lookup: lookup, Operators: onnx.Operators{"com.example": {"Swish": onnx.As("swish")}}}
//
// Weights are copied to memory, not mapped from the file. Nodes that depend only on constants and known sizes, such as
// shape computations, are evaluated during the import. Some parameters, such as a shape or axes, are operands of the
// ONNX operator but attributes of the op. The elements of a constant operand become the attribute. For a computed
// operand, the attribute is a reference to the value, a graph.ValueRef.
//
// Symbolic sizes of a model become symbols of the graph. Sizes that the model computes from symbols become expressions.
// An If whose condition depends on sizes becomes a node that chooses a branch when the sizes are known. The graph is
// valid for all sizes within the bounds of its symbols. [Options.Dims] replaces symbols by numbers before the
// conversion, so that shape computations are folded.
//
// Graphs have no strings and maps:
//   - A tensor of strings is an int64 tensor of codes: indices in the list of all strings of the model. [graph.Labels]
//     has this list for each input and output of strings. A caller's string that is not in the list has the code -1.
//     The graph cannot return such a string.
//   - An input m that is a map is two inputs, the vectors m.keys and m.values.
//   - An output that is a sequence of maps (of the operator ZipMap) is the matrix of the values, with a row for each
//     map. [graph.Labels] has the keys of the columns.
package onnx
