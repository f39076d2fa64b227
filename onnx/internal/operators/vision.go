package operators

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts operators on images. Resize becomes an upsampling op of aten where one is equivalent, such as
// upsample_bilinear2d for mode linear with half_pixel coordinates, and otherwise the op resize.
//
// A value is a tensor of the model, and node.Op adds an op to the graph. A sym.Int is a size: a number, or an
// expression over symbols. WithRank and WithType record the rank and the dtype of a result whose shape depends on data.

// resize converts Resize. The operands after the image are scales in operator set 10, and roi, scales and sizes since
// set 11.
func resize(n *node) []*value {
	x := n.Operand(0)
	attrs := graph.Attrs{"mode": n.Text("mode", "nearest"),
		"coordinate_transformation_mode": n.Text("coordinate_transformation_mode", "half_pixel"),
		"nearest_mode":                   n.Text("nearest_mode", "round_prefer_floor"),
		"cubic_coeff_a":                  n.Float("cubic_coeff_a", -0.75),
		"exclude_outside":                n.Flag("exclude_outside", false),
		"extrapolation_value":            n.Float("extrapolation_value", 0),
		"antialias":                      n.Flag("antialias", false),
		"keep_aspect_ratio_policy":       n.Text("keep_aspect_ratio_policy", "stretch")}
	if axes, ok := n.Ints("axes"); ok {
		attrs["axes"] = n.Axes(axes, n.Rank(x))
	}
	if n.Opset < 11 {
		return single(resizeByScales(n, x, setOldModes(attrs), n.Operand(1)))
	}
	if roi := n.OperandOrNil(1); roi != nil && attrs["coordinate_transformation_mode"] == "tf_crop_and_resize" {
		attrs["roi"] = floatsAttr(n, roi)
	}
	scales, sizes := n.OperandOrNil(2), n.OperandOrNil(3)
	hasSizes := sizes != nil && n.LengthOf(sizes) != 0
	// An empty operand counts as omitted. The length of computed scales may be unknown.
	if scales != nil && (n.LengthOf(scales) > 0 || !hasSizes) {
		return single(resizeByScales(n, x, attrs, scales))
	}
	sizes = n.Operand(3)
	attrs["sizes"] = n.IntsAttr(sizes)
	if y := tryUpsampleOp(n, x, attrs, n.Integers(sizes), nil); y != nil {
		return single(y)
	}
	dropCopiedAxes(n, x, attrs, n.Integers(sizes))
	return single(n.Op("resize", attrs, x).WithRank(n.Rank(x)))
}

// dropCopiedAxes sets the attributes axes and sizes of a resize, without the dimensions that keep their sizes for all
// sizes of the model's inputs. The attributes thus do not depend on the batch size, and serve can join requests. sizes
// has a size for each axis; it is nil if the sizes depend on data.
func dropCopiedAxes(n *node, x *value, attrs graph.Attrs, sizes []sym.Int) {
	inputSizes := n.TrySymShape(x)
	isSeparable := attrs["keep_aspect_ratio_policy"] == "stretch" &&
		attrs["coordinate_transformation_mode"] != "tf_crop_and_resize"
	if attrs["axes"] != nil || !isSeparable || len(sizes) != len(inputSizes) {
		return
	}
	var axes []int
	var resized []sym.Int
	for axis, size := range sizes {
		if !size.Same(inputSizes[axis]) {
			axes, resized = append(axes, axis), append(resized, size)
		}
	}
	if len(axes) > 0 {
		attrs["axes"], attrs["sizes"] = axes, n.SizesAttr(resized...)
	}
}

// setOldModes sets in attrs the modes that Upsample, and Resize in operator set 10, always use. It returns attrs. Their
// nearest elements are those of ONNX Runtime and of ONNX's test of that set, because the text does not define them.
func setOldModes(attrs graph.Attrs) graph.Attrs {
	attrs["coordinate_transformation_mode"], attrs["nearest_mode"] = "asymmetric", "simple"
	return attrs
}

// resizeByScales resizes x by scales, one for each dimension or, if there is an attribute axes, for each of the axes.
// It uses an upsampling op of aten if one is equivalent, and otherwise the op resize.
func resizeByScales(n *node, x *value, attrs graph.Attrs, scales *value) *value {
	attrs["scales"] = floatsAttr(n, scales)
	if list, ok := attrs["scales"].([]float64); ok {
		if y := tryUpsampleOp(n, x, attrs, nil, list); y != nil {
			return y
		}
	}
	return n.Op("resize", attrs, x).WithRank(n.Rank(x))
}

// floatsAttr returns a vector of floating-point numbers as an attribute: a list, or a reference to the value.
func floatsAttr(n *node, x *value) any {
	if x.Data() == nil {
		return n.Reference(x)
	}
	if x.Data().Numel() > convert.FoldLimit {
		n.Failf("%q has %d elements, want at most %d", x.Name(), x.Data().Numel(), convert.FoldLimit)
	}
	// The shortest decimal of a float32, such as 0.1 instead of 0.10000000149, makes graphs readable.
	out := make([]float64, 0, x.Data().Numel())
	list, _ := tensor.ToSlice[float32](x.Data().CopyTo(tensor.New(tensor.Float32, x.Data().Shape...))) // the dtype matches
	for _, f := range list {
		out = append(out, convert.ShortestDecimal(f))
	}
	return out
}

// tryUpsampleOp applies an upsampling op of aten, which resizes the last two dimensions of [N, C, H, W]. It returns nil
// if no such op is equivalent, or if a given height or width of the result may be below 2. scales is nil if sizes are
// given. sizes is nil if scales are given or the sizes depend on data.
func tryUpsampleOp(n *node, x *value, attrs graph.Attrs, sizes []sym.Int, scales []float64) *value {
	inputSizes := n.TrySymShape(x)
	hasPlainAttrs := attrs["axes"] == nil && attrs["antialias"] != true && attrs["keep_aspect_ratio_policy"] == "stretch"
	if len(inputSizes) != 4 || !x.DType().IsFloat() || !hasPlainAttrs {
		return nil
	}
	upsampleAttrs := upsampleSizeAttrs(n, inputSizes, sizes, scales)
	if upsampleAttrs == nil {
		return nil
	}
	if mayBeEmpty(inputSizes[1:]...) {
		upsampleAttrs["accept_empty"] = true
	}
	coordinates := attrs["coordinate_transformation_mode"]
	alignsCorners := coordinates == "align_corners"
	roundsDown := attrs["nearest_mode"] == "floor" || attrs["nearest_mode"] == "simple"
	switch mode := attrs["mode"]; {
	case mode == "nearest" && coordinates == "asymmetric" && roundsDown && areDoubled(inputSizes, sizes, scales):
		return n.Op("upsample_nearest2d", upsampleAttrs, x)
	case coordinates != "half_pixel" && !alignsCorners || alignsCorners && slices.ContainsFunc(scales, isFraction):
		return nil
	case mode == "linear":
		upsampleAttrs["align_corners"] = alignsCorners
		return n.Op("upsample_bilinear2d", upsampleAttrs, x)
	case mode == "cubic" && attrs["cubic_coeff_a"] == -0.75 && attrs["exclude_outside"] == false:
		upsampleAttrs["align_corners"] = alignsCorners
		return n.Op("upsample_bicubic2d", upsampleAttrs, x)
	}
	return nil
}

func isFraction(number float64) bool { return number != math.Trunc(number) }

// areDoubled reports whether the factors of height and width are 1, 2, 4, ... 64. The op upsample_nearest2d multiplies
// indices by the float32 inverses of its factors, which are exact for powers of two only.
func areDoubled(inputSizes, sizes []sym.Int, scales []float64) bool {
	for axis := 2; axis < 4; axis++ {
		isDoubled := false
		for factor := 1; factor <= 64; factor *= 2 {
			isDoubled = isDoubled || scales != nil && scales[axis] == float64(factor) ||
				scales == nil && sizes[axis].Same(inputSizes[axis].Mul(sym.Of(factor)))
		}
		if !isDoubled {
			return false
		}
	}
	return true
}

// upsampleSizeAttrs returns the attribute of an upsampling op that sets the size of the result. It returns nil if
// [tryUpsampleOp] must not apply the op because of this size. inputSizes is the shape of the operand; the other
// parameters are as in tryUpsampleOp.
func upsampleSizeAttrs(n *node, inputSizes, sizes []sym.Int, scales []float64) graph.Attrs {
	if scales != nil {
		// ONNX multiplies sizes by scales in float32, and aten in float64. Products with multiples of 1/2 are exact in both.
		// Factors such as 1.25 may keep a size, and aten then ignores the factor.
		isUnsuitable := func(scale float64) bool { return isFraction(2*scale) || scale > 64 }
		if len(scales) != 4 || scales[0] != 1 || scales[1] != 1 || slices.ContainsFunc(scales, isUnsuitable) {
			return nil
		}
		return graph.Attrs{"scale_factors": scales[2:]}
	}
	if len(sizes) != 4 || !sizes[0].Same(inputSizes[0]) || !sizes[1].Same(inputSizes[1]) {
		return nil
	}
	for _, size := range sizes[2:] {
		if isAtLeast2 := symbolic.Positive(size.Sub(sym.Of(1))); !isAtLeast2 {
			return nil
		}
	}
	return graph.Attrs{"output_size": n.SizesAttr(sizes[2:]...)}
}

// upsample converts Upsample, the predecessor of Resize. Its scales are attributes before operator set 9.
func upsample(n *node) []*value {
	x := n.Operand(0)
	attrs := setOldModes(graph.Attrs{"mode": n.Text("mode", "nearest"), "antialias": false,
		"keep_aspect_ratio_policy": "stretch"})
	if attrs["mode"] == "bilinear" {
		attrs["mode"] = "linear"
	}
	switch {
	case n.Opset >= 9:
		return single(resizeByScales(n, x, attrs, n.Operand(1)))
	case n.Opset >= 7:
		scales, _ := n.Floats("scales")
		return single(resizeByScales(n, x, attrs, convert.FloatVector(scales...)))
	}
	scales := convert.FloatVector(1, 1, n.Float("height_scale", 1), n.Float("width_scale", 1))
	return single(resizeByScales(n, x, attrs, scales))
}

// gridSample converts GridSample to the op grid_sampler, whose modes are numbers.
func gridSample(n *node) []*value {
	mode := convert.Choice(n, "mode", n.Text("mode", "linear"), map[string]int{"bilinear": 0, "linear": 0, "nearest": 1,
		"bicubic": 2, "cubic": 2})
	padding := convert.Choice(n, "padding_mode", n.Text("padding_mode", "zeros"), map[string]int{"zeros": 0, "border": 1,
		"reflection": 2})
	attrs := graph.Attrs{"interpolation_mode": mode, "padding_mode": padding,
		"align_corners": n.Flag("align_corners", false)}
	return single(n.Op("grid_sampler", attrs, n.Operand(0), convertLike(n, n.Operand(1), n.Operand(0))))
}

// affineGrid converts AffineGrid.
func affineGrid(n *node) []*value {
	theta, size := n.Operand(0), n.Operand(1)
	attrs := graph.Attrs{"size": n.IntsAttr(size), "align_corners": n.Flag("align_corners", false)}
	return single(n.Op("affine_grid_generator", attrs, theta).WithRank(n.LengthOf(size)))
}

// roiAlign converts RoiAlign. In the op, the first element of each region is the index of its image (operand 2). By
// default, coordinates are shifted by half a pixel from operator set 16 on, and not before.
func roiAlign(n *node) []*value {
	x, rois, imageIndex := n.Operand(0), n.Operand(1), n.Operand(2)
	column := n.Op("unsqueeze", graph.Attrs{"dim": 1}, n.Cast(imageIndex, rois.DType())).WithRank(2)
	rois = convertLike(n, n.Op("cat", graph.Attrs{"dim": 1}, column, rois).WithRank(2), x)
	defaultMode := "half_pixel"
	if n.Opset < 16 {
		defaultMode = "output_half_pixel"
	}
	attrs := graph.Attrs{"spatial_scale": n.Float("spatial_scale", 1), "pooled_height": n.Int("output_height", 1),
		"pooled_width": n.Int("output_width", 1), "sampling_ratio": n.Int("sampling_ratio", 0),
		"mode": n.Text("mode", "avg"), "aligned": n.Text("coordinate_transformation_mode", defaultMode) == "half_pixel"}
	return single(n.Op("roi_align", attrs, x, rois).WithRank(4))
}

// nonMaxSuppression converts NonMaxSuppression. The optional operands 2 to 4 become attributes: operand 2 is an
// integer, the thresholds are floats. The result has 3 columns. Its number of rows depends on data.
func nonMaxSuppression(n *node) []*value {
	attrs := graph.Attrs{"center_point_box": n.Int("center_point_box", 0)}
	for i, name := range []string{"max_output_boxes_per_class", "iou_threshold", "score_threshold"} {
		parameter := n.OperandOrNil(2 + i)
		switch {
		case parameter == nil:
		case i == 0:
			attrs[name] = n.IntAttr(parameter)
		default:
			attrs[name] = n.NumberAttr(parameter)
		}
	}
	return single(n.Op("non_max_suppression", attrs, n.Operand(0), n.Operand(1)).WithSizes(tensor.Int64, -1, 3))
}
