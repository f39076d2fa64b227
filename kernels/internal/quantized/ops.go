// Package quantized has the ops on quantized values: conversions to and from integers, their products and convolutions;
// and the rewrites of networks that dequantize, compute in floats and quantize again.
package quantized

import "github.com/graphrun/graphrun/graph"

// Ops returns the family's ops, file by file.
func Ops() []*graph.Op {
	return []*graph.Op{
		MatmulInteger, QLinearMatmul,
		ConvInteger, QLinearConv,
		QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear,
	}
}
