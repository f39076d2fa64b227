package exec

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// foldLimit is the number of bytes up to which results are always computed when the
// program is compiled: a big range, say, is cheaper to make than to keep.
const foldLimit = 1 << 14

// fold computes what depends on constants alone, once, such as a weight in another layout
// or dtype. It returns g itself if there is nothing of the kind, else a changed copy. What
// memory is short for is left to the run, and so is what fails where the run is to keep
// going.
func fold(g *graph.Graph, o Options) (*graph.Graph, error) {
	budget := foldBudget{limit: o.MemoryLimit, constants: g.Constants}
	known := func(n *graph.Node) bool {
		if n.Op.Eager != nil {
			return false
		}
		for _, a := range n.In {
			if a.Kind == graph.TensorArg && a.Value.Const == nil {
				return false
			}
		}
		return isView(n) || worthKeeping(n) && budget.allows(n)
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
		data, err := g.Fold(n, func() ([]*tensor.Tensor, error) { return compute(n) })
		if err != nil && (o.KeepGoing || errors.As(err, new(*tensor.MemoryError))) {
			rest = append(rest, n)
			continue
		}
		if err != nil {
			return nil, c.Fail(n, err)
		}
		budget.spend(n)
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
		out = sum(out, v.Meta.Bytes())
	}
	return out <= max(foldLimit, 4*in)
}

// foldBudget is the memory that results computed at compile time may take: half of what
// there is, for they come on top of what they were computed from.
type foldBudget struct {
	limit     int
	constants []*graph.Value
	most      int // found when it is first needed
	spent     int
}

// allows reports whether there is memory for the results of a node. Little always is.
func (b *foldBudget) allows(n *graph.Node) bool {
	after := sum(b.spent, resultBytes(n))
	if after < unasked && b.limit == 0 || b.limit < 0 {
		return true
	}
	if b.most == 0 {
		b.most = machine.Memory().Left / 2
		if b.limit > 0 {
			b.most = b.limit
			for _, v := range b.constants {
				b.most -= storageBytes(v)
			}
			b.most = max(b.most/2, 1)
		}
	}
	return after <= max(b.most, foldLimit)
}

func (b *foldBudget) spend(n *graph.Node) {
	if !isView(n) {
		b.spent = sum(b.spent, resultBytes(n))
	}
}

func resultBytes(n *graph.Node) int {
	bytes := 0
	for _, v := range n.Out {
		bytes = sum(bytes, storageBytes(v))
	}
	return bytes
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
func compute(n *graph.Node) (_ []*tensor.Tensor, err error) {
	defer recovered(&err)
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
	m := k.NewMem()
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
			if err := ph.Run(m, c); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}
