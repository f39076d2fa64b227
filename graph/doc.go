// Package graph is the intermediate representation: nodes that apply ops to values.
//
// # Building and evaluating a graph
//
// [New] makes a graph over a catalogue of ops, such as kernels.Lookup. [Graph.Input] and [Graph.Constant] add
// values, the functions of package op add nodes (or [Graph.Apply] by the name of the op), and [Graph.Output] names
// results. Mistakes are collected, with their places: see [Graph.Err]. Every value has its type, because nodes are
// inferred as they are added. [Evaluate] computes a graph by the definitions of its ops; package graphrun compiles
// it. [Verify] checks a graph, and [Graph.DOT] draws it.
//
// Sizes may be symbols. [Graph.Bind] replaces symbols by numbers, and [Graph.Symbolic] infers for all sizes at once.
//
// # Ops
//
// The package knows no op by name. An [Op] states its semantics (operands, attributes, Infer, Ref), facts that
// passes use (Kind, Identity, Permutes, ConcatDim), and implementations ([Impl]), which make a [Kernel] for a [Call].
// [Pointwise], [Rows] and [Attend] state as data what an op computes, so that package fusion can compile it and fuse
// it with other ops: fusion.Define makes an op that runs. This package depends on no generated code.
//
// # Files and passes
//
// The package knows no file format. A reader makes a graph with a [Draft] and gives the places of its parts
// ([Places]), which errors then have. Passes change graphs by [Graph.Insert], [Graph.Merge] and the other functions
// of rewrite.go.
package graph
