package inspect

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// FirstBreak returns the first result in an inferred graph that loses memory format f, or nil. For each node, let x be
// the first operand whose only format is f. (An image of one channel, for example, has two formats.) A result of the
// node loses f if it has the rank of x but not the format f. For example, a row-major result of 4 dimensions loses
// channels-last if the first operand is an image that is channels-last only. FirstBreak fails if f is not the format of
// a layout; an example is [tensor.Preserve].
func FirstBreak(g *graph.Graph, f tensor.MemoryFormat) (*graph.Value, error) {
	switch f {
	case tensor.Contiguous, tensor.ChannelsLast, tensor.ChannelsLast3d: // the formats of layouts
	default:
		return nil, fmt.Errorf("no value has memory format %v: want contiguous, channels_last or channels_last_3d",
			cmp.Or(f.String(), "none"))
	}
	if g == nil {
		return nil, errNoGraph
	}
	for _, n := range g.Nodes {
		first := slices.IndexFunc(n.In, func(arg graph.Arg) bool {
			return arg.Kind == graph.TensorArg && !arg.Value.Dynamic && isOnlyIn(arg.Value.Meta, f)
		})
		if first < 0 {
			continue
		}
		rank := n.In[first].Value.Meta.Rank()
		for _, v := range n.Out {
			if !v.Dynamic && v.Meta.Rank() == rank && !v.Meta.Is(f) {
				return v, nil
			}
		}
	}
	return nil, nil
}

// isOnlyIn reports whether f is the only format of a value.
func isOnlyIn(meta tensor.Meta, f tensor.MemoryFormat) bool {
	if f == tensor.Contiguous {
		return meta.IsContiguous() && !meta.IsChannelsLast() && !meta.IsChannelsLast3d()
	}
	return meta.Is(f) && !meta.IsContiguous()
}
