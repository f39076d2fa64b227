// Package tensor says what a value is: a dtype, a shape, strides and an offset over
// storage, and the memory formats that strides can express.
//
// [Meta] describes a value without data; layout propagation runs on metas alone. [Type] is the
// same with sizes that may be unknown, and [Order] a layout as planners choose it.
// [Tensor] is a Meta over [Storage]. Strides and offsets count elements, as in PyTorch;
// sizes count elements too, bytes are always named as such.
//
// Metas are immutable by convention: every function that returns a Meta may share the
// Shape and Strides slices of its argument, so nobody may write into them.
//
// The rules are PyTorch's. Where a function follows one of PyTorch's, its comment names it.
package tensor
