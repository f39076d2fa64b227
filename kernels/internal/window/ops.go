package window

import "github.com/graphrun/graphrun/graph"

// Ops returns the ops of this package.
func Ops() []*graph.Op {
	return []*graph.Op{
		AdaptiveAvgPool2d, AdaptiveMaxPool2d,
		AdaptiveAvgPool3d, AdaptiveMaxPool3d, AdaptiveMaxPool1d,
		AvgPool2d,
		GridSampler, AffineGridGenerator,
		MaxPool2d, MaxPool2dWithIndices,
		MaxUnpool1d, MaxUnpool2d, MaxUnpool3d,
		MaxPool1d, AvgPool1d, AdaptiveAvgPool1d,
		MaxPool3d, MaxPool3dWithIndices, MaxPool1dWithIndices, AvgPool3d, LpPool,
		Resize,
		RoiAlign,
		UpsampleNearest1d, UpsampleNearest3d, UpsampleExact1d, UpsampleExact2d, UpsampleExact3d, UpsampleLinear1d,
		UpsampleBilinear2d, UpsampleTrilinear3d, UpsampleBicubic2d,
		UpsampleNearest2d,
	}
}
