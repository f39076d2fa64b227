package passes

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// strategy returns the memory format that a value of the meta should have; NoFormat
// leaves it as it comes.
type strategy func(m tensor.Meta) tensor.MemoryFormat

var strategies = map[string]strategy{
	"propagate":  func(tensor.Meta) tensor.MemoryFormat { return tensor.NoFormat },
	"contiguous": func(tensor.Meta) tensor.MemoryFormat { return tensor.Contiguous },
	"channels_last": func(m tensor.Meta) tensor.MemoryFormat {
		switch m.Rank() {
		case 4:
			return tensor.ChannelsLast
		case 5:
			return tensor.ChannelsLast3d
		}
		return tensor.NoFormat
	},
}

// rigid returns the storage roots whose layout must stay as written, because an op reads
// their storage rather than their elements.
func rigid(g *graph.Graph) map[*graph.Value]bool {
	set := map[*graph.Value]bool{}
	for _, n := range g.Nodes {
		if !n.Op.Storage {
			continue
		}
		for _, a := range n.In {
			if a.Kind == graph.TensorArg {
				for v := a.Value; v != nil; v = v.Alias {
					set[v] = true
				}
			}
		}
	}
	return set
}
