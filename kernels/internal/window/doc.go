// Package window has the ops that read neighbourhoods of elements of sequences, images and volumes: poolings
// ([MaxPool2d], [AvgPool2d], [AdaptiveAvgPool2d], [LpPool]) and unpooling ([MaxUnpool2d]), interpolation ([Resize],
// [UpsampleNearest2d], [UpsampleBilinear2d]), and sampling ([GridSampler], [RoiAlign]).
//
// # Terms
//
// Package geometry defines windows and taps. In an interpolation, a tap is an element with a weight. An implementation
// by pixels is for channels-last operands: it computes all channels of a position at once. An implementation by planes
// computes each channel separately.
//
// # Poolings
//
// A [pooling] describes an op: the number of pooled dimensions, the reduction, and the computation of windows from
// attributes. Inference (pool_infer.go), the reference (pool_reference.go) and costs (pool_impls.go) use the pooling's
// list of axes. A [pool] adds the sizes and layouts of a call. A pool always has three spatial dimensions; missing
// leading dimensions have size 1. Three kernels compute a pool:
//
//   - Compiled loops by pixels: each tap is an operand of a loop over channels, and taps outside the operand read a
//     neutral element (pool_compiled_pixels.go).
//   - Compiled loops by planes: the rows of a window are folded first and then their columns
//     (pool_compiled_planes.go).
//   - Loops in Go for all other calls: sums of powers, large or irregular windows, indices by planes, and strided
//     operands (pool_go.go, pool_go_folds.go).
//
// # Interpolation
//
// Resize and the upsample ops of aten are separable: each dimension has a list of weighted taps per index
// (resample.go), and one pass for each dimension computes weighted sums (resample_pass.go). If every result is a copy
// of one element, a single pass copies all dimensions at once. Symbolic sizes are scaled exactly, as quotients of
// integers (scaled_size.go).
package window
