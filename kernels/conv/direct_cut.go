package conv

import (
	"reflect"

	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// cut lists the calls of an image.
func (t *direct) cut() {
	switch t.shape.cut {
	case flat:
		t.cutFlat()
	case allTaps:
		t.cutSmall()
	case alongRows:
		t.cutRows()
	}
}

// pixel is the distance between neighbouring pixels of the input, and channel that between channels.
func (t *direct) pixel() int   { return t.near * t.size }
func (t *direct) channel() int { return t.s.channelOf(t.shape.planes) * t.size }

// outPixel is the distance between neighbouring pixels of the result.
func (t *direct) outPixel() int { return t.pitch * t.size }

func (s *convShape) channelOf(planes bool) int {
	if planes {
		return s.h * s.w
	}
	return 1
}

// code returns the number of a spec among those of the convolution, of which there are few.
func (t *direct) code(s *tile.Spec) int {
	for i := len(t.specs) - 1; i >= 0; i-- { // neighbours are alike
		if reflect.DeepEqual(t.specs[i], s) {
			return i
		}
	}
	t.specs = append(t.specs, s)
	return len(t.specs) - 1
}

// spec returns a tile of so many rows, whose places and terms are to come.
func (t *direct) spec(rows int) *tile.Spec {
	return &tile.Spec{Size: t.size, Rows: rows, Near: aheadBytes}
}

// callMACs bounds the multiplications of a call by what vectors there are.
func (t *direct) callMACs() int { return directCallMACs * t.shape.lanes / 16 }

// tileRows are the rows of a tile, at most.
func (t *direct) tileRows() int {
	return min(t.shape.rows, max(1, t.callMACs()/(t.shape.block()*t.s.depth())))
}

// begin begins a strip.
func (t *direct) begin() { t.strips = append(t.strips, len(t.calls)) }

// cutFlat makes strips of pixels that follow one another: of all images, where channels come last.
func (t *direct) cutFlat() {
	s := t.s
	pixels := s.oh * s.ow
	if !t.shape.planes {
		pixels, t.images = pixels*s.n, 1
	}
	at := 0
	pieces := split(pixels, t.tileRows())
	strips := machine.CutUnits(len(pieces), t.shape.rows*t.shape.block()*s.depth(), directFlatMACs)
	for strip := range strips.Chunks {
		t.begin()
		first, end := strips.Range(strip)
		for i, n := range pieces[first:end] {
			if i > 0 && n == pieces[first+i-1] {
				t.calls[len(t.calls)-1].tiles++
			} else {
				t.calls = append(t.calls, directCall{code: t.code(t.flatSpec(n)), tiles: 1,
					in: at * t.pixel(), out: at * t.outPixel()})
			}
			at += n
		}
	}
}

func (t *direct) flatSpec(rows int) *tile.Spec {
	s := t.spec(rows)
	for i := range rows {
		s.In, s.Out = append(s.In, int32(i*t.pixel())), append(s.Out, int32(i*t.outPixel()))
	}
	s.Tiles = tile.Loop{In: int32(rows * t.pixel()), Out: int32(rows * t.outPixel())}
	s.Runs = []tile.Run{{Terms: t.s.cg, InStep: int32(t.channel()), VecStep: int32(t.panel)}}
	return s
}

// cutRows makes a strip of each row of the result. Tiles side by side that see the same of the window are one call.
func (t *direct) cutRows() {
	s := t.s
	most := max(1, t.callMACs()/(t.shape.rows*t.shape.block()*s.depth()))
	pieces := split(s.ow, t.tileRows())
	for oh := range s.oh {
		first, end := validRange(oh*s.sh-s.ph, s.dh, s.h, s.kh)
		t.begin()
		ow := 0
		for i, n := range pieces {
			spec := t.rowSpec(ow, n)
			code := t.code(spec)
			last := len(t.calls) - 1
			if i > 0 && t.calls[last].code == code && t.calls[last].tiles < most {
				t.calls[last].tiles++
			} else {
				t.calls = append(t.calls, directCall{code: code, tiles: 1, rows: max(0, end-first),
					in:  ((oh*s.sh-s.ph+first*s.dh)*s.w + ow*s.sw - s.pw) * t.pixel(),
					out: (oh*s.ow + ow) * t.outPixel(),
					vec: first * s.kw * t.turn() * t.panel})
			}
			ow += n
		}
	}
}

// turn is the terms of a pixel of the window that follow one another in a panel.
func (t *direct) turn() int {
	if t.shape.planes {
		return 1
	}
	return t.s.cg
}

// rowSpec is a tile of n pixels of an output row from ow on.
func (t *direct) rowSpec(ow, n int) *tile.Spec {
	s, f := t.s, t.spec(n)
	for i := range n {
		f.In, f.Out = append(f.In, int32(i*s.sw*t.pixel())), append(f.Out, int32(i*t.outPixel()))
	}
	f.Tiles = tile.Loop{In: int32(n * s.sw * t.pixel()), Out: int32(n * t.outPixel())}
	t.windowRow(f, 0, 0, func(kw, i int) bool { return uint((ow+i)*s.sw-s.pw+kw*s.dw) < uint(s.w) })
	window := tile.Loop{In: int32(s.dh * s.w * t.pixel()), Vec: int32(s.kw * t.turn() * t.panel), Turns: tile.Dynamic}
	f.Loops = t.overChannels(window)
	return f
}

// overChannels puts the loop over channels around others, where the input is in planes.
func (t *direct) overChannels(within ...tile.Loop) []tile.Loop {
	if !t.shape.planes {
		return within
	}
	channels := tile.Loop{In: int32(t.channel()), Vec: int32(t.s.kh * t.s.kw * t.panel), Turns: t.s.cg}
	return append([]tile.Loop{channels}, within...)
}

// windowRow adds the runs of a row of the window: in and vec bytes from where the terms begin. Pixels of it that the
// same rows of the tile see, and that follow one another in the input, are one run.
func (t *direct) windowRow(f *tile.Spec, in, vec int, sees func(kw, row int) bool) {
	s := t.s
	begin := len(f.Runs)
	step := t.channel()
	if t.shape.planes {
		step = s.dw * t.pixel()
	}
	for kw := range s.kw {
		rows := uint32(0)
		for i := range f.Rows {
			if sees(kw, i) {
				rows |= 1 << i
			}
		}
		r := tile.Run{In: int32(in + kw*s.dw*t.pixel()), Vec: int32(vec + kw*t.turn()*t.panel),
			InStep: int32(step), VecStep: int32(t.panel), Terms: t.turn(), Rows: rows}
		if last := len(f.Runs) - 1; last >= begin && f.Runs[last].Rows == rows && goesOn(&f.Runs[last], &r) {
			f.Runs[last].Terms += r.Terms
		} else if rows != 0 {
			f.Runs = append(f.Runs, r)
		}
	}
}

// goesOn reports whether a run begins where the one before would have its next term.
func goesOn(a, b *tile.Run) bool {
	n := int32(a.Terms)
	return a.In+n*a.InStep == b.In && a.Vec+n*a.VecStep == b.Vec
}

// cutSmall makes a strip of each tile of a small image, whose pixels may be in several rows.
func (t *direct) cutSmall() {
	s := t.s
	at := 0
	for _, n := range split(s.oh*s.ow, t.tileRows()) {
		t.begin()
		spec := t.smallSpec(at, n)
		t.calls = append(t.calls, directCall{code: t.code(spec), tiles: 1, out: at * t.outPixel()})
		at += n
	}
}

// smallSpec is a tile of n pixels from pixel at on.
func (t *direct) smallSpec(at, n int) *tile.Spec {
	s, f := t.s, t.spec(n)
	for i := range n {
		oh, ow := (at+i)/s.ow, (at+i)%s.ow
		f.In = append(f.In, int32(((oh*s.sh-s.ph)*s.w+ow*s.sw-s.pw)*t.pixel()))
		f.Out = append(f.Out, int32(i*t.outPixel()))
	}
	for kh := range s.kh {
		t.windowRow(f, kh*s.dh*s.w*t.pixel(), kh*s.kw*t.turn()*t.panel, func(kw, i int) bool {
			oh, ow := (at+i)/s.ow, (at+i)%s.ow
			return uint(oh*s.sh-s.ph+kh*s.dh) < uint(s.h) && uint(ow*s.sw-s.pw+kw*s.dw) < uint(s.w)
		})
	}
	f.Loops = t.overChannels()
	return f
}
