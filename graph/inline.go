package graph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// InlineControlFlow replaces nodes of control flow by the nodes that they run. If sizes determine which graph a node
// runs ([Op.TakenBranch]), the nodes of that graph replace the node. If sizes determine how many times a node runs a
// graph ([Op.Repeats]), the nodes of all iterations replace the node. For example, if sizes make the condition true:
//
//	y = if(condition, then, else)     then: t = relu(x), s = add(t, x), output s
//
// becomes
//
//	y.t = relu(x)
//	y   = add(y.t, x)
//
// The graph must be one of these:
//   - a graph whose symbols are all bound to numbers
//   - a graph of [Graph.Symbolic]: if the bounds of symbols do not decide a branch or a number of iterations, the hints
//     decide, and a guard records the decision
//
// The results of replaced nodes are removed. Their replacements take their names where possible. The graph must then be
// inferred again. InlineControlFlow does not change a graph that has nothing to replace. After an error, the graph is
// partly changed.
func (g *Graph) InlineControlFlow() error {
	first := slices.IndexFunc(g.Nodes, (*Node).mustInline)
	if first < 0 {
		return nil
	}
	inlining := &inlining{graph: g, replacements: map[*Value]*Value{}}
	nodes := g.Nodes[first:]
	g.Nodes = slices.Clone(g.Nodes[:first])
	for i, n := range nodes {
		inlining.redirect(n)
		if !n.mustInline() {
			g.Nodes = append(g.Nodes, n)
			continue
		}
		if err := inlining.inlineNode(n); err != nil {
			g.Nodes = append(g.Nodes, nodes[i:]...)
			return g.NodeError(n, err)
		}
	}
	for i, output := range g.Outputs {
		g.Outputs[i].Value = inlining.replacementOf(output.Value)
	}
	return nil
}

// Runnable returns the graph with inlined control flow ([Graph.InlineControlFlow]) and with the storage that its ops
// read ([Graph.WithStorageAsInferred]). It returns the graph itself, or an inferred copy.
func (g *Graph) Runnable() (*Graph, error) {
	if slices.ContainsFunc(g.Nodes, (*Node).mustInline) {
		g = g.Clone()
		if err := g.inlineAndInfer(); err != nil {
			return nil, err
		}
	}
	return g.WithStorageAsInferred()
}

// inlineAndInfer inlines control flow and then infers the graph.
func (g *Graph) inlineAndInfer() error {
	if err := g.InlineControlFlow(); err != nil {
		return err
	}
	return g.Infer()
}

// mustInline reports whether InlineControlFlow replaces the node.
func (n *Node) mustInline() bool {
	if n.Op != nil && n.Op.TakenBranch != nil {
		return true
	}
	if n.Op == nil || n.Op.Repeats == nil || n.decodeAttrs() != nil { // an invalid attribute is reported by inference
		return false
	}
	_, repeats := n.Op.Repeats(n.Call())
	return repeats
}

// decodeAttrs decodes the attributes of a node if they are not decoded.
func (n *Node) decodeAttrs() (err error) {
	if n.Attrs == nil && len(n.Out) > 0 {
		n.Attrs, err = n.decode(n.Out[0].graph.sizes)
		if err == nil && n.Attrs == nil {
			err = errors.New("its attributes depend on data")
		}
	}
	return err
}

// inlining is the state of InlineControlFlow.
type inlining struct {
	graph        *Graph
	replacements map[*Value]*Value // indexed by the results of replaced nodes
}

// replacementOf returns the replacement of a value, or the value if it has none.
func (inlining *inlining) replacementOf(v *Value) *Value {
	if replacement := inlining.replacements[v]; replacement != nil {
		return replacement
	}
	return v
}

// redirect makes a node read the replacements of its operands.
func (inlining *inlining) redirect(n *Node) {
	for i := range n.In {
		n.In[i].Value = inlining.replacementOf(n.In[i].Value)
	}
	n.undecoded = n.undecoded.withReplacements(inlining.replacementOf)
}

// withReplacements returns a copy of the attributes that refers to the replacement of each value.
func (a *attributes) withReplacements(replacement func(*Value) *Value) *attributes {
	if a == nil || len(a.refs) == 0 {
		return a
	}
	given := a.given.clone()
	for _, ref := range a.refs {
		given[ref.attr] = ValueRef{replacement(ref.value)}
	}
	return attributesOf(given)
}

// inlineNode adds the nodes that replace n: the nodes of the chosen graph, or the nodes of all iterations.
func (inlining *inlining) inlineNode(n *Node) error {
	g := inlining.graph
	if err := n.decodeAttrs(); err != nil {
		return err
	}
	if n.Op.TakenBranch == nil {
		return inlining.unroll(n)
	}
	body, args := n.Op.TakenBranch(n.Call())
	if g.symbolicState != nil {
		g.symbolicState.recordGuards(Guard{Node: n})
	}
	switch {
	case body == nil:
		return errors.New("sizes do not determine which graph the node runs")
	case len(args) != len(body.Inputs) || len(n.Out) != len(body.Outputs):
		return fmt.Errorf("a graph of %d inputs and %d outputs cannot replace a node of %d inputs and %d outputs",
			len(body.Inputs), len(body.Outputs), len(args), len(n.Out))
	}
	g.nameIndex().dropNode(n)
	values, err := tensorValues(args, body.Inputs)
	if err != nil {
		return err
	}
	results, err := inlining.inlineGraph(n, body, values)
	for i := range results {
		inlining.setReplacement(n.Out[i], results[i], n)
	}
	return err
}

// tensorValues returns the values of args. args are the operands for the given inputs of a graph. It returns an error
// if an operand is omitted or a plain number.
func tensorValues(args []Arg, inputs []*Value) ([]*Value, error) {
	values := make([]*Value, len(args))
	for i, arg := range args {
		if arg.Kind != TensorArg {
			return nil, fmt.Errorf("operand %q of the graph that the node runs is not a value", inputs[i].Name)
		}
		values[i] = arg.Value
	}
	return values, nil
}

// inlineGraph adds copies of the nodes of body, a graph that node n runs. The copies read values[i] instead of
// input i of body. inlineGraph returns the copies of the outputs of body.
func (inlining *inlining) inlineGraph(n *Node, body *Graph, values []*Value) ([]*Value, error) {
	g := inlining.graph
	copies := map[*Value]*Value{}
	for i, v := range body.Inputs {
		copies[v] = values[i]
	}
	copyOf := func(v *Value) *Value { return inlining.copyOf(n, v, copies) }
	for _, bodyNode := range body.Nodes {
		if err := g.ContextErr(); err != nil {
			return nil, err
		}
		copied := &Node{Name: g.UniqueName(n.Name + "." + bodyNode.Name), Op: bodyNode.Op, In: slices.Clone(bodyNode.In),
			Pin: bodyNode.Pin, PartOf: n, undecoded: bodyNode.undecoded.withReplacements(copyOf)}
		for i := range copied.In {
			copied.In[i].Value = copyOf(copied.In[i].Value)
		}
		for i, v := range bodyNode.Out {
			copies[v] = inlining.addResult(copied, i, n.Name+"."+v.Name)
		}
		inlining.addNode(copied)
		if !copied.mustInline() {
			g.Nodes = append(g.Nodes, copied)
			continue
		}
		if err := inlining.inlineNode(copied); err != nil {
			return nil, err
		}
		for _, v := range bodyNode.Out { // inlineNode may already have replaced these results
			copies[v] = inlining.replacementOf(copies[v])
		}
	}
	outputs := make([]*Value, len(body.Outputs))
	for i, output := range body.Outputs {
		outputs[i] = copyOf(output.Value)
	}
	return outputs, nil
}

// copyOf returns the copy of v, a value of the graph that node n runs. copies has the copies made so far. If v is a
// constant without a copy, copyOf adds one to the graph and to copies.
func (inlining *inlining) copyOf(n *Node, v *Value, copies map[*Value]*Value) *Value {
	if v == nil || copies[v] != nil || v.Const == nil {
		return copies[v]
	}
	copied := *v
	copied.Name, copied.graph = inlining.graph.UniqueName(n.Name+"."+v.Name), inlining.graph
	inlining.graph.assignNumber(&copied)
	inlining.graph.nameIndex().values[copied.Name] = &copied
	inlining.graph.Constants = append(inlining.graph.Constants, &copied)
	copies[v] = &copied
	return &copied
}

// addResult adds result i, with a fresh name, to node n.
func (inlining *inlining) addResult(n *Node, i int, name string) *Value {
	result := &Value{Name: inlining.graph.UniqueName(name), Node: n, Index: i, graph: inlining.graph}
	inlining.graph.assignNumber(result)
	inlining.graph.nameIndex().values[result.Name] = result
	n.Out = append(n.Out, result)
	return result
}

// addNode assigns a number to a node, after all its results were added, and adds the node to the index of names.
func (inlining *inlining) addNode(n *Node) {
	inlining.graph.assignNodeNumber(n)
	inlining.graph.nameIndex().addNode(n)
}

// setReplacement records that a value replaces old, a result of the replaced node n. If a node added for n computes the
// replacement, the replacement takes the name of old, and a node with a single result takes the name of n. Neither is
// renamed if another value has the name of old. The node is not renamed if another node has the name of n.
func (inlining *inlining) setReplacement(old, replacement *Value, n *Node) {
	inlining.replacements[old] = replacement
	if replacement.Node == nil || replacement.Node.PartOf != n || inlining.graph.nameIndex().isTaken(old.Name) {
		return
	}
	names := inlining.graph.nameIndex()
	names.dropValue(replacement)
	replacement.Name = old.Name
	names.values[replacement.Name] = replacement
	if len(replacement.Node.Out) == 1 && !names.isTaken(n.Name) {
		names.renameNode(replacement.Node, n.Name)
	}
}

// Repetition is a graph that runs a known number of times. The inputs and outputs of Body are, in order:
//
//	inputs:  index of the iteration, condition (always true), carried values, invariant values
//	outputs: condition (always true), carried values of the next iteration, collected values
//
// For example, this body adds x to a sum, and collects the sums. With Times 3, Carried 1 and Values [0, x], the results
// are 3*x and the stacked sums x, 2*x and 3*x:
//
//	inputs: iteration, going, sum, x     next = add(sum, x)     outputs: going, next, next
type Repetition struct {
	Body    *Graph
	Times   int   // number of iterations
	Carried int   // number of carried values; the first Values are their initial values
	Values  []Arg // inputs of Body in the first iteration, without the index and the condition
}

// fits reports whether Body has inputs for all Values, and outputs for all results of node n.
func (r Repetition) fits(n *Node) bool {
	if r.Body == nil || r.Carried < 0 || len(n.Out) < r.Carried || len(r.Values) < r.Carried {
		return false
	}
	return len(r.Body.Inputs) == 2+len(r.Values) && len(r.Body.Outputs) == 1+len(n.Out)
}

// unroll replaces node n by the nodes of all iterations. The results of n are the carried values after the last
// iteration, and the collected values of all iterations stacked along a new first dimension.
func (inlining *inlining) unroll(n *Node) error {
	g := inlining.graph
	repetition, _ := n.Op.Repeats(n.Call())
	if g.symbolicState != nil {
		g.symbolicState.recordGuards(Guard{Node: n})
	}
	if !repetition.fits(n) {
		return fmt.Errorf("the body of the loop does not match its %d operands (%d of them carried) and %d results",
			len(repetition.Values), repetition.Carried, len(n.Out))
	}
	values, err := tensorValues(repetition.Values, repetition.Body.Inputs[2:])
	if err != nil {
		return err
	}
	g.nameIndex().dropNode(n)
	collected, err := inlining.inlineIterations(n, repetition, values)
	if err != nil {
		return err
	}
	for i := range repetition.Carried {
		inlining.setReplacement(n.Out[i], values[i], n)
	}
	for k, iterationValues := range collected {
		stacked, err := inlining.stack(n, iterationValues)
		if err != nil {
			return err
		}
		inlining.setReplacement(n.Out[repetition.Carried+k], stacked, n)
	}
	return nil
}

// inlineIterations adds the nodes of all iterations. values has the inputs of the first iteration. In values,
// inlineIterations replaces the carried values by the carried values after the last iteration. It returns the collected
// values.
func (inlining *inlining) inlineIterations(n *Node, repetition Repetition, values []*Value) ([][]Arg, error) {
	condition := inlining.addConstant(n, "going", tensor.BoolScalar(true).Tensor(tensor.Bool))
	collected := make([][]Arg, len(n.Out)-repetition.Carried) // by collected value, then by iteration
	for i := range repetition.Times {
		iteration := inlining.addConstant(n, "iteration", tensor.IntScalar(int64(i)).Tensor(tensor.Int64))
		outputs, err := inlining.inlineGraph(n, repetition.Body, append([]*Value{iteration, condition}, values...))
		if err != nil {
			return nil, fmt.Errorf("iteration %d: %w", i, err)
		}
		// The outputs of Body are the condition, the carried values and the collected values. Invariant values do not
		// change.
		copy(values, outputs[1:1+repetition.Carried])
		for k, value := range outputs[1+repetition.Carried:] {
			collected[k] = append(collected[k], ArgOf(value))
		}
	}
	return collected, nil
}

// addConstant adds a constant for the nodes that replace n.
func (inlining *inlining) addConstant(n *Node, name string, data *tensor.Tensor) *Value {
	constant := &Value{Name: name, Type: data.Meta.Type(), Meta: data.Meta, Const: data}
	return inlining.copyOf(n, constant, map[*Value]*Value{})
}

// stack adds a node that stacks values along a new first dimension.
func (inlining *inlining) stack(n *Node, values []Arg) (*Value, error) {
	op := inlining.graph.lookup("stack")
	if op == nil {
		return nil, errors.New("the catalogue has no op named \"stack\", which collects the values of iterations")
	}
	stack := &Node{Name: inlining.graph.UniqueName(n.Name + ".stack"), Op: op, In: values, PartOf: n,
		undecoded: attributesOf(Attrs{"dim": 0})}
	result := inlining.addResult(stack, 0, stack.Name)
	inlining.addNode(stack)
	inlining.graph.Nodes = append(inlining.graph.Nodes, stack)
	return result, nil
}
