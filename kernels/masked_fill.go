package kernels

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

var maskFilling = graph.Pointwise{Config: maskedFillConfig, Body: chosen(iter.NewTable("masked_fill",
	iter.Slice3(fillWhere[uint8]).Bits(), iter.Slice3(fillWhere[uint16]).Bits(), iter.Slice3(fillWhere[uint32]).Bits(),
	iter.Slice3(fillWhere[uint64]).Bits(), iter.Slice3(fillWhere[complex128]).Bits()))}

// MaskedFill is torch.masked_fill.
var MaskedFill = define[none](graph.Op{
	Name:      "masked_fill",
	Doc:       "Puts a number, or a 0-dim value, where mask holds, and self elsewhere; self and mask broadcast together.",
	Params:    []graph.Param{self, {Name: "mask"}, {Name: "value", Number: true}},
	Pointwise: &maskFilling,
	Infer:     laidBy(&maskFilling, rowMajorResult),
	Ref: pointwiseRef(&maskFilling, always(func(_ tensor.DType, x []tensor.Scalar) tensor.Scalar {
		if x[1].Int() != 0 {
			return x[2]
		}
		return x[0]
	})),
	Examples: []graph.Example{example(nil, exTurned, tensor.New(tensor.Bool, 3), tensor.New(tensor.Float32))},
})

func maskedFillConfig(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
	d := c.Meta(0).DType
	if k := c.Meta(1).DType; k != tensor.Bool {
		return iter.Config{}, fmt.Errorf("masked_fill only supports boolean masks, but got mask with dtype %s", k)
	}
	value := c.In[2].Operand()
	switch {
	case c.In[2].Kind == graph.NumberArg:
		if err := numberFits(c.In[2].Number, d); err != nil {
			return iter.Config{}, err
		}
		value = iter.Of(tensor.New(d))
	case c.Meta(2).Rank() > 0:
		return iter.Config{}, fmt.Errorf("masked_fill only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).", c.Meta(2).Rank())
	case c.Meta(2).DType != d:
		return iter.Config{}, errors.New("masked_fill: value must have the dtype of self")
	}
	out := outs[0]
	if !out.Defined {
		out = iter.UndefinedOf(d)
	}
	return iter.New().CheckAllSameDType(false).Output(out).Input(c.In[0].Operand()).Input(c.In[1].Operand()).Input(value), nil
}

// rowMajorResult lays a result of operands 0 and 1, broadcast together, out row-major.
func rowMajorResult(c *graph.Call) (tensor.Meta, error) {
	shape, err := tensor.Broadcast(c.Meta(0).Shape, c.Meta(1).Shape)
	return tensor.New(c.Meta(0).DType, shape...), err
}

func fillWhere[T uint8 | uint16 | uint32 | uint64 | complex128](dst, a []T, mask []uint8, v []T) {
	a, mask, v = a[:len(dst)], mask[:len(dst)], v[:len(dst)]
	for i := range dst {
		x := a[i]
		if mask[i] != 0 {
			x = v[i]
		}
		dst[i] = x
	}
}

type oneHotAttrs struct {
	NumClasses int `attr:"num_classes" doc:"size of the new dimension"`
	Dim        int `attr:"dim" default:"-1" doc:"place of the new dimension in the result"`
}

// OneHot is torch.one_hot with ONNX's axis and values.
var OneHot = define[oneHotAttrs](graph.Op{
	Name: "one_hot",
	Doc: "Adds a dimension of num_classes in which the element that self's index names is on, the others off.\n" +
		"values holds what stands for off and on; without it these are 0 and 1 of int64, and indices outside of 0 to num_classes-1 are refused. With it, negative indices count from the end, and no element is on for others.",
	Params:  []graph.Param{{Name: "self", Below: classesToSet}, {Name: "values", Optional: true}},
	Infer:   inferOneHot,
	Compile: compileOneHot,
	Ref:     refOneHot,
	Examples: []graph.Example{{In: []tensor.Meta{i64(2, 3)}, Attrs: graph.Attrs{"num_classes": 4}},
		{In: []tensor.Meta{i64(2, 3), f32(2)}, Attrs: graph.Attrs{"num_classes": 3, "dim": 1}}},
})

// classesToSet bounds the indices of one_hot, where it refuses others.
func classesToSet(c *graph.Call) int {
	if c.Has(1) {
		return -1
	}
	return attrs[oneHotAttrs](c).NumClasses
}

func inferOneHot(c *graph.Call) ([]graph.Result, error) {
	a, m := attrs[oneHotAttrs](c), c.Meta(0)
	if m.DType != tensor.Int64 && (m.DType != tensor.Int32 || !c.Has(1)) {
		return nil, errors.New("one_hot is only applicable to index tensor.")
	}
	d := tensor.Int64
	if c.Has(1) {
		if v := c.Meta(1); v.Rank() != 1 || v.Shape[0] != 2 {
			return nil, fmt.Errorf("one_hot: Expected values of shape [2], got %s", tensor.ListString(v.Shape))
		}
		d = c.Meta(1).DType
	}
	if a.NumClasses <= 0 {
		return nil, errors.New("num_classes should be positive")
	}
	dim, err := tensor.WrapDim(a.Dim, m.Rank()+1)
	if err != nil {
		return nil, err
	}
	out, err := fresh(d, slices.Insert(slices.Clone(m.Shape), dim, a.NumClasses))
	return graph.New1(out), err
}

func compileOneHot(c *graph.Call) (*graph.Kernel, error) {
	a, m, out := attrs[oneHotAttrs](c), c.Meta(0), c.Out[0]
	dim, err := tensor.WrapDim(a.Dim, out.Rank())
	if err != nil || out.Numel() == 0 {
		return &graph.Kernel{}, err
	}
	beside := tensor.Meta{DType: m.DType, Shape: out.Shape, Strides: slices.Insert(slices.Clone(m.Strides), dim, 0)}
	l := newLineSet(out.Shape, dim, out, beside)
	step, n, size, given := stepAt(out, dim), a.NumClasses, out.DType.Size(), c.Has(1)
	zero, one := tensor.IntScalar(0).Tensor(out.DType), tensor.IntScalar(1).Tensor(out.DType)
	move := mover(out.DType, out.DType)
	return &graph.Kernel{Phases: []graph.Phase{l.phase(n, func(mem *graph.Mem, off [4]int) error {
		at, p := 0, unsafe.Add(mem.Ptrs[1], off[1])
		if m.DType == tensor.Int64 {
			at = int(*(*int64)(p))
		} else {
			at = int(*(*int32)(p))
		}
		low, high := zero.Pointer(), one.Pointer()
		if given {
			low = mem.Ptrs[2]
			high = unsafe.Add(low, stepAt(c.Meta(1), 0))
			if at < 0 {
				at += n
			}
		} else if at < 0 {
			return errors.New("Class values must be non-negative.")
		} else if at >= n {
			return errors.New("Class values must be smaller than num_classes.")
		}
		dst := unsafe.Add(mem.Ptrs[0], off[0])
		move(dst, low, step, 0, n)
		if at >= 0 && at < n {
			copyElement(unsafe.Add(dst, at*step), high, size)
		}
		return nil
	})}}, nil
}

func refOneHot(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	res, err := inferOneHot(c)
	if err != nil {
		return nil, err
	}
	a, m := attrs[oneHotAttrs](c), res[0].Meta
	dim, err := tensor.WrapDim(a.Dim, m.Rank())
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(m.DType, m.Shape...)
	eachIndex(m.Shape, func(at []int) {
		v := int(in[0].At(slices.Delete(slices.Clone(at), dim, dim+1)...).Int())
		low, high := tensor.IntScalar(0), tensor.IntScalar(1)
		if c.Has(1) {
			low, high = in[1].At(0), in[1].At(1)
			if v < 0 {
				v += a.NumClasses
			}
		}
		if v == at[dim] {
			low = high
		}
		out.Set(low, at...)
	})
	return []*tensor.Tensor{out}, nil
}
