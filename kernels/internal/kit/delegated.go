package kit

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// DelegatedCall returns a call with the results of c, the attributes attrs, and operands of the given types. An op
// whose inference delegates to a second op passes this call to the Infer of the second op.
func DelegatedCall(c *graph.Call, attrs any, types ...tensor.Type) *graph.Call {
	delegated := &graph.Call{Attrs: attrs, Out: c.Out}
	for _, operandType := range types {
		meta, _ := operandType.Meta()
		value := &graph.Value{Type: operandType, Meta: meta}
		delegated.In = append(delegated.In, graph.Arg{Kind: graph.TensorArg, Value: value})
	}
	return delegated
}

// InferredType infers an op for operands of the given types and returns the type of the first result.
func InferredType(op *graph.Op, attrs any, types ...tensor.Type) (tensor.Type, error) {
	results, err := op.Infer(DelegatedCall(&graph.Call{}, attrs, types...))
	if err != nil {
		return tensor.Type{}, err
	}
	return results[0].Type, nil
}
