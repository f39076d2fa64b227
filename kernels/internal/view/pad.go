package view

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/index"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type padAttrs struct {
	Pad   []sym.Int     `attr:"pad" doc:"numbers of elements to add: before and after the last dimension, before and after the dimension in front of it, and so on; negative numbers remove elements"`
	Mode  string        `attr:"mode" default:"constant" doc:"constant, reflect, replicate or circular"`
	Value tensor.Scalar `attr:"value" default:"none" doc:"fill value for mode constant; default: 0"`
	// AnySize is for ONNX, whose rules PyTorch's kernels do not have.
	AnySize bool `attr:"any_size" default:"false" doc:"in modes reflect and replicate, accept other dimensions of size 0, and padding that exceeds the size: a reflection is then reflected again"`
}

// value returns the fill value.
func (attrs *padAttrs) value() tensor.Scalar {
	if attrs.Value.IsSet() {
		return attrs.Value
	}
	return tensor.IntScalar(0)
}

// Pad is aten::pad. With padding 2 on both ends, the modes give along a dimension a b c:
//
//	constant    0 0 a b c 0 0
//	reflect     c b a b c b a
//	replicate   a a a b c c c
//	circular    b c a b c a b
var Pad = kit.Define[*padAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "pad",
		Doc: "Adds elements around self.\nMode `constant` pads any dimensions and keeps the memory format that self " +
			"suggests. The other modes pad the last\n1 to 3 dimensions of a value, which must have one or two other " +
			"dimensions, and return a row-major result:\n`reflect` mirrors self without its edge, `replicate` repeats the " +
			"edge, `circular` repeats self.",
		Params: []graph.Param{kit.Self},
		Infer:  inferPad,
		Ref:    refPad,
		Examples: []graph.Example{{In: []tensor.Meta{kit.NHWC(1, 2, 3, 4)},
			Attrs: graph.Attrs{"pad": []int{1, 0, 2, -1}, "value": 0.5}},
			{In: []tensor.Meta{kit.F32(1, 2, 3, 4)}, Attrs: graph.Attrs{"pad": []int{2, 1, 1, 2}, "mode": "reflect"}}},
	},
	Facts: graph.Facts{Parallel: padLoops, WritesAnyDenseLayout: true, ImageRole: graph.ImagePreserving},
	Lowerings: graph.Lowerings{
		Impls: []graph.Impl{copies.BorderImpl(compilePad, func(c *graph.Call) []int {
			return padsBefore(kit.Attrs[*padAttrs](c).Pad, c.Meta(0).Rank())
		})},
	},
})

type constantPadAttrs struct {
	Pad   []sym.Int     `attr:"pad" doc:"numbers of elements to add: before and after the last dimension, before and after the dimension in front of it, and so on; negative numbers remove elements"`
	Value tensor.Scalar `attr:"value" default:"0" doc:"number to fill with"`
}

// ConstantPadNd is aten::constant_pad_nd.
var ConstantPadNd = kit.Define[*constantPadAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:   "constant_pad_nd",
		Doc:    "Pads self with a number, as `pad` does in mode `constant`.",
		Params: []graph.Param{kit.Self},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			attrs := kit.Attrs[*constantPadAttrs](c)
			return inferConstantPad(c, c.Type(0), attrs.Pad, attrs.Value)
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			attrs := kit.Attrs[*constantPadAttrs](c)
			return []*tensor.Tensor{refConstantPad(in[0], kit.KnownSizes(attrs.Pad), attrs.Value)}, nil
		},
		Examples: kit.OneExample(kit.F32(2, 3), graph.Attrs{"pad": []int{1, 2}, "value": 7}),
	},
	Facts: graph.Facts{Parallel: constantPadLoops, WritesAnyDenseLayout: true, ImageRole: graph.ImagePreserving,
		Fills: true},
	Lowerings: graph.Lowerings{
		Impls: []graph.Impl{copies.BorderImpl(func(c *graph.Call) (*graph.Kernel, error) {
			attrs := kit.Attrs[*constantPadAttrs](c)
			return compileConstantPad(c, kit.KnownSizes(attrs.Pad), attrs.Value)
		}, func(c *graph.Call) []int { return padsBefore(kit.Attrs[*constantPadAttrs](c).Pad, c.Meta(0).Rank()) })},
		Extend: extendByZeros,
	},
})

// extendByZeros is [graph.Op.Extend] of constant_pad_nd, for zeros at the end of one dimension. A number of zeros that
// depends on symbols may be 0 at the present sizes.
func extendByZeros(n *graph.Node) (extension graph.Extension, ok bool) {
	attrs, isPad := n.Attrs.(*constantPadAttrs)
	if !isPad || attrs.Value.Complex() != 0 {
		return extension, false
	}
	extended := -1 // the only element of pad that is not 0
	for name, given := range n.AttrsAsGiven() {
		if name != "pad" {
			continue
		}
		list, _ := given.([]any)
		for i, count := range attrs.Pad {
			isText := i < len(list) && graph.ContainsText(list[i], func(string) bool { return true })
			switch {
			case !isText && count.Same(sym.Int{}):
			case extended >= 0 || i%2 == 0:
				return extension, false
			default:
				extended = i
			}
		}
		if extended >= 0 {
			return index.AppendOf(n.Out[0].Meta.Rank()-1-extended/2, given, n.In[0], graph.Arg{}), true
		}
	}
	return extension, false
}

// inferPad infers the type of the result. Like at::pad, it applies the rules of constant_pad_nd in mode constant, and
// limits the number of dimensions in all other modes.
func inferPad(call *graph.Call) ([]graph.Result, error) {
	attrs, self := kit.Attrs[*padAttrs](call), call.Type(0)
	switch {
	case len(attrs.Pad)%2 != 0:
		return nil, errors.New("Padding length must be divisible by 2")
	case len(attrs.Pad) > 2*self.Rank():
		return nil, errors.New("Padding length too large")
	case attrs.Mode == "constant":
		return inferConstantPad(call, self, attrs.Pad, attrs.value())
	case !slices.Contains([]string{"reflect", "replicate", "circular"}, attrs.Mode):
		return nil, fmt.Errorf("Unrecognized padding mode %s", attrs.Mode)
	case attrs.value().Complex() != 0:
		return nil, fmt.Errorf("Padding mode \"%s\" doesn't take in value argument", attrs.Mode)
	}
	paddedDims := len(attrs.Pad) / 2
	otherDims := self.Rank() - paddedDims
	if paddedDims < 1 || paddedDims > 3 || otherDims < 1 || otherDims > 2 {
		return nil, errors.New("Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now")
	}
	shape, err := borderShape(attrs, self)
	if err != nil {
		return nil, err
	}
	out, err := kit.FreshType(self.DType, shape)
	return call.NewResult(out), err
}

// compilePad returns a kernel for the mode. The kernel consists of copies and fills in mode constant, and of copies of
// ranges of indices (spans) in all other modes.
func compilePad(call *graph.Call) (*graph.Kernel, error) {
	attrs := kit.Attrs[*padAttrs](call)
	if attrs.Mode == "constant" {
		return compileConstantPad(call, kit.KnownSizes(attrs.Pad), attrs.value())
	}
	if call.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	spans, pad, inShape := copies.IdentitySpans(call.Out[0].Shape), kit.KnownSizes(attrs.Pad), call.Meta(0).Shape
	for dim := len(inShape) - len(pad)/2; dim < len(inShape); dim++ {
		before, after := padCounts(pad, len(inShape), dim)
		spans[dim] = BorderSpans(attrs.Mode, inShape[dim], before, after)
	}
	return copies.SpanKernel(kit.OutBuffer(call, 0), kit.InBuffer(call, 0), spans)
}

// padsBefore returns, for each dimension, the number of elements that are added before the operand's first element.
func padsBefore(pad []sym.Int, rank int) []int {
	counts, numbers := make([]int, rank), kit.KnownSizes(pad)
	for dim := range counts {
		counts[dim], _ = padCounts(numbers, rank, dim)
	}
	return counts
}

// refPad is the reference implementation of pad.
func refPad(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs := kit.Attrs[*padAttrs](c)
	if attrs.Mode == "constant" {
		return []*tensor.Tensor{refConstantPad(in[0], kit.KnownSizes(attrs.Pad), attrs.value())}, nil
	}
	shape, err := borderShape(attrs, in[0].Meta.Type())
	if err != nil {
		return nil, err
	}
	if tensor.Numel(kit.KnownSizes(shape)) == 0 {
		return []*tensor.Tensor{tensor.Zeros(in[0].DType, kit.KnownSizes(shape)...)}, nil
	}
	tables := make([][]int, len(shape)) // nil for dimensions that are not padded
	pad := kit.KnownSizes(attrs.Pad)
	for dim := len(shape) - len(pad)/2; dim < len(shape); dim++ {
		before, after := padCounts(pad, len(shape), dim)
		tables[dim] = BorderTable(attrs.Mode, in[0].Shape[dim], before, after)
	}
	return []*tensor.Tensor{copies.SpanRef(in[0], tables, kit.KnownSizes(shape))}, nil
}

// padLoops returns the loops over the dimensions that are not padded.
func padLoops(c *graph.Call) []graph.Parallel { return unpaddedLoops(c, kit.Attrs[*padAttrs](c).Pad) }

// constantPadLoops is padLoops for constant_pad_nd.
func constantPadLoops(c *graph.Call) []graph.Parallel {
	return unpaddedLoops(c, kit.Attrs[*constantPadAttrs](c).Pad)
}

// unpaddedLoops returns the loops over the dimensions with padding 0 at both ends.
func unpaddedLoops(c *graph.Call, pad []sym.Int) []graph.Parallel {
	var dims []int
	for i, count := range kit.KnownSizes(pad) {
		if count != 0 {
			dims = append(dims, -1-i/2) // pad lists the last dimension first
		}
	}
	return kit.LoopsExceptDims(dims...)(c)
}
