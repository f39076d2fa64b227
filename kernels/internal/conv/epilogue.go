package conv

import (
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// codeEpilogue applies the epilogue of a convolution: pointwise operations that fusion has joined to it. If the machine
// code that computes tiles supports the operations, it applies them in registers. Otherwise they are applied to each
// strip, a sequence of tiles, after the strip is computed.
type codeEpilogue struct {
	multiply.TileEpilogue
	strips *fusion.Epilogue // the epilogue that is applied to strips, or nil
}

// newCodeEpilogue chooses between registers and strips by the operations, sizes and layouts of the epilogue, which may
// be nil. firstArg is the index of the epilogue's first operand among the arguments of the code.
func newCodeEpilogue(epilogue *fusion.Epilogue, channels, firstArg int) codeEpilogue {
	const hasLaneMemory = false
	inTiles, ok := multiply.NewTileEpilogue(epilogue, channels, firstArg, hasLaneMemory)
	if !ok {
		return codeEpilogue{strips: epilogue}
	}
	epilogue.SetInRegisters()
	return codeEpilogue{TileEpilogue: inTiles}
}

// setOperands sets the addresses of the operands for a chunk.
func (e *codeEpilogue) setOperands(args *jit.Args, run *fusion.EpilogueRun, mem *graph.Mem) {
	e.SetOperands(args, mem, nil) // nil: there is no lane memory, so no operand has one element
	if e.strips != nil {
		e.strips.Bind(run, mem)
	}
}
