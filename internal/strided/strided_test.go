package strided

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
)

var sizes = []int{1, 2, 4, 8, 16}

// layout lays out a shape in a random order of dimensions, sometimes with gaps, and returns its strides, its size in
// bytes and the offset of its first element.
func layout(r *rand.Rand, shape []int, size int, reads bool) (steps []int, bytes, first int) {
	steps = make([]int, len(shape))
	at := size
	for _, d := range r.Perm(len(shape)) {
		if r.IntN(4) == 0 {
			at += size * r.IntN(3)
		}
		steps[d] = at
		switch {
		case reads && r.IntN(6) == 0:
			steps[d] = 0
			continue
		case reads && r.IntN(6) == 0:
			steps[d] = -at
			first += (shape[d] - 1) * at
		}
		at *= max(1, shape[d])
	}
	return steps, at + size, first
}

// eachRow calls f with the offsets on both sides of every row of the last axis, in order.
func eachRow(axes []Axis, dst, src int, f func(dst, src int)) {
	if len(axes) < 2 {
		f(dst, src)
		return
	}
	for i := range axes[0].N {
		eachRow(axes[1:], dst+i*axes[0].Dst, src+i*axes[0].Src, f)
	}
}

// fillRandom fills b with random bytes.
func fillRandom(r *rand.Rand, b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, r.Uint64())
	}
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// problem is a copy with its source and the expected destination.
type problem struct {
	elem       Elem
	axes       []Axis
	src, want  []byte
	srcFirst   int
	background []byte
}

// widened moves elements, and appends the same number of bytes 0xAA to each.
func widened(size int) Elem {
	return ConverterOf(2*size, size, func(dst, src unsafe.Pointer, ds, ss, n int) {
		for i := range n {
			to := unsafe.Slice((*byte)(unsafe.Add(dst, i*ds)), 2*size)
			copy(to, unsafe.Slice((*byte)(unsafe.Add(src, i*ss)), size))
			for k := size; k < 2*size; k++ {
				to[k] = 0xAA
			}
		}
	})
}

func newProblem(r *rand.Rand, e Elem, shape []int) problem {
	p := problem{elem: e}
	ds, nd, _ := layout(r, shape, e.DstSize, false)
	ss, ns, first := layout(r, shape, e.SrcSize, true)
	for d, n := range shape {
		p.axes = append(p.axes, Axis{n, ds[d], ss[d]})
	}
	p.src, p.srcFirst = room(ns), first
	fillRandom(r, p.src)
	p.background = room(nd)
	for i := range p.background {
		p.background[i] = 0x55
	}
	p.want = slices.Clone(p.background)
	row := p.axes[len(p.axes)-1]
	eachRow(p.axes, 0, first, func(d, s int) {
		for range row.N {
			copy(p.want[d:d+e.DstSize], p.src[s:s+e.SrcSize])
			for k := e.SrcSize; k < e.DstSize; k++ {
				p.want[d+k] = 0xAA
			}
			d, s = d+row.Dst, s+row.Src
		}
	})
	return p
}

// room returns bytes aligned to 16.
func room(n int) []byte {
	s := make([][2]uint64, n/16+1)
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), n)
}

func (p *problem) check(t *testing.T, how string, run func(dst, src unsafe.Pointer)) {
	t.Helper()
	got := room(len(p.background))
	copy(got, p.background)
	run(unsafe.Pointer(&got[0]), unsafe.Pointer(&p.src[p.srcFirst]))
	if !bytes.Equal(got, p.want) {
		t.Fatalf("%s: %d bytes to %d over %v: wrong", how, p.elem.SrcSize, p.elem.DstSize, p.axes)
	}
}

// withFeatures calls f with the routines of each instruction set of this processor, with non-temporal stores always or
// never, and with their name.
func withFeatures(f func(name string)) {
	routines, rows, stream, three := plannedRoutines, vectorRows, streamRows, hasThreeChannelTranspose
	least := minStreamBytes
	defer func() {
		tileRoutines, vectorRows, streamRows, hasThreeChannelTranspose, minStreamBytes = routines, rows, stream, three, least
		plannedRoutines, plansThreeChannels = routines, three
	}()
	for _, cpu := range []machine.Features{machine.Portable, machine.AVX2, machine.AVX512, machine.NEON} {
		if !machine.HostFeatures().Has(cpu) {
			continue
		}
		for _, minStreamBytes = range []int{0, min(1<<60, math.MaxInt)} {
			tileRoutines, plannedRoutines = tileRoutinesOf(cpu), tileRoutinesOf(cpu)
			vectorRows, streamRows = rowsOf(cpu)
			hasThreeChannelTranspose = three && cpu.Has(machine.Vector512)
			plansThreeChannels = hasThreeChannelTranspose
			name := cpu.String()
			if minStreamBytes == 0 {
				name += "/stream"
			}
			f(name)
		}
	}
}

// TestCopies copies random shapes between random layouts in every way.
func TestCopies(t *testing.T) {
	r, order := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(1, 3)) // problems do not depend on the number of tiles
	ns := []int{1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31, 33}
	blocks, staged, between := 0, map[string]int{}, map[string]int{}
	for i := range testsize.Of(200, 500) {
		e := MoverOf(sizes[r.IntN(len(sizes))])
		if i%5 == 0 {
			e = widened(sizes[r.IntN(4)])
		}
		var shape []int
		for n := 1; len(shape) < 1+r.IntN(5) && n < 20000; {
			k := ns[r.IntN(len(ns))]
			if i%7 == 0 && len(shape) < 2 {
				k = 100 + r.IntN(200)
			}
			shape, n = append(shape, k), n*k
		}
		if i%7 == 3 {
			shape = []int{2 + r.IntN(3), 100 + r.IntN(200), 20 + r.IntN(40)}
		}
		p := newProblem(r, e, shape)
		if len(shape) == 2 {
			blocks++
		}
		withFeatures(func(name string) {
			c := New(e, p.axes)
			p.copies(t, name, c, order)
			if c.staged {
				staged[name]++
			}
			if slices.ContainsFunc(c.outer, func(x outerAxis) bool { return x.isAxisB }) {
				between[name]++
			}
		})
	}
	withFeatures(func(name string) {
		if staged[name] < testsize.Of(3, 8) || blocks < testsize.Of(13, 33) || between[name] < testsize.Of(3, 8) {
			t.Errorf("%s: only %d copies staged, %d blocks, %d with interleaved rows", name, staged[name], blocks, between[name])
		}
	})
}

// copies copies by tiles in any order, by parts of tiles, and by the functions without a plan.
func (p *problem) copies(t *testing.T, name string, c *Copy, order *rand.Rand) {
	t.Helper()
	p.check(t, name+" New", func(dst, src unsafe.Pointer) {
		mem := room(c.ScratchBytes())
		for _, tile := range order.Perm(c.Tiles()) {
			c.Run(dst, src, mem, tile, tile+1)
		}
	})
	p.check(t, name+" parts", func(dst, src unsafe.Pointer) {
		mem, step := room(c.ScratchBytes()), 1+order.IntN(max(1, c.Tiles()))
		for from := 0; from < c.Tiles(); from += step {
			c.Run(dst, src, mem, from, min(from+step, c.Tiles()))
		}
	})
	p.check(t, name+" Run", func(dst, src unsafe.Pointer) { p.elem.Run(dst, src, slices.Clone(p.axes)) })
	p.check(t, name+" InOrder", func(dst, src unsafe.Pointer) { p.elem.InOrder(dst, src, p.axes) })
	if len(p.axes) == 2 {
		p.check(t, name+" Block", func(dst, src unsafe.Pointer) { p.elem.CopyBlock(dst, src, p.axes[0], p.axes[1]) })
	}
}

// TestEmpty copies nothing.
func TestEmpty(t *testing.T) {
	for _, axes := range [][]Axis{{{0, 4, 4}}, {{3, 4, 4}, {0, 12, 12}}, {{0, 4, 8}, {5, 40, 4}, {300, 4000, 40}},
		{{5, 4, 40}, {0, 20, 4}}} {
		e := MoverOf(4)
		if n := New(e, axes).Tiles(); n != 0 {
			t.Errorf("%v: %d tiles", axes, n)
		}
		if len(axes) == 2 {
			e.CopyBlock(nil, nil, axes[0], axes[1])
		}
		e.InOrder(nil, nil, axes)
		e.Run(nil, nil, axes)
	}
}

// TestInOrder writes to the same address several times.
func TestInOrder(t *testing.T) {
	src := []uint32{1, 2, 3, 4, 5, 6}
	for _, tc := range []struct {
		axes []Axis
		want []uint32
	}{
		{[]Axis{{6, 0, 4}}, []uint32{6, 0, 0}},
		{[]Axis{{2, 0, 12}, {3, 4, 4}}, []uint32{4, 5, 6}},
		{[]Axis{{3, 4, 8}, {2, 4, 4}}, []uint32{1, 3, 5, 6}},
	} {
		dst := make([]uint32, len(tc.want))
		MoverOf(4).InOrder(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), tc.axes)
		if !slices.Equal(dst, tc.want) {
			t.Errorf("%v: %v, want %v", tc.axes, dst, tc.want)
		}
	}
}

// TestCoalesce merges axes that are contiguous on both sides.
func TestCoalesce(t *testing.T) {
	for _, tc := range []struct{ axes, want []Axis }{
		{[]Axis{{2, 48, 48}, {3, 16, 16}, {4, 4, 4}}, []Axis{{24, 4, 4}}},
		{[]Axis{{2, 48, 4}, {1, 9, 9}, {12, 4, 8}}, []Axis{{12, 4, 8}, {2, 48, 4}}},
		{[]Axis{{3, 4, 0}, {5, 12, 0}}, []Axis{{15, 4, 0}}},
		{[]Axis{{5, 0, 4}, {3, 4, 20}}, []Axis{{3, 4, 20}, {5, 0, 4}}},
		{[]Axis{{4, 4, -4}, {2, 16, -16}}, []Axis{{8, 4, -4}}},
		{[]Axis{{1, 4, 4}}, nil},
	} {
		if got := Coalesce(slices.Clone(tc.axes)); fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%v: %v, want %v", tc.axes, got, tc.want)
		}
	}
}

// TestInterleave transposes rows at arbitrary addresses; some are nil.
func TestInterleave(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		size, n, lanes := sizes[r.IntN(len(sizes))], r.IntN(40), 1+r.IntN(14)
		step := (lanes + r.IntN(3)) * size
		got, want := room(step*n+1), make([]byte, step*n+1)
		runs := make([]unsafe.Pointer, lanes)
		for l := range runs {
			data := room(n*size + 1)
			fillRandom(r, data)
			if r.IntN(9) == 0 {
				clear(data)
			} else {
				runs[l] = unsafe.Pointer(&data[0])
			}
			for k := range n {
				copy(want[k*step+l*size:][:size], data[k*size:][:size])
			}
		}
		Interleave(size, unsafe.Pointer(&got[0]), step, runs, n)
		if !bytes.Equal(got, want) {
			t.Fatalf("%d runs of %d elements of %d bytes, %d apart: wrong", lanes, n, size, step)
		}
	}
}
