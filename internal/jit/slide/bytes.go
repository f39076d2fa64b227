package slide

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
)

// ByteChannels is how many channels of bytes code for an instruction set computes at once.
func ByteChannels(isa machine.ISA) int {
	if isa == machine.AVX512 {
		return 64
	}
	return 32
}

// Bytes is the code of rows of quantised results as data: windows of bytes, each channel for itself, times int8, whose
// sums are int32, wrap, and are scaled and rounded to bytes, unless they are what is wanted. Of pairs, rows are before
// columns. A spec that was compiled must not change.
//
// Four bytes of a channel that are above one another are brought side by side, which is what VPDPBUSD multiplies and
// adds up, or two of them as words. They stay within 16 bytes, so packing the results brings them into order again.
// Weights, what sums begin with and scales are in the order of those groups: [ByteChannel].
type Bytes struct {
	Tile   int    // results of a row that stay in registers: MaxByteTile at most
	Window [2]int // rows and columns
	Step   [2]int // of the window, from result to result
	Apart  [2]int // from an element of the window to the next

	In, Out [2]int // bytes from a row to the next, and from a pixel to the next
	Again   int    // results of the last tile that overlap the tile before it

	// Flip says that the input has a sign: 128 is added to its bytes. Signed says that results have.
	Flip, Signed bool

	// Sums says that sums are the result, int32 each; there are neither scales nor a zero point.
	Sums bool
	// Words says that pairs of words are multiplied, and weights are int16: of AVX2, where it has no VPDPBUSD.
	Words bool
	// Channels is how many there are where AVX2 has fewer than it computes at once; else 0. It reads all of them,
	// whatever they are, and writes those that there are.
	Channels int
}

// MaxByteTile is how many results there are registers for.
func MaxByteTile(isa machine.ISA) int {
	if isa == machine.AVX512 {
		return 6
	}
	return 2
}

// Rows is how many rows of a window an instruction multiplies and adds up.
func (s *Bytes) Rows() int {
	if s.Words {
		return 2
	}
	return 4
}

// Operands of code of bytes, beside In, Weights, Out and Bias: scales of float32, and the zero point of the result, an
// int32. Weights are by columns of the window, of each by groups of rows, of each four vectors; what sums begin with,
// and scales, are four vectors. Args.N is how many tiles a row has, and Args.Rows how many rows, both 1 or more.
const (
	Scales = Tails + iota
	Point
)

// Channels is the entry of Step that has a bit for each of the 64 channels that there is, with AVX-512.
const Channels = 0

// ByteChannel is the channel, of those that are computed at once, that is at a place of what is in the order of groups.
func ByteChannel(isa machine.ISA, place int) int {
	quarter := ByteChannels(isa) / 4
	return place%quarter/4*16 + place/quarter*4 + place%4
}

// Groups is how many groups there are of a window's rows.
func (s *Bytes) Groups() int { return (s.Window[0] + s.Rows() - 1) / s.Rows() }

// Uops is about how many instructions a tile takes.
func (s *Bytes) Uops() int {
	columns := (s.Tile-1)*s.Step[1] + (s.Window[1]-1)*s.Apart[1] + 1
	if seen := s.Tile * s.Window[1]; seen < columns {
		columns = seen
	}
	if s.Words {
		return s.Groups()*(8*columns+8*s.Tile*s.Window[1]) + 24*s.Tile
	}
	return s.Groups()*(columns*(8+s.Window[0])+4*s.Tile*s.Window[1]) + 24*s.Tile
}

func (s *Bytes) check(isa machine.ISA) error {
	switch {
	case isa < machine.AVX2 || isa == machine.AVX512 && s.Words:
		return fmt.Errorf("slide: no machine code that multiplies bytes, words %v, for %v", s.Words, isa)
	case s.Channels < 0 || s.Channels > 0 && (isa == machine.AVX512 || s.Channels >= ByteChannels(isa)):
		return fmt.Errorf("slide: %d channels of bytes for %v", s.Channels, isa)
	case s.Tile < 1 || s.Tile > MaxByteTile(isa) || s.Again < 0 || s.Again >= s.Tile:
		return fmt.Errorf("slide: tiles of %d results of bytes, of which the last has %d again", s.Tile, s.Again)
	case min(s.Window[0], s.Window[1], s.Step[0], s.Step[1], s.Apart[0], s.Apart[1]) < 1:
		return fmt.Errorf("slide: windows %v of bytes by steps %v of elements %v apart", s.Window, s.Step, s.Apart)
	}
	return s.checkDistances()
}

// CompileBytes makes the code of a spec, or finds that which somebody has of an equal one, as [Compile] does. Calls
// compute rows of results for [ByteChannels], or as many of them as they say; the processor must have the instruction.
func CompileBytes(s *Bytes, isa machine.ISA) (*jit.Func, error) {
	if err := s.check(isa); err != nil {
		return nil, err
	}
	return jit.Lookup(fmt.Sprintf("slide bytes %v %+v", isa, *s), func(list bool) (jit.Code, error) {
		g := newByteGen(s, isa, list)
		g.emit()
		return jit.Finish(&g.Assembler)
	})
}
