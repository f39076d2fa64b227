// Package graph defines the intermediate representation: nodes that apply ops to values.
//
// # Building and evaluating a graph
//
// [New] makes a graph over a catalogue of ops: a function that finds an op by name, such as kernels.Lookup.
// [Graph.Input] and [Graph.Constant] add values. The functions of package op, or [Graph.Apply] with the name of an op,
// add nodes. The types of a node's results are inferred when it is added. [Graph.Output] names results. Mistakes are
// collected with their positions in the caller's code: see [Graph.Err]. [Evaluate] computes a graph by the reference
// implementations of its ops; package graphrun compiles it. [Verify] checks a graph, and package graph/dot draws it.
//
// Sizes may be symbols. [Graph.Bind] replaces symbols by numbers, and [Graph.Symbolic] infers types that hold for all
// sizes.
//
// # Ops
//
// Nothing in the package depends on the name of an op. An [Op] has semantics (operands, attributes, Infer, Ref), facts
// that passes use (Identity, Permutes, ConcatDim), and implementations ([Impl]), which make a [Kernel] for a [Call].
// [Pointwise], [Rows] and [Attend] describe the computation of an op as data, so that package fusion can compile it and
// fuse it with other ops, and package graph needs no compiler. fusion.Define makes an op from such a description, with
// its kernels.
//
// # Files and passes
//
// The package reads no file format. A reader of files makes a graph with a [Draft], and provides the places of nodes
// and values in the file ([Places]) for error messages. Passes change graphs by [Graph.Insert], [Graph.Merge] and the
// other functions of rewrite.go.
package graph
