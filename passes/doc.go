// Package passes turns the graph that the user wrote into the graph that is executed. [Run] applies an ordered list of
// passes, [Passes] by default, and returns a [Plan]: the rewritten graph, and a record of the changes by each pass with
// their reasons. The input graph is not modified, and nothing rewrites the graph after Run.
//
// [Passes] lists the default passes in order, each with a sentence on its effect. They infer types, rewrite and
// decompose ops, fold constants, fuse nodes, choose layouts, pack constants, and place operands of concatenations.
//
// A list of passes can be changed with [Before] and [After]. Each [Pass] declares the graph properties that it needs,
// establishes and breaks, and [Run] checks these declarations. With [Options.Check], Run also verifies the graph after
// every pass, and compares the outputs of small graphs before and after the pass. It computes these outputs with
// the reference implementations of the ops.
//
// Only the layout pass depends on the strategy ([layout.Strategy], [layout.All]). Passes use the properties of an op
// ([graph.Op]), never its name.
//
// Some passes search for the fastest choice. With [Options.Record], the plan has their results as [Decisions]. With
// [Options.Follow], a later Run of the same graph at other sizes applies these decisions without a search.
package passes
