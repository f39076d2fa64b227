package view

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

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
	},
})

// inferPad infers the type of the result. Like at::pad, it applies the rules of constant_pad_nd to mode constant, and
// limits the number of dimensions in the other modes.
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

// inferConstantPad infers the type of the result of at::constant_pad_nd. If no padding is positive, the result is a
// clone of the part of self that remains.
func inferConstantPad(call *graph.Call, self tensor.Type, pad []sym.Int, value tensor.Scalar) ([]graph.Result, error) {
	rank := self.Rank()
	switch {
	case len(pad)%2 != 0:
		return nil, fmt.Errorf("Length of pad must be even but instead it equals %d", len(pad))
	case len(pad) > 2*rank:
		return nil, fmt.Errorf("Length of pad should be no more than twice the number of dimensions of the input. Pad "+
			"length is %dwhile the input has %ddimensions.", len(pad), rank)
	}
	inner, grows, err := croppedPart(self, pad)
	if err != nil {
		return nil, err
	}
	if !grows {
		out, err := kit.LikeType(inner, tensor.Preserve)
		return call.NewResult(out), err
	}
	shape := slices.Clone(self.Shape)
	for dim := rank - len(pad)/2; dim < rank; dim++ {
		before, after := padCounts(pad, rank, dim)
		if exceedsSizes(before) || exceedsSizes(after) {
			return nil, errors.New("numel: integer multiplication overflow")
		}
		shape[dim] = shape[dim].Add(before.Add(after))
		if !kit.SizeAtLeast(shape[dim], 1) {
			return nil, fmt.Errorf("The input size %v, plus negative padding %v and %v resulted in a negative output size, "+
				"which is invalid. Check dimension %d of your input.", self.Shape[dim], before, after, dim)
		}
	}
	out, err := kit.FreshTypeInFormat(self.DType, shape, suggestedFormat(self))
	if err == nil {
		err = kit.CheckNumberFits(value, self.DType)
	}
	return call.NewResult(out), err
}

// croppedPart returns the part of self that remains after negative padding, and whether any padding is positive.
func croppedPart(self tensor.Type, pad []sym.Int) (inner tensor.Type, grows bool, err error) {
	rank := self.Rank()
	inner = self
	for dim := rank - len(pad)/2; dim < rank; dim++ {
		before, after := padCounts(pad, rank, dim)
		grows = grows || kit.SizeAtLeast(before, 1) || kit.SizeAtLeast(after, 1)
		if kit.IsNegative(before) {
			if inner, err = inner.Narrow(dim, before.Neg(), inner.Shape[dim].Add(before)); err != nil {
				return inner, false, err
			}
		}
		if kit.IsNegative(after) {
			if inner, err = inner.Narrow(dim, sym.Int{}, inner.Shape[dim].Add(after)); err != nil {
				return inner, false, err
			}
		}
	}
	return inner, grows, nil
}

// exceedsSizes reports whether a number is known and exceeds every possible size of a dimension.
func exceedsSizes(size sym.Int) bool {
	knownSize, isKnown := size.Known()
	return isKnown && knownSize > tensor.MaxBytes
}

// compilePad returns a kernel for the mode: copies and fills for mode constant, else a copy by spans.
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

// compileConstantPad returns a kernel that copies the inner part of the operand and fills the border. For each
// dimension, the border has two slabs: before and after the inner part. No element is in two slabs, because the slabs
// of a dimension exclude the slabs of the previous dimensions.
func compileConstantPad(c *graph.Call, pad []int, value tensor.Scalar) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	dst, src := kit.OutBuffer(c, 0), kit.InBuffer(c, 0)
	innerType, _, err := croppedPart(src.Meta.Type(), sym.Ints(pad...))
	if err != nil {
		return nil, err
	}
	inner := kit.KnownMeta(innerType)
	var jobs []copies.Job
	number := value.Tensor(dst.Meta.DType)
	remaining := dst.Meta // the output without the slabs of the previous dimensions
	for dim := range remaining.Shape {
		before, _ := padCounts(pad, remaining.Rank(), dim)
		before = min(max(before, 0), remaining.Shape[dim])
		end := min(before+inner.Shape[dim], remaining.Shape[dim])
		for _, slab := range [2]struct{ start, length int }{{0, before}, {end, remaining.Shape[dim] - end}} {
			slabMeta, err := remaining.Narrow(dim, slab.start, slab.length)
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, copies.Job{Dst: dst.View(slabMeta), Fill: number})
		}
		if remaining, err = remaining.Narrow(dim, before, end-before); err != nil {
			return nil, err
		}
	}
	return copies.Kernel(append(jobs, copies.Job{Dst: dst.View(remaining), Src: src.View(inner)})...), nil
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
	return []*tensor.Tensor{copies.SpanRef(in[0], borderTables(attrs, in[0].Shape), kit.KnownSizes(shape))}, nil
}

// refConstantPad is the reference implementation of mode constant and of constant_pad_nd.
func refConstantPad(in *tensor.Tensor, pad []int, value tensor.Scalar) *tensor.Tensor {
	rank := in.Rank()
	shape := slices.Clone(in.Shape)
	for dim := range shape {
		before, after := padCounts(pad, rank, dim)
		shape[dim] += before + after
	}
	out := tensor.Zeros(in.DType, shape...)
	sourceIndex := make([]int, rank)
	kit.EachIndex(shape, func(index []int) {
		isInside := true
		for dim := range sourceIndex {
			before, _ := padCounts(pad, rank, dim)
			sourceIndex[dim] = index[dim] - before
			isInside = isInside && sourceIndex[dim] >= 0 && sourceIndex[dim] < in.Shape[dim]
		}
		if isInside {
			out.Set(in.At(sourceIndex...), index...)
		} else {
			out.Set(value, index...)
		}
	})
	return out
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
