// Package pool has the poolings of sequences, images and volumes ([MaxPool2d], [AvgPool2d], [AdaptiveAvgPool2d],
// [LpPool]) and unpooling ([MaxUnpool2d]).
//
// Package geometry defines windows and taps. An implementation by pixels is for channels-last operands: it computes all
// channels of a position at once. An implementation by planes computes each channel separately.
//
// A [pooling] describes an op: the number of pooled dimensions, the reduction, and the computation of windows from
// attributes. Inference (infer.go), the reference (reference.go) and costs (impls.go) use the pooling's list of axes. A
// [pool] adds the sizes and layouts of a call. A pool always has three spatial dimensions; missing leading dimensions
// have size 1. Three kernels compute a pool:
//
//   - Compiled loops by pixels: each tap is an operand of a loop over channels, and taps outside the operand read a
//     neutral element (compiled_pixels.go).
//   - Compiled loops by planes: the rows of a window are folded first and then their columns (compiled_planes.go).
//   - Loops in Go for all other calls: sums of powers, large or irregular windows, indices by planes, and strided
//     operands (go_loops.go, go_folds.go).
package pool
