package conv

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/slide"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// depthwiseSlide convolves pixels, whose channels lie together and of which few are in a group, by machine code made
// for the window: tiles of pixels that stay in registers, at the borders of images by code that leaves out what is not
// there. Where channels do not fill vectors, the last vector begins before the end of the one before it, and has some
// of the results again.
type depthwiseSlide struct {
	slideShape
	s     *convShape
	specs []*slide.Spec
	codes []*jit.Func
	pitch int // elements from a pixel of the result to the next
	down  []side
	// across are the tiles of a row of tiles, each of which is a strip.
	across []side
	kinds  [][]int // by kinds of down and across: their specs
	tail   codeTail
	run    graph.PerWorker[slideRun]
}

// slideRun is what a worker needs.
type slideRun struct {
	args  jit.Args
	tail  graph.TailRun
	calls []slideCall // of a strip
}

// slides reports whether there is machine code by pixels for a convolution of groups of one channel, or of few.
func slides(s *convShape, d tensor.DType) bool {
	if s.o != s.c || jit.Available() != nil || d != tensor.Float32 && d != tensor.Float64 {
		return false
	}
	f, ok := newSlideShape(s, d.Size())
	return ok && s.kh > 0 && s.kw > 0 && s.inReach(s.c, d.Size()) < maxReach &&
		kit.Times(s.oh, s.ow, s.c, d.Size()) < maxReach && kit.Times(s.kh, s.kw, max(s.dh, s.dw)) < 1<<16 &&
		f.codes(s) <= mostSlideCodes
}

// mostSlideCodes bounds the kinds of tiles of an image: code is generated for each kind.
const mostSlideCodes = 1 << 12

// codes returns a bound on the kinds of tiles: one inside the image, and others whose windows reach over its border.
func (f *slideShape) codes(s *convShape) int {
	along := func(results, tile, step, window, apart int) int {
		return min(kit.DivUp(results, tile), 2*(kit.DivUp((window-1)*apart+1, tile*step)+2)+3)
	}
	return along(s.oh, f.tile[0], s.sh, s.kh, s.dh) * along(s.ow, f.tile[1], s.sw, s.kw, s.dw)
}

// slidePanels are the weights by vectors of channels.
func (s *convShape) slidePanels(d tensor.DType) *multiply.Panels {
	f, _ := newSlideShape(s, d.Size())
	p := &multiply.Panels{DType: d, Form: fmt.Sprintf("%v vectors of %d of %d by kh,kw", d, f.lanes, s.o), Width: f.lanes,
		Lanes: f.lanes, Lane: s.ws[0], Depth: s.depth(), Terms: s.channelsFirstTerms, Starts: f.starts()}
	if s.cg > 1 {
		p.Form += fmt.Sprintf(" of groups of %d", s.cg)
	}
	for i := range p.Starts {
		p.Starts[i] *= s.ws[0]
	}
	return p
}

// newDepthwiseSlide prepares the calls of a convolution that has machine code.
func newDepthwiseSlide(s *convShape, d tensor.DType) (*depthwiseSlide, error) {
	t := &depthwiseSlide{s: s, pitch: s.outPixel()}
	t.slideShape, _ = newSlideShape(s, d.Size())
	t.tail = newCodeTail(s.tail, s.o, slide.Tails)
	if t.tail.tail != nil && t.repeats() {
		s.tail.Leave()
		t.tail.tail = nil
	}
	t.cut()
	for _, spec := range t.specs {
		c, err := slide.Compile(spec, machine.Instructions())
		if err != nil {
			return nil, fmt.Errorf("depthwise convolution: %w", err)
		}
		t.codes = append(t.codes, c)
	}
	return t, nil
}

// repeats reports whether a block has some results of the one before it again, with which that may have gone on.
func (t *depthwiseSlide) repeats() bool {
	return t.again > 0 && t.blocks > 1 && t.vectors-(t.blocks-1)*t.block == 1
}

// phase goes by images, halves of their rows of tiles, blocks of channels and rows. Of a small image all rows follow
// one another: two workers would each read most of the other's half, and what comes before, a product whose weight is
// larger than the image, is computed by halves of the channels. Weight gives the weight by vectors of channels.
func (t *depthwiseSlide) phase(weight func(m *graph.Mem) unsafe.Pointer) graph.Phase {
	s := t.s
	strips := len(t.down)
	order := multiply.Strips{Images: s.n, Blocks: t.blocks, Strips: strips, Band: kit.DivUp(strips, 2)}
	if strips <= fewStrips && t.blocks > 1 {
		order.Band = strips
	}
	order.Cut(t.work(strips), slideGrain)
	flow := s.flow(&order, func(strip int) int { return t.rowOf(strip) * s.ow }, false)
	return graph.Phase{Chunks: order.Chunks(), Flow: flow, Run: func(m *graph.Mem, chunk int) error {
		r := t.run.Of(m)
		a := &r.args
		a.Ptr[slide.In], a.Ptr[slide.Weights], a.Ptr[slide.Out] = m.Ptrs[1], weight(m), m.Ptrs[0]
		a.Ptr[slide.Bias] = s.biasTogether(m, t.size)
		t.tail.enter(a, &r.tail, m)
		err := order.Each(chunk, func(image, block, strip int) error {
			if err := t.strip(r, image, block, strip); err != nil {
				return err
			}
			t.finish(r, image, block, strip)
			return nil
		})
		clear(a.Ptr[:])
		r.tail.Release()
		return err
	}}
}

// work is what a row of tiles takes for a block of channels, in multiplications and additions: windows that lie apart
// take the time of moving what they read.
func (t *depthwiseSlide) work(strips int) int {
	s := t.s
	results := kit.DivUp(s.oh, strips) * s.ow * t.block * t.lanes
	return results * max(s.depth(), slideMove*(1+s.sh*s.sw))
}

// strip computes a row of tiles of an image for a block of channels.
func (t *depthwiseSlide) strip(r *slideRun, image, block, strip int) error {
	s, a := t.s, &r.args
	first := block * t.block
	channel := first * t.bytes
	a.N, a.Step[slide.Again] = min(t.block, t.vectors-first), 0
	if first+a.N == t.vectors {
		a.Step[slide.Again] = t.again * t.size
		if a.N == 1 { // there is no vector before it
			channel -= t.again * t.size
		}
	}
	in := image*s.h*s.w*s.inPixel(false)*t.size + channel
	out := image*s.oh*s.ow*t.pitch*t.size + channel
	weights := first * s.depth() * t.bytes
	a.Row[slide.Bias] = channel
	r.calls = t.callsOf(r.calls[:0], strip)
	for _, c := range r.calls {
		a.Row[slide.In], a.Row[slide.Out], a.Row[slide.Weights] = in+c.in, out+c.out, weights+c.weight
		t.tail.at(a, out+c.out, channel)
		a.Rows, a.Step[slide.WindowRows] = c.tiles, c.rows
		if err := t.codes[c.code].Call(a); err != nil {
			return err
		}
	}
	return nil
}

// finish applies what is left of the tail to a row of tiles of an image, for the channels of a block.
func (t *depthwiseSlide) finish(r *slideRun, image, block, strip int) {
	if t.tail.tail == nil {
		return
	}
	s := t.s
	first, end := t.rowOf(strip), t.rowOf(strip+1)
	channel := block * t.block * t.lanes
	channels := min(t.block*t.lanes, s.c-channel)
	t.tail.tail.Do(&r.tail, (image*s.oh+first)*s.ow*t.pitch+channel, (end-first)*s.ow, t.pitch, channels, 1)
}

// rowOf is the output row at which a strip begins.
func (t *depthwiseSlide) rowOf(strip int) int {
	if strip == len(t.down) {
		return t.s.oh
	}
	return t.down[strip].at
}

// listings are those of all codes.
func (t *depthwiseSlide) listings() (list []expr.Listing) {
	for k, c := range t.codes {
		p := t.specs[k]
		list = append(list, expr.Listing{Assembly: c.Listing(),
			Name: fmt.Sprintf("tile %d, %d by %d, columns %d to %d", k, p.Tile[0], p.Tile[1], p.First[1], p.End[1])})
	}
	return list
}
