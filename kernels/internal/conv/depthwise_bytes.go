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
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// depthwiseBytes is the kernel of a depthwise convolution of bytes for channels-last images, which requantizes sums in
// registers. A chunk computes some rows of the result. If windows reach outside the image, the chunk first copies its
// input rows, with padding, to worker memory.
type depthwiseBytes struct {
	conv           *convShape
	cpu            machine.Features
	spec           *depthwise.Bytes
	code           *jit.Func
	rows           int                                   // number of rows of the result per chunk
	inRows, inCols int                                   // numbers of rows and columns of a chunk's input
	copied         bool                                  // whether the input is copied to worker memory
	scratchOffsets struct{ sums, scales, zeroPoint int } // offsets in scratch memory
	outElemBytes   int                                   // bytes of an element of the result: 1, or 4 for int32 sums
	epilogue       *fusion.Epilogue                      // epilogue of int32 results, or nil
	run            graph.PerWorker[depthwiseBytesRun]
}

// depthwiseBytesRun is the state of a worker that runs a depthwiseBytes.
type depthwiseBytesRun struct {
	args     jit.Args
	epilogue fusion.EpilogueRun
}

// maxCallUops bounds the instructions of a call of machine code. A goroutine cannot be preempted within a call, so a
// call must not take longer than 50 us.
const maxCallUops = 1 << 15

// hasDepthwiseBytesCode reports whether machine code supports a depthwise convolution of bytes by pixels.
func (s *convShape) hasDepthwiseBytesCode() bool {
	return depthwise.SupportsBytes(machine.Host()) && jit.Available() == nil &&
		s.inPerGroup == 1 && s.outChannels == s.inChannels && s.inChannels > 1 && s.taps() > 0 &&
		kit.BoundedProduct(s.taps(), max(s.h.Dilation, s.w.Dilation)) < 1<<8 && max(s.h.Stride, s.w.Stride) < 1<<8 &&
		kit.BoundedProduct(s.h.MaxDistance(), s.w.MaxDistance(), s.inChannels) < maxReach &&
		kit.BoundedProduct(s.pixelsOut(), s.inChannels, 4) < maxReach
}

// depthwiseBytesWalks returns the channels-last walk if machine code supports the call.
func depthwiseBytesWalks(c *graph.Call, _ []tensor.Order) []graph.Walk {
	o, supported := byteConv.order(depthwiseByPixels, c.Meta(bytesInput).Rank())
	s := byteConv.bytesShape(c)
	if !supported || s.n*s.outChannels*s.h.Results*s.w.Results == 0 || !s.hasDepthwiseBytesCode() {
		return nil
	}
	return []graph.Walk{c.InOrder(o)}
}

// depthwiseBytesWork returns the cost of a depthwise convolution of bytes.
func depthwiseBytesWork(c *graph.Call, _ graph.Walk) graph.Work {
	w := graph.Work{Steps: 1}
	c.AddStreamed(&w)
	s := byteConv.bytesShape(c)
	t := newDepthwiseBytes(c)
	tiles := s.n * s.h.Results * kit.DivUp(s.w.Results, t.spec.Tile) * t.blocks()
	w.Do(rateBytesInstruction, float64(tiles*t.spec.Uops()))
	if t.copied {
		w.Bytes[graph.Copied] += float64(2 * s.n * s.inChannels * s.h.Size * s.w.Size)
	}
	w.Flops = byteConv.flops(c)
	return w
}

// blocks returns the number of blocks of channels. The channels of a block are computed at once. If lanes cannot be
// masked, the last of several blocks overlaps the previous block.
func (t *depthwiseBytes) blocks() int { return kit.DivUp(t.conv.inChannels, t.blockChannels()) }

// blockChannels returns the number of channels of a block.
func (t *depthwiseBytes) blockChannels() int { return depthwise.ByteChannels(t.cpu) }

// firstChannel returns the first channel of a block.
func (t *depthwiseBytes) firstChannel(block int) int {
	if t.cpu.Has(machine.Vector512) {
		return block * t.blockChannels()
	}
	return max(0, min(block*t.blockChannels(), t.conv.inChannels-t.blockChannels()))
}

// eachChannel calls visit for the channels of all blocks, in the order in which the machine code stores them. index is
// the index of a channel in its block.
func (t *depthwiseBytes) eachChannel(visit func(block, index, channel int)) {
	for b := range t.blocks() {
		for index := range t.blockChannels() {
			if c := t.firstChannel(b) + depthwise.ByteChannel(t.cpu, index); c < t.conv.inChannels {
				visit(b, index, c)
			}
		}
	}
}

// newDepthwiseBytes chooses the tile size that takes the fewest instructions. The caller generates the code.
func newDepthwiseBytes(c *graph.Call) *depthwiseBytes {
	s := byteConv.bytesShape(c)
	host := machine.Host()
	t := &depthwiseBytes{conv: s, cpu: host.Vectors256(), copied: s.readsPadding(), inRows: s.h.Size, inCols: s.w.Size,
		outElemBytes: c.Out[0].DType.Size()}
	if host.Has(machine.DotBytes512) {
		t.cpu = host
	}
	channels := 0
	if !t.cpu.Has(machine.Vector512) && s.inChannels < t.blockChannels() { // the code reads a whole vector
		t.copied, channels = true, s.inChannels
	}
	if t.copied {
		t.inCols = s.w.Extent(s.w.Results)
	}
	best := math.MaxInt
	for size := 1; size <= min(s.w.Results, depthwise.MaxByteTile(t.cpu)); size++ {
		n := kit.DivUp(s.w.Results, size)
		p := &depthwise.Bytes{Tile: size, Overlap: n*size - s.w.Results, Window: [2]int{s.h.Taps, s.w.Taps},
			Stride: [2]int{s.h.Stride, s.w.Stride}, Dilation: [2]int{s.h.Dilation, s.w.Dilation},
			In:   [2]int{t.inCols * s.inChannels, s.inChannels},
			Out:  [2]int{s.w.Results * s.inChannels * t.outElemBytes, s.inChannels * t.outElemBytes},
			Sums: c.Out[0].DType == tensor.Int32, FlipSigns: imageSignMask(c) != 0,
			SignedIn: tile.ReadsSigned(t.cpu, c.Meta(bytesInput).DType == tensor.Int8),
			Signed:   c.Out[0].DType == tensor.Int8, Words: !t.cpu.DotsBytes(), Channels: channels}
		if uops := n * p.Uops(); uops < best {
			t.spec, best = p, uops
		}
	}
	t.rows = min(s.h.Results, max(1, windowGrain/(s.w.Results*s.inChannels*s.h.Taps*s.w.Taps)))
	if t.copied {
		t.inRows = s.h.Extent(t.rows)
	}
	return t
}

// blockBytes returns the bytes of a block of the packed weight.
func (t *depthwiseBytes) blockBytes() int {
	return t.conv.w.Taps * t.spec.Groups() * 4 * t.blockChannels()
}

// weight describes the packed weight, which has blocks of channels in the order of the code.
func (t *depthwiseBytes) weight() *byteWeight {
	rows := t.spec.Rows()
	return &byteWeight{conv: t.conv, bytes: t.blocks() * t.blockBytes(), words: t.spec.Words,
		form: fmt.Sprintf("int%d by kw,kh in %ds of %d channels, and sums", 32/rows, rows, t.blockChannels()),
		channels: func(visit func(o, at int)) {
			t.eachChannel(func(block, index, channel int) { visit(channel, block*t.blockBytes()+index*4) })
		},
		offset: func(kh, kw, _ int) int {
			return (kw*t.spec.Groups()+kh/rows)*t.blockChannels()*4 + kh%rows*(4/rows)
		}}
}

// depthwiseBytesPack returns the packing of the weight.
func depthwiseBytesPack(c *graph.Call, i int) (graph.Packing, bool) {
	if i != bytesWeight || c.Out[0].Numel() == 0 {
		return graph.Packing{}, false
	}
	return newDepthwiseBytes(c).weight().packing(), true
}

// lowerDepthwiseBytes makes the kernel of a depthwise convolution of bytes.
func lowerDepthwiseBytes(c *graph.Call) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	t := newDepthwiseBytes(c)
	s := t.conv
	t.epilogue = fusion.EpilogueOf(c)
	var err error
	if t.code, err = depthwise.CompileBytes(t.spec, t.cpu); err != nil {
		return nil, fmt.Errorf("depthwise convolution of bytes: %w", err)
	}
	weight := t.weight()
	vectors := t.blocks() * t.blockChannels() * 4
	t.scratchOffsets.sums = weight.scratchBytes()
	t.scratchOffsets.scales = t.scratchOffsets.sums + vectors
	t.scratchOffsets.zeroPoint = t.scratchOffsets.scales + vectors
	k := &graph.Kernel{Scratch: t.scratchOffsets.zeroPoint + kit.AlignUp(4),
		Code: func() []expr.Listing { return []expr.Listing{{Name: "rows", Assembly: t.code.Listing}} }}
	if t.copied {
		k.Worker = t.inRows*t.inCols*s.inChannels + t.blockChannels() // vectors reach past the last pixel
	}
	k.Phases = append(weight.phases(), t.prepare(weight), t.convolve(weight))
	return k, nil
}

// prepare is the phase that stores the initial values of sums and the scales in the channel order of the code (see
// eachChannel).
func (t *depthwiseBytes) prepare(weight *byteWeight) graph.Phase {
	s, c := t.conv, t.conv.call
	return graph.Phase{Chunks: 1, Run: func(m *graph.Mem, _ int) error {
		initialSum := weight.initialSums(m, inputZeroPoint(m, imageSignMask(c), t.spec.SignedIn))
		var scale []float32
		if !t.spec.Sums {
			scale = kit.ElementsOf[float32](m.Ptrs[1+bytesScale], s.inChannels)
		}
		n := t.blocks() * t.blockChannels()
		sums := kit.SliceOf[int32](m.Scratch, t.scratchOffsets.sums, n)
		scales := kit.SliceOf[float32](m.Scratch, t.scratchOffsets.scales, n)
		clear(sums)
		clear(scales)
		t.eachChannel(func(block, index, channel int) {
			i := block*t.blockChannels() + index
			if sums[i] = initialSum(channel); !t.spec.Sums {
				scales[i] = scale[channel]
			}
		})
		if t.spec.Sums {
			return nil
		}
		kit.SliceOf[int32](m.Scratch, t.scratchOffsets.zeroPoint, 1)[0] = resultZeroPoint(m, c.Out[0].DType)
		return nil
	}}
}

// convolve is the phase that computes the result. A chunk computes some rows of an image of the result.
func (t *depthwiseBytes) convolve(weight *byteWeight) graph.Phase {
	s := t.conv
	strips := kit.DivUp(s.h.Results, t.rows)
	return graph.Phase{Chunks: s.n * strips, Run: func(m *graph.Mem, chunk int) error {
		r := t.run.Of(m)
		a := &r.args
		image, first := chunk/strips, chunk%strips*t.rows
		rows := min(t.rows, s.h.Results-first)
		a.Ptr[depthwise.In], a.Row[depthwise.In] = m.Ptrs[1+bytesInput],
			(image*s.h.Size+first*s.h.Stride)*s.w.Size*s.inChannels
		if t.copied {
			t.copyPadded(m, image, first, rows)
			a.Ptr[depthwise.In], a.Row[depthwise.In] = unsafe.Pointer(unsafe.SliceData(m.Worker)), 0
		}
		a.Ptr[depthwise.Weights], a.Ptr[depthwise.Out] = weight.address(m), m.Ptrs[0]
		at := (image*s.h.Results + first) * s.w.Results * s.inChannels
		a.Row[depthwise.Out] = at * t.outElemBytes
		a.Ptr[depthwise.Bias] = unsafe.Pointer(&m.Scratch[t.scratchOffsets.sums])
		a.Ptr[depthwise.Scales] = unsafe.Pointer(&m.Scratch[t.scratchOffsets.scales])
		a.Ptr[depthwise.ZeroPoint] = unsafe.Pointer(&m.Scratch[t.scratchOffsets.zeroPoint])
		err := t.compute(a, rows)
		clear(a.Ptr[:])
		if t.epilogue != nil && err == nil {
			t.epilogue.Enter(&r.epilogue, m)
			t.epilogue.Do(&r.epilogue, at, rows*s.w.Results, s.inChannels, s.inChannels, 1)
			r.epilogue.Release()
		}
		return err
	}}
}

// compute computes rows of the result for all channels.
func (t *depthwiseBytes) compute(a *jit.Args, rows int) error {
	s := t.conv
	a.N = kit.DivUp(s.w.Results, t.spec.Tile)
	rowsPerCall := max(1, maxCallUops/(a.N*t.spec.Uops()))
	in, out := a.Row[depthwise.In], a.Row[depthwise.Out]
	for b := range t.blocks() {
		channel := t.firstChannel(b)
		a.Row[depthwise.Weights] = b * t.blockBytes()
		a.Row[depthwise.Bias], a.Row[depthwise.Scales] = b*t.blockChannels()*4, b*t.blockChannels()*4
		a.Step[depthwise.Channels] = int(^uint64(0) >> max(0, 64-(s.inChannels-channel)))
		for row := 0; row < rows; row += rowsPerCall {
			a.Rows = min(rowsPerCall, rows-row)
			a.Row[depthwise.In] = in + channel + row*s.h.Stride*t.inCols*s.inChannels
			a.Row[depthwise.Out] = out + (channel+row*s.w.Results*s.inChannels)*t.outElemBytes
			if err := t.code.Call(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyPadded copies the input of the given rows of the result to worker memory, with the zero point as padding.
func (t *depthwiseBytes) copyPadded(m *graph.Mem, image, first, rows int) {
	s, line := t.conv, t.inCols*t.conv.inChannels
	zero := *(*uint8)(m.Ptrs[1+bytesInputZero])
	for i := range s.h.Extent(rows) {
		to := kit.SliceOf[uint8](m.Worker, i*line, line)
		s.copyPaddedRow(to, t.inCols, m, image, s.h.Begin(first)+i, zero, func(to, from []uint8) { copy(to, from) })
	}
}
