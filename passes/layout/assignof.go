package layout

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
)

// Of returns the assignment transferred to g. g must be a clone of the assignment's graph, in which nodes and values
// have the same numbers. Sizes may differ, so explicit strides are replaced by the strides in g. LostOutputs (the
// outputs that are missing because of failures) and Final contain no values or nodes, and are shared. The failures, the
// placed values, the model and the solution are not transferred.
func (a *Assignment) Of(g *graph.Graph) *Assignment {
	if a == nil || g == nil {
		return nil
	}
	mapper := &copyMapper{mapped: map[*Copy]*Copy{}}
	g.Values(func(v *graph.Value) {
		if i := v.Number(); i >= 0 {
			mapper.values = append(mapper.values, make([]*graph.Value, max(0, i+1-len(mapper.values)))...)
			mapper.values[i] = v
		}
	})
	transferred := &Assignment{Nodes: slices.Clone(a.Nodes), Inputs: mapper.copies(a.Inputs),
		Outputs: mapper.copies(a.Outputs), LostOutputs: a.LostOutputs, Final: a.Final}
	for i := range transferred.Nodes {
		choice := &transferred.Nodes[i]
		choice.In, choice.ResultCopies = mapper.copies(choice.In), mapper.copies(choice.ResultCopies)
	}
	return transferred
}

// copyMapper maps each [Copy] for one graph to a Copy for another graph, g.
type copyMapper struct {
	values []*graph.Value  // of g, by [graph.Value.Number]
	mapped map[*Copy]*Copy // the results so far
}

// copies maps each Copy of a list.
func (mapper *copyMapper) copies(list []*Copy) []*Copy {
	if list == nil {
		return nil
	}
	out := make([]*Copy, len(list))
	for i, c := range list {
		out[i] = mapper.copy(c)
	}
	return out
}

// copy maps one Copy.
func (mapper *copyMapper) copy(c *Copy) *Copy {
	if c == nil {
		return nil
	}
	if mapped := mapper.mapped[c]; mapped != nil {
		return mapped
	}
	mapped := *c
	mapper.mapped[c] = &mapped
	if c.Value != nil {
		if i := c.Value.Number(); i >= 0 && i < len(mapper.values) {
			mapped.Value = mapper.values[i]
		}
	}
	mapped.From = mapper.copy(c.From)
	if c.Strides != nil && mapped.Value != nil {
		mapped.Strides = mapped.Value.Meta.Strides
	}
	return &mapped
}
