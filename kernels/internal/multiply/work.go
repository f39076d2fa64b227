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
	TileCall  = "gemm.tile"
	Scattered = "gemm.scatter"
	Thin32    = "gemm.thin"
	Loops     = "gemm.loops"
	AddTo     = "gemm.add"
	Begin     = "gemm.begin"
	PackRow   = "pack.row"
	PackCol   = "pack.column"
	PackWin   = "pack.window"
	PackRun   = "pack.run"
	PackStep  = "pack.strided"
)

// tileOf is the inner kernel of a dtype, and what an operation of it takes beside those.
func tileOf(d tensor.DType) string {
	switch d {
	case tensor.Float32, tensor.Float16, tensor.BFloat16: // the halves are converted
		return Tile32
	case tensor.Float64:
		return Tile64
	}
	return TileGo
}

// Product adds the multiplications of products of m x k by k x n elements of dtype d in register tiles.
func Product(w *graph.Work, d tensor.DType, entries float64, m, n, k int) {
	var macs, calls float64
	switch tileOf(d) {
	case Tile32:
		macs, calls = gemm.Effort[float32](m, n, k)
	case Tile64:
		macs, calls = gemm.Effort[float64](m, n, k)
	default:
		macs, calls = gemm.Effort[int64](m, n, k)
	}
	w.Do(tileOf(d), entries*macs)
	w.Do(TileCall, entries*calls)
	w.Flops += entries * 2 * float64(m) * float64(n) * float64(k)
}

// ThinProduct adds those of products of few rows or columns, which read the other matrix where it is.
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

// passTerms is the depth of a block of a product: the result is gone through once for each.
const passTerms = 256

// Scatter adds what a product takes besides where its rows are not what lies together in the
// result, of so many elements, and k terms each: every pass brings tiles to their places element by element.
func Scatter(w *graph.Work, elements, k int) {
	w.Do(Scattered, float64(elements)*float64(kit.DivUp(k, passTerms)))
}
