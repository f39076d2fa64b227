//go:build linux || darwin

package winograd

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/machine"
)

// TestOperands holds the code against the block, to the bit, with tiles between memory that must not be touched.
func TestOperands(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, isa := range jittest.Sets(t) {
		for _, f := range forms() {
			for range 60 {
				n := f.N()
				p := Part{r.IntN(3), r.IntN(3), 0, 0}
				p.RowEnd, p.ColEnd = p.Row+1+r.IntN(n-p.Row), p.Col+1+r.IntN(n-p.Col)
				checkOperands(t, r, isa, f, p, 1+r.IntN(40), 1+r.IntN(4))
			}
			checkOperands(t, r, isa, f, Part{0, 0, f.N(), f.N()}, 600*Lanes(isa)+3, 3)
		}
	}
}

func checkOperands(t *testing.T, r *rand.Rand, isa machine.ISA, f Form, p Part, channels, tiles int) {
	t.Helper()
	n, lanes := f.N(), Lanes(isa)
	code, err := f.Operands(isa, p, channels%lanes)
	if err != nil {
		t.Fatal(err)
	}
	width := p.ColEnd - p.Col + (tiles-1)*f.M
	image := guarded[float32](t, (p.RowEnd-p.Row)*width*channels)
	for i := range image {
		image[i] = r.Float32() - 0.5
	}
	room := (channels + lanes - 1) / lanes * lanes
	points := guarded[float32](t, f.Points()*tiles*room)
	from := Plane{Ptr: unsafe.Pointer(&image[0]), Row: width * channels * 4, Col: channels * 4, Tile: f.M * channels * 4}
	to := Plane{Ptr: unsafe.Pointer(&points[0]), Row: n * tiles * room * 4, Col: tiles * room * 4, Tile: room * 4}
	if err := code.Run(new(jit.Args), to, from, nil, channels, tiles); err != nil {
		t.Fatal(err)
	}
	b := f.operandBlock(p)
	for tile := range tiles {
		for c := range channels {
			b.evaluate(func(row, col int) float32 { return image[(row*width+tile*f.M+col)*channels+c] }, 0,
				func(v float32, row, col int) {
					if got := points[((row*n+col)*tiles+tile)*room+c]; got != v {
						t.Fatalf("%v %v %v: point %d, %d of tile %d, channel %d of %d: %v, want %v", isa, f, p, row, col, tile, c,
							channels, got, v)
					}
				})
		}
	}
}

// TestResults holds the code of results against the block.
func TestResults(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, isa := range jittest.Sets(t) {
		for _, f := range forms() {
			for i := range 60 {
				rows, cols := 1+r.IntN(f.M), 1+r.IntN(f.M)
				checkResults(t, r, isa, f, rows, cols, i%2 == 0, 1+r.IntN(40), 1+r.IntN(4))
			}
		}
	}
}

func checkResults(t *testing.T, r *rand.Rand, isa machine.ISA, f Form, rows, cols int, bias bool, channels, tiles int) {
	t.Helper()
	n, lanes := f.N(), Lanes(isa)
	code, err := f.Results(isa, rows, cols, bias, channels%lanes)
	if err != nil {
		t.Fatal(err)
	}
	room := (channels + lanes - 1) / lanes * lanes
	points := guarded[float32](t, f.Points()*tiles*room)
	for i := range points {
		points[i] = r.Float32() - 0.5
	}
	width := (tiles-1)*f.M + cols
	image := guarded[float32](t, rows*width*channels)
	for i := range image {
		image[i] = -7
	}
	var sums unsafe.Pointer
	add := make([]float32, channels)
	if bias {
		add = guarded[float32](t, channels)
		for i := range add {
			add[i] = r.Float32()
		}
		sums = unsafe.Pointer(&add[0])
	}
	from := Plane{Ptr: unsafe.Pointer(&points[0]), Row: n * tiles * room * 4, Col: tiles * room * 4, Tile: room * 4}
	to := Plane{Ptr: unsafe.Pointer(&image[0]), Row: width * channels * 4, Col: channels * 4, Tile: f.M * channels * 4}
	if err := code.Run(new(jit.Args), to, from, sums, channels, tiles); err != nil {
		t.Fatal(err)
	}
	b := f.resultBlock(rows, cols, bias)
	want := make([]float32, len(image))
	for i := range want {
		want[i] = -7
	}
	for tile := range tiles {
		for c := range channels {
			b.evaluate(func(row, col int) float32 { return points[((row*n+col)*tiles+tile)*room+c] }, add[c],
				func(v float32, row, col int) { want[(row*width+tile*f.M+col)*channels+c] = v })
		}
	}
	for i := range want {
		if image[i] != want[i] {
			t.Fatalf("%v %v %dx%d: element %d is %v, want %v", isa, f, rows, cols, i, image[i], want[i])
		}
	}
}

// guarded returns memory that ends where nothing may be touched.
func guarded[T any](t *testing.T, n int) []T {
	t.Helper()
	var one T
	size := n * int(unsafe.Sizeof(one))
	bytes := jittest.Guarded(t, size)
	return unsafe.Slice((*T)(unsafe.Pointer(&bytes[len(bytes)-size])), n)
}

// TestRegisters: with 32 registers nothing is put aside.
func TestRegisters(t *testing.T) {
	for _, f := range forms() {
		for _, b := range []*block{f.operandBlock(Part{0, 0, f.N(), f.N()}), f.resultBlock(f.M, f.M, true)} {
			c, err := newCode(machine.AVX512, 0, false, false)
			if err != nil {
				t.Fatal(err)
			}
			if w := c.write(b, false); w.room > 0 {
				t.Errorf("%v puts %d values aside", f, w.room)
			}
		}
	}
}
