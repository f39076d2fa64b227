package index

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// This file has the attributes that several ops share, and the bounds on indices ([graph.Param.IndexBound]). Tests
// generate indices below these bounds.

type gatherNDAttrs struct {
	BatchDims int `attr:"batch_dims" default:"0" doc:"number of leading dimensions that self and indices share"`
}

// dimAttrs are the attributes of ops whose only attribute is the indexed dimension.
type dimAttrs struct {
	Dim int `attr:"dim" doc:"dimension to index"`
}

// indexedDim implements oneDimAttrs.
func (a *dimAttrs) indexedDim() (int, bool) { return a.Dim, true }

// indexParam is an operand with indices of dimension dim of self, or with flat indices if the op has no attribute dim.
var indexParam = graph.Param{Name: "index", IndexBound: selfIndexBound}

// oneDimAttrs is implemented by the attributes of ops that index one dimension. indexedDim returns the dimension. ok is
// false if the indices are flat indices into self.
type oneDimAttrs interface {
	indexedDim() (dim int, ok bool)
}

// selfIndexBound returns the bound on indices into operand 0.
func selfIndexBound(c *graph.Call) int {
	self := c.Meta(0)
	if attrs, ok := c.Attrs.(oneDimAttrs); ok {
		if dim, ok := attrs.indexedDim(); ok {
			return kit.SizeOrMissing(self, dim)
		}
	}
	return self.Numel()
}

// rowIndexBound returns the bound on indices of rows of operand 0.
func rowIndexBound(c *graph.Call) int { return kit.SizeOrMissing(c.Meta(0), 0) }

// noBound is the bound of operands that may have any elements. kit.SizeOrMissing also returns it, for a dimension that
// does not exist.
const noBound = -1

// dimIndexBound returns the bound on indices of dimension dim of operand 0. In a call with masks it returns noBound: a
// mask may index several dimensions, so that the operands after the mask index other dimensions.
func dimIndexBound(dim int) func(c *graph.Call) int {
	return func(c *graph.Call) int {
		if hasMask(c) {
			return noBound
		}
		return kit.SizeOrMissing(c.Meta(0), dim)
	}
}

// tupleIndexBound returns the bound on the indices of gather_nd and scatter_nd: the least size of the indexed
// dimensions. The indices of a tuple are along the last dimension of operand 1. For an invalid call, it returns
// noBound.
func tupleIndexBound(c *graph.Call) int {
	self, index, batchDims := c.Meta(0), c.Meta(1), 0
	if attrs, ok := c.Attrs.(*gatherNDAttrs); ok {
		batchDims = attrs.BatchDims
	}
	if index.Rank() == 0 || batchDims < 0 {
		return noBound
	}
	tupleLen := index.Shape[index.Rank()-1]
	if tupleLen == 0 || batchDims+tupleLen > self.Rank() {
		return noBound
	}
	return slices.Min(self.Shape[batchDims : batchDims+tupleLen])
}
