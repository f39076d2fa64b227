package view

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type expandAttrs struct {
	Size     []sym.Int `attr:"size" doc:"sizes of the result; -1 keeps a size"`
	Implicit bool      `attr:"implicit" default:"false" doc:"has no effect"`
}

// Expand is Tensor.expand.
var Expand = viewOp(graph.SchemaOf[*expandAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "expand",
	Doc:      "Expands dimensions of size 1 and adds leading dimensions, with strides of 0.",
	Examples: kit.OneExample(kit.F32(3, 1), graph.Attrs{"size": []int{2, -1, 4}}),
}, Facts: graph.Facts{SizesAttr: "size"}}, func(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
	return self.Expand(kit.Attrs[*expandAttrs](c).Size)
})

type broadcastToAttrs struct {
	Size []sym.Int `attr:"size" doc:"sizes of the result; -1 keeps a size"`
}

// BroadcastTo is torch.broadcast_to.
var BroadcastTo = viewOp(graph.SchemaOf[*broadcastToAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "broadcast_to",
	Doc:      "Expands dimensions of size 1 and adds leading dimensions, as `expand` does.",
	Examples: kit.OneExample(kit.F32(3, 1), graph.Attrs{"size": []int{2, 3, 4}}),
}, Facts: graph.Facts{SizesAttr: "size"}}, func(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
	return self.Expand(kit.Attrs[*broadcastToAttrs](c).Size)
})

// ExpandAs is Tensor.expand_as.
var ExpandAs = viewOp(kit.NoAttrs, graph.Op{Semantics: graph.Semantics{
	Name:     "expand_as",
	Doc:      "Expands self to the shape of `other`.",
	Params:   []graph.Param{kit.Self, kit.Other},
	Examples: []graph.Example{{In: []tensor.Meta{kit.F32(3, 1), kit.F32(2, 3, 4)}}},
}, Facts: graph.Facts{Parallel: graph.BroadcastLoops},
}, func(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
	return self.Expand(c.Type(1).Shape)
})
