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

// This file has the padding with a number, for constant_pad_nd and for mode constant of pad. The list pad begins with
// the last dimension. For each padded dimension it has two numbers: the elements that are added at the beginning, and
// at the end (padCounts). Negative numbers remove elements.

// inferConstantPad infers the type of the result of at::constant_pad_nd. If no padding is positive, the result is a
// clone of the part of self that remains after cropping. A size of the result may be 0, as in PyTorch 2; PyTorch 1.13
// rejects it if any padding is positive.
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

// compileConstantPad returns a kernel that copies the inner part of the operand and fills the border. For each
// dimension, the border has one slab before and one after the inner part. Slabs do not overlap, because the slabs of a
// dimension exclude the slabs of the previous dimensions.
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
		before = max(before, 0)
		end := before + inner.Shape[dim]
		for _, slab := range [2]struct{ start, length int }{{0, before}, {end, remaining.Shape[dim] - end}} {
			if slab.length == 0 {
				continue
			}
			slabMeta, err := remaining.Narrow(dim, slab.start, slab.length)
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, copies.Job{Dst: dst.View(slabMeta), Fill: number})
		}
		if end-before == remaining.Shape[dim] {
			continue
		}
		if remaining, err = remaining.Narrow(dim, before, end-before); err != nil {
			return nil, err
		}
	}
	return copies.Kernel(append(jobs, copies.Job{Dst: dst.View(remaining), Src: src.View(inner)})...), nil
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
