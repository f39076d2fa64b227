package conform

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Catalogue returns the distinct expressions that the ops have for their examples. Operands with the dtype of an
// example's first operand get each of the dtypes, or keep their own if there is none.
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

// expressionOf returns the expression of an example. ok is false if the op rejects the dtype or has no expression that
// a device computes.
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
