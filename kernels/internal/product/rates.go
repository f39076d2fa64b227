package product

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// Rates lists the rates of matrix products. A rate is the time of one unit of work. The cost of a call is the sum of
// (number of units x rate) over its kinds of work. To measure a rate, package calibrate runs the calls that are listed
// here for this rate. It computes the rate that predicts their times best, given all other rates. Therefore these calls
// must spend a large part of their time on units of this rate. For example, RateStartStep is measured with products of
// one row, because starting the step is most of their time.
//
// A product multiplies an M x K by a K x N matrix. Register tiles compute a few rows and columns of the result in
// registers, for one block of the depth K at a time. They read packed panels, in which the elements of a tile's rows or
// columns (its lanes) are adjacent.
func Rates() []graph.Rate {
	const f32 = tensor.Float32
	const constB = 1 // the operand that is constant: the right matrix
	// rowProduct returns a product of a single row by a constant k x n matrix.
	rowProduct := func(k, n int) graph.RateCall { return mmCall("tiled", f32, 1, k, n, constB) }
	columnMajor := kit.F32(256, 128)
	columnMajor.Strides = []int{1, 256}
	matrixAddend := graph.RateCall{Op: "addmm", In: []tensor.Meta{kit.F32(256, 256), kit.F32(256, 64), kit.F32(64, 256)},
		Constant: []int{2}, Impl: "tiled"}
	heads := kit.F32(1, 8, 64, 32) // query, key or value of an attention
	return append(levelRates(), []graph.Rate{
		{Name: graph.Flop, Unit: "an arithmetic operation, for ops that state their cost only as a number of operations",
			Calls: []graph.RateCall{{Op: "scaled_dot_product_attention", In: []tensor.Meta{heads, heads, heads}},
				{Op: "einsum", Attrs: graph.Attrs{"equation": "bij,bjk->bik"},
					In: []tensor.Meta{kit.F32(16, 49, 32), kit.F32(16, 32, 49)}}}},
		{Name: multiply.RateTile32, Unit: "a multiply-add of float32 in register tiles",
			Calls: []graph.RateCall{mmCall("tiled", f32, 784, 192, 576, constB),
				mmCall("tiled", f32, 196, 768, 384, constB), mmCall("tiled", f32, 784, 384, 192, constB),
				mmCall("tiled", f32, 128, 256, 512, constB)}},
		{Name: multiply.RateTile64, Unit: "a multiply-add of float64 in register tiles",
			Calls: []graph.RateCall{mmCall("tiled", tensor.Float64, 120, 384, 128, constB)}},
		{Name: multiply.RateTileGo, Unit: "a multiply-add of other dtypes, in Go",
			Calls: []graph.RateCall{mmCall("tiled", tensor.Int64, 64, 64, 64, constB)}},
		{Name: multiply.RateTileBytes, Unit: "a multiply-add of bytes in register tiles",
			Calls: append(largeByteProducts(), byteProduct(4, 512, 2048), byteProduct(7, 2048, 512))},
		{Name: multiply.RateUnitBytes, Unit: "a multiply-add of bytes on the matrix unit, including the padding of tiles",
			Calls: largeByteProducts()},
		{Name: multiply.RateTileCall, Unit: "the overhead of one register tile in one block of the depth",
			Calls: []graph.RateCall{mmCall("tiled", f32, 480, 16, 256, constB),
				mmCall("tiled", f32, 960, 32, 96, constB)}},
		{Name: multiply.RateStartStep, Unit: "the start of a step that computes products",
			Calls: []graph.RateCall{rowProduct(8, 48), rowProduct(32, 120), rowProduct(144, 40), rowProduct(52, 208)}},
		{Name: multiply.RateStartProduct, Unit: "the start of each product in a step",
			Calls: []graph.RateCall{bmmCall(64, 16, 16, 32), bmmCall(24, 49, 32, 49), bmmCall(48, 49, 49, 32),
				bmmCall(12, 50, 64, 50)}},
		{Name: multiply.RateThin32, Unit: "a multiply-add of a product of few rows or columns",
			Calls: []graph.RateCall{{Op: "linear", In: []tensor.Meta{kit.F32(4, 256), kit.F32(64, 256)}, Constant: []int{1},
				Impl: "thin"}, {Op: "linear", In: []tensor.Meta{kit.F32(1, 256), kit.F32(32, 256)}, Impl: "thin"}}},
		{Name: multiply.RateLoops, Unit: "a multiply-add of plain loops",
			Calls: []graph.RateCall{mmCall("loops", f32, 16, 16, 16)}},
		{Name: multiply.RateAddTo, Unit: "an element of an addend that is not a vector",
			Calls: []graph.RateCall{matrixAddend}},
		{Name: multiply.RatePackRow, Unit: "an element packed from a matrix that is contiguous along the depth",
			Calls: []graph.RateCall{linearCall(8, 256, 768), linearCall(16, 96, 1536)}},
		{Name: multiply.RatePackCol, Unit: "an element packed from a matrix that is contiguous along the lanes",
			Calls: []graph.RateCall{mmCall("tiled", f32, 32, 1024, 1024)}},
		{Name: multiply.RateScattered,
			Unit: "an element that is stored alone, because the result is not contiguous along the lanes",
			Calls: []graph.RateCall{{Op: "mm", In: []tensor.Meta{columnMajor, kit.F32(128, 256)}, Constant: []int{1},
				Impl: "tiled"}}},
	}...)
}

// mmCall returns a product of m x k by k x n elements. constant lists the constant operands.
func mmCall(impl string, dtype tensor.DType, m, k, n int, constant ...int) graph.RateCall {
	in := []tensor.Meta{tensor.New(dtype, m, k), tensor.New(dtype, k, n)}
	return graph.RateCall{Op: "mm", In: in, Constant: constant, Impl: impl}
}

// bmmCall returns a batch of products of m x k by k x n elements.
func bmmCall(entries, m, k, n int) graph.RateCall {
	return graph.RateCall{Op: "bmm", In: []tensor.Meta{kit.F32(entries, m, k), kit.F32(entries, k, n)}, Impl: "tiled"}
}

// linearCall returns a product of m x k elements by the transpose of n x k elements.
func linearCall(m, k, n int) graph.RateCall {
	return graph.RateCall{Op: "linear", In: []tensor.Meta{kit.F32(m, k), kit.F32(n, k)}, Impl: "tiled"}
}

// levelRates lists the rates of products by matrices that are quantized by blocks (see [LinearBlocks]).
func levelRates() []graph.Rate {
	product := func(rows, bits int) graph.RateCall {
		return graph.RateCall{Op: "linear_blocks", Attrs: graph.Attrs{"bits": bits, "block_size": 32},
			In:       []tensor.Meta{kit.F32(rows, 512), tensor.New(tensor.Uint8, 768, 512*bits/8), kit.F32(768, 16)},
			Constant: []int{1, 2}, Impl: "tiled"}
	}
	const tiledRows = maxThinRows + 1
	return []graph.Rate{
		{Name: multiply.RateLevels, Unit: "an element of a quantized matrix, read by a register tile",
			Calls: []graph.RateCall{product(1, 4), product(1, 8), product(4, 4)}},
		{Name: multiply.RateConvertLevels, Unit: "an element of a quantized matrix, converted to float32 in the cache",
			Calls: []graph.RateCall{product(tiledRows, 4), product(tiledRows, 8), product(2*tiledRows, 4)}},
	}
}

// byteProduct returns the product of an m×k byte matrix and a constant k×n byte matrix.
func byteProduct(m, k, n int) graph.RateCall {
	return graph.RateCall{Op: "matmul_bytes", In: []tensor.Meta{tensor.New(tensor.Uint8, m, k),
		tensor.New(tensor.Int8, k, n)}, Constant: []int{1}, Impl: "tiled"}
}

// largeByteProducts returns products of byte matrices with enough rows for a matrix unit.
func largeByteProducts() []graph.RateCall {
	return []graph.RateCall{byteProduct(64, 512, 2048), byteProduct(784, 192, 576), byteProduct(128, 2048, 512)}
}
