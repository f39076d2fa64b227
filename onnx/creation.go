package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// constant converts Constant. The attribute with the value depends on the type of the value.
func constant(n *node) []*val {
	switch {
	case n.attrs["value"] != nil:
		attribute := n.attr("value", pb.AttributeTensor)
		if attribute.T == nil {
			n.failf("attribute \"value\" has no tensor")
		}
		t, err := n.model.weight(attribute.T)
		if err != nil {
			n.failf("%w", err)
		}
		return one(weightValue(attribute.T, t))
	case n.attrs["value_float"] != nil:
		attribute := n.attr("value_float", pb.AttributeFloat)
		return one(constValue(tensor.Must(tensor.FromSlice([]float32{attribute.F}))))
	case n.attrs["value_int"] != nil:
		return one(constValue(tensor.Must(tensor.FromSlice([]int64{int64(n.int("value_int", 0))}))))
	case n.attrs["value_floats"] != nil:
		attribute := n.attr("value_floats", pb.AttributeFloats)
		return one(constValue(tensor.Must(tensor.FromSlice(slices.Clone(attribute.Floats), len(attribute.Floats)))))
	case n.attrs["value_ints"] != nil:
		list, _ := n.ints("value_ints")
		return one(constValue(intTensor(list...)))
	case n.attrs["sparse_value"] != nil:
		n.failf("sparse tensors are not supported")
	case n.attrs["value_string"] != nil || n.attrs["value_strings"] != nil:
		return one(n.constantTexts())
	}
	n.failf("the value is missing")
	return nil
}

func constantOfShape(n *node) []*val {
	attrs := graph.Attrs{"fill_value": 0.0, "dtype": tensor.Float32}
	if a := n.attr("value", pb.AttributeTensor); a != nil && a.T != nil {
		t, err := n.model.weight(a.T)
		if err != nil {
			n.failf("%w", err)
		}
		attrs["fill_value"], attrs["dtype"] = n.numberAttr(constValue(t)), t.DType
	}
	shape := n.operand(0)
	attrs["size"] = n.vectorAttr(shape)
	y := n.op("full", attrs)
	if sizes := n.knownSizes(shape); sizes != nil {
		y.withSizes(attrs["dtype"].(tensor.DType), sizes...)
	}
	return one(y)
}

// rangeOp converts Range, which counts from start to end. The result is empty if the step leads away from the end.
func rangeOp(n *node) []*val {
	start, end, step := n.operand(0), n.operand(1), n.operand(2)
	if by := n.integers(step); n.integers(start) != nil && n.integers(end) != nil && len(by) == 1 {
		if k, _ := by[0].Known(); k > 0 {
			end = n.op("maximum", nil, start, end)
		} else if k < 0 {
			end = n.op("minimum", nil, start, end)
		}
	}
	attrs := graph.Attrs{"start": n.numberAttr(start), "end": n.numberAttr(end), "dtype": start.dtype()}
	if attrs["step"] = n.numberAttr(step); step.data == nil {
		attrs["step"] = n.reference(step)
	}
	return one(n.op("arange", attrs).withType(start.dtype(), 1))
}

func eyeLike(n *node) []*val {
	x := n.operand(0)
	dtype := n.dtypeAttr("dtype")
	if dtype == tensor.Invalid {
		dtype = x.dtype()
	}
	k := n.int("k", 0)
	ones := n.op("ones_like", graph.Attrs{"dtype": tensor.Float32}, x)
	y := n.op("tril", graph.Attrs{"diagonal": k}, n.op("triu", graph.Attrs{"diagonal": k}, ones))
	return one(n.cast(y, dtype))
}

func trilu(n *node) []*val {
	op := "tril"
	if n.flag("upper", true) {
		op = "triu"
	}
	attrs := graph.Attrs{}
	if k := n.operandOrNil(1); k != nil {
		attrs["diagonal"] = n.scalarAttr(k)
	}
	return one(n.op(op, attrs, n.operand(0)))
}

// maxBlock is the maximum block size of DepthToSpace and SpaceToDepth. Its square does not overflow.
const maxBlock = 1 << 15

// blocks returns the image operand [N, C, H, W] of DepthToSpace or SpaceToDepth, its sizes and the block size.
func (n *node) blocks() (x *val, dims []sym.Int, block int) {
	x = n.operand(0)
	block = n.int("blocksize", 0)
	dims = n.symShape(x)
	if len(dims) != 4 || block < 1 || block > maxBlock {
		n.failf("want 4 dimensions and a block size from 1 to %d, got %d and %d", maxBlock, len(dims), block)
	}
	return x, dims, block
}

func depthToSpace(n *node) []*val {
	x, sizes, block := n.blocks()
	if channels, known := sizes[1].Known(); known && channels%(block*block) != 0 {
		n.failf("%d channels are no multiple of %d", channels, block*block)
	}
	factor := sym.Of(block)
	channels := sizes[1].Div(sym.Of(block * block))
	split, order := []sym.Int{sizes[0], factor, factor, channels, sizes[2], sizes[3]}, []int{0, 3, 4, 1, 5, 2}
	if n.text("mode", "DCR") == "CRD" {
		split, order = []sym.Int{sizes[0], channels, factor, factor, sizes[2], sizes[3]}, []int{0, 1, 4, 2, 5, 3}
	}
	y := n.op("permute", graph.Attrs{"dims": order}, n.reshapeFor(x, split...))
	return one(n.reshapeFor(y, sizes[0], channels, sizes[2].Mul(factor), sizes[3].Mul(factor)))
}

func spaceToDepth(n *node) []*val {
	x, sizes, block := n.blocks()
	for _, size := range sizes[2:] {
		if k, known := size.Known(); known && k%block != 0 {
			n.failf("size %d is no multiple of %d", k, block)
		}
	}
	b := sym.Of(block)
	h, w := sizes[2].Div(b), sizes[3].Div(b)
	y := n.reshapeFor(x, sizes[0], sizes[1], h, b, w, b)
	y = n.op("permute", graph.Attrs{"dims": []int{0, 3, 5, 1, 2, 4}}, y)
	return one(n.reshapeFor(y, sizes[0], sizes[1].Mul(b).Mul(b), h, w))
}

// reverseSequence converts ReverseSequence, which reverses the first lens[b] elements of sequence b, where lens is
// operand 1.
func reverseSequence(n *node) []*val {
	x, lens := n.operand(0), n.cast(n.operand(1), tensor.Int64)
	time, batch := n.int("time_axis", 0), n.int("batch_axis", 1)
	shape := n.symShape(x)
	rank := len(shape)
	if rank < 2 || time == batch || min(time, batch) != 0 || max(time, batch) != 1 {
		n.failf("time and batch axes must be 0 and 1")
	}
	alongAxis := func(x *val, axis int) *val { // reshapes a vector for broadcasting
		s := slices.Repeat([]int{1}, rank)
		s[axis] = -1
		return n.reshape(x, s...)
	}
	position := alongAxis(n.op("arange", graph.Attrs{"end": n.sizeAttrOf(shape[time]), "dtype": tensor.Int64}), time)
	length := alongAxis(lens, batch)
	mirrored := n.op("sub", nil, n.op("sub", nil, length, 1), position)
	index := n.op("where", nil, n.op("lt", nil, position, length), mirrored, position)
	index = n.op("expand", graph.Attrs{"size": n.sizeAttr(shape...)}, index)
	return one(n.op("gather", graph.Attrs{"dim": time}, x, index))
}

// crop converts Crop, which removes the border of images. The attribute border has the left, top, right and bottom
// width.
func crop(n *node) []*val {
	x := n.operand(0)
	border, _ := n.ints("border")
	sizes := n.symShape(x)
	if len(border) != 4 || len(sizes) != 4 {
		n.failf("want 4 borders and 4 dimensions")
	}
	bottom, right := sizes[2].Sub(sym.Of(border[3])), sizes[3].Sub(sym.Of(border[2]))
	if scale, ok := n.ints("scale"); ok && len(scale) == 2 {
		bottom, right = sym.Of(border[1]+scale[0]), sym.Of(border[0]+scale[1])
	}
	y := n.op("slice", graph.Attrs{"dim": 2, "start": border[1], "end": n.sizeAttrOf(bottom)}, x)
	return one(n.op("slice", graph.Attrs{"dim": 3, "start": border[0], "end": n.sizeAttrOf(right)}, y))
}

func centerCropPad(n *node) []*val {
	x, want := n.operand(0), n.integers(n.operand(1))
	sizes := n.symShape(x)
	axes, ok := n.ints("axes")
	if !ok {
		for i := range want {
			axes = append(axes, i)
		}
	}
	axes = n.axes(axes, len(sizes))
	if want == nil {
		n.failf("%q must be known before the graph runs", n.operand(1).name)
	}
	if len(axes) != len(want) {
		n.failf("got %d sizes for %d axes", len(want), len(axes))
	}
	before, after := make([]sym.Int, len(sizes)), make([]sym.Int, len(sizes))
	for i, a := range axes {
		growth, two := want[i].Sub(sizes[a]), sym.Of(2)
		front := sym.Where(growth.Lt(sym.Int{}), growth.Neg().Div(two).Neg(), growth.Div(two))
		before[a], after[a] = front, growth.Sub(front)
	}
	return one(n.padded(x, before, after, 0))
}

// imageScaler converts ImageScaler, which scales images and adds a bias to each channel.
func imageScaler(n *node) []*val {
	x := n.operand(0)
	scaled := n.op("mul", nil, x, n.float("scale", 1))
	bias, _ := n.floats("bias")
	if len(bias) == 0 {
		return one(scaled)
	}
	data := make([]float32, len(bias))
	for i, b := range bias {
		data[i] = float32(b)
	}
	b := n.cast(constValue(tensor.Must(tensor.FromSlice(data, len(data), 1, 1))), x.dtype())
	return one(n.op("add", nil, scaled, b))
}
