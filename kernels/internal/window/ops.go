package window

import "github.com/graphrun/graphrun/graph"

// Ops returns the ops of this package.
func Ops() []*graph.Op {
	return []*graph.Op{
		GridSampler, AffineGridGenerator,
		Resize,
		RoiAlign,
		UpsampleNearest1d, UpsampleNearest3d, UpsampleExact1d, UpsampleExact2d, UpsampleExact3d, UpsampleLinear1d,
		UpsampleBilinear2d, UpsampleTrilinear3d, UpsampleBicubic2d,
		UpsampleNearest2d,
	}
}
