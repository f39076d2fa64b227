package copies

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// The rates of copies, by their names in machine profiles. [Rates] describes the unit of each rate. The costs are added
// to the costs of the copied bytes.
const (
	RateRow         = "copy.row"
	RateStep        = "copy.step"
	RateTile        = "copy.tile"
	RateNarrow      = "copy.narrow"
	RateSingle      = "copy.single"
	RatePiece       = "copy.piece"
	RateConvert     = "copy.convert"
	RateTranspose1  = "copy.turn1"
	RateTranspose2  = "copy.turn2"
	RateTranspose8  = "copy.turn8"
	RateTranspose16 = "copy.turn16"
)

// Rates lists the rates of copies. A rate is the time of one unit of work.
var Rates = [][2]string{
	{RateRow, "a row of elements that are contiguous on both sides"},
	{RateStep, "an element that is read or written with a stride"},
	{RateTile, "a tile that is transposed"},
	{RateNarrow, "an element of three rows that are interleaved by vectors"},
	{RateSingle, "an element of tiles with too few rows or columns for registers"},
	{RatePiece, "a piece of a row in such tiles, if its cache line is evicted between two tiles"},
	{RateConvert, "an element that is converted"},
	{RateTranspose1, "a transposed element of 1 byte, in addition to one of 4 bytes"},
	{RateTranspose2, "a transposed element of 2 bytes"},
	{RateTranspose8, "a transposed element of 8 bytes"},
	{RateTranspose16, "a transposed element of 16 bytes"},
}

// rateOfTranspose has the rates of transposed elements, by element size in bytes. RateTile includes the cost of
// elements of 4 bytes.
var rateOfTranspose = map[int]string{1: RateTranspose1, 2: RateTranspose2, 8: RateTranspose8, 16: RateTranspose16}

// AddCopyCost adds the cost of a copy from one layout to another: the bytes read and written, and the number of rows,
// transposed tiles or strided elements.
func AddCopyCost(work *graph.Work, from, to tensor.Meta) {
	elem := kit.ElemOf(to.DType, from.DType)
	axes := make([]strided.Axis, 0, 8)
	for d, elements := range to.Shape {
		axes = append(axes, strided.Axis{N: elements, Dst: to.Strides[d] * elem.DstSize,
			Src: from.Strides[d] * elem.SrcSize})
	}
	elements := float64(to.Numel())
	if elements == 0 {
		return
	}
	bytes := float64(elements * float64(elem.DstSize+elem.SrcSize))
	plan := strided.Analyze(elem, axes)
	switch pattern, length := plan.Pattern(); pattern {
	case strided.Rows:
		work.Bytes[graph.Copied] += bytes
		work.Do(RateRow, elements/float64(length))
	case strided.Transposed:
		work.Bytes[graph.Tiled] += bytes
		if name := rateOfTranspose[elem.DstSize]; name != "" {
			work.Do(name, elements)
		}
		addTransposeCost(work, plan.Transposition(), elements)
	default:
		work.Bytes[graph.Copied] += bytes
		if from.DType != to.DType && from.SameLayout(to) {
			work.Do(RateConvert, elements)
		} else {
			work.Do(RateStep, elements)
		}
	}
}

// addTransposeCost adds the cost of transposing n elements in tiles.
func addTransposeCost(w *graph.Work, t strided.Transposition, n float64) {
	w.Do(RateTile, float64(t.Tiles))
	switch t.Method {
	case strided.Interleaved:
		w.Do(RateNarrow, n)
	case strided.Elementwise:
		w.Do(RateSingle, n)
		if t.LineRewrites > 0 {
			w.Do(RatePiece, float64(t.LineRewrites))
		}
	}
}

// Impl returns the implementation of an op whose result has the elements of operand 0 in any layout. The walk of a call
// gives the layout of the result.
func Impl(lower func(c *graph.Call) (*graph.Kernel, error)) graph.Impl {
	return graph.Impl{Name: "plain", Doc: "Copies rows of elements, or transposes tiles.",
		Lower: lower, Writes: anyStrides, Forms: forms,
		Work: func(c *graph.Call, walk graph.Walk) graph.Work {
			w, out := graph.Work{Steps: 1}, walk.ResultLayout(0, c.Out[0])
			AddCopyCost(&w, out.WithDType(c.Meta(0).DType), out)
			return w
		},
		Read: func(c *graph.Call, walk graph.Walk, i int, m tensor.Meta) (w graph.Work, ok bool) {
			if i > 0 {
				return w, true
			}
			var counted graph.Work // in Work, which assumes that the operand has the layout of the result
			out := walk.ResultLayout(0, c.Out[0])
			AddCopyCost(&counted, out.WithDType(m.DType), out)
			addRowMajorCopyCost(&w, m, out)
			return w.Minus(counted), true
		}}
}

// anyStrides implements Writes for copies, which write any strides.
func anyStrides(*graph.Call, graph.Walk, int, tensor.Meta) bool { return true }

// addRowMajorCopyCost adds the cost of the copies of [RowMajorKernel], whose source and destination may have different
// shapes.
func addRowMajorCopyCost(w *graph.Work, m, to tensor.Meta) {
	if view, err := m.View(to.Shape); err == nil {
		AddCopyCost(w, view, to)
		return
	}
	if view, err := to.View(m.Shape); err == nil {
		AddCopyCost(w, m, view)
		return
	}
	AddCopyCost(w, m, tensor.New(m.DType, m.Shape...))
	AddCopyCost(w, tensor.New(m.DType, to.Shape...), to)
}

// JoinImpl returns the implementation of an op that concatenates operands along a dimension of its result. An operand
// costs nothing if its producer has written it into the result. The node needs no step if this is true for all
// operands.
func JoinImpl(lower func(c *graph.Call) (*graph.Kernel, error),
	forms func(c *graph.Call) ([]graph.Form, error)) graph.Impl {
	return graph.Impl{Name: "plain", Doc: "Copies each operand to its part of the result, unless it was written there.",
		Lower: lower, Writes: anyStrides, Forms: forms,
		Work: func(*graph.Call, graph.Walk) (w graph.Work) { return w },
		Read: func(c *graph.Call, walk graph.Walk, i int, m tensor.Meta) (w graph.Work, ok bool) {
			if m.Numel() > 0 && !c.IsInPlace(i) {
				w.Steps = 1 / float64(len(c.In))
				AddCopyCost(&w, m, resultPart(m, walk.ResultLayout(0, c.Out[0])))
			}
			return w, true
		}}
}

// resultPart returns the part of the result that holds an operand. It returns operands of another rank, which have no
// elements, in their own layout.
func resultPart(m, to tensor.Meta) tensor.Meta {
	if m.Rank() != to.Rank() {
		return m.WithDType(to.DType)
	}
	return tensor.Meta{DType: to.DType, Shape: m.Shape, Strides: to.Strides}
}

// inResultOrder returns the meta of an operand whose dimensions have the same order in memory as those of the result.
func inResultOrder(m, to tensor.Meta) tensor.Meta {
	if o, dense := tensor.OrderOf(to); dense && m.Rank() == to.Rank() {
		return m.WithStrides(o.Strides(m.Shape))
	}
	return tensor.New(m.DType, m.Shape...)
}

// BorderImpl returns the implementation of an op that surrounds its operand by a border. before returns, for each
// dimension, the width of the border before the operand.
func BorderImpl(lower func(c *graph.Call) (*graph.Kernel, error), before func(c *graph.Call) []int) graph.Impl {
	// inner returns the part of the result `to` that holds the operand m, less what negative widths cut off.
	inner := func(c *graph.Call, m, to tensor.Meta) tensor.Meta {
		m = m.WithStrides(slices.Clone(to.Strides))
		m.Shape = slices.Clone(m.Shape)
		for d := range m.Shape {
			m.Shape[d] = min(m.Shape[d], to.Shape[d])
		}
		return m
	}
	return graph.Impl{Name: "plain", Doc: "Copies the operand to its part of the result and fills the border.",
		Lower: lower,
		Work: func(c *graph.Call, walk graph.Walk) graph.Work {
			work, to := graph.Work{Steps: 1}, walk.ResultLayout(0, c.Out[0])
			place := inner(c, c.Meta(0), to)
			AddCopyCost(&work, inResultOrder(place, to), place)
			unfilled := to // the result without the slabs of the border that are already counted
			unfilled.Shape = slices.Clone(to.Shape)
			for d, b := range before(c) {
				b = min(max(b, 0), unfilled.Shape[d])
				after := max(0, unfilled.Shape[d]-b-place.Shape[d])
				for _, n := range [...]int{b, after} {
					slab := unfilled
					slab.Shape = slices.Clone(unfilled.Shape)
					slab.Shape[d] = n
					addFillCost(&work, slab)
				}
				unfilled.Shape[d] -= b + after
			}
			return work
		},
		Read: func(c *graph.Call, walk graph.Walk, _ int, m tensor.Meta) (w graph.Work, ok bool) {
			var counted graph.Work // in Work, which assumes that the operand has the order of the result
			to := walk.ResultLayout(0, c.Out[0])
			place := inner(c, m, to)
			AddCopyCost(&counted, inResultOrder(place, to), place)
			source := m
			source.Shape = place.Shape
			AddCopyCost(&w, source, place)
			return w.Minus(counted), true
		}}
}

// addFillCost adds the cost of writing the same number to every element. The cost depends on the number of rows, which
// are runs of contiguous elements.
func addFillCost(work *graph.Work, m tensor.Meta) {
	n, run := m.Numel(), 1
	if n == 0 {
		return
	}
	// A dimension whose stride is the length of the run extends it; then all dimensions are tried again.
	for d := 0; d < m.Rank(); {
		if m.Shape[d] > 1 && m.Strides[d] == run {
			run, d = run*m.Shape[d], 0
			continue
		}
		d++
	}
	work.Bytes[graph.Copied] += float64(n * m.DType.Size())
	work.Do(RateRow, float64(n/run))
}
