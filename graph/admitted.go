package graph

import (
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// This file finds the integers that are valid indices in a graph, so that input data can be generated. It
// computes the graph for all candidate integers at once, with each candidate as one element of a tensor.
// The nodes are computed by the reference functions of their ops ([Semantics.Ref]).

// Admitted returns valid candidates for each integer input whose elements are used as indices. A candidate
// is valid if it is within the bounds ([Param.Below]) of all operands that use the input as indices.
// Admitted omits inputs that are not used as indices, and inputs whose valid candidates it cannot
// determine. The graph must be inferred.
//
// An input is followed to its uses through element-wise ops (pointwise ops, copies, conversions) and
// through views, but not through ops that combine two inputs or move elements.
func (g *Graph) Admitted(candidates []int64) map[*Value][]int64 {
	a := admission{candidates: candidates, outcomes: map[*Value]*outcome{}, admitted: map[*Value][]int64{}}
	sources := g.indexSources()
	for _, v := range g.Inputs {
		if sources[v] && v.Meta.DType.IsIntegral(false) && !v.Dynamic {
			a.addInput(v)
		}
	}
	for _, n := range g.Nodes {
		a.dropRejected(n)
		if slices.ContainsFunc(n.Out, func(v *Value) bool { return sources[v] }) {
			a.addNode(n)
		}
	}
	return a.admitted
}

// indexSources returns the values that are used as indices, and all values from which the indices are computed.
func (g *Graph) indexSources() map[*Value]bool {
	sources := map[*Value]bool{}
	for _, n := range slices.Backward(g.Nodes) {
		all := slices.ContainsFunc(n.Out, func(v *Value) bool { return sources[v] })
		for i, a := range n.In {
			if a.Kind == TensorArg && (all || i < len(n.Op.Params) && n.Op.Params[i].Below != nil) {
				sources[a.Value] = true
			}
		}
	}
	return sources
}

// outcome describes a value whose every element is a function of exactly one element of an input.
type outcome struct {
	input   *Value
	results *tensor.Tensor // the function's result for each candidate
	// mapping is the input or view whose positions the value has. If two values have the same mapping, their elements
	// at the same position depend on the same element of the input.
	mapping *Value
}

// admission is the state of [Graph.Admitted].
type admission struct {
	candidates []int64
	outcomes   map[*Value]*outcome
	admitted   map[*Value][]int64
}

// addInput sets the outcome of an input.
func (admission *admission) addInput(v *Value) {
	t := tensor.Zeros(v.Meta.DType, len(admission.candidates))
	for i, c := range admission.candidates {
		t.SetFlat(i, tensor.IntScalar(c))
	}
	admission.outcomes[v] = &outcome{input: v, results: t, mapping: v}
}

// dropRejected removes from admitted the candidates that the node would reject as an index.
func (admission *admission) dropRejected(n *Node) {
	dynamic := func(a Arg) bool { return a.Kind == TensorArg && a.Value.Dynamic }
	if len(n.Refs()) > 0 || slices.ContainsFunc(n.In, dynamic) {
		return
	}
	for i, p := range n.Op.Params {
		if p.Below == nil || i >= len(n.In) || n.In[i].Kind != TensorArg {
			continue
		}
		source := admission.outcomes[n.In[i].Value]
		if source == nil || !source.results.DType.IsIntegral(false) {
			continue
		}
		limit := p.Below(n.Call())
		if limit < 0 {
			continue
		}
		remaining, ok := admission.admitted[source.input]
		if !ok {
			remaining = admission.candidates
		}
		admission.admitted[source.input] = slices.DeleteFunc(slices.Clone(remaining), func(c int64) bool {
			x := source.results.At(slices.Index(admission.candidates, c)).Int()
			return x < 0 || x >= int64(limit)
		})
	}
}

// addNode computes the outcomes of a node's results.
func (admission *admission) addNode(n *Node) {
	if n.Op.Kind == View && !n.Op.ReadsStorage && !n.Op.Identity {
		for _, v := range n.Out {
			if source := admission.outcomeOf(n, 0); source != nil && !v.Dynamic && v.Meta.DType == source.results.DType {
				admission.outcomes[v] = &outcome{source.input, source.results, v}
			}
		}
		return
	}
	source := admission.outcomeOf(n, 0)
	if n.Op.Identity && source != nil && len(n.Out) == 1 && n.Out[0].Meta.DType == source.results.DType {
		admission.outcomes[n.Out[0]] = source
		return
	}
	elementwise := n.Op.Pointwise != nil || n.Op.Identity
	if !elementwise || len(n.Out) != 1 || n.Out[0].Dynamic || n.Op.Ref == nil || len(n.Refs()) > 0 {
		return
	}
	var from *outcome
	operands := make([]*tensor.Tensor, len(n.In))
	for i, a := range n.In {
		switch {
		case a.Kind == NumberArg:
			operands[i] = a.Number.Tensor(a.Number.DType())
		case a.Kind == TensorArg && a.Value.Const != nil && a.Value.Meta.Numel() == 1:
			operands[i] = broadcastable(a.Value.Const)
		case a.Kind == TensorArg:
			source := admission.outcomeOf(n, i)
			if source == nil || from != nil && source.mapping != from.mapping {
				return
			}
			from, operands[i] = source, source.results
		}
	}
	if from == nil {
		return
	}
	admission.apply(n, from, operands)
}

// broadcastable returns a constant of one element in a shape that broadcasts with a list of candidates. The shape has
// one dimension, of size 1, or no dimension if the constant has none.
func broadcastable(t *tensor.Tensor) *tensor.Tensor {
	shape := []int{1}
	if t.Rank() == 0 {
		shape = nil
	}
	out := tensor.Zeros(t.DType, shape...)
	out.SetFlat(0, t.At(make([]int, t.Rank())...))
	return out
}

// apply computes a node for all candidates by the reference of the node's op, and sets the outcome of the
// result.
func (admission *admission) apply(n *Node, from *outcome, in []*tensor.Tensor) {
	call := &Call{Attrs: n.Attrs}
	for i, a := range n.In {
		if a.Kind == TensorArg {
			a.Value = &Value{Name: a.Value.Name, Meta: in[i].Meta}
		}
		call.In = append(call.In, a)
	}
	res, err := n.Op.Infer(call)
	if err != nil || len(res) != 1 || res[0].Dynamic {
		return
	}
	call.Out = []tensor.Meta{res[0].Meta()}
	out := evaluateReference(n.Op, call, in)
	if len(out) != 1 || out[0].DType != n.Out[0].Meta.DType || !slices.Equal(out[0].Shape,
		[]int{len(admission.candidates)}) {
		return
	}
	admission.outcomes[n.Out[0]] = &outcome{from.input, out[0], from.mapping}
}

// evaluateReference computes an op by its reference. It returns nil if the reference rejects the operands or panics:
// candidates may be invalid operands, such as a divisor of 0.
func evaluateReference(op *Op, call *Call, in []*tensor.Tensor) (out []*tensor.Tensor) {
	defer func() {
		if recover() != nil {
			out = nil
		}
	}()
	out, err := op.Ref(call, in)
	if err != nil {
		return nil
	}
	return out
}

// outcomeOf returns the outcome of operand i; nil if there is none.
func (admission *admission) outcomeOf(n *Node, i int) *outcome {
	if i >= len(n.In) || n.In[i].Kind != TensorArg {
		return nil
	}
	return admission.outcomes[n.In[i].Value]
}
