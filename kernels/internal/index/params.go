package index

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// dimensioned is implemented by the attributes of ops that index one dimension. ok is false if the indices are flat
// indices into self.
type dimensioned interface {
	indexed() (dim int, ok bool)
}

// sizeOfSelf bounds indices into operand 0: see [graph.Param.Below].
func sizeOfSelf(c *graph.Call) int {
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

// sizeOfDim bounds the indices of dimension dim of operand 0. With masks there is no bound: a mask may index several
// dimensions, and the operands after it then index later ones.
func sizeOfDim(dim int) func(c *graph.Call) int {
	return func(c *graph.Call) int {
		if hasMask(c) {
			return -1
		}
		return kit.SizeOf(c.Meta(0), dim)
	}
}

// sizeOfTuples bounds all indices of the tuples of gather_nd and scatter_nd, by the least size of the indexed
// dimensions.
func sizeOfTuples(c *graph.Call) int {
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

// indexParam holds indices into dimension dim of self, or flat indices for ops without dim.
var indexParam = graph.Param{Name: "index", Below: sizeOfSelf}

type gatherNDAttrs struct {
	BatchDims int `attr:"batch_dims" default:"0" doc:"number of leading dimensions that self and indices share"`
}

func (a *gatherAttrs) indexed() (int, bool) { return a.Dim, true }
