package kernels

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// dimensioned are the attributes of ops that index one dimension; ok is false where all of
// self is indexed.
type dimensioned interface {
	indexed() (dim int, ok bool)
}

// placesOfSelf bounds indices into operand 0: see [graph.Param.Below].
func placesOfSelf(c *graph.Call) int {
	m := c.Meta(0)
	if a, ok := c.Attrs.(dimensioned); ok {
		if dim, one := a.indexed(); one {
			return sizeOf(m, dim)
		}
	}
	return m.Numel()
}

// sizeOf is a size from the front or, for a negative dim, the back; 1 for a value without
// dimensions, which index 0 names, and -1 where there is no such dimension.
func sizeOf(m tensor.Meta, dim int) int {
	dim, err := tensor.WrapDim(dim, m.Rank())
	switch {
	case err != nil:
		return -1
	case m.Rank() == 0:
		return 1
	}
	return m.Shape[dim]
}

// rowsOfSelf bounds indices of rows of operand 0.
func rowsOfSelf(c *graph.Call) int { return sizeOf(c.Meta(0), 0) }

// placesOfDim bounds the indices of dimension dim of operand 0, where no mask before them
// moves them on to another.
func placesOfDim(dim int) func(c *graph.Call) int {
	return func(c *graph.Call) int {
		if hasMask(c) {
			return -1
		}
		return sizeOf(c.Meta(0), dim)
	}
}

// placesOfTuples bounds every index of the tuples of gather_nd and scatter_nd, which name
// places of the dimensions after the batch: the least of these sizes does for all.
func placesOfTuples(c *graph.Call) int {
	m, ix, batch := c.Meta(0), c.Meta(1), 0
	if a, ok := c.Attrs.(*gatherNDAttrs); ok {
		batch = a.BatchDims
	}
	if ix.Rank() == 0 || batch < 0 || ix.Shape[ix.Rank()-1] == 0 || batch+ix.Shape[ix.Rank()-1] > m.Rank() {
		return -1
	}
	return slices.Min(m.Shape[batch : batch+ix.Shape[ix.Rank()-1]])
}

// classesOfSelf bounds targets: self is [n, classes, ...] or [classes].
func classesOfSelf(c *graph.Call) int { return sizeOf(c.Meta(0), min(1, c.Meta(0).Rank()-1)) }

// lengthsOf bounds the lengths of sequences that operand 0 holds along its first dimension.
func lengthsOf(c *graph.Call) int { return sizeOf(c.Meta(0), 0) + 1 }

type gatherAttrs struct {
	Dim int `attr:"dim" doc:"dimension to index"`
}

// indexParam holds places in self along the attribute dim; in all of self, in row-major
// order, for an op without it.
var indexParam = graph.Param{Name: "index", Below: placesOfSelf}

type gatherNDAttrs struct {
	BatchDims int `attr:"batch_dims" default:"0" doc:"leading dimensions that self and indices have in common"`
}
