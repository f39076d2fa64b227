package window

import (
	"errors"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type upsampleAttrs struct {
	OutputSize   []sym.Int `attr:"output_size" default:"none" doc:"sizes of the spatial dimensions of the result"`
	AlignCorners bool      `attr:"align_corners" default:"false" doc:"align the centres of the first and last elements, not their edges"`
	ScaleFactors []float64 `attr:"scale_factors" default:"none" doc:"factors of the spatial dimensions, if output_size is not given"`
	ScalesD      *float64  `attr:"scales_d" default:"none" doc:"factor that maps depths; default: the quotient of the sizes"`
	ScalesH      *float64  `attr:"scales_h" default:"none" doc:"factor that maps rows; default: the quotient of the sizes"`
	ScalesW      *float64  `attr:"scales_w" default:"none" doc:"factor that maps columns; default: the quotient of the sizes"`
	Scales       *float64  `attr:"scales" default:"none" doc:"factor that maps the only spatial dimension; default: the quotient of the sizes"`
}

// The upsample ops of aten, except upsample_nearest2d.
var (
	UpsampleNearest1d = upsampleOp("upsample_nearest1d", "Resizes signals [N,C,W] by taking the nearest element.",
		1, "nearest")
	UpsampleNearest3d = upsampleOp("upsample_nearest3d", "Resizes volumes [N,C,D,H,W] by taking the nearest element.",
		3, "nearest")
	UpsampleExact1d = upsampleOp("_upsample_nearest_exact1d", "Resizes signals [N,C,W] by taking the element whose "+
		"centre is nearest.", 1, "exact")
	UpsampleExact2d = upsampleOp("_upsample_nearest_exact2d", "Resizes images [N,C,H,W] by taking the pixel whose "+
		"centre is nearest.", 2, "exact")
	UpsampleExact3d = upsampleOp("_upsample_nearest_exact3d", "Resizes volumes [N,C,D,H,W] by taking the element "+
		"whose centre is nearest.", 3, "exact")
	UpsampleLinear1d   = upsampleOp("upsample_linear1d", "Resizes signals [N,C,W] by linear interpolation.", 1, "linear")
	UpsampleBilinear2d = upsampleOp("upsample_bilinear2d", "Resizes images [N,C,H,W] by linear interpolation.",
		2, "linear")
	UpsampleTrilinear3d = upsampleOp("upsample_trilinear3d", "Resizes volumes [N,C,D,H,W] by linear interpolation.",
		3, "linear")
	UpsampleBicubic2d = upsampleOp("upsample_bicubic2d", "Resizes images [N,C,H,W] by cubic interpolation.", 2, "cubic")
)

// upsampleOp defines an op over images with the given number of spatial dimensions. mode is nearest, exact, linear or
// cubic.
func upsampleOp(name, doc string, spatialDims int, mode string) *graph.Op {
	sizes := func(c *graph.Call) ([]sym.Int, []float64, error) {
		inputType := c.Type(0)
		size, factors, err := kit.Attrs[*upsampleAttrs](c).sizes(inputType.Shape, spatialDims)
		if err == nil {
			err = checkUpsample(name, inputType, size, mode == "nearest" || mode == "exact")
		}
		return size, factors, err
	}
	resamplingOf := func(c *graph.Call) (*resampling, error) {
		size, factors, err := sizes(c)
		if err != nil {
			return nil, err
		}
		attrs, input := kit.Attrs[*upsampleAttrs](c), c.Meta(0)
		resample := &resampling{taps: make([]*axisTaps, spatialDims+2)}
		for i, outSize := range kit.KnownSizes(size) {
			resample.taps[2+i] = upsampleTaps(mode, input.DType, input.Shape[2+i], outSize, factors[i], attrs.AlignCorners)
		}
		return resample, nil
	}
	layoutDoc := " The result has the memory format that the strides of `input` suggest."
	isRowMajor := spatialDims == 1 || mode == "cubic"
	if isRowMajor {
		layoutDoc = " The result is row-major."
	}
	// Shapes of the operand, and spatial sizes of the result, of an example, by number of spatial dimensions.
	exampleShapes := [][]int{nil, {2, 3, 4}, {1, 2, 3, 4}, {1, 2, 2, 3, 4}}
	exampleSizes := [][]int{nil, {7}, {5, 3}, {3, 5, 3}}
	return kit.Define[*upsampleAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc + layoutDoc, Params: []graph.Param{kit.Input},
			Infer: func(call *graph.Call) ([]graph.Result, error) {
				inputType, format := call.Type(0), tensor.Contiguous
				size, _, err := sizes(call)
				if err != nil {
					return nil, err
				}
				if !isRowMajor {
					format = inputType.SuggestMemoryFormat(false)
				}
				out, err := kit.FreshTypeInFormat(inputType.DType, kit.ReplaceSizes(inputType.Shape, 2, size...), format)
				return call.NewResult(out), err
			},
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				resample, err := resamplingOf(c)
				if err != nil {
					return nil, err
				}
				return []*tensor.Tensor{resample.reference(in[0])}, nil
			},
			Examples: kit.OneExample(kit.F32(exampleShapes[spatialDims]...),
				graph.Attrs{"output_size": exampleSizes[spatialDims]}),
		},
		Facts: graph.Facts{Parallel: kit.LoopsExceptLast(spatialDims), WritesAnyDenseLayout: true,
			ImageRole: graph.ImageOp},
		Lowerings: graph.Lowerings{Impls: resampleImpls(resamplingOf)},
	})
}

// sizes returns the spatial sizes of the result and the factors out/in that map its indices to the operand. A factor
// that is not given is 0.
func (attrs *upsampleAttrs) sizes(shape []sym.Int, spatialDims int) ([]sym.Int, []float64, error) {
	if len(shape) != spatialDims+2 {
		return nil, nil, fmt.Errorf("It is expected input_size equals to %d, but got size %d", spatialDims+2, len(shape))
	}
	givenFactors := []*float64{attrs.ScalesD, attrs.ScalesH, attrs.ScalesW}[3-spatialDims:]
	if spatialDims == 1 && attrs.Scales != nil {
		givenFactors = []*float64{attrs.Scales}
	}
	factors := make([]float64, spatialDims)
	for i, factor := range givenFactors {
		if factor != nil {
			factors[i] = *factor
		}
	}
	if (attrs.OutputSize != nil) == (attrs.ScaleFactors != nil) {
		return nil, nil, errors.New("Must specify exactly one of output_size and scale_factors")
	}
	if attrs.OutputSize != nil {
		if len(attrs.OutputSize) != spatialDims {
			return nil, nil, fmt.Errorf("It is expected output_size equals to %d, but got size %d",
				spatialDims, len(attrs.OutputSize))
		}
		return attrs.OutputSize, factors, nil
	}
	if len(attrs.ScaleFactors) != spatialDims {
		return nil, nil, fmt.Errorf("Expected scale_factors of length %d, but got %d", spatialDims, len(attrs.ScaleFactors))
	}
	sizes := make([]sym.Int, spatialDims)
	for i, factor := range attrs.ScaleFactors {
		sizes[i] = ScaledSize(shape[2+i], factor)
	}
	return sizes, attrs.ScaleFactors, nil
}

// checkUpsample makes PyTorch's checks. copiesElements is set if each result is a copy of one element. An op with this
// property also supports uint8.
func checkUpsample(name string, self tensor.Type, sizes []sym.Int, copiesElements bool) error {
	for i, size := range sizes {
		if !kit.SizeAtLeast(size, 1) || !kit.SizeAtLeast(self.Shape[2+i], 1) {
			return fmt.Errorf("Input and output sizes should be greater than 0, but got input %s output %s",
				tensor.Sizes(self.Shape[2:]), tensor.Sizes(sizes))
		}
	}
	if kit.SizeIs(self.Shape[1], 0) {
		return fmt.Errorf("Non-empty %dD data tensor expected but got a tensor with sizes %s", self.Rank(),
			tensor.Sizes(self.Shape))
	}
	if !self.DType.IsFloat() && !(copiesElements && self.DType == tensor.Uint8) {
		return kit.NotImplementedBy(name, self.DType)
	}
	_, err := kit.FreshType(self.DType, kit.ReplaceSizes(self.Shape, 2, sizes...))
	return err
}

// upsampleTaps returns the taps of a dimension: for each index of the result, elements with weights. inSize and outSize
// are the sizes of operand and result. A factor of 0 stands for outSize/inSize. The arithmetic follows aten's
// UpSample.h: each operation is rounded to float32, or to float64 for float64 images.
func upsampleTaps(mode string, dtype tensor.DType, inSize, outSize int, factor float64, alignCorners bool) *axisTaps {
	round := func(position float64) float64 { return float64(float32(position)) } // to the dtype of the arithmetic
	if dtype == tensor.Float64 {
		round = func(position float64) float64 { return position }
	}
	if mode == "nearest" {
		sourceOf := nearestIndex(dtype, inSize, outSize, factor)
		eachTap := func(i int, add func(int, float64)) { add(sourceOf(i), 1) }
		return &axisTaps{outSize: outSize, maxTaps: 1, isNearest: true, eachTap: eachTap}
	}
	scale := round(float64(inSize) / float64(outSize)) // distance in the operand between neighbouring results
	if factor > 0 {
		scale = round(1 / factor)
	}
	if alignCorners {
		scale = 0
		if outSize > 1 {
			scale = round(float64(inSize-1) / float64(outSize-1))
		}
	}
	maxTaps := map[string]int{"exact": 1, "linear": 2, "cubic": 4}[mode]
	return &axisTaps{outSize: outSize, maxTaps: maxTaps, isNearest: mode == "exact",
		eachTap: func(i int, add func(int, float64)) {
			if mode == "linear" && inSize == outSize { // PyTorch ignores the factor
				add(i, 1)
				return
			}
			if mode == "exact" {
				add(clampIndex(math.Floor(round(round(float64(i)+0.5)*scale)), inSize), 1)
				return
			}
			position := round(float64(i) * scale)
			if !alignCorners {
				position = round(round(round(float64(i)+0.5)*scale) - 0.5)
			}
			if mode == "linear" {
				position = max(position, 0)
				source := clampIndex(position, inSize)
				weight := min(max(round(position-float64(source)), 0), 1)
				add(source, 1-weight)
				add(min(source+1, inSize-1), weight)
				return
			}
			floor := math.Floor(position)
			// All taps of a position more than 4 elements outside the image are at the edge, so clamping it changes nothing.
			base := clampIndex(floor+4, inSize+8) - 4
			for tap, weight := range cubicWeights(position-floor, torchCubicCoefficient) {
				add(min(max(base-1+tap, 0), inSize-1), weight)
			}
		}}
}
