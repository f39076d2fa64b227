package graph

import (
	"errors"
	"fmt"
	"slices"
)

// Parts collects the nodes that replace one node of the graph: see [Op.Decompose] and [Op.Rewrite]. The new nodes are
// called the parts. The replaced node is called the whole. For example, a node y = addmm(b, x, w) has the parts
//
//	y.matmul = matmul(x, w)
//	y.add    = add(y.matmul, b)
//
// The result of the last part replaces the result of the whole. The last part gets the name y, and nodes that read y
// are unchanged.
type Parts struct {
	graph *Graph
	whole *Node
	nodes []*Node
}

// Add adds a part and returns its results. The op must be made by [Define]. Operands are operands of the whole, or
// results of other parts.
func (p *Parts) Add(op *Op, attrs Attrs, operands ...Arg) ([]*Value, error) {
	if p == nil || p.graph == nil {
		return nil, errors.New("parts can only be added in a Decompose or Rewrite function")
	}
	part, err := p.graph.insert(p.whole.Name+"."+nameOf(op), op, slices.Clone(operands), attrs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nameOf(op), err)
	}
	part.Why, part.PartOf = p.whole.Why, p.whole
	p.nodes = append(p.nodes, part)
	return part.Out, nil
}

// nameOf returns the name of an op, for messages.
func nameOf(op *Op) string {
	if op == nil {
		return "nil"
	}
	return op.Name
}

// ArgOf returns an operand that reads a value.
func ArgOf(v *Value) Arg { return Arg{Kind: TensorArg, Value: v} }

// Repeat adds a copy of node n of the graph as a part, with the operands `in`. Repeat returns the results of the copy.
func (p *Parts) Repeat(n *Node, in ...Arg) ([]*Value, error) {
	if p == nil || p.graph == nil || p.whole == nil || n == nil || n.Op == nil {
		return nil, errors.New("only a node of the graph can be copied as a part")
	}
	repeated := &Node{Name: p.graph.UniqueName(p.whole.Name + "." + n.Op.Name), Op: n.Op, In: slices.Clone(in),
		Attrs: n.Attrs, Why: p.whole.Why, PartOf: p.whole, undecoded: n.undecoded}
	if err := p.graph.insertNode(repeated); err != nil {
		return nil, fmt.Errorf("%s: %w", n.Op.Name, err)
	}
	p.nodes = append(p.nodes, repeated)
	return repeated.Out, nil
}

// ReplacedNode returns the node that the parts replace.
func (p *Parts) ReplacedNode() *Node {
	if p == nil {
		return nil
	}
	return p.whole
}

// Decompose returns the nodes that replace a node of a composite op, in a valid order. The results of the node become
// results of the new nodes. If the user pinned the node to a layout ([Node.Pin]), these results get the layout. The
// caller, a pass, replaces the node in Nodes. If the parts do not fit the node, Decompose fails, and the graph is
// unchanged. If a part cannot have the layout of the pin, Decompose fails, and the graph is partly changed: the caller
// must drop the graph.
func (g *Graph) Decompose(n *Node) ([]*Node, error) {
	if n == nil || n.Op == nil || n.Op.Decompose == nil || len(n.Out) == 0 || n.Out[0].graph != g {
		return nil, errors.New("the node is not in the graph, or its op has no Decompose")
	}
	parts := &Parts{graph: g, whole: n}
	results, err := n.Op.Decompose(parts, n.Call())
	return parts.substitute(results, err)
}

// substitute replaces the whole by the parts, and returns them. results[i] is the value that the parts compute for
// result i of the whole. The [Value] objects of the whole's results are kept: whole.Out[i] takes the place of
// results[i] in the parts. If err is not nil, or if the results do not fit, substitute drops the parts and returns the
// error.
func (p *Parts) substitute(results []*Value, err error) ([]*Node, error) {
	if err == nil {
		err = p.checkResults(results)
	}
	if err != nil {
		p.drop()
		return nil, err
	}
	for i, v := range results {
		if err := p.substituteResult(i, v); err != nil {
			return nil, err
		}
	}
	names, last := p.graph.nameIndex(), results[len(results)-1].Node
	names.dropNodeName(p.whole)
	names.renameNode(last, p.whole.Name)
	return p.nodes, nil
}

// checkResults returns an error if the results of the parts cannot replace the results of the whole.
func (p *Parts) checkResults(results []*Value) error {
	if len(results) != len(p.whole.Out) {
		return fmt.Errorf("its parts return %d results, want %d", len(results), len(p.whole.Out))
	}
	for i, v := range results {
		if err := p.checkResult(i, v); err != nil {
			return err
		}
		if slices.Contains(results[:i], v) {
			return fmt.Errorf("its parts return one value as two results (the second is %d)", i)
		}
	}
	return nil
}

// checkResult returns an error if v cannot replace result i of the whole. v is result i of the parts.
func (p *Parts) checkResult(i int, v *Value) error {
	replaced := p.whole.Out[i]
	switch {
	case v == nil || v.Node == nil || v.Node.PartOf != p.whole || !slices.Contains(p.nodes, v.Node):
		return fmt.Errorf("no part computes result %d", i)
	case v.Meta.DType != replaced.Meta.DType || !slices.Equal(v.Meta.Shape, replaced.Meta.Shape):
		return fmt.Errorf("result %d of its parts is %v, want %v", i, v.Meta, replaced.Meta)
	case p.whole.Pin.SetsLayout(): // substituteResult infers the part again, with the pinned layout
		return nil
	case !v.Meta.SameLayout(replaced.Meta):
		return fmt.Errorf("result %d of its parts has layout %v, want %v", i, v.Meta, replaced.Meta)
	case (v.Alias == nil) != (replaced.Alias == nil) && !p.isFullView(v): // only one of the two is a view
		return fmt.Errorf("result %d is a view in the node or in its parts, but not in both", i)
	}
	return nil
}

// isFullView reports whether v is a view that contains all elements of a part's result. Such a view needs no additional
// memory.
func (p *Parts) isFullView(v *Value) bool {
	owner := v.BufferOwner()
	return slices.Contains(p.nodes, owner.Node) && owner.Meta.DType == v.Meta.DType &&
		owner.Meta.Offset == v.Meta.Offset && owner.Meta.Numel() == v.Meta.Numel()
}

// substituteResult puts result i of the whole in the place of v, which is result i of the parts.
func (p *Parts) substituteResult(i int, v *Value) error {
	result, producer := p.whole.Out[i], v.Node
	p.graph.nameIndex().dropValue(v)
	producer.Out[v.Index] = result
	for _, part := range p.nodes {
		for k := range part.In {
			if part.In[k].Value == v {
				part.In[k].Value = result
			}
		}
		for _, partResult := range part.Out {
			if partResult.Alias == v {
				partResult.Alias = result
			}
		}
	}
	result.Node, result.Index, result.Alias = producer, v.Index, v.Alias
	if p.whole.Pin.SetsLayout() {
		// Copy only the layout of the pin: its implementation and device are for the op of the whole.
		producer.Pin = Pin{Format: p.whole.Pin.Format, Order: p.whole.Pin.Order}
		return producer.Infer() // sets the type of result
	}
	result.Type, result.Meta = v.Type, v.Meta
	return nil
}

// drop removes the parts from the graph.
func (p *Parts) drop() {
	for _, part := range p.nodes {
		p.graph.nameIndex().dropNode(part)
	}
}

// Rewrite calls [Op.Rewrite] of a node's op, in a graph whose nodes are inferred. If the op returns results, its parts
// replace the node as in [Graph.Decompose]. Rewrite is for passes.
func (g *Graph) Rewrite(n *Node, context RewriteContext) (Rewrite, []*Node, error) {
	if n == nil || n.Op == nil || n.Op.Rewrite == nil || len(n.Out) == 0 || n.Out[0].graph != g {
		return Rewrite{}, nil, errors.New("the node is not in the graph, or its op has no Rewrite")
	}
	parts := &Parts{graph: g, whole: n}
	rewrite, err := n.Op.Rewrite(parts, n.Call(), context)
	if err == nil && rewrite.Results == nil {
		if len(parts.nodes) == 0 {
			return rewrite, nil, nil
		}
		err = errors.New("the Rewrite function adds parts but returns no results")
	}
	if err == nil && context.Pinned {
		if bypassed := parts.bypassedPin(); bypassed != nil {
			parts.drop()
			return Rewrite{Replaced: bypassed, Why: "would not keep the pin of " + bypassed.Name}, nil, nil
		}
	}
	nodes, err := parts.substitute(rewrite.Results, err)
	return rewrite, nodes, err
}

// RewriteContext describes the graph around a node that an op may rewrite.
type RewriteContext struct {
	// UsedOnlyHere reports whether a value becomes unnecessary if this node is removed: the value is not an
	// output, and every path from the value to an output contains this node.
	UsedOnlyHere func(*Value) bool
	// ComputedFrom returns results of nodes that earlier rewrites added. These nodes depend only on the given value.
	// The op can reuse the results. ComputedFrom may be nil.
	ComputedFrom func(*Value) []*Value
	// Exact means that a rewrite must not change the bits of the results.
	Exact bool
	// Pinned means that the graph has pinned nodes. A rewrite that would bypass a pinned node is dropped.
	Pinned bool
}

// Rewrite is the answer of [Op.Rewrite] for a node.
type Rewrite struct {
	// Results replace the results of the node, as in [Op.Decompose]. Nil means that the op does not rewrite the node.
	Results []*Value
	// Replaced is for reports. It is the first earlier node that the rewrite makes unnecessary. If the op does not
	// rewrite the node, Replaced is the node that a rewrite could have made unnecessary. It is nil if there is no such
	// node.
	Replaced *Node
	// Why describes the new computation. If the node is unchanged, Why is the reason. It may be empty.
	Why string
}

// bypassedPin returns a pinned node on which the whole depends but the parts do not. It returns nil if there is no such
// node.
func (p *Parts) bypassedPin() *Node {
	visited := p.readValues() // the search from the whole back to the inputs stops at these values
	for stack := []*Node{p.whole}; len(stack) > 0; {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if n != p.whole && n.Pin != (Pin{}) {
			return n
		}
		for _, arg := range n.In {
			if v := arg.Value; arg.Kind == TensorArg && v.Node != nil && !visited[v] {
				visited[v] = true
				stack = append(stack, v.Node)
			}
		}
	}
	return nil
}

// readValues returns the values that the parts read. A part may read the result of a node that an earlier rewrite
// added, such as a conversion (RewriteContext.ComputedFrom). If this node has one operand, readValues includes the
// operand, because the whole reads the operand directly.
func (p *Parts) readValues() map[*Value]bool {
	values := map[*Value]bool{}
	for _, part := range p.nodes {
		for _, arg := range part.In {
			for v := arg.Value; v != nil && !values[v]; {
				values[v] = true
				n := v.Node
				if n == nil || n.PartOf == nil || len(n.In) != 1 {
					break
				}
				v = n.In[0].Value
			}
		}
	}
	return values
}
