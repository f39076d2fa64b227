// Package conv has the convolutions of sequences, images and volumes ([Conv1d], [Conv2d], [Conv3d]), transposed
// convolutions ([ConvTranspose2d]), deformable convolutions ([DeformConv2d]), and convolutions of quantized images
// ([ConvBytes]).
//
// # Geometry
//
// All convolutions describe their windows by the type window (window.go). A window has three axes of package geometry:
// depth, height and width. An image is a volume with one plane, and a sequence is an image with one row. A convShape
// adds channels, groups, strides, the bias and the fused epilogue (shape.go). Costs, packed weights (weight.go) and
// kernels are computed from the convShape. A transposed convolution is the gradient of a convolution and has the
// geometry of that convolution.
//
// # Terms
//
//   - tap: an element of the window
//   - term: the product of an element of the input and a weight; a result is the sum of its terms, one for each tap and
//     input channel
//   - pixel: a position of an image; in a channels-last image, the channels of a pixel are contiguous
//   - plane: a channel of a row-major image; in a volume or its window, also the elements at one depth
//   - by pixels, by planes: an implementation works on channels-last images, or on row-major images
//   - block: a group of output channels that are computed together
//   - panel: the part of the weight for one block or one vector of output channels, packed in the order in which the
//     machine code reads it; a constant weight is packed when the graph is planned
//   - tile: the set of results that the registers hold at once
//   - strip: a sequence of tiles in one block
//   - chunk: the unit of parallel work, which consists of strips
//   - requantization: an int32 sum is scaled and rounded, a zero point is added, and the result is saturated to a byte
//
// # Names
//
// In loops and parameters, kd, kh and kw are the plane, row and column of a tap in the window; od, oh and ow are the
// plane, row and column of a pixel in the result; ih and iw are the row and column of a pixel in the input. In shapes,
// n is the number of images, c the number of channels, and o an output channel.
//
// # Implementations
//
// The planner chooses by cost among the implementations whose layouts fit (impls.go):
//
//   - nhwc and nchw multiply matrices, the weight and the windows of the image. The windows are gathered when the
//     operand is packed (implicit im2col). Both implementations support all dtypes and any groups.
//   - direct_nhwc and direct_planes read pixels in place, by machine code generated for the window (direct*.go,
//     internal/jit/tile). Taps outside the image are skipped, not multiplied by zeros. Sums of many terms are computed
//     as several partial sums, which bounds the rounding error. If groups have few channels, direct_nhwc uses the code
//     of depthwise_nhwc, and a vector holds the channels of several groups (depthwise_groups.go).
//   - depthwise_nhwc and depthwise_planes compute groups of one input channel. By pixels, tiles of results stay in
//     registers, and a vector holds channels (depthwise_pixels.go, internal/jit/depthwise). By planes, the input of a
//     tile is copied with padding. Machine code of package internal/loops then computes a row of results: the sum, over
//     all taps, of the tap's weight times a row of the copy (depthwise_planes.go). Without machine code, both use loops
//     in Go (depthwise_go.go).
//   - winograd2 and winograd4 are Winograd's F(2x2,3x3) and F(4x4,3x3), for 3x3 windows with stride 1 and a constant
//     weight (winograd*.go, internal/jit/winograd). Their results round differently, with errors below 1e-5 of the
//     largest result, so exact plans exclude them. The transform points 0, +-3/4, +-3/2 and infinity are used, because
//     the usual points 0, +-1 and +-2 have three times the error.
//
// Convolutions of volumes have four implementations: the matrix product by planes (named planes), both direct
// implementations (direct_ndhwc, direct_ncdhw), and taps. The implementation taps is for groups of one input channel.
// It adds the products of all taps as depthwise_planes does, with a padded copy of a whole channel
// (depthwise_volumes.go). Transposed convolutions multiply the weight by the input and sum the overlapping windows
// (spread), or are divided into ordinary convolutions with stride 1, which both direct implementations compute
// (transpose_direct.go). Deformable convolutions sample the windows into columns and multiply the weight by the
// columns.
//
// If the network has 16-bit floats, panels of large weights have them, too, and register tiles convert them to float32.
// Small weights, the weights of depthwise calls, the A of products by planes, and weights transformed for Winograd's
// convolution are float32.
//
// Convolutions of bytes multiply four channels at a time by a dot-product instruction, or two channels as 16-bit words
// on processors without this instruction. On a processor with a matrix unit, the direct implementation uses the unit.
// Sums are exact int32, so all these implementations give the same bits. The packed weight contains the sum of each
// output channel's weights, because the product of this sum and the input's zero point is subtracted from each result
// (bytes_weight.go).
package conv
