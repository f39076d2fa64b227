package view

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type sliceAttrs struct {
	Dim   int      `attr:"dim" default:"0" doc:"dimension to slice"`
	Start *sym.Int `attr:"start" default:"none" range:"int64" doc:"first index; a negative index counts from the end; default: 0"`
	End   *sym.Int `attr:"end" default:"none" range:"int64" doc:"exclusive end; default: the size"`
	Step  sym.Int  `attr:"step" default:"1" range:"int64" doc:"step between indices, positive"`
}

// Slice is aten::slice.
var Slice = viewOp(graph.SchemaOf[*sliceAttrs](), graph.Op{
	Semantics: graph.Semantics{
		Name:     "slice",
		Doc:      "Takes every `step`-th index of a dimension, from `start` to `end`, exclusive. Bounds are clamped.",
		Examples: kit.OneExample(kit.F32(4, 6), graph.Attrs{"dim": 1, "start": 1, "end": -1, "step": 2}),
	},
	Facts: graph.Facts{ImageRole: graph.ImagePreserving}, // a part of an image is an image
}, func(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
	attrs := kit.Attrs[*sliceAttrs](c)
	return self.Slice(attrs.Dim, attrs.Start, attrs.End, attrs.Step)
})

type selectAttrs struct {
	Dim   int     `attr:"dim" doc:"dimension to remove"`
	Index sym.Int `attr:"index" doc:"index to take; a negative index counts from the end"`
}

// Select is Tensor.select.
var Select = viewOp(graph.SchemaOf[*selectAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "select",
	Doc:      "Takes one index of a dimension and removes the dimension.",
	Examples: kit.OneExample(kit.F32(4, 6), graph.Attrs{"dim": 0, "index": -1}),
}}, func(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
	attrs := kit.Attrs[*selectAttrs](c)
	return self.Select(attrs.Dim, attrs.Index)
})

type narrowAttrs struct {
	Dim    int     `attr:"dim" doc:"dimension to narrow"`
	Start  sym.Int `attr:"start" range:"int64" doc:"first index; a negative index counts from the end"`
	Length sym.Int `attr:"length" doc:"number of indices"`
}

// Narrow is Tensor.narrow.
var Narrow = viewOp(graph.SchemaOf[*narrowAttrs](), graph.Op{
	Semantics: graph.Semantics{
		Name:     "narrow",
		Doc:      "Takes `length` indices of a dimension, from `start` on. Unlike `slice`, it does not clamp them.",
		Examples: kit.OneExample(kit.F32(4, 6), graph.Attrs{"dim": 1, "start": 2, "length": 3}),
	},
	Facts: graph.Facts{ImageRole: graph.ImagePreserving}, // a part of an image is an image
}, func(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
	attrs := kit.Attrs[*narrowAttrs](c)
	return self.Narrow(attrs.Dim, attrs.Start, attrs.Length)
})
