package kit

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// OperandTypes appends the types of all operands of a call to a list, which may be nil.
func OperandTypes(list []tensor.Type, c *graph.Call) []tensor.Type {
	list = slices.Grow(list, len(c.In))
	for i := range c.In {
		list = append(list, c.Type(i))
	}
	return list
}
