package kernels

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// operand returns i if the operand is given, else -1.
func operand(c *graph.Call, i int) int {
	if c.Has(i) {
		return i
	}
	return -1
}

// operandTypes returns the types of all operands.
func operandTypes(c *graph.Call) []tensor.Type {
	types := make([]tensor.Type, len(c.In))
	for i := range types {
		types[i] = c.Type(i)
	}
	return types
}
