package conv

import (
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// codeEpilogue applies the epilogue of a convolution. If the code of tiles supports the operations, it applies them in
// registers. Otherwise it applies them to each strip of the result after the strip is computed.
type codeEpilogue struct {
	multiply.TileEpilogue
	strips *fusion.Epilogue // the epilogue that is applied to strips, or nil
}

// newCodeEpilogue chooses between registers and strips by the operations, sizes and layouts of the epilogue. e may be
// nil. slot is the index that the first operand of e gets among the arguments of the code.
func newCodeEpilogue(e *fusion.Epilogue, channels, slot int) codeEpilogue {
	t, ok := multiply.NewTileEpilogue(e, channels, slot, false)
	if !ok {
		return codeEpilogue{strips: e}
	}
	e.Absorb()
	return codeEpilogue{TileEpilogue: t}
}

// setOperands sets the addresses of the operands for a chunk.
func (d *codeEpilogue) setOperands(args *jit.Args, r *fusion.EpilogueRun, m *graph.Mem) {
	d.SetOperands(args, m, nil)
	if d.strips != nil {
		d.strips.Bind(r, m)
	}
}
