package graph

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/tensor"
)

// Repetition is a graph that runs so many times: its inputs are the number of the iteration, a truth that is true, the
// carried values and others, its outputs a truth that stays true, the carried values, and what is collected.
type Repetition struct {
	Body    *Graph
	Times   int
	Carried int   // how many of Values each iteration hands to the next
	Values  []Arg // for all inputs of Body but the first two
}

// repeat puts the nodes of all iterations into the place of a node: it gives the carried values as the last one left
// them, and what was collected stacked along a new first dimension.
func (s *settling) repeat(n *Node) error {
	g := s.g
	r, _ := n.Op.Repeats(n.Call())
	if g.open != nil {
		g.open.record(Guard{Node: n})
	}
	stacked := len(n.Out) - r.Carried
	if r.Body == nil || r.Carried < 0 || stacked < 0 || len(r.Values) < r.Carried ||
		len(r.Body.Inputs) != 2+len(r.Values) || len(r.Body.Outputs) != 1+len(n.Out) {
		return errors.New("its graph takes and gives other values than it")
	}
	values := make([]*Value, len(r.Values))
	for i, a := range r.Values {
		if values[i] = a.Value; a.Kind != TensorArg {
			return fmt.Errorf("operand %q of the graph it runs is no value", r.Body.Inputs[2+i].Name)
		}
	}
	g.named().dropNode(n)
	going := s.known(n, "going", tensor.BoolScalar(true).Tensor(tensor.Bool))
	collected := make([][]Arg, stacked)
	for i := range r.Times {
		at := s.known(n, "iteration", tensor.IntScalar(int64(i)).Tensor(tensor.Int64))
		out, err := s.splice(n, r.Body, append([]*Value{at, going}, values...))
		if err != nil {
			return fmt.Errorf("iteration %d: %w", i, err)
		}
		copy(values, out[1:1+r.Carried])
		for k, v := range out[1+r.Carried:] {
			collected[k] = append(collected[k], Of(v))
		}
	}
	for i := range r.Carried {
		s.stands(n.Out[i], values[i], n)
	}
	for k, list := range collected {
		v, err := s.stack(n, list)
		if err != nil {
			return err
		}
		s.stands(n.Out[r.Carried+k], v, n)
	}
	return nil
}

// known adds a constant for what a node runs.
func (s *settling) known(n *Node, name string, t *tensor.Tensor) *Value {
	return s.constant(n, &Value{Name: name, Type: t.Meta.Type(), Meta: t.Meta, Const: t}, map[*Value]*Value{})
}

// stack adds a node that stacks values along a new first dimension.
func (s *settling) stack(n *Node, list []Arg) (*Value, error) {
	op := s.g.lookup("stack")
	if op == nil {
		return nil, errors.New("there is no op stack, by which values are collected")
	}
	c := &Node{Name: s.g.Fresh(n.Name + ".stack"), Op: op, In: list, Part: n, attrs: attributesOf(Attrs{"dim": 0})}
	v := s.result(c, 0, c.Name)
	s.add(c)
	s.g.Nodes = append(s.g.Nodes, c)
	return v, nil
}
