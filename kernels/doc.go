// Package kernels is the catalogue of ops. [Lookup] finds an op by its name and [All] lists them:
//
//	op := kernels.Lookup("conv2d")
//	fmt.Println(op.Doc) // also op.Params, op.Schema.Fields (attributes), op.Impls, op.Examples
//
// Names, operands, attributes, defaults and errors are those of PyTorch's operators (aten's native_functions.yaml); a
// few ops without an equivalent there follow ONNX. Graphs take their ops from a lookup function: [graph.New] with
// [Lookup] builds a graph on this catalogue, and package op has a typed function for each op.
//
// # Defining an op
//
// An op is a [graph.Op]: a name, documentation, operands and attributes, the inference of result types, a reference
// implementation, and one of
//
//   - Pointwise, for an op that computes each element from the elements at the same position,
//   - Decompose, which expresses the op by other ops,
//   - Compile or Impls, which make kernels; several implementations have layouts and prices, and the planner chooses.
//
// [fusion.Define] checks the definition and completes it. The lookup function that graphrun.Lookup returns finds such
// ops beside those of this catalogue; the command line gets them by cli.WithOps. CONTRIBUTING.md describes how an op is
// added to the catalogue.
//
// # Organization
//
// The ops are in families under kernels/internal: pointwise, view, reduce, index, product, conv, quantized, window and
// sequence. Each op, or group of similar ops, has one file with its complete definition.
package kernels
