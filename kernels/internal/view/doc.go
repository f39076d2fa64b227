// Package view has the ops that arrange, concatenate and create values without arithmetic on their elements: views
// ([Permute], [Slice], [Expand], [View]), copies ([Clone], [To]), reshapes ([Reshape], [Flatten]), concatenation
// ([Cat], [Stack]), padding ([Pad]), rearrangement ([Roll], [PixelShuffle]), constants ([Full], [Arange]) and random
// numbers ([Rand], [Dropout]).
//
// A view ([viewOp]) shares its operand's storage. Inference maps the operand's type to the type of the view, and no
// kernel runs. A view is compiled as a copy only if its result is pinned to another layout. Most other ops are compiled
// to copies (kernels/internal/copies). Such a kernel is a list of strided copies or of spans. A span is a range of
// consecutive indices of the result, whose elements are read with a constant step.
//
// Random ops have a seed and use a counter-based generator (philox.go), so that results depend only on the seed.
package view
