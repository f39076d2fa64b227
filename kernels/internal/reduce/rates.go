package reduce

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Rates lists the rates of folds and of ops along lines ([lineOp]). A rate is the time of one unit of work. Package
// calibrate measures a rate by running its calls. The time of these calls depends mainly on the unit of work: calls
// with long rows measure the time of an element, and calls with many short rows measure the start of a row. Operands
// are row-major (kit.F32) or channels-last (kit.NHWC).
func Rates() []graph.Rate { return slices.Concat(foldRates(), multipassRates(), lineOpRates()) }

// pixelDims are the dimensions of height and width.
var pixelDims = []int{2, 3}

// foldRates lists the rates of loops that fold a row in one pass.
func foldRates() []graph.Rate {
	mean := func(dims []int, operand tensor.Meta) graph.RateCall {
		return graph.RateCall{Op: "mean", Attrs: graph.Attrs{"dim": dims, "keepdim": true}, In: []tensor.Meta{operand}}
	}
	return []graph.Rate{
		{Name: graph.FoldElement, Unit: "an element that is folded",
			Calls: []graph.RateCall{mean([]int{1}, kit.F32(128, 1024)), mean(pixelDims, kit.NHWC(1, 256, 28, 28))}},
		{Name: graph.FoldRow, Unit: "the start of a row that is folded",
			Calls: []graph.RateCall{mean(pixelDims, kit.F32(1, 512, 8, 8)), mean([]int{1}, kit.F32(2048, 16))}},
		{Name: graph.FoldRun, Unit: "the start of a run of adjacent columns that are folded",
			Calls: []graph.RateCall{mean(pixelDims, kit.NHWC(1, 24, 56, 56)), mean(pixelDims, kit.NHWC(1, 16, 28, 28))}},
		{Name: graph.FoldTail, Unit: "the rest of a row that is folded, which does not fill a register",
			Calls: []graph.RateCall{mean(pixelDims, kit.F32(1, 512, 7, 7)), mean(pixelDims, kit.F32(1, 1280, 7, 7)),
				activationMean("relu", 1, 208, 14, 14)}}, // rows of 49 and 196 elements
		{Name: graph.FoldBegin, Unit: "the start of a fold",
			Calls: []graph.RateCall{mean(pixelDims, kit.F32(1, 64, 7, 7)), mean(pixelDims, kit.NHWC(1, 64, 7, 7))}},
		{Name: graph.FoldSimple, Unit: "an instruction for an element, in a loop that folds",
			Calls: []graph.RateCall{activationMean("silu", 1, 96, 28, 28), activationMean("silu", 1, 240, 14, 14),
				activationMean("relu", 1, 104, 28, 28)}},
		{Name: graph.FoldTransposed, Unit: "an element of an operand that is transposed for a loop that folds",
			Calls: []graph.RateCall{transposedNorm()}},
	}
}

// multipassRates lists the rates of loops that fold rows in several passes.
func multipassRates() []graph.Rate {
	return []graph.Rate{
		{Name: graph.MultipassSimple, Unit: "an instruction on an element of loops that fold rows in several passes",
			Calls: []graph.RateCall{softmaxCall(128, 512), softmaxCall(32, 2048)}},
		{Name: graph.MultipassElement, Unit: "an element that is folded in several passes",
			Calls: []graph.RateCall{composedLayerNorm(196, 768), composedLayerNorm(196, 384), composedLayerNorm(784, 192)}},
		{Name: graph.MultipassBegin, Unit: "the start of a fold, in several passes",
			Calls: []graph.RateCall{composedLayerNorm(1, 768), composedLayerNorm(49, 512)}},
		{Name: graph.MultipassRow, Unit: "the start of a row, in several passes",
			Calls: []graph.RateCall{softmaxCall(2048, 16), composedLayerNorm(3136, 96), softmaxCall(1024, 64)}},
		{Name: graph.MultipassRun, Unit: "the start of a run of adjacent columns, in several passes",
			Calls: []graph.RateCall{withStridedRows(composedLayerNorm(50, 768)), withStridedRows(composedLayerNorm(196, 768))}},
		{Name: graph.MultipassTail, Unit: "the rest of a row, which does not fill a register, in several passes",
			Calls: []graph.RateCall{softmaxCall(1024, 49), biasedSoftmax(48, 49), biasedSoftmax(12, 50)}},
	}
}

// lineOpRates lists the rates of ops along lines ([lineOp]), which have no expression.
func lineOpRates() []graph.Rate {
	cumsum := func(dim int, shape ...int) graph.RateCall {
		return graph.RateCall{Op: "cumsum", Attrs: graph.Attrs{"dim": dim}, In: []tensor.Meta{kit.F32(shape...)},
			Impl: "rows"}
	}
	return []graph.Rate{
		{Name: lineBegin, Unit: "a line, or a step of adjacent lines",
			Calls: []graph.RateCall{cumsum(1, 4096, 8)}}, // short lines
		{Name: lineStrided, Unit: "an element that is copied to or from a strided run",
			Calls: []graph.RateCall{cumsum(0, 64, 512)}}, // the elements of a line are 512 elements apart
	}
}

// transposedNorm returns a layer norm whose rows are strided in the operand.
func transposedNorm() graph.RateCall {
	return withStridedRows(graph.RateCall{Op: "layer_norm", Attrs: graph.Attrs{"normalized_shape": []int{192}},
		In: []tensor.Meta{kit.F32(784, 192), kit.F32(192), kit.F32(192)}, Constant: []int{1, 2}})
}

// withStridedRows returns a call whose rows are strided in its first operand.
func withStridedRows(c graph.RateCall) graph.RateCall {
	operand := &c.In[0]
	operand.Strides = []int{1, operand.Shape[0]}
	return c
}

// softmaxCall returns a softmax of rows of n elements.
func softmaxCall(rows, n int) graph.RateCall {
	return graph.RateCall{Op: "softmax", Attrs: graph.Attrs{"dim": 1}, In: []tensor.Meta{kit.F32(rows, n)}, Impl: "rows"}
}

// composedLayerNorm returns a layer norm that is composed of separate ops, as in exported models. Make adds the nodes.
// Op is the op of one node.
func composedLayerNorm(rows, n int) graph.RateCall {
	return graph.RateCall{Op: "mean", In: []tensor.Meta{kit.F32(rows, n), kit.F32(n)}, Constant: []int{1},
		Make: func(g *graph.Graph, in []any) []*graph.Value {
			alongRows := graph.Attrs{"dim": []int{1}, "keepdim": true}
			deviations := g.Apply("sub", nil, in[0], g.Apply("mean", alongRows, in[0])[0])[0]
			variance := g.Apply("mean", alongRows, g.Apply("mul", nil, deviations, deviations)[0])[0]
			std := g.Apply("sqrt", nil, g.Apply("add", nil, variance, 1e-5)[0])[0]
			return g.Apply("mul", nil, g.Apply("div", nil, deviations, std)[0], in[1])
		}}
}

// activationMean returns a call that computes an activation and the mean of its result over pixels, in one loop.
func activationMean(op string, shape ...int) graph.RateCall {
	return graph.RateCall{Op: "mean", In: []tensor.Meta{kit.F32(shape...)},
		Make: func(g *graph.Graph, in []any) []*graph.Value {
			y := g.Apply(op, nil, in[0])[0]
			return append(g.Apply("mean", graph.Attrs{"dim": pixelDims, "keepdim": true}, y), y)
		}}
}

// biasedSoftmax returns the softmax of an attention's scores [heads, n, n] plus a bias [1, n, n].
func biasedSoftmax(heads, n int) graph.RateCall {
	return graph.RateCall{Op: "softmax", In: []tensor.Meta{kit.F32(heads, n, n), kit.F32(1, n, n)},
		Make: func(g *graph.Graph, in []any) []*graph.Value {
			return g.Apply("softmax", graph.Attrs{"dim": 2}, g.Apply("add", nil, in[0], in[1])[0])
		}}
}
