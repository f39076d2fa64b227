package reduce

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Rates lists the inner kernels of folds and lines, with the calls by which a machine is measured.
func Rates() []graph.Rate {
	softmax := func(impl string, dim int, shape ...int) graph.RateCall {
		return graph.RateCall{Op: "softmax", Attrs: graph.Attrs{"dim": dim}, In: []tensor.Meta{kit.F32(shape...)}, Impl: impl}
	}
	cumsum := func(impl string, dim int, shape ...int) graph.RateCall {
		return graph.RateCall{Op: "cumsum", Attrs: graph.Attrs{"dim": dim}, In: []tensor.Meta{kit.F32(shape...)}, Impl: impl}
	}
	norm := graph.RateCall{Op: "layer_norm", Attrs: graph.Attrs{"normalized_shape": []int{256}},
		In: []tensor.Meta{kit.F32(128, 256), kit.F32(256), kit.F32(256)}, Constant: []int{1, 2}}
	mean := graph.RateCall{Op: "mean", Attrs: graph.Attrs{"dim": []int{1}}, In: []tensor.Meta{kit.F32(128, 1024)}}
	return []graph.Rate{
		{Name: graph.Folded, Unit: "an element that is folded",
			Calls: []graph.RateCall{norm, mean}},
		{Name: graph.FoldSimple, Unit: "an instruction on an element of a loop that folds",
			Calls: []graph.RateCall{softmax("rows", 1, 128, 512), softmax("rows", 1, 32, 2048)}},
		{Name: graph.FoldTurned, Unit: "an element of an operand that is turned for a loop that folds"},
		{Name: graph.FoldedRow, Unit: "a row of elements that are folded",
			Calls: []graph.RateCall{softmax("rows", 1, 2048, 16), softmax("rows", 1, 1024, 49)}},
		{Name: lineBegin, Unit: "a line, or a step of lines side by side",
			Calls: []graph.RateCall{cumsum("rows", 1, 4096, 8)}},
		{Name: lineStrided, Unit: "an element that is brought to or from its place in a run with steps",
			Calls: []graph.RateCall{cumsum("rows", 0, 64, 512)}},
	}
}
