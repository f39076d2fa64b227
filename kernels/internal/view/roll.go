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
var Roll = kit.Define[rollAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:     "roll",
		Doc:      "Shifts the elements along dimensions, cyclically.",
		Params:   []graph.Param{kit.Self},
		Infer:    inferRoll,
		Ref:      refRoll,
		Examples: kit.OneExample(kit.NHWC(2, 3, 4, 5), graph.Attrs{"shifts": []int{1, -2}, "dims": []int{1, 3}}),
	},
	Facts: graph.Facts{Parallel: rollLoops, Each: graph.Each{Simple: 0.1}, AnyOrder: true,
		ImageRole: graph.ImagePreserving},
	Lowerings: graph.Lowerings{Compile: compileRoll},
})

// inferRoll infers the type of the result. For each dimension, at::roll concatenates the two parts of self in exchanged
// order. Therefore the result has the memory format that the strides of the parts suggest.
func inferRoll(c *graph.Call) ([]graph.Result, error) {
	a, t := kit.Attrs[rollAttrs](c), c.Type(0)
	switch {
	case len(a.Shifts) == 0:
		return nil, errors.New("`shifts` required")
	case len(a.Dims) == 0 && len(a.Shifts) == 1 && t.Rank() == 1 && kit.IsEmpty(t):
		return c.One(rule.PreserveType(t)), nil
	case len(a.Dims) == 0 && len(a.Shifts) == 1:
		return c.One(t.RowMajor()), nil
	case len(a.Dims) != len(a.Shifts):
		return nil, fmt.Errorf("shifts and dimensions must align. shifts: %d, dims:%d", len(a.Shifts), len(a.Dims))
	}
	t = t.WithStrides(t.Strides)
	for i, d := range a.Dims {
		if kit.IsEmpty(t) {
			t = rule.PreserveType(t)
			continue
		}
		d, err := rollDim(d, t.Rank())
		if err != nil {
			return nil, err
		}
		start := rollStart(t.Shape[d], a.Shifts[i])
		first, err := t.Narrow(d, start, t.Shape[d].Sub(start))
		if err != nil {
			return nil, err
		}
		second, err := t.Narrow(d, sym.Int{}, start)
		if err != nil {
			return nil, err
		}
		// The shape is unchanged.
		t, err = tensor.NewTypeFormat(t.DType, t.Shape, joinFormat([]tensor.Type{first, second}))
		if err != nil {
			return nil, err
		}
	}
	return c.One(t), nil
}

// rollDim returns the dimension as a non-negative number.
func rollDim(dim, rank int) (int, error) {
	d, err := tensor.WrapDim(dim, rank)
	if err == nil && rank == 0 {
		err = fmt.Errorf("Dimension specified as %d but tensor has no dimensions", dim)
	}
	return d, err
}

// rollStart returns the index of the operand that becomes index 0 if a dimension of n elements is shifted.
func rollStart(n sym.Int, shift int) sym.Int { return n.Sub(sym.Of(shift).Mod(n)).Mod(n) }

// rollStarts returns, for each dimension of the shape, the index of the operand that becomes index 0.
func rollStarts(shape, shifts, dims []int) ([]int, error) {
	out := make([]int, len(shape))
	for i, dim := range dims {
		d, err := rollDim(dim, len(shape))
		if err != nil {
			return nil, err
		}
		out[d] = (out[d] + kit.KnownSize(rollStart(sym.Of(shape[d]), shifts[i]))) % shape[d]
	}
	return out, nil
}

// rollSpans returns, for each dimension of the result, the spans of the operand ([copies.Span]).
func rollSpans(shape, starts []int) [][]copies.Span {
	spans := copies.IdentitySpans(shape)
	for d, s := range starts {
		if s > 0 {
			spans[d] = []copies.Span{{Count: shape[d] - s, InStart: s, InStep: 1}, {OutStart: shape[d] - s, Count: s, InStep: 1}}
		}
	}
	return spans
}

func compileRoll(c *graph.Call) (*graph.Kernel, error) {
	a, dst, src := kit.Attrs[rollAttrs](c), kit.OutBuffer(c, 0), kit.InBuffer(c, 0)
	n := src.Meta.Numel()
	if n == 0 {
		return &graph.Kernel{}, nil
	}
	if len(a.Dims) > 0 {
		starts, err := rollStarts(src.Meta.Shape, a.Shifts, a.Dims)
		if err != nil {
			return nil, err
		}
		return copies.SpanKernel(dst, src, rollSpans(src.Meta.Shape, starts))
	}
	if src.Meta.IsContiguous() && dst.Meta.IsContiguous() {
		dst.Meta, src.Meta = tensor.New(dst.Meta.DType, n), tensor.New(src.Meta.DType, n)
		starts, err := rollStarts([]int{n}, a.Shifts, []int{0})
		if err != nil {
			return nil, err
		}
		return copies.SpanKernel(dst, src, rollSpans([]int{n}, starts))
	}
	return compileFlatRoll(dst, src, a.Shifts)
}

// compileFlatRoll returns a kernel that shifts elements in row-major order through scratch memory, for an operand or a
// result that is not row-major.
func compileFlatRoll(dst, src kit.Buffer, shifts []int) (*graph.Kernel, error) {
	d, n := src.Meta.DType, src.Meta.Numel()
	starts, err := rollStarts([]int{n}, shifts, []int{0})
	if err != nil {
		return nil, err
	}
	size := d.Size()
	start := starts[0]
	// Two adjacent copies of the operand contain the shifted value as one contiguous range.
	var jobs []copies.Job
	for k := range 2 {
		jobs = append(jobs, copies.Job{Dst: kit.ScratchBuffer(k*n*size, tensor.New(d, src.Meta.Shape...)), Src: src})
	}
	in, inWorker := copies.Phase(jobs...)
	shifted := kit.ScratchBuffer(start*size, tensor.New(d, dst.Meta.Shape...))
	out, outWorker := copies.Phase(copies.Job{Dst: dst, Src: shifted})
	return &graph.Kernel{Phases: []graph.Phase{in, out}, Worker: max(inWorker, outWorker), Scratch: 2 * n * size}, nil
}

func refRoll(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	a := kit.Attrs[rollAttrs](c)
	t := in[0].CopyTo(tensor.New(in[0].DType, in[0].Shape...))
	shape, dims := t.Shape, a.Dims
	if len(dims) == 0 {
		shape, dims = []int{t.Numel()}, []int{0}
		var err error
		if t, err = t.View(tensor.New(t.DType, shape...)); err != nil {
			return nil, err
		}
	}
	out := tensor.Zeros(t.DType, shape...)
	to := make([]int, len(shape))
	kit.EachIndex(shape, func(index []int) {
		copy(to, index)
		for i, d := range dims {
			d, err := tensor.WrapDim(d, len(shape))
			if err != nil {
				panic("view: roll's reference got a dimension that inference rejects")
			}
			n := shape[d]
			to[d] = ((to[d]+a.Shifts[i]%n)%n + n) % n
		}
		out.Set(t.At(index...), to...)
	})
	out, err := out.View(tensor.New(t.DType, in[0].Shape...))
	return []*tensor.Tensor{out}, err
}

// rollLoops returns the loops over the dimensions that are not shifted.
func rollLoops(c *graph.Call) []graph.Parallel {
	dims := slices.Clone(kit.Attrs[rollAttrs](c).Dims)
	if len(dims) == 0 {
		return nil
	}
	return kit.LoopsExceptDims(dims...)(c)
}
