// Package winograd makes the machine code of the transforms of Winograd's convolutions F(m x m, 3 x 3) of float32: of
// tiles of m+2 by m+2 pixels into as many points, and of points into m by m pixels. Elements are channels, which lie
// together, a vector at a time; strides are told when the code is called, so that convolutions of all sizes share it.
//
// A transform of one row is a few sums (form.go). Those of the columns of a tile and then of its rows are joined into
// one straight line of operations (block.go), in which pixels beside the image are zeros that cost nothing and results
// that nobody wants are not computed. Registers are given out along it (alloc.go), and loops over channels and tiles
// are put around (emit.go).
package winograd
