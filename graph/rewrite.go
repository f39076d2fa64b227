package graph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// This file has the functions by which passes change graphs. For example, a pass makes node n, whose position is i,
// read its operand 0 in another layout:
//
//	noAttrs := Attrs(nil)
//	copied, err := g.Insert("x.copy", "contiguous", n.In[:1:1], noAttrs, "n reads rows")
//	g.Nodes = slices.Insert(g.Nodes, i, copied)
//	n.In[0] = ArgOf(copied.Out[0])

// Insert makes and infers a node with one output of the same name. The caller, a pass, adds it to Nodes. The parameter
// why is the explanation shown to users. If Insert fails, the graph is unchanged.
func (g *Graph) Insert(name, op string, in []Arg, attrs Attrs, why string) (*Node, error) {
	found, err := g.findOp(op)
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return nil, UnknownOp(op, g.lookup)
	case found.VariadicResults || len(found.Outputs) > 1:
		return nil, fmt.Errorf("op %s has several results, but an inserted node must have one", op)
	}
	n, err := g.insert(name, found, in, attrs)
	if err != nil {
		return nil, err
	}
	n.Why = why
	return n, nil
}

// copyOpNames are the names of ops that can copy values: see CopyOp.
var copyOpNames = []string{"clone", "contiguous"}

// CopyOp returns the op of the catalogue with which passes copy values: see [Op.Copies].
func (g *Graph) CopyOp() (*Op, error) {
	for _, name := range copyOpNames {
		if op := g.Op(name); op != nil && op.Copies {
			return op, nil
		}
	}
	return nil, errors.New("the catalogue has no op that copies values")
}

// insert makes and infers a node of the given op, as Insert does. Unlike Insert, it accepts ops with several results.
// It decodes the attributes. insertNode makes and infers the results. If the catalogue of the graph has an extension of
// the op, the node has the extension.
func (g *Graph) insert(name string, op *Op, in []Arg, attrs Attrs) (*Node, error) {
	switch {
	case op == nil || op.original != op:
		return nil, errors.New("the op was not made by graph.Define")
	case name == "":
		return nil, g.nameError(name)
	}
	if g.lookup != nil {
		if extension := g.lookup(op.Name); extension.Base() == op {
			op = extension
		}
	}
	decoded, err := op.Schema.Decode(attrs, g.sizes)
	if err != nil {
		return nil, err
	}
	n := &Node{Name: g.UniqueName(name), Op: op, In: in, Attrs: decoded, undecoded: attributesOf(attrs)}
	if err := g.insertNode(n); err != nil {
		return nil, err
	}
	return n, nil
}

// insertNode makes and infers the results of a new node. The index of names finds the node through the first result,
// which has the name of the node.
func (g *Graph) insertNode(n *Node) error {
	for i, arg := range n.In {
		if arg.Kind == TensorArg && (arg.Value == nil || arg.Value.graph != g) {
			return fmt.Errorf("operand %d is not a value of the graph", i)
		}
	}
	if err := n.checkArity(); err != nil {
		return err
	}
	for i := range max(len(n.Op.Outputs), 1) {
		v := &Value{Name: n.Name, Node: n, Index: i, graph: g}
		if i > 0 {
			v.Name = g.UniqueName(n.Name + "." + n.Op.Outputs[i])
		}
		n.Out = append(n.Out, v)
	}
	g.assignNodeNumber(n)
	if err := n.Infer(); err != nil {
		return err
	}
	for _, v := range n.Out {
		g.register(v)
	}
	return nil
}

// register numbers a new value and adds its name to the index of names.
func (g *Graph) register(v *Value) {
	g.assignNumber(v)
	g.nameIndex().values[v.Name] = v
}

// Again makes and infers a copy of node n. In the copy, `replacement` replaces the operand at the given index. The
// caller, a pass, adds the copy to Nodes. The parameter why is the explanation shown to users. If Again fails, the
// graph is unchanged.
func (g *Graph) Again(n *Node, index int, replacement *Value, why string) (*Node, error) {
	if n == nil || n.Op == nil || index < 0 || index >= len(n.In) || replacement == nil || replacement.graph != g {
		return nil, errors.New("the replaced operand or its replacement does not belong to the graph")
	}
	again := &Node{Name: g.UniqueName(n.Name), Op: n.Op, In: slices.Clone(n.In), Attrs: n.Attrs, undecoded: n.undecoded,
		Why: why, PartOf: n.PartOf}
	again.In[index] = ArgOf(replacement)
	for i := range n.Out {
		again.Out = append(again.Out, &Value{Name: again.Name, Node: again, Index: i, graph: g})
	}
	g.assignNodeNumber(again)
	if err := again.Infer(); err != nil {
		return nil, err
	}
	for i, v := range again.Out {
		if len(again.Out) > 1 {
			v.Name = g.UniqueName(n.Out[i].Name)
		}
		g.register(v)
	}
	g.nameIndex().addNode(again)
	return again, nil
}

// Merge replaces the nodes of groups[i] by one new node, made[i]. The new node gets the position of the group's last
// node. The values of the group that are in made[i].Out become results of the new node. All other values of the group
// are removed. If a node is in two groups, Merge fails and the graph is unchanged.
func (g *Graph) Merge(groups [][]*Node, made []*Node) error {
	isReplaced := NewByValue[bool](g)            // a node is identified by its first result
	madeAt := make(map[*Node]*Node, len(groups)) // the new node, by the last node of the group
	for i, group := range groups {
		for _, member := range group {
			if isReplaced.At(member.Out[0]) {
				return g.NodeError(member, errors.New("the node is in two groups, but Merge can replace it by only one new node"))
			}
			isReplaced.Set(member.Out[0], true)
		}
		madeAt[group[len(group)-1]] = made[i]
	}
	nodes := make([]*Node, 0, len(g.Nodes))
	for _, n := range g.Nodes {
		switch newNode := madeAt[n]; {
		case newNode != nil:
			nodes = append(nodes, newNode)
		case len(n.Out) == 0 || !isReplaced.At(n.Out[0]):
			nodes = append(nodes, n)
		}
	}
	for _, n := range made {
		for i, v := range n.Out {
			v.Node, v.Index = n, i
		}
		g.assignNodeNumber(n)
	}
	g.Nodes = slices.Clip(nodes)
	g.names = &nameIndex{unindexed: g} // built at the next look-up
	return nil
}

// MakeConstant makes v, the result of a node, a constant. The caller, a pass, removes the node. MakeConstant panics if
// v is not a value of the graph, or if t is invalid.
func (g *Graph) MakeConstant(v *Value, t *tensor.Tensor) {
	g.mustOwn(v)
	if err := t.Check(); err != nil {
		panic("graph: constant " + v.Name + ": " + err.Error())
	}
	v.SetMeta(t.Meta)
	v.Const, v.Node, v.Alias, v.Index = t, nil, nil, 0
	g.Constants = append(g.Constants, v)
}

// Rename renames a value. The old name can then be used again. Rename is for passes; users call [Value.Named]. It
// panics if v is not a value of the graph, or if the name is empty or belongs to another value.
func (g *Graph) Rename(v *Value, name string) {
	g.mustOwn(v)
	names := g.nameIndex()
	if named := names.values[name]; name == "" || named != nil && named != v {
		panic("graph: " + g.nameError(name).Error())
	}
	names.dropValue(v)
	v.Name = name
	names.values[name] = v
}

// mustOwn panics if v is not a value of the graph.
func (g *Graph) mustOwn(v *Value) {
	if v == nil || g.nameIndex().values[v.Name] != v {
		panic("graph: the value belongs to another graph")
	}
}

// Owns reports whether the value was made in the graph.
func (g *Graph) Owns(v *Value) bool { return g != nil && v != nil && v.graph == g }

// UniqueName returns an unused name. It is base if no value or node has this name, otherwise base with a number.
func (g *Graph) UniqueName(base string) string {
	name, names := base, g.nameIndex()
	for names.isTaken(name) {
		g.nameSerial++
		name = fmt.Sprintf("%s.%d", base, g.nameSerial)
	}
	return name
}
