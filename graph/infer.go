package graph

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Infer infers all nodes in order. It returns the error of the first rejected node. After the graph's context has
// ended, all nodes are rejected ([Graph.SetContext]).
func (g *Graph) Infer() error {
	var state inference
	for _, n := range g.Nodes {
		if err := n.infer(&state); err != nil {
			return g.NodeError(n, err)
		}
	}
	return nil
}

// InferAll infers all nodes as [Graph.Infer] does, but continues after rejected nodes. It returns the errors of all
// rejected nodes. A node that depends on a rejected node is rejected, too. Its error names the dependency. Type and
// Meta of the results of rejected nodes are zero.
func (g *Graph) InferAll() map[*Node]*Error {
	rejected := map[*Node]*Error{}
	var state inference
	for _, n := range g.Nodes {
		err := n.dependsOn(rejected)
		if err == nil {
			err = n.infer(&state)
		}
		if err == nil {
			continue
		}
		rejected[n] = g.NodeError(n, err)
		for _, v := range n.Out {
			// Clear the types of an earlier inference.
			v.Type, v.Meta, v.Alias = tensor.Type{}, tensor.Meta{}, nil
		}
	}
	return rejected
}

// dependsOn returns an error if an operand or an attribute is a result of a rejected node.
func (n *Node) dependsOn(rejected map[*Node]*Error) error {
	for i := range n.dependencyCount() {
		if v := n.dependency(i); v != nil && v.Node != nil && rejected[v.Node] != nil {
			return fmt.Errorf("depends on %q, which was rejected", v.Name)
		}
	}
	return nil
}

// Infer sets the types and aliases of the node's outputs from its operands, as eager PyTorch does, and then applies the
// node's pin: a layout or implementation that the user fixed. It returns the error of the op. For example, let x be
// float32 of shape [2, 3] and strides [3, 1]. The result of a transposition of x gets shape [3, 2], strides [1, 3] and
// the alias x.
func (n *Node) Infer() error { return n.infer(&inference{}) }

// inference is the state that successive inferences of nodes share: a reusable Call, and the last node that an op
// inferred, with its results. Successive nodes are often alike ([Node.InfersLike]). Reuse of the last results halves
// the time to load a graph of a million adds.
type inference struct {
	call        Call
	last        *Node
	lastResults []Result // of last; call may own their memory, and overwrite it in the next inference
}

// infer infers the types of the node's outputs. It converts a panic of the op to an error, because the op may be the
// user's code. If the graph has unknown sizes (g.symbolicState is set), infer records the new guards: conditions on
// sizes under which the types are valid. It calls inferReusing, which infers the nodes that need no call of the op, and
// which calls inferByOp for the other nodes.
func (n *Node) infer(state *inference) (err error) {
	defer n.recoverPanic(&err)
	if n.Op == nil || len(n.Out) == 0 || n.Out[0] == nil || n.Out[0].graph == nil {
		return errors.New("the node was not made by a graph")
	}
	g := n.Out[0].graph
	if g.symbolicState != nil {
		defer g.symbolicState.recordGuards(Guard{Node: n})
	}
	return n.inferReusing(g, state)
}

// recoverPanic is deferred and converts a panic of the op to an error. For a graph with unknown sizes it panics again,
// because package sym uses a panic to abandon a path of branches, and recovers this panic.
func (n *Node) recoverPanic(err *error) {
	panicked := recover()
	if panicked == nil {
		return
	}
	if len(n.Out) > 0 && n.Out[0] != nil && n.Out[0].graph != nil && n.Out[0].graph.symbolicState != nil {
		panic(panicked)
	}
	if memory, ok := panicked.(*tensor.MemoryError); ok {
		*err = memory
		return
	}
	*err = fmt.Errorf("internal error: %v\n%s", panicked, debug.Stack())
}

// inferReusing infers a node of graph g. If the node is like the last one, it reuses the results of that node. In a
// graph of a million similar nodes, memory latency dominates. The function is short, so that the processor overlaps the
// cache misses of several nodes.
func (n *Node) inferReusing(g *Graph, state *inference) error {
	if len(g.rejected) > 0 && g.rejected[n.number] != nil {
		return g.rejected[n.number]
	}
	if err := g.ContextErr(); err != nil {
		return err
	}
	if n.Attrs == nil {
		// Attrs was reset: a symbol may have been bound, or a value that an attribute refers to may have become constant.
		attrs, err := n.decode(g.sizes)
		if err != nil {
			return err
		}
		n.Attrs = attrs
	}
	if n.needsData() { // the results get their types when a run has computed the data
		for _, v := range n.Out {
			v.Type, v.Meta, v.Alias, v.Dynamic = tensor.Type{}, tensor.Meta{}, nil, true
		}
		return nil
	}
	if n.InfersLike(state.last) {
		return n.setInferred(state.lastResults)
	}
	return n.inferByOp(g, state)
}

// InfersLike reports whether n is a pointwise node that has the same op, attributes and operand types as last, and the
// same numbers as operands. Inference of both nodes then has the same results. last must have been inferred.
func (n *Node) InfersLike(last *Node) bool {
	if n == nil || last == nil || n.Op == nil || n.Op != last.Op || n.Op.Pointwise == nil || n.Attrs != last.Attrs {
		return false
	}
	if n.Impl != nil || last.Impl != nil || len(n.In) != len(last.In) || len(n.Out) != len(last.Out) {
		return false
	}
	for i := range n.In {
		if !n.In[i].sameOperand(&last.In[i]) {
			return false
		}
	}
	return true
}

// sameOperand reports whether two operands are the same number, the same value, or non-constant values whose types
// share their slices. Types that are equal but do not share slices count as different: the test must be fast.
func (a *Arg) sameOperand(b *Arg) bool {
	switch {
	case a.Kind != b.Kind:
		return false
	case a.Kind == NumberArg:
		return a.Number == b.Number
	case a.Value == b.Value:
		return true
	case a.Value == nil || b.Value == nil:
		return false
	}
	aType, bType := &a.Value.Type, &b.Value.Type
	return a.Value.Const == nil && b.Value.Const == nil && aType.DType == bType.DType &&
		sameSlice(aType.Shape, bType.Shape) && sameSlice(aType.Strides, bType.Strides) && aType.Offset.Same(bType.Offset)
}

// sameSlice reports whether two lists of sizes have the same address and length.
func sameSlice(a, b []sym.Int) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// inferByOp infers a node of g by its op. If sizes are unknown, it infers the node once for each outcome of the op's
// branches on sizes (inferAllPaths). If insideFork is set, a sym.Fork around the call repeats the inference for each
// outcome, and inferByOp infers only one.
func (n *Node) inferByOp(g *Graph, state *inference) error {
	state.last = nil // Infer may overwrite lastResults, because the call may own their memory
	call := &state.call
	call.In, call.Attrs, call.Out, call.Impl, call.Walk = n.In, n.Attrs, nil, n.Impl, n.Walk
	call.resultCount = len(n.Out)
	call.metaFixesSizes = g.symbolicState != nil // an unknown size that the op uses as a number is fixed
	var results []Result
	var err error
	if g.symbolicState != nil && !g.symbolicState.insideFork {
		results, err = g.symbolicState.inferAllPaths(n)
	} else {
		results, err = n.Op.Infer(call)
	}
	if err != nil {
		return err
	}
	if len(results) != len(n.Out) {
		return n.outputsError(len(results))
	}
	if g.symbolicState != nil && g.symbolicState.unbacked != nil { // adds symbols for sizes that depend on data
		if results, err = g.symbolicState.unbacked.typeDynamicResults(results); err != nil {
			return err
		}
	}
	state.last, state.lastResults = n, results
	return n.setInferred(results)
}

// setInferred sets the inferred types of the outputs, and applies the layout of the node's pin.
func (n *Node) setInferred(results []Result) error {
	if n.Pin.Impl != "" {
		if _, err := n.Op.Impl(n.Pin.Impl); err != nil {
			return err
		}
	}
	for i := range results {
		result := &results[i]
		if result.Alias >= len(n.In) {
			return fmt.Errorf("result %d shares the storage of operand %d, which does not exist", i, result.Alias)
		}
		v := n.Out[i]
		v.Alias, v.Dynamic = nil, result.Dynamic
		if err := v.setType(&result.Type, n.In); err != nil {
			return err
		}
		if result.Dynamic {
			continue
		}
		if result.Alias >= 0 {
			v.Alias = n.In[result.Alias].Value
		}
		if n.Pin.SetsLayout() {
			if err := v.setLayout(n.Pin); err != nil {
				return err
			}
		}
		if g := v.graph; g.symbolicState != nil && g.symbolicState.insideFork {
			// Meta is the type at the hints, which belong to one class of sizes. Type must be valid in each class.
			if err := v.Type.Check(); err != nil {
				return err
			}
		} else if err := v.Meta.Check(); err != nil {
			return err
		}
	}
	return nil
}

// setType sets Type and Meta to an inferred type. If the type shares its slices with the type of an operand, and its
// offset is a number, Meta shares the slices of the operand's Meta. Thus a long chain of values of one shape needs no
// additional memory.
func (v *Value) setType(inferred *tensor.Type, in []Arg) error {
	for i := range in {
		operand := in[i].Value
		if operand == nil || !sameSlice(inferred.Shape, operand.Type.Shape) ||
			!sameSlice(inferred.Strides, operand.Type.Strides) {
			continue
		}
		if offset, known := inferred.Offset.Known(); known {
			v.Type, v.Meta = *inferred, tensor.Meta{DType: inferred.DType, Shape: operand.Meta.Shape,
				Strides: operand.Meta.Strides, Offset: offset}
			return nil
		}
	}
	if inferred.IsMeta(v.Meta) {
		// the type is as before, so Meta is valid; fields are copied one by one for speed (see Result.set)
		setFields(&v.Type, inferred)
		return nil
	}
	meta, known := inferred.Meta()
	if !known && v.graph.symbolicState == nil {
		return fmt.Errorf("the type %v depends on unknown sizes", *inferred)
	}
	v.Type, v.Meta = *inferred, meta
	return nil
}

// setLayout gives the value the layout that pin p demands, unless the value already has it.
func (v *Value) setLayout(p Pin) error {
	order, err := p.OrderFor(v.Meta.Rank())
	if err != nil || order.HoldsSymbolic(v.Type) {
		return err // nil if the value already has the layout
	}
	v.Type = v.Type.WithStrides(order.SymbolicStrides(v.Type.Shape))
	v.Meta, v.Alias = v.Type.AtHints(), nil
	return nil
}

// Results returns the inferred results of the node for the present types of its operands. It does not change the graph.
// In a graph that [Graph.Symbolic] made, a branch on unknown sizes becomes a guard if the branch affects the results.
func (n *Node) Results() ([]Result, error) {
	if n == nil || n.Op == nil || n.Op.Infer == nil || len(n.Out) == 0 || n.Out[0] == nil || n.Out[0].graph == nil {
		return nil, errors.New("the node was not made by a graph")
	}
	if state := n.Out[0].graph.symbolicState; state != nil && !state.insideFork {
		return state.inferAllPaths(n)
	}
	return n.Op.Infer(&Call{In: n.In, Attrs: n.Attrs, resultCount: len(n.Out)})
}

// InferFor infers the node for operands of the given types, in the order of In, and for the given values of symbols. It
// returns the results, and does not change the graph. Sizes may be unknown. If the op needs an unknown size as a
// number, InferFor uses the size's hint. The results are then valid only if the size equals the hint. InferFor records
// this condition as a guard in the [sym.Env] of the size. Attributes that are values of the graph must be constants.
func (n *Node) InferFor(types []tensor.Type, symbols map[string]sym.Int) ([]Result, error) {
	if n.Op == nil || n.Op.Infer == nil || n.Op.Schema == nil {
		return nil, errors.New("the node was not made by a graph")
	}
	attrs, err := n.decode(symbols)
	if err != nil {
		return nil, err
	}
	call := &Call{In: make([]Arg, len(n.In)), Attrs: attrs, Impl: n.Impl, Walk: n.Walk, metaFixesSizes: true}
	for i, arg := range n.In {
		call.In[i] = arg
		if v := arg.Value; arg.Kind == TensorArg && v != nil && i < len(types) {
			call.In[i].Value = &Value{Name: v.Name, Type: types[i], Meta: types[i].AtHints(), Const: v.Const}
		}
	}
	return n.Op.Infer(call)
}

// checkCall checks the operands, and the number of outputs if the op determines it.
func (n *Node) checkCall() error {
	if err := n.checkArity(); err != nil {
		return err
	}
	if want := len(n.Op.Outputs); !n.Op.VariadicResults && want > 1 && len(n.Out) != want {
		return n.outputsError(want)
	}
	return nil
}

// outputsError returns the error of a node whose number of outputs differs from `results`, the number of results that
// its op computes.
func (n *Node) outputsError(results int) error {
	count := fmt.Sprintf("%d values", results)
	if results == 1 {
		count = "one value"
	}
	switch {
	case len(n.Op.Outputs) == results && results > 1:
		return fmt.Errorf("makes %s: name them under \"outputs\": %s", count, strings.Join(n.Op.Outputs, ", "))
	case len(n.Out) == 1 && results > 1:
		return fmt.Errorf("makes %s: name them under \"outputs\"", count)
	}
	return fmt.Errorf("makes %s, \"outputs\" names %d", count, len(n.Out))
}
