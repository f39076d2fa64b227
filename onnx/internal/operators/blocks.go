package operators

import (
	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts operators of ONNX Runtime on weights that are quantized by blocks. Each block of block_size
// elements of a row has a scale and a zero point. A byte holds 8/bits elements, with the first element in the lowest
// bits. For example, a row of 64 elements of 4 bits with block_size 32 has 32 bytes, two scales and two zero points.
// Element 33 is in the high bits of byte 16. It stands for (element - zero point 1) * scale 1.
//
// A value is a tensor of the model, and node.Op adds an op to the graph. A sym.Int is a size: a number, or an
// expression over symbols.

// matMulNBits converts MatMulNBits, which multiplies operand 0 by the transpose of a matrix [N, K] that is quantized by
// blocks. Operands 1 to 3 are the matrix, its scales and its zero points. Operand 5 is a bias. The op linear_blocks
// unpacks elements while it multiplies. It supports only zero points that are packed like the elements. With other zero
// points, the matrix is dequantized first.
func matMulNBits(n *node) []*value {
	if n.OperandOrNil(4) != nil {
		n.Failf("g_idx (operand 4) is not supported")
	}
	x, bits, rows, columns := n.Operand(0), elementBits(n), n.Int("N", 0), n.Int("K", 0)
	if rows < 1 || columns < 1 {
		n.Failf("a matrix of shape [%d, %d] is not supported: want attributes N and K of at least 1", rows, columns)
	}
	if sizes := n.TrySymShape(x); len(sizes) > 0 {
		if last, ok := sizes[len(sizes)-1].Known(); ok && last != columns {
			n.Failf("operand 0 has %d columns, want K = %d", last, columns)
		}
	}
	blockSize := readBlockSize(n, 0, columns) // 0: the attribute is required
	blocksPerRow := (columns-1)/blockSize + 1 // columns/blockSize, rounded up
	if n.Operand(1).DType() != tensor.Uint8 {
		n.Failf("elements of %d bits in %v are not supported", bits, n.Operand(1).DType())
	}
	quantized := n.Reshape(n.Operand(1), rows, -1)
	scale := n.Cast(n.Reshape(n.Operand(2), rows, blocksPerRow), tensor.Float32)
	input, bias := n.Cast(x, tensor.Float32), n.OperandOrNil(5)
	if bias != nil {
		bias = n.Cast(bias, tensor.Float32)
	}
	zero := n.OperandOrNil(3)
	var product *value
	if zero == nil || zero.DType() == tensor.Uint8 {
		if zero != nil {
			zero = unpackBytes(n, n.Reshape(zero, rows, -1), bits, sym.Of(blocksPerRow))
		}
		product = n.Op("linear_blocks", graph.Attrs{"bits": bits, "block_size": blockSize}, input, quantized,
			scale, zero, bias)
	} else {
		const dim = 1 // blocks are parts of rows
		weight := dequantizedBlocks(n, unpackBytes(n, quantized, bits, sym.Of(columns)), scale,
			n.Reshape(zero, rows, blocksPerRow), dim, blockSize)
		product = n.Op("linear", nil, input, weight, bias)
	}
	return single(n.Cast(product, x.DType()))
}

// gatherBlockQuantized converts GatherBlockQuantized. The operand is a tensor that is quantized by blocks along
// quantize_axis. The operator selects slices along gather_axis and dequantizes the slices. A byte of type uint8 holds
// 8/bits elements, whose default zero point is 2^(bits-1). If the ONNX type is int4 or uint4, a byte of the imported
// tensor holds one element, and the default zero point is 0.
func gatherBlockQuantized(n *node) []*value {
	quantized, index, scale, zero := n.Operand(0), n.Operand(1), n.Operand(2), n.OperandOrNil(3)
	rank := n.Rank(quantized)
	gatherAxis, blockAxis := n.Axis(n.Int("gather_axis", 0), rank), n.Axis(n.Int("quantize_axis", 1), rank)
	if gatherAxis == blockAxis || n.Rank(scale) != rank || zero != nil && n.Rank(zero) != rank {
		n.Failf("gather_axis must differ from quantize_axis, and scales and zero points must have %d dimensions", rank)
	}
	isPacked := quantized.ElementType() == pb.Undefined && quantized.DType() == tensor.Uint8
	bits, count := elementBits(n), n.KnownNumbers("a quantized dimension", n.SymShape(quantized)[blockAxis:blockAxis+1])[0]
	if isPacked {
		count *= 8 / bits
	}
	const defaultBlockSize = 128
	blockSize, blockCount := readBlockSize(n, defaultBlockSize, count), n.SymShape(scale)[blockAxis]
	gatherSlices := func(x *value) *value { return n.ONNXOp("Gather", convert.IntAttribute("axis", gatherAxis), x, index) }
	quantized, scale = gatherSlices(quantized), gatherSlices(scale)
	if zero != nil {
		zero = gatherSlices(zero)
	}
	if isPacked {
		if blockAxis != rank-1 {
			n.Failf("bytes with several elements along dimension %d are not supported", blockAxis)
		}
		quantized = unpackBytes(n, quantized, bits, sym.Of(count))
		if zero != nil {
			zero = unpackBytes(n, zero, bits, blockCount)
		} else {
			zero = n.Op("full_like", graph.Attrs{"fill_value": 1 << (bits - 1)}, scale)
		}
	}
	if gatherAxis < blockAxis {
		blockAxis += n.Rank(index) - 1 // the dimensions of the index have replaced the gathered dimension
	}
	return single(dequantizedBlocks(n, quantized, scale, zero, blockAxis, blockSize))
}

// elementBits returns the attribute bits, the size of an element. It fails if a byte does not hold a whole number of
// elements.
func elementBits(n *node) int {
	bits := n.Int("bits", 4)
	if bits != 2 && bits != 4 && bits != 8 {
		n.Failf("elements of %d bits are not supported: want 2, 4 or 8", bits)
	}
	return bits
}

// unpackBytes splits the bytes along the last dimension into elements of the given number of bits. It returns the first
// count elements of each row, because the last byte of a row may have unused bits.
func unpackBytes(n *node, x *value, bits int, count sym.Int) *value {
	if x.DType() != tensor.Uint8 {
		n.Failf("elements of %d bits in %v are not supported: want uint8", bits, x.DType())
	}
	rank := n.Rank(x)
	sizes := append([]sym.Int{}, n.SymShape(x)...)
	if bits < 8 {
		// Element i of a byte is (byte >> i*bits) & (2^bits - 1). The elements are stacked in a new dimension after the
		// dimension of bytes. Merging the two dimensions makes the elements of a byte adjacent.
		var elements []any
		for shift := 0; shift < 8; shift += bits {
			shifted := x
			if shift > 0 {
				shifted = n.Op("bitwise_right_shift", nil, x, shift)
			}
			elements = append(elements, n.Op("bitwise_and", nil, shifted, 1<<bits-1))
		}
		sizes[rank-1] = sizes[rank-1].Mul(sym.Of(8 / bits))
		x = n.ReshapeSym(n.Op("stack", graph.Attrs{"dim": rank}, elements...), sizes...)
	}
	return firstElements(n, x, rank-1, count)
}

// firstElements returns the first count elements of x along dimension dim.
func firstElements(n *node, x *value, dim int, count sym.Int) *value {
	if n.SymShape(x)[dim].Same(count) {
		return x
	}
	return n.Op("slice", graph.Attrs{"dim": dim, "start": 0, "end": n.SizeAttr(count)}, x)
}

// dequantizedBlocks returns (quantized - zero) * scale in the dtype of scale. A block is blockSize elements along
// dimension dim. scale and zero have one element for each block. zero may be nil.
func dequantizedBlocks(n *node, quantized, scale, zero *value, dim, blockSize int) *value {
	floats := n.Cast(quantized, scale.DType())
	perElement := func(params *value) *value {
		return repeatedBlocks(n, params, dim, blockSize, n.SymShape(quantized)[dim])
	}
	if zero != nil {
		floats = n.Op("sub", nil, floats, perElement(n.Cast(zero, scale.DType())))
	}
	return n.Op("mul", nil, floats, perElement(scale))
}

// repeatedBlocks repeats each element of params, which has one element for each block, blockSize times along dimension
// dim. It returns the first count elements, because the last block may be incomplete.
func repeatedBlocks(n *node, params *value, dim, blockSize int, count sym.Int) *value {
	params = n.Op("unsqueeze", graph.Attrs{"dim": dim + 1}, params)
	sizes := append([]sym.Int{}, n.SymShape(params)...)
	sizes[dim+1] = sym.Of(blockSize)
	params = n.Op("expand", graph.Attrs{"size": n.SizesAttr(sizes...)}, params)
	params = n.Op("flatten", graph.Attrs{"start_dim": dim, "end_dim": dim + 1}, params)
	return firstElements(n, params, dim, count)
}

// readBlockSize returns the attribute block_size, or defaultSize if the attribute is omitted. The result is at most
// count, the number of elements of a row.
func readBlockSize(n *node, defaultSize, count int) int {
	blockSize := n.Int("block_size", defaultSize)
	if blockSize < 1 {
		n.Failf("block_size %d is not supported: want at least 1", blockSize)
	}
	return min(blockSize, max(count, 1))
}
