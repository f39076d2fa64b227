package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

var benchShapes = []struct {
	m, n, k, la, lb int
	a, b            Source
}{
	{1024, 1024, 1024, rowMajor, rowMajor, Strided, Strided},
	{1024, 1024, 1024, rowMajor, colMajor, Strided, Strided},
	{4096, 4096, 4096, rowMajor, rowMajor, Strided, Strided},
	{64, 3136, 576, rowMajor, rowMajor, Prepacked, Custom},
	{64, 3136, 576, rowMajor, rowMajor, Strided, Strided},
	{3136, 64, 576, rowMajor, rowMajor, Custom, Prepacked},
	{512, 49, 4608, rowMajor, rowMajor, Prepacked, Custom},
	{49, 512, 4608, rowMajor, rowMajor, Custom, Prepacked},
	{1, 1000, 4096, rowMajor, rowMajor, Strided, Strided},
	{1, 1000, 4096, rowMajor, colMajor, Strided, Strided},
	{1, 1000, 4096, rowMajor, rowMajor, Strided, Prepacked},
	{128, 128, 64, rowMajor, colMajor, Strided, Strided},
	{16, 16, 16, rowMajor, rowMajor, Strided, Strided},
	{2, 4, 3, rowMajor, rowMajor, Strided, Strided},
}

func benchmarkSet[T float](b *testing.B, set *kernelSet) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, s := range benchShapes {
		p := newProblem[T](r, s.m, s.n, s.k, s.la, s.lb, rowMajor)
		p.spec.A.Source, p.spec.B.Source = s.a, s.b
		pl, err := newPlan(set, p.spec, sharedElems)
		if err != nil {
			b.Fatal(err)
		}
		name := fmt.Sprintf("%dx%dx%d/layout%d%d/source%d%d", s.m, s.n, s.k, s.la, s.lb, s.a, s.b)
		b.Run(name, func(b *testing.B) {
			args, worker := p.args(pl), make([]byte, pl.WorkerBytes())
			for b.Loop() {
				pl.RunAll(args, worker)
			}
			flops := 2 * float64(s.m) * float64(s.n) * float64(s.k) * float64(b.N)
			b.ReportMetric(flops/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			b.ReportMetric(float64(pl.mTiles*pl.nTiles), "tiles")
		})
	}
}

func BenchmarkFloat32(b *testing.B) {
	for _, set := range candidateSets(tensor.Float32) {
		b.Run(set.name, func(b *testing.B) { benchmarkSet[float32](b, set) })
	}
}

func BenchmarkFloat64(b *testing.B) {
	for _, set := range candidateSets(tensor.Float64) {
		b.Run(set.name, func(b *testing.B) { benchmarkSet[float64](b, set) })
	}
}

func BenchmarkPlan(b *testing.B) {
	s := Spec{DType: tensor.Float32, M: 1024, N: 1024, K: 1024, CColStride: 1, CRowStride: 1024}
	for b.Loop() {
		if _, err := NewPlan(s); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPack packs a matrix of 1024x1024 whose lanes are adjacent, or whose depths are, or neither.
func BenchmarkPack(b *testing.B) {
	const n = 1024
	src, dst := make([]float32, 2*n*n), make([]byte, PackedBBytes(tensor.Float32, n, n))
	for _, c := range []struct {
		name   string
		rs, cs int
	}{{"Lanes", n, 1}, {"Depths", 1, n}, {"Neither", 2 * n, 2}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(4 * n * n)
			for b.Loop() {
				PackB(tensor.Float32, dst, unsafe.Pointer(&src[0]), n, n, c.rs, c.cs)
			}
		})
		b.Run("A"+c.name, func(b *testing.B) {
			b.SetBytes(4 * n * n)
			for b.Loop() {
				PackA(tensor.Float32, dst, unsafe.Pointer(&src[0]), n-256, n, c.rs, c.cs)
			}
		})
	}
}
