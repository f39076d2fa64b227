package graph

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// This file builds graphs in Go. A method that fails records its error for [Graph.Err], so that callers need not check
// each call. For example:
//
//	g := graph.New("net", kernels.Lookup)
//	x := g.Input("x", tensor.Float32, 2, 3)
//	sum := g.Apply("add", nil, x, 1)[0]    // inferred at once: [2, 3]
//	g.Output("y", g.Apply("relu", nil, sum)[0].Named("y"))
//	err := g.Err()

// Input adds a row-major input. If Input fails, the graph records the error for [Graph.Err], and Input returns a
// placeholder value. All builder methods do so. Nodes and outputs that depend on a placeholder are omitted without a
// further error.
func (g *Graph) Input(name string, dtype tensor.DType, shape ...int) *Value {
	return g.InputMeta(name, tensor.New(dtype, shape...))
}

// InputFormat adds a dense input in a memory format.
func (g *Graph) InputFormat(name string, dtype tensor.DType, format tensor.MemoryFormat, shape ...int) *Value {
	meta, err := tensor.NewFormat(dtype, shape, format)
	if err != nil {
		return g.reject(name, fmt.Errorf("input %q: %w", name, err))
	}
	v := g.InputMeta(name, meta)
	v.decl = &Decl{DType: dtype, Layout: Pin{Format: format}}
	return v
}

// InputDims adds an input with sizes and a memory format: see [Graph.InputDecl]. NoFormat means row-major.
func (g *Graph) InputDims(name string, dtype tensor.DType, format tensor.MemoryFormat, dims ...Dim) *Value {
	return g.InputDecl(name, Decl{DType: dtype, Dims: dims, Layout: Pin{Format: format}})
}

// InputMeta adds an input of any layout.
func (g *Graph) InputMeta(name string, meta tensor.Meta) *Value {
	if err := meta.Check(); err != nil {
		return g.reject(name, fmt.Errorf("input %q: %w", name, err))
	}
	// The caller may change its slices.
	meta.Shape, meta.Strides = slices.Clone(meta.Shape), slices.Clone(meta.Strides)
	v := &Value{Name: name, Type: meta.Type(), Meta: meta, graph: g}
	g.Inputs = append(g.Inputs, v)
	g.addValue(v)
	return v
}

// Constant adds a constant. The graph keeps t, which must not change.
func (g *Graph) Constant(name string, t *tensor.Tensor) *Value {
	if err := t.Check(); err != nil {
		return g.reject(name, fmt.Errorf("constant %q: %w", name, err))
	}
	v := &Value{Name: name, Type: t.Meta.Type(), Meta: t.Meta, Const: t, graph: g}
	g.Constants = append(g.Constants, v)
	g.addValue(v)
	return v
}

// Output names a value as a result.
func (g *Graph) Output(name string, v *Value) *Graph { return g.OutputFormat(name, v, tensor.NoFormat) }

// OutputFormat names a value as a result that must have a memory format.
func (g *Graph) OutputFormat(name string, v *Value, format tensor.MemoryFormat) *Graph {
	return g.OutputPinned(name, v, Pin{Format: format})
}

// OutputPinned names a value as a result that must have the layout of a pin.
func (g *Graph) OutputPinned(name string, v *Value, pin Pin) *Graph {
	if v != nil && v.isPlaceholder() {
		return g
	}
	if err := g.checkOutput(name, v, pin); err != nil {
		g.recordError(err)
		return g
	}
	g.Outputs = append(g.Outputs, Output{Name: name, Value: v, Pin: pin})
	return g
}

// checkOutput returns an error if a value cannot be an output of the given name and pin.
func (g *Graph) checkOutput(name string, v *Value, pin Pin) error {
	switch {
	case v == nil:
		return fmt.Errorf("output %q has no value", name)
	case v.graph != g:
		return fmt.Errorf("output %q: value %q belongs to another graph", name, v.Name)
	case pin.check() != nil:
		return fmt.Errorf("output %q: %w", name, pin.check())
	case pin.Impl != "":
		return fmt.Errorf("output %q: the pin names an implementation, but only nodes have implementations", name)
	case pin.Device != "":
		return fmt.Errorf("output %q: the pin names a device, but outputs are always on the host", name)
	case name == "":
		return fmt.Errorf("the output of value %q needs a name", v.Name)
	case slices.ContainsFunc(g.Outputs, func(output Output) bool { return output.Name == name }):
		return fmt.Errorf("two outputs are named %q", name)
	}
	return nil
}

// Apply adds a node for any op of the catalogue and returns its outputs. An operand is a *Value, a Go number or bool,
// or nil for an absent operand. For the ops of package kernels, package op has typed functions. Apply is for other ops
// and for importers.
//
// If Apply fails, it records the error for [Graph.Err] and returns a placeholder for each named output of the op, so
// that building can continue.
func (g *Graph) Apply(op string, attrs Attrs, operands ...any) []*Value {
	return g.ApplyN(op, 0, attrs, operands...)
}

// ApplyN adds a node with count results, as [Graph.Apply] does. Callers use ApplyN if inference cannot determine the
// number of results. If count is 0, inference determines the number.
//
//go:noinline // saves code and compile time: it has many callers, none of them hot
func (g *Graph) ApplyN(op string, count int, attrs Attrs, operands ...any) []*Value {
	const isExact = false
	return g.applyCount(op, count, isExact, attrs, operands)
}

// ApplyExactly adds a node that must have exactly count results, as [Graph.Apply] does. It fails if inference finds
// another number of results.
func (g *Graph) ApplyExactly(op string, count int, attrs Attrs, operands ...any) []*Value {
	const isExact = true
	return g.applyCount(op, count, isExact, attrs, operands)
}

// Named renames the value. If the value is the only result of its node, Named also renames the node.
func (v *Value) Named(name string) *Value {
	g := v.ownerGraph()
	renamesNode := v.Node != nil && len(v.Node.Out) == 1
	switch {
	case v.isPlaceholder() || v.Name == name:
		return v
	case name == "" || g.nameIndex().values[name] != nil || renamesNode && g.nameIndex().node(name) != nil:
		g.recordError(g.nameError(name))
		return v
	}
	g.Rename(v, name)
	if n := v.Node; renamesNode {
		delete(g.nameIndex().nodes, n.Name)
		n.Name = name
	}
	return v
}

// ownerGraph returns the graph of the value. It panics if no graph made the value, because then no graph can record the
// error.
func (v *Value) ownerGraph() *Graph {
	if v == nil || v.graph == nil {
		panic("graph: the value was not made by a graph")
	}
	return v.graph
}

// Err returns all errors of builder methods, joined, or nil. Each error names its node.
//
//go:noinline // as ApplyN
func (g *Graph) Err() error { return errors.Join(g.errs...) }

// recordError adds an error to the errors that [Graph.Err] returns.
func (g *Graph) recordError(err error) { g.errs = append(g.errs, err) }

// nameError returns the error for a value whose name is empty or belongs to another value.
func (g *Graph) nameError(name string) error {
	if name == "" {
		return errors.New("a value needs a name")
	}
	return fmt.Errorf("two values are named %q", name)
}

// addValue numbers a new value and enters its name. If the name is empty or taken, it records an error, and the value
// gets another name.
func (g *Graph) addValue(v *Value) {
	names := g.nameIndex()
	if v.Name == "" || names.values[v.Name] != nil {
		g.recordError(g.nameError(v.Name))
		v.Name = g.UniqueName("value")
	}
	g.assignNumber(v)
	names.values[v.Name] = v
}

// reject records an error of an input or a constant and returns a placeholder for the value.
func (g *Graph) reject(name string, err error) *Value {
	g.recordError(err)
	return g.placeholder(name)
}

// placeholder returns the placeholder of a rejected value: a 0-dim float32.
func (g *Graph) placeholder(name string) *Value {
	return &Value{Name: name, Type: tensor.NewType(tensor.Float32), Meta: tensor.New(tensor.Float32), graph: g, number: -1}
}

// applyCount implements [Graph.ApplyN] and, if isExact is true, [Graph.ApplyExactly].
func (g *Graph) applyCount(op string, count int, isExact bool, attrs Attrs, operands []any) []*Value {
	n := &Node{Name: g.UniqueName(op)}
	err := g.apply(n, op, attrs, operands, count, isExact)
	if err == nil {
		return n.Out
	}
	if err != errRejected { // the error of the rejected node is already recorded
		nodeErr := &Error{Node: n.Name, Op: op, Err: err}
		nodeErr.File, nodeErr.Line = callSite()
		g.recordError(nodeErr)
	}
	return g.placeholders(n, count, isExact)
}

// maxOutputs is the maximum number of results that a caller can request: the argument count of [Graph.ApplyN].
const maxOutputs = 1 << 20

// placeholders returns the placeholders of the results of a rejected node, one for each result that the caller expects.
func (g *Graph) placeholders(n *Node, count int, isExact bool) []*Value {
	count = min(max(count, 1), maxOutputs)
	if n.Op != nil && !isExact {
		count = max(len(n.Op.Outputs), count)
	}
	values := make([]*Value, count)
	for i := range values {
		values[i] = g.placeholder(n.Name)
		values[i].Node, values[i].Index = n, i
	}
	return values
}

// apply infers node n with the given operands and attributes, and adds the node and its results to the graph. count and
// isExact are the arguments of applyCount.
func (g *Graph) apply(n *Node, op string, attrs Attrs, operands []any, count int, isExact bool) (err error) {
	n.Op, err = g.findOp(op)
	switch {
	case err != nil:
		return err
	case n.Op == nil:
		return UnknownOp(op, g.lookup)
	case count < 0 || count > maxOutputs:
		return fmt.Errorf("the number of results is %d: want 1 to %d, or 0 if inference can determine it", count, maxOutputs)
	}
	if err := n.setInputs(g, attrs.clone(), operands); err != nil {
		return err
	}
	results, err := n.results(g, count)
	if err != nil {
		return err
	}
	switch {
	case len(results) == 0:
		return errors.New("makes no values")
	case isExact && len(results) != count:
		return fmt.Errorf("makes %d values, want %d", len(results), count)
	}
	values := make([]Value, len(results))
	for i := range results {
		values[i] = Value{Name: n.Name, Node: n, Index: i, graph: g}
		n.Out = append(n.Out, &values[i])
	}
	if err := n.setInferred(results); err != nil {
		return err
	}
	g.addInferred(n)
	return nil
}

// errRejected is the error of a node that uses the output of a rejected node.
var errRejected = errors.New("depends on a rejected node")

// addInferred adds a node and its results to the graph. A single result has the name of the node; several results have
// names such as split_0 and split_1.
func (g *Graph) addInferred(n *Node) {
	g.assignNodeNumber(n)
	names := g.nameIndex()
	if len(n.Out) > 1 {
		names.nodes[n.Name] = n
	}
	for i, v := range n.Out {
		if len(n.Out) > 1 {
			v.Name = g.UniqueName(fmt.Sprintf("%s_%d", n.Name, i))
		}
		g.assignNumber(v)
		names.values[v.Name] = v
	}
	g.Nodes = append(g.Nodes, n)
}

// setInputs sets the operands and attributes of a node of g.
func (n *Node) setInputs(g *Graph, attrs Attrs, operands []any) error {
	for i, given := range operands {
		arg, err := argOf(given)
		if err != nil {
			return fmt.Errorf("operand %d: %w", i, err)
		}
		n.In = append(n.In, arg)
	}
	otherAttrs, numbers := n.Op.splitNumbers(attrs)
	n.undecoded = attributesOf(otherAttrs)
	if err := cmp.Or(n.addNumbers(numbers), n.moveNumbers()); err != nil {
		return err
	}
	for i, arg := range n.In {
		switch {
		case arg.Kind == TensorArg && arg.Value.isPlaceholder():
			return errRejected
		case arg.Kind == TensorArg && arg.Value.graph != g:
			return fmt.Errorf("operand %d: value %q belongs to another graph", i, arg.Value.Name)
		}
	}
	n.trimAbsent()
	return n.checkArity()
}

// results infers the node's outputs. If inference needs the data of other nodes (see needsData), results
// returns count outputs without types.
func (n *Node) results(g *Graph, count int) (_ []Result, err error) {
	defer n.recoverPanic(&err)
	for _, ref := range n.refs() {
		switch {
		case ref.value == nil:
			return nil, fmt.Errorf("attribute %q has no value", ref.attr)
		case ref.value.isPlaceholder():
			return nil, errRejected
		case ref.value.graph != g:
			return nil, fmt.Errorf("attribute %q: value %q belongs to another graph", ref.attr, ref.value.Name)
		}
	}
	if err := n.checkBodies(g); err != nil {
		return nil, err
	}
	attrs, err := n.decode(g.sizes)
	if err != nil {
		return nil, err
	}
	n.Attrs = attrs
	if n.needsData() {
		return slices.Repeat([]Result{{Alias: NoAlias, Dynamic: true}}, max(count, len(n.Op.Outputs), 1)), nil
	}
	return n.Op.Infer(&Call{In: n.In, Attrs: attrs, resultCount: count})
}

// checkBodies checks attributes that are graphs, such as the body of a loop. It fails if an attribute graph has errors.
// It also fails if an attribute graph contains g, the graph of the node, because evaluation would never end.
func (n *Node) checkBodies(g *Graph) error {
	for _, name := range sorted.Keys(n.givenAttrs()) {
		body, ok := n.undecoded.given[name].(*Graph)
		if !ok || body == nil {
			continue
		}
		if err := body.Err(); err != nil {
			return fmt.Errorf("attribute %q: %w", name, err)
		}
		if body.containsGraph(g, map[*Graph]bool{}) {
			return fmt.Errorf("attribute %q: the graph would contain itself", name)
		}
	}
	return nil
}

// containsGraph reports whether g is the graph other, or contains it as an attribute at any depth.
func (g *Graph) containsGraph(other *Graph, visited map[*Graph]bool) bool {
	if g == other {
		return true
	}
	visited[g] = true
	for _, n := range g.Nodes {
		for _, v := range n.givenAttrs() {
			if inner, ok := v.(*Graph); ok && inner != nil && !visited[inner] && inner.containsGraph(other, visited) {
				return true
			}
		}
	}
	return false
}
