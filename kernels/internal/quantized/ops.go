// Package quantized has the ops on quantized values: conversions to and from integers, products and convolutions. It
// also rewrites networks that dequantize values, compute in floats and quantize the results.
//
// A quantized value is an integer q that stands for the number (q - zero point) * scale. In the comments of this
// package, "bytes" are quantized values of dtype int8 or uint8, and "numbers" are the floats for which quantized values
// stand. A weight is the constant factor of a product or convolution.
package quantized

import "github.com/graphrun/graphrun/graph"

// Ops returns the ops of this package.
func Ops() []*graph.Op {
	return []*graph.Op{
		MatmulInteger, QLinearMatmul,
		ConvInteger, QLinearConv,
		QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear,
	}
}
