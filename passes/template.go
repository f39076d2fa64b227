package passes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// Template is a plan in which sizes are expressions over open symbols. [Template.At] evaluates it at given sizes: it
// runs no pass over the graph, and infers nothing. The result is the plan that [Run] makes at these sizes with the same
// [Options.Follow], if the guards of the graph hold at these sizes ([graph.Symbolic]).
//
// For the nodes that depend on sizes, three things are decided again. The implementation: the chosen one may not
// support the sizes. Whether a value is stored within another one. And the data of constants that depend on sizes, such
// as a mask of L x L elements.
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
	parts.Alike = p.Graph.Alike(func(i int) bool { return t.packsAnew(p.Graph.Nodes[i]) })
	for i, n := range p.Graph.Nodes {
		recorded, first := t.recorded[n], &parts.Alike[i]
		if int(*first) < i && !recorded.isLike(t.recorded[p.Graph.Nodes[*first]]) {
			*first = int32(i)
		}
		if recorded != nil && int(*first) == i {
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

// packsAnew reports whether bindings pack a constant that depends on sizes for a node, or make a kernel from it. Such a
// node is like no other.
func (t *Template) packsAnew(n *graph.Node) bool {
	mayPack := n.Impl != nil && n.Impl.Pack != nil || !n.Op.ConstantsByAddress
	return mayPack && slices.ContainsFunc(n.In, func(a graph.Arg) bool { return t.varies.At(a.Value) })
}

// isLike reports whether two choices of a template are equal, for nodes that are alike. Both may be nil.
func (c *recordedChoice) isLike(other *recordedChoice) bool {
	if c == nil || other == nil {
		return c == other
	}
	return c.choice.Impl == other.choice.Impl && c.choice.Walk.Equal(other.choice.Walk)
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
	isPlaced := func(v *graph.Value) bool { return p.options.Follow.placedValues[v.Number()] }
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

// At returns the plan at the given sizes of the symbols. base is the plan at other sizes, or nil: At shares with it
// what does not change. At returns a [*Misfit] if the decisions cannot be applied at these sizes. The context can
// cancel it.
func (t *Template) At(ctx context.Context, sizes []int, base *BoundPlan) (*BoundPlan, error) {
	if t == nil || t.graph == nil {
		return nil, errors.New("the template was not made by TemplateOver")
	}
	made := t.plan
	plan := &Plan{Strategy: made.Strategy, profileAdjusted: made.profileAdjusted, options: Options{Context: ctx,
		Options: made.options.Options, Strategy: made.options.Strategy, Profile: made.options.Profile,
		Follow: made.options.Follow}}
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
		if first := bound.Alike[i]; int(first) < i {
			n.Impl, n.Walk = plan.Graph.Nodes[first].Impl, plan.Graph.Nodes[first].Walk
			continue
		}
		if recorded := t.choices[i]; recorded != nil {
			if err := recorded.apply(n, bound.Metas, plan.options.Exact); err != nil {
				return nil, plan.Graph.NodeError(n, err)
			}
		}
		if n.Impl != nil && n.Impl.Pack != nil && slices.ContainsFunc(n.In, isPackable) {
			if err := t.pack(plan.Graph, n); err != nil {
				return nil, plan.Graph.NodeError(n, err)
			}
		}
	}
	if len(plan.options.Follow.placedValues) > 0 {
		plan.placeAtNodes(func(i int) bool { return bound.Changed[i] })
	}
	separatePlaced(bound)
	for i, n := range plan.Graph.Nodes {
		if !bound.Changed[i] || int(bound.Alike[i]) < i {
			continue
		}
		interrupt.Check(ctx)
		if err := n.CheckLaidOut(); err != nil {
			return nil, misfitError("%s: %v", n.Name, err)
		}
	}
	return &BoundPlan{plan, bound}, nil
}

// separatePlaced makes changed nodes that are no longer alike their own first nodes: where their values are stored was
// decided again.
func separatePlaced(bound *graph.Bound) {
	isShared := true // the list is that of the template
	for i, first := range bound.Alike {
		if int(first) == i || !bound.Changed[i] || bound.Graph.Nodes[i].IsPlacedLike(bound.Graph.Nodes[first]) {
			continue
		}
		if isShared {
			bound.Alike, isShared = slices.Clone(bound.Alike), false
		}
		bound.Alike[i] = int32(i)
	}
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

// DifferenceOf compares two planned graphs of the same decisions, and returns the first difference that affects a run:
// in the nodes, their attributes, implementations and walks, in the layouts and memory of values, or in the data of
// constants. Only of outputs, it also compares strides of dimensions of size 1. It returns nil if there is none.
func DifferenceOf(a, b *graph.Graph) error {
	if a == nil || b == nil {
		return errors.New("a graph is nil")
	}
	if len(a.Nodes) != len(b.Nodes) || len(a.Outputs) != len(b.Outputs) {
		return fmt.Errorf("%d nodes and %d outputs, or %d and %d", len(a.Nodes), len(a.Outputs), len(b.Nodes),
			len(b.Outputs))
	}
	for i, n := range a.Nodes {
		if err := nodeDifference(n, b.Nodes[i]); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
	}
	for i, output := range a.Outputs {
		other := b.Outputs[i]
		if output.Name != other.Name || output.Base != other.Base || output.Pin != other.Pin {
			return fmt.Errorf("output %s or %s", output.Name, other.Name)
		}
		if v := output.Value; v != nil && other.Value != nil && !v.Meta.SameLayout(other.Value.Meta) {
			return fmt.Errorf("output %s is %v or %v", output.Name, v.Meta, other.Value.Meta)
		}
		if err := valueDifference(output.Value, other.Value); err != nil {
			return fmt.Errorf("output %s: %w", output.Name, err)
		}
	}
	return nil
}

// nodeDifference returns the first difference of two nodes.
func nodeDifference(n, other *graph.Node) error {
	switch {
	case n == nil || other == nil || n.Op == nil || other.Op == nil:
		return errors.New("a node has no op")
	case n.Name != other.Name || n.Op != other.Op:
		return fmt.Errorf("%s of op %s, or %s of op %s", n.Name, n.Op.Name, other.Name, other.Op.Name)
	case len(n.In) != len(other.In) || len(n.Out) != len(other.Out):
		return fmt.Errorf("%d operands and %d results, or %d and %d", len(n.In), len(n.Out), len(other.In), len(other.Out))
	case n.Impl != other.Impl:
		return fmt.Errorf("implementation %s or %s", implName(n.Impl), implName(other.Impl))
	case !n.Walk.Equal(other.Walk):
		return fmt.Errorf("walk %v or %v", n.Walk, other.Walk)
	}
	for i, arg := range n.In {
		otherArg := other.In[i]
		if arg.Kind != otherArg.Kind || arg.Number != otherArg.Number {
			return fmt.Errorf("operand %d: %v or %v", i, arg, otherArg)
		}
		if arg.Kind == graph.TensorArg {
			if err := valueDifference(arg.Value, otherArg.Value); err != nil {
				return fmt.Errorf("operand %d: %w", i, err)
			}
		}
	}
	for i, v := range n.Out {
		if err := valueDifference(v, other.Out[i]); err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		}
	}
	fused, isFused := n.Attrs.(*fusion.Fusion)
	otherFused, _ := other.Attrs.(*fusion.Fusion)
	if isFused {
		return fused.DifferenceOf(otherFused)
	}
	if n.Packing() == nil && !graph.SameAttrs(n, other) {
		return fmt.Errorf("attributes %+v or %+v", n.Attrs, other.Attrs)
	}
	return nil
}

// implName returns the name of an implementation, which may be nil.
func implName(impl *graph.Impl) string {
	if impl == nil {
		return "none"
	}
	return impl.Name
}

// valueDifference returns the first difference of two values.
func valueDifference(v, other *graph.Value) error {
	nameOf := func(v *graph.Value) string {
		if v == nil {
			return "none"
		}
		return v.Name
	}
	switch {
	case v == nil || other == nil:
		return errors.New("a value is missing")
	case v.Name != other.Name:
		return fmt.Errorf("value %s or %s", v.Name, other.Name)
	case v.Meta.DType != other.Meta.DType || v.Meta.Offset != other.Meta.Offset || !v.Meta.SameLayout(other.Meta):
		return fmt.Errorf("%s is %v at %d or %v at %d", v.Name, v.Meta, v.Meta.Offset, other.Meta, other.Meta.Offset)
	case !v.Type.IsMeta(v.Meta):
		return fmt.Errorf("%s is %v, of type %v", v.Name, v.Meta, v.Type)
	case nameOf(v.Alias) != nameOf(other.Alias):
		return fmt.Errorf("%s is a view of %s or %s", v.Name, nameOf(v.Alias), nameOf(other.Alias))
	case nameOf(v.ContainedIn) != nameOf(other.ContainedIn):
		return fmt.Errorf("%s is within %s or %s", v.Name, nameOf(v.ContainedIn), nameOf(other.ContainedIn))
	case (v.Const == nil) != (other.Const == nil) || (v.Packed == nil) != (other.Packed == nil):
		return fmt.Errorf("%s is a constant, or packed, in one of the graphs", v.Name)
	case v.Packed != nil && v.Packed.Format != other.Packed.Format:
		return fmt.Errorf("%s is packed as %q or %q", v.Name, v.Packed.Format, other.Packed.Format)
	case v.Const != nil && v.Const.Storage() != other.Const.Storage() && !sameBits(v.Const, other.Const):
		return fmt.Errorf("%s has other elements", v.Name)
	}
	return nil
}

// sameBits reports whether two tensors have the same bits.
func sameBits(a, b *tensor.Tensor) bool {
	bytesOf := func(t *tensor.Tensor) (all []byte) {
		_ = t.EachBlock(1<<20, func(block []byte) error {
			all = append(all, block...)
			return nil
		})
		return all
	}
	return bytes.Equal(bytesOf(a), bytesOf(b))
}
