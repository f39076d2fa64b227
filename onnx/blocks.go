package onnx

import (
	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts operators of ONNX Runtime on weights that are quantized by blocks: each block of block_size
// elements of a row has a scale and a zero point. A byte holds several elements, the first in the lowest bits.

// elementBits returns the attribute bits, the size of an element. It fails unless a byte holds a whole number of
// elements.
func (n *node) elementBits() int {
	bits := n.int("bits", 4)
	if bits != 2 && bits != 4 && bits != 8 {
		n.failf("elements of %d bits are not supported", bits)
	}
	return bits
}

// unpacked converts bytes to the elements that they hold, along the last dimension. It returns the first count
// elements of each row.
func (n *node) unpacked(x *val, bits int, count sym.Int) *val {
	if x.dtype() != tensor.Uint8 {
		n.failf("elements of %d bits in %v are not supported", bits, x.dtype())
	}
	rank := n.rank(x)
	sizes := append([]sym.Int{}, n.symShape(x)...)
	if bits < 8 {
		var parts []any
		for shift := 0; shift < 8; shift += bits {
			part := x
			if shift > 0 {
				part = n.op("bitwise_right_shift", nil, part, shift)
			}
			parts = append(parts, n.op("bitwise_and", nil, part, 1<<bits-1))
		}
		sizes[rank-1] = sizes[rank-1].Mul(sym.Of(8 / bits))
		x = n.reshapeFor(n.op("stack", graph.Attrs{"dim": rank}, parts...), sizes...)
	}
	return n.firstOf(x, rank-1, count)
}

// firstOf returns the first count elements of a dimension.
func (n *node) firstOf(x *val, dim int, count sym.Int) *val {
	if n.symShape(x)[dim].Same(count) {
		return x
	}
	return n.op("slice", graph.Attrs{"dim": dim, "start": 0, "end": n.sizeAttrOf(count)}, x)
}

// dequantizedBlocks returns (quantized - zero) * scale in the dtype of scale. Blocks are along dimension dim. zero may
// be nil.
func (n *node) dequantizedBlocks(quantized, scale, zero *val, dim, block int) *val {
	floats := n.cast(quantized, scale.dtype())
	spread := func(p *val) *val { return n.repeatedBlocks(p, dim, block, n.symShape(quantized)[dim]) }
	if zero != nil {
		floats = n.op("sub", nil, floats, spread(n.cast(zero, scale.dtype())))
	}
	return n.op("mul", nil, floats, spread(scale))
}

// repeatedBlocks expands params, which has an element for each block, to an element for each element of the blocks.
// count is the number of elements of all blocks.
func (n *node) repeatedBlocks(params *val, dim, block int, count sym.Int) *val {
	params = n.op("unsqueeze", graph.Attrs{"dim": dim + 1}, params)
	sizes := append([]sym.Int{}, n.symShape(params)...)
	sizes[dim+1] = sym.Of(block)
	params = n.op("expand", graph.Attrs{"size": n.sizeAttr(sizes...)}, params)
	params = n.op("flatten", graph.Attrs{"start_dim": dim, "end_dim": dim + 1}, params)
	return n.firstOf(params, dim, count)
}

// blockSize returns the attribute block_size, limited to count, the number of elements of a row.
func (n *node) blockSize(def, count int) int {
	block := n.int("block_size", def)
	if block < 1 {
		n.failf("block_size %d is not supported", block)
	}
	return min(block, max(count, 1))
}

// matMulNBits converts MatMulNBits: the product of the operand and the transpose of a matrix that is quantized by
// blocks. Operand 5 is a bias.
func matMulNBits(n *node) []*val {
	if n.operandOrNil(4) != nil {
		n.failf("g_idx (operand 4) is not supported")
	}
	x, bits, rows, columns := n.operand(0), n.elementBits(), n.int("N", 0), n.int("K", 0)
	if rows < 1 || columns < 1 {
		n.failf("a matrix of shape [%d, %d] is not supported", rows, columns)
	}
	block := n.blockSize(0, columns)
	count := (columns-1)/block + 1
	if n.operand(1).dtype() != tensor.Uint8 {
		n.failf("elements of %d bits in %v are not supported", bits, n.operand(1).dtype())
	}
	quantized := n.reshape(n.operand(1), rows, -1)
	scale := n.cast(n.reshape(n.operand(2), rows, count), tensor.Float32)
	bias, input := n.operandOrNil(5), n.cast(x, tensor.Float32)
	if bias != nil {
		bias = n.cast(bias, tensor.Float32)
	}
	zero := n.operandOrNil(3)
	var product *val
	if zero == nil || zero.dtype() == tensor.Uint8 {
		if zero != nil {
			zero = n.unpacked(n.reshape(zero, rows, -1), bits, sym.Of(count))
		}
		product = n.op("linear_blocks", graph.Attrs{"bits": bits, "block_size": block}, input, quantized,
			scale, zero, bias)
	} else {
		w := n.dequantizedBlocks(n.unpacked(quantized, bits, sym.Of(columns)), scale,
			n.reshape(zero, rows, count), 1, block)
		product = n.op("linear", nil, input, w, bias)
	}
	return one(n.cast(product, x.dtype()))
}

// gatherBlockQuantized converts GatherBlockQuantized, which selects slices of a tensor that is quantized by blocks.
func gatherBlockQuantized(n *node) []*val {
	quantized, index, scale, zero := n.operand(0), n.operand(1), n.operand(2), n.operandOrNil(3)
	rank := n.rank(quantized)
	axis, dim := n.axis(n.int("gather_axis", 0), rank), n.axis(n.int("quantize_axis", 1), rank)
	if axis == dim || n.rank(scale) != rank || zero != nil && n.rank(zero) != rank {
		n.failf("gather_axis must differ from quantize_axis, and scales and zero points must have %d dimensions", rank)
	}
	isPacked := quantized.narrow == pb.Undefined && quantized.dtype() == tensor.Uint8
	bits, count := n.elementBits(), n.numbers("a quantized dimension", n.symShape(quantized)[dim:dim+1])[0]
	if isPacked {
		count *= 8 / bits
	}
	block := n.blockSize(128, count)
	pick := func(x *val) *val { return n.onnxOp("Gather", intAttr("axis", axis), x, index) }
	blocks := n.symShape(scale)[dim]
	quantized, scale = pick(quantized), pick(scale)
	if zero != nil {
		zero = pick(zero)
	}
	if isPacked {
		if dim != rank-1 {
			n.failf("bytes with several elements along dimension %d are not supported", dim)
		}
		quantized = n.unpacked(quantized, bits, sym.Of(count))
		if zero != nil {
			zero = n.unpacked(zero, bits, blocks)
		} else {
			zero = n.op("full_like", graph.Attrs{"fill_value": 1 << (bits - 1)}, scale)
		}
	}
	if axis < dim {
		dim += n.rank(index) - 1
	}
	return one(n.dequantizedBlocks(quantized, scale, zero, dim, block))
}
