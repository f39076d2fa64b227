package conv

import (
	"context"
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// elementBytes is the size of an element of a direct convolution of bytes: four channels as bytes, whose dot product is
// one instruction, or two channels as words where there is no such instruction.
const elementBytes = 4

// perElement returns the number of channels per element.
func perElement() int {
	if machine.Instructions().MultipliesBytes() {
		return elementBytes
	}
	return elementBytes / 2
}

// directDType is a dtype of the size of an element.
const directDType = tensor.Float32

// smallGroup is the minimum number of output channels for which a group fills enough of a vector.
const smallGroup = 8

// directBytes is a direct convolution of elements of several channels, over images padded with their zero point. Sums
// are requantized in registers. Bytes of images are multiplied as unsigned; words keep the sign of the image.
type directBytes struct {
	direct
	image  *convShape  // the original shape; direct.s counts elements and has no padding
	per    int         // channels per element
	copied bool        // images are copied to scratch memory
	flip   uint8       // mask that makes copied bytes unsigned
	widen  *loops.Loop // converts bytes to words
	room   struct{ weight, sums, point, images, all int }
	state  graph.PerWorker[loops.State]
}

// packedShape returns the shape of the convolution of elements: padded, with `per` channels per element.
func (s *convShape) packedShape(per int) *convShape {
	q := *s
	q.h.Size, q.w.Size = s.h.Extent(s.h.Results), s.w.Extent(s.w.Results)
	if !s.bordered() {
		q.h.Size, q.w.Size = s.h.Size, s.w.Size
	}
	q.cg = kit.DivUp(s.cg, per)
	if s.joinsRow(per) {
		q.cg, q.w.Taps = kit.DivUp(s.w.Taps*s.cg, per), 1
	}
	q.h.Before, q.w.Before, q.hasBias = 0, 0, true
	q.c = s.groups * kit.DivUp(s.cg, per)
	q.xs = ncdhw{n: kit.Times(q.h.Size, q.w.Size, q.c), c: 1, h: kit.Times(q.w.Size, q.c), w: q.c}
	q.os, q.tail = ncdhw{n: s.h.Results * s.w.Results * s.o, c: 1, h: s.w.Results * s.o, w: s.o}, nil
	return &q
}

// joinsRow reports whether elements pack all channels of a row of the window, and not those of one pixel. For images of
// few channels, this needs fewer elements, because pixels are not padded to whole elements.
func (s *convShape) joinsRow(per int) bool {
	return s.groups == 1 && s.w.Dilation == 1 && s.h.Taps > 1 &&
		kit.DivUp(s.w.Taps*s.cg, per) < s.w.Taps*kit.DivUp(s.cg, per)
}

// bytesWalks returns the channels-last walk if machine code supports the call.
func bytesWalks(c *graph.Call, _ []tensor.Order) []graph.Walk {
	o, supported := byteConv.order(directByPixels, c.Meta(bytesX).Rank())
	s := byteConv.bytesShape(c)
	small := s.groups > 1 && (s.cg < elementBytes || s.og() < smallGroup) // most lanes would be empty
	if !supported || small || s.n*s.o*s.h.Results*s.w.Results == 0 {
		return nil
	}
	q := s.packedShape(perElement())
	if !directComputes(q, directDType) || s.bordered() && !s.proportionate(kit.Times(s.n, q.xs.n)) {
		return nil
	}
	return []graph.Walk{c.InOrder(o)}
}

func bytesWork(c *graph.Call, _ graph.Walk) graph.Work {
	w := graph.Work{Steps: 1}
	c.Streamed(&w)
	s := byteConv.bytesShape(c)
	per := perElement()
	q := s.packedShape(per)
	if f := q.elementShape(per); f.unit {
		q.unitWork(&w, &f)
	} else {
		q.directWork(&w, directFours, directDType, false)
	}
	if per < elementBytes || s.copies(per) || signBit(c.Meta(bytesX).DType) != 0 {
		w.Bytes[graph.Copied] += float64(s.n * (s.c*s.h.Size*s.w.Size + elementBytes*q.c*q.h.Size*q.w.Size))
	}
	w.Flops = byteConv.flops(c)
	return w
}

// copies reports whether images are padded, or pixels are not whole elements.
func (s *convShape) copies(per int) bool { return s.bordered() || s.cg%per != 0 }

// signBit returns the mask that maps bytes of a dtype to unsigned bytes in the same order: signed ones increase by 128.
func signBit(d tensor.DType) uint8 {
	if d == tensor.Int8 {
		return 1 << 7
	}
	return 0
}

// weightBytes returns the bytes of the packed weight, without the sums of output channels.
func (t *directBytes) weightBytes() int { return t.blocks() * t.panelBytes() }

// fill packs a weight: blocks of output channels, in which the channels of an element are adjacent, followed by the sum
// of each output channel's weights as int32. It panics as [graph.Mem.CheckContext] does.
func (t *directBytes) fill(m *graph.Mem, dst []int8, src unsafe.Pointer) {
	s := t.image
	sums := unsafe.Slice((*int32)(unsafe.Pointer(&dst[t.weightBytes()])), s.o)
	kit.Blocks(m.Context, len(dst), func(begin, end int) { clear(dst[begin:end]) })
	for o := range s.o {
		from, at := kit.Elem[int8](src, o*s.ws.n), t.packedAt(o)
		for kh := range s.h.Taps {
			for kw := range s.w.Taps {
				m.Count(s.cg)
				for c := range s.cg {
					v := *(*int8)(kit.Elem[int8](from, c*s.ws.c+kh*s.ws.h+kw*s.ws.w))
					to := &dst[at+t.weightAt(kh, kw, c)]
					if *to = v; t.per < elementBytes {
						*(*int16)(unsafe.Pointer(to)) = int16(v)
					}
					sums[o] += int32(v)
				}
			}
		}
	}
}

// weightAt returns the offset of a weight from the first of its output channel.
func (t *directBytes) weightAt(kh, kw, c int) int {
	term, i := (kh*t.s.w.Taps+kw)*t.s.cg, c
	if t.image.joinsRow(t.per) {
		term, i = kh*t.s.cg, kw*t.image.cg+c
	}
	return (term+i/t.per)*t.panel + i%t.per*(elementBytes/t.per)
}

// packedAt returns the offset of an output channel's weights in the packed form.
func (t *directBytes) packedAt(o int) int {
	og, width := t.s.og(), t.shape.block()
	block := o/og*kit.DivUp(og, width) + o%og/width
	return block*t.panelBytes() + o%og%width*elementBytes
}

// newDirectBytes returns a convolution without its code.
func newDirectBytes(c *graph.Call) *directBytes {
	s := byteConv.bytesShape(c)
	flip := signBit(c.Meta(bytesX).DType)
	t := &directBytes{image: s, per: perElement(), flip: flip}
	t.copied = s.copies(t.per) || flip != 0
	if t.per < elementBytes {
		t.copied, t.flip = true, 0
	}
	q := s.packedShape(t.per)
	shape := q.elementShape(t.per)
	t.direct = direct{s: q, shape: shape, size: elementBytes, panel: shape.block() * elementBytes, images: q.n,
		inPixelBytes: q.c * elementBytes, outPixelStride: q.o, levels: tile.Unsigned, outSize: 1}
	if s.joinsRow(t.per) {
		t.inPixelBytes = s.c * (elementBytes / t.per)
	}
	t.byteElements, t.wordElements = t.per == elementBytes, t.per < elementBytes
	switch c.Out[0].DType {
	case tensor.Int8:
		t.levels = tile.Signed
	case tensor.Int32:
		t.levels, t.outSize = tile.Sums, elementBytes
	}
	return t
}

func bytesPack(c *graph.Call, i int) (graph.Packing, bool) {
	if i != bytesW || c.Out[0].Numel() == 0 {
		return graph.Packing{}, false
	}
	t := newDirectBytes(c)
	order := "kh,kw,c"
	if t.image.joinsRow(t.per) {
		order = "kh,kw*c"
	}
	form := fmt.Sprintf("int%d panels of %d by %s in %ds, and sums", 32/t.per, t.shape.block(), order, t.per)
	return graph.Packing{Form: form, DType: tensor.Int8, Len: t.weightBytes() + t.s.o*elementBytes,
		Fill: func(ctx context.Context, dst, src *tensor.Tensor) {
			p := newDirectBytes(c)
			_, p.image.ws = spatial(src.Meta, 2)
			p.fill(&graph.Mem{Context: ctx}, kit.ElementsOf[int8](dst.Pointer(), dst.Numel()), src.Pointer())
		},
		Unpack: func(dst, packed *tensor.Tensor) {
			from := kit.ElementsOf[int8](packed.Pointer(), packed.Numel())
			kit.EachIndex(dst.Shape, func(at []int) {
				v := from[t.packedAt(at[0])+t.weightAt(at[2], at[3], at[1])]
				dst.Set(tensor.IntScalar(int64(v)), at...)
			})
		}}, true
}

func lowerBytes(c *graph.Call) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	t := newDirectBytes(c)
	if t.levels == tile.Sums {
		t.tail = newCodeTail(fusion.EpilogueOf(c), t.s.o, tile.EpilogueOperands)
	}
	t.cut()
	t.arrange()
	if err := t.compile(); err != nil {
		return nil, err
	}
	if err := t.compileWiden(c.Meta(bytesX).DType); err != nil {
		return nil, err
	}
	packed := c.Packed(bytesW) != nil
	if !packed {
		t.room.weight = kit.AlignUp(t.weightBytes() + t.s.o*elementBytes)
	}
	t.room.sums = t.room.weight
	t.room.point = t.room.sums + t.s.o*elementBytes
	t.room.images = t.room.sums + kit.AlignUp(t.s.o*elementBytes+machine.LineBytes) // the bias is read in whole vectors
	t.room.all = t.room.images
	if t.copied {
		t.room.all += kit.AlignUp(t.s.n*t.s.h.Size*t.s.w.Size*t.pixel() + elementBytes) // reads extend past the last pixel
	}
	k := &graph.Kernel{Scratch: t.room.all, Code: t.listings}
	if t.widen != nil {
		k.Worker = t.s.w.Size * t.paddedChannels()
	}
	if t.shape.unit {
		k.Worker = tile.UnitScratchBytes
	}
	if !packed {
		k.Phases = append(k.Phases, graph.Phase{Chunks: 1, Run: func(m *graph.Mem, _ int) error {
			t.fill(m, kit.SliceOf[int8](m.Scratch, 0, t.weightBytes()+t.s.o*elementBytes), m.Ptrs[1+bytesW])
			return nil
		}})
	}
	k.Phases = append(k.Phases, t.prepare(packed), t.convolve(packed))
	return k, nil
}

// panelsAt returns the address of the packed weight.
func (t *directBytes) panelsAt(m *graph.Mem, packed bool) unsafe.Pointer {
	if packed {
		return m.Ptrs[1+bytesW]
	}
	return unsafe.Pointer(unsafe.SliceData(m.Scratch))
}

// prepare is the phase that computes the initial values of sums in its first chunk, and pads images in the others, some
// rows each.
func (t *directBytes) prepare(packed bool) graph.Phase {
	s, q := t.image, t.s
	rows := 0
	if t.copied {
		rows = q.n * q.h.Size
	}
	group := max(1, machine.MoveGrain/(q.w.Size*t.pixel()))
	return graph.Phase{Chunks: 1 + kit.DivUp(rows, group), Run: func(m *graph.Mem, chunk int) error {
		zero := *(*uint8)(m.Ptrs[1+bytesXZero]) ^ t.flip
		if chunk == 0 {
			sums := kit.ElementsOf[int32](kit.Elem[int8](t.panelsAt(m, packed), t.weightBytes()), s.o)
			bias := kit.ElementsOf[int32](m.Ptrs[1+bytesBias], s.o)
			begin := kit.SliceOf[int32](m.Scratch, t.room.sums, s.o)
			less := int32(zero)
			if t.widen != nil && t.signed() {
				less = int32(int8(zero))
			}
			for o := range begin {
				begin[o] = bias[o] - less*sums[o]
			}
			if t.levels != tile.Sums {
				kit.SliceOf[int32](m.Scratch, t.room.point, 1)[0] = t.point(m.Ptrs[1+bytesYZero])
			}
			return nil
		}
		line := q.w.Size * t.paddedChannels()
		for row := (chunk - 1) * group; row < min(rows, chunk*group); row++ {
			if t.widen == nil {
				t.border(kit.SliceOf[uint8](m.Scratch, t.room.images+row*line, line), m, row/q.h.Size, row%q.h.Size, zero)
				continue
			}
			from := kit.Elem[uint8](m.Ptrs[1+bytesX], row*line) // rows that need no padding are only widened
			if s.copies(t.per) {
				t.border(kit.SliceOf[uint8](m.Worker, 0, line), m, row/q.h.Size, row%q.h.Size, zero)
				from = unsafe.Pointer(unsafe.SliceData(m.Worker))
			}
			to := unsafe.Pointer(&m.Scratch[t.room.images+2*row*line])
			t.widen.Run(t.state.Of(m), []unsafe.Pointer{to, from}, []int{0, 0}, line, 1)
		}
		return nil
	}}
}

// paddedChannels returns the number of channels per pixel in scratch memory.
func (t *directBytes) paddedChannels() int { return t.pixel() * t.per / elementBytes }

// signed reports whether images are int8.
func (t *directBytes) signed() bool { return t.image.call.Meta(bytesX).DType == tensor.Int8 }

// compileWiden compiles the byte-to-int16 loop if elements are pairs of words.
func (t *directBytes) compileWiden(d tensor.DType) error {
	if t.per == elementBytes {
		return nil
	}
	f, err := expr.Parse("int16(x)", "x")
	if err != nil {
		return err
	}
	code, err := f.Code([]tensor.DType{d}, expr.Typing{Out: []tensor.DType{tensor.Int16}})
	if err != nil {
		return err
	}
	t.widen, err = loops.New(&expr.Loop{Code: code, Scalar: []bool{false}}, loops.Options{})
	return err
}

// border copies a row of an image, with zero points as padding and zeros that fill the last element of each pixel.
func (t *directBytes) border(to []uint8, m *graph.Mem, n, row int, zero uint8) {
	s, q := t.image, t.s
	padded := t.paddedChannels()
	h := row - s.h.Before
	first, end := min(max(s.w.Before, 0), q.w.Size), min(s.w.Before+s.w.Size, q.w.Size)
	if !s.h.Contains(h) {
		first, end = q.w.Size, q.w.Size
	}
	for i := range to[:first*padded] {
		to[i] = zero
	}
	if first < end {
		from := kit.ElementsOf[uint8](kit.Elem[uint8](m.Ptrs[1+bytesX], (n*s.h.Size+h)*s.w.Size*s.c), s.w.Size*s.c)
		if padded == s.c {
			copy(to[first*padded:end*padded], from[(first-s.w.Before)*s.c:])
		} else {
			if s.groups == 1 {
				padPixels(to[first*padded:end*padded], from[(first-s.w.Before)*s.c:], padded, s.c)
			}
			for w := first; w < end && s.groups > 1; w++ {
				for g := range s.groups {
					group := to[w*padded+g*q.cg*t.per:][:q.cg*t.per]
					clear(group[copy(group, from[(w-s.w.Before)*s.c+g*s.cg:][:s.cg]):])
				}
			}
		}
	}
	for i := end * padded; i < len(to); i++ {
		to[i] = zero
	}
	if t.flip != 0 && first < end {
		flipSigns(to[first*padded : end*padded])
	}
}

// padPixels copies pixels of the given number of channels to a stride of padded bytes, and clears the rest.
func padPixels(to, from []uint8, padded, channels int) {
	at := 0
	if padded == 4 { // copy four bytes at once and mask those of the next pixel
		mask := uint32(1)<<(8*channels) - 1
		for ; len(from) >= 4 && at < len(to); at += 4 {
			binary.LittleEndian.PutUint32(to[at:], binary.LittleEndian.Uint32(from)&mask)
			from = from[channels:]
		}
	}
	for ; at < len(to); at += padded {
		clear(to[at+copy(to[at:at+padded], from[:channels]) : at+padded])
		from = from[channels:]
	}
}

// flipSigns adds 128 to bytes, eight at a time.
func flipSigns(b []uint8) {
	for ; len(b) >= 8; b = b[8:] {
		binary.NativeEndian.PutUint64(b, binary.NativeEndian.Uint64(b)^0x8080808080808080)
	}
	for i := range b {
		b[i] ^= 1 << 7
	}
}

// convolve is the phase that computes the result.
func (t *directBytes) convolve(packed bool) graph.Phase {
	return graph.Phase{Chunks: t.order.Chunks(), Run: func(m *graph.Mem, chunk int) error {
		r := t.run.Of(m)
		a := &r.args
		a.Ptr[tile.In], a.Ptr[tile.Vec] = m.Ptrs[1+bytesX], t.panelsAt(m, packed)
		if t.copied {
			a.Ptr[tile.In] = unsafe.Pointer(&m.Scratch[t.room.images])
		}
		a.Ptr[tile.Out], a.Ptr[tile.Ahead] = m.Ptrs[0], a.Ptr[tile.Vec]
		a.Ptr[tile.Bias] = unsafe.Pointer(&m.Scratch[t.room.sums])
		if t.levels != tile.Sums {
			a.Ptr[tile.Scales], a.Ptr[tile.Point] = m.Ptrs[1+bytesScale], unsafe.Pointer(&m.Scratch[t.room.point])
		}
		if t.shape.unit {
			a.Ptr[tile.Scratch] = unsafe.Pointer(unsafe.SliceData(m.Worker))
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

// point returns the zero point of the result.
func (t *directBytes) point(at unsafe.Pointer) int32 {
	if t.levels == tile.Signed {
		return int32(*(*int8)(at))
	}
	return int32(*(*uint8)(at))
}

// strip computes a strip of an image for a block of output channels.
func (t *directBytes) strip(r *directRun, image, block, strip int) error {
	s, a := t.s, &r.args
	channel, channels := t.channels(block)
	codes := t.codes[0]
	if channels < t.shape.block() {
		codes = t.codes[1]
	}
	in := image*s.h.Size*s.w.Size*t.pixel() + channel/s.og()*s.cg*elementBytes
	out := (image*s.h.Results*s.w.Results*s.o + channel) * t.outSize
	a.Row[tile.Bias] = channel * elementBytes
	if t.levels != tile.Sums {
		a.Row[tile.Scales] = channel * elementBytes
	}
	a.Row[tile.Ahead] = (block+1)%t.order.Blocks*t.panelBytes() + strip%t.order.Band*t.stripPrefetch
	r.calls = t.callsOf(r.calls[:0], strip)
	for _, c := range r.calls {
		a.Row[tile.In], a.Row[tile.Out] = in+c.in, out+c.out
		a.Row[tile.Vec] = block*t.panelBytes() + c.vec
		t.tail.at(a, out+c.out, channel*elementBytes)
		a.Rows, a.Step[tile.LoopTrips+t.shape.windowLoop()] = c.tiles, c.rows
		if err := codes[c.code].Call(a); err != nil {
			return err
		}
	}
	return nil
}
