package view

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type rollAttrs struct {
	Shifts []int `attr:"shifts" range:"int64" doc:"number of positions to shift, for each of dims"`
	Dims   []int `attr:"dims" default:"" doc:"dimensions to shift along; default: the flattened self"`
}

// Roll is torch.roll.
var Roll = kit.Define[*rollAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:     "roll",
		Doc:      "Shifts the elements along dimensions, cyclically.",
		Params:   []graph.Param{kit.Self},
		Infer:    inferRoll,
		Ref:      refRoll,
		Examples: kit.OneExample(kit.NHWC(2, 3, 4, 5), graph.Attrs{"shifts": []int{1, -2}, "dims": []int{1, 3}}),
	},
	Facts: graph.Facts{Parallel: rollLoops, FlopsPerElement: copyFlops, WritesAnyDenseLayout: true,
		ImageRole: graph.ImagePreserving},
	Lowerings: graph.Lowerings{Compile: compileRoll},
})

// inferRoll infers the type of the result. For each dimension, at::roll splits self into two parts and concatenates
// them in exchanged order. Therefore the result has the memory format that the strides of the parts suggest.
func inferRoll(call *graph.Call) ([]graph.Result, error) {
	attrs, self := kit.Attrs[*rollAttrs](call), call.Type(0)
	shiftsFlattened := len(attrs.Dims) == 0 && len(attrs.Shifts) == 1
	switch {
	case len(attrs.Shifts) == 0:
		return nil, errors.New("`shifts` required")
	case shiftsFlattened && self.Rank() == 1 && kit.IsEmpty(self): // a clone in PyTorch
		return call.NewResult(rule.PreserveType(self)), nil
	case shiftsFlattened:
		return call.NewResult(self.RowMajor()), nil
	case len(attrs.Dims) != len(attrs.Shifts):
		return nil, fmt.Errorf("shifts and dimensions must align. shifts: %d, dims:%d", len(attrs.Shifts), len(attrs.Dims))
	}
	self = self.WithStrides(self.Strides) // without self's storage offset
	for i, d := range attrs.Dims {
		if kit.IsEmpty(self) {
			self = rule.PreserveType(self)
			continue
		}
		d, err := rollDim(d, self.Rank())
		if err != nil {
			return nil, err
		}
		if self, err = RolledType(self, d, rollStart(self.Shape[d], attrs.Shifts[i])); err != nil {
			return nil, err
		}
	}
	return call.NewResult(self), nil
}

// RolledType returns the type of self after dimension d is rotated such that index start becomes index 0.
func RolledType(self tensor.Type, d int, start sym.Int) (tensor.Type, error) {
	first, err := self.Narrow(d, start, self.Shape[d].Sub(start))
	if err != nil {
		return self, err
	}
	second, err := self.Narrow(d, sym.Int{}, start)
	if err != nil {
		return self, err
	}
	// The concatenation has the shape of self.
	return tensor.NewTypeFormat(self.DType, self.Shape, joinFormat([]tensor.Type{first, second}))
}

// rollDim returns a dimension as a non-negative number.
func rollDim(dim, rank int) (int, error) {
	d, err := tensor.WrapDim(dim, rank)
	if err == nil && rank == 0 {
		err = fmt.Errorf("Dimension specified as %d but tensor has no dimensions", dim)
	}
	return d, err
}

// rollStart returns the index of the operand that becomes index 0 if a dimension is shifted. It is -shift modulo the
// size of the dimension. For example, a shift of [a b c d] by 1 gives [d a b c], so the start is 3.
func rollStart(size sym.Int, shift int) sym.Int { return size.Sub(sym.Of(shift).Mod(size)).Mod(size) }

// rollStarts returns, for each dimension of the shape, the index of the operand that becomes index 0.
func rollStarts(shape, shifts, dims []int) ([]int, error) {
	starts := make([]int, len(shape))
	for i, dim := range dims { // a dimension may occur several times
		d, err := rollDim(dim, len(shape))
		if err != nil {
			return nil, err
		}
		starts[d] = (starts[d] + kit.KnownSize(rollStart(sym.Of(shape[d]), shifts[i]))) % shape[d]
	}
	return starts, nil
}

// rollSpans returns, for each dimension of the result, the spans of the operand ([copies.Span]). Index starts[d] of the
// operand becomes index 0 of the result.
func rollSpans(shape, starts []int) [][]copies.Span {
	spans := copies.IdentitySpans(shape)
	for d, start := range starts {
		if start > 0 {
			spans[d] = []copies.Span{{Count: shape[d] - start, InStart: start, InStep: 1},
				{OutStart: shape[d] - start, Count: start, InStep: 1}}
		}
	}
	return spans
}

// compileRoll returns the kernel. If the op has no dims, row-major values are viewed as vectors.
func compileRoll(c *graph.Call) (*graph.Kernel, error) {
	attrs, dst, src := kit.Attrs[*rollAttrs](c), kit.OutBuffer(c, 0), kit.InBuffer(c, 0)
	count := src.Meta.Numel()
	if count == 0 {
		return &graph.Kernel{}, nil
	}
	if len(attrs.Dims) > 0 {
		starts, err := rollStarts(src.Meta.Shape, attrs.Shifts, attrs.Dims)
		if err != nil {
			return nil, err
		}
		return copies.SpanKernel(dst, src, rollSpans(src.Meta.Shape, starts))
	}
	starts, err := rollStarts([]int{count}, attrs.Shifts, []int{0}) // along dimension 0 of a vector
	if err != nil {
		return nil, err
	}
	if !src.Meta.IsContiguous() || !dst.Meta.IsContiguous() {
		return compileFlatRoll(dst, src, starts[0]), nil
	}
	dst.Meta, src.Meta = tensor.New(dst.Meta.DType, count), tensor.New(src.Meta.DType, count)
	return copies.SpanKernel(dst, src, rollSpans([]int{count}, starts))
}

// compileFlatRoll returns a kernel that shifts elements in row-major order through scratch memory. It is for an operand
// or a result that is not row-major. Element start of the operand becomes element 0 of the result.
func compileFlatRoll(dst, src kit.Buffer, start int) *graph.Kernel {
	dtype, count := src.Meta.DType, src.Meta.Numel()
	size := dtype.Size()
	// Scratch memory has two adjacent row-major copies of the operand. They contain the shifted value as one contiguous
	// range of elements, from element start on.
	var jobs []copies.Job
	for copyIndex := range 2 {
		target := kit.ScratchBuffer(copyIndex*count*size, tensor.New(dtype, src.Meta.Shape...))
		jobs = append(jobs, copies.Job{Dst: target, Src: src})
	}
	copyTwice, copyTwiceScratch := copies.Phase(jobs...)
	shifted := kit.ScratchBuffer(start*size, tensor.New(dtype, dst.Meta.Shape...))
	copyOut, copyOutScratch := copies.Phase(copies.Job{Dst: dst, Src: shifted})
	return &graph.Kernel{Phases: []graph.Phase{copyTwice, copyOut},
		WorkerScratch: max(copyTwiceScratch, copyOutScratch), Scratch: 2 * count * size}
}

// refRoll is the reference implementation of roll.
func refRoll(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs := kit.Attrs[*rollAttrs](c)
	operand := in[0].CopyTo(tensor.New(in[0].DType, in[0].Shape...))
	shape, dims := operand.Shape, attrs.Dims
	if len(dims) == 0 {
		shape, dims = []int{operand.Numel()}, []int{0}
		var err error
		if operand, err = operand.View(tensor.New(operand.DType, shape...)); err != nil {
			return nil, err
		}
	}
	out := tensor.Zeros(operand.DType, shape...)
	targetIndex := make([]int, len(shape))
	kit.EachIndex(shape, func(index []int) {
		copy(targetIndex, index)
		for i, d := range dims {
			d, err := tensor.WrapDim(d, len(shape))
			if err != nil {
				panic("view: roll's reference got a dimension that inference rejects")
			}
			size := shape[d]
			targetIndex[d] = ((targetIndex[d]+attrs.Shifts[i]%size)%size + size) % size
		}
		out.Set(operand.At(index...), targetIndex...)
	})
	out, err := out.View(tensor.New(operand.DType, in[0].Shape...))
	return []*tensor.Tensor{out}, err
}

// rollLoops returns the loops over the dimensions that are not shifted.
func rollLoops(c *graph.Call) []graph.Parallel {
	dims := slices.Clone(kit.Attrs[*rollAttrs](c).Dims)
	if len(dims) == 0 {
		return nil
	}
	return kit.LoopsExceptDims(dims...)(c)
}
