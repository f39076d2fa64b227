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
	Tile    = "copy.tile"
	Narrow  = "copy.narrow"
	Single  = "copy.single"
	Piece   = "copy.piece"
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
	{Tile, "a tile that is turned"},
	{Narrow, "an element of three rows that are put together of vectors"},
	{Single, "an element of tiles of too few rows or columns for registers"},
	{Piece, "a piece of a row of such tiles whose line of the cache was driven out between two of them"},
	{Convert, "an element that is converted"},
	{Turn1, "an element of a byte that is turned, beside one of 4"}, {Turn2, "an element of 2 bytes that is"},
	{Turn8, "an element of 8 bytes that is"}, {Turn16, "an element of 16 bytes that is"},
}

// turns are those of elements that are turned, by their sizes.
var turns = map[int]string{1: Turn1, 2: Turn2, 8: Turn8, 16: Turn16}

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
	plan := strided.Look(e, axes)
	switch way, length := plan.Way(); way {
	case strided.Rows:
		w.Bytes[graph.Copied] += bytes
		w.Do(Row, n/float64(length))
	case strided.Turned:
		w.Bytes[graph.Tiled] += bytes
		if name := turns[e.Dst]; name != "" {
			w.Do(name, n)
		}
		turning(w, plan.Turning(), n)
	default:
		w.Bytes[graph.Copied] += bytes
		if m.DType != to.DType && m.SameLayout(to) {
			w.Do(Convert, n)
		} else {
			w.Do(Step, n)
		}
	}
}

// turning adds what it takes more that n elements are in so many tiles, and how those are turned.
func turning(w *graph.Work, t strided.Turning, n float64) {
	w.Do(Tile, float64(t.Tiles))
	switch t.How {
	case strided.Woven:
		w.Do(Narrow, n)
	case strided.Single:
		w.Do(Single, n)
		if t.Pieces > 0 {
			w.Do(Piece, float64(t.Pieces))
		}
	}
}

// Impl is the implementation of an op whose result has the elements of operand 0, in whatever layout it is wanted.
func Impl(lower func(c *graph.Call) (*graph.Kernel, error)) graph.Impl {
	return graph.Impl{Name: "plain", Doc: "Copies runs of elements, or tiles that it turns.",
		Lower: lower, Writes: anyStrides,
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
			ordered(&w, m, out)
			return w.Less(least), true
		}}
}

// anyStrides is Writes of copies.
func anyStrides(*graph.Call, graph.Walk, int, tensor.Meta) bool { return true }

// ordered is [Moving] by logical order, as [Ordered] copies.
func ordered(w *graph.Work, m, to tensor.Meta) {
	if seen, err := m.View(to.Shape); err == nil {
		Moving(w, seen, to)
		return
	}
	if seen, err := to.View(m.Shape); err == nil {
		Moving(w, m, seen)
		return
	}
	Moving(w, m, tensor.New(m.DType, m.Shape...))
	Moving(w, tensor.New(m.DType, to.Shape...), to)
}

// JoinImpl is the implementation of an op that puts operands side by side along a dimension of its result. Each is
// priced by itself, with its part of the step: what is written where it belongs takes nothing, and where all is, there
// is no step.
func JoinImpl(lower func(c *graph.Call) (*graph.Kernel, error)) graph.Impl {
	return graph.Impl{Name: "plain", Doc: "Copies each operand to its place, by runs, unless it was written there.",
		Lower: lower, Writes: anyStrides,
		Work: func(*graph.Call, graph.Walk) (w graph.Work) { return w },
		Read: func(c *graph.Call, walk graph.Walk, i int, m tensor.Meta) (w graph.Work, ok bool) {
			if m.Numel() > 0 && !c.Placed(i) {
				w.Steps = 1 / float64(len(c.In))
				Moving(&w, m, joined(m, walk.Lay(0, c.Out[0])))
			}
			return w, true
		}}
}

// joined is the place of an operand within the result; of one without elements, which may have any rank, itself.
func joined(m, to tensor.Meta) tensor.Meta {
	if m.Rank() != to.Rank() {
		return m.WithDType(to.DType)
	}
	return tensor.Meta{DType: to.DType, Shape: m.Shape, Strides: to.Strides}
}

// asResult is an operand that lies as the result does.
func asResult(m, to tensor.Meta) tensor.Meta {
	if o, dense := tensor.OrderOf(to); dense && m.Rank() == to.Rank() {
		return m.WithStrides(o.Strides(m.Shape))
	}
	return tensor.New(m.DType, m.Shape...)
}

// BorderImpl is the implementation of an op that puts its operand amid a border, which begins with so many elements in
// each dimension.
func BorderImpl(lower func(c *graph.Call) (*graph.Kernel, error), before func(c *graph.Call) []int) graph.Impl {
	inner := func(c *graph.Call, m, to tensor.Meta) tensor.Meta {
		m = m.WithStrides(slices.Clone(to.Strides))
		m.Shape = slices.Clone(m.Shape)
		for d := range m.Shape {
			m.Shape[d] = min(m.Shape[d], to.Shape[d])
		}
		return m
	}
	return graph.Impl{Name: "plain", Doc: "Copies the operand to its place, by runs, and fills what is around it.",
		Lower: lower,
		Work: func(c *graph.Call, walk graph.Walk) graph.Work {
			w, to := graph.Work{Steps: 1}, walk.Lay(0, c.Out[0])
			place := inner(c, c.Meta(0), to)
			Moving(&w, asResult(place, to), place)
			rest := to
			rest.Shape = slices.Clone(to.Shape)
			for d, b := range before(c) {
				b = min(max(b, 0), rest.Shape[d])
				after := max(0, rest.Shape[d]-b-place.Shape[d])
				for _, n := range [...]int{b, after} {
					slab := rest
					slab.Shape = slices.Clone(rest.Shape)
					slab.Shape[d] = n
					filling(&w, slab)
				}
				rest.Shape[d] -= b + after
			}
			return w
		},
		Read: func(c *graph.Call, walk graph.Walk, _ int, m tensor.Meta) (w graph.Work, ok bool) {
			var least graph.Work
			to := walk.Lay(0, c.Out[0])
			place := inner(c, m, to)
			Moving(&least, asResult(place, to), place)
			shown := m
			shown.Shape = place.Shape
			Moving(&w, shown, place)
			return w.Less(least), true
		}}
}

// filling adds what it takes to write one number everywhere, by runs of elements that lie one behind another.
func filling(w *graph.Work, m tensor.Meta) {
	n, run := m.Numel(), 1
	if n == 0 {
		return
	}
	for d := 0; d < m.Rank(); {
		if m.Shape[d] > 1 && m.Strides[d] == run {
			run, d = run*m.Shape[d], 0
			continue
		}
		d++
	}
	w.Bytes[graph.Copied] += float64(n * m.DType.Size())
	w.Do(Row, float64(n/run))
}
