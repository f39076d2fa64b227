// Package quantised has the ops on quantised values: to and from integers, and their products and convolutions.
package quantised

import "github.com/graphrun/graphrun/graph"

// Ops returns the family's ops, file by file.
func Ops() []*graph.Op {
	return []*graph.Op{
		MatmulInteger, QLinearMatmul,
		ConvInteger, QLinearConv,
		QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear,
	}
}
