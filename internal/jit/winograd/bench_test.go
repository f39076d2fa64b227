//go:build linux || darwin

package winograd

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/machine"
)

// BenchmarkTransforms reports nanoseconds for one vector of channels of a tile, with all data in the L1 and L2 caches.
func BenchmarkTransforms(b *testing.B) {
	if err := jit.Available(); err != nil {
		b.Skip(err)
	}
	cpu := machine.HostFeatures()
	const channels, tiles = 16, 8
	for _, f := range forms() {
		n := f.N()
		image := make([]float32, n*(f.M*tiles+2)*channels)
		points := make([]float32, f.Points()*(tiles*channels+16))
		row, col := f.M*tiles+2, tiles*channels+16
		pixels := TileArray{Ptr: unsafe.Pointer(&image[0]), Row: row * channels * 4, Col: channels * 4,
			Tile: f.M * channels * 4}
		at := TileArray{Ptr: unsafe.Pointer(&points[0]), Row: n * col * 4, Col: col * 4, Tile: channels * 4}
		in, err := f.CompileInput(cpu, Part{0, 0, n, n}, 0)
		if err != nil {
			b.Fatal(err)
		}
		out, err := f.CompileOutput(cpu, f.M, f.M, true, relu, 0)
		if err != nil {
			b.Fatal(err)
		}
		weights, err := f.CompileWeights(cpu)
		if err != nil {
			b.Fatal(err)
		}
		run := func(name string, call func(a *jit.Args) error) {
			b.Run(fmt.Sprintf("F%d/%s", f.M, name), func(b *testing.B) {
				a := new(jit.Args)
				for b.Loop() {
					if err := call(a); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tiles*channels/Lanes(cpu)), "ns/vector")
			})
		}
		run("operands", func(a *jit.Args) error { return in.Run(a, at, pixels, nil, channels, tiles) })
		windows := TileArray{Ptr: unsafe.Pointer(&image[0]), Row: 3 * channels * 4, Col: channels * 4, Tile: 9 * channels * 4}
		run("weights", func(a *jit.Args) error { return weights.Run(a, at, windows, nil, channels, tiles) })
		bias := make([]float32, channels)
		run("results", func(a *jit.Args) error { return out.Run(a, pixels, at, unsafe.Pointer(&bias[0]), channels, tiles) })
	}
}

// BenchmarkAssemble measures the compilation of a transform.
func BenchmarkAssemble(b *testing.B) {
	defer func(verify bool) { alloc.Verify = verify }(alloc.Verify)
	alloc.Verify = false
	for b.Loop() {
		c, err := newCodeGen(machine.AVX512, 0, false, false)
		if err != nil {
			b.Fatal(err)
		}
		f := Form{M: 4}
		if err := c.loops(f.inputBlock(Part{0, 0, 6, 6})); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Finish(); err != nil {
			b.Fatal(err)
		}
	}
}
