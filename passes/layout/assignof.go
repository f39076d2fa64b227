package layout

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
)

// Of returns the assignment transferred to g. g must be a copy of the assignment's graph, in which nodes and values
// have the same numbers. Sizes may differ, so explicit strides are replaced by the strides in g.
func (a *Assignment) Of(g *graph.Graph) *Assignment {
	if a == nil || g == nil {
		return nil
	}
	t := &copyMapper{mapped: map[*Copy]*Copy{}}
	g.Values(func(v *graph.Value) {
		if i := v.Number(); i >= 0 {
			t.values = append(t.values, make([]*graph.Value, max(0, i+1-len(t.values)))...)
			t.values[i] = v
		}
	})
	moved := &Assignment{Nodes: slices.Clone(a.Nodes), Inputs: t.copies(a.Inputs), Outputs: t.copies(a.Outputs),
		LostOutputs: a.LostOutputs, Final: a.Final}
	for i := range moved.Nodes {
		choice := &moved.Nodes[i]
		choice.In, choice.ResultCopies = t.copies(choice.In), t.copies(choice.ResultCopies)
	}
	return moved
}

// copyMapper maps copies in one graph to the corresponding copies in another graph.
type copyMapper struct {
	values []*graph.Value // by number
	mapped map[*Copy]*Copy
}

// copies maps each Copy of a list.
func (t *copyMapper) copies(list []*Copy) []*Copy {
	if list == nil {
		return nil
	}
	out := make([]*Copy, len(list))
	for i, c := range list {
		out[i] = t.copy(c)
	}
	return out
}

// copy maps one Copy.
func (t *copyMapper) copy(c *Copy) *Copy {
	if c == nil {
		return nil
	}
	if d := t.mapped[c]; d != nil {
		return d
	}
	d := *c
	t.mapped[c] = &d
	if c.Value != nil {
		if i := c.Value.Number(); i >= 0 && i < len(t.values) {
			d.Value = t.values[i]
		}
	}
	d.From = t.copy(c.From)
	if c.Strides != nil && d.Value != nil {
		d.Strides = d.Value.Meta.Strides
	}
	return &d
}
