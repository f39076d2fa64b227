package view

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type unfoldAttrs struct {
	Dimension int     `attr:"dimension" doc:"dimension to divide into windows"`
	Size      sym.Int `attr:"size" doc:"size of a window"`
	Step      sym.Int `attr:"step" doc:"distance between windows, positive"`
}

// Unfold is Tensor.unfold.
var Unfold = viewOp(graph.SchemaOf[*unfoldAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "unfold",
	Doc:      "Divides a dimension into windows, whose elements form a new last dimension.",
	Examples: kit.OneExample(kit.F32(2, 7), graph.Attrs{"dimension": 1, "size": 3, "step": 2}),
}}, func(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
	attrs := kit.Attrs[*unfoldAttrs](c)
	return self.Unfold(attrs.Dimension, attrs.Size, attrs.Step)
})

type diagonalAttrs struct {
	Offset int `attr:"offset" default:"0" range:"int64" doc:"index of dim2 minus index of dim1"`
	Dim1   int `attr:"dim1" default:"0" doc:"first dimension"`
	Dim2   int `attr:"dim2" default:"1" doc:"second dimension"`
}

// Diagonal is Tensor.diagonal.
var Diagonal = viewOp(graph.SchemaOf[*diagonalAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "diagonal",
	Doc:      "Takes the elements where the indices of two dimensions differ by `offset`, as a new last dimension.",
	Examples: kit.OneExample(kit.F32(4, 5), graph.Attrs{"offset": 1}),
}}, func(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
	attrs := kit.Attrs[*diagonalAttrs](c)
	return self.Diagonal(attrs.Offset, attrs.Dim1, attrs.Dim2)
})
