package graph

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/expr"
)

// Fuse makes one node of several, which are in a valid order and each have a [Node.Expression], or, where mask marks
// the dimensions that they fold, a [Node.RowExpression]: values of theirs that keep says are its results, the others
// are gone. The caller puts the node into Nodes in place of the last of the parts, and removes those. It is for passes.
// After an error the graph is as it was.
func (g *Graph) Fuse(parts []*Node, mask []bool, keep func(*Value) bool) (*Node, error) {
	if len(parts) < 2 || keep == nil {
		return nil, errors.New("one node needs no other to stand for it")
	}
	f := &fuser{fusion: &Fusion{Mask: mask}, node: &Node{Op: Fused}, at: map[*Value][2]int{}, operand: map[*Value]int{}}
	for i, m := range parts {
		if m == nil || m.Op == nil || m.Op.Pointwise == nil && m.Op.Rows == nil || len(m.Out) == 0 ||
			m.Out[0].graph != g {
			return nil, fmt.Errorf("part %d is no node of the graph that goes over elements", i)
		}
		if err := f.add(i, m, keep); err != nil {
			return nil, err
		}
	}
	n, last := f.node, parts[len(parts)-1]
	switch {
	case len(n.Out) == 0:
		return nil, errors.New("nobody needs what the parts make")
	case len(n.In) == 0 || len(n.In)+len(n.Out) > expr.MaxOperands:
		return nil, fmt.Errorf("%d operands and %d results are not for one loop", len(n.In), len(n.Out))
	}
	n.Attrs, n.Name, n.Part = f.fusion, last.Name, last.Part
	if _, err := f.fusion.Code(n.In); err != nil {
		return nil, err
	}
	names := g.named()
	for _, m := range parts {
		names.dropNodeName(m)
	}
	for _, v := range f.inside {
		delete(names.values, v.Name)
	}
	for i, v := range n.Out {
		v.Node, v.Index = n, i
	}
	g.numberNode(n)
	names.addNode(n)
	return n, nil
}

// fuser gathers what a fused node is made of.
type fuser struct {
	fusion  *Fusion
	node    *Node
	at      map[*Value][2]int // what parts make, by part and output
	operand map[*Value]int
	inside  []*Value
}

// add adds part i.
func (f *fuser) add(i int, m *Node, keep func(*Value) bool) error {
	p := FusedPart{Name: m.Name, Op: m.Op, Attrs: m.Attrs, Outs: len(m.Out)}
	for k, a := range m.In {
		switch made, inner := f.at[a.Value]; {
		case a.Kind == NumberArg:
			p.In = append(p.In, FusedArg{Number: a.Number})
		case a.Kind == Null:
			return fmt.Errorf("operand %d of %q is left out", k, m.Name)
		case inner:
			p.In = append(p.In, FusedArg{Part: made[0], Place: made[1]})
		default:
			place, known := f.operand[a.Value]
			if !known {
				place = len(f.node.In)
				f.operand[a.Value] = place
				f.node.In = append(f.node.In, a)
			}
			p.In = append(p.In, FusedArg{Part: -1, Place: place})
		}
	}
	for k, v := range m.Out {
		f.at[v] = [2]int{i, k}
		if keep(v) {
			f.fusion.Results = append(f.fusion.Results, [2]int{i, k})
			f.node.Out = append(f.node.Out, v)
			continue
		}
		f.inside = append(f.inside, v)
	}
	f.fusion.Parts = append(f.fusion.Parts, p)
	return nil
}
