package passes

import (
	"context"
	"errors"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// Template is a plan in which sizes are expressions over open symbols. [Template.At] evaluates it at given sizes: it
// runs no pass over the graph, and infers nothing. The result is the plan that [Run] makes at these sizes with the same
// [Options.Follow], if the guards of the graph hold at these sizes ([graph.Symbolic]).
//
// For the nodes that depend on sizes, three things are decided again. The implementation: the chosen one may not support
// the sizes. Whether a value is stored within another one. And the data of constants that depend on sizes, such as a
// mask of L x L elements.
type Template struct {
	plan    *Plan
	graph   *graph.Template
	choices []*recordedChoice // by node of the graph; nil if nothing is chosen again

	// What passes record.
	recorded map[*graph.Node]*recordedChoice
	folded   []*graph.Node       // the folded nodes whose results depend on sizes: see [graph.TemplateParts]
	varies   graph.ByValue[bool] // by value: whether such a node computes it
}

// recordedChoice is the choice of a layout for a node, and the types of its results before the choice.
type recordedChoice struct {
	choice      *layout.Choice
	results     []tensor.Type
	firstResult int // index of the first result among the metas of a [graph.Bound]
}

// recordChoice records a choice that a plan applies to a node whose sizes are unknown. A nil template records nothing.
func (t *Template) recordChoice(n *graph.Node, choice *layout.Choice) {
	if t == nil || !dependsOnSizes(n) {
		return
	}
	if t.recorded == nil {
		t.recorded = map[*graph.Node]*recordedChoice{}
	}
	recorded := &recordedChoice{choice: choice}
	for _, v := range n.Out {
		recorded.results = append(recorded.results, v.Type)
	}
	t.recorded[n] = recorded
}

// recordFolded records a node that is about to be folded if its results depend on sizes. A nil template records
// nothing.
func (t *Template) recordFolded(n *graph.Node) {
	if t == nil {
		return
	}
	readsVarying := slices.ContainsFunc(n.In, func(a graph.Arg) bool { return t.varies.At(a.Value) })
	if !readsVarying && !dependsOnSizes(n) {
		return
	}
	recorded := *n
	recorded.In, recorded.Out = slices.Clone(n.In), make([]*graph.Value, len(n.Out))
	for i, v := range n.Out {
		asBefore := *v // folding changes v
		recorded.Out[i] = &asBefore
		t.varies.Set(v, true)
	}
	t.folded = append(t.folded, &recorded)
}

// dependsOnSizes reports whether the attributes of a node, or the types of its operands or results, are expressions.
func dependsOnSizes(n *graph.Node) bool {
	isOpen := func(v *graph.Value) bool { return !hasNumericSizes(v.Type) }
	isOpenArg := func(a graph.Arg) bool { return a.Kind == graph.TensorArg && isOpen(a.Value) }
	return slices.ContainsFunc(n.Out, isOpen) || slices.ContainsFunc(n.In, isOpenArg) ||
		len(graph.SizesInAttrs(n.Attrs)) > 0
}

// TemplateOver returns the plan as a template over symbols of the graph. name returns the names of the symbols in the
// expressions. The plan must have been made with [Options.Template]. TemplateOver fails if the plan cannot be evaluated
// at other sizes, and the error states why.
func (p *Plan) TemplateOver(symbols []string, name func(string) string) (*Template, error) {
	if p == nil || p.template == nil {
		return nil, errors.New("the plan was made without Options.Template")
	}
	t := p.template
	t.plan, t.choices = p, make([]*recordedChoice, len(p.Graph.Nodes))
	t.unpackFolded(p.Graph)
	parts := graph.TemplateParts{Symbols: symbols, Name: name, Folded: t.folded, Groups: p.placementGroups()}
	for i, n := range p.Graph.Nodes {
		if recorded := t.recorded[n]; recorded != nil {
			recorded.firstResult = len(parts.Types)
			t.choices[i], parts.Types = recorded, append(parts.Types, recorded.results...)
		}
	}
	t.recorded = nil
	var err error
	if t.graph, err = graph.NewTemplate(p.Graph, parts); err != nil {
		return nil, err
	}
	return t, nil
}

// unpackFolded replaces packed constants that depend on sizes by the constants, which [Template.At] packs again.
func (t *Template) unpackFolded(g *graph.Graph) {
	t.folded = slices.DeleteFunc(t.folded, func(n *graph.Node) bool {
		if n.Packing() == nil {
			return false
		}
		packed, original := n.Out[0], n.In[0].Value
		for _, reader := range g.Nodes {
			for i := range reader.In {
				if arg := &reader.In[i]; arg.Kind == graph.TensorArg && arg.Value.Number() == packed.Number() {
					arg.Value = original
				}
			}
		}
		g.Constants = slices.DeleteFunc(g.Constants, func(v *graph.Value) bool { return v.Number() == packed.Number() })
		if !slices.Contains(g.Constants, original) {
			g.Constants = append(g.Constants, original)
		}
		return true
	})
}

// placementGroups returns groups of values: the result of a concatenation, and its operands, if the decisions that the
// plan follows place one of them within another value.
func (p *Plan) placementGroups() (groups [][]*graph.Value) {
	isPlaced := func(v *graph.Value) bool { return p.decisionsToFollow.placedValues[v.Number()] }
	groupOf := map[*graph.Value]int{}
	for _, n := range p.Graph.Nodes {
		if n.Op.Stores {
			groupOf[n.In[0].Value], groupOf[n.Out[0]] = len(groups), len(groups)
			groups = append(groups, []*graph.Value{n.In[0].Value, n.Out[0]})
		}
		if n.Op.ConcatDim == nil {
			continue
		}
		group := []*graph.Value{n.Out[0]}
		hasPlaced := isPlaced(n.Out[0])
		for _, arg := range n.In {
			if arg.Kind == graph.TensorArg && arg.Value.Node != nil {
				group, hasPlaced = append(group, arg.Value), hasPlaced || isPlaced(arg.Value)
			}
		}
		if !hasPlaced {
			continue
		}
		index := len(groups)
		groups = append(groups, nil)
		for _, v := range group {
			if other, ok := groupOf[v]; ok && other != index { // join the groups
				for _, member := range groups[other] {
					groupOf[member] = index
				}
				groups[index], groups[other] = append(groups[index], groups[other]...), nil
			} else if !ok {
				groupOf[v] = index
				groups[index] = append(groups[index], v)
			}
		}
	}
	return groups
}

// BoundPlan is a plan that [Template.At] makes.
type BoundPlan struct {
	Plan *Plan
	// Bound has the graph of the plan, and marks the nodes that differ from those of the base.
	Bound *graph.Bound
}

// At returns the plan at the given sizes of the symbols. base is the plan at other sizes, or nil: At shares with it what
// does not change. At returns a [*Misfit] if the decisions cannot be applied at these sizes. The context can cancel it.
func (t *Template) At(ctx context.Context, sizes []int, base *BoundPlan) (*BoundPlan, error) {
	if t == nil || t.graph == nil {
		return nil, errors.New("the template was not made by TemplateOver")
	}
	made := t.plan
	plan := &Plan{ctx: ctx, Strategy: made.Strategy, strategy: made.strategy, profile: made.profile, exact: made.exact,
		profileAdjusted: made.profileAdjusted, device: made.device, decisionsToFollow: made.decisionsToFollow}
	var baseGraph *graph.Bound
	if base != nil {
		baseGraph = base.Bound
	}
	bound, err := t.graph.At(sizes, baseGraph, plan.compute)
	if err != nil {
		return nil, misfitError("%v", err)
	}
	plan.Graph = bound.Graph
	for i, n := range plan.Graph.Nodes {
		if !bound.Changed[i] {
			continue
		}
		if recorded := t.choices[i]; recorded != nil {
			if err := recorded.apply(n, bound.Metas, plan.exact); err != nil {
				return nil, plan.Graph.NodeError(n, err)
			}
		}
		if n.Impl != nil && n.Impl.Pack != nil && slices.ContainsFunc(n.In, isPackable) {
			if err := t.pack(plan.Graph, n); err != nil {
				return nil, plan.Graph.NodeError(n, err)
			}
		}
	}
	if len(plan.decisionsToFollow.placedValues) > 0 {
		plan.placeAtNodes(func(i int) bool { return bound.Changed[i] })
	}
	for i, n := range plan.Graph.Nodes {
		if !bound.Changed[i] {
			continue
		}
		interrupt.Check(ctx)
		if err := n.CheckLaidOut(); err != nil {
			return nil, misfitError("%s: %v", n.Name, err)
		}
	}
	return &BoundPlan{plan, bound}, nil
}

// apply sets the implementation of a node.
func (c *recordedChoice) apply(n *graph.Node, metas []tensor.Meta, exact bool) (err error) {
	asInferred := *n // with the results before the choice
	asInferred.Out = make([]*graph.Value, len(n.Out))
	for i, v := range n.Out {
		result := *v
		result.SetMeta(metas[c.firstResult+i])
		asInferred.Out[i] = &result
	}
	n.Impl, n.Walk, err = implFor(&asInferred, c.choice, exact)
	return err
}

// pack packs the constant operands of a node that depend on sizes. It returns a [*Misfit] if the implementation packs
// another operand, which the template does not.
func (t *Template) pack(g *graph.Graph, n *graph.Node) error {
	call := n.Call()
	for i := range n.In {
		arg := &n.In[i]
		if !isPackable(*arg) {
			continue
		}
		form, ok := n.Impl.Pack(call, i)
		if !ok {
			continue
		}
		if !t.varies.At(arg.Value) {
			return misfitError("%s packs %q", n.Name, arg.Value.Name)
		}
		packed, err := g.AddPacked(arg.Value, form)
		if err != nil {
			return err
		}
		arg.Value = packed
	}
	return nil
}
