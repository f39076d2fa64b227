// Package passes turns a graph as written into the graph that runs: it chooses the layout
// of every value by a strategy, inserts contiguous nodes where an op's contract needs
// one, and elides the copies that nobody needs. What it inserts and elides carries the
// reason.
//
// [Run] applies the pipeline, one list of passes. A strategy is a choice of the layout
// pass alone; everything around it is shared:
//
//   - propagate: the layouts that eager PyTorch gives;
//   - contiguous: every value row-major;
//   - channels_last: 4-D and 5-D values channels-last, others as propagated.
//
// Passes ask an op's contract ([graph.Op]), never its name.
package passes
