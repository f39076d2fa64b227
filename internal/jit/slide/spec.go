// Package slide makes machine code of windows that slide over pixels whose channels lie together, each channel for
// itself or for the few of its group: depthwise and grouped convolutions, for AVX-512 and AVX2 on amd64.
//
// A tile of results stays in vector registers, a vector of channels at a time. For each row of the window its weights
// are loaded once for the tile, and each element of the input once for all results of a row that it is under. What of
// the window is outside of the image is left out: a [Spec] says which rows and columns there are, and tiles at borders
// have code of their own.
//
// Of groups of several channels a vector has several. The windows slide once for each channel of a group, over vectors
// in which that channel stands in all lanes of its group: one instruction brings it there, for all results that a pixel
// is under.
//
// The additions of an element have one order, that of the group's channels, the window's rows and columns, each by one
// fused multiply-add: however results are cut into tiles, they have the same bits.
package slide

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// Spec is the code of a tile as data. Of pairs, rows are before columns. A Spec that was compiled must not change.
type Spec struct {
	Size   int // bytes of an element: 4 for float32, 8 for float64
	Bytes  int // of a vector of channels: 64, which is AVX-512, 32 or 16
	Group  int // channels of a group, of which a vector has whole ones: as many of the input as of the result
	Tile   [2]int
	Window [2]int
	Step   [2]int // of the window, from result to result
	Apart  [2]int // from an element of the window to the next

	// First and End are the rows and columns of the input that there are, counted from where the window of the tile's
	// first result begins.
	First, End [2]int
	// Told leaves it to calls how many rows of the window there are, for all rows of the tile alike. First[0] and
	// End[0] mean nothing then.
	Told bool

	In, Out         [2]int // bytes from a row to the next, and from a pixel to the next
	NextIn, NextOut int    // bytes from a tile to the next, in the input and in the result

	Bias bool
	// Touch asks for the lines of a tile's results before their sums, so that they are near when these are written.
	Touch bool
	// Tail is what follows the sum, in order. Operands by rows are none of a tile's here.
	Tail []tile.Tail
}

// Operands: entries of Ptr of [jit.Args]. Each begins Row[k] bytes behind Ptr[k]. In is the first element of the input
// that there is under the first tile, Weights the first vector of the window's first row that there is. Weights are by
// vectors of channels, of each the window's elements one behind another, for each channel of a group. Args.N is how
// many vectors of channels there are, and Args.Rows how many tiles, both 1 or more. Tail operand i is at Tails+i.
const (
	In = iota
	Weights
	Out
	Bias
	Tails
)

// Numbers: entries of Step.
const (
	Again      = iota // bytes by which the last vector begins before the end of the one before it
	WindowRows        // how many rows of the window there are, where calls tell
)

// registers returns how many vector registers there are.
func (s *Spec) registers(isa machine.ISA) int {
	if isa == machine.AVX512 {
		return 32
	}
	return 16
}

// shared is how many registers tell which channels stand where.
func (s *Spec) shared() int { return min(s.Group-1, 1) }

// check says what is wrong with a spec.
func (s *Spec) check(isa machine.ISA) error {
	sums := s.Tile[0]*s.Tile[1] + s.shared()
	switch {
	case isa < machine.AVX2:
		return fmt.Errorf("slide: no machine code for %v", isa)
	case s.Size != 4 && s.Size != 8 || s.Bytes != 16 && s.Bytes != 32 && s.Bytes != 64:
		return fmt.Errorf("slide: elements of %d bytes in vectors of %d", s.Size, s.Bytes)
	case s.Bytes == 64 && isa != machine.AVX512:
		return errors.New("slide: vectors of 64 bytes without AVX-512")
	case s.Group < 1 || s.Bytes/s.Size%s.Group != 0:
		return fmt.Errorf("slide: groups of %d channels in vectors of %d", s.Group, s.Bytes/s.Size)
	case min(s.Tile[0], s.Tile[1], s.Window[0], s.Window[1], s.Step[0], s.Step[1], s.Apart[0], s.Apart[1]) < 1:
		return fmt.Errorf("slide: a tile %v of windows %v by steps %v of elements %v apart", s.Tile, s.Window, s.Step,
			s.Apart)
	case sums+2 > s.registers(isa):
		return fmt.Errorf("slide: a tile %v in %d registers", s.Tile, s.registers(isa))
	}
	if err := s.checkDistances(); err != nil {
		return err
	}
	for i, t := range s.Tail {
		if t.Op > tile.Scale || t.Op == tile.AddRows || t.Op == tile.MulRows || t.Operand < 0 ||
			t.Operand >= jit.MaxOperands-Tails {
			return fmt.Errorf("slide: operation %d at the end is %+v", i, t)
		}
	}
	return nil
}

// Compile makes the code of a spec, or finds that which somebody has of an equal one. Code can be made for AVX2 and
// AVX-512, whatever this processor is, and run where it has them. An error says what the spec has that cannot be.
//
// Calls compute tiles. Their arguments say where the operands are; they are left as they are, Spill aside. Operands are
// trusted: of the input only elements of windows are read, and of the result only elements of tiles are written, some
// of them twice where the last vector begins before the end of the one before it. The result may be the operand of a
// tail, unless vectors do so, and else shares no memory with operands.
func Compile(s *Spec, isa machine.ISA) (*jit.Func, error) {
	if err := s.check(isa); err != nil {
		return nil, err
	}
	return jit.Lookup(fmt.Sprintf("slide %v %+v", isa, *s), func(list bool) (jit.Code, error) {
		g := newGen(s, isa, list)
		g.emit()
		return jit.Finish(&g.Assembler)
	})
}
