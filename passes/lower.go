package passes

import (
	"errors"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// Packing is a constant that was brought into the form of an implementation: its name, that of the
// constant that it was made of, what it takes in bytes, and the nodes that read it.
type Packing struct {
	Value, Of, Form string
	Bytes           int
	Readers         []string
}

// packer packs constants, each once for a form.
type packer struct {
	plan *Plan
	made map[formOf]*packedAs
}

type formOf struct {
	value *graph.Value
	form  string
}

// packedAs is a packed constant, and its place in the plan.
type packedAs struct {
	value *graph.Value
	at    int
}

// packConstants brings constant operands into the forms that the chosen implementations want. One for which
// there is no memory stays as it is: its kernel packs it in every run.
func packConstants(p *Plan) error {
	k := packer{plan: p, made: map[formOf]*packedAs{}}
	for _, n := range p.Graph.Nodes {
		if n.Impl == nil || n.Impl.Pack == nil || !slices.ContainsFunc(n.In, isConstant) {
			continue
		}
		if err := k.node(n); err != nil {
			if p.keepGoing {
				continue // compiling tells
			}
			return p.Graph.Fail(n, err)
		}
	}
	if len(p.Packed) == 0 {
		return nil
	}
	bytes := 0
	for _, c := range p.Packed {
		bytes = sum(bytes, c.Bytes)
	}
	p.Note("%s packed into %s", counted(len(p.Packed), "constant", "constants"), machine.Bytes(bytes))
	if n := p.dropConstants(); n > 0 {
		p.Note("%s dropped that nobody reads as it was", counted(n, "constant", "constants"))
	}
	return nil
}

// isConstant reports whether an operand is a constant that is laid out as it was written.
func isConstant(a graph.Arg) bool {
	return a.Kind == graph.TensorArg && a.Value.Const != nil && a.Value.Packed == nil
}

// node packs the operands of one node.
func (k *packer) node(n *graph.Node) (err error) {
	defer recovered(&err)
	call := n.Call()
	for i := range n.In {
		a := &n.In[i]
		if !isConstant(*a) {
			continue
		}
		form, ok := n.Impl.Pack(call, i)
		if !ok {
			continue
		}
		c, err := k.packed(a.Value, form)
		if errors.As(err, new(*tensor.MemoryError)) {
			continue
		}
		if err != nil {
			return err
		}
		a.Value = c.value
		if to := &k.plan.Packed[c.at]; !slices.Contains(to.Readers, n.Name) {
			to.Readers = append(to.Readers, n.Name)
		}
	}
	return nil
}

// packed returns a constant in a form.
func (k *packer) packed(v *graph.Value, form graph.Packing) (*packedAs, error) {
	key := formOf{v, form.Form}
	if c := k.made[key]; c != nil {
		return c, nil
	}
	w, err := k.plan.Graph.AddPacked(v, form)
	if err != nil {
		return nil, err
	}
	c := &packedAs{w, len(k.plan.Packed)}
	k.plan.Packed = append(k.plan.Packed, Packing{Value: w.Name, Of: v.Name, Form: form.Form, Bytes: w.Meta.Bytes()})
	k.made[key] = c
	return c, nil
}
