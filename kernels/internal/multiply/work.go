package multiply

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// The inner kernels of products, as profiles name them.
const (
	Tile32    = "gemm.f32"
	Tile64    = "gemm.f64"
	TileGo    = "gemm.go"
	TileBytes = "gemm.bytes"
	TileCall  = "gemm.tile"
	Scattered = "gemm.scatter"
	Thin32    = "gemm.thin"
	Loops     = "gemm.loops"
	AddTo     = "gemm.add"
	Start     = "gemm.start"
	Begin     = "gemm.begin"
	PackRow   = "pack.row"
	PackCol   = "pack.column"
	PackWin   = "pack.window"
	PackRun   = "pack.run"
	PackTap   = "pack.tap"
	PackMove  = "pack.move"
	PackStep  = "pack.strided"
)

// tileOf returns the inner kernel of a dtype.
func tileOf(d tensor.DType) string {
	switch d {
	case tensor.Float32, tensor.Float16, tensor.BFloat16: // the halves are converted
		return Tile32
	case tensor.Float64:
		return Tile64
	}
	return TileGo
}

// Stored reclassifies the bytes of the result, which [graph.Call.Streamed] has counted, as copied only: tiles are
// loaded between others, and nothing is computed meanwhile.
func Stored(w *graph.Work, c *graph.Call) {
	bytes := float64(c.Out[0].Bytes())
	w.Bytes[graph.Dense] -= bytes
	w.Bytes[graph.Copied] += bytes
}

// Product adds the multiplications of m x k by k x n elements of dtype d in register tiles.
func Product(w *graph.Work, d tensor.DType, entries float64, m, n, k int) {
	macs, calls := gemm.Effort(computesIn(d), m, n, k)
	w.Do(tileOf(d), entries*macs)
	w.Do(TileCall, entries*calls)
	w.Flops += entries * 2 * float64(m) * float64(n) * float64(k)
}

const (
	// fewRows is the number of rows up to which a panel is read once, at the speed of memory, with little to compute.
	fewRows = 4
	// manyRows is the number of rows from which computing a panel takes as long as loading the next one.
	manyRows = 32
)

// Paneled reclassifies the bytes of a constant operand, which [graph.Call.Streamed] has counted: the share that is
// loaded while the product of a panel with the given rows of the other operand is computed.
func Paneled(w *graph.Work, c *graph.Call, i, rows int) {
	m := c.Meta(i)
	if bytes := float64(m.Numel() * m.DType.Size()); c.Constant(i) && rows > fewRows && bytes <= w.Bytes[graph.Kept] {
		bytes *= min(1, float64(rows)/manyRows)
		w.Bytes[graph.Kept] -= bytes
		w.Bytes[graph.Panels] += bytes
	}
}

// ThinProduct adds the multiplications of products of few rows or columns, which read the other matrix in place.
func ThinProduct(w *graph.Work, d tensor.DType, entries, macs float64) {
	each := 1.0
	switch tileOf(d) {
	case Tile64:
		each = 2
	case TileGo:
		each = 16
	}
	w.Do(Thin32, entries*macs*each)
	w.Flops += entries * 2 * macs
}

// passTerms is the depth of a block of a product: each block passes over the result once.
const passTerms = 256

// Scatter adds the additional cost of a result whose rows are not contiguous: each pass stores tiles element by
// element.
func Scatter(w *graph.Work, elements, k int) {
	w.Do(Scattered, float64(elements)*float64(kit.DivUp(k, passTerms)))
}
