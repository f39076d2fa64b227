package conv

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
)

// codeTail applies the epilogue of a convolution: in registers if it is a chain of simple operations, else to each
// strip of the result after it is computed.
type codeTail struct {
	tail  *fusion.Epilogue // applied to strips; nil if registers apply it all
	steps []tile.EpilogueStep
	reads []fusion.EpilogueStep // operands of steps
	slot  int                   // of the first operand among the code's arguments
}

// maxTailOperands bounds the epilogue operands that tiles read.
const maxTailOperands = 3

// newCodeTail chooses by sizes and layouts. An operand by lanes must have one element per output channel.
func newCodeTail(t *fusion.Epilogue, channels, slot int) codeTail {
	byStrips := codeTail{tail: t}
	chain := t.Chain()
	if len(chain) == 0 {
		return byStrips
	}
	d := codeTail{slot: slot}
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
		} else if d.reads = append(d.reads, s); len(d.reads) > maxTailOperands {
			return byStrips
		}
		d.steps = append(d.steps, x)
	}
	t.Absorb()
	return d
}

// enter sets the operand addresses for a chunk.
func (d *codeTail) enter(a *jit.Args, r *fusion.EpilogueRun, m *graph.Mem) {
	for i, s := range d.reads {
		a.Ptr[d.slot+i] = m.Ptrs[s.Place]
	}
	if d.tail != nil {
		d.tail.Enter(r, m)
	}
}

// at sets the offsets of epilogue operands to an element of the result and a channel, both in bytes.
func (d *codeTail) at(a *jit.Args, out, channel int) {
	for i, s := range d.reads {
		a.Row[d.slot+i] = out
		if s.Lanes {
			a.Row[d.slot+i] = channel
		}
	}
}
