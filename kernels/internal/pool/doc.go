// Package pool has the poolings of sequences, images and volumes ([MaxPool2d], [AvgPool2d], [AdaptiveAvgPool2d],
// [LpPool]) and unpooling ([MaxUnpool2d]).
//
// A window is the elements that a result is computed from, and a tap is one of these elements (package geometry). An
// implementation by pixels is for channels-last operands: it computes all channels of a position at once. An
// implementation by planes computes each channel separately. To fold elements is to reduce them to one value.
//
// A [pooling] describes an op: the number of pooled dimensions, the reduction, and the computation of windows from
// attributes. Inference (infer.go), the reference (reference.go) and costs (impls.go) use the pooling's list of axes. A
// [poolCall] adds the sizes and layouts of a call. It always has three spatial dimensions; missing leading dimensions
// have size 1. Three kernels compute a call:
//
//   - Compiled loops by pixels: each tap is an operand of a loop over channels, and taps outside the operand read a
//     neutral element (compiled_pixels.go).
//   - Compiled loops by planes: the rows of a window are folded into one row, and then the elements of this row are
//     folded (compiled_planes.go).
//   - Loops in Go for all other calls: sums of powers, large or irregular windows, max poolings by planes that return
//     indices, and strided operands (go_loops.go, go_folds.go).
package pool
