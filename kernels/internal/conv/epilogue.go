package conv

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
)

// codeEpilogue applies the epilogue of a convolution: in registers if it is a chain of simple operations, else to each
// strip of the result after it is computed.
type codeEpilogue struct {
	strips *fusion.Epilogue // the epilogue if it is applied to strips, else nil
	steps  []tile.EpilogueStep
	reads  []fusion.EpilogueStep // the steps that have operands
	slot   int                   // index of the first operand among the arguments of the code
}

// maxEpilogueOperands bounds the epilogue operands that tiles read.
const maxEpilogueOperands = 3

// newCodeEpilogue chooses between registers and strips by the operations, sizes and layouts of the epilogue t, which
// may be nil. Registers apply steps with a number, a tensor of the result's shape, or a vector of one element per
// output channel. slot is the index of the first operand among the arguments of the code.
func newCodeEpilogue(t *fusion.Epilogue, channels, slot int) codeEpilogue {
	byStrips := codeEpilogue{strips: t}
	chain := t.Chain()
	if len(chain) == 0 {
		return byStrips
	}
	d := codeEpilogue{slot: slot}
	for _, s := range chain {
		x := tile.EpilogueStep{Operand: len(d.reads), Lo: s.Number, Hi: s.Number}
		switch number := s.Place == 0; {
		case s.Op == expr.Max && number:
			x.Op = tile.AtLeast
		case s.Op == expr.Min && number:
			x.Op = tile.AtMost
		case s.Op == expr.Mul && number:
			x.Op = tile.Scale
		case number || s.One || s.Lanes && s.Width != channels:
			return byStrips
		case s.Op == expr.Add && s.Lanes:
			x.Op = tile.AddLanes
		case s.Op == expr.Mul && s.Lanes:
			x.Op = tile.MulLanes
		case s.Op == expr.Add:
			x.Op = tile.AddTile
		case s.Op == expr.Mul:
			x.Op = tile.MulTile
		default:
			return byStrips
		}
		if s.Place == 0 {
			x.Operand = 0
		} else if d.reads = append(d.reads, s); len(d.reads) > maxEpilogueOperands {
			return byStrips
		}
		d.steps = append(d.steps, x)
	}
	t.Absorb()
	return d
}

// enter sets the addresses of the operands for a chunk.
func (d *codeEpilogue) enter(a *jit.Args, r *fusion.EpilogueRun, m *graph.Mem) {
	for i, s := range d.reads {
		a.Ptr[d.slot+i] = m.Ptrs[s.Place]
	}
	if d.strips != nil {
		d.strips.Enter(r, m)
	}
}

// at sets the offsets of the operands for an element of the result and its channel, both in bytes.
func (d *codeEpilogue) at(a *jit.Args, out, channel int) {
	for i, s := range d.reads {
		a.Row[d.slot+i] = out
		if s.Lanes {
			a.Row[d.slot+i] = channel
		}
	}
}
