package conv

import "github.com/graphrun/graphrun/graph"

// Ops returns the ops of this package.
func Ops() []*graph.Op {
	return []*graph.Op{
		Conv2d, Conv1d, Conv3d,
		ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
		DeformConv2d,
		ConvBytes,
	}
}
