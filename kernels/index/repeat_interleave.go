package index

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type repeatInterleaveAttrs struct {
	Repeats    *sym.Int `attr:"repeats" default:"none" doc:"how often each element or slice is in the result, where that is one number and no operand"`
	Dim        *int     `attr:"dim" default:"none" doc:"dimension whose slices are repeated; none: self counts as flat"`
	OutputSize *sym.Int `attr:"output_size" default:"none" doc:"size of the repeated dimension in the result: with it the shape is known before the graph runs"`
}

// RepeatInterleave is torch.repeat_interleave: with a number, with a tensor of them, and of
// repeats alone.
var RepeatInterleave = kit.Define[repeatInterleaveAttrs](graph.Op{
	Name: "repeat_interleave",
	Doc: "Repeats every element, or every slice along a dimension: all equally often, or as repeats, one-dimensional or " +
		"a single number, tells for each.\n" +
		"Without any repeats self holds them, and the result is the indices that it repeats: of [2, 0, 1] it is [0, 0, 2].",
	Params: []graph.Param{kit.Self, {Name: "repeats", Optional: true, Overload: "tensor"}},
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		r, err := newRepeating(c)
		if err != nil {
			return nil, err
		}
		if !r.known {
			return []graph.Result{graph.Outline{DType: r.dtype, Sizes: openAt(r.t.Shape, r.dim)}.Result()}, nil
		}
		out, err := kit.FreshType(r.dtype, kit.With(r.t.Shape, r.dim, r.size))
		return c.One(out), err
	},
	Compile: func(c *graph.Call) (*graph.Kernel, error) {
		r, err := newRepeating(c)
		if err != nil || c.Out[0].Numel() == 0 && !r.each {
			return &graph.Kernel{}, err
		}
		if !r.each {
			return r.equally(c)
		}
		return r.byPlaces(c)
	},
	Ref: repeatInterleave,
	Eager: func(_ graph.Runtime, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return repeatInterleave(c, in)
	},
	Examples: []graph.Example{
		{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5)}, Attrs: graph.Attrs{"repeats": 2, "dim": 1}},
		{In: []tensor.Meta{kit.F32(2, 3).WithStrides([]int{1, 2})}, Attrs: graph.Attrs{"repeats": 3}},
		{In: []tensor.Meta{kit.F32(2, 3), kit.I64(3)}, Attrs: graph.Attrs{"dim": 1}},
		{In: []tensor.Meta{kit.I64(3)}}},
})

// repeating is a call of repeat_interleave.
type repeating struct {
	t     tensor.Type // what is repeated; flat where dim is none
	dtype tensor.DType
	flat  bool
	dim   int
	often sym.Int // for all alike, where not each has its own
	each  bool
	at    int     // operand that holds the repeats of each
	size  sym.Int // of dim in the result
	known bool    // whether size is, before the graph runs
}

func newRepeating(c *graph.Call) (*repeating, error) {
	a, t := kit.Attrs[repeatInterleaveAttrs](c), c.Type(0)
	if c.Has(1) && a.Repeats != nil {
		return nil, errors.New("repeat_interleave: repeats is given twice, as an operand and as an attribute")
	}
	r := &repeating{t: t, dtype: t.DType}
	if !c.Has(1) && a.Repeats == nil {
		return r, r.indices(c)
	}
	switch {
	case a.Dim == nil:
		r.t, r.flat = tensor.NewType(t.DType, t.Numel()), true
	case t.Rank() == 0 && c.Has(1):
		return nil, errors.New("Dimension specified as 0 but tensor has no dimensions")
	default:
		var err error
		if r.dim, err = tensor.WrapDim(*a.Dim, t.Rank()); err != nil {
			return nil, err
		}
		if t.Rank() == 0 {
			r.t, r.flat = tensor.NewType(t.DType, sym.Of(1)), true
		}
	}
	n := r.t.Shape[r.dim]
	if c.Has(1) {
		by := c.Type(1)
		r.each, r.at = true, 1
		switch {
		case by.Rank() > 1:
			return nil, errors.New("repeats must be 0-dim or 1-dim tensor")
		case by.Rank() == 1 && by.Shape[0].Ne(sym.Of(1)).And(by.Shape[0].Ne(n)).Holds():
			return nil, fmt.Errorf("repeats must have the same size as input along dim, but got repeats.size(0) = %v and "+
				"input.size(%d) = %v", by.Shape[0], r.dim, n)
		}
		return r, r.total(c, by.DType)
	}
	if kit.Negative(*a.Repeats) {
		return nil, errors.New("repeats can not be negative")
	}
	r.often, r.known = *a.Repeats, true
	if r.size = n.Mul(r.often); kit.TooOften(n, r.often) {
		r.size = sym.Of(tensor.MaxBytes)
	}
	if a.OutputSize != nil && a.OutputSize.Ne(r.size).Holds() {
		return nil, fmt.Errorf("repeat_interleave: output_size is %v, the repeats add up to %v", *a.OutputSize, r.size)
	}
	return r, nil
}

// indices is the call without repeats: self holds them, and their indices are repeated.
func (r *repeating) indices(c *graph.Call) error {
	t := r.t
	switch {
	case kit.Attrs[repeatInterleaveAttrs](c).Dim != nil:
		return errors.New("repeat_interleave: repeats is missing")
	case t.Rank() != 1:
		return errors.New("repeat_interleave only accept 1D vector as repeat")
	}
	r.each, r.at = true, 0
	return r.total(c, t.DType)
}

// total finds the size of the result as far as it is known.
func (r *repeating) total(c *graph.Call, d tensor.DType) error {
	if d != tensor.Int64 && d != tensor.Int32 {
		return errors.New("repeats has to be Long or Int tensor")
	}
	if size := kit.Attrs[repeatInterleaveAttrs](c).OutputSize; size != nil {
		if kit.Negative(*size) {
			return errors.New("repeat_interleave: output_size can not be negative")
		}
		r.size, r.known = *size, true
	} else if t := c.Const(r.at); t != nil {
		places, err := repeatedPlaces(t, r.t.Shape[r.dim].Specialize(), -1) // so many repeats are read
		r.size, r.known = sym.Of(len(places)), true
		return err
	}
	return nil
}

// repeatedPlaces lists the indices 0 to n-1, each as often as t tells; size is what they must
// add up to, -1 for anything.
func repeatedPlaces(t *tensor.Tensor, n, size int) ([]int, error) {
	total, sums := 0, make([]int, n)
	for i := range sums {
		var k int
		switch {
		case t.Rank() == 0:
			k = int(t.At().Int())
		case t.Shape[0] == 1:
			k = int(t.At(0).Int())
		default:
			k = int(t.At(i).Int())
		}
		switch {
		case k < 0:
			return nil, errors.New("repeats can not be negative")
		case k > tensor.MaxBytes/8-total: // the list of places takes a word each
			return nil, errors.New("numel: integer multiplication overflow")
		}
		total += k
		sums[i] = total
	}
	if size >= 0 && total != size {
		return nil, fmt.Errorf("repeat_interleave: output_size is %d, the repeats add up to %d", size, total)
	}
	places := make([]int, total)
	from := 0
	for i, end := range sums {
		for k := from; k < end; k++ {
			places[k] = i
		}
		from = end
	}
	return places, nil
}

// equally sees the repetitions as a dimension of stride 0 behind the repeated one.
func (r *repeating) equally(c *graph.Call) (*graph.Kernel, error) {
	dst, src := kit.OutBuffer(c, 0), kit.InBuffer(c, 0)
	d := r.dim + 1
	if r.flat {
		d = src.Meta.Rank()
	}
	from := src.Meta
	from.Shape, from.Strides = slices.Insert(slices.Clone(from.Shape), d, kit.NumberOf(r.often)),
		slices.Insert(slices.Clone(from.Strides), d, 0)
	to, err := dst.Meta.View(from.Shape)
	if err != nil {
		return nil, err
	}
	return copies.Kernel(copies.Job{Dst: dst.Show(to), Src: src.Show(from)}), nil
}

// byPlaces lists the places in scratch memory first, and then takes what is there.
func (r *repeating) byPlaces(c *graph.Call) (*graph.Kernel, error) {
	by, out := c.Meta(r.at), c.Out[0]
	m, size := kit.OfNumbers(r.t), kit.NumberOf(r.size)
	list := graph.Phase{Chunks: 1, Run: func(mem *graph.Mem, _ int) error {
		t := tensor.Zeros(by.DType, by.Shape...)
		if n := by.Numel(); n > 0 { // what has no elements has no address
			kit.Mover(by.DType, by.DType)(t.Pointer(), mem.Ptrs[1+r.at], by.DType.Size(), repeatStep(by), n)
		}
		places, err := repeatedPlaces(t, m.Shape[r.dim], size)
		if err != nil || size == 0 {
			return err
		}
		copy(unsafe.Slice((*int)(unsafe.Pointer(unsafe.SliceData(mem.Scratch))), size), places)
		return nil
	}}
	index := kit.ScratchBuffer(0, tensor.New(tensor.Int64, size))
	k := &graph.Kernel{Phases: []graph.Phase{list}, Scratch: 8 * size}
	var x *indexed
	switch {
	case out.Numel() == 0:
		return k, nil
	case r.at == 0:
		to := kit.PtrBuffer(0, out)
		deal := copies.Kernel(copies.Job{Dst: to, Src: index})
		k.Phases, k.Worker = append(k.Phases, deal.Phases...), deal.Worker
		return k, nil
	case r.flat:
		m := c.Meta(0)
		x = &indexed{shape: out.Shape, sides: []walkSide{sideOf(0, out), {kit.InBuffer(c, 0), []int{0}},
			{index, kit.ByteStrides(index.Meta)}},
			looks: []lookup{{side: 2, wide: true, size: m.Numel(), step: m.DType.Size(), plane: &m}}}
	default:
		inner := selectKernel(c, index, r.dim)
		k.Phases, k.Worker = append(k.Phases, inner.Phases...), inner.Worker
		return k, nil
	}
	inner := x.kernel(kit.ReadOps(out.DType))
	k.Phases, k.Worker = append(k.Phases, inner.Phases...), inner.Worker
	return k, nil
}

// repeatStep is the distance of the repeats in bytes.
func repeatStep(m tensor.Meta) int {
	if m.Rank() == 0 {
		return 0
	}
	return kit.StepAt(m, 0)
}

// repeatInterleave computes all forms by lists of places.
func repeatInterleave(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	r, err := newRepeating(c)
	if err != nil {
		return nil, err
	}
	var places []int
	n, size := kit.NumberOf(r.t.Shape[r.dim]), -1
	if r.known {
		size = kit.NumberOf(r.size)
	}
	if !r.each {
		for i := range n {
			places = append(places, slices.Repeat([]int{i}, kit.NumberOf(r.often))...)
		}
	} else if places, err = repeatedPlaces(in[r.at], n, size); err != nil {
		return nil, err
	}
	if r.each && r.at == 0 {
		out := tensor.Zeros(r.dtype, len(places))
		for k, i := range places {
			out.Set(tensor.IntScalar(int64(i)), k)
		}
		return []*tensor.Tensor{out}, nil
	}
	t := in[0]
	if r.flat {
		if t, err = kit.RowMajorAs(t, t.Numel()); err != nil {
			return nil, err
		}
	}
	out, err := pickSlices(t, r.dim, places)
	return []*tensor.Tensor{out}, err
}
