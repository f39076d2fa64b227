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
func upsampleOp(name, doc string, spatial int, mode string) *graph.Op {
	sizes := func(c *graph.Call) ([]sym.Int, []float64, error) {
		t := c.Type(0)
		size, factors, err := kit.Attrs[upsampleAttrs](c).sizes(t.Shape, spatial)
		if err == nil {
			err = checkUpsample(name, t, size, mode == "nearest" || mode == "exact")
		}
		return size, factors, err
	}
	describe := func(c *graph.Call) (*resampling, error) {
		size, factors, err := sizes(c)
		if err != nil {
			return nil, err
		}
		attrs, m := kit.Attrs[upsampleAttrs](c), c.Meta(0)
		r := &resampling{taps: make([]*axisTaps, spatial+2)}
		for i, n := range kit.KnownSizes(size) {
			r.taps[2+i] = upsampleTaps(mode, m.DType, m.Shape[2+i], n, factors[i], attrs.AlignCorners)
		}
		return r, nil
	}
	layoutDoc := " The result has the memory format that the strides of `input` suggest."
	isRowMajor := spatial == 1 || mode == "cubic"
	if isRowMajor {
		layoutDoc = " The result is row-major."
	}
	// Shapes of the operand, and spatial sizes of the result, of an example, by number of spatial dimensions.
	exampleShapes := [][]int{nil, {2, 3, 4}, {1, 2, 3, 4}, {1, 2, 2, 3, 4}}
	exampleSizes := [][]int{nil, {7}, {5, 3}, {3, 5, 3}}
	return kit.Define[upsampleAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc + layoutDoc, Params: []graph.Param{kit.Input},
			Infer: func(call *graph.Call) ([]graph.Result, error) {
				t, format := call.Type(0), tensor.Contiguous
				size, _, err := sizes(call)
				if err != nil {
					return nil, err
				}
				if !isRowMajor {
					format = t.SuggestMemoryFormat(false)
				}
				out, err := kit.FreshTypeInFormat(t.DType, kit.ReplaceSizes(t.Shape, 2, size...), format)
				return call.NewResult(out), err
			},
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				r, err := describe(c)
				if err != nil {
					return nil, err
				}
				return []*tensor.Tensor{r.reference(in[0])}, nil
			},
			Examples: kit.OneExample(kit.F32(exampleShapes[spatial]...),
				graph.Attrs{"output_size": exampleSizes[spatial]}),
		},
		Facts:     graph.Facts{Parallel: kit.LoopsExceptLast(spatial), WritesAnyDenseLayout: true, ImageRole: graph.ImageOp},
		Lowerings: graph.Lowerings{Impls: resampleImpls(describe)},
	})
}

// sizes returns the spatial sizes of the result and the factors out/in that map its indices to the operand. A factor
// that is not given is 0.
func (a *upsampleAttrs) sizes(shape []sym.Int, spatial int) ([]sym.Int, []float64, error) {
	if len(shape) != spatial+2 {
		return nil, nil, fmt.Errorf("It is expected input_size equals to %d, but got size %d", spatial+2, len(shape))
	}
	given := []*float64{a.ScalesD, a.ScalesH, a.ScalesW}[3-spatial:]
	if spatial == 1 && a.Scales != nil {
		given = []*float64{a.Scales}
	}
	factors := make([]float64, spatial)
	for i, f := range given {
		if f != nil {
			factors[i] = *f
		}
	}
	if (a.OutputSize != nil) == (a.ScaleFactors != nil) {
		return nil, nil, errors.New("Must specify exactly one of output_size and scale_factors")
	}
	if a.OutputSize != nil {
		if len(a.OutputSize) != spatial {
			return nil, nil, fmt.Errorf("It is expected output_size equals to %d, but got size %d", spatial, len(a.OutputSize))
		}
		return a.OutputSize, factors, nil
	}
	if len(a.ScaleFactors) != spatial {
		return nil, nil, fmt.Errorf("Expected scale_factors of length %d, but got %d", spatial, len(a.ScaleFactors))
	}
	size := make([]sym.Int, spatial)
	for i, f := range a.ScaleFactors {
		size[i] = ScaledSize(shape[2+i], f)
	}
	return size, a.ScaleFactors, nil
}

// checkUpsample makes PyTorch's checks. copiesElements is set if each result is a copy of one element. An op with this
// property also supports uint8.
func checkUpsample(name string, self tensor.Type, size []sym.Int, copiesElements bool) error {
	for i, n := range size {
		if !kit.SizeAtLeast(n, 1) || !kit.SizeAtLeast(self.Shape[2+i], 1) {
			return fmt.Errorf("Input and output sizes should be greater than 0, but got input %s output %s",
				tensor.Sizes(self.Shape[2:]), tensor.Sizes(size))
		}
	}
	if kit.SizeIs(self.Shape[1], 0) {
		return fmt.Errorf("Non-empty %dD data tensor expected but got a tensor with sizes %s", self.Rank(),
			tensor.Sizes(self.Shape))
	}
	if !self.DType.IsFloat() && !(copiesElements && self.DType == tensor.Uint8) {
		return kit.NotImplementedBy(name, self.DType)
	}
	_, err := kit.FreshType(self.DType, kit.ReplaceSizes(self.Shape, 2, size...))
	return err
}

// upsampleTaps returns the taps of a dimension: for each index of the result, elements with weights. in and out are the
// sizes of operand and result. A factor of 0 stands for out/in. The arithmetic follows aten's UpSample.h: each
// operation is rounded to float32, or to float64 for float64 images.
func upsampleTaps(mode string, dtype tensor.DType, in, out int, factor float64, alignCorners bool) *axisTaps {
	round := func(x float64) float64 { return float64(float32(x)) } // to the dtype of the arithmetic
	if dtype == tensor.Float64 {
		round = func(x float64) float64 { return x }
	}
	if mode == "nearest" {
		sourceOf := nearestIndex(dtype, in, out, factor)
		eachTap := func(i int, add func(int, float64)) { add(sourceOf(i), 1) }
		return &axisTaps{out: out, maxTaps: 1, isNearest: true, eachTap: eachTap}
	}
	scale := round(float64(in) / float64(out)) // distance in the operand between neighbouring results
	if factor > 0 {
		scale = round(1 / factor)
	}
	if alignCorners {
		scale = 0
		if out > 1 {
			scale = round(float64(in-1) / float64(out-1))
		}
	}
	maxTaps := map[string]int{"exact": 1, "linear": 2, "cubic": 4}[mode]
	return &axisTaps{out: out, maxTaps: maxTaps, isNearest: mode == "exact", eachTap: func(i int, add func(int, float64)) {
		if mode == "linear" && in == out { // PyTorch ignores the factor
			add(i, 1)
			return
		}
		if mode == "exact" {
			add(clampIndex(math.Floor(round(round(float64(i)+0.5)*scale)), in), 1)
			return
		}
		x := round(float64(i) * scale)
		if !alignCorners {
			x = round(round(round(float64(i)+0.5)*scale) - 0.5)
		}
		if mode == "linear" {
			x = max(x, 0)
			source := clampIndex(x, in)
			weight := min(max(round(x-float64(source)), 0), 1)
			add(source, 1-weight)
			add(min(source+1, in-1), weight)
			return
		}
		floor := math.Floor(x)
		// All taps of a position more than 4 elements outside the image are at the edge, so clamping it changes nothing.
		base := clampIndex(floor+4, in+8) - 4
		for k, w := range cubicWeights(x-floor, torchCubicCoefficient) {
			add(min(max(base-1+k, 0), in-1), w)
		}
	}}
}
