package operators

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts operators that create values, such as Constant and Range, and operators that rearrange elements or
// select a region of images, such as DepthToSpace and CenterCropPad.
//
// A value is a tensor of the model, and node.Op adds an op to the graph. A sym.Int is a size: a number, or an
// expression over symbols. IntsAttr and NumberAttr return the elements of a value in the form of an attribute. The
// attribute has numbers or expressions if they are known before the graph runs. Otherwise it is a reference to the
// value.

// constant converts Constant. The type of the value determines which attribute has the value.
func constant(n *node) []*value {
	switch {
	case n.HasAttr("value"):
		attribute := n.Attr("value", pb.AttributeTensor)
		if attribute.T == nil {
			n.Failf("attribute \"value\" has no tensor")
		}
		t, err := n.Weight(attribute.T)
		if err != nil {
			n.Failf("%w", err)
		}
		return single(convert.WeightValue(attribute.T, t))
	case n.HasAttr("value_float"):
		attribute := n.Attr("value_float", pb.AttributeFloat)
		return single(convert.Constant(tensor.Must(tensor.FromSlice([]float32{attribute.F}))))
	case n.HasAttr("value_int"):
		return single(convert.Constant(tensor.Must(tensor.FromSlice([]int64{int64(n.Int("value_int", 0))}))))
	case n.HasAttr("value_floats"):
		attribute := n.Attr("value_floats", pb.AttributeFloats)
		return single(convert.Constant(tensor.Must(tensor.FromSlice(slices.Clone(attribute.Floats), len(attribute.Floats)))))
	case n.HasAttr("value_ints"):
		list, _ := n.Ints("value_ints")
		return single(convert.IntVector(list...))
	case n.HasAttr("sparse_value"):
		t, proto := n.SparseAttr("sparse_value")
		return single(convert.WeightValue(proto.Values, t))
	case n.HasAttr("value_string") || n.HasAttr("value_strings"):
		return single(constantStrings(n))
	}
	n.Failf("it has none of the attributes for the value, such as \"value\" or \"value_ints\"")
	return nil
}

// constantStrings returns the value of a Constant of strings.
func constantStrings(n *node) *value {
	if list, ok := n.Strings("value_strings"); ok {
		return n.StringCodes(list...)
	}
	code := n.Reshape(n.StringCodes(n.Text("value_string", ""))) // a 0-dim value of int64
	const isText = true
	return n.MarkStrings(code, isText)
}

// constantOfShape converts ConstantOfShape, which creates a tensor of the shape in operand 0. All elements are the
// element of the attribute value, or float32 0 if this attribute is omitted.
func constantOfShape(n *node) []*value {
	fillValue, dtype := any(0.0), tensor.Float32
	if attr := n.Attr("value", pb.AttributeTensor); attr != nil && attr.T != nil {
		data, err := n.Weight(attr.T)
		if err != nil {
			n.Failf("%w", err)
		}
		fillValue, dtype = n.NumberAttr(convert.Constant(data)), data.DType
	}
	shape := n.Operand(0)
	filled := n.Op("full", graph.Attrs{"fill_value": fillValue, "dtype": dtype, "size": n.IntsAttr(shape)})
	if sizes := knownSizes(n, shape); sizes != nil { // -1 for 0, and for a size that is no known number
		filled.WithSizes(dtype, sizes...)
	}
	return single(filled)
}

// rangeOp converts Range, which counts from start to end. The result is empty if the step leads away from the end. The
// op arange rejects such an end, so rangeOp replaces it by start.
func rangeOp(n *node) []*value {
	start, end, step := n.Operand(0), n.Operand(1), n.Operand(2)
	stepSize := 0 // unknown
	if steps := n.Integers(step); n.Integers(start) != nil && n.Integers(end) != nil && len(steps) == 1 {
		stepSize, _ = steps[0].Known()
	}
	switch { // known integers and expressions remain attributes
	case stepSize > 0:
		end = n.Op("maximum", nil, start, end)
	case stepSize < 0:
		end = n.Op("minimum", nil, start, end)
	default:
		end = n.Op("where", nil, n.Op("lt", nil, step, 0), n.Op("minimum", nil, start, end),
			n.Op("maximum", nil, start, end)).WithType(start.DType(), 0)
	}
	attrs := graph.Attrs{"start": n.NumberAttr(start), "end": n.NumberAttr(end), "step": n.NumberAttr(step),
		"dtype": start.DType()}
	if step.Data() == nil {
		// For an expression, arange would record a guard: the condition that the step has the same value as at the
		// hints.
		attrs["step"] = n.Reference(step)
	}
	return single(n.Op("arange", attrs).WithType(start.DType(), 1))
}

// eyeLike converts EyeLike, which creates a matrix of the operand's shape with ones on diagonal k and zeros elsewhere.
// From a matrix of ones, triu removes the elements below the diagonal, and tril removes the elements above it.
func eyeLike(n *node) []*value {
	x := n.Operand(0)
	dtype := n.DTypeAttr("dtype")
	if dtype == tensor.Invalid {
		dtype = x.DType()
	}
	diagonal := n.Int("k", 0)
	ones := n.Op("ones_like", graph.Attrs{"dtype": tensor.Float32}, x)
	y := n.Op("tril", graph.Attrs{"diagonal": diagonal}, n.Op("triu", graph.Attrs{"diagonal": diagonal}, ones))
	return single(n.Cast(y, dtype))
}

// trilu converts Trilu, the upper or lower triangle of matrices. Operand 1 is the diagonal.
func trilu(n *node) []*value {
	op := "tril"
	if n.Flag("upper", true) {
		op = "triu"
	}
	attrs := graph.Attrs{}
	if diagonal := n.OperandOrNil(1); diagonal != nil {
		attrs["diagonal"] = n.IntAttr(diagonal)
	}
	return single(n.Op(op, attrs, n.Operand(0)))
}

// maxBlock is the maximum block size of DepthToSpace and SpaceToDepth. The square of maxBlock does not overflow.
const maxBlock = 1 << 15

// blockOperand returns the operand [N, C, H, W] of DepthToSpace or SpaceToDepth, and the sizes of the operand. block is
// the attribute blocksize, which is the height and the width of a block of pixels.
func blockOperand(n *node) (x *value, sizes []sym.Int, block int) {
	x = n.Operand(0)
	block = n.Int("blocksize", 0)
	sizes = n.SymShape(x)
	if len(sizes) != 4 || block < 1 || block > maxBlock {
		n.Failf("want 4 dimensions and a block size from 1 to %d, got %d and %d", maxBlock, len(sizes), block)
	}
	return x, sizes, block
}

// depthToSpace converts DepthToSpace: [N, C*block², H, W] becomes [N, C, H*block, W*block]. The channels are ordered as
// [block, block, C] in mode DCR (depth, column, row), and as [C, block, block] in mode CRD.
func depthToSpace(n *node) []*value {
	x, sizes, block := blockOperand(n)
	if channels, known := sizes[1].Known(); known && channels%(block*block) != 0 {
		n.Failf("%d channels are no multiple of %d", channels, block*block)
	}
	factor := sym.Of(block)
	channels := sizes[1].Div(sym.Of(block * block))
	// The permuted dimensions are N, C, H, block, W, block.
	splitSizes, permutation := []sym.Int{sizes[0], factor, factor, channels, sizes[2], sizes[3]}, []int{0, 3, 4, 1, 5, 2}
	if n.Text("mode", "DCR") == "CRD" {
		splitSizes, permutation = []sym.Int{sizes[0], channels, factor, factor, sizes[2], sizes[3]}, []int{0, 1, 4, 2, 5, 3}
	}
	y := n.Op("permute", graph.Attrs{"dims": permutation}, n.ReshapeSym(x, splitSizes...))
	return single(n.ReshapeSym(y, sizes[0], channels, sizes[2].Mul(factor), sizes[3].Mul(factor)))
}

// spaceToDepth converts SpaceToDepth: [N, C, H, W] becomes [N, block*block*C, H/block, W/block].
func spaceToDepth(n *node) []*value {
	x, sizes, block := blockOperand(n)
	for _, size := range sizes[2:] {
		if number, known := size.Known(); known && number%block != 0 {
			n.Failf("size %d is no multiple of %d", number, block)
		}
	}
	factor := sym.Of(block)
	height, width := sizes[2].Div(factor), sizes[3].Div(factor)
	y := n.ReshapeSym(x, sizes[0], sizes[1], height, factor, width, factor)
	y = n.Op("permute", graph.Attrs{"dims": []int{0, 3, 5, 1, 2, 4}}, y) // N, block, block, C, H/block, W/block
	return single(n.ReshapeSym(y, sizes[0], sizes[1].Mul(factor).Mul(factor), height, width))
}

// reverseSequence converts ReverseSequence, which reverses the first lengths[b] elements of sequence b. lengths is
// operand 1. For example, the sequence [1, 2, 3, 4] with length 3 becomes [3, 2, 1, 4]. Element t of the result is
// element lengths[b]-1-t of the operand if t < lengths[b]. Otherwise it is element t.
func reverseSequence(n *node) []*value {
	x, lengths := n.Operand(0), n.Cast(n.Operand(1), tensor.Int64)
	timeAxis, batchAxis := n.Int("time_axis", 0), n.Int("batch_axis", 1)
	shape := n.SymShape(x)
	rank := len(shape)
	if rank < 2 || timeAxis == batchAxis || min(timeAxis, batchAxis) != 0 || max(timeAxis, batchAxis) != 1 {
		n.Failf("want time_axis and batch_axis 0 and 1, in any order, of at least 2 dimensions: got %d and %d of %d",
			timeAxis, batchAxis, rank)
	}
	broadcastable := func(vector *value, axis int) *value { // has the elements of the vector along the axis
		sizes := slices.Repeat([]int{1}, rank)
		sizes[axis] = -1 // the length of the vector
		return n.Reshape(vector, sizes...)
	}
	position := n.Op("arange", graph.Attrs{"end": n.SizeAttr(shape[timeAxis]), "dtype": tensor.Int64})
	position = broadcastable(position, timeAxis)
	length := broadcastable(lengths, batchAxis)
	mirrored := n.Op("sub", nil, n.Op("sub", nil, length, 1), position)
	index := n.Op("where", nil, n.Op("lt", nil, position, length), mirrored, position)
	index = n.Op("expand", graph.Attrs{"size": n.SizesAttr(shape...)}, index)
	return single(n.Op("gather", graph.Attrs{"dim": timeAxis}, x, index))
}

// crop converts Crop, which removes the border of images. The attribute border has the widths of the border at the
// left, top, right and bottom. If the attribute scale is given, it is the height and width of the result, and the right
// and bottom widths are ignored.
func crop(n *node) []*value {
	x := n.Operand(0)
	border, _ := n.Ints("border")
	sizes := n.SymShape(x)
	if len(border) != 4 || len(sizes) != 4 {
		n.Failf("want 4 borders and 4 dimensions")
	}
	bottom, right := sizes[2].Sub(sym.Of(border[3])), sizes[3].Sub(sym.Of(border[2]))
	if scale, ok := n.Ints("scale"); ok && len(scale) == 2 {
		bottom, right = sym.Of(border[1]+scale[0]), sym.Of(border[0]+scale[1])
	}
	y := n.Op("slice", graph.Attrs{"dim": 2, "start": border[1], "end": n.SizeAttr(bottom)}, x)
	return single(n.Op("slice", graph.Attrs{"dim": 3, "start": border[0], "end": n.SizeAttr(right)}, y))
}

// centerCropPad converts CenterCropPad, which crops or pads axes to the sizes in operand 1. If the change of a size is
// odd, the odd element is cropped or added at the end. [padded] removes elements if a width is negative.
func centerCropPad(n *node) []*value {
	x, want := n.Operand(0), n.Integers(n.Operand(1))
	sizes := n.SymShape(x)
	axes, isGiven := n.Ints("axes")
	if !isGiven {
		axes = firstInts(len(sizes))
	}
	axes = n.Axes(axes, len(sizes))
	if length := n.LengthOf(n.Operand(1)); length >= 0 && length != len(axes) {
		n.Failf("got %d sizes for %d axes", length, len(axes))
	}
	if want == nil {
		return single(centerCropPadBy(n, x, n.Operand(1), axes))
	}
	before, after := make([]sym.Int, len(sizes)), make([]sym.Int, len(sizes))
	for i, axis := range axes {
		// front = growth/2, rounded towards 0. Div rounds down, so a negative growth is negated before and after the
		// division.
		growth, two := want[i].Sub(sizes[axis]), sym.Of(2)
		front := sym.Where(growth.Lt(sym.Int{}), growth.Neg().Div(two).Neg(), growth.Div(two))
		before[axis], after[axis] = front, growth.Sub(front)
	}
	return single(padded(n, x, before, after, 0))
}

// centerCropPadBy is [centerCropPad] to computed sizes.
func centerCropPadBy(n *node, x, want *value, axes []int) *value {
	rank, axesVector := n.Rank(x), convert.IntVector(axes...)
	sizes := n.Op("index_select", graph.Attrs{"dim": 0}, n.ShapeVector(x), axesVector)
	growth := n.Op("sub", nil, n.Cast(want, tensor.Int64), sizes)
	front := n.Op("div", graph.Attrs{"rounding_mode": "trunc"}, growth, 2)
	widths := n.Op("cat", nil, front, n.Op("sub", nil, growth, front)).WithType(tensor.Int64, 1)
	positions := n.Op("cat", nil, axesVector, n.Op("add", nil, axesVector, rank))
	return padConstantBy(n, x, scattered(n, repeatedInt(0, 2*rank), positions, widths), 0)
}

// imageScaler converts ImageScaler, which multiplies images [N, C, H, W] by a number and adds a bias to each channel.
func imageScaler(n *node) []*value {
	x := n.Operand(0)
	scaled := n.Op("mul", nil, x, n.Float("scale", 1))
	bias, _ := n.Floats("bias")
	if len(bias) == 0 {
		return single(scaled)
	}
	data := make([]float32, len(bias))
	for i, number := range bias {
		data[i] = float32(number)
	}
	perChannel := n.Cast(convert.Constant(tensor.Must(tensor.FromSlice(data, len(data), 1, 1))), x.DType())
	return single(n.Op("add", nil, scaled, perChannel))
}
