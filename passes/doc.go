// Package passes turns a graph as written into the graph that runs. [Run] applies one list of passes
// ([Passes]), which people can change: types are inferred, what depends on constants alone is computed,
// composite ops are stated as others, layouts and implementations are chosen by a strategy, constants
// are brought into the forms in which implementations read them, and what no output needs is
// dropped. The [Plan] tells what each pass did and why, and nothing is rewritten after it.
//
// A strategy is a choice of the layout pass alone; everything around it is shared:
//
//   - propagate: the layouts that eager PyTorch gives;
//   - contiguous: every value row-major;
//   - channels_last: images channels-last, others as propagated.
//
// Passes ask an op's contract ([graph.Op]), never its name.
package passes
