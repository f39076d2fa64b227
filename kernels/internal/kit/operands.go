package kit

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Operand returns i if the operand is given, else -1.
func Operand(c *graph.Call, i int) int {
	if c.Has(i) {
		return i
	}
	return -1
}

// OperandTypes returns the types of all operands.
func OperandTypes(c *graph.Call) []tensor.Type {
	types := make([]tensor.Type, len(c.In))
	for i := range types {
		types[i] = c.Type(i)
	}
	return types
}
