package composite

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/index"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
)

type asStridedScatterAttrs struct {
	Size   []sym.Int `attr:"size" doc:"sizes of the view"`
	Stride []sym.Int `attr:"stride" doc:"strides of the view, in elements"`
	Offset *sym.Int  `attr:"storage_offset" default:"none" doc:"offset of the view in the storage of the result, in elements; default: 0"`
}

// AsStridedScatter is torch.as_strided_scatter. Its function applies other ops (steps.go) and returns the result.
var AsStridedScatter = defineOneResult(graph.Semantics{
	Name: "as_strided_scatter", Doc: "Copies self and writes `src`, converted to the dtype of self, to a view of the " +
		"copy's storage. `size`, `stride` and `storage_offset` define the view. If self is dense, the copy has the layout " +
		"of self. If several elements of the view have the same address, the last one is written, in the order in which " +
		"PyTorch visits the view: outer dimensions are those of larger strides, then of larger sizes, then of larger " +
		"strides of `src`. " +
		"A view with a dimension of stride 0 and at least two indices is an error.",
	Params: []graph.Param{kit.Self, {Name: "src"}},
	Examples: []graph.Example{kit.Example(graph.Attrs{"size": []int{2, 2}, "stride": []int{4, 1}, "storage_offset": 3},
		kit.F32(3, 4).WithStrides([]int{1, 3}), kit.F32(2, 2))},
}, func(s applier, a *asStridedScatterAttrs, in []*graph.Arg) *graph.Arg {
	resultType := rule.PreserveType(in[0].Type())
	// The elements are written to a vector of the whole storage: the planner may change the layout of any other value.
	storage := s.Apply(view.AsStrided, graph.Attrs{"size": []sym.Int{resultType.Numel()}, "stride": []int{1}},
		s.Apply(view.Clone, nil, in[0]))
	src, size, stride := in[1], a.Size, a.Stride
	if order, ok := visitingOrder(a.Size, a.Stride, src.Type().Strides); ok {
		src = s.Apply(view.Permute, graph.Attrs{"dims": order}, src)
		size, stride = permuted(size, order), permuted(stride, order)
	}
	attrs := graph.Attrs{"size": size, "stride": stride}
	if a.Offset != nil {
		attrs["storage_offset"] = *a.Offset
	}
	written := s.Apply(index.StorageScatter(), attrs, storage, src)
	return s.Apply(view.AsStrided, graph.Attrs{"size": resultType.Shape, "stride": resultType.Strides}, written)
})

// visitingOrder returns the dimensions of a view in the order of TensorIterator: decreasing strides, then sizes, then
// strides of the source. It returns false if a size or stride is unknown, if the dimensions already have this order, or
// if inference rejects the call.
func visitingOrder(size, stride, source []sym.Int) (order []int, ok bool) {
	keys := make([][3]int, len(size))
	for k, numbers := range [][]sym.Int{stride, size, source} {
		if len(numbers) != len(size) {
			return nil, false
		}
		for dim, n := range numbers {
			if keys[dim][k], ok = n.Known(); !ok {
				return nil, false
			}
		}
	}
	for dim := range size {
		order = append(order, dim)
	}
	slices.SortStableFunc(order, func(d, e int) int { return slices.Compare(keys[e][:], keys[d][:]) })
	return order, !slices.IsSorted(order)
}

// permuted returns the numbers of the dimensions in the given order.
func permuted(numbers []sym.Int, order []int) []sym.Int {
	out := make([]sym.Int, len(numbers))
	for i, dim := range order {
		out[i] = numbers[dim]
	}
	return out
}
