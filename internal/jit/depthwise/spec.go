// Package depthwise generates machine code for depthwise and grouped convolutions with adjacent channels (NHWC layout).
// [Compile] generates code for floats from a [Spec] and [CompileBytes] for quantized values from a [ByteSpec], for
// AVX-512, AVX2 and NEON. With small groups, the matrix products of a grouped convolution are too small to be
// efficient. The generated code instead slides the window over the pixels and computes all channels of a vector at
// once.
//
// The code computes tiles of results. The sums of a tile stay in vector registers, one vector of channels at a time.
// The code processes the window row by row. It loads an element of the input once for all results of a row whose
// windows contain the element. For example, a tile of 1x4 results with a window of 3x3 and stride 1 reads 3x6 elements
// of the input. An element in column 2 is loaded once for the first three results. If enough registers are free, the
// code loads a weight once for each tile. If all weights of the window fit into registers, the code also loads an
// element only once for all rows of results. The parts of the window outside the image are skipped. A [Spec] has the
// range of existing rows and columns, so that tiles at the borders have their own code.
//
// In a grouped convolution with several channels in a group, a vector contains several groups. The window then slides
// once for each channel of a group. A permutation broadcasts this channel of each group to all lanes of the group. The
// broadcast channels are multiplied by the weights of all windows that contain the pixel. For example, with groups of
// two channels, the pixel a b c d becomes a a c c for channel 0, and then b b d d for channel 1.
//
// The sum of a result has a fixed order: channels of the group, then rows of the window, then columns, with one fused
// multiply-add for each element. Results therefore do not depend on the division into tiles.
package depthwise

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// Spec specifies code that computes tiles of results. All tiles have the same size, and the same parts of their windows
// are inside the image. In fields with two numbers, rows precede columns. A Spec must not be modified after it was
// compiled.
type Spec struct {
	Size        int    // bytes of an element: 4 for float32, 8 for float64
	VectorBytes int    // bytes of a vector: 64 (AVX-512), 32 (AVX2) or 16
	Group       int    // channels of a group, the same for input and result; it divides the lanes of a vector
	Tile        [2]int // rows and columns of results that are computed together in registers
	Window      [2]int // rows and columns of weights
	Stride      [2]int // stride of the window
	Dilation    [2]int // dilation of the window

	// Rows First[0] to End[0]-1 and columns First[1] to End[1]-1 of the input exist. They are counted from the first row
	// and column of the window of the tile's first result.
	First, End [2]int
	// RowsFromCall makes the number of existing window rows an argument of the call (WindowRows). The windows of all
	// rows of the tile then have this number of existing rows, and First[0] and End[0] are ignored.
	RowsFromCall bool

	InStride, OutStride     [2]int // distances in bytes between rows and between pixels
	InTileStep, OutTileStep int    // distances in bytes between tiles

	Bias bool // sums start with the operand Bias; otherwise with 0
	// PrefetchResult prefetches the cache lines of a tile's results before the sums are computed.
	PrefetchResult bool
	// Epilogue lists the operations after the sum, in order. Operands by rows are not supported.
	Epilogue []tile.EpilogueStep
}

// Operands: indices into Ptr and Row of [jit.Args]. Operand k starts Row[k] bytes after Ptr[k]. In starts at the first
// existing element of the input in the windows of the first tile. Weights starts at the weights of the first row of the
// window or, with RowsFromCall, of its first existing row. The weights are ordered by vectors of channels, then by
// channels of a group, then by elements of the window. Args.InnerCount is the number of vectors of channels, and
// Args.Rows the number of tiles; both are at least 1. Operand i of the epilogue has the index FirstEpilogueOperand+i.
const (
	In = iota
	Weights
	Out
	Bias
	FirstEpilogueOperand // the index of operand 0 of the epilogue
)

// Numbers: indices into Step of [jit.Args].
const (
	Overlap    = iota // bytes by which the last vector overlaps the vector before it
	WindowRows        // number of existing rows of the window, for a Spec with RowsFromCall
)

// Compile compiles a spec, or returns the existing code of an equal spec. It generates code for any cpu; only a
// processor with these features can execute it. The error of an invalid spec names the unsupported part.
//
// A call computes the tiles of its [jit.Args]. It modifies only their field Spill. Addresses are not checked. The code
// reads only those elements of the input that are in windows, and writes only the elements of tiles. If the last vector
// overlaps the vector before it, the code writes the common elements twice. The result must not share memory with an
// operand. There is one exception: if vectors do not overlap, an operand of the epilogue may be the result itself.
func Compile(spec *Spec, cpu machine.Features) (*jit.Func, error) {
	if err := spec.check(cpu); err != nil {
		return nil, err
	}
	return jit.Lookup(fmt.Sprintf("depthwise %v %+v", cpu, *spec), func(withListing bool) (jit.Code, error) {
		g := newGen(spec, cpu, withListing)
		g.emit()
		return g.Finish()
	})
}

// check returns an error if a spec is invalid.
func (s *Spec) check(cpu machine.Features) error {
	registers, longest := Registers(cpu)
	const loaded = 2 // registers for an input element and, if weights are not kept in registers, a weight
	switch {
	case !Supports(cpu):
		return fmt.Errorf("depthwise: there is no code for %v: want AVX2 or NEON", cpu)
	case s.Size != 4 && s.Size != 8 || s.VectorBytes != 16 && s.VectorBytes != 32 && s.VectorBytes != 64:
		return fmt.Errorf("depthwise: Size is %d and VectorBytes is %d: want 4 or 8, and 16, 32 or 64", s.Size, s.VectorBytes)
	case s.VectorBytes > longest:
		return fmt.Errorf("depthwise: VectorBytes is %d: want at most %d on %v", s.VectorBytes, longest, cpu)
	case s.Group < 1 || s.VectorBytes/s.Size%s.Group != 0:
		return fmt.Errorf("depthwise: Group is %d: it must divide the %d lanes of a vector", s.Group, s.VectorBytes/s.Size)
	case min(s.Tile[0], s.Tile[1], s.Window[0], s.Window[1], s.Stride[0], s.Stride[1], s.Dilation[0], s.Dilation[1]) < 1:
		return fmt.Errorf("depthwise: Tile %v, Window %v, Stride %v and Dilation %v must be positive", s.Tile, s.Window,
			s.Stride, s.Dilation)
	case s.Tile[0]*s.Tile[1]+s.permutationRegs()+loaded > registers:
		return fmt.Errorf("depthwise: the sums of tile %v do not fit into %d registers", s.Tile, registers)
	}
	if err := s.checkDistances(); err != nil {
		return err
	}
	for i, step := range s.Epilogue {
		isOp := step.Op <= tile.Scale // Scale is the last operation
		isByRows := step.Op == tile.AddRows || step.Op == tile.MulRows
		hasOperand := step.Operand >= 0 && step.Operand < jit.MaxOperands-FirstEpilogueOperand
		if !isOp || isByRows || !hasOperand {
			return fmt.Errorf("depthwise: Epilogue[%d] is not supported: %+v", i, step)
		}
	}
	return nil
}

// permutationRegs is the number of registers for the permutation that grouped convolutions need: 1 if groups have
// several channels, else 0.
func (s *Spec) permutationRegs() int { return min(s.Group-1, 1) }

// Supports reports whether there is code for a [Spec].
func Supports(cpu machine.Features) bool { return cpu.Has(machine.AVX2) || cpu.Has(machine.NEON) }

// Registers returns the number of vector registers, and the size of the longest vector in bytes.
func Registers(cpu machine.Features) (count, bytes int) { return target.VectorRegisters(cpu) }
