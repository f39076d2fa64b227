package conv

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// directShape is how a direct convolution is cut into register tiles.
type directShape struct {
	planes  bool // the input is in planes
	deep    bool // windows have planes, too
	lanes   int  // output channels of a vector
	vectors int  // of a block
	rows    int  // of a tile, at most
	cut     directCut
	unit    bool // the matrix unit multiplies
}

// directCut tells what the rows of a tile are.
type directCut uint8

const (
	// alongRows: pixels of one row of the result, by the rows of the window that there are.
	alongRows directCut = iota
	// allTaps: pixels of a small image wherever they are, by all of the window.
	allTaps
	// flat: pixels that are at the same places of the input.
	flat
	// byBands: pixels of one row of the result, or of two, for the matrix unit.
	byBands
)

// smallImage is how many output pixels an image has whose rows are too short to make tiles of.
const (
	smallImage = 64
	shortTile  = 7
	// mostVectors are those of a block, and nearPanel its weight at most where it has more than two: each tile reads
	// all of it, and tiles of more vectors have fewer rows, so that it has to stay in the nearest cache.
	mostVectors = 6
	nearPanel   = 32 << 10
)

// block is the output channels that are computed at once.
func (f *directShape) block() int { return f.vectors * f.lanes }

// windowLoop is the loop over the window's rows: within that over channels, where the input is in planes, and within
// that over the window's planes, where it has some.
func (f *directShape) windowLoop() (loop int) {
	if f.planes {
		loop++
	}
	if f.deep {
		loop++
	}
	return loop
}

// newDirectShape chooses by sizes alone. The sums of a tile are at least ten, where there are as many, since each
// multiplication waits for the one before on the same sum.
func newDirectShape(s *convShape, d tensor.DType, planes bool) directShape {
	f := directShape{planes: planes, deep: s.deep.in > 0, lanes: 32 / d.Size()}
	registers := 16
	if machine.Instructions() == machine.AVX512 {
		f.lanes, registers = 64/d.Size(), 32
	}
	pixels := s.ow
	switch {
	case s.pointwise():
		f.cut, pixels = flat, s.oh*s.ow
		if !planes {
			pixels *= s.n
		}
	case !f.deep && s.ow <= shortTile && s.oh*s.ow <= smallImage:
		f.cut, pixels = allTaps, s.oh*s.ow
	}
	most := kit.DivUp(s.og(), f.lanes)
	f.vectors = min(2, most)
	switch {
	case most == 3 && registers == 32:
		f.vectors = 3
	case pixels >= shortTile && registers == 32:
		f.vectors = fewestInstructions(most, pixels, f.lanes*d.Size()*s.depth())
	case pixels <= 2:
		f.vectors = min(most, registers/4)
	case pixels < shortTile:
		f.vectors = min(most, 4, registers/4-1)
	}
	f.rows = rowsBeside(f.vectors, registers)
	return f
}

// rowsBeside is how many rows of so many sums registers hold beside the vectors and two elements.
func rowsBeside(vectors, registers int) int {
	rows := (registers - 2 - vectors) / vectors
	if vectors == 1 {
		rows -= registers / 32 // 28 rather than 29 divides more sizes
	}
	return rows
}

// fewestInstructions returns how many vectors a block has, of 32 registers: where tiles of all blocks have the fewest
// instructions a term, loads of elements and of vectors beside multiplications. So channels that do not fill blocks of
// two are not left with tiles of one vector, which load as much as they multiply. A vector's panel has so many bytes.
func fewestInstructions(most, pixels, panel int) (best int) {
	least := math.MaxInt
	for v := min(2, most); v <= min(most, mostVectors) && (v <= 2 || v*panel <= nearPanel); v++ {
		n := 0
		for _, kind := range split(pixels, rowsBeside(v, 32)).kinds() {
			rows := kind.n / kind.count
			of := func(vectors int) int { return kind.count * max(rows*vectors+rows+vectors, 2*sumLatency) }
			n += most / v * of(v)
			if rest := most % v; rest > 0 {
				n += of(rest)
			}
		}
		if n < least {
			least, best = n, v
		}
	}
	return best
}

// pieces are n parted into so many, as even as they can be: the longer ones first. There is none of nothing.
type pieces struct{ n, count int }

// split parts n into pieces of at most so many.
func split(n, most int) pieces { return pieces{n, kit.DivUp(n, most)} }

// at is where piece i begins.
func (p pieces) at(i int) int {
	if p.count == 0 {
		return 0
	}
	return i*(p.n/p.count) + min(i, p.n%p.count)
}

// size is that of piece i.
func (p pieces) size(i int) int { return p.at(i+1) - p.at(i) }

// kinds are the longer pieces and the others, each of one size.
func (p pieces) kinds() (list []pieces) {
	if p.count == 0 {
		return nil
	}
	short, longer := p.n/p.count, p.n%p.count
	if longer > 0 {
		list = append(list, pieces{longer * (short + 1), longer})
	}
	return append(list, pieces{(p.count - longer) * short, p.count - longer})
}

// The inner kernels of direct convolution, as profiles name them.
const (
	directTaps  = "direct.taps"  // a multiplication and an addition of float32, where registers are full of them
	directFours = "direct.bytes" // the multiplications of an element of bytes or words, and the addition of their sum
	directBegin = "direct.begin" // to begin a direct convolution
	directTiles = "direct.tiles" // to begin and to store a tile
)

// directWork adds what a direct convolution takes, by the inner kernel that multiplies: tiles of few sums wait for
// their own results, or for elements, and count as if they had more. Windows that slide over groups are another thing.
func (s *convShape) directWork(w *graph.Work, kernel string, d tensor.DType, planes bool) {
	if !planes && kernel == directTaps && s.slidesGroups(d) {
		s.groupWork(w, d)
		return
	}
	f := newDirectShape(s, d, planes)
	var tiles, turns float64 // turns: two multiplications of vectors
	add := func(p pieces, n, taps float64) {
		whole, rest := s.og()/f.block(), s.og()%f.block()
		for _, kind := range p.kinds() {
			rows := kind.n / kind.count
			of := func(blocks, channels int) {
				v := kit.DivUp(channels, f.lanes)
				each := n * float64(kind.count*blocks)
				tiles += each
				turns += each * taps * float64(s.cg) * max(float64(rows*v)/2, float64(rows+v)/2, sumLatency)
			}
			of(whole, f.block())
			of(min(rest, 1), rest)
		}
	}
	groups, images := float64(s.groups), s.n
	each := func(step, pad, dilation, size, window, outputs int) float64 {
		return float64(seen(step, pad, dilation, size, window, outputs)) / float64(outputs)
	}
	taps := func() float64 { // of a window, on average
		planes := 1.0
		if v := &s.deep; v.in > 0 {
			planes = each(v.step, v.pad, v.dilated, v.in, v.k, v.out)
		}
		return planes * each(s.sh, s.ph, s.dh, s.h, s.kh, s.oh) * each(s.sw, s.pw, s.dw, s.w, s.kw, s.ow)
	}
	switch pixels := s.oh * s.ow; f.cut {
	case flat:
		if !planes {
			images, pixels = 1, s.n*pixels
		}
		add(split(pixels, f.rows), groups*float64(images), 1)
	case allTaps:
		add(split(pixels, f.rows), groups*float64(images), taps())
	case alongRows:
		add(split(s.ow, f.rows), groups*float64(images*s.rowsOut()), taps())
	}
	multiply.Stored(w, s.call)
	multiply.Paneled(w, s.call, 1, s.n*s.pixelsOut())
	w.Wait(directBegin, 1)
	if !s.call.Constant(1) {
		w.Do(multiply.PackRow, float64(s.o*s.depth()))
	}
	if page := float64(min(s.pixelsIn()*d.Size(), pageBytes)) / pageBytes; planes && float64(s.cg)*page > nearPages {
		turns += tiles * float64(s.cg) * pageTurns
	}
	w.Do(kernel, 2*turns*float64(f.lanes*d.Size()/4))
	w.Do(directTiles, tiles)
	w.Flops = 2 * float64(s.n*s.o*s.pixelsOut()) * float64(s.depth())
}

// sumLatency is the turns after which a sum is there for the next multiplication.
const sumLatency = 4

// Pages of memory that a core finds at once, and the turns that it takes to find another one: a tile goes through a row
// of every plane.
const (
	pageBytes = 4096
	nearPages = 112
	pageTurns = 6
)
