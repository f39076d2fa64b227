// Package window has the ops that interpolate ([Resize], [UpsampleNearest2d], [UpsampleBilinear2d]) and sample
// ([GridSampler], [RoiAlign]) sequences, images and volumes.
//
// In an interpolation, a tap is an element with a weight. Resize and the upsample ops of aten are separable. For each
// dimension, each index of the result has a list of weighted taps (resample.go). One pass for each dimension computes
// weighted sums (resample_pass.go). In mode nearest, each element of the result is a copy of one element. A selection
// then copies all dimensions at once (selection.go). Symbolic sizes are scaled exactly, as quotients of integers
// (scaled_size.go). The sampling ops are in grid_sampler.go and roi_align.go.
package window
