package multiply

import (
	"cmp"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file states the costs of products. A product is computed in register tiles: a few rows and columns of the result
// in registers, for one block of the depth at a time (the depth is the dimension that is summed). The tiles read packed
// panels, in which the elements of a tile's rows or columns (its lanes) are adjacent. A tap is an element of the window
// of a convolution.

// The rates of products, by their names in machine profiles. A rate is the time of one unit of work.
const (
	RateTile32        = "gemm.f32"     // a multiply-add of float32 in register tiles
	RateTile64        = "gemm.f64"     // a multiply-add of float64
	RateTileGo        = "gemm.go"      // a multiply-add of other dtypes, in Go
	RateTileBytes     = "gemm.bytes"   // a multiply-add of bytes
	RateTileCall      = "gemm.tile"    // the overhead of one register tile in one block of the depth
	RateScattered     = "gemm.scatter" // an element stored alone, because the result is not contiguous along the lanes
	RateThin32        = "gemm.thin"    // a multiply-add of a product of few rows or columns
	RateLevels        = "gemm.levels"  // an element of a quantized matrix, read by a tile
	RateConvertLevels = "gemm.convert" // an element of a quantized matrix, converted to float32
	RateLoops         = "gemm.loops"   // a multiply-add of plain loops
	RateAddTo         = "gemm.add"     // an element of an addend that is not a vector
	RateStartStep     = "gemm.start"   // the start of a step that computes products
	RateStartProduct  = "gemm.begin"   // the start of each product in a step
	RatePackRow       = "pack.row"     // an element packed from a matrix that is contiguous along the depth
	RatePackCol       = "pack.column"  // an element packed from a matrix that is contiguous along the lanes

	// Packing from pixels, that is from channels-last images.
	RatePackWindow = "pack.window" // an element of a window
	RatePackRun    = "pack.run"    // a run of elements for one tap of a window

	// Packing from planes, that is from channels-first images.
	RatePackTap  = "pack.tap"     // an element of a window
	RatePackMove = "pack.move"    // a run of elements for one tap of a window
	RatePackStep = "pack.strided" // an element of a window with strided pixels
)

// tileRate returns the rate of a multiply-add in register tiles.
func tileRate(dtype tensor.DType) string {
	switch dtype {
	case tensor.Float32, tensor.Float16, tensor.BFloat16: // 16-bit floats are converted
		return RateTile32
	case tensor.Float64:
		return RateTile64
	}
	return RateTileGo
}

// ReclassifyStores counts the bytes of the result as copied. [graph.Call.AddStreamed] has counted them as dense, but no
// computation overlaps with the stores of a tile.
func ReclassifyStores(work *pricing.Work, c *graph.Call) {
	bytes := float64(c.Out[0].Bytes())
	work.Bytes[pricing.Dense] -= bytes
	work.Bytes[pricing.Copied] += bytes
}

// AddProduct adds the cost of products in register tiles. The matrices are m x k and k x n, of the given dtype.
func AddProduct(work *pricing.Work, dtype tensor.DType, entries float64, m, n, k int) {
	macs, calls := gemm.Effort(computationDType(dtype), m, n, k)
	work.AddUnits(tileRate(dtype), entries*macs)
	work.AddUnits(RateTileCall, entries*calls)
	work.Flops += float64(entries * 2 * float64(m) * float64(n) * float64(k))
}

const (
	// With at most fewRows rows, the products of a panel take much less time than loading the panel from memory.
	fewRows = 4
	// With manyRows rows, the products of a panel take as long as loading the next panel.
	manyRows = 32
)

// ReclassifyPanels counts some bytes of constant operand i as Panels. [graph.Call.AddStreamed] has counted them as
// DenseConstants. These bytes are loaded while the previous panel is multiplied. The multiplication takes longer, and
// more bytes are loaded during it, if the other operand has more rows.
func ReclassifyPanels(work *pricing.Work, c *graph.Call, i, rows int) {
	reclassifyPanels(work, c, i, rows, c.Meta(i).DType)
}

// ReclassifyHalves is [ReclassifyPanels] for panels that have 16-bit floats if the constant was converted from them.
func ReclassifyHalves(work *pricing.Work, c *graph.Call, i, rows int) {
	dtype := c.Meta(i).DType
	reclassifyPanels(work, c, i, rows, cmp.Or(Half(c, i, dtype), dtype))
}

// reclassifyPanels is [ReclassifyPanels] for panels of the given dtype.
func reclassifyPanels(work *pricing.Work, c *graph.Call, i, rows int, panels tensor.DType) {
	meta := c.Meta(i)
	bytes := float64(meta.Numel() * meta.DType.Size())
	isCounted := bytes <= work.Bytes[pricing.DenseConstants] // otherwise AddStreamed counted the operand as Dense
	if isCounted && panels != meta.DType {
		narrow := float64(meta.Numel() * panels.Size())
		work.Bytes[pricing.DenseConstants] -= bytes - narrow
		bytes = narrow
	}
	if c.IsConstant(i) && rows > fewRows && isCounted {
		bytes = float64(bytes * min(1, float64(rows)/manyRows))
		work.Bytes[pricing.DenseConstants] -= bytes
		work.Bytes[pricing.Panels] += bytes
	}
}

// AddThinProduct adds the cost of products with few rows or columns, for which gemm reads the larger matrix in place.
// macs is the number of multiplications per entry.
func AddThinProduct(work *pricing.Work, dtype tensor.DType, entries, macs float64) {
	costFactor := 1.0 // relative to float32
	switch tileRate(dtype) {
	case RateTile64:
		costFactor = 2
	case RateTileGo:
		costFactor = 16
	}
	work.AddUnits(RateThin32, entries*macs*costFactor)
	work.Flops += float64(entries * 2 * macs)
}

// blockTerms is the number of terms per block of the depth. The result is loaded and stored once for each block.
const blockTerms = 256

// AddScatteredStores adds the extra cost of a result whose rows are not contiguous. Its tiles are stored element by
// element, once for each block of the depth k, the dimension that the product sums.
func AddScatteredStores(work *pricing.Work, elements, k int) {
	work.AddUnits(RateScattered, float64(elements)*float64(kit.DivUp(k, blockTerms)))
}
