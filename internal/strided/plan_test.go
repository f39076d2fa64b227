package strided_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

// sized has a dtype for every size of an element.
var sized = []tensor.DType{tensor.Uint8, tensor.Int16, tensor.Float32, tensor.Float64, tensor.Complex128}

// buffer is memory for the elements of some axes. Index 0 is at first, because strides may be negative.
type buffer struct {
	data  []byte
	first int
}

// room makes a buffer of random bytes for elements of a size. The bytes between elements must not change.
func room(r *rand.Rand, axes []strided.Axis, size int, step func(strided.Axis) int) buffer {
	low, high := 0, 0
	for _, x := range axes {
		low, high = low+min(0, (x.N-1)*step(x)), high+max(0, (x.N-1)*step(x))
	}
	words := make([]uint64, (high-low+size+7)/8+1)
	for i := range words {
		words[i] = r.Uint64()
	}
	return buffer{unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words)), -low}
}

func (b buffer) pointer() unsafe.Pointer { return unsafe.Pointer(&b.data[b.first]) }

// plain copies element by element.
func plain(dst, src buffer, axes []strided.Axis, size int) []byte {
	out := slices.Clone(dst.data)
	var walk func(axes []strided.Axis, d, s int)
	walk = func(axes []strided.Axis, d, s int) {
		if len(axes) == 0 {
			copy(out[d:d+size], src.data[s:s+size])
			return
		}
		x := axes[0]
		for i := 0; len(axes) == 1 && i < x.N; i++ {
			copy(out[d+i*x.Dst:][:size], src.data[s+i*x.Src:][:size])
		}
		for i := 0; len(axes) > 1 && i < x.N; i++ {
			walk(axes[1:], d+i*x.Dst, s+i*x.Src)
		}
	}
	walk(axes, dst.first, src.first)
	return out
}

// laid returns the strides of a dimension order, slowest dimension first, with a gap after each run of the fastest one.
func laid(sizes, order []int, size, gap int) []int {
	steps := make([]int, len(sizes))
	step := size
	for i := len(order) - 1; i >= 0; i-- {
		steps[order[i]] = step
		step *= sizes[order[i]]
		if i == len(order)-1 {
			step += gap * size
		}
	}
	return steps
}

// check compares a copy by tiles, in any order, with plain loops.
func check(t *testing.T, r *rand.Rand, d tensor.DType, axes []strided.Axis) {
	t.Helper()
	dst := room(r, axes, d.Size(), func(x strided.Axis) int { return x.Dst })
	src := room(r, axes, d.Size(), func(x strided.Axis) int { return x.Src })
	want := plain(dst, src, axes, d.Size())
	p := strided.New(strided.MoverOf(d.Size()), axes)
	n := 1
	for _, x := range axes {
		n *= x.N
	}
	if p.Tiles() < 1 || p.Tiles()*p.MaxTileElems() < n {
		t.Fatalf("%v %v: %d tiles of %d elements", d, axes, p.Tiles(), p.MaxTileElems())
	}
	scratch := make([]uint64, (p.ScratchBytes()+7)/8)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(scratch))), p.ScratchBytes())
	for _, i := range r.Perm(p.Tiles()) {
		p.Run(dst.pointer(), src.pointer(), mem, i, i+1)
	}
	if !bytes.Equal(dst.data, want) {
		t.Errorf("%v %v: other bytes than by plain loops", d, axes)
	}
}

// TestTiles has sizes around those of tiles, so that the last tiles are shorter.
func TestTiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	shapes := [][]int{{1, 1}, {1, 7}, {3, 5}, {4, 4}, {127, 129}, {128, 128}, {130, 257}, {5, 1000}, {1000, 5},
		{3, 40_000}, {40_000, 3},
		{2, 131, 133}, {131, 2, 133}, {131, 133, 2}, {15, 2000}, {2000, 15}, {2, 3, 4, 5}}
	for _, d := range sized {
		for _, sizes := range shapes {
			orders := [][]int{{0, 1}, {1, 0}}
			if len(sizes) > 2 {
				orders = [][]int{r.Perm(len(sizes)), r.Perm(len(sizes)), r.Perm(len(sizes))}
			}
			for _, to := range orders {
				for _, from := range orders {
					for _, gap := range []int{0, 3} {
						dst, src := laid(sizes, to, d.Size(), gap), laid(sizes, from, d.Size(), (gap+r.IntN(2))%4)
						axes := make([]strided.Axis, len(sizes))
						for i, n := range sizes {
							axes[i] = strided.Axis{n, dst[i], src[i]}
						}
						check(t, r, d, axes)
					}
				}
			}
		}
	}
}

// Source strides may be 0 or negative.
func TestTilesBackwardsAndSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, d := range sized {
		s := d.Size()
		for _, n := range []int{1, 3, 64, 129, 300} {
			for _, m := range []int{2, 130, 257} {
				check(t, r, d, []strided.Axis{{n, m * s, 0}, {m, s, s}})
				check(t, r, d, []strided.Axis{{n, m * s, s}, {m, s, 0}})
				check(t, r, d, []strided.Axis{{n, m * s, -m * s}, {m, s, s}})
				check(t, r, d, []strided.Axis{{n, m * s, s}, {m, s, -n * s}})
				check(t, r, d, []strided.Axis{{n, m * s, -s}, {m, s, n * s}})
			}
		}
	}
}

// Converted elements are those of the converter for all layouts.
func TestTilesConvert(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range [][2]tensor.DType{{tensor.Float32, tensor.Int16}, {tensor.Uint8, tensor.Float64},
		{tensor.Complex128, tensor.Float32},
		{tensor.Bool, tensor.Bool}, {tensor.BFloat16, tensor.Float32}} {
		to, from := c[0], c[1]
		for _, sizes := range [][]int{{129, 131}, {3, 2000}, {2000, 3}} {
			n := sizes[0] * sizes[1]
			src := make([]uint64, 2*n)
			in := unsafe.Pointer(&src[0])
			ints := make([]int16, n)
			for i := range ints {
				ints[i] = int16(r.IntN(2))
			}
			tensor.Converter(from, tensor.Int16)(in, unsafe.Pointer(&ints[0]), from.Size(), 2, n)
			flat := make([]uint64, 2*n)
			tensor.Converter(to, from)(unsafe.Pointer(&flat[0]), in, to.Size(), from.Size(), n)
			got := make([]uint64, 2*n)
			p := strided.New(strided.ConverterOf(to.Size(), from.Size(), tensor.Converter(to, from)),
				[]strided.Axis{{sizes[0], to.Size(), sizes[1] * from.Size()}, {sizes[1], sizes[0] * to.Size(), from.Size()}})
			p.Run(unsafe.Pointer(&got[0]), in, make([]byte, p.ScratchBytes()), 0, p.Tiles())
			for i := range n {
				row, col := i/sizes[1], i%sizes[1]
				a := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&flat[0]), i*to.Size())), to.Size())
				b := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&got[0]), (col*sizes[0]+row)*to.Size())), to.Size())
				if !bytes.Equal(a, b) {
					t.Fatalf("%v from %v, %v: element %d, %d is %v, want %v", to, from, sizes, row, col, b, a)
				}
			}
		}
	}
}

// Tiles depend on shapes only, and no tile exceeds the reported size.
func TestTileSizes(t *testing.T) {
	for _, c := range []struct {
		axes       []strided.Axis
		tiles, len int
	}{
		{[]strided.Axis{{256, 4, 1024}, {256, 1024, 4}}, 8, 64 * 128},
		{[]strided.Axis{{257, 4, 1028}, {256, 1028, 4}}, 10, 64 * 128},
		{[]strided.Axis{{512, 4, 784}, {196, 2048, 4}}, 8, 64 * 196},
		{[]strided.Axis{{4096, 4, 256}, {64, 4096 * 4, 4}}, 16, 256 * 64},
		{[]strided.Axis{{2, 4, 4 << 10}, {1024, 8, 4}}, 1, 2048},
		{[]strided.Axis{{1 << 15, 4, 4}}, 4, 1 << 13},
		{[]strided.Axis{{3, 4, 4}, {4096, 12, 16}}, 7, 3 * 586},
		{nil, 1, 1},
	} {
		p := strided.New(strided.MoverOf(4), c.axes)
		got := fmt.Sprint(p.Tiles(), p.MaxTileElems())
		if want := fmt.Sprint(c.tiles, c.len); got != want {
			t.Errorf("%v: %s, want %s", c.axes, got, want)
		}
	}
}

// TestRanges copies consecutive ranges of tiles with arbitrary limits, over outer dimensions.
func TestRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	sizes := []int{3, 2, 5, 30, 700}
	step := laid(sizes, []int{0, 1, 2, 3, 4}, 4, 1)
	from := laid(sizes, []int{1, 3, 2, 0, 4}, 4, 2)
	axes := make([]strided.Axis, len(sizes))
	for d, n := range sizes {
		axes[d] = strided.Axis{N: n, Dst: step[d], Src: from[d]}
	}
	dst := room(r, axes, 4, func(x strided.Axis) int { return x.Dst })
	src := room(r, axes, 4, func(x strided.Axis) int { return x.Src })
	want := plain(dst, src, axes, 4)
	p := strided.New(strided.MoverOf(4), axes)
	if p.Tiles() < 60 {
		t.Fatalf("only %d tiles", p.Tiles())
	}
	for at := 0; at < p.Tiles(); {
		end := min(p.Tiles(), at+r.IntN(20))
		p.Run(dst.pointer(), src.pointer(), nil, at, end)
		at = end
	}
	if !bytes.Equal(dst.data, want) {
		t.Error("other bytes than by plain loops")
	}
}

// TestTilesOfRuns checks that small copies of bytes have one or two tiles, and that a short row that is written several
// times is not a tile by itself.
func TestTilesOfRuns(t *testing.T) {
	for _, c := range []struct {
		size  int
		axes  []strided.Axis
		tiles int
	}{
		{1, []strided.Axis{{N: 4096, Dst: 1, Src: 1}}, 1},
		{4, []strided.Axis{{N: 4096, Dst: 4, Src: 4}}, 2},
		{1, []strided.Axis{{N: 4096, Dst: 1, Src: 1}, {N: 4, Dst: 4096}}, 2},
		{4, []strided.Axis{{N: 4096, Dst: 4, Src: 4}, {N: 4, Dst: 16384}}, 4},
		{1, []strided.Axis{{N: 64, Dst: 1, Src: 1}, {N: 2, Dst: 64}, {N: 64, Dst: 128, Src: 64}, {N: 2, Dst: 8192}}, 4},
	} {
		if n := strided.New(strided.MoverOf(c.size), c.axes).Tiles(); n != c.tiles {
			t.Errorf("%v of %d bytes: %d tiles, want %d", c.axes, c.size, n, c.tiles)
		}
	}
}

// TestPartsOfDst checks that if rows of a transposing copy are interleaved with rows of other dimensions, half of the
// tiles write half of dst, up to the sizes of tiles; if rows are whole cache lines, tiles are larger.
func TestPartsOfDst(t *testing.T) {
	for _, c := range []struct{ pixels, channels, half int }{{49, 488, 512 * 49}, {196, 64, 64 * 196}, {64, 64, 0}} {
		n := c.pixels * c.channels * 2
		p := strided.New(strided.MoverOf(4), []strided.Axis{{N: 2, Dst: 4 * c.pixels, Src: 4 * c.channels},
			{N: c.channels, Dst: 8 * c.pixels, Src: 4}, {N: c.pixels, Dst: 4, Src: 8 * c.channels}})
		src, dst := make([]float32, n), make([]float32, n)
		for i := range src {
			src[i] = 1
		}
		p.Run(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), make([]byte, p.ScratchBytes()), 0, p.Tiles()/2)
		first := 0
		for first < n && dst[first] == 1 {
			first++
		}
		if c.half > 0 && first != c.half {
			t.Errorf("%d pixels: half of %d tiles write the first %d elements, want %d", c.pixels, p.Tiles(), first, c.half)
		}
		for _, x := range dst[first:] {
			if c.half > 0 && x != 0 {
				t.Fatalf("%d pixels: half of %d tiles write beyond the first half", c.pixels, p.Tiles())
			}
		}
		p.Run(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), make([]byte, p.ScratchBytes()), p.Tiles()/2, p.Tiles())
		if i := slices.Index(dst, 0); i >= 0 {
			t.Errorf("%d pixels: element %d is not written", c.pixels, i)
		}
	}
}
