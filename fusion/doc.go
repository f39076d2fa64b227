// Package fusion decides which nodes of a graph are computed together, and compiles them.
//
// [Define] makes an op of a graph.Op: it compiles a pointwise op as the loop of its expression, and prices
// implementations by it. It is what the author of an op calls. [CompileLoop] and [CompileRows] compile a loop over
// elements and an expression over rows for the author's own implementations.
//
// A [Fuser] makes one node of several, for the passes. There are four kinds, all of which have a [Fusion] as
// attributes:
//
//   - a pointwise group: nodes over the same elements are one loop ([Fused]);
//   - a row program: some of these nodes fold dimensions, as softmax does ([Fused]);
//   - an anchor with an epilogue: a product or a convolution, whose kernel applies an expression to each element of its
//     result while that is in registers or caches ([Epilogue]);
//   - an attention: two products and a row program between them ([ScoreRows]).
//
// The expressions of the parts are inlined into one. [EffortOf] counts what an expression costs.
//
// Package graph has what ops state about these things as data: graph.Pointwise, graph.Rows, graph.Attend and
// graph.Epilogue. Package fusion depends on loops and generated code; graph does not.
package fusion
