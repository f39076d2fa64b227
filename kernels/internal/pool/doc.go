// Package pool has the poolings of sequences, images and volumes ([MaxPool2d], [AvgPool2d], [AdaptiveAvgPool2d],
// [LpPool]) and unpooling ([MaxUnpool2d]).
//
// A window is the set of elements that one result is computed from. A tap is an element of a window (package geometry).
// To fold elements is to reduce them to one value. A plane has all elements of one channel in one batch element: a
// sequence, an image or a volume. A pixel has the channels of one position. A pooling by pixels reads channels-last
// operands and computes all channels of a position at once. A pooling by planes computes each channel separately.
//
// A [pooling] describes an op: the number of pooled dimensions, the reduction, and the computation of windows from
// attributes. Inference (infer.go), the reference (reference.go) and costs (impls.go) use a pooling. A [sizedPooling]
// adds the sizes and layouts of a call. It always has three spatial dimensions. Missing leading dimensions have size 1.
// There are five kinds of kernels:
//
//   - Compiled loops by pixels: each tap is an operand of a loop over channels, and taps outside the operand read a
//     neutral element (compiled_pixels.go).
//   - Compiled loops by planes: the rows of a window are folded into one row, and then the elements of this row are
//     folded (compiled_planes.go).
//   - Compiled loops by planes for maxima over distant or large windows: rows are copied such that a tap of
//     neighbouring windows is contiguous (compiled_spaced.go).
//   - Loops in Go for adaptive averages of rows by planes (go_rows.go).
//   - Loops in Go for all other calls: sums of powers, averages over distant, large or irregular windows, max poolings
//     by planes that return indices, and strided operands (go_loops.go, go_folds.go).
package pool
