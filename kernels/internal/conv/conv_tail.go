package conv

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
)

// codeTail is what machine code of a convolution does to its sums besides: in registers, where that is a chain of
// simple operations, else to each strip when it is done.
type codeTail struct {
	tail  *graph.Tail // for strips; nil where nothing is left to them
	steps []tile.Tail
	reads []graph.TailStep // by operand of steps
	slot  int              // of the first of those among the code's arguments
}

// mostTails are the operands of a tail that are read by tiles.
const mostTails = 3

// newCodeTail chooses by sizes and layouts: operands by lanes must have one element for each output channel.
func newCodeTail(t *graph.Tail, channels, slot int) codeTail {
	whole := codeTail{tail: t}
	chain := t.Chain()
	if len(chain) == 0 {
		return whole
	}
	d := codeTail{slot: slot}
	for _, s := range chain {
		x := tile.Tail{Operand: len(d.reads), Lo: s.Number, Hi: s.Number}
		switch number := s.Place == 0; {
		case s.Op == expr.Max && number:
			x.Op = tile.AtLeast
		case s.Op == expr.Min && number:
			x.Op = tile.AtMost
		case s.Op == expr.Mul && number:
			x.Op = tile.Scale
		case number || s.One || s.Lanes && s.Width != channels:
			return whole
		case s.Op == expr.Add && s.Lanes:
			x.Op = tile.AddLanes
		case s.Op == expr.Mul && s.Lanes:
			x.Op = tile.MulLanes
		case s.Op == expr.Add:
			x.Op = tile.AddTile
		case s.Op == expr.Mul:
			x.Op = tile.MulTile
		default:
			return whole
		}
		if s.Place == 0 {
			x.Operand = 0
		} else if d.reads = append(d.reads, s); len(d.reads) > mostTails {
			return whole
		}
		d.steps = append(d.steps, x)
	}
	t.Absorb()
	return d
}

// enter notes the addresses of a chunk.
func (d *codeTail) enter(a *jit.Args, r *graph.TailRun, m *graph.Mem) {
	for i, s := range d.reads {
		a.Ptr[d.slot+i] = m.Ptrs[s.Place]
	}
	if d.tail != nil {
		d.tail.Enter(r, m)
	}
}

// at has tiles read operands for a place of the result and a channel, both in bytes.
func (d *codeTail) at(a *jit.Args, out, channel int) {
	for i, s := range d.reads {
		a.Row[d.slot+i] = out
		if s.Lanes {
			a.Row[d.slot+i] = channel
		}
	}
}
