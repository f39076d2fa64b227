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
	AcceptEmpty  bool      `attr:"accept_empty" default:"false" doc:"accept sizes of 0, as ONNX does, if the result has no elements"`
}

// The upsample ops of aten. upsample_nearest2d is in upsample_nearest.go.
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
// cubic. Modes linear and cubic resample one spatial dimension after another. Modes nearest and exact copy along all
// dimensions at once (resample.go). upsampleTaps returns the taps.
func upsampleOp(name, doc string, spatialDims int, mode string) *graph.Op {
	checkedSizes := func(c *graph.Call) (outSizes []sym.Int, factors []float64, err error) {
		attrs, inputType := kit.Attrs[*upsampleAttrs](c), c.Type(0)
		outSizes, factors, err = attrs.sizes(inputType.Shape, spatialDims)
		if err == nil {
			err = checkUpsample(name, attrs, inputType, outSizes, mode == "nearest" || mode == "exact")
		}
		return outSizes, factors, err
	}
	resamplingOf := func(c *graph.Call) (*resampling, error) {
		outSizes, factors, err := checkedSizes(c)
		if err != nil {
			return nil, err
		}
		attrs, input := kit.Attrs[*upsampleAttrs](c), c.Meta(0)
		resample := &resampling{taps: make([]*axisTaps, spatialDims+2)}
		for i, outSize := range kit.KnownSizes(outSizes) {
			resample.taps[2+i] = upsampleTaps(mode, input.DType, input.Shape[2+i], outSize, factors[i], attrs.AlignCorners)
		}
		return resample, nil
	}
	layoutDoc := " The result has the memory format that the strides of `input` suggest."
	alwaysRowMajor := spatialDims == 1 || mode == "cubic"
	if alwaysRowMajor {
		layoutDoc = " The result is row-major."
	}
	// By number of spatial dimensions: the shape of the operand, and the spatial sizes of the result, of an example.
	exampleShapes := [][]int{nil, {2, 3, 4}, {1, 2, 3, 4}, {1, 2, 2, 3, 4}}
	exampleSizes := [][]int{nil, {7}, {5, 3}, {3, 5, 3}}
	return kit.Define[*upsampleAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc + layoutDoc, Params: []graph.Param{kit.Input},
			Infer: func(call *graph.Call) ([]graph.Result, error) {
				inputType, format := call.Type(0), tensor.Contiguous
				outSizes, _, err := checkedSizes(call)
				if err != nil {
					return nil, err
				}
				if !alwaysRowMajor {
					format = inputType.SuggestMemoryFormat(false) // false: strides only need to resemble the format
				}
				out, err := kit.FreshTypeInFormat(inputType.DType, kit.ReplaceSizes(inputType.Shape, 2, outSizes...), format)
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

// sizes returns the spatial sizes of the result. For each spatial dimension it also returns the factor outSize/inSize
// that maps indices of the result to the operand. The factor is 0 if the call does not give it.
func (attrs *upsampleAttrs) sizes(shape []sym.Int, spatialDims int) (outSizes []sym.Int, factors []float64, err error) {
	if len(shape) != spatialDims+2 {
		return nil, nil, fmt.Errorf("It is expected input_size equals to %d, but got size %d", spatialDims+2, len(shape))
	}
	givenFactors := []*float64{attrs.ScalesD, attrs.ScalesH, attrs.ScalesW}[3-spatialDims:] // images have no depth
	if spatialDims == 1 && attrs.Scales != nil {
		givenFactors = []*float64{attrs.Scales}
	}
	factors = make([]float64, spatialDims)
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
	outSizes = make([]sym.Int, spatialDims)
	for i, factor := range attrs.ScaleFactors {
		outSizes[i] = ScaledSize(shape[2+i], factor)
	}
	return outSizes, attrs.ScaleFactors, nil
}

// checkUpsample makes PyTorch's checks. copiesElements is set if each result is a copy of one element. An op with this
// property also supports uint8.
func checkUpsample(name string, attrs *upsampleAttrs, self tensor.Type, outSizes []sym.Int, copiesElements bool) error {
	shape := kit.ReplaceSizes(self.Shape, 2, outSizes...)
	isEmpty := attrs.AcceptEmpty && kit.IsEmpty(tensor.Type{Shape: shape}) // there is nothing to interpolate
	for i, size := range outSizes {
		if !isEmpty && !(kit.SizeAtLeast(size, 1) && kit.SizeAtLeast(self.Shape[2+i], 1)) {
			return fmt.Errorf("Input and output sizes should be greater than 0, but got input %s output %s",
				tensor.Sizes(self.Shape[2:]), tensor.Sizes(outSizes))
		}
	}
	if !isEmpty && kit.SizeIs(self.Shape[1], 0) {
		return fmt.Errorf("Non-empty %dD data tensor expected but got a tensor with sizes %s", self.Rank(),
			tensor.Sizes(self.Shape))
	}
	if !self.DType.IsFloat() && !(copiesElements && self.DType == tensor.Uint8) {
		return kit.NotImplementedBy(name, self.DType)
	}
	_, err := kit.FreshType(self.DType, shape)
	return err
}

// upsampleTaps returns the taps of a dimension. inSize and outSize are the sizes of the dimension in operand and
// result. A factor of 0 stands for outSize/inSize.
func upsampleTaps(mode string, dtype tensor.DType, inSize, outSize int, factor float64, alignCorners bool) *axisTaps {
	if mode == "nearest" {
		sourceOf := nearestIndex(dtype, inSize, outSize, factor)
		eachTap := func(i int, add func(int, float64)) { add(sourceOf(i), 1) }
		return &axisTaps{outSize: outSize, maxTaps: 1, isNearest: true, eachTap: eachTap}
	}
	axis := &upsampleAxis{inSize: inSize, alignCorners: alignCorners,
		round: func(number float64) float64 { return float64(float32(number)) }}
	if dtype == tensor.Float64 {
		axis.round = func(number float64) float64 { return number }
	}
	axis.setScale(outSize, factor)
	switch {
	case mode == "exact":
		return &axisTaps{outSize: outSize, maxTaps: 1, isNearest: true, eachTap: axis.exactTap}
	case mode == "linear" && inSize == outSize: // PyTorch ignores the factor
		return &axisTaps{outSize: outSize, maxTaps: 2, eachTap: func(i int, add func(int, float64)) { add(i, 1) }}
	case mode == "linear":
		return &axisTaps{outSize: outSize, maxTaps: 2, eachTap: axis.linearTaps}
	}
	return &axisTaps{outSize: outSize, maxTaps: 4, eachTap: axis.cubicTaps}
}

// upsampleAxis computes the taps of a dimension. As in aten's UpSample.h, each operation is rounded to float32, or to
// float64 for float64 images.
type upsampleAxis struct {
	inSize       int
	scale        float64 // distance in the operand between the positions of neighbouring results
	alignCorners bool
	round        func(number float64) float64 // rounds to the dtype of the arithmetic
}

// setScale sets the field scale. The factor is 0 if the call does not give it.
func (a *upsampleAxis) setScale(outSize int, factor float64) {
	switch {
	case a.alignCorners && outSize > 1: // the factor is ignored
		a.scale = a.round(float64(a.inSize-1) / float64(outSize-1))
	case a.alignCorners:
		a.scale = 0
	case factor > 0:
		a.scale = a.round(1 / factor)
	default:
		a.scale = a.round(float64(a.inSize) / float64(outSize))
	}
}

// position maps index i of the result to a fractional index in the operand.
func (a *upsampleAxis) position(i int) float64 {
	if a.alignCorners {
		return a.round(float64(i) * a.scale)
	}
	return a.round(a.round(a.round(float64(i)+0.5)*a.scale) - 0.5)
}

// exactTap implements [axisTaps.eachTap] for mode exact: the tap is the element with the nearest centre.
func (a *upsampleAxis) exactTap(i int, add func(int, float64)) {
	add(clampIndex(math.Floor(a.round(a.round(float64(i)+0.5)*a.scale)), a.inSize), 1)
}

// linearTaps implements [axisTaps.eachTap] for linear interpolation.
func (a *upsampleAxis) linearTaps(i int, add func(int, float64)) {
	position := max(a.position(i), 0)
	source := clampIndex(position, a.inSize)
	weight := min(max(a.round(position-float64(source)), 0), 1)
	add(source, 1-weight)
	add(min(source+1, a.inSize-1), weight)
}

// cubicTaps implements [axisTaps.eachTap] for cubic interpolation.
func (a *upsampleAxis) cubicTaps(i int, add func(int, float64)) {
	position := a.position(i)
	positionFloor := math.Floor(position)
	// If a position is more than 4 elements outside the image, all taps are at the edge. Such positions are moved
	// closer, so that the conversion to int is valid.
	source := clampIndex(positionFloor+4, a.inSize+8) - 4
	for tap, weight := range cubicWeights(position-positionFloor, torchCubicCoefficient) {
		add(min(max(source-1+tap, 0), a.inSize-1), weight)
	}
}
