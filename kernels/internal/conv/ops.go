// Package conv has the convolutions: direct, depthwise and transposed, over lines, images and volumes, and
// deformable ones.
package conv

import "github.com/graphrun/graphrun/graph"

// Ops returns the family's ops, file by file.
func Ops() []*graph.Op {
	return []*graph.Op{
		Conv2d, Conv1d, Conv3d,
		ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
		DeformConv2d,
		ConvBytes,
	}
}
