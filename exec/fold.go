package exec

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// foldLimit is the number of bytes up to which results are always computed when the
// program is compiled: a big range, say, is cheaper to make than to keep.
const foldLimit = 1 << 14

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
		return isView(n) || worthKeeping(n)
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
	var folded []*graph.Value
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
			folded = append(folded, v)
		}
	}
	c.Nodes = rest
	forget(c, folded)
	return c, nil
}

// worthKeeping reports whether the node's results take no more memory than a few times
// its operands, or little anyway.
func worthKeeping(n *graph.Node) bool {
	in, out := 0, 0
	for _, a := range n.In {
		if a.Kind == graph.TensorArg {
			in += a.Value.Const.Storage().Len()
		}
	}
	for _, v := range n.Out {
		out += v.Meta.Bytes()
	}
	return out <= max(foldLimit, 4*in)
}

// forget drops the folded values that nobody reads any more.
func forget(g *graph.Graph, folded []*graph.Value) {
	read, dropped := map[*graph.Value]bool{}, map[*graph.Value]bool{}
	for _, v := range folded {
		dropped[v] = true
	}
	for _, n := range g.Nodes {
		for _, a := range n.In {
			read[a.Value] = true
		}
	}
	for _, o := range g.Outputs {
		read[o.Value] = true
	}
	g.Constants = slices.DeleteFunc(g.Constants, func(v *graph.Value) bool {
		return !read[v] && dropped[v]
	})
}

// compute runs one node whose operands are constants, in this goroutine.
func compute(n *graph.Node) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(n.Out))
	if isView(n) {
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
