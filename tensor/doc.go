// Package tensor describes the values of a graph as PyTorch does: dtype, shape, strides and offset over
// shared storage.
//
//   - [DType] is an element type; [Promote], [CanCast] and [Promotion] are PyTorch's type promotion.
//   - [Meta] describes a value in numbers, without data. Kernels and layout planning work on metas.
//   - [Type] is a Meta whose sizes may be symbolic ([sym.Int]). Inference and view functions work on types;
//     [Type.Meta] converts one to numbers.
//   - [Tensor] is a Meta over [Storage], which several tensors may share. [Empty], [FromStorage] and [FromSlice]
//     make tensors; [Pool] recycles the memory of results.
//   - [MemoryFormat] names the layouts of PyTorch, [Order] is any permutation of the dimensions, and
//     [Predicate] is a test of strides such as is_contiguous.
//
// Views (permute, slice, view, as_strided ...) are methods of Type, and Meta has the same methods. Sizes, strides and
// offsets count elements, as in PyTorch. Comments say where a quantity is in bytes.
//
// Metas and types are immutable by convention. A function that returns a meta or type may share the Shape and Strides
// slices of its argument. Callers must therefore not write into these slices.
//
// The rules are PyTorch's. The comment of a function names the function of PyTorch that it follows.
package tensor
