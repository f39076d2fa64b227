package winograd

import (
	"fmt"
	"strconv"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// Transform is the code of one transform. It is immutable and may run on any number of goroutines.
type Transform struct {
	fn    *jit.Func
	isa   machine.ISA
	part  int
	tails int // operands of the tail
}

// Operands is the transform of tiles of pixels, of which those in the part are there and the others are 0, to points,
// for any number of channels that leaves so many, below [Lanes], over from whole vectors.
func (f Form) Operands(isa machine.ISA, p Part, over int) (*Transform, error) {
	key := "winograd " + isa.String() + " F" + strconv.Itoa(f.M) + " operands " + strconv.Itoa(p.Row) + ":" +
		strconv.Itoa(p.RowEnd) + " by " + strconv.Itoa(p.Col) + ":" + strconv.Itoa(p.ColEnd) + " over " + strconv.Itoa(over)
	return newTransform(key, isa, over, false, func() *block { return f.operandBlock(p) })
}

// Results is the transform of points to tiles of pixels, of which the first rows and columns are wanted, with a bias
// added if there is one, and the operations of a tail applied. Operands of these by tiles lie as the pixels do.
func (f Form) Results(isa machine.ISA, rows, cols int, bias bool, tail []tile.Tail, over int) (*Transform, error) {
	key := fmt.Sprintf("winograd %v F%d results %dx%d bias %v tail %v over %d", isa, f.M, rows, cols, bias, tail, over)
	t, err := newTransform(key, isa, over, true, func() *block { return f.resultBlock(rows, cols, bias, tail) })
	if err != nil {
		return nil, err
	}
	for _, x := range tail {
		switch x.Op {
		case tile.AddTile, tile.MulTile, tile.AddLanes, tile.MulLanes:
			t.tails = max(t.tails, x.Operand+1)
		}
	}
	return t, nil
}

func newTransform(key string, isa machine.ISA, over int, results bool, b func() *block) (*Transform, error) {
	fn, err := jit.Lookup(key, func(list bool) (jit.Code, error) {
		c, err := newCode(isa, over, results, list)
		if err != nil {
			return jit.Code{}, err
		}
		c.loops(b())
		return jit.Finish(&c.Assembler)
	})
	if err != nil {
		return nil, err
	}
	return &Transform{fn: fn, isa: isa, part: over}, nil
}

// Name tells what the transform is.
func (t *Transform) Name() string { return t.fn.Name() }

// Listing returns the code in the syntax of Go's assembler. It is made anew.
func (t *Transform) Listing() string { return t.fn.Listing() }

// Plane is where tiles lie: the address of the first one's first element, of pixels of the first one that is there, and
// the bytes from a row, a column and a tile to the next. Channels lie together.
type Plane struct {
	Ptr            unsafe.Pointer
	Row, Col, Tile int
}

// callVectors bounds what one call transforms, in vectors of tiles: it takes less than 50 us.
const callVectors = 512

// Run transforms tiles of so many channels. Points are written, and read, in whole vectors: each has room for them,
// and what lies there beside the channels is of no account. bias is the first channel's, and nil for a transform
// without one. a is memory that nobody else uses meanwhile, and has the operands of a tail, from [Tails] on. Addresses
// are trusted.
func (t *Transform) Run(a *jit.Args, to, from Plane, bias unsafe.Pointer, channels, tiles int) error {
	lanes := Lanes(t.isa)
	if channels%lanes != t.part {
		panic("winograd: Run for other channels than the code has")
	}
	a.N = channels / lanes * lanes * 4
	a.Row[target], a.Step[target], a.Step[tileOf+target] = to.Row, to.Col, to.Tile
	a.Row[source], a.Step[source], a.Step[tileOf+source] = from.Row, from.Col, from.Tile
	for i := Tails; i < Tails+t.tails; i++ {
		a.Step[i] = int(uintptr(a.Ptr[i]) + uintptr(a.Row[i]) - uintptr(to.Ptr))
	}
	once := max(1, callVectors*lanes/max(1, channels))
	for first := 0; first < tiles; first += once {
		a.Ptr[target], a.Ptr[source] = unsafe.Add(to.Ptr, first*to.Tile), unsafe.Add(from.Ptr, first*from.Tile)
		a.Ptr[biasAt] = bias
		a.Rows = min(once, tiles-first)
		if err := t.fn.Call(a); err != nil {
			return err
		}
	}
	return nil
}
