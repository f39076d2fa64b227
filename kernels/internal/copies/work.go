package copies

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// The inner kernels of copies beside their bytes, as profiles name them.
const (
	Row     = "copy.row"
	Step    = "copy.step"
	Narrow  = "copy.narrow"
	Convert = "copy.convert"
	Turn1   = "copy.turn1"
	Turn2   = "copy.turn2"
	Turn8   = "copy.turn8"
	Turn16  = "copy.turn16"
)

// Rates lists them, and what they are the prices of.
var Rates = [][2]string{
	{Row, "a run of elements that lie one behind another on both sides"},
	{Step, "an element that is read or written with steps"},
	{Narrow, "an element of tiles of a few rows"},
	{Convert, "an element that is converted"},
	{Turn1, "an element of a byte that is turned, beside one of 4"}, {Turn2, "an element of 2 bytes that is"},
	{Turn8, "an element of 8 bytes that is"}, {Turn16, "an element of 16 bytes that is"},
}

// turns are those of elements that are turned, by their sizes.
var turns = map[int]string{1: Turn1, 2: Turn2, 8: Turn8, 16: Turn16}

// narrow is the side of a tile below which rows are too short for registers to be full.
const narrow = 8

// Moving adds what it takes to copy a value that has layout m into layout to: bytes are read and written, by rows,
// in tiles that are turned, or with steps.
func Moving(w *graph.Work, m, to tensor.Meta) {
	e := kit.ElemOf(to.DType, m.DType)
	axes := make([]strided.Axis, 0, 8)
	for d, n := range to.Shape {
		axes = append(axes, strided.Axis{N: n, Dst: to.Strides[d] * e.Dst, Src: m.Strides[d] * e.Src})
	}
	n := float64(to.Numel())
	if n == 0 {
		return
	}
	bytes := n * float64(e.Dst+e.Src)
	switch way, length := strided.New(e, axes).Way(); way {
	case strided.Rows:
		w.Bytes[graph.Copied] += bytes
		w.Do(Row, n/float64(length))
	case strided.Turned:
		w.Bytes[graph.Tiled] += bytes
		if name := turns[e.Dst]; name != "" {
			w.Do(name, n)
		}
		if length < narrow {
			w.Do(Narrow, n)
		}
	default:
		w.Bytes[graph.Copied] += bytes
		if m.DType != to.DType && m.SameLayout(to) {
			w.Do(Convert, n)
		} else {
			w.Do(Step, n)
		}
	}
}

// Impl is the implementation of an op whose result has the elements of operand 0, in whatever layout it is wanted.
func Impl(lower func(c *graph.Call) (*graph.Kernel, error)) graph.Impl {
	return graph.Impl{Name: "plain", Doc: "Copies runs of elements, or tiles that it turns.", Lower: lower,
		Work: func(c *graph.Call, walk graph.Walk) graph.Work {
			w, out := graph.Work{Steps: 1}, walk.Lay(0, c.Out[0])
			Moving(&w, out.WithDType(c.Meta(0).DType), out)
			return w
		},
		Read: func(c *graph.Call, walk graph.Walk, i int, m tensor.Meta) (w graph.Work, ok bool) {
			if i > 0 {
				return w, true
			}
			var least graph.Work
			out := walk.Lay(0, c.Out[0])
			Moving(&least, out.WithDType(m.DType), out)
			if !slices.Equal(m.Shape, out.Shape) { // as if the result had the shape of the operand
				out = tensor.New(out.DType, m.Shape...)
			}
			Moving(&w, m, out)
			return w.Less(least), true
		}}
}

// JoinImpl is the implementation of an op that puts operands side by side along a dimension of its result, which
// dim tells.
func JoinImpl(lower func(c *graph.Call) (*graph.Kernel, error), dim func(c *graph.Call) (int, error)) graph.Impl {
	return graph.Impl{Name: "plain", Doc: "Copies each operand to its place, by runs.", Lower: lower,
		Work: func(c *graph.Call, walk graph.Walk) graph.Work {
			w := graph.Work{Steps: 1}
			if d, err := dim(c); err == nil {
				join(&w, c, walk.Lay(0, c.Out[0]), d)
			}
			return w
		},
		Read: func(c *graph.Call, walk graph.Walk, _ int, m tensor.Meta) (w graph.Work, ok bool) {
			if w = graph.ReadWork(m, walk.Lay(0, c.Out[0])); w.Bytes[graph.Tiled] > 0 {
				w.Bytes[graph.Copied] -= w.Bytes[graph.Tiled]
			}
			return w, true
		}}
}

// join adds what it takes to copy operands side by side along a dimension: by runs of the elements that lie
// together in both, where they lie as the result does.
func join(w *graph.Work, c *graph.Call, to tensor.Meta, dim int) {
	for _, a := range c.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		n, rest := a.Meta().Numel(), 1 // elements, and those of the dimensions along which others lie between
		for d, size := range to.Shape {
			if d != dim && to.Strides[d] > to.Strides[dim] {
				rest *= size
			}
		}
		w.Bytes[graph.Copied] += 2 * float64(n*to.DType.Size())
		w.Do(Row, float64(rest))
	}
}
