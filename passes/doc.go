// Package passes turns the graph as written into the graph that runs. [Run] applies an ordered list of passes, [Passes]
// by default, and returns a [Plan]: the rewritten graph, and a record of what each pass did and why. The input graph is
// not modified, and nothing rewrites the graph after Run.
//
// The default passes, in order:
//
//   - infer: computes dtype, shape and layout of every value by the rules of eager PyTorch;
//   - restate: rewrites single nodes with their producers, for example quantized products as int8 products;
//   - decompose: replaces composite ops by nodes of other ops;
//   - fold: computes nodes whose operands are all constants;
//   - group: fuses pointwise nodes and row reductions, with products, convolutions and attentions as anchors;
//   - dead: removes nodes and constants that no output depends on;
//   - layout: chooses layouts and implementations by a strategy, and inserts and removes copies;
//   - lower: inserts nodes that pack constants for the chosen implementations; the next fold computes them;
//   - place: lets operands of concatenations be written directly into the result.
//
// A list of passes can be changed with [Before] and [After]. Each [Pass] declares the graph properties that it needs,
// establishes and breaks, and [Run] checks these declarations. With [Options.Check] the graph is also verified after
// every pass, and small graphs are evaluated by the reference implementations before and after.
//
// Only the layout pass depends on the strategy ([layout.Strategy]): propagate keeps the layouts of eager PyTorch,
// contiguous makes every value row-major, channels_last makes images channels-last, and optimal solves for the least
// total cost. Passes query the contract of an op ([graph.Op]), never its name.
//
// [Options.Record] keeps the outcome of searches as [Decisions], which [Options.Follow] applies to the same graph at
// other sizes without searching again.
package passes
