package index

import (
	"context"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// The ops of this file remove duplicates (unique_search.go). Unique2, UniqueDim and UniqueConsecutive are ops of aten.
// Unique is an op of ONNX, and also returns the indices of first occurrences. The shapes of the results depend on data.
var (
	Unique2 = uniqueOp(graph.Semantics{
		Name: "_unique2",
		Doc: "Returns three results. `output`: the distinct elements. `inverse`: for each element of self, the index of " +
			"the equal element in `output`. `counts`: the number of occurrences of each distinct element.",
		Outputs: []string{"output", "inverse", "counts"},
	}, nil, func(a *unique2Attrs) uniqueCall {
		return uniqueCall{mode: uniqueModeOf(a.Sorted), returnInverse: a.ReturnInverse || a.ReturnCounts,
			returnCounts: a.ReturnCounts}
	})
	UniqueDim = uniqueOp(graph.Semantics{
		Name: "unique_dim",
		Doc: "Returns three results. `output`: the distinct slices along a dimension. `inverse`: for each slice of self, " +
			"the index of the equal slice in `output`. `counts`: the number of occurrences of each distinct slice.",
		Outputs: []string{"output", "inverse", "counts"},
	}, graph.Attrs{"dim": 1}, func(a *uniqueDimAttrs) uniqueCall {
		return uniqueCall{dim: &a.Dim, mode: uniqueModeOf(a.Sorted), returnInverse: true, returnCounts: true}
	})
	Unique = uniqueOp(graph.Semantics{
		Name: "unique",
		Doc: "Returns four results. `output`: the distinct elements, or the distinct slices along a dimension. `first`: " +
			"the index of the first occurrence of each. `inverse`: for each element or slice of self, the index of the equal " +
			"one in `output`. `counts`: the number of occurrences of each.",
		Outputs: []string{"output", "first", "inverse", "counts"},
	}, nil, func(a *uniqueAttrs) uniqueCall {
		return uniqueCall{dim: a.Dim, mode: uniqueModeOf(a.Sorted), isONNX: true, returnInverse: true, returnCounts: true}
	})
	UniqueConsecutive = uniqueOp(graph.Semantics{
		Name: "unique_consecutive",
		Doc: "Returns three results. A run is a sequence of equal consecutive elements, or of equal slices along a " +
			"dimension. `output`: one element or slice of each run. `inverse`: for each element or slice of self, the index " +
			"of its run. `counts`: the length of each run.",
		Outputs: []string{"output", "inverse", "counts"},
	}, graph.Attrs{"dim": 1, "return_inverse": true, "return_counts": true},
		func(a *uniqueConsecutiveAttrs) uniqueCall {
			return uniqueCall{dim: a.Dim, mode: uniqueRuns, returnInverse: a.ReturnInverse, returnCounts: a.ReturnCounts}
		})
)

type unique2Attrs struct {
	Sorted        bool `attr:"sorted" default:"true" doc:"sort the result; else keep the order of first occurrences"`
	ReturnInverse bool `attr:"return_inverse" default:"false" doc:"return inverse; else it is empty, unless return_counts is set"`
	ReturnCounts  bool `attr:"return_counts" default:"false" doc:"return counts; else it is empty"`
}

type uniqueDimAttrs struct {
	Dim           int  `attr:"dim" doc:"dimension whose slices are compared"`
	Sorted        bool `attr:"sorted" default:"true" doc:"sort the result; else keep the order of first occurrences"`
	ReturnInverse bool `attr:"return_inverse" default:"false" doc:"has no effect: inverse is always returned"`
	ReturnCounts  bool `attr:"return_counts" default:"false" doc:"has no effect: counts are always returned"`
}

type uniqueAttrs struct {
	Dim    *int `attr:"dim" default:"none" doc:"dimension whose slices are compared; none: elements are compared"`
	Sorted bool `attr:"sorted" default:"true" doc:"sort the result; else keep the order of first occurrences"`
}

type uniqueConsecutiveAttrs struct {
	ReturnInverse bool `attr:"return_inverse" default:"false" doc:"return inverse; else it is empty, unless slices are compared"`
	ReturnCounts  bool `attr:"return_counts" default:"false" doc:"return counts; else it is empty, unless slices are compared"`
	Dim           *int `attr:"dim" default:"none" doc:"dimension whose slices are compared; none: elements are compared"`
}

// uniqueOp defines an op that removes duplicates. example has the attributes of the op's example. callOf returns the
// uniqueCall for the attributes of a call.
func uniqueOp[A any](semantics graph.Semantics, example graph.Attrs, callOf func(attrs A) uniqueCall) *graph.Op {
	name := semantics.Name
	semantics.Doc += " NaN differs from every element, including itself."
	semantics.Params = []graph.Param{kit.Self}
	semantics.Examples = kit.OneExample(tensor.New(tensor.Int32, 3, 4).WithStrides([]int{1, 3}), example)
	return dynamicOp(graph.SchemaOf[A](), graph.Op{Semantics: semantics},
		func(call *graph.Call) ([]graph.PartialType, error) {
			if dtype := call.Type(0).DType; dtype.IsComplex() {
				return nil, kit.NotImplementedBy(name, dtype)
			}
			return callOf(kit.Attrs[A](call)).forRank(call.Type(0).Rank()).outlines(call.Type(0)), nil
		}, func(ctx context.Context, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			return callOf(kit.Attrs[A](c)).forRank(in[0].Rank()).run(ctx, in[0])
		})
}

// forRank returns the call for a value of the given rank: PyTorch returns all results for runs of slices, but not for
// runs along dimension 0 of a vector.
func (u uniqueCall) forRank(rank int) uniqueCall {
	if u.mode == uniqueRuns && u.dim != nil && (*u.dim != 0 || rank != 1) {
		u.returnInverse, u.returnCounts = true, true
	}
	return u
}

// outlines returns the parts of the types of the results that are known before the run.
func (u uniqueCall) outlines(self tensor.Type) []graph.PartialType {
	output, vector := distinctSlices(self, u.dim), rowMajorOutline(tensor.Int64, unknownSize)
	if u.isONNX {
		return []graph.PartialType{output, vector, vector, vector}
	}
	inverse, counts := vector, vector
	switch {
	case !u.returnInverse:
		inverse.Sizes = []int{0}
	case u.dim == nil: // an index for each element of self
		inverse.Sizes = outlineSizes(self.Shape)
	}
	if !u.returnCounts {
		counts.Sizes = []int{0}
	}
	return []graph.PartialType{output, inverse, counts}
}

// run computes the results.
func (u uniqueCall) run(ctx context.Context, self *tensor.Tensor) ([]*tensor.Tensor, error) {
	found, err := findUnique(ctx, self, u)
	if err != nil {
		return nil, err
	}
	inverse, counts := int64Vector(nil), int64Vector(nil)
	if u.returnInverse {
		shape := []int{len(found.inverse)}
		if u.dim == nil && !u.isONNX {
			shape = self.Shape
		}
		inverse = tensor.Must(tensor.FromSlice(found.inverse, shape...))
	}
	if u.returnCounts {
		counts = int64Vector(found.counts)
	}
	if u.isONNX {
		return []*tensor.Tensor{found.output, int64Vector(found.first), inverse, counts}, nil
	}
	return []*tensor.Tensor{found.output, inverse, counts}, nil
}

// uniqueModeOf returns the mode for the attribute sorted.
func uniqueModeOf(isSorted bool) uniqueMode {
	if isSorted {
		return uniqueSorted
	}
	return uniqueUnsorted
}

// distinctSlices returns the outline of a value that has the distinct slices of self along dim, or the distinct
// elements of self if dim is nil. PyTorch stacks the slices along a first dimension and then moves this dimension to
// dim, which determines the layout.
func distinctSlices(self tensor.Type, dim *int) graph.PartialType {
	outline := rowMajorOutline(self.DType, selectedSizes(self, dim)...)
	if dim == nil || len(outline.Sizes) < 2 {
		return outline
	}
	wrappedDim, err := tensor.WrapDim(*dim, self.Rank())
	if err != nil {
		return outline
	}
	outline.TypeFor = func(shape []sym.Int) (tensor.Type, error) {
		if kit.SizeIs(self.Shape[wrappedDim], 0) { // there are no slices to stack
			return kit.FreshType(self.DType, shape)
		}
		stacked := slices.Insert(slices.Delete(slices.Clone(shape), wrappedDim, wrappedDim+1), 0, shape[wrappedDim])
		stackedType, err := kit.FreshType(self.DType, stacked)
		if err != nil {
			return stackedType, err
		}
		return stackedType.MoveDim([]int{0}, []int{wrappedDim})
	}
	return outline
}
