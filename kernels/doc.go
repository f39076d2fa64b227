// Package kernels is the catalogue of ops. [Lookup] finds an op by its name and [All] lists them:
//
//	op := kernels.Lookup("conv2d")
//	fmt.Println(op.Doc) // also op.Params, op.Schema.Fields (attributes), op.Impls, op.Examples
//
// Ops have the names, operands, attributes, defaults and errors of PyTorch's operators (aten's native_functions.yaml).
// A few ops without an equivalent in PyTorch follow ONNX. A graph gets its ops from a lookup function: [graph.New] with
// [Lookup] builds a graph on this catalogue. Package op has a typed function for each op.
//
// # Defining an op
//
// An op is a [graph.Op]: a name, documentation, operands and attributes, the inference of result types, a reference
// implementation, and one of
//
//   - Pointwise, for an op that computes each element from the elements at the same position,
//   - Decompose, which expresses the op by other ops,
//   - Compile, which makes a kernel, or Impls, which lists implementations with layouts and costs for the planner.
//
// fusion.Define checks the definition and completes it. The lookup function that graphrun.Lookup returns finds the
// defined op and the ops of this catalogue. The command line gets the op by cli.WithOps. CONTRIBUTING.md describes the
// steps that add an op to the catalogue.
//
// # Organization
//
// The ops are in families under kernels/internal: pointwise, view, reduce, index, product, conv, quantized, pool,
// window, recurrent, fourier, control, linalg and composite. Each op, or group of similar ops, has one file with its
// definition.
package kernels
