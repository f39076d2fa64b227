package depthwise

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	amd64 "github.com/graphrun/graphrun/internal/jit/target/amd64/writer"
	arm64 "github.com/graphrun/graphrun/internal/jit/target/arm64/writer"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// ByteSpec specifies code that computes rows of depthwise convolutions with quantized values. The input elements are
// bytes, the weights are int8, and the sums are int32, which wrap around. A result is one output pixel, with
// [ByteChannels] channels. With Sums, the sums are stored. Otherwise they are scaled and rounded to bytes. In fields
// with two numbers, rows precede columns. A ByteSpec must not be modified after it was compiled.
//
// The instructions VPDPBUSD, SDOT and USDOT multiply and add up the four bytes of a 32-bit lane. The code therefore
// gathers, for each channel, the bytes of four consecutive window rows of a column into a lane: a row group. With a
// window of three rows, for example, a lane has a byte of each row and 0. On amd64 without VPDPBUSD (WordProducts), a
// row group is two rows, and each byte is extended to 16 bits.
//
// Unpack instructions gather the bytes, but only within each 16 bytes of a vector. The channels are therefore in
// another order in the lanes: the intermediate order, which [ByteChannel] returns. The weights, initial sums and scales
// must have this order. The pack instructions that narrow the results restore the original order.
type ByteSpec struct {
	Tile     int    // number of results of a row that are computed together in registers, at most MaxByteTile
	Window   [2]int // rows and columns
	Stride   [2]int // stride of the window
	Dilation [2]int // dilation of the window

	InStride, OutStride [2]int // distances in bytes between rows and between pixels
	Overlap             int    // number of results of the last tile that overlap the tile before it

	// FlipSigns makes the code flip the sign bits of the input. SignedIn is true if the bytes are signed after that; it
	// must equal the result of [tile.ReadsSigned]. Signed selects signed bytes as results.
	FlipSigns, SignedIn, Signed bool

	// Sums selects the int32 sums as elements of the results, without scales and zero point.
	Sums bool
	// WordProducts selects products of 16-bit words, with int16 weights, for AVX2 without VPDPBUSD. An instruction adds up
	// two of these products.
	WordProducts bool
	// Channels is the number of channels that AVX2 or NEON code writes if it is less than [ByteChannels], else 0. The
	// code always reads [ByteChannels] channels; the contents of the remaining channels do not matter.
	Channels int
}

// The operands of a [ByteSpec] are In, Weights, Out, Bias and these two. Scales are float32. ZeroPoint, the zero point
// of the result, is an int32. The weights are ordered by columns of the window, then by row groups, with four vectors
// for each row group. The initial sums (Bias) and the scales are four vectors each. Args.InnerCount is the number of
// tiles in a row of results, and Args.Rows the number of these rows; both are at least 1.
const (
	Scales = FirstEpilogueOperand + iota
	ZeroPoint
)

// ChannelMask is the index in Step of a bit mask of the channels that AVX-512 code reads and writes; bit i is channel
// i.
const ChannelMask = 0

// CompileBytes compiles a spec, or returns the existing code of an equal spec, as [Compile] does. A call computes rows
// of results for [ByteChannels] channels, or for fewer channels with ByteSpec.Channels or the argument ChannelMask.
func CompileBytes(spec *ByteSpec, cpu machine.Features) (*jit.Func, error) {
	if err := spec.check(cpu); err != nil {
		return nil, err
	}
	return jit.Lookup(fmt.Sprintf("depthwise bytes %v %+v", cpu, *spec), func(withListing bool) (jit.Code, error) {
		g := newByteGen(spec, cpu, withListing)
		g.emit()
		return g.Finish()
	})
}

// SupportsBytes reports whether there is code for a [ByteSpec].
func SupportsBytes(cpu machine.Features) bool { return tile.SupportsIntegers(cpu) }

// ByteChannels returns the number of channels that the code of a [ByteSpec] computes at once.
func ByteChannels(cpu machine.Features) int {
	_, vectorBytes := target.VectorRegisters(cpu)
	return vectorBytes
}

// ByteChannel returns the channel at an index of the intermediate order, see [ByteSpec]. Quarter q of the indices has
// channels 4q to 4q+3 of every 16 channels. Of 64 channels, for example, quarter 0 has 0-3, 16-19, 32-35 and 48-51, and
// quarter 1 has 4-7, 20-23, 36-39 and 52-55.
func ByteChannel(cpu machine.Features, index int) int {
	quarterLen := ByteChannels(cpu) / 4
	quarter, group := index/quarterLen, index%quarterLen/4 // group: index of a group of 16 channels
	return 16*group + 4*quarter + index%4
}

// MaxByteTile returns the maximum number of results whose sums fit into the registers.
func MaxByteTile(cpu machine.Features) int {
	if cpu.Has(machine.NEON) {
		return arm64.MaxByteResults
	}
	return amd64.MaxByteResults(cpu)
}

// RowsPerGroup returns the number of window rows in a row group, whose products one instruction adds up.
func (s *ByteSpec) RowsPerGroup() int {
	if s.WordProducts {
		return 2
	}
	return 4
}

// RowGroups returns the number of row groups of the window. The last one may have fewer than RowsPerGroup rows.
func (s *ByteSpec) RowGroups() int { return (s.Window[0] + s.RowsPerGroup() - 1) / s.RowsPerGroup() }

// InstructionCount returns the approximate number of instructions for a tile.
func (s *ByteSpec) InstructionCount() int {
	span := (s.Tile-1)*s.Stride[1] + (s.Window[1]-1)*s.Dilation[1] + 1
	// At most the span: with dilation or a long stride, windows skip columns of the span.
	columns := min(span, s.Tile*s.Window[1])
	load := 8 + s.Window[0] // for a column and row group: loads of pixels, and 8 that interleave them
	multiply := 4           // for a window column, row group and result: one for each of four sums
	if s.WordProducts {
		load, multiply = 8, 8
	}
	const store = 24 // for a result
	return s.RowGroups()*(load*columns+multiply*s.Tile*s.Window[1]) + store*s.Tile
}

// check returns an error if a spec is invalid.
func (s *ByteSpec) check(cpu machine.Features) error {
	isAVX2 := !cpu.Has(machine.Vector512) && !cpu.Has(machine.NEON) // of the processors that SupportsBytes accepts
	switch {
	case !SupportsBytes(cpu), s.WordProducts && !isAVX2, tile.ReadsSigned(cpu, s.SignedIn) != s.SignedIn:
		return fmt.Errorf("depthwise: there is no code for products of bytes with WordProducts %v and SignedIn %v on %v",
			s.WordProducts, s.SignedIn, cpu)
	case s.Channels < 0 || s.Channels > 0 && (cpu.Has(machine.Vector512) || s.Channels >= ByteChannels(cpu)):
		return fmt.Errorf("depthwise: Channels is %d: want 0 or, without AVX-512, less than %d; features: %v", s.Channels,
			ByteChannels(cpu), cpu)
	case s.Tile < 1 || s.Tile > MaxByteTile(cpu) || s.Overlap < 0 || s.Overlap >= s.Tile:
		return fmt.Errorf("depthwise: Tile is %d and Overlap is %d: want 1 to %d, and 0 to Tile-1", s.Tile, s.Overlap,
			MaxByteTile(cpu))
	case min(s.Window[0], s.Window[1], s.Stride[0], s.Stride[1], s.Dilation[0], s.Dilation[1]) < 1:
		return fmt.Errorf("depthwise: Window %v, Stride %v and Dilation %v must be positive", s.Window, s.Stride, s.Dilation)
	}
	return s.checkDistances()
}
