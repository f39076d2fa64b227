package kernels

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

type repeatInterleaveAttrs struct {
	Repeats    *int `attr:"repeats" default:"none" doc:"how often each element or slice stands in the result, where that is one number and no operand"`
	Dim        *int `attr:"dim" default:"none" doc:"dimension whose slices are repeated; none: self counts as flat"`
	OutputSize *int `attr:"output_size" default:"none" doc:"size of the repeated dimension in the result: with it the shape is known before the graph runs"`
}

// RepeatInterleave is torch.repeat_interleave: with a number, with a tensor of them, and of
// repeats alone.
var RepeatInterleave = define[repeatInterleaveAttrs](graph.Op{
	Name: "repeat_interleave",
	Doc: "Repeats every element, or every slice along a dimension: all equally often, or as repeats, one-dimensional or a single number, tells for each.\n" +
		"Without any repeats self holds them, and the result is the indices that it repeats: of [2, 0, 1] it is [0, 0, 2].",
	Params: []graph.Param{self, {Name: "repeats", Optional: true, Overload: "tensor"}},
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		r, err := newRepeating(c)
		if err != nil {
			return nil, err
		}
		if r.size < 0 {
			return []graph.Result{{Meta: tensor.Meta{DType: r.dtype}, Alias: graph.Fresh, Dynamic: true}}, nil
		}
		out, err := fresh(r.dtype, r.shape())
		return graph.New1(out), err
	},
	Compile: func(c *graph.Call) (*graph.Kernel, error) {
		r, err := newRepeating(c)
		if err != nil || c.Out[0].Numel() == 0 && r.by == nil {
			return &graph.Kernel{}, err
		}
		if r.by == nil {
			return r.equally(c)
		}
		return r.each(c)
	},
	Ref: repeatInterleave,
	Eager: func(_ graph.Runtime, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return repeatInterleave(c, in)
	},
	Examples: []graph.Example{
		{In: []tensor.Meta{nhwc(2, 3, 4, 5)}, Attrs: graph.Attrs{"repeats": 2, "dim": 1}},
		{In: []tensor.Meta{f32(2, 3).WithStrides([]int{1, 2})}, Attrs: graph.Attrs{"repeats": 3}},
		{In: []tensor.Meta{f32(2, 3), i64(3)}, Attrs: graph.Attrs{"dim": 1}},
		{In: []tensor.Meta{i64(3)}}},
})

// repeating is a call of repeat_interleave.
type repeating struct {
	m     tensor.Meta // what is repeated; flat where dim is none
	dtype tensor.DType
	flat  bool
	dim   int
	often int          // for all alike, where by is nil
	by    *tensor.Meta // holds the repeats
	at    int          // operand that it is
	size  int          // of dim in the result; -1: known when the graph runs
}

func (r *repeating) shape() []int {
	shape := slices.Clone(r.m.Shape)
	shape[r.dim] = r.size
	return shape
}

func newRepeating(c *graph.Call) (*repeating, error) {
	a, m := attrs[repeatInterleaveAttrs](c), c.Meta(0)
	if c.Has(1) && a.Repeats != nil {
		return nil, errors.New("repeat_interleave: repeats is given twice, as an operand and as an attribute")
	}
	r := &repeating{m: m, dtype: m.DType}
	if !c.Has(1) && a.Repeats == nil {
		return r, r.indices(c)
	}
	switch {
	case a.Dim == nil:
		r.m, r.flat = tensor.New(m.DType, m.Numel()), true
	case m.Rank() == 0 && c.Has(1):
		return nil, errors.New("Dimension specified as 0 but tensor has no dimensions")
	default:
		var err error
		if r.dim, err = tensor.WrapDim(*a.Dim, m.Rank()); err != nil {
			return nil, err
		}
		if m.Rank() == 0 {
			r.m, r.flat = tensor.New(m.DType, 1), true
		}
	}
	n := r.m.Shape[r.dim]
	if c.Has(1) {
		by := c.Meta(1)
		r.by, r.at = &by, 1
		switch {
		case by.Rank() > 1:
			return nil, errors.New("repeats must be 0-dim or 1-dim tensor")
		case by.Rank() == 1 && by.Shape[0] != 1 && by.Shape[0] != n:
			return nil, fmt.Errorf("repeats must have the same size as input along dim, but got repeats.size(0) = %d and input.size(%d) = %d", by.Shape[0], r.dim, n)
		}
		return r, r.total(c)
	}
	if *a.Repeats < 0 {
		return nil, errors.New("repeats can not be negative")
	}
	r.often = *a.Repeats
	r.size = min(n*min(r.often, tensor.MaxBytes), tensor.MaxBytes)
	if a.OutputSize != nil && *a.OutputSize != r.size {
		return nil, fmt.Errorf("repeat_interleave: output_size is %d, the repeats add up to %d", *a.OutputSize, r.size)
	}
	return r, nil
}

// indices is the call without repeats: self holds them, and their indices are repeated.
func (r *repeating) indices(c *graph.Call) error {
	m := r.m
	switch {
	case attrs[repeatInterleaveAttrs](c).Dim != nil:
		return errors.New("repeat_interleave: repeats is missing")
	case m.Rank() != 1:
		return errors.New("repeat_interleave only accept 1D vector as repeat")
	}
	r.by, r.at = &m, 0
	return r.total(c)
}

// total finds the size of the result as far as it is known.
func (r *repeating) total(c *graph.Call) error {
	if d := r.by.DType; d != tensor.Int64 && d != tensor.Int32 {
		return errors.New("repeats has to be Long or Int tensor")
	}
	r.size = -1
	if size := attrs[repeatInterleaveAttrs](c).OutputSize; size != nil {
		if *size < 0 {
			return errors.New("repeat_interleave: output_size can not be negative")
		}
		r.size = *size
	} else if t := c.Const(r.at); t != nil {
		places, err := repeatedPlaces(t, r.m.Shape[r.dim], -1)
		r.size = len(places)
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
	dst, src := outSide(c, 0), inSide(c, 0)
	d := r.dim + 1
	if r.flat {
		d = src.meta.Rank()
	}
	from := src.meta
	from.Shape, from.Strides = slices.Insert(slices.Clone(from.Shape), d, r.often), slices.Insert(slices.Clone(from.Strides), d, 0)
	to, err := dst.meta.View(from.Shape)
	if err != nil {
		return nil, err
	}
	return copyKernel(copyJob{dst: dst.show(to), src: src.show(from)})
}

// each lists the places in scratch memory first, and then takes what stands there.
func (r *repeating) each(c *graph.Call) (*graph.Kernel, error) {
	by, out := *r.by, c.Out[0]
	list := graph.Phase{Chunks: 1, Run: func(m *graph.Mem, _ int) error {
		t := tensor.Zeros(by.DType, by.Shape...)
		mover(by.DType, by.DType)(t.Pointer(), m.Ptrs[1+r.at], by.DType.Size(), repeatStep(by), by.Numel())
		places, err := repeatedPlaces(t, r.m.Shape[r.dim], r.size)
		if err != nil || r.size == 0 {
			return err
		}
		copy(unsafe.Slice((*int)(unsafe.Pointer(unsafe.SliceData(m.Scratch))), r.size), places)
		return nil
	}}
	index := tensor.New(tensor.Int64, r.size)
	k := &graph.Kernel{Phases: []graph.Phase{list}, Scratch: 8 * r.size}
	var x *indexed
	switch {
	case out.Numel() == 0:
		return k, nil
	case r.at == 0:
		to := side{at: 0, meta: out}
		deal, err := copyKernel(copyJob{dst: to, src: side{at: scratchMem, meta: index}})
		if err != nil {
			return nil, err
		}
		k.Phases, k.Worker = append(k.Phases, deal.Phases...), deal.Worker
		return k, nil
	case r.flat:
		m := c.Meta(0)
		x = &indexed{shape: out.Shape, sides: []walkSide{sideOf(0, out), {at: 1, steps: []int{0}}, sideOf(scratchMem, index)},
			looks: []lookup{{side: 2, wide: true, size: m.Numel(), step: m.DType.Size(), plane: &m}}}
	default:
		inner := selectKernel(c, r.m, index, 1, scratchMem, r.dim)
		k.Phases, k.Worker = append(k.Phases, inner.Phases...), inner.Worker
		return k, nil
	}
	inner := x.kernel(readOps(out.DType))
	k.Phases, k.Worker = append(k.Phases, inner.Phases...), inner.Worker
	return k, nil
}

// repeatStep is the distance of the repeats in bytes.
func repeatStep(m tensor.Meta) int {
	if m.Rank() == 0 {
		return 0
	}
	return stepAt(m, 0)
}

// repeatInterleave computes all forms by lists of places.
func repeatInterleave(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	r, err := newRepeating(c)
	if err != nil {
		return nil, err
	}
	var places []int
	if r.by == nil {
		for i := range r.m.Shape[r.dim] {
			places = append(places, slices.Repeat([]int{i}, r.often)...)
		}
	} else if places, err = repeatedPlaces(in[r.at], r.m.Shape[r.dim], r.size); err != nil {
		return nil, err
	}
	if r.by != nil && r.at == 0 {
		out := tensor.Zeros(r.dtype, len(places))
		for k, i := range places {
			out.Set(tensor.IntScalar(int64(i)), k)
		}
		return []*tensor.Tensor{out}, nil
	}
	t := in[0]
	if r.flat {
		if t, err = rowMajorAs(t, t.Numel()); err != nil {
			return nil, err
		}
	}
	out, err := pickSlices(t, r.dim, places)
	return []*tensor.Tensor{out}, err
}
