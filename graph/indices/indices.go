// Package indices finds the integers that are valid indices in a graph, so that input data can be generated.
//
// It computes the graph for all candidate integers at once: each candidate is one element of a tensor. The reference
// functions of ops ([graph.Semantics.Ref]) compute the nodes.
package indices

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Valid returns the valid candidates for each integer input whose elements are used as indices. A candidate is valid if
// it is within the bounds ([graph.Param.IndexBound]) of all operands that use the input as indices. Valid omits inputs
// that are not used as indices, and inputs whose valid candidates it cannot determine. The graph must be inferred.
//
// Valid follows an input to its uses through element-wise ops (pointwise ops, copies, conversions) and through views.
// It does not follow ops that combine two inputs or move elements. For example, let x be an input, and let a table of 3
// rows be read at the indices x - 1:
//
//	candidates       0  1  2  3  4
//	x - 1           -1  0  1  2  3
//	valid for x         1  2  3
func Valid(g *graph.Graph, candidates []int64) map[*graph.Value][]int64 {
	if g == nil {
		return nil
	}
	s := search{candidates: candidates, dependences: map[*graph.Value]*inputDependence{},
		valid: map[*graph.Value][]int64{}}
	sources := indexSources(g)
	for _, v := range g.Inputs {
		if sources[v] && v.Meta.DType.IsIntegral(withBool) && !v.Dynamic {
			s.addInput(v)
		}
	}
	for _, n := range g.Nodes {
		s.dropRejected(n)
		if slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return sources[v] }) {
			s.addNode(n)
		}
	}
	return s.valid
}

// withBool is the argument of [tensor.DType.IsIntegral]: bools are not indices.
const withBool = false

// indexSources returns the values that are used as indices, and all values from which the indices are computed.
func indexSources(g *graph.Graph) map[*graph.Value]bool {
	sources := map[*graph.Value]bool{}
	for _, n := range slices.Backward(g.Nodes) {
		// If a result is a source, all operands are sources.
		hasSource := slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return sources[v] })
		for i, arg := range n.In {
			isIndex := i < len(n.Op.Params) && n.Op.Params[i].IndexBound != nil
			if arg.Kind == graph.TensorArg && (hasSource || isIndex) {
				sources[arg.Value] = true
			}
		}
	}
	return sources
}

// search is the state of [Valid].
type search struct {
	candidates  []int64
	dependences map[*graph.Value]*inputDependence
	valid       map[*graph.Value][]int64
}

// inputDependence describes a value whose every element is a function of exactly one element of an input.
type inputDependence struct {
	input   *graph.Value
	numbers *tensor.Tensor // the function's result for each candidate
	// origin is the last view between the input and the value, or the input if there is no view. If two values have the
	// same origin, their elements at equal positions depend on the same element of the input.
	origin *graph.Value
}

// addInput sets the dependence of an input on itself.
func (s *search) addInput(v *graph.Value) {
	t := tensor.Zeros(v.Meta.DType, len(s.candidates))
	for i, candidate := range s.candidates {
		t.SetFlat(i, tensor.IntScalar(candidate))
	}
	s.dependences[v] = &inputDependence{input: v, numbers: t, origin: v}
}

// dropRejected removes from valid the candidates that the node would reject as an index. It ignores nodes whose bounds
// may depend on data.
func (s *search) dropRejected(n *graph.Node) {
	isDynamic := func(arg graph.Arg) bool { return arg.Kind == graph.TensorArg && arg.Value.Dynamic }
	if len(n.AttrRefs()) > 0 || slices.ContainsFunc(n.In, isDynamic) {
		return
	}
	for i, param := range n.Op.Params {
		if param.IndexBound == nil || i >= len(n.In) || n.In[i].Kind != graph.TensorArg {
			continue
		}
		dependence := s.dependences[n.In[i].Value]
		if dependence == nil || !dependence.numbers.DType.IsIntegral(withBool) {
			continue
		}
		limit := param.IndexBound(n.Call())
		if limit < 0 { // no bound
			continue
		}
		remaining, ok := s.valid[dependence.input]
		if !ok {
			remaining = s.candidates
		}
		s.valid[dependence.input] = slices.DeleteFunc(slices.Clone(remaining), func(candidate int64) bool {
			index := dependence.numbers.At(slices.Index(s.candidates, candidate)).Int()
			return index < 0 || index >= int64(limit)
		})
	}
}

// addNode computes the dependences of a node's results. A view has the operand's numbers at other positions, and a copy
// has them at the same positions. For other element-wise nodes, addNode computes the numbers.
func (s *search) addNode(n *graph.Node) {
	if n.Op.Kind == graph.View && !n.Op.ReadsStorage && !n.Op.Identity {
		for _, v := range n.Out {
			if operand := s.dependenceOf(n, 0); operand != nil && !v.Dynamic && v.Meta.DType == operand.numbers.DType {
				s.dependences[v] = &inputDependence{operand.input, operand.numbers, v}
			}
		}
		return
	}
	operand := s.dependenceOf(n, 0)
	if n.Op.Identity && operand != nil && len(n.Out) == 1 && n.Out[0].Meta.DType == operand.numbers.DType {
		s.dependences[n.Out[0]] = operand
		return
	}
	isElementwise := n.Op.Pointwise != nil || n.Op.Identity
	if !isElementwise || n.Op.Ref == nil || len(n.AttrRefs()) > 0 {
		return
	}
	if len(n.Out) != 1 || n.Out[0].Dynamic {
		return
	}
	if common, operands := s.operandsOf(n); common != nil {
		s.apply(n, common, operands)
	}
}

// dependenceOf returns the dependence of operand i; nil if there is none.
func (s *search) dependenceOf(n *graph.Node, i int) *inputDependence {
	if i >= len(n.In) || n.In[i].Kind != graph.TensorArg {
		return nil
	}
	return s.dependences[n.In[i].Value]
}

// operandsOf returns the operands of an element-wise node as tensors with an element for each candidate. An operand
// must be a plain number, a constant of one element, or a value with a dependence. All dependences must have the same
// origin; operandsOf returns one of them. It returns a nil dependence if the node has other operands, or only plain
// numbers and constants.
func (s *search) operandsOf(n *graph.Node) (common *inputDependence, operands []*tensor.Tensor) {
	operands = make([]*tensor.Tensor, len(n.In))
	for i, arg := range n.In {
		switch {
		case arg.Kind == graph.NumberArg:
			operands[i] = arg.Number.Tensor(arg.Number.DType())
		case arg.Kind == graph.TensorArg && arg.Value.Const != nil && arg.Value.Meta.Numel() == 1:
			operands[i] = broadcastable(arg.Value.Const)
		case arg.Kind == graph.TensorArg:
			dependence := s.dependenceOf(n, i)
			if dependence == nil || common != nil && dependence.origin != common.origin {
				return nil, nil
			}
			common, operands[i] = dependence, dependence.numbers
		}
	}
	return common, operands
}

// broadcastable returns a constant of one element in a shape that broadcasts with a list of candidates. The shape is
// [1], or [] if the constant has no dimensions.
func broadcastable(t *tensor.Tensor) *tensor.Tensor {
	shape := []int{1}
	if t.Rank() == 0 {
		shape = nil
	}
	out := tensor.Zeros(t.DType, shape...)
	out.SetFlat(0, t.At(make([]int, t.Rank())...))
	return out
}

// apply computes a node for all candidates by the reference of the node's op, and sets the dependence of the result.
func (s *search) apply(n *graph.Node, common *inputDependence, in []*tensor.Tensor) {
	call := &graph.Call{Attrs: n.Attrs}
	for i, arg := range n.In {
		if arg.Kind == graph.TensorArg {
			arg.Value = &graph.Value{Name: arg.Value.Name, Meta: in[i].Meta}
		}
		call.In = append(call.In, arg)
	}
	results, err := n.Op.Infer(call)
	if err != nil || len(results) != 1 || results[0].Dynamic {
		return
	}
	call.Out = []tensor.Meta{results[0].Meta()}
	out := evaluateReference(n.Op, call, in)
	if len(out) != 1 || out[0].DType != n.Out[0].Meta.DType {
		return
	}
	if hasAllCandidates := slices.Equal(out[0].Shape, []int{len(s.candidates)}); !hasAllCandidates {
		return
	}
	s.dependences[n.Out[0]] = &inputDependence{common.input, out[0], common.origin}
}

// evaluateReference computes an op by its reference. It returns nil if the reference rejects the operands or panics:
// candidates may be invalid operands, such as a divisor of 0.
func evaluateReference(op *graph.Op, call *graph.Call, in []*tensor.Tensor) (out []*tensor.Tensor) {
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
