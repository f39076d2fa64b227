package exec

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// foldLimit bounds the elements of a value without operands that is computed when the
// program is compiled: larger ones, such as a big range, are cheaper to make than to keep.
const foldLimit = 1 << 12

// fold computes what depends on constants alone, once, such as a weight in another layout
// or dtype. It returns g itself if there is nothing of the kind, else a changed copy.
func fold(g *graph.Graph) (*graph.Graph, error) {
	known := func(n *graph.Node) bool {
		if n.Op.Eager != nil {
			return false
		}
		for _, a := range n.In {
			if a.Kind == graph.TensorArg && a.Value.Const == nil {
				return false
			}
		}
		return len(n.In) > 0 || n.Out[0].Meta.Numel() <= foldLimit
	}
	first := -1
	for i, n := range g.Nodes {
		if known(n) {
			first = i
			break
		}
	}
	if first < 0 {
		return g, nil
	}
	c := g.Clone()
	rest := c.Nodes[:first:first]
	for _, n := range c.Nodes[first:] {
		if !known(n) {
			rest = append(rest, n)
			continue
		}
		data, err := compute(n)
		if err != nil {
			return nil, c.Fail(n, err)
		}
		for i, v := range n.Out {
			c.MakeConstant(v, data[i])
		}
	}
	c.Nodes = rest
	return c, nil
}

// compute runs one node whose operands are constants, in this goroutine.
func compute(n *graph.Node) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(n.Out))
	if n.Out[0].Alias != nil {
		for i, v := range n.Out {
			t, err := v.Alias.Const.View(v.Meta)
			if err != nil {
				return nil, err
			}
			out[i] = t
		}
		return out, nil
	}
	k, err := n.Op.Compile(n.Call())
	if err != nil {
		return nil, err
	}
	m := graph.Mem{Scratch: tensor.NewStorage(k.Scratch).Bytes(), Worker: tensor.NewStorage(k.Worker).Bytes(), Cursor: &iter.Cursor{}}
	for i, v := range n.Out {
		out[i] = tensor.Empty(v.Meta)
		m.Ptrs = append(m.Ptrs, out[i].Pointer())
	}
	for i, a := range n.In {
		var p unsafe.Pointer
		switch {
		case i < len(k.Bound) && k.Bound[i] != nil:
			p = k.Bound[i].Pointer()
		case a.Kind == graph.TensorArg:
			p = a.Value.Const.Pointer()
		}
		m.Ptrs = append(m.Ptrs, p)
	}
	for _, ph := range k.Phases {
		for c := range ph.Chunks {
			if err := ph.Run(&m, c); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}
