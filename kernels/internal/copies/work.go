package copies

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// The rates of copies, by their names in machine profiles. Some names differ from the names of the constants.
// [Rates] describes the unit of each rate. The cost of a copy is the cost of its bytes plus the cost of its units of
// work.
const (
	RateRow         = "copy.row"
	RateStep        = "copy.step"
	RateTile        = "copy.tile"
	RateInterleaved = "copy.narrow"
	RateElementwise = "copy.single"
	RateLineRewrite = "copy.piece"
	RateConvert     = "copy.convert"
	RateTranspose1  = "copy.turn1"
	RateTranspose2  = "copy.turn2"
	RateTranspose8  = "copy.turn8"
	RateTranspose16 = "copy.turn16"
)

// Rates lists the name of each rate of copies and its unit. A rate is the time of one unit of work.
var Rates = []struct{ Name, Unit string }{
	{RateRow, "a row of elements that are contiguous on both sides"},
	{RateStep, "an element that is read or written with a stride"},
	{RateTile, "a tile that is transposed"},
	{RateInterleaved, "an element of three rows that vector instructions interleave, such as RGB planes"},
	{RateElementwise, "an element of a tile that has too few rows or columns to be transposed in registers"},
	{RateLineRewrite, "a write to a cache line that was evicted after the previous tile wrote to it"},
	{RateConvert, "an element that is converted"},
	{RateTranspose1, "extra time of a transposed element of 1 byte, compared with 4 bytes"},
	{RateTranspose2, "extra time of a transposed element of 2 bytes, compared with 4 bytes"},
	{RateTranspose8, "extra time of a transposed element of 8 bytes, compared with 4 bytes"},
	{RateTranspose16, "extra time of a transposed element of 16 bytes, compared with 4 bytes"},
}

// rateOfTranspose has the rates of transposed elements, by element size in bytes. Elements of 4 bytes have none,
// because RateTile includes their cost.
var rateOfTranspose = map[int]string{1: RateTranspose1, 2: RateTranspose2, 8: RateTranspose8, 16: RateTranspose16}

// AddCopyCost adds the cost of a copy from the layout and dtype src to dst, which have the same shape: the bytes read
// and written, and the units of work of one of four patterns. For a copy to the row-major shape [64, 100]:
//
//	strides of src             pattern      units
//	[128, 1]                   rows         64 rows of 100 elements
//	[1, 64]                    transposed   tiles
//	[100, 1], another dtype    converted    6400 converted elements
//	[200, 2]                   strided      6400 elements with a stride
func AddCopyCost(work *pricing.Work, src, dst tensor.Meta) {
	elem := kit.ElemOf(dst.DType, src.DType)
	axes := make([]strided.Axis, 0, 8)
	for dim, size := range dst.Shape {
		axes = append(axes, strided.Axis{N: size, Dst: dst.Strides[dim] * elem.DstSize,
			Src: src.Strides[dim] * elem.SrcSize})
	}
	elements := float64(dst.Numel())
	if elements == 0 {
		return
	}
	bytes := float64(elements * float64(elem.DstSize+elem.SrcSize))
	plan := strided.Analyze(elem, axes)
	switch pattern, length := plan.Pattern(); pattern {
	case strided.Rows:
		work.Bytes[pricing.Copied] += bytes
		work.AddUnits(RateRow, elements/float64(length))
	case strided.Transposed:
		work.Bytes[pricing.Tiled] += bytes
		if name := rateOfTranspose[elem.DstSize]; name != "" {
			work.AddUnits(name, elements)
		}
		addTransposeCost(work, plan.Transposition(), elements)
	default:
		work.Bytes[pricing.Copied] += bytes
		if src.DType != dst.DType && src.SameLayout(dst) {
			work.AddUnits(RateConvert, elements)
		} else {
			work.AddUnits(RateStep, elements)
		}
	}
}

// addTransposeCost adds the cost of transposing elements in tiles.
func addTransposeCost(work *pricing.Work, transposition strided.Transposition, elements float64) {
	work.AddUnits(RateTile, float64(transposition.Tiles))
	switch transposition.Method {
	case strided.ByInterleaving:
		work.AddUnits(RateInterleaved, elements)
	case strided.ByElement:
		work.AddUnits(RateElementwise, elements)
		if transposition.LineRewrites > 0 {
			work.AddUnits(RateLineRewrite, float64(transposition.LineRewrites))
		}
	}
}

// Impl returns the implementation of an op whose result has the elements of operand 0 in any layout. The chosen walk
// ([graph.Walk], a loop order with layouts of the results) determines the layout of the result. The function forms
// describes the copy to the compilers of devices ([graph.Form]).
//
// The planner adds Work and, for each operand, Read. Work assumes that operand 0 has the layout of the result. Read
// returns the difference for the actual layout of the operand.
func Impl(lower func(c *graph.Call) (*graph.Kernel, error)) graph.Impl {
	return graph.Impl{Name: "plain", Doc: "Copies rows of elements, or transposes tiles.",
		Lower: lower, Writes: anyStrides, Forms: forms,
		Work: func(c *graph.Call, walk graph.Walk) pricing.Work {
			work, out := pricing.Work{StartedSteps: 1}, walk.ResultLayout(0, c.Out[0])
			AddCopyCost(&work, out.WithDType(c.Meta(0).DType), out)
			return work
		},
		Read: func(c *graph.Call, walk graph.Walk, i int, operandMeta tensor.Meta) (work pricing.Work, ok bool) {
			if i > 0 {
				return work, true
			}
			var counted pricing.Work // the work that Work has counted
			out := walk.ResultLayout(0, c.Out[0])
			AddCopyCost(&counted, out.WithDType(operandMeta.DType), out)
			addRowMajorCopyCost(&work, operandMeta, out)
			return work.Minus(counted), true
		}}
}

// anyStrides implements [graph.Impl.Writes] for copies, which write any strides.
func anyStrides(*graph.Call, graph.Walk, int, tensor.Meta) bool { return true }

// addRowMajorCopyCost adds the cost of [RowMajorKernel], which copies the elements of src to dst in row-major order.
// The shapes may differ. If neither can be viewed in the shape of the other, the kernel copies to scratch memory first.
func addRowMajorCopyCost(work *pricing.Work, src, dst tensor.Meta) {
	if view, err := src.View(dst.Shape); err == nil {
		AddCopyCost(work, view, dst)
		return
	}
	if view, err := dst.View(src.Shape); err == nil {
		AddCopyCost(work, src, view)
		return
	}
	AddCopyCost(work, src, tensor.New(src.DType, src.Shape...))
	AddCopyCost(work, tensor.New(src.DType, dst.Shape...), dst)
}

// JoinImpl returns the implementation of an op that concatenates operands along a dimension of its result. An operand
// costs nothing if its producer has written it into the result. The node needs no step if this is true for all
// operands. forms describes the copies, as in [Impl].
func JoinImpl(lower func(c *graph.Call) (*graph.Kernel, error),
	forms func(c *graph.Call) ([]graph.Form, error)) graph.Impl {
	return graph.Impl{Name: "plain", Doc: "Copies each operand to its part of the result, unless it was written there.",
		Lower: lower, Writes: anyStrides, Forms: forms,
		Work: func(*graph.Call, graph.Walk) (work pricing.Work) { return work },
		Read: func(c *graph.Call, walk graph.Walk, i int, operandMeta tensor.Meta) (work pricing.Work, ok bool) {
			if operandMeta.Numel() > 0 && !c.IsInPlace(i) {
				work.StartedSteps = 1 / float64(len(c.In)) // all operands together cost one step
				AddCopyCost(&work, operandMeta, resultPart(operandMeta, walk.ResultLayout(0, c.Out[0])))
			}
			return work, true
		}}
}

// resultPart returns the part of the result that holds the operand. The part has the shape of the operand and the
// strides of the result. If the op adds a dimension to its operands, as stack does, resultPart assumes that the part
// has the layout of the operand.
func resultPart(operand, result tensor.Meta) tensor.Meta {
	if operand.Rank() != result.Rank() {
		return operand.WithDType(result.DType)
	}
	return tensor.Meta{DType: result.DType, Shape: operand.Shape, Strides: result.Strides}
}

// inResultOrder returns a dense meta with the shape and the dtype of a given meta. Its dimensions have the same order
// in memory as the result's. If the result is not dense, or if the ranks differ, the returned meta is row-major.
func inResultOrder(meta, result tensor.Meta) tensor.Meta {
	if order, isDense := tensor.OrderOf(result); isDense && meta.Rank() == result.Rank() {
		return meta.WithStrides(order.Strides(meta.Shape))
	}
	return tensor.New(meta.DType, meta.Shape...)
}

// BorderImpl returns the implementation of an op that surrounds its operand by a border. widthsBefore returns, for each
// dimension, the width of the border before the operand.
func BorderImpl(lower func(c *graph.Call) (*graph.Kernel, error), widthsBefore func(c *graph.Call) []int) graph.Impl {
	return graph.Impl{Name: "plain", Doc: "Copies the operand to its part of the result and fills the border.",
		Lower: lower,
		Work: func(c *graph.Call, walk graph.Walk) pricing.Work {
			work, result := pricing.Work{StartedSteps: 1}, walk.ResultLayout(0, c.Out[0])
			inner := innerPart(c.Meta(0), result)
			AddCopyCost(&work, inResultOrder(inner, result), inner)
			addBorderCost(&work, inner, result, widthsBefore(c))
			return work
		},
		Read: func(c *graph.Call, walk graph.Walk, _ int, operand tensor.Meta) (work pricing.Work, ok bool) {
			var counted pricing.Work // by Work: the cost of an operand that is dense in the order of the result
			result := walk.ResultLayout(0, c.Out[0])
			inner := innerPart(operand, result)
			AddCopyCost(&counted, inResultOrder(inner, result), inner)
			source := operand
			source.Shape = inner.Shape
			AddCopyCost(&work, source, inner)
			return work.Minus(counted), true
		}}
}

// innerPart returns the part of the result that holds the operand. A border of negative width removes elements of the
// operand, so the part is at most as large as the result.
func innerPart(operand, result tensor.Meta) tensor.Meta {
	operand = operand.WithStrides(slices.Clone(result.Strides))
	operand.Shape = slices.Clone(operand.Shape)
	for dim := range operand.Shape {
		operand.Shape[dim] = min(operand.Shape[dim], result.Shape[dim])
	}
	return operand
}

// addBorderCost adds the cost of filling the border around the inner part of a result. The border of a dimension is two
// slabs, before and after the inner part. The slabs do not overlap. For a matrix, the slabs of dimension 0 are whole
// rows, and the slabs of dimension 1 are parts of the other rows.
func addBorderCost(work *pricing.Work, inner, result tensor.Meta, widthsBefore []int) {
	remaining := result // the result without the slabs that are already counted
	remaining.Shape = slices.Clone(result.Shape)
	for dim, width := range widthsBefore {
		width = min(max(width, 0), remaining.Shape[dim])
		widthAfter := max(0, remaining.Shape[dim]-width-inner.Shape[dim])
		for _, slabWidth := range [...]int{width, widthAfter} {
			slab := remaining
			slab.Shape = slices.Clone(remaining.Shape)
			slab.Shape[dim] = slabWidth
			addFillCost(work, slab)
		}
		remaining.Shape[dim] -= width + widthAfter
	}
}

// addFillCost adds the cost of writing the same number to every element. The cost depends on the number of rows, which
// are runs of contiguous elements.
func addFillCost(work *pricing.Work, meta tensor.Meta) {
	elements, runLength := meta.Numel(), 1 // runLength is the number of contiguous elements
	if elements == 0 {
		return
	}
	// A dimension whose stride is the length of the run extends it; then all dimensions are tried again.
	for dim := 0; dim < meta.Rank(); {
		if meta.Shape[dim] > 1 && meta.Strides[dim] == runLength {
			runLength, dim = runLength*meta.Shape[dim], 0
			continue
		}
		dim++
	}
	work.Bytes[pricing.Copied] += float64(elements * meta.DType.Size())
	work.AddUnits(RateRow, float64(elements/runLength))
}
