package index

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
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
			return kit.SizeOf(m, dim)
		}
	}
	return m.Numel()
}

// rowsOfSelf bounds indices of rows of operand 0.
func rowsOfSelf(c *graph.Call) int { return kit.SizeOf(c.Meta(0), 0) }

// placesOfDim bounds the indices of dimension dim of operand 0, where no mask before them
// moves them on to another.
func placesOfDim(dim int) func(c *graph.Call) int {
	return func(c *graph.Call) int {
		if hasMask(c) {
			return -1
		}
		return kit.SizeOf(c.Meta(0), dim)
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

type gatherAttrs struct {
	Dim int `attr:"dim" doc:"dimension to index"`
}

// indexParam holds places in self along the attribute dim; in all of self, in row-major
// order, for an op without it.
var indexParam = graph.Param{Name: "index", Below: placesOfSelf}

type gatherNDAttrs struct {
	BatchDims int `attr:"batch_dims" default:"0" doc:"leading dimensions that self and indices have in common"`
}

func (a *gatherAttrs) indexed() (int, bool) { return a.Dim, true }
