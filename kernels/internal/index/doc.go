// Package index has the ops that select or write elements by indices, masks and order: gathers ([Gather],
// [IndexSelect], [Embedding], [Index], [GatherND]), scatters ([Scatter], [ScatterND], [IndexAdd]), masks ([MaskedFill],
// [Nonzero], [Compress]), sorting ([Sort], [Topk]), sets ([Unique]) and non-maximum suppression ([Nms]).
//
// Gathers and scatters share one mechanism, the indexed walk (walk.go). It visits the elements of a plain operand by
// strides, and the elements of a table at positions that lookups read from index operands. A gather reads the table. A
// scatter writes the table, and may combine elements by a reduction (combine.go). Elements that may have the same
// position are visited in order by one worker, so results are deterministic. Indices are checked in the run.
//
// Ops whose result shape depends on data are eager (eager.go): their kernels run when the operands are known, and
// inference returns an outline with the known sizes. The bounds on indices (params.go) let tests and tools generate
// valid operands.
package index
