package kit

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// DelegatedCall returns a call with the results of c, other attributes, and operands of the given types. An op's
// inference passes it to the Infer of the op to which it delegates.
func DelegatedCall(c *graph.Call, attrs any, types ...tensor.Type) *graph.Call {
	in := &graph.Call{Attrs: attrs, Out: c.Out}
	for _, t := range types {
		m, _ := t.Meta()
		in.In = append(in.In, graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Type: t, Meta: m}})
	}
	return in
}

// InferredType returns the type of the result of an op.
func InferredType(op *graph.Op, attrs any, types ...tensor.Type) (tensor.Type, error) {
	res, err := op.Infer(DelegatedCall(&graph.Call{}, attrs, types...))
	if err != nil {
		return tensor.Type{}, err
	}
	return res[0].Type, nil
}
