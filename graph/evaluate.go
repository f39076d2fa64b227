package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// Evaluate computes a graph's outputs by the references of its ops, one node after another. It is slow and simple. It
// defines the results that a compiled graph must have. The maps of inputs and outputs are keyed by name. Inputs may
// have any layout. Shapes may depend on data.
//
// Evaluate fails if an input is missing or unknown, if an input has another dtype or shape than the graph, or if the
// graph has errors. If an op has no reference, the error is a [NoReference]. If memory is insufficient, the error is a
// [*tensor.MemoryError].
func Evaluate(g *Graph, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if g == nil {
		return nil, errNoGraph
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	g, err := g.WithStorageAsInferred()
	if err != nil {
		return nil, err
	}
	tensors, err := g.bindInputs(inputs)
	if err != nil {
		return nil, err
	}
	for _, v := range g.Constants {
		tensors[v] = v.Data()
	}
	if err := tensor.CheckMemory(g.resultBytes()); err != nil {
		return nil, err
	}
	dynamic := g.Dynamic()
	for _, n := range g.Nodes {
		if err := n.evaluate(g, tensors, dynamic); err != nil {
			return nil, g.NodeError(n, err)
		}
	}
	outputs := map[string]*tensor.Tensor{}
	for _, output := range g.Outputs {
		outputs[output.Name] = tensors[output.Value]
	}
	return outputs, nil
}

// errNoGraph is the error of functions that are called without a graph.
var errNoGraph = errors.New("the graph is nil")

// bindInputs checks the inputs, a map by name, and returns a map by value.
func (g *Graph) bindInputs(inputs map[string]*tensor.Tensor) (map[*Value]*tensor.Tensor, error) {
	tensors := map[*Value]*tensor.Tensor{}
	for _, v := range g.Inputs {
		t := cmp.Or(inputs[v.Name], v.Default)
		if t == nil {
			return nil, fmt.Errorf("input %q is missing", v.Name)
		}
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
		if t.DType != v.Meta.DType || !slices.Equal(t.Shape, v.Meta.Shape) {
			return nil, fmt.Errorf("input %q is %v of shape %s, the graph wants %v of shape %s", v.Name,
				t.DType, tensor.ListString(t.Shape), v.Meta.DType, tensor.ListString(v.Meta.Shape))
		}
		tensors[v] = t
	}
	for _, name := range sorted.Keys(inputs) {
		if v := g.Value(name); v == nil || tensors[v] == nil {
			return nil, fmt.Errorf("the graph has no input %q", name)
		}
	}
	return tensors, nil
}

// resultBytes returns the total size in bytes of all results whose shapes are known. An evaluation keeps these results
// in memory to its end.
func (g *Graph) resultBytes() int {
	total := 0
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			if v.Alias == nil && !v.Dynamic {
				total = min(total+v.Meta.Extent()*v.Meta.DType.Size(), math.MaxInt/2) // the limit prevents overflow
			}
		}
	}
	return total
}

// evaluate computes a node's outputs and adds them to tensors, the tensors of the values computed so far.
func (n *Node) evaluate(g *Graph, tensors map[*Value]*tensor.Tensor, dynamic bool) (err error) {
	defer tensor.CatchMemory(&err)
	if err := g.ContextErr(); err != nil {
		return err
	}
	out, inferred, err := n.reference(g, tensors, dynamic)
	if err != nil {
		return err
	}
	if len(out) != len(n.Out) {
		return fmt.Errorf("the op's reference returns %d values, want %d", len(out), len(n.Out))
	}
	for i, v := range n.Out {
		if out[i] == nil {
			return fmt.Errorf("the op's reference returns no value for output %d", i)
		}
		inferredValue := inferred.Out[i]
		var viewed *tensor.Tensor // the operand of a view; else nil
		for k, a := range inferred.In {
			if inferredValue.Alias != nil && a.Value == inferredValue.Alias {
				viewed = tensors[n.In[k].Value]
			}
		}
		tensors[v] = inferredValue.toInferredLayout(out[i], viewed)
	}
	return nil
}

// NoReference is the error of [Evaluate] at a node whose op has no reference. The field Why has the reason that the op
// gives, or is empty.
type NoReference struct{ Why string }

// Error returns a message with the reason.
func (e NoReference) Error() string {
	if e.Why == "" {
		return "the op has no reference"
	}
	return "the op has no reference: " + e.Why
}

// reference computes a node's outputs by its op's reference. It also returns the node, inferred for the values in
// tensors. If no shape depends on data, this node is n itself.
func (n *Node) reference(g *Graph, tensors map[*Value]*tensor.Tensor, dynamic bool) ([]*tensor.Tensor, *Node, error) {
	if n.Op.Ref == nil {
		return nil, nil, NoReference{n.Op.NoRef}
	}
	inferred := n
	if dynamic {
		// A Segment of one node infers metas and attributes from the data. With readsOffsets, the inferred metas have
		// the offsets of the tensors.
		segment := &Segment{Nodes: []*Node{n}, Dynamic: true, graph: g, readsOffsets: true}
		inferredSegment, err := segment.At(g.Context(), tensors)
		if err != nil {
			return nil, nil, err
		}
		inferred = inferredSegment.Nodes[0]
	}
	in := make([]*tensor.Tensor, len(n.In))
	for i, a := range n.In {
		switch a.Kind {
		case TensorArg:
			in[i] = tensors[a.Value]
		case NumberArg:
			in[i] = a.Number.Tensor(a.Number.DType())
		}
	}
	out, err := n.Op.Ref(inferred.Call(), in)
	return out, inferred, err
}

// toInferredLayout returns t in the inferred layout of the value, because a later as_strided depends on this layout. t
// is the result of a reference. For a view, base is the tensor of the operand, and the result is a view of base. It
// returns t unchanged where this is impossible or unnecessary:
//   - The value is packed or dynamic, or t has another dtype.
//   - t has the storage of base.
//   - base does not have the layout inferred for the operand.
//   - The inferred layout does not fit in the storage.
func (v *Value) toInferredLayout(t, base *tensor.Tensor) *tensor.Tensor {
	if v.Dynamic || v.Packed != nil || t.DType != v.Meta.DType {
		return t
	}
	if base == nil { // not a view
		if !t.SameAddresses(v.Meta) {
			return t.CopyTo(v.Meta)
		}
		meta := v.Meta
		meta.Offset = t.Offset
		if view, err := t.View(meta); err == nil {
			return view
		}
		return t
	}
	if base.Storage() == t.Storage() || !base.SameAddresses(v.Alias.Meta) {
		return t
	}
	meta := v.Meta
	meta.Offset += base.Offset - v.Alias.Meta.Offset // the offset of base may differ from the inferred offset
	if view, err := base.View(meta); err == nil {
		return view
	}
	return t
}

// Reference is a [Runtime] that evaluates graphs by [Evaluate].
type Reference struct{}

// Context returns a context that never ends.
func (Reference) Context() context.Context { return context.Background() }

// Texts returns nil: a reference knows no strings.
func (Reference) Texts() *tensor.Texts { return nil }

// Run evaluates a subgraph. The inputs are in the order of g.Inputs.
func (Reference) Run(g *Graph, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if g == nil {
		return nil, errNoGraph
	}
	metas, byName := make([]tensor.Meta, len(in)), map[string]*tensor.Tensor{}
	for i, t := range in {
		if t == nil {
			return nil, fmt.Errorf("input %d is missing", i)
		}
		metas[i] = t.Meta
		if i < len(g.Inputs) {
			byName[g.Inputs[i].Name] = t
		}
	}
	bound, err := g.withInputs(metas)
	if err != nil {
		return nil, err
	}
	outputs, err := Evaluate(bound, byName)
	if err != nil {
		return nil, err
	}
	out := make([]*tensor.Tensor, len(bound.Outputs))
	for i, output := range bound.Outputs {
		out[i] = outputs[output.Name]
	}
	return out, nil
}
