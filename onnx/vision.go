package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// resize converts Resize. The operands after the image are scales in operator set 10, and roi, scales and sizes since
// set 11.
func resize(n *node) []*val {
	x := n.operand(0)
	attrs := graph.Attrs{"mode": n.text("mode", "nearest"),
		"coordinate_transformation_mode": n.text("coordinate_transformation_mode", "half_pixel"),
		"nearest_mode":                   n.text("nearest_mode", "round_prefer_floor"),
		"cubic_coeff_a":                  n.float("cubic_coeff_a", -0.75),
		"exclude_outside":                n.flag("exclude_outside", false),
		"extrapolation_value":            n.float("extrapolation_value", 0),
		"antialias":                      n.flag("antialias", false),
		"keep_aspect_ratio_policy":       n.text("keep_aspect_ratio_policy", "stretch")}
	if axes, ok := n.ints("axes"); ok {
		attrs["axes"] = n.axes(axes, n.rank(x))
	}
	if n.opset < 11 {
		return one(n.resizeByScales(x, n.setOldModes(attrs), n.operand(1)))
	}
	if roi := n.operandOrNil(1); roi != nil && attrs["coordinate_transformation_mode"] == "tf_crop_and_resize" {
		attrs["roi"] = n.floatsAttr(roi)
	}
	scales := n.operandOrNil(2)
	if scales != nil && !scales.isDynamic() && scales.meta().Numel() > 0 {
		return one(n.resizeByScales(x, attrs, scales))
	}
	sizes := n.operand(3)
	attrs["sizes"] = n.vectorAttr(sizes)
	if y := n.upsampleOp(x, attrs, n.integers(sizes), nil); y != nil {
		return one(y)
	}
	return one(n.op("resize", attrs, x).withRank(n.rank(x)))
}

// setOldModes sets the modes that Upsample, and Resize in operator set 10, always use.
func (n *node) setOldModes(attrs graph.Attrs) graph.Attrs {
	attrs["coordinate_transformation_mode"], attrs["nearest_mode"] = "asymmetric", "floor"
	return attrs
}

// resizeByScales resizes by scales.
func (n *node) resizeByScales(x *val, attrs graph.Attrs, scales *val) *val {
	attrs["scales"] = n.floatsAttr(scales)
	if list, ok := attrs["scales"].([]float64); ok {
		if y := n.upsampleOp(x, attrs, nil, list); y != nil {
			return y
		}
	}
	return n.op("resize", attrs, x).withRank(n.rank(x))
}

// floatsAttr returns a vector of floating-point numbers as an attribute: a list, or a reference to the value.
func (n *node) floatsAttr(x *val) any {
	if x.data == nil {
		return n.reference(x)
	}
	if x.data.Numel() > foldLimit {
		n.failf("%q has %d elements", x.name, x.data.Numel())
	}
	out := make([]float64, 0, x.data.Numel())
	list, _ := tensor.ToSlice[float32](x.data.CopyTo(tensor.New(tensor.Float32, x.data.Shape...))) // the dtype matches
	for _, f := range list {
		out = append(out, shortestDecimal(f))
	}
	return out
}

// upsampleOp applies an upsampling op of aten. It returns nil if no such op is equivalent. scales is nil if sizes are
// given; sizes is nil if the sizes depend on data.
func (n *node) upsampleOp(x *val, attrs graph.Attrs, sizes []sym.Int, scales []float64) *val {
	inputSizes := n.shapeOf(x)
	if len(inputSizes) != 4 || attrs["axes"] != nil || !x.dtype().IsFloat() || attrs["antialias"] == true ||
		attrs["keep_aspect_ratio_policy"] != "stretch" {
		return nil
	}
	upAttrs := graph.Attrs{}
	if scales != nil {
		if len(scales) != 4 || scales[0] != 1 || scales[1] != 1 {
			return nil
		}
		upAttrs["scale_factors"] = scales[2:]
	} else {
		if len(sizes) != 4 || !sizes[0].Same(inputSizes[0]) || !sizes[1].Same(inputSizes[1]) ||
			!positive(sizes[2].Sub(sym.Of(1))) || !positive(sizes[3].Sub(sym.Of(1))) {
			return nil
		}
		upAttrs["output_size"] = n.sizeAttr(sizes[2:]...)
	}
	coordinates := attrs["coordinate_transformation_mode"]
	switch mode := attrs["mode"]; {
	case mode == "nearest" && coordinates == "asymmetric" && attrs["nearest_mode"] == "floor":
		return n.op("upsample_nearest2d", upAttrs, x)
	case coordinates != "half_pixel" && coordinates != "align_corners":
		return nil
	case mode == "linear":
		upAttrs["align_corners"] = coordinates == "align_corners"
		return n.op("upsample_bilinear2d", upAttrs, x)
	case mode == "cubic" && attrs["cubic_coeff_a"] == -0.75 && attrs["exclude_outside"] == false:
		upAttrs["align_corners"] = coordinates == "align_corners"
		return n.op("upsample_bicubic2d", upAttrs, x)
	}
	return nil
}

// upsample converts Upsample, the predecessor of Resize. Its scales are attributes before operator set 9.
func upsample(n *node) []*val {
	x := n.operand(0)
	attrs := n.setOldModes(graph.Attrs{"mode": n.text("mode", "nearest"), "antialias": false,
		"keep_aspect_ratio_policy": "stretch"})
	if attrs["mode"] == "bilinear" {
		attrs["mode"] = "linear"
	}
	switch {
	case n.opset >= 9:
		return one(n.resizeByScales(x, attrs, n.operand(1)))
	case n.opset >= 7:
		scales, _ := n.floats("scales")
		return one(n.resizeByScales(x, attrs, floatVector(scales...)))
	}
	return one(n.resizeByScales(x, attrs, floatVector(1, 1, n.float("height_scale", 1), n.float("width_scale", 1))))
}

func floatVector(list ...float64) *val {
	data := make([]float32, len(list))
	for i, f := range list {
		data[i] = float32(f)
	}
	return constValue(tensor.Must(tensor.FromSlice(data, len(data))))
}

func gridSample(n *node) []*val {
	mode, ok := map[string]int{"bilinear": 0, "linear": 0, "nearest": 1, "bicubic": 2,
		"cubic": 2}[n.text("mode", "linear")]
	if !ok {
		n.failf("mode %q is not supported", n.text("mode", ""))
	}
	padding, ok := map[string]int{"zeros": 0, "border": 1, "reflection": 2}[n.text("padding_mode", "zeros")]
	if !ok {
		n.failf("padding mode %q is not supported", n.text("padding_mode", ""))
	}
	attrs := graph.Attrs{"interpolation_mode": mode, "padding_mode": padding,
		"align_corners": n.flag("align_corners", false)}
	return one(n.op("grid_sampler", attrs, n.operand(0), n.convertLike(n.operand(1), n.operand(0))))
}

func affineGrid(n *node) []*val {
	theta, size := n.operand(0), n.operand(1)
	attrs := graph.Attrs{"size": n.vectorAttr(size), "align_corners": n.flag("align_corners", false)}
	return one(n.op("affine_grid_generator", attrs, theta).withRank(n.lengthOf(size)))
}

// roiAlign converts RoiAlign. In the op, the first element of each region is the index of its image. Before operator
// set 16, coordinates are not shifted by half a pixel.
func roiAlign(n *node) []*val {
	x, rois, batch := n.operand(0), n.operand(1), n.operand(2)
	column := n.op("unsqueeze", graph.Attrs{"dim": 1}, n.cast(batch, rois.dtype())).withRank(2)
	rois = n.convertLike(n.op("cat", graph.Attrs{"dim": 1}, column, rois).withRank(2), x)
	mode := "half_pixel"
	if n.opset < 16 {
		mode = "output_half_pixel"
	}
	attrs := graph.Attrs{"spatial_scale": n.float("spatial_scale", 1), "pooled_height": n.int("output_height", 1),
		"pooled_width": n.int("output_width", 1), "sampling_ratio": n.int("sampling_ratio", 0),
		"mode": n.text("mode", "avg"), "aligned": n.text("coordinate_transformation_mode", mode) == "half_pixel"}
	return one(n.op("roi_align", attrs, x, rois).withRank(4))
}

func nonMaxSuppression(n *node) []*val {
	attrs := graph.Attrs{"center_point_box": n.int("center_point_box", 0)}
	for i, name := range []string{"max_output_boxes_per_class", "iou_threshold", "score_threshold"} {
		parameter := n.operandOrNil(2 + i)
		switch {
		case parameter == nil:
		case i == 0:
			attrs[name] = n.scalarAttr(parameter)
		default:
			attrs[name] = n.numberAttr(parameter)
		}
	}
	return one(n.op("non_max_suppression", attrs, n.operand(0), n.operand(1)).withSizes(tensor.Int64, -1, 3))
}

// cosineWindow returns the converter of a cosine window: a - b cos(x) + c cos(2x), where x runs over one period.
func cosineWindow(a, b, c float64) converter {
	return func(n *node) []*val {
		dtype := n.dtypeAttr("output_datatype")
		if dtype == tensor.Invalid {
			dtype = tensor.Float32
		}
		size := n.operand(0)
		position := n.op("arange", graph.Attrs{"end": n.scalarAttr(size), "dtype": tensor.Float64})
		position.withType(tensor.Float64, 1)
		period := n.cast(size, tensor.Float64)
		if period.isDynamic() || period.meta().Rank() > 0 {
			period = n.reshape(period)
		}
		if !n.flag("periodic", true) {
			period = n.op("clamp", graph.Attrs{"min": 1}, n.op("sub", nil, period, 1))
		}
		angle := n.op("div", nil, n.op("mul", nil, position, tau), period)
		y := n.op("add", nil, n.op("mul", nil, n.op("cos", nil, angle), -b), a)
		if c != 0 {
			y = n.op("add", nil, y, n.op("mul", nil, n.op("cos", nil, n.op("mul", nil, angle, 2.0)), c))
		}
		return one(n.cast(y, dtype))
	}
}

const tau = 6.283185307179586476925286766559

// tfIdf converts TfIdfVectorizer, which counts the n-grams of a pool in each row.
func tfIdf(n *node) []*val {
	x := n.operand(0)
	grams := n.gramTable()
	shape := n.symShape(x)
	if len(shape) != 1 && len(shape) != 2 {
		n.failf("the operand has %d dimensions, want 1 or 2", len(shape))
	}
	rows := x
	if len(shape) == 1 {
		rows = n.reshape(x, 1, -1)
	}
	var counts *val // [rows, n-grams of the pool]
	for _, g := range grams.groups {
		c := n.countGrams(rows, g.length, g.words, grams.skips)
		if counts == nil {
			counts = c
		} else {
			counts = n.op("cat", graph.Attrs{"dim": 1}, counts, c)
		}
	}
	if counts == nil {
		n.failf("the pool is empty")
	}
	weights := floatVector(grams.weights...)
	switch mode := n.text("mode", "TF"); mode {
	case "IDF":
		counts = n.op("mul", nil, n.cast(n.op("gt", nil, counts, 0), tensor.Float32), weights)
	case "TFIDF":
		counts = n.op("mul", nil, counts, weights)
	case "TF":
	default:
		n.failf("mode %q is not supported", mode)
	}
	total := slices.Max(grams.positions) + 1
	sizes := n.symShape(counts)
	zeros := n.op("full", graph.Attrs{"size": n.sizeAttr(sizes[0], sym.Of(total)), "fill_value": 0,
		"dtype": tensor.Float32})
	positions := n.op("expand", graph.Attrs{"size": n.sizeAttr(sizes...)}, constValue(intTensor(grams.positions...)))
	y := n.op("scatter_reduce", graph.Attrs{"dim": 1, "reduce": "sum"}, zeros, positions, counts)
	if len(shape) == 1 {
		y = n.reshape(y, total)
	}
	return one(y)
}

// gramGroup has the n-grams of one length in a pool.
type gramGroup struct {
	length int
	words  []int // the words of all n-grams, length words for each
}

// gramTable has the n-grams that TfIdfVectorizer counts.
type gramTable struct {
	groups    []gramGroup
	positions []int     // for each n-gram, the position of its count in a row of the result
	weights   []float64 // for each n-gram
	skips     int       // the maximum number of skipped words between two words of an n-gram
}

// gramTable reads the attributes of TfIdfVectorizer.
func (n *node) gramTable() gramTable {
	pool, ok := n.ints("pool_int64s")
	if !ok {
		n.failf("strings are not supported")
	}
	starts, _ := n.ints("ngram_counts")
	positions, _ := n.ints("ngram_indexes")
	weights, hasWeights := n.floats("weights")
	table := gramTable{skips: n.int("max_skip_count", 0)}
	minLength, maxLength := n.int("min_gram_length", 1), n.int("max_gram_length", 1)
	if table.skips < 0 || table.skips > 1<<16 || minLength < 1 || maxLength > len(starts) || len(pool) > foldLimit {
		n.failf("the pool does not consist of n-grams of the given lengths")
	}
	gram := 0
	for i, start := range starts {
		end := len(pool)
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		length := i + 1
		if start < 0 || end < start || end > len(pool) || (end-start)%length != 0 {
			n.failf("ngram_counts %s do not suit a pool of %d", tensor.ListString(starts), len(pool))
		}
		count := (end - start) / length
		if length >= minLength && length <= maxLength && count > 0 {
			table.groups = append(table.groups, gramGroup{length, pool[start:end]})
			for k := gram; k < gram+count; k++ {
				if k >= len(positions) || positions[k] < 0 || positions[k] > 1<<24 || hasWeights && k >= len(weights) {
					n.failf("ngram_indexes or weights do not suit the pool")
				}
				table.positions = append(table.positions, positions[k])
				w := 1.0
				if hasWeights {
					w = weights[k]
				}
				table.weights = append(table.weights, w)
			}
		}
		gram += count
	}
	return table
}

// countGrams counts n-grams of one length in each row. words is gramGroup.words. Between two adjacent words of an
// n-gram, a row may have `skip` other words. countGrams adds the counts for each skip from 0 to skips.
func (n *node) countGrams(rows *val, length int, words []int, skips int) *val {
	sizes := n.symShape(rows)
	grams := len(words) / length
	pool := constValue(tensor.Must(intTensor(words...).View(tensor.New(tensor.Int64, 1, 1, grams, length))))
	sum := n.op("full", graph.Attrs{"size": n.sizeAttr(sizes[0], sym.Of(grams)), "fill_value": 0, "dtype": tensor.Float32})
	for skip := range skips + 1 {
		step := skip + 1
		count := sizes[1].Sub(sym.Of((length - 1) * step)).Max(sym.Int{})
		if length == 1 && skip > 0 || count.Same(sym.Int{}) {
			break
		}
		var cols []any
		for k := range length {
			end := n.sizeAttrOf(count.Add(sym.Of(k * step)))
			cols = append(cols, n.op("slice", graph.Attrs{"dim": 1, "start": k * step, "end": end}, rows))
		}
		found := n.op("unsqueeze", graph.Attrs{"dim": 2}, n.op("stack", graph.Attrs{"dim": 2}, cols...))
		matches := n.op("all", graph.Attrs{"dim": []int{3}}, n.op("eq", nil, found, pool))
		sum = n.op("add", nil, sum, n.op("sum", graph.Attrs{"dim": []int{1}, "dtype": tensor.Float32}, matches))
	}
	return sum
}
