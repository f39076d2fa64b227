package kernels

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// delegated is a call of another op on views of a call's operands.
func delegated(c *graph.Call, attrs any, types ...tensor.Type) *graph.Call {
	in := &graph.Call{Attrs: attrs, Out: c.Out}
	for _, t := range types {
		m, _ := t.Meta()
		in.In = append(in.In, graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Type: t, Meta: m}})
	}
	return in
}
