package operators

import (
	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts operators of ONNX Runtime on weights that are quantized by blocks: each block of block_size
// elements of a row has a scale and a zero point. A byte holds several elements, the first in the lowest bits.

// elementBits returns the attribute bits, the size of an element. It fails unless a byte holds a whole number of
// elements.
func elementBits(n *node) int {
	bits := n.Int("bits", 4)
	if bits != 2 && bits != 4 && bits != 8 {
		n.Failf("elements of %d bits are not supported: want 2, 4 or 8", bits)
	}
	return bits
}

// unpacked converts bytes to the elements that they hold, along the last dimension. It returns the first count
// elements of each row.
func unpacked(n *node, x *value, bits int, count sym.Int) *value {
	if x.DType() != tensor.Uint8 {
		n.Failf("elements of %d bits in %v are not supported: want uint8", bits, x.DType())
	}
	rank := n.Rank(x)
	sizes := append([]sym.Int{}, n.SymShape(x)...)
	if bits < 8 {
		// Element i of a byte is (byte >> i*bits) & (2^bits - 1). Stacking the elements in a new last dimension, and merging
		// it with the last one, puts the elements of a byte side by side.
		var parts []any
		for shift := 0; shift < 8; shift += bits {
			part := x
			if shift > 0 {
				part = n.Op("bitwise_right_shift", nil, part, shift)
			}
			parts = append(parts, n.Op("bitwise_and", nil, part, 1<<bits-1))
		}
		sizes[rank-1] = sizes[rank-1].Mul(sym.Of(8 / bits))
		x = n.ReshapeSym(n.Op("stack", graph.Attrs{"dim": rank}, parts...), sizes...)
	}
	return firstOf(n, x, rank-1, count)
}

// firstOf returns the first count elements of a dimension.
func firstOf(n *node, x *value, dim int, count sym.Int) *value {
	if n.SymShape(x)[dim].Same(count) {
		return x
	}
	return n.Op("slice", graph.Attrs{"dim": dim, "start": 0, "end": n.SizeAttr(count)}, x)
}

// dequantizedBlocks returns (quantized - zero) * scale in the dtype of scale. Blocks are along dimension dim. zero may
// be nil.
func dequantizedBlocks(n *node, quantized, scale, zero *value, dim, block int) *value {
	floats := n.Cast(quantized, scale.DType())
	spread := func(p *value) *value { return repeatedBlocks(n, p, dim, block, n.SymShape(quantized)[dim]) }
	if zero != nil {
		floats = n.Op("sub", nil, floats, spread(n.Cast(zero, scale.DType())))
	}
	return n.Op("mul", nil, floats, spread(scale))
}

// repeatedBlocks expands params, which has an element for each block, to an element for each element of the blocks.
// count is the number of elements of all blocks.
func repeatedBlocks(n *node, params *value, dim, block int, count sym.Int) *value {
	params = n.Op("unsqueeze", graph.Attrs{"dim": dim + 1}, params)
	sizes := append([]sym.Int{}, n.SymShape(params)...)
	sizes[dim+1] = sym.Of(block)
	params = n.Op("expand", graph.Attrs{"size": n.SizesAttr(sizes...)}, params)
	params = n.Op("flatten", graph.Attrs{"start_dim": dim, "end_dim": dim + 1}, params)
	return firstOf(n, params, dim, count)
}

// blockSize returns the attribute block_size (def by default), limited to count, the number of elements of a row.
func blockSize(n *node, def, count int) int {
	block := n.Int("block_size", def)
	if block < 1 {
		n.Failf("block_size %d is not supported: want at least 1", block)
	}
	return min(block, max(count, 1))
}

// matMulNBits converts MatMulNBits: the product of the operand and the transpose of a matrix [N, K] that is quantized
// by blocks. Operands 1 to 3 are the matrix, its scales and its zero points, operand 5 is a bias. The op linear_blocks
// unpacks elements while it multiplies, and supports only zero points that are packed like the elements. With other
// zero points, the matrix is dequantized first.
func matMulNBits(n *node) []*value {
	if n.OperandOrNil(4) != nil {
		n.Failf("g_idx (operand 4) is not supported")
	}
	x, bits, rows, columns := n.Operand(0), elementBits(n), n.Int("N", 0), n.Int("K", 0)
	if rows < 1 || columns < 1 {
		n.Failf("a matrix of shape [%d, %d] is not supported", rows, columns)
	}
	block := blockSize(n, 0, columns)
	count := (columns-1)/block + 1 // blocks of a row
	if n.Operand(1).DType() != tensor.Uint8 {
		n.Failf("elements of %d bits in %v are not supported", bits, n.Operand(1).DType())
	}
	quantized := n.Reshape(n.Operand(1), rows, -1)
	scale := n.Cast(n.Reshape(n.Operand(2), rows, count), tensor.Float32)
	bias, input := n.OperandOrNil(5), n.Cast(x, tensor.Float32)
	if bias != nil {
		bias = n.Cast(bias, tensor.Float32)
	}
	zero := n.OperandOrNil(3)
	var product *value
	if zero == nil || zero.DType() == tensor.Uint8 {
		if zero != nil {
			zero = unpacked(n, n.Reshape(zero, rows, -1), bits, sym.Of(count))
		}
		product = n.Op("linear_blocks", graph.Attrs{"bits": bits, "block_size": block}, input, quantized,
			scale, zero, bias)
	} else {
		weight := dequantizedBlocks(n, unpacked(n, quantized, bits, sym.Of(columns)), scale,
			n.Reshape(zero, rows, count), 1, block)
		product = n.Op("linear", nil, input, weight, bias)
	}
	return one(n.Cast(product, x.DType()))
}

// gatherBlockQuantized converts GatherBlockQuantized, which selects slices along gather_axis of a tensor that is
// quantized by blocks along quantize_axis, and dequantizes them. Bytes hold several elements of 2 or 4 bits, unless the
// elements have a type of four bits. Packed elements without zero points have the zero point 2^(bits-1).
func gatherBlockQuantized(n *node) []*value {
	quantized, index, scale, zero := n.Operand(0), n.Operand(1), n.Operand(2), n.OperandOrNil(3)
	rank := n.Rank(quantized)
	axis, dim := n.Axis(n.Int("gather_axis", 0), rank), n.Axis(n.Int("quantize_axis", 1), rank)
	if axis == dim || n.Rank(scale) != rank || zero != nil && n.Rank(zero) != rank {
		n.Failf("gather_axis must differ from quantize_axis, and scales and zero points must have %d dimensions", rank)
	}
	isPacked := quantized.ElementType() == pb.Undefined && quantized.DType() == tensor.Uint8
	bits, count := elementBits(n), n.KnownNumbers("a quantized dimension", n.SymShape(quantized)[dim:dim+1])[0]
	if isPacked {
		count *= 8 / bits
	}
	block := blockSize(n, 128, count)
	pick := func(x *value) *value { return n.ONNXOp("Gather", convert.IntAttribute("axis", axis), x, index) }
	blocks := n.SymShape(scale)[dim]
	quantized, scale = pick(quantized), pick(scale)
	if zero != nil {
		zero = pick(zero)
	}
	if isPacked {
		if dim != rank-1 {
			n.Failf("bytes with several elements along dimension %d are not supported", dim)
		}
		quantized = unpacked(n, quantized, bits, sym.Of(count))
		if zero != nil {
			zero = unpacked(n, zero, bits, blocks)
		} else {
			zero = n.Op("full_like", graph.Attrs{"fill_value": 1 << (bits - 1)}, scale)
		}
	}
	if axis < dim {
		dim += n.Rank(index) - 1 // the index's dimensions have replaced the gathered one
	}
	return one(dequantizedBlocks(n, quantized, scale, zero, dim, block))
}
