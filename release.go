package graphrun

import (
	"runtime/debug"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// release lets go of the weights that no run reads, since what was packed of them takes their place: the program keeps
// its graph without their data, which [compiled.whole] unpacks when somebody asks for them. Who holds the graph that
// was compiled has them as before. It is for programs that plan nothing any more.
func (c *compiled) release() {
	if c.plan == nil || c.runs != c.graph || c.runner.Program() == nil {
		return
	}
	held := map[*tensor.Storage]bool{}
	packed := map[string]*graph.Value{}
	for _, v := range c.plan.Graph.Constants {
		held[v.Const.Storage()] = true
		switch kept := v.Packed.Kept(); {
		case kept != nil:
			held[kept.Storage()] = true
		case v.Packed != nil:
			packed[v.Packed.Of] = v
		}
	}
	g, bytes := c.graph.Clone(), 0
	c.unpacked = map[string]*graph.Value{}
	for _, v := range g.Constants {
		p, s := packed[v.Name], v.Const.Storage()
		if p == nil || held[s] || v.Packed != nil || !same(p.Packed.Meta, v.Const.Meta) {
			continue
		}
		bytes += s.Len()
		c.unpacked[v.Name], v.Const = p, &tensor.Tensor{Meta: v.Const.Meta}
	}
	c.graph, c.runs = g, g
	if bytes >= worthReturning {
		debug.FreeOSMemory()
	}
}

// same reports whether tensors of the metas hold the same elements at the same places.
func same(a, b tensor.Meta) bool {
	return a.DType == b.DType && a.Offset == b.Offset && a.SameLayout(b)
}

// worthReturning is from how many bytes on memory goes back to the system at once. It takes some milliseconds where
// reading as much took longer; without it a program that only runs, which allocates next to nothing, would keep it for
// minutes.
const worthReturning = 16 << 20

// whole is the graph with the data of all its constants.
func (c *compiled) whole() *graph.Graph {
	if len(c.unpacked) == 0 {
		return c.graph
	}
	g := c.graph.Clone()
	for _, v := range g.Constants {
		if p := c.unpacked[v.Name]; p != nil {
			v.Const = p.Data()
		}
	}
	return g
}
