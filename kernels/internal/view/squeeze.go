package view

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type squeezeAttrs struct {
	Dim []int `attr:"dim" default:"none" doc:"dimensions to remove if their size is 1; none: all of size 1"`
}

// Squeeze is Tensor.squeeze.
var Squeeze = viewOp(graph.SchemaOf[*squeezeAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "squeeze",
	Doc:      "Removes dimensions of size 1. A listed dimension of another size is kept.",
	Examples: kit.OneExample(kit.F32(2, 1, 3, 1), graph.Attrs{"dim": 1}),
}}, func(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
	dims := kit.Attrs[*squeezeAttrs](c).Dim
	if dims != nil && len(dims) == 0 {
		return self, nil // an empty list names no dimension
	}
	return self.Squeeze(dims...)
})

type unsqueezeAttrs struct {
	Dim int `attr:"dim" doc:"position of the new dimension, from -rank-1 to rank"`
}

// Unsqueeze is Tensor.unsqueeze.
var Unsqueeze = viewOp(graph.SchemaOf[*unsqueezeAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "unsqueeze",
	Doc:      "Adds a dimension of size 1.",
	Examples: kit.OneExample(kit.F32(2, 3), graph.Attrs{"dim": 1}),
}}, func(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
	return self.Unsqueeze(kit.Attrs[*unsqueezeAttrs](c).Dim)
})
