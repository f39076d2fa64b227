package exec

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// place is the address range of a tensor's elements. It shows sharing between storages over the same bytes, too.
type place struct{ from, to uintptr }

func placeOf(t *tensor.Tensor) place {
	from, to := t.Span()
	return place{from, to}
}

// meets reports whether some of the bytes are the same.
func (a place) meets(b place) bool { return a.from < b.to && b.from < a.to }

// mayWrite refuses the tensor given for output i where one of its elements is in the memory of an input, of a constant
// or of a tensor given for an output before it.
func (p *Program) mayWrite(i int, in, out []*tensor.Tensor) error {
	name, t := p.outputs[i].Name, out[i]
	for k, x := range in {
		if reads(x, t, p.readsStorage) {
			return sharesMemory(name, "input", p.inputs[k].Name)
		}
	}
	for k, x := range out[:i] {
		if x != nil && tensor.Overlap(t, x) {
			return sharesMemory(name, "the tensor given for output", p.outputs[k].Name)
		}
	}
	if p.holds(placeOf(t)) {
		return fmt.Errorf("the tensor given for output %q shares memory with a constant", name)
	}
	return nil
}

func sharesMemory(name, what, other string) error {
	return fmt.Errorf("the tensor given for output %q shares memory with %s %q", name, what, other)
}

// readsStorage reports whether an op reads storage between the elements of its operand.
func readsStorage(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.Op != nil && n.Op.Storage })
}

// reads reports whether a run that reads input x may read an element of t; storage says that it may read bytes between
// the elements of x.
func reads(x, t *tensor.Tensor, storage bool) bool {
	return placeOf(t).meets(placeOf(x)) && (storage || tensor.Overlap(t, x))
}

// holds reports whether a constant is there.
func (p *Program) holds(at place) bool {
	i := sort.Search(len(p.constants), func(i int) bool { return p.constants[i].to > at.from })
	return i < len(p.constants) && p.constants[i].meets(at)
}

// findConstants lists the places of constants, which no run may write, in the order of their
// addresses; those that share bytes are one. A run of a graph of a few small nodes takes
// less time than to look at every constant would.
func (p *Program) findConstants() {
	var all []place
	for i := range p.storages {
		if s := &p.storages[i]; s.kind == inConst {
			if at := placeOf(s.data); at.from < at.to {
				all = append(all, at)
			}
		}
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Compare(a.from, b.from) })
	for _, at := range all {
		if n := len(p.constants); n > 0 && p.constants[n-1].meets(at) {
			p.constants[n-1].to = max(p.constants[n-1].to, at.to)
			continue
		}
		p.constants = append(p.constants, at)
	}
}
