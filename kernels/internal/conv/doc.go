// Package conv has the convolutions: of sequences, images and volumes ([Conv1d], [Conv2d], [Conv3d]), transposed ones
// ([ConvTranspose2d]), deformable ones ([DeformConv2d]), and convolutions of quantized images ([ConvBytes]).
//
// # Terms
//
// A tap is an element of the window. Pixels are the elements of a channels-last image, whose channels are contiguous;
// planes are the channels of a row-major one. "By pixels" and "by planes" say in which of the two layouts an
// implementation works. A panel is a part of the weight, packed for a vector or a block of output channels; a constant
// weight is packed when the graph is planned. A tile is the set of results that the registers hold at once. A strip is
// a sequence of tiles; it is the smallest piece of work of a chunk.
//
// # Implementations
//
// The planner chooses by price among the implementations whose layouts fit (impls.go):
//
//   - nhwc and nchw multiply matrices, the weight and the windows of the image (implicit im2col: windows are gathered
//     when the operand is packed). They support all dtypes and any groups.
//   - direct_nhwc and direct_planes read pixels in place, by machine code generated for the window (direct*.go,
//     internal/jit/tile). Taps outside the image are skipped, not multiplied by zeros. Sums of many terms are divided
//     into blocks, which bounds the rounding error. For groups of few channels, direct_nhwc uses depthwise windows
//     whose vectors hold several groups (depthwise_groups.go).
//   - depthwise_nhwc and depthwise_planes serve groups of one input channel. By pixels, tiles of results stay in
//     registers and vectors hold channels (depthwise_pixels.go, internal/jit/depthwise). By planes, compiled loops add
//     one stream per tap over padded copies of tiles (depthwise_planes.go). Loops in Go do both where no machine code
//     is available (depthwise_go.go).
//   - winograd2 and winograd4 are Winograd's F(2x2,3x3) and F(4x4,3x3), for 3x3 windows with stride 1 and a constant
//     weight (winograd*.go, internal/jit/winograd). Their results round differently, with errors below 1e-5 of the
//     largest result, so exact plans exclude them. The transform points 0, +-3/4, +-3/2 and infinity have a third of
//     the error of 0, +-1 and +-2.
//
// Volumes have the same kinds: planes (products), direct_ndhwc and direct_ncdhw, and taps (depthwise). Transposed
// convolutions multiply the weight by the input and sum the overlapping windows. Deformable convolutions sample the
// windows into columns and multiply.
//
// Convolutions of bytes multiply four channels at a time by a dot-product instruction, or two channels as 16-bit words
// where there is none. On a processor with a matrix unit, the direct implementation uses it. Sums are exact int32, so
// all of these give the same bits.
package conv
