// Package window has the ops that read neighbourhoods of elements of sequences, images and volumes: poolings
// ([MaxPool2d], [AvgPool2d], [AdaptiveAvgPool2d], [LpPool]) and unpooling ([MaxUnpool2d]), interpolation ([Resize],
// [UpsampleNearest2d], [UpsampleBilinear2d]), and sampling ([GridSampler], [RoiAlign]).
//
// # Terms
//
// A window is the range of a dimension that one result reads; a tap is one of its elements, or an element with a weight
// in an interpolation. By pixels, an implementation computes all channels of a position at once, since the channels of
// a channels-last operand are contiguous; by planes, it computes each channel separately.
//
// # Poolings
//
// Each pooling has the implementations pixels and planes, and each of these has up to three kernels:
//
//   - Compiled loops, wherever machine code is available. By pixels, each tap is an operand of a loop over channels;
//     taps outside the operand read a neutral element (pool_compiled_pixels.go). By planes, the rows of a window are
//     folded first and then their columns (pool_compiled_planes.go).
//   - Loops in Go over one or two dimensions (pool.go, pool_ops.go).
//   - Loops in Go over three dimensions, which also support asymmetric padding, dilated averages, integers and indices
//     (pool_volume.go, pool_volume_pixels.go). [volumePool.extend] adds them to the ops over fewer dimensions.
//
// pool_axis.go computes the windows of a dimension for all of them.
//
// # Interpolation
//
// Resize and the upsample ops of aten are separable: each dimension has a list of weighted taps per index
// (resample.go), and a pass per dimension computes weighted sums (resample_pass.go). If every result is a copy of one
// element, a single pass copies. Symbolic sizes are scaled exactly, as quotients of integers (scaled_size.go).
package window
