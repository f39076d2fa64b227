package conv

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// directTail is what a direct convolution does to its sums besides: in registers, where that is a chain of simple
// operations, else to each strip when it is done.
type directTail struct {
	tail  *graph.Tail // for strips; nil where nothing is left to them
	steps []tile.Tail
	reads []graph.TailStep // by operand of steps
}

// mostTails are the operands of a tail that are read by tiles.
const mostTails = 3

// newDirectTail chooses by sizes and layouts: operands by lanes must have one element for each output channel.
func newDirectTail(t *graph.Tail, channels int) directTail {
	whole := directTail{tail: t}
	chain := t.Chain()
	if len(chain) == 0 {
		return whole
	}
	var d directTail
	for _, s := range chain {
		x := tile.Tail{Operand: len(d.reads), Lo: s.Number, Hi: s.Number}
		switch number := s.Place == 0; {
		case s.Op == expr.Max && number:
			x.Op = tile.AtLeast
		case s.Op == expr.Min && number:
			x.Op = tile.AtMost
		case s.Op == expr.Mul && number:
			x.Op = tile.Scale
		case number || s.Lanes && s.Width != channels:
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
func (d *directTail) enter(r *directRun, m *graph.Mem) {
	for i, s := range d.reads {
		r.args.Ptr[tile.Tails+i] = m.Ptrs[s.Place]
	}
	if d.tail != nil {
		d.tail.Enter(&r.tail, m)
	}
}

// at has tiles read operands for a place of the result and a channel, both in bytes.
func (d *directTail) at(a *jit.Args, out, channel int) {
	for i, s := range d.reads {
		a.Row[tile.Tails+i] = out
		if s.Lanes {
			a.Row[tile.Tails+i] = channel
		}
	}
}

// finish applies what is left of the tail to a strip of an image, for the channels of a block.
func (t *direct) finish(r *directRun, image, block, strip int) {
	if t.tail.tail == nil {
		return
	}
	s := t.s
	each := kit.DivUp(s.og(), t.shape.block())
	group, within := block/each, block%each
	channel := group*s.og() + within*t.shape.block()
	first, end := t.firstPixel(strip), t.firstPixel(strip+1)
	t.tail.tail.Do(&r.tail, image*s.os[0]+first*s.o+channel, end-first, s.o,
		min(t.shape.block(), s.og()-within*t.shape.block()), 1)
}

// firstPixel is the output pixel at which a strip begins.
func (t *direct) firstPixel(strip int) int {
	if strip == len(t.strips)-1 {
		return t.s.n / t.images * t.s.oh * t.s.ow
	}
	return t.calls[t.strips[strip]].out / (t.s.o * t.size)
}
