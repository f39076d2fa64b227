package kernels

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type expandAttrs struct {
	Size     []sym.Int `attr:"size" doc:"sizes of the result; -1 keeps a size"`
	Implicit bool      `attr:"implicit" default:"false" doc:"has no effect"`
}

// Expand is Tensor.expand.
var Expand = viewOp[expandAttrs](graph.Op{
	Name:     "expand",
	Doc:      "Repeats dimensions of size 1 and adds dimensions at the front, by strides of 0.",
	Examples: oneExample(f32(3, 1), graph.Attrs{"size": []int{2, -1, 4}}),
}, func(c *graph.Call, t tensor.Type, _ sym.Int) (tensor.Type, error) {
	return t.Expand(attrs[expandAttrs](c).Size)
})

type broadcastToAttrs struct {
	Size []sym.Int `attr:"size" doc:"sizes of the result; -1 keeps a size"`
}

// BroadcastTo is torch.broadcast_to.
var BroadcastTo = viewOp[broadcastToAttrs](graph.Op{
	Name:     "broadcast_to",
	Doc:      "Repeats dimensions of size 1 and adds dimensions at the front, as expand does.",
	Examples: oneExample(f32(3, 1), graph.Attrs{"size": []int{2, 3, 4}}),
}, func(c *graph.Call, t tensor.Type, _ sym.Int) (tensor.Type, error) {
	return t.Expand(attrs[broadcastToAttrs](c).Size)
})

// ExpandAs is Tensor.expand_as.
var ExpandAs = viewOp[none](graph.Op{
	Name:     "expand_as",
	Doc:      "Expands self to the shape of other.",
	Params:   []graph.Param{self, other},
	Examples: []graph.Example{{In: []tensor.Meta{f32(3, 1), f32(2, 3, 4)}}},
}, func(c *graph.Call, t tensor.Type, _ sym.Int) (tensor.Type, error) { return t.Expand(c.Type(1).Shape) })
