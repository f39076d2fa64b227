package view

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Atleast1d, Atleast2d and Atleast3d are torch.atleast_1d, torch.atleast_2d and torch.atleast_3d. They take one tensor.
// PyTorch's functions also accept several tensors.
var (
	Atleast1d = atLeastOp("atleast_1d", "Adds a dimension of size 1 to a value without dimensions.", 1)
	Atleast2d = atLeastOp("atleast_2d", "Adds leading dimensions of size 1 up to rank 2.", 2)
	Atleast3d = atLeastOp("atleast_3d", "Adds dimensions of size 1 up to rank 3. A matrix gets its new dimension at the "+
		"end.", 3)
)

// atLeastOp defines the op that adds dimensions up to the given rank.
func atLeastOp(name, doc string, rank int) *graph.Op {
	return viewOp(kit.NoAttrs, graph.Op{Semantics: graph.Semantics{
		Name: name, Doc: doc, Examples: []graph.Example{kit.Example(nil, kit.F32()), kit.Example(nil, kit.F32(2))},
	}}, func(_ *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
		return withRankAtLeast(self, rank)
	})
}
