package conform

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Catalogue returns the distinct expressions of ops for their examples, with the dtypes of the examples and with each
// of the given dtypes. A given dtype replaces the dtype of the example's first operand, also in the other operands
// that have the first operand's dtype. Expressions that devices cannot compute are skipped.
func Catalogue(ops []*graph.Op, dtypes ...tensor.DType) []Code {
	var list []Code
	listed := map[string]bool{}
	for _, op := range ops {
		if op.Expression == nil {
			continue
		}
		for _, example := range op.Examples {
			for _, replacement := range append(slices.Clone(dtypes), tensor.Invalid) {
				code, ok := expressionOf(op, example, replacement)
				if ok && !listed[code.Key()] {
					listed[code.Key()] = true
					list = append(list, code)
				}
			}
		}
	}
	return list
}

// expressionOf returns the expression of an op for an example in which `replacement` replaces dtypes (see [Catalogue]).
// A replacement of Invalid keeps the dtypes of the example. ok is false if the op rejects the operands, or if it has no
// expression that devices can compute.
func expressionOf(op *graph.Op, example graph.Example, replacement tensor.DType) (named Code, ok bool) {
	call, err := exampleCall(op, example, replacement)
	if err != nil {
		return named, false
	}
	if _, err = op.Infer(call); err != nil {
		return named, false
	}
	code, err := op.Expression(call)
	if err != nil || code == nil || !code.Compilable() || code.Reduces() {
		return named, false
	}
	return Code{fmt.Sprintf("%s %v of %v", op.Name, example.Attrs, call.Type(0).DType), code}, true
}

// exampleCall returns the call of an example. replacement is the argument of expressionOf.
func exampleCall(op *graph.Op, example graph.Example, replacement tensor.DType) (*graph.Call, error) {
	decoded, err := op.Schema.Decode(example.Attrs, nil)
	if err != nil {
		return nil, err
	}
	call := &graph.Call{Attrs: decoded}
	for i, meta := range example.In {
		if meta.DType == tensor.Invalid { // an optional operand that is absent
			call.In = append(call.In, graph.Arg{})
			continue
		}
		if replacement != tensor.Invalid && meta.DType == example.In[0].DType {
			meta.DType = replacement
		}
		value := &graph.Value{Name: fmt.Sprint("x", i), Meta: meta}
		call.In = append(call.In, graph.Arg{Kind: graph.TensorArg, Value: value})
	}
	return call, nil
}
