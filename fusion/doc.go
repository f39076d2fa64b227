// Package fusion decides which nodes of a graph are computed together, and compiles them.
//
// Authors of ops call [Define], which completes a graph.Op: it compiles a pointwise op as the loop of its expression,
// and estimates the work of implementations from that expression. For an author's own
// implementations, [CompileLoop] compiles a loop over elements, and [LowerRows] and [CompileRows] compile an expression
// over rows.
//
// Passes call a [Fuser], which replaces several nodes, the parts, by one node. The attributes of the new node are a
// [Fusion]. There are four kinds:
//
//   - a pointwise group: nodes over the same elements are one loop ([Fused]);
//   - a row program: some of these nodes fold dimensions, as softmax does ([Fused]);
//   - an anchor with an epilogue: the anchor is a product or a convolution, and its kernel applies an expression, the
//     epilogue, to each element of its result while the element is in a register or a cache ([Epilogue]);
//   - an attention: two products and a row program between them ([ScoreRows]).
//
// The expressions of the parts are inlined into one expression. [EffortOf] counts the operations of an expression.
//
// Package graph defines the data by which ops describe their computation: graph.Pointwise, graph.Rows, graph.Attend
// and graph.Epilogue. Package fusion depends on loops and generated code; graph does not.
package fusion
