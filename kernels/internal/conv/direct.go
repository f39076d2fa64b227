package conv

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// direct convolves by register tiles: some output pixels by a block of output channels, which lie together in the
// result and in the packed weight. Pixels of the input are read where they lie, in either order; what of the window is
// outside of the image is left out, by code of its own for tiles at the left and the right of an image, and by the
// number of the window's rows above and below.
type direct struct {
	s          *convShape
	shape      directShape
	size       int // bytes of an element
	panel      int // bytes of a term in a panel of the weight
	codes      [2][]*jit.Func
	specs      []*tile.Spec // of whole blocks
	tiles      pieces       // of an image's pixels, or of those of a row
	row        []directCall // of each row of the result, where tiles go along rows
	strips     int          // of an image
	parts      machine.Cut  // of tiles, a strip each, where strips are not rows
	sums       sumBlocks
	images     int         // of a batch, or 1 where all of them are one
	near       int         // bytes from a pixel of the input to the next
	pitch      int         // the same of the result
	outSize    int         // bytes of an element of the result
	levels     tile.Levels // what sums of products of bytes become, where elements are four bytes or two words
	bytes      bool        // elements are four bytes
	words      bool        // or two words
	order      multiply.Strips
	ahead      int  // lines of the next weight that are asked for in a turn of code
	aheadStrip int  // and bytes, in a strip
	aheadImage bool // what is asked for is pixels of the next tile, not the weight
	tail       codeTail
	run        graph.PerWorker[directRun]
}

// directCall is a call of machine code within an image and a block.
type directCall struct {
	code         int
	in, out, vec int // bytes from where the image, its result, and the block's panel begin
	planes, rows int // of the window, where code goes by them
	tiles        int // of the code
}

// directRun is what a worker needs.
type directRun struct {
	args  jit.Args
	tail  graph.TailRun
	calls []directCall // of a strip
}

const (
	// directCallMACs bounds a call, which takes less than 50 us, for vectors of 64 bytes: 50,000 multiplications of
	// float32 a microsecond are half of what was measured.
	directCallMACs = 5 << 19
	// directDepth bounds the terms of an element, so that a call of one tile keeps to that.
	directDepth = 1 << 14
	// directFlatMACs is a strip's of an image whose pixels are only those of its result.
	directFlatMACs = 1 << 19
)

// directComputes reports whether there is machine code for a convolution. What it depends on is the same wherever its
// operands lie.
func directComputes(s *convShape, d tensor.DType) bool {
	return jit.Available() == nil && (d == tensor.Float32 || d == tensor.Float64) && s.n*s.o*s.pixelsOut() > 0 &&
		s.depth() > 0 && s.depth() <= directDepth && s.inReach(max(s.c, 1), d.Size()) < maxReach &&
		s.outReach(d.Size()) < maxReach
}

// newDirect prepares the calls of a convolution that has machine code.
func newDirect(s *convShape, d tensor.DType, planes bool) (*direct, error) {
	shape := newDirectShape(s, d, planes)
	t := &direct{s: s, shape: shape, size: d.Size(), panel: shape.vectors * shape.lanes * d.Size(), images: s.n,
		near: s.inPixel(planes) * d.Size(), pitch: s.outPixel(), outSize: d.Size()}
	t.tail = newCodeTail(s.tail, s.o, tile.Tails)
	t.sums = newSumBlocks(s, &shape)
	t.cut()
	t.arrange()
	return t, t.compile()
}

// compile makes the code of whole blocks, and of the last one of a group.
func (t *direct) compile() error {
	blocks := []int{t.shape.block()}
	if rest := t.s.og() % blocks[0]; rest > 0 {
		blocks = append(blocks, rest)
	}
	for i, channels := range blocks {
		for _, whole := range t.specs {
			spec := *whole
			spec.Vectors = kit.DivUp(channels, t.shape.lanes)
			spec.Ahead, spec.Tail = t.ahead, t.tail.steps
			spec.Lanes, spec.Levels = channels%t.shape.lanes, t.levels
			spec.Bytes, spec.Words, spec.Unit = t.bytes, t.words, t.shape.unit
			if t.s.hasBias {
				spec.Start = tile.FromLanes
			}
			c, err := tile.Compile(&spec, machine.Instructions())
			if err != nil {
				return fmt.Errorf("direct convolution: %w", err)
			}
			t.codes[i] = append(t.codes[i], c)
		}
	}
	return nil
}

// phase convolves chunk by chunk. weight gives the weight's panels.
func (t *direct) phase(weight func(m *graph.Mem) unsafe.Pointer) graph.Phase {
	s := t.s
	flow := s.flow(&t.order, t.firstPixel, t.shape.planes)
	return graph.Phase{Chunks: t.order.Chunks(), Flow: flow, Run: func(m *graph.Mem, chunk int) error {
		r := t.run.Of(m)
		a := &r.args
		a.Ptr[tile.In], a.Ptr[tile.Vec], a.Ptr[tile.Out] = m.Ptrs[1], weight(m), m.Ptrs[0]
		a.Ptr[tile.Bias], a.Ptr[tile.Ahead] = s.biasTogether(m, t.size), a.Ptr[tile.Vec]
		if t.aheadImage {
			a.Ptr[tile.Ahead] = m.Ptrs[1]
		}
		t.tail.enter(a, &r.tail, m)
		err := t.order.Each(chunk, func(image, block, strip int) error {
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

// strip computes a strip of an image for a block of output channels.
func (t *direct) strip(r *directRun, image, block, strip int) error {
	s, a := t.s, &r.args
	first, channels := t.channels(block)
	channel := first * t.size
	in := (image*s.xs[0] + first/s.og()*s.cg*s.xs[1]) * t.size
	out := image*s.os[0]*t.size + channel
	vec := block * t.panelBytes()
	codes := t.codes[0]
	if channels < t.shape.block() {
		codes = t.codes[1]
	}
	a.Row[tile.Bias] = channel
	a.Row[tile.Ahead] = (block+1)%t.order.Blocks*t.panelBytes() + strip%t.order.Band*t.aheadStrip
	r.calls = t.callsOf(r.calls[:0], strip)
	for _, c := range r.calls {
		a.Row[tile.In], a.Row[tile.Out], a.Row[tile.Vec] = in+c.in, out+c.out, vec+c.vec
		if t.aheadImage {
			a.Row[tile.Ahead] = in + c.in + t.specs[c.code].Rows*t.pixel()
		}
		t.tail.at(a, out+c.out, channel)
		a.Rows, a.Step[tile.LoopTurns+t.shape.windowLoop()] = c.tiles, c.rows
		if t.shape.deep {
			a.Step[tile.LoopTurns+t.shape.windowLoop()-1] = c.planes
		}
		if err := codes[c.code].Call(a); err != nil {
			return err
		}
	}
	return nil
}

// listings are those of all codes.
func (t *direct) listings() (list []expr.Listing) {
	for i, codes := range t.codes {
		for k, c := range codes {
			name := fmt.Sprintf("tile %d, %d rows", k, t.specs[k].Rows)
			if i == 1 {
				name += ", last channels"
			}
			list = append(list, expr.Listing{Name: name, Assembly: c.Listing()})
		}
	}
	return list
}

// convDirect is the kernel of direct convolution.
func convDirect(s *convShape, a convAlgorithm) (*graph.Kernel, error) {
	d := s.call.Out[0].DType
	if a == directByPixels && s.slidesGroups(d) {
		return convGroups(s, d)
	}
	weight, err := newPackedWeight(s.call, convPanels(s, a, d))
	if err != nil {
		return nil, err
	}
	t, err := newDirect(s, d, a == directFromPlanes)
	if err != nil {
		return nil, err
	}
	return &graph.Kernel{Phases: append(weight.phases(), t.phase(weight.at)), Scratch: weight.Scratch,
		Worker: s.biasBytes(t.size), Code: t.listings}, nil
}

// finish applies what is left of the tail to a strip of an image, for the channels of a block.
func (t *direct) finish(r *directRun, image, block, strip int) {
	if t.tail.tail == nil {
		return
	}
	s := t.s
	channel, channels := t.channels(block)
	first, end := t.firstPixel(strip), t.firstPixel(strip+1)
	t.tail.tail.Do(&r.tail, image*s.os[0]+first*t.pitch+channel, end-first, t.pitch, channels, 1)
}

// channels returns the first output channel of a block, and how many it has.
func (t *direct) channels(block int) (first, n int) {
	each := kit.DivUp(t.s.og(), t.shape.block())
	within := block % each * t.shape.block()
	return block/each*t.s.og() + within, min(t.shape.block(), t.s.og()-within)
}
