// Package index has the ops that select or write elements by indices, masks and order: gathers ([Gather],
// [IndexSelect], [Embedding], [Index], [GatherND]), scatters ([Scatter], [ScatterND], [IndexAdd]), masks ([MaskedFill],
// [Nonzero], [Compress]), sorting ([Sort], [Topk]), sets ([Unique]) and non-maximum suppression ([Nms]).
//
// Gathers and scatters share one mechanism, the indexed walk (walk.go). The walk pairs each element of one value, the
// plain operand, with an element of a second value, the table. Both values are operands or results of the op. For
// torch.gather, the table is self and the plain operand is the result. The walk visits the plain operand by strides.
// The position in the table is looked up in index operands. A gather reads the table. A scatter writes the table, and
// may combine elements by a reduction (combine.go). If several elements may have the same position, one worker visits
// them in order, so that results are deterministic. Indices are checked during the run.
//
// The shape of some results depends on data. Ops with such results are dynamic (dynamic.go): they run when the elements
// of their operands are known, and inference returns the type with only the known sizes, an outline. Tests and tools
// use the bounds on indices (params.go) to generate valid operands.
package index
