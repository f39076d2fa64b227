package conv

import (
	"slices"

	"github.com/graphrun/graphrun/internal/jit/slide"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// The tiles of results that stay in registers: 4 by 4, as far as there are registers, and wider where rows of 7 or 14
// would be cut unevenly, of depthwise convolutions: of groups each channel goes through all that a tile reads, which is
// nearer where tiles are square. Windows of many elements, of which code would be long, are for tiles of one row.
const (
	tileRows     = 4
	tileCols     = 4
	evenCols     = 7
	longCols     = 8
	longWindow   = 49
	rolledRows   = 5        // rows of windows from which on they are a loop, where there are all of them
	groupInputs  = 4        // registers for pixels of which a channel goes to all lanes of a group
	blockWeights = 16 << 10 // bytes of weights of a block of channels: half of the nearest cache
)

const (
	// slideCallMACs and slideCallBytes bound a call, which takes less than 50 us: it was never slower than 30
	// multiplications and additions in a nanosecond, or 10 bytes.
	slideCallMACs  = 1 << 20
	slideCallBytes = 1 << 18
	// slideGrain is about the multiplications and additions of a chunk.
	slideGrain = 4 * machine.DirectMACGrain
	// slideMove is how many multiplications and additions take as long as moving an element.
	slideMove = 8
	// touchVectors and touchBytes are from which on tiles ask for the lines of their results: vectors of channels, and
	// bytes that are read and written.
	touchVectors = 4
	touchBytes   = 3 * machine.L2Bytes / 2
	// fewStrips are the rows of tiles of an image that is cut by channels.
	fewStrips = 2
)

// slideShape is how the results are cut of a convolution by pixels whose windows slide, channel by channel: into tiles
// of pixels, and into blocks of vectors of channels. It depends on sizes and the instruction set alone, and decides no
// bits.
type slideShape struct {
	size, bytes    int // of an element and of a vector
	lanes, vectors int
	again          int // channels that the last vector has in common with the one before it
	tile           [2]int
	block, blocks  int // vectors of a block
}

// newSlideShape returns false where there are fewer channels than the shortest vector has lanes, or where vectors would
// not have several whole groups of them.
func newSlideShape(s *convShape, size int) (f slideShape, ok bool) {
	f.size, f.bytes = size, 32
	registers, wide := 16, false
	if machine.Instructions() == machine.AVX512 {
		f.bytes, registers, wide = 64, 32, true
	}
	for f.bytes > 16 && s.c*size < f.bytes {
		f.bytes /= 2
	}
	f.lanes = f.bytes / size
	if s.c < f.lanes || s.cg > 1 && (s.cg == f.lanes || f.lanes%s.cg != 0) {
		return f, false
	}
	f.vectors = kit.DivUp(s.c, f.lanes)
	f.again = f.vectors*f.lanes - s.c
	rows, cols := tileRows, tileCols
	if wide && s.cg == 1 && (s.ow == evenCols || s.ow == 2*evenCols) {
		cols = evenCols
	}
	if s.cg > 1 {
		registers -= groupInputs
	}
	switch {
	case s.kh*s.kw > longWindow && wide:
		rows, cols = 1, longCols
	case s.kh*s.kw > longWindow:
		rows = 1
	default:
		rows = min(rows, max(1, (registers-1-s.kw)/cols))
	}
	f.tile = [2]int{rows, cols}
	most := max(1, blockWeights/(s.depth()*f.bytes))
	f.blocks = kit.DivUp(f.vectors, most)
	f.block = kit.DivUp(f.vectors, f.blocks)
	f.blocks = kit.DivUp(f.vectors, f.block)
	return f, true
}

// starts are the first channels of vectors.
func (f *slideShape) starts() []int {
	list := make([]int, f.vectors)
	for i := range list {
		list[i] = i * f.lanes
	}
	list[f.vectors-1] -= f.again
	return list
}

// slideCall is a call of machine code within an image and a block.
type slideCall struct {
	code            int
	in, out, weight int // bytes from where the image, its result and the block's weights begin
	rows, tiles     int // of the window, where code goes by them; of the code
}

// side is a tile's results along one dimension, and what there is of the input under their windows: from first to end,
// counted from where the first window begins. Sides of one kind differ but in where they are.
type side struct{ at, n, first, end, kind int }

// sides cuts a dimension evenly into so many tiles. It returns the first side of each kind as well.
func sides(results, tiles, step, padding, apart, window, size int) (list, kinds []side) {
	even := machine.Cut{Units: results, Chunks: tiles}
	list = make([]side, even.Chunks)
	for i := range list {
		at, next := even.Range(i)
		begin := at*step - padding
		first, end := validRange(begin, 1, size, (next-at-1)*step+(window-1)*apart+1)
		if first >= end {
			first, end = 0, 0
		}
		x := side{at: at, n: next - at, first: first, end: end}
		x.kind = slices.IndexFunc(kinds, func(k side) bool { return k.n == x.n && k.first == x.first && k.end == x.end })
		if x.kind < 0 {
			x.kind = len(kinds)
			kinds = append(kinds, x)
		}
		list[i] = x
	}
	return list, kinds
}

// cut makes the specs of an image's tiles. Rows of tiles are of an even number, so that each of two workers has half of
// the image's rows, as it has in other steps. Its calls are found strip by strip when these are computed (see callsOf).
func (t *depthwiseSlide) cut() {
	s, f := t.s, &t.slideShape
	var across, down []side
	rows := kit.DivUp(s.oh, f.tile[0])
	if rows > fewStrips {
		rows = min(s.oh, rows+rows%2)
	}
	t.across, across = sides(s.ow, kit.DivUp(s.ow, f.tile[1]), s.sw, s.pw, s.dw, s.kw, s.w)
	t.down, down = sides(s.oh, rows, s.sh, s.ph, s.dh, s.kh, s.h)
	for _, y := range down {
		var codes []int
		for _, x := range across {
			spec := t.spec(y, x)
			code := slices.IndexFunc(t.specs, func(known *slide.Spec) bool { return sameSpec(known, spec) })
			if code < 0 {
				code = len(t.specs)
				t.specs = append(t.specs, spec)
			}
			codes = append(codes, code)
		}
		t.kinds = append(t.kinds, codes)
	}
}

// callsOf appends the calls of a strip: one for tiles that follow one another and have the same code.
func (t *depthwiseSlide) callsOf(calls []slideCall, strip int) []slideCall {
	down, begin := t.down[strip], len(calls)
	for _, x := range t.across {
		c := t.call(down, x)
		if i := len(calls) - 1; i >= begin {
			p, spec := &calls[i], t.specs[c.code]
			if p.code == c.code && p.rows == c.rows && p.weight == c.weight && p.tiles < t.most(down.n*x.n) &&
				p.in+p.tiles*spec.NextIn == c.in && p.out+p.tiles*spec.NextOut == c.out {
				p.tiles++
				continue
			}
		}
		calls = append(calls, c)
	}
	return calls
}

// most bounds the tiles of a call, of so many results each.
func (t *depthwiseSlide) most(results int) int {
	s, f := t.s, &t.slideShape
	work := results * f.block
	return max(1, min(slideCallMACs/(work*s.depth()*f.lanes), slideCallBytes/(work*f.bytes*(1+s.sh*s.sw))))
}

// call is that of a tile.
func (t *depthwiseSlide) call(down, across side) slideCall {
	s, f := t.s, &t.slideShape
	code := t.kinds[down.kind][across.kind]
	c := slideCall{code: code, out: (down.at*s.ow + across.at) * t.pitch * f.size, tiles: 1}
	row, col := down.at*s.sh-s.ph+down.first, across.at*s.sw-s.pw+across.first
	told := t.specs[code].Told
	if told {
		first, end := validRange(down.at*s.sh-s.ph, s.dh, s.h, s.kh)
		c.rows, c.weight = max(0, end-first), first*s.kw*f.bytes
		row = down.at*s.sh - s.ph + first*s.dh
	}
	if c.rows > 0 || !told && down.end > down.first {
		c.in = (row*s.w + min(max(col, 0), s.w-1)) * s.inPixel(false) * f.size
	} else {
		c.weight = 0
	}
	return c
}

// spec is the code of a tile.
func (t *depthwiseSlide) spec(down, across side) *slide.Spec {
	s, f := t.s, &t.slideShape
	pixel, result := s.inPixel(false)*f.size, t.pitch*f.size
	p := &slide.Spec{Size: f.size, Bytes: f.bytes, Group: s.cg, Tile: [2]int{down.n, across.n},
		Window: [2]int{s.kh, s.kw}, Step: [2]int{s.sh, s.sw}, Apart: [2]int{s.dh, s.dw},
		First: [2]int{down.first, across.first}, End: [2]int{down.end, across.end},
		In: [2]int{s.w * pixel, pixel}, Out: [2]int{s.ow * result, result},
		NextIn: across.n * s.sw * pixel, NextOut: across.n * result, Bias: s.hasBias, Tail: t.tail.steps,
		Touch: t.touches()}
	whole := down.first == 0 && down.end == (down.n-1)*s.sh+(s.kh-1)*s.dh+1
	if p.Told = down.n == 1 || whole && s.kh >= rolledRows; p.Told {
		p.First[0], p.End[0] = 0, 0
	}
	return p
}

// touches reports whether tiles ask for the lines of their results before the sums: where the second cache does not
// hold them beside what is read, so that they are far when they are written, and pixels are of more lines than the
// processor asks for by itself.
func (t *depthwiseSlide) touches() bool {
	s, f := t.s, &t.slideShape
	moved := (s.h*s.w + s.oh*s.ow) * s.c * f.size
	return f.bytes == machine.LineBytes && f.vectors >= touchVectors && moved > touchBytes
}

func sameSpec(a, b *slide.Spec) bool {
	return a.Tile == b.Tile && a.First == b.First && a.End == b.End && a.Told == b.Told && slices.Equal(a.Tail, b.Tail)
}
