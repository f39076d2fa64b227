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
		for _, ex := range op.Examples {
			for _, d := range append(slices.Clone(dtypes), tensor.Invalid) {
				c, ok := expressionOf(op, ex, d)
				if ok && !seen[c.Key()] {
					seen[c.Key()] = true
					list = append(list, c)
				}
			}
		}
	}
	return list
}

// expressionOf returns the expression of an op for an example with dtype d; Invalid keeps the dtypes of the example. ok
// is false if the op rejects the dtype, or if it has no expression that devices can compute.
func expressionOf(op *graph.Op, ex graph.Example, d tensor.DType) (c Code, ok bool) {
	decoded, err := op.Schema.Decode(ex.Attrs, nil)
	if err != nil {
		return c, false
	}
	call := &graph.Call{Attrs: decoded}
	for i, m := range ex.In {
		if m.DType == tensor.Invalid {
			call.In = append(call.In, graph.Arg{})
			continue
		}
		if d != tensor.Invalid && m.DType == ex.In[0].DType {
			m.DType = d
		}
		v := &graph.Value{Name: fmt.Sprint("x", i), Meta: m}
		call.In = append(call.In, graph.Arg{Kind: graph.TensorArg, Value: v})
	}
	if _, err = op.Infer(call); err != nil {
		return c, false
	}
	code, err := op.Expression(call)
	if err != nil || code == nil || !code.Compilable() || code.Reduces() {
		return c, false
	}
	return Code{fmt.Sprintf("%s %v of %v", op.Name, ex.Attrs, call.Type(0).DType), code}, true
}
