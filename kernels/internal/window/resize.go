package window

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type resizeAttrs struct {
	Sizes          []sym.Int `attr:"sizes" default:"none" doc:"sizes of the result along axes; either these or scales"`
	Scales         []float64 `attr:"scales" default:"none" doc:"factors along axes, rounded to float32 as in ONNX"`
	Axes           []int     `attr:"axes" default:"none" doc:"dimensions to which sizes, scales and roi refer; default: all"`
	Roi            []float64 `attr:"roi" default:"none" doc:"for tf_crop_and_resize: starts, then ends, as fractions"`
	Mode           string    `attr:"mode" default:"nearest" oneof:"nearest|linear|cubic" doc:"interpolation method"`
	Coordinates    string    `attr:"coordinate_transformation_mode" default:"half_pixel" oneof:"half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|asymmetric|tf_crop_and_resize|tf_half_pixel_for_nn" doc:"mapping from indices of the result to positions in the input"`
	NearestMode    string    `attr:"nearest_mode" default:"round_prefer_floor" oneof:"round_prefer_floor|round_prefer_ceil|floor|ceil|simple" doc:"rounding of positions for mode nearest; simple: ceil for factors below 1, else floor"`
	CubicCoeffA    float64   `attr:"cubic_coeff_a" default:"-0.75" doc:"the coefficient a of cubic interpolation"`
	ExcludeOutside bool      `attr:"exclude_outside" default:"false" doc:"ignore elements outside the input instead of repeating the edge"`
	Extrapolation  float64   `attr:"extrapolation_value" default:"0" doc:"for tf_crop_and_resize: value of positions outside the input"`
	Antialias      bool      `attr:"antialias" default:"false" doc:"widen the interpolation filter when downsampling"`
	KeepAspect     string    `attr:"keep_aspect_ratio_policy" default:"stretch" oneof:"stretch|not_larger|not_smaller" doc:"for sizes: use the smallest or largest factor of all axes for each axis"`
}

// Resize is ONNX's Resize, which generalizes the upsample ops of aten.
var Resize = kit.Define[*resizeAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:   "resize",
		Doc:    "Resizes any dimensions by interpolation, dimension by dimension, with the rules of ONNX's Resize.",
		Params: []graph.Param{kit.Input},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			plan, err := newResizePlan(c)
			return c.NewResult(plan.out), err
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			resample, err := newResize(c)
			if err != nil {
				return nil, err
			}
			return []*tensor.Tensor{resample.reference(in[0])}, nil
		},
		Examples: []graph.Example{
			{In: []tensor.Meta{kit.F32(1, 2, 4, 4)}, Attrs: graph.Attrs{"scales": []float64{1, 1, 0.6, 2}, "mode": "cubic",
				"antialias": true}},
			{In: []tensor.Meta{kit.NHWC(1, 2, 4, 4)}, Attrs: graph.Attrs{"sizes": []int{7, 8}, "axes": []int{2, 3},
				"keep_aspect_ratio_policy": "not_larger"}}},
	},
	Facts:     graph.Facts{Parallel: resizeLoops, WritesAnyDenseLayout: true, ImageRole: graph.ImageOp},
	Lowerings: graph.Lowerings{Impls: resampleImpls(newResize)},
})

// resizePlan has the sizes and factors of a call. Element i of each list belongs to dimension axes[i].
type resizePlan struct {
	axes       []int       // the dimensions to resize
	sizes      []sym.Int   // sizes of the result
	scales     []float64   // factors from the input to the result; nil if they are quotients of sizes
	aspectAxis int         // if not -1, the element of the lists whose quotient of sizes is the factor of all
	out        tensor.Type // type of the result
}

// newResizePlan checks a call and returns its plan.
func newResizePlan(c *graph.Call) (plan resizePlan, err error) {
	attrs, input := kit.Attrs[*resizeAttrs](c), c.Type(0)
	if input.DType.IsComplex() || input.DType == tensor.Bool && attrs.Mode != "nearest" {
		return plan, kit.NotImplementedBy("resize", input.DType)
	}
	if plan.axes, err = resizeAxes(attrs, input.Rank()); err != nil {
		return plan, err
	}
	if plan.sizes, plan.aspectAxis, err = attrs.plan(input.Shape, plan.axes); err != nil {
		return plan, err
	}
	for _, scale := range attrs.Scales {
		plan.scales = append(plan.scales, float64(float32(scale)))
	}
	shape := slices.Clone(input.Shape)
	for i, dim := range plan.axes {
		if kit.SizeIs(input.Shape[dim], 0) && kit.SizeAtLeast(plan.sizes[i], 1) {
			return plan, fmt.Errorf("resize: dimension %d has no elements", dim)
		}
		shape[dim] = plan.sizes[i]
	}
	plan.out, err = kit.FreshType(input.DType, shape)
	return plan, err
}

// newResize returns the resampling of a call.
func newResize(c *graph.Call) (*resampling, error) {
	plan, err := newResizePlan(c)
	if err != nil {
		return nil, err
	}
	attrs, input := kit.Attrs[*resizeAttrs](c), c.Meta(0)
	isCrop := attrs.Coordinates == "tf_crop_and_resize"
	resample := &resampling{taps: make([]*axisTaps, input.Rank()), outsideValue: attrs.Extrapolation}
	for i, outSize := range kit.KnownSizes(plan.sizes) {
		dim := plan.axes[i]
		inSize := input.Shape[dim]
		if outSize == 0 {
			resample.taps[dim] = &axisTaps{}
			continue
		}
		scale := big.NewRat(int64(outSize), int64(inSize)) // inSize is not 0, because outSize is not
		switch aspectAxis := plan.aspectAxis; {
		case plan.scales != nil:
			scale.SetFloat64(plan.scales[i])
		case aspectAxis >= 0:
			scale.SetFrac64(int64(kit.KnownSize(plan.sizes[aspectAxis])), int64(input.Shape[plan.axes[aspectAxis]]))
		}
		isCopied := outSize == inSize && scale.Cmp(ratOf(1)) == 0 && !isCrop // a copied dimension has no taps (nil)
		if isCopied {
			continue
		}
		roi := [2]*big.Rat{ratOf(0), ratOf(1)}
		if isCrop {
			roi[0].SetFloat64(float64(float32(attrs.Roi[i])))
			roi[1].SetFloat64(float64(float32(attrs.Roi[len(plan.axes)+i])))
		}
		axis := newResizeAxis(attrs, inSize, outSize, scale, roi)
		resample.taps[dim] = &axisTaps{outSize: axis.outSize, maxTaps: axis.maxTaps(), isNearest: attrs.Mode == "nearest",
			eachTap: axis.taps}
	}
	return resample, nil
}

// resizeAxes returns the dimensions to resize. It checks the lengths of the lists axes, sizes, scales and roi.
func resizeAxes(attrs *resizeAttrs, rank int) ([]int, error) {
	var axes []int
	if attrs.Axes == nil {
		for dim := range rank {
			axes = append(axes, dim)
		}
	}
	for _, given := range attrs.Axes {
		dim, err := tensor.WrapDim(given, rank)
		if err != nil {
			return nil, err
		}
		if slices.Contains(axes, dim) {
			return nil, fmt.Errorf("dim %d appears multiple times in the list of dims", dim)
		}
		axes = append(axes, dim)
	}
	if (attrs.Sizes != nil) == (attrs.Scales != nil) {
		return nil, errors.New("resize: Must specify exactly one of sizes and scales")
	}
	if len(attrs.Sizes)+len(attrs.Scales) != len(axes) {
		return nil, fmt.Errorf("resize: Expected %d sizes or scales, got %d", len(axes), len(attrs.Sizes)+len(attrs.Scales))
	}
	if attrs.Coordinates == "tf_crop_and_resize" && len(attrs.Roi) != 2*len(axes) {
		return nil, fmt.Errorf("resize: Expected roi of length %d, got %d", 2*len(axes), len(attrs.Roi))
	}
	for _, bound := range attrs.Roi {
		if !(math.Abs(bound) <= math.MaxFloat32) {
			return nil, fmt.Errorf("resize: roi %v is out of range", bound)
		}
	}
	return axes, nil
}

// plan returns the fields sizes and aspectAxis of the [resizePlan].
func (attrs *resizeAttrs) plan(shape []sym.Int, axes []int) (sizes []sym.Int, aspectAxis int, err error) {
	if attrs.Sizes != nil && attrs.KeepAspect != "stretch" {
		return attrs.planAspect(shape, axes)
	}
	if attrs.Sizes != nil {
		for _, size := range attrs.Sizes {
			if kit.IsNegative(size) {
				return nil, -1, fmt.Errorf("resize: size %v is out of range", size)
			}
		}
		return attrs.Sizes, -1, nil
	}
	for i, dim := range axes {
		scale := float64(float32(attrs.Scales[i]))
		size, isKnown := shape[dim].Known()
		if !(scale > 0 && scale <= math.MaxFloat32) || isKnown && float64(size)*scale > tensor.MaxBytes {
			return nil, -1, fmt.Errorf("resize: scale %v is out of range", attrs.Scales[i])
		}
		sizes = append(sizes, ScaledSize32(shape[dim], scale))
	}
	return sizes, -1, nil
}

// aspectLimit is the least size that planAspect rejects. The product of two smaller sizes does not overflow.
const aspectLimit = 1 << 30

// planAspect resizes all axes by the smallest or the largest of their factors, and rounds sizes half up. Factors are
// compared as fractions, because sizes may be symbols. best is the index in axes of this factor.
func (attrs *resizeAttrs) planAspect(shape []sym.Int, axes []int) (sizes []sym.Int, best int, err error) {
	for i, dim := range axes {
		size, inSize := attrs.Sizes[i], shape[dim]
		switch {
		case !kit.SizeAtLeast(size, 1) || kit.SizeAtLeast(size, aspectLimit):
			return nil, -1, fmt.Errorf("resize: size %v is out of range", size)
		case kit.SizeIs(inSize, 0):
			return nil, -1, fmt.Errorf("resize: dimension %d has no elements", dim)
		case kit.SizeAtLeast(inSize, aspectLimit):
			return nil, -1, fmt.Errorf("resize: dimension %d is too large to keep the aspect ratio", dim)
		}
		// These are the factors size/inSize and attrs.Sizes[best]/shape[axes[best]], multiplied by both denominators.
		factor, bestFactor := size.Mul(shape[axes[best]]), attrs.Sizes[best].Mul(inSize)
		if attrs.KeepAspect == "not_smaller" {
			factor, bestFactor = bestFactor, factor
		}
		if factor.Lt(bestFactor).Holds() {
			best = i
		}
	}
	for i, dim := range axes {
		size, inSize := attrs.Sizes[best], shape[axes[best]]
		rounded := size
		if i != best { // size*shape[dim]/inSize, rounded half up
			two := sym.Of(2)
			rounded = size.Mul(shape[dim]).Mul(two).Add(inSize).Div(inSize.Mul(two))
		}
		sizes = append(sizes, rounded)
	}
	return sizes, best, nil
}

// resizeAxis computes the taps of one dimension. A tap is an element of the input with a weight. For index i of the
// result:
//
//  1. The coordinate transformation maps i to a fractional position in the input (method position).
//  2. The mode gives weights to the elements around the position (method weights).
//  3. Elements outside the input are ignored, or replaced by the edge (method taps).
//
// For example, with half_pixel and scale 2, index 3 is at position 1.25. In mode linear, its taps are element 1 with
// weight 0.75 and element 2 with weight 0.25.
type resizeAxis struct {
	attrs           *resizeAttrs
	inSize, outSize int     // sizes of input and output
	scale           float64 // factor
	// Index i has the position (first + i*step)/unit in the input, in elements. Positions are fractions, because their
	// rounding would decide which element is nearest.
	first, step, unit *big.Int
	fitsInt64         bool // whether positions can be computed with int64, and parts of unit are exact in float64
}

func ratOf(number int) *big.Rat { return new(big.Rat).SetInt64(int64(number)) }

// newResizeAxis returns the axis for a factor. roi is the start and the end of the region for tf_crop_and_resize, as
// fractions of the input.
func newResizeAxis(attrs *resizeAttrs, inSize, outSize int, scale *big.Rat, roi [2]*big.Rat) *resizeAxis {
	add, sub, mul, quo := fractionOps()
	half, one, in := big.NewRat(1, 2), ratOf(1), ratOf(inSize)
	out := mul(scale, in) // not rounded, as in ONNX's test cases
	lastIn := sub(in, one)
	step := new(big.Rat).Inv(scale)
	first := sub(mul(half, step), half) // half_pixel
	switch attrs.Coordinates {
	case "align_corners":
		first, step = new(big.Rat), new(big.Rat)
		if out.Cmp(one) != 0 {
			step = quo(lastIn, sub(out, one))
		}
	case "asymmetric":
		first = new(big.Rat)
	case "tf_crop_and_resize":
		first, step = mul(half, mul(add(roi[0], roi[1]), lastIn)), new(big.Rat)
		if outSize > 1 {
			first, step = mul(roi[0], lastIn), quo(mul(sub(roi[1], roi[0]), lastIn), ratOf(outSize-1))
		}
	case "tf_half_pixel_for_nn":
		first = mul(half, step)
	case "pytorch_half_pixel":
		if outSize == 1 {
			first = new(big.Rat)
		}
	case "half_pixel_symmetric":
		first = add(first, mul(mul(in, half), sub(one, quo(ratOf(outSize), out))))
	}
	axis := &resizeAxis{attrs: attrs, inSize: inSize, outSize: outSize}
	axis.scale, _ = scale.Float64()
	axis.unit = new(big.Int).Mul(first.Denom(), step.Denom())
	axis.first = new(big.Int).Mul(first.Num(), step.Denom())
	axis.step = new(big.Int).Mul(step.Num(), first.Denom())
	common := new(big.Int).GCD(nil, nil, axis.unit, axis.first)
	common.GCD(nil, nil, common, axis.step)
	for _, part := range []*big.Int{axis.unit, axis.first, axis.step} {
		part.Quo(part, common)
	}
	axis.fitsInt64 = axis.unit.BitLen() <= 53 && axis.first.BitLen() <= 61 &&
		axis.step.BitLen()+bits.Len(uint(outSize)) <= 61
	return axis
}

// fractionOps returns operations on fractions that return new fractions.
func fractionOps() (add, sub, mul, quo func(x, y *big.Rat) *big.Rat) {
	newResult := func(op func(z, x, y *big.Rat) *big.Rat) func(x, y *big.Rat) *big.Rat {
		return func(x, y *big.Rat) *big.Rat { return op(new(big.Rat), x, y) }
	}
	return newResult((*big.Rat).Add), newResult((*big.Rat).Sub), newResult((*big.Rat).Mul), newResult((*big.Rat).Quo)
}

// position returns the position of index i in the input: base + t, where base is the index of an element and t is in
// (0, 1]. A position on an element thus belongs to the gap before this element.
func (axis *resizeAxis) position(i int) (base, t float64) {
	if !axis.fitsInt64 {
		product := new(big.Int).Mul(axis.step, big.NewInt(int64(i)))
		position, _ := new(big.Rat).SetFrac(product.Add(product, axis.first), axis.unit).Float64()
		base = math.Ceil(position) - 1
		return base, position - base
	}
	number, unit := axis.first.Int64()+axis.step.Int64()*int64(i), axis.unit.Int64()
	quotient, rest := number/unit, number%unit // rounded towards 0
	if rest <= 0 {
		quotient, rest = quotient-1, rest+unit
	}
	return float64(quotient), float64(rest) / float64(unit)
}

// The radii of the interpolation filters, in elements of the input, before stretching.
const linearRadius, cubicRadius = 1, 2

// maxTaps returns an upper bound for the number of taps per index.
func (axis *resizeAxis) maxTaps() int {
	switch {
	case axis.attrs.Mode == "nearest" || axis.attrs.Mode == "linear" && !axis.attrs.Antialias:
		return 2
	case !axis.attrs.Antialias: // cubic
		return 4
	case axis.attrs.Mode == "linear":
		return axis.stretchedTaps(linearRadius)
	}
	return axis.stretchedTaps(cubicRadius)
}

// stretchedTaps returns the number of taps of a filter that is stretched for downsampling. radius is the radius, in
// elements, before stretching. The taps are numbered from firstStretchedTap to 1 - firstStretchedTap. For example,
// radius 1 and scale 0.5 give the taps -1 to 2.
func (axis *resizeAxis) stretchedTaps(radius float64) int {
	return 2 - 2*axis.firstStretchedTap(radius)
}

// firstStretchedTap returns the number of the first tap of a stretched filter. Tap 0 is the element before the source
// position. The limit MaxProduct keeps the conversion to int valid for a tiny scale.
func (axis *resizeAxis) firstStretchedTap(radius float64) int {
	return int(math.Floor(max(-radius/min(axis.scale, 1), -kit.MaxProduct))) + 1
}

// taps implements [axisTaps.eachTap] for the axis.
func (axis *resizeAxis) taps(i int, add func(element int, weight float64)) {
	base, t := axis.position(i)
	isOutside := base < -1 || base == -1 && t < 1 || base >= float64(axis.inSize-1)
	if axis.attrs.Coordinates == "tf_crop_and_resize" && isOutside {
		return
	}
	first, weights := axis.weights(t)
	// Positions far outside the input are moved to 4 elements outside, so that the conversion to int is valid.
	firstElement := int(max(min(base, float64(axis.inSize)+4), -4)) + first
	isInside := func(tap int) bool { return firstElement+tap >= 0 && firstElement+tap < axis.inSize }
	sum := 1.0 // of the weights that are used
	if axis.attrs.ExcludeOutside {
		sum = 0
		for tap, weight := range weights {
			if isInside(tap) {
				sum += weight
			}
		}
	}
	for tap, weight := range weights {
		if isInside(tap) || !axis.attrs.ExcludeOutside {
			add(min(max(firstElement+tap, 0), axis.inSize-1), weight/sum)
		}
	}
}

// weights returns the weights of consecutive elements around the position base+t, where base is the index of an element
// and t is in (0, 1]. The first weight belongs to element base+first.
func (axis *resizeAxis) weights(t float64) (first int, weights []float64) {
	a := axis.attrs.CubicCoeffA
	switch mode, isStretched := axis.attrs.Mode, axis.attrs.Antialias; {
	case mode == "nearest":
		return 0, axis.nearestWeights(t)
	case mode == "linear" && !isStretched:
		return 0, []float64{1 - t, t}
	case mode == "linear":
		return axis.stretchedWeights(linearRadius, t, linearFilter)
	case !isStretched: // mode cubic, as in the last return
		cubic := cubicWeights(t, a)
		return -1, cubic[:]
	}
	return axis.stretchedWeights(cubicRadius, t, func(d float64) float64 { return cubicFilter(d, a) })
}

// linearFilter returns the weight of an element at distance d, which may be negative.
func linearFilter(d float64) float64 { return min(max(1-math.Abs(d), 0), 1) }

// cubicFilter is linearFilter for cubic convolution with the coefficient a.
func cubicFilter(d, a float64) float64 {
	switch d = math.Abs(d); {
	case d <= 1:
		return float64((a+2)*d*d*d) - float64((a+3)*d*d) + 1
	case d < 2:
		return float64(a*d*d*d) - float64(5*a*d*d) + float64(8*a*d) - float64(4*a)
	}
	return 0
}

// stretchedWeights is the method weights for a filter that is stretched for downsampling. radius is the radius before
// stretching. filter returns the weight of an element from its distance.
func (axis *resizeAxis) stretchedWeights(radius, t float64, filter func(float64) float64) (first int,
	weights []float64) {
	scale := min(axis.scale, 1)
	first = axis.firstStretchedTap(radius)
	weights = make([]float64, axis.stretchedTaps(radius))
	sum := 0.0
	for tap := range weights {
		weights[tap] = filter((float64(first+tap) - t) * scale)
		sum += weights[tap]
	}
	for tap := range weights {
		weights[tap] /= sum
	}
	return first, weights
}

// nearestWeights returns the weights of the elements before and after a position. t is the distance from the element
// before it to the position.
func (axis *resizeAxis) nearestWeights(t float64) []float64 {
	takesSecond := t == 1 // the position is on the second element
	switch axis.attrs.NearestMode {
	case "floor": // no other position takes the second element
	case "round_prefer_floor":
		takesSecond = takesSecond || t > 0.5
	case "round_prefer_ceil":
		takesSecond = takesSecond || t >= 0.5
	case "ceil":
		takesSecond = true
	case "simple":
		takesSecond = takesSecond || axis.scale < 1
	}
	if takesSecond {
		return []float64{0, 1}
	}
	return []float64{1, 0}
}

// resizeLoops returns the loops over the dimensions that are not resized. It returns no loops if all dimensions may be
// resized. This is the case if the call has roi, or has sizes but no axes. A dimension in axes counts as resized if its
// scale is not 1.
func resizeLoops(call *graph.Call) []graph.Parallel {
	attrs := kit.Attrs[*resizeAttrs](call)
	if attrs.Axes == nil && attrs.Sizes != nil || attrs.Roi != nil {
		return nil
	}
	var resized []int
	for i, dim := range attrs.Axes {
		if hasNoScale := i >= len(attrs.Scales); hasNoScale || attrs.Scales[i] != 1 {
			resized = append(resized, dim)
		}
	}
	if attrs.Axes == nil { // the scales are of all dimensions
		for dim, scale := range attrs.Scales {
			if scale != 1 {
				resized = append(resized, dim)
			}
		}
	}
	return kit.LoopsExceptDims(resized...)(call)
}
