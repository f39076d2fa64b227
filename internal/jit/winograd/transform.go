package winograd

import (
	"fmt"
	"strconv"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// Transform is a compiled transform. It is immutable, and several goroutines may run it at the same time.
type Transform struct {
	fn           *jit.Func
	cpu          machine.Features
	tailChannels int // number of channels in the last, partial vector; 0 if all vectors are whole
	operandCount int // number of epilogue operands
}

// CompileInput compiles the transform of input tiles to points, the elements of a transformed tile. part has the rows
// and columns of the tile that are inside the image. The other pixels are not read; they count as zeros. tailChannels
// is the number of channels modulo [Lanes].
func (f Form) CompileInput(cpu machine.Features, part Part, tailChannels int) (*Transform, error) {
	key := "winograd " + cpu.String() + " F" + strconv.Itoa(f.M) + " operands " + strconv.Itoa(part.Row) + ":" +
		strconv.Itoa(part.RowEnd) + " by " + strconv.Itoa(part.Col) + ":" + strconv.Itoa(part.ColEnd) + " over " +
		strconv.Itoa(tailChannels)
	const writesPixels = false
	return newTransform(key, cpu, tailChannels, writesPixels, func() *block { return f.inputBlock(part) })
}

// CompileWeights compiles the transform of the weights of 3x3 windows to points. A tile of [Transform.Run] then has the
// windows of one input channel. The channels of Run are the output channels, whose number is a multiple of [Lanes].
func (f Form) CompileWeights(cpu machine.Features) (*Transform, error) {
	const tailChannels, writesPixels = 0, false
	key := "winograd " + cpu.String() + " F" + strconv.Itoa(f.M) + " weights"
	return newTransform(key, cpu, tailChannels, writesPixels, f.weightBlock)
}

// CompileOutput compiles the transform of points to output tiles. The transform computes the given number of rows and
// columns of each tile. If hasBias is true, it adds a bias. It then applies the operations of the epilogue. Epilogue
// operands that vary by tile have the layout of the pixels. tailChannels is the number of channels modulo [Lanes].
func (f Form) CompileOutput(cpu machine.Features, rows, cols int, hasBias bool, epilogue []tile.EpilogueStep,
	tailChannels int) (*Transform, error) {
	key := fmt.Sprintf("winograd %v F%d results %dx%d bias %v epilogue %v over %d", cpu, f.M, rows, cols, hasBias,
		epilogue, tailChannels)
	const writesPixels = true
	transform, err := newTransform(key, cpu, tailChannels, writesPixels,
		func() *block { return f.outputBlock(rows, cols, hasBias, epilogue) })
	if err != nil {
		return nil, err
	}
	for _, step := range epilogue {
		switch step.Op {
		case tile.AddTile, tile.MulTile, tile.AddLanes, tile.MulLanes:
			transform.operandCount = max(transform.operandCount, step.Operand+1)
		}
	}
	return transform, nil
}

// newTransform returns the transform for a key. If no code with this key exists, newTransform compiles the block that
// makeBlock returns. writesPixels means that the output has pixels, whose channels are not padded to whole vectors.
// Points are padded.
func newTransform(key string, cpu machine.Features, tailChannels int, writesPixels bool,
	makeBlock func() *block) (*Transform, error) {
	fn, err := jit.Lookup(key, func(withListing bool) (jit.Code, error) {
		generator, err := newCodeGen(cpu, tailChannels, writesPixels, withListing)
		if err != nil {
			return jit.Code{}, err
		}
		if err := generator.loops(makeBlock()); err != nil {
			return jit.Code{}, err
		}
		return generator.Finish()
	})
	if err != nil {
		return nil, err
	}
	return &Transform{fn: fn, cpu: cpu, tailChannels: tailChannels}, nil
}

// Name returns a description of the transform.
func (t *Transform) Name() string { return t.fn.Name() }

// Listing returns the code in the syntax of the processor's assembler (see [jit.Code]). The code is generated again for
// this.
func (t *Transform) Listing() string { return t.fn.Listing() }

// TileArray is the location of tiles. It has the address of the first element of the first tile, and the distances in
// bytes between rows, columns and tiles. The first element of a tile of pixels is the first pixel inside the [Part] of
// [Form.CompileInput]. The channels of a pixel or point are adjacent.
type TileArray struct {
	Ptr            unsafe.Pointer
	Row, Col, Tile int
}

// callVectors limits the work of one call, so that it takes less than 50 us. The unit is the transform of a tile for
// one vector of channels. CallDivisor is greater than 1 for architectures with slow cores.
const callVectors = 512 / machine.CallDivisor

// Run transforms tiles with the given number of channels. Points are read and written in whole vectors. Each point must
// have room for whole vectors, and the padding after its channels may have any content. bias is the address of the
// first channel's bias, or nil for a transform without bias. The caller sets the epilogue operands in args, starting at
// [FirstEpilogueOperand], and no other goroutine may use args during the call. Addresses are not checked. Run panics if
// channels modulo [Lanes] differs from the tailChannels of the transform.
func (t *Transform) Run(args *jit.Args, to, from TileArray, bias unsafe.Pointer, channels, tiles int) error {
	lanes := Lanes(t.cpu)
	if channels%lanes != t.tailChannels {
		panic(fmt.Sprintf("winograd: the number of channels is %d: want %d modulo %d", channels, t.tailChannels, lanes))
	}
	args.InnerCount = channels / lanes * lanes * 4 // bytes of the whole vectors
	// Row, Step and Step[tileStep+...] have the distances in bytes between rows, columns and tiles.
	args.Row[outputIndex], args.Step[outputIndex], args.Step[tileStep+outputIndex] = to.Row, to.Col, to.Tile
	args.Row[inputIndex], args.Step[inputIndex], args.Step[tileStep+inputIndex] = from.Row, from.Col, from.Tile
	// An epilogue operand that varies by tile has the layout of the result. Its Step is the distance in bytes from an
	// element of the result to the element of the operand (tileOperand), which is the same for all elements.
	for i := FirstEpilogueOperand; i < FirstEpilogueOperand+t.operandCount; i++ {
		args.Step[i] = int(uintptr(args.Ptr[i]) + uintptr(args.Row[i]) - uintptr(to.Ptr))
	}
	tilesPerCall := max(1, callVectors*lanes/max(1, channels))
	for first := 0; first < tiles; first += tilesPerCall {
		args.Ptr[outputIndex], args.Ptr[inputIndex] = unsafe.Add(to.Ptr, first*to.Tile), unsafe.Add(from.Ptr, first*from.Tile)
		args.Ptr[biasIndex] = bias
		args.Rows = min(tilesPerCall, tiles-first)
		if err := t.fn.Call(args); err != nil {
			return err
		}
	}
	return nil
}
