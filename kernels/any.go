package kernels

import (
	"bytes"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

type anyAttrs struct {
	Dim     []int `attr:"dim" default:"none" doc:"dimensions to reduce; none: all"`
	Keepdim bool  `attr:"keepdim" default:"false" doc:"keep reduced dimensions with size 1"`
}

// Any tells whether one element is not zero.
var Any = truthOp("any", "Tells whether any element is not zero. The result is bool, of uint8 it is uint8.", true)

// Every tells whether no element is zero.
var Every = truthOp("all", "Tells whether all elements are not zero. The result is bool, of uint8 it is uint8.", false)

func truthOp(name, doc string, any bool) *graph.Op {
	return reductionOp[anyAttrs](graph.Op{
		Name: name, Doc: doc,
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Bool, 2, 3)}, Attrs: graph.Attrs{"dim": 1}}},
	}, func(c *graph.Call) (reduceSpec, error) {
		a, t := attrs[anyAttrs](c), c.Type(0)
		mask, err := iter.ReduceMask(a.Dim, t.Rank())
		out := tensor.Bool
		if t.DType == tensor.Uint8 {
			out = tensor.Uint8
		}
		return reduceSpec{mask: mask, keepdim: a.Keepdim, cast: tensor.Bool, outs: []tensor.DType{out},
			fold: func() *iter.Fold { return truthFold(any) },
			ref: func(x []tensor.Scalar) []tensor.Scalar {
				r := !any
				for _, v := range x {
					if any {
						r = r || v.Int() != 0
					} else {
						r = r && v.Int() != 0
					}
				}
				return []tensor.Scalar{tensor.BoolScalar(r)}
			}}, err
	})
}

// truthFold works on bools as bytes of 0 and 1: the result is decided by the first 1 (any)
// or the first 0 (all).
func truthFold(any bool) *iter.Fold {
	var zero, decisive uint8 = 1, 0
	columns := allColumns
	if any {
		zero, decisive = 0, 1
		columns = anyColumns
	}
	f := iter.Folding(zero, func(a *uint8, x []bool, _ int) {
		if *a != decisive && bytes.IndexByte(bytesOf(x), decisive) >= 0 {
			*a = decisive
		}
	}, func(a []uint8, x []bool, _ int) { columns(a, bytesOf(x)) }, columns)
	return iter.Yields(f, func(dst []bool, a []uint8) { copy(bytesOf(dst), a) })
}

// bytesOf returns the bytes of 0 and 1 behind bools.
func bytesOf(x []bool) []uint8 {
	return unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

func anyColumns(a, x []uint8) {
	x = x[:len(a)]
	for i := range a {
		a[i] |= x[i]
	}
}

func allColumns(a, x []uint8) {
	x = x[:len(a)]
	for i := range a {
		a[i] &= x[i]
	}
}
