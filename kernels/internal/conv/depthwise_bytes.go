package conv

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/depthwise"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// byteWindow is a depthwise convolution of bytes, channels last, that requantizes sums in registers. A chunk computes
// some rows of the result. If windows reach outside the image, the chunk first copies its input rows, with padding, to
// worker memory.
type byteWindow struct {
	s        *convShape
	cpu      machine.Features
	spec     *depthwise.Bytes
	code     *jit.Func
	rows     int                               // rows of the result per chunk
	h, w     int                               // size of the input of a chunk
	copied   bool                              // the input is copied to worker memory
	room     struct{ begin, scale, point int } // offsets in scratch memory
	size     int                               // bytes of an element of the result
	epilogue *fusion.Epilogue                  // epilogue of int32 results
	run      graph.PerWorker[byteWindowRun]
}

// byteWindowRun is a worker's state.
type byteWindowRun struct {
	args     jit.Args
	epilogue fusion.EpilogueRun
}

// windowCallUops bounds the instructions of a call of machine code, which must not take longer than 50 us.
const windowCallUops = 1 << 15

// byteWindowCompiles reports whether machine code supports a depthwise convolution of bytes by pixels.
func (s *convShape) byteWindowCompiles() bool {
	return jit.Available() == nil && s.cg == 1 && s.o == s.c && s.c > 1 && s.taps() > 0 &&
		kit.BoundedProduct(s.taps(), max(s.h.Dilation, s.w.Dilation)) < 1<<8 && max(s.h.Stride, s.w.Stride) < 1<<8 &&
		kit.BoundedProduct(s.h.Bound(), s.w.Bound(), s.c) < maxReach && kit.BoundedProduct(s.pixelsOut(), s.c, 4) < maxReach
}

func byteWindowWalks(c *graph.Call, _ []tensor.Order) []graph.Walk {
	o, supported := byteConv.order(depthwiseByPixels, c.Meta(bytesX).Rank())
	s := byteConv.bytesShape(c)
	if !supported || s.n*s.o*s.h.Results*s.w.Results == 0 || !s.byteWindowCompiles() {
		return nil
	}
	return []graph.Walk{c.InOrder(o)}
}

func byteWindowWork(c *graph.Call, _ graph.Walk) graph.Work {
	w := graph.Work{Steps: 1}
	c.Streamed(&w)
	s := byteConv.bytesShape(c)
	t := newByteWindow(c)
	tiles := s.n * s.h.Results * kit.DivUp(s.w.Results, t.spec.Tile) * t.blocks()
	w.Do(tapsBytes, float64(tiles*t.spec.Uops()))
	if t.copied {
		w.Bytes[graph.Copied] += float64(2 * s.n * s.c * s.h.Size * s.w.Size)
	}
	w.Flops = byteConv.flops(c)
	return w
}

// blocks returns the number of blocks of channels. block returns the number of channels of a block, which are computed
// at once. If lanes cannot be masked, the last of several blocks overlaps the block before it.
func (t *byteWindow) blocks() int { return kit.DivUp(t.s.c, t.block()) }
func (t *byteWindow) block() int  { return depthwise.ByteChannels(t.cpu) }

// first returns the first channel of a block.
func (t *byteWindow) first(block int) int {
	if t.cpu.Has(machine.Vector512) {
		return block * t.block()
	}
	return max(0, min(block*t.block(), t.s.c-t.block()))
}

// eachChannel visits the channels of all blocks in the order in which the code stores them. place is the position of a
// channel in its block.
func (t *byteWindow) eachChannel(visit func(block, place, channel int)) {
	for b := range t.blocks() {
		for place := range t.block() {
			if c := t.first(b) + depthwise.ByteChannel(t.cpu, place); c < t.s.c {
				visit(b, place, c)
			}
		}
	}
}

// newByteWindow chooses the tile size that takes the fewest instructions. It does not generate code.
func newByteWindow(c *graph.Call) *byteWindow {
	s := byteConv.bytesShape(c)
	host := machine.Host()
	t := &byteWindow{s: s, cpu: host.Vectors256(), copied: s.bordered(), h: s.h.Size, w: s.w.Size,
		size: c.Out[0].DType.Size()}
	if host.Has(machine.DotBytes512) {
		t.cpu = host
	}
	channels := 0
	if !t.cpu.Has(machine.Vector512) && s.c < t.block() { // the code reads a whole vector
		t.copied, channels = true, s.c
	}
	if t.copied {
		t.w = s.w.Extent(s.w.Results)
	}
	best := math.MaxInt
	for tile := 1; tile <= min(s.w.Results, depthwise.MaxByteTile(t.cpu)); tile++ {
		n := kit.DivUp(s.w.Results, tile)
		p := &depthwise.Bytes{Tile: tile, Overlap: n*tile - s.w.Results, Window: [2]int{s.h.Taps, s.w.Taps},
			Stride: [2]int{s.h.Stride, s.w.Stride}, Dilation: [2]int{s.h.Dilation, s.w.Dilation},
			In: [2]int{t.w * s.c, s.c}, Out: [2]int{s.w.Results * s.c * t.size, s.c * t.size},
			Sums: c.Out[0].DType == tensor.Int32, Flip: signBit(c.Meta(bytesX).DType) != 0,
			Signed: c.Out[0].DType == tensor.Int8, Words: !t.cpu.DotsBytes(), Channels: channels}
		if uops := n * p.Uops(); uops < best {
			t.spec, best = p, uops
		}
	}
	t.rows = min(s.h.Results, max(1, windowGrain/(s.w.Results*s.c*s.h.Taps*s.w.Taps)))
	if t.copied {
		t.h = s.h.Extent(t.rows)
	}
	return t
}

// blockBytes returns the bytes of a block of the packed weight.
func (t *byteWindow) blockBytes() int { return t.s.w.Taps * t.spec.Groups() * 4 * t.block() }

// weight returns the packed weight: blocks of channels in the order of the code.
func (t *byteWindow) weight() *byteWeight {
	rows := t.spec.Rows()
	return &byteWeight{s: t.s, bytes: t.blocks() * t.blockBytes(), words: t.spec.Words,
		form: fmt.Sprintf("int%d by kw,kh in %ds of %d channels, and sums", 32/rows, rows, t.block()),
		channels: func(visit func(o, at int)) {
			t.eachChannel(func(block, place, channel int) { visit(channel, block*t.blockBytes()+place*4) })
		},
		offset: func(kh, kw, _ int) int {
			return (kw*t.spec.Groups()+kh/rows)*t.block()*4 + kh%rows*(4/rows)
		}}
}

func byteWindowPack(c *graph.Call, i int) (graph.Packing, bool) {
	if i != bytesW || c.Out[0].Numel() == 0 {
		return graph.Packing{}, false
	}
	return newByteWindow(c).weight().packing(), true
}

func lowerByteWindow(c *graph.Call) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	t := newByteWindow(c)
	s := t.s
	t.epilogue = fusion.EpilogueOf(c)
	var err error
	if t.code, err = depthwise.CompileBytes(t.spec, t.cpu); err != nil {
		return nil, fmt.Errorf("depthwise convolution of bytes: %w", err)
	}
	weight := t.weight()
	vectors := t.blocks() * t.block() * 4
	t.room.begin = weight.room()
	t.room.scale = t.room.begin + vectors
	t.room.point = t.room.scale + vectors
	k := &graph.Kernel{Scratch: t.room.point + kit.AlignUp(4),
		Code: func() []expr.Listing { return []expr.Listing{{Name: "rows", Assembly: t.code.Listing()}} }}
	if t.copied {
		k.Worker = t.h*t.w*s.c + t.block() // vectors reach past the last pixel
	}
	k.Phases = append(weight.phases(), t.prepare(weight), t.convolve(weight))
	return k, nil
}

// prepare is the phase that computes the initial values of sums. It stores these values and the scales in the channel
// order of the code (see eachChannel).
func (t *byteWindow) prepare(weight *byteWeight) graph.Phase {
	s, c := t.s, t.s.call
	return graph.Phase{Chunks: 1, Run: func(m *graph.Mem, _ int) error {
		less := int32(*(*uint8)(m.Ptrs[1+bytesXZero]) ^ signBit(c.Meta(bytesX).DType))
		start := weight.starts(m, less)
		var scale []float32
		if !t.spec.Sums {
			scale = kit.ElementsOf[float32](m.Ptrs[1+bytesScale], s.c)
		}
		n := t.blocks() * t.block()
		begin, by := kit.SliceOf[int32](m.Scratch, t.room.begin, n), kit.SliceOf[float32](m.Scratch, t.room.scale, n)
		clear(begin)
		clear(by)
		t.eachChannel(func(block, place, k int) {
			i := block*t.block() + place
			if begin[i] = start(k); !t.spec.Sums {
				by[i] = scale[k]
			}
		})
		if t.spec.Sums {
			return nil
		}
		kit.SliceOf[int32](m.Scratch, t.room.point, 1)[0] = resultZero(m, c.Out[0].DType)
		return nil
	}}
}

// convolve is the phase that computes the result. A chunk computes some rows of an image of the result.
func (t *byteWindow) convolve(weight *byteWeight) graph.Phase {
	s := t.s
	strips := kit.DivUp(s.h.Results, t.rows)
	return graph.Phase{Chunks: s.n * strips, Run: func(m *graph.Mem, chunk int) error {
		r := t.run.Of(m)
		a := &r.args
		image, first := chunk/strips, chunk%strips*t.rows
		rows := min(t.rows, s.h.Results-first)
		a.Ptr[depthwise.In], a.Row[depthwise.In] = m.Ptrs[1+bytesX], (image*s.h.Size+first*s.h.Stride)*s.w.Size*s.c
		if t.copied {
			t.border(m, image, first, rows)
			a.Ptr[depthwise.In], a.Row[depthwise.In] = unsafe.Pointer(unsafe.SliceData(m.Worker)), 0
		}
		a.Ptr[depthwise.Weights], a.Ptr[depthwise.Out] = weight.at(m), m.Ptrs[0]
		at := (image*s.h.Results + first) * s.w.Results * s.c
		a.Row[depthwise.Out] = at * t.size
		a.Ptr[depthwise.Bias] = unsafe.Pointer(&m.Scratch[t.room.begin])
		a.Ptr[depthwise.Scales] = unsafe.Pointer(&m.Scratch[t.room.scale])
		a.Ptr[depthwise.ZeroPoint] = unsafe.Pointer(&m.Scratch[t.room.point])
		err := t.compute(a, rows)
		clear(a.Ptr[:])
		if t.epilogue != nil && err == nil {
			t.epilogue.Enter(&r.epilogue, m)
			t.epilogue.Do(&r.epilogue, at, rows*s.w.Results, s.c, s.c, 1)
			r.epilogue.Release()
		}
		return err
	}}
}

// compute computes rows of the result for all channels.
func (t *byteWindow) compute(a *jit.Args, rows int) error {
	s := t.s
	a.N = kit.DivUp(s.w.Results, t.spec.Tile)
	most := max(1, windowCallUops/(a.N*t.spec.Uops()))
	in, out := a.Row[depthwise.In], a.Row[depthwise.Out]
	for b := range t.blocks() {
		channel := t.first(b)
		a.Row[depthwise.Weights] = b * t.blockBytes()
		a.Row[depthwise.Bias], a.Row[depthwise.Scales] = b*t.block()*4, b*t.block()*4
		a.Step[depthwise.Channels] = int(^uint64(0) >> max(0, 64-(s.c-channel)))
		for row := 0; row < rows; row += most {
			a.Rows = min(most, rows-row)
			a.Row[depthwise.In] = in + channel + row*s.h.Stride*t.w*s.c
			a.Row[depthwise.Out] = out + (channel+row*s.w.Results*s.c)*t.size
			if err := t.code.Call(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// border copies the input of the given rows of the result to worker memory, with the zero point as padding.
func (t *byteWindow) border(m *graph.Mem, image, first, rows int) {
	s, line := t.s, t.w*t.s.c
	zero := *(*uint8)(m.Ptrs[1+bytesXZero])
	for i := range s.h.Extent(rows) {
		to := kit.SliceOf[uint8](m.Worker, i*line, line)
		s.paddedRow(to, t.w, m, image, s.h.Begin(first)+i, zero, func(to, from []uint8) { copy(to, from) })
	}
}
