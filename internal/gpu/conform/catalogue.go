package conform

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Catalogue returns the distinct expressions of ops for their examples, once with the dtypes of the examples and once
// for each of the given dtypes. A given dtype replaces the dtype of the first operand, and of all operands that have
// the same dtype.
func Catalogue(ops []*graph.Op, dtypes ...tensor.DType) []Code {
	var list []Code
	seen := map[string]bool{}
	for _, op := range ops {
		if op.Expression == nil {
			continue
		}
		for _, example := range op.Examples {
			for _, dtype := range append(slices.Clone(dtypes), tensor.Invalid) {
				code, ok := expressionOf(op, example, dtype)
				if ok && !seen[code.Key()] {
					seen[code.Key()] = true
					list = append(list, code)
				}
			}
		}
	}
	return list
}

// expressionOf returns the expression of an op for an example with another dtype; Invalid keeps the
// dtypes of the example. ok is false if the op rejects the dtype, or if it has no expression that devices can compute.
func expressionOf(op *graph.Op, example graph.Example, dtype tensor.DType) (c Code, ok bool) {
	decoded, err := op.Schema.Decode(example.Attrs, nil)
	if err != nil {
		return c, false
	}
	call := &graph.Call{Attrs: decoded}
	for i, meta := range example.In {
		if meta.DType == tensor.Invalid {
			call.In = append(call.In, graph.Arg{})
			continue
		}
		if dtype != tensor.Invalid && meta.DType == example.In[0].DType {
			meta.DType = dtype
		}
		value := &graph.Value{Name: fmt.Sprint("x", i), Meta: meta}
		call.In = append(call.In, graph.Arg{Kind: graph.TensorArg, Value: value})
	}
	if _, err = op.Infer(call); err != nil {
		return c, false
	}
	code, err := op.Expression(call)
	if err != nil || code == nil || !code.Compilable() || code.Reduces() {
		return c, false
	}
	return Code{fmt.Sprintf("%s %v of %v", op.Name, example.Attrs, call.Type(0).DType), code}, true
}
