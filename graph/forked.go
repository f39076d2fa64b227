package graph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// maxCases is the number of classes of sizes up to which a graph is inferred for all of them.
const maxCases = 16

// SymbolicForked is [Graph.Symbolic] for all classes of sizes at once, up to 16: wherever form and bounds do not
// decide, both ways are gone. A size, stride or offset that is another in other classes is a [sym.Where]. Guards then
// exclude sizes that are refused, for which [Guard.Refusal] has the reason, and those for which a value has another
// rank, dtype or alias than it has at the hints. Where there are more classes the graph is inferred for that of the
// hints alone, and [Symbolic.Cut] says so.
func (g *Graph) SymbolicForked(hints map[string]int) (*Symbolic, error) {
	if i := slices.IndexFunc(g.Nodes, (*Node).settles); i >= 0 {
		s, err := g.Symbolic(hints)
		if s != nil {
			s.Cut = fmt.Errorf("%q runs one of several graphs, or one several times, as sizes say", g.Nodes[i].Name)
		}
		return s, err
	}
	s, err := g.symbolic(hints)
	if err != nil {
		return nil, err
	}
	s.forking = true
	cases, err := sym.Fork(s.Env, maxCases, s.oneCase)
	if err != nil || len(cases) == 0 || cases[0].Value.err != nil {
		one, wrong := g.Symbolic(hints)
		if one != nil && err != nil {
			one.Cut = fmt.Errorf("more than %d classes of sizes: %w", maxCases, err)
		}
		return one, wrong
	}
	s.forking = false
	s.merge(cases)
	return s, nil
}

// oneClass is what inference says of the values of one class of sizes, in the order of [Graph.Values].
type oneClass struct {
	values []classValue
	err    error // why the class is refused
	node   *Node
}

type classValue struct {
	t       tensor.Type
	m       tensor.Meta
	alias   *Value
	dynamic bool
}

// oneCase infers the graph on the way through its branches that the fork goes.
func (s *Symbolic) oneCase() (c oneClass, err error) {
	s.decodeLater()
	if err := s.inputs(); err != nil {
		return oneClass{err: err}, nil
	}
	var of inference
	var at *Node
	defer func() {
		if p := recover(); p == any(sym.ErrNumber) && at != nil {
			c = oneClass{err: s.Graph.Fail(at, sym.ErrNumber), node: at}
		} else if p != nil {
			panic(p)
		}
	}()
	for _, at = range s.Graph.Nodes {
		if err := at.infer(&of); err != nil {
			return oneClass{err: s.Graph.Fail(at, err), node: at}, nil
		}
	}
	s.Graph.Values(func(v *Value) { c.values = append(c.values, classValue{v.Type, v.Meta, v.Alias, v.Dynamic}) })
	return c, nil
}

// alike reports whether the values of two classes differ in sizes, strides and offsets only.
func (c *oneClass) alike(o *oneClass) error {
	for i := range c.values {
		a, b := &c.values[i], &o.values[i]
		switch {
		case a.dynamic != b.dynamic || a.t.DType != b.t.DType || a.alias != b.alias:
			return errors.New("a value is of another kind there")
		case len(a.t.Shape) != len(b.t.Shape):
			return errors.New("a value has another number of dimensions there")
		}
	}
	return nil
}

// merge gives the values the types of all classes that are like that of the hints, which is the first, and makes
// guards of what keeps the others out.
func (s *Symbolic) merge(cases []sym.Case[oneClass]) {
	first := &cases[0].Value
	kept := cases[:1]
	for _, c := range cases[1:] {
		err := c.Value.err
		switch {
		case c.Err != nil:
			err = c.Err
		case err == nil:
			err = first.alike(&c.Value)
		}
		if err != nil {
			s.Guards = append(s.Guards, Guard{Cond: c.If.Not(), Node: c.Value.node, Refusal: err})
		} else {
			kept = append(kept, c)
		}
	}
	i := 0
	s.Graph.Values(func(v *Value) {
		f := &first.values[i]
		v.Type, v.Meta, v.Alias, v.Dynamic = f.t, f.m, f.alias, f.dynamic
		if !f.dynamic {
			v.Type = mergedType(kept, i)
		}
		i++
	})
	for _, guard := range s.Guards {
		// A condition that form decides to hold is none, and one that contradicts another cannot be: cases are disjoint.
		if err := s.Env.Assume(guard.Cond); err != nil {
			s.Cut = fmt.Errorf("guards of classes contradict each other: %w", err)
		}
	}
}

// mergedType returns the type of value i over all cases.
func mergedType(cases []sym.Case[oneClass], i int) tensor.Type {
	last := len(cases) - 1
	t := cases[last].Value.values[i].t
	for k := last - 1; k >= 0; k-- {
		cond, own := cases[k].If, cases[k].Value.values[i].t
		if own.SameForm(t) {
			continue
		}
		merged := tensor.Type{DType: t.DType, Shape: make([]sym.Int, len(t.Shape)), Strides: make([]sym.Int, len(t.Shape)),
			Offset: sym.Where(cond, own.Offset, t.Offset)}
		for d := range t.Shape {
			merged.Shape[d] = sym.Where(cond, own.Shape[d], t.Shape[d])
			merged.Strides[d] = sym.Where(cond, own.Strides[d], t.Strides[d])
		}
		t = merged
	}
	return t
}
