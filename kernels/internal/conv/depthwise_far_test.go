package conv

import (
	"testing"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/tensor"
)

// smallDepthwise returns a depthwise convolution that keeps the image size.
func smallDepthwise() *convShape {
	same := func(n int) axis { return axis{in: n, out: n, taps: 3, stride: 1, pad: 1, dilation: 1} }
	return &convShape{window: newWindow([]axis{same(6), same(5)}), n: 1, c: 16, o: 16, cg: 1, groups: 16}
}

// TestFarDepthwiseWindows grows the distances of depthwise windows from small ones to beyond 32 bits. Shapes that
// [windowCompiles] accepts must compile; shapes that exceed 32 bits must be rejected, so that the loops in Go are used.
func TestFarDepthwiseWindows(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	accepted, rejected := 0, 0
	for power := 0; power < 47; power++ {
		for what, change := range map[string]func(s *convShape, n int){
			"width":    func(s *convShape, n int) { s.w.in, s.w.pad, s.w.out = s.w.in+n, 0, s.w.in+n-2 },
			"height":   func(s *convShape, n int) { s.h.in, s.h.pad, s.h.out = s.h.in+n, 0, s.h.in+n-2 },
			"step":     func(s *convShape, n int) { s.h.stride, s.h.pad, s.h.out = n, n, 3 },
			"dilation": func(s *convShape, n int) { s.w.dilation, s.w.pad, s.w.out = n, n, s.w.in },
			"channels": func(s *convShape, n int) { s.c, s.o, s.groups = s.c+n, s.o+n, s.groups+n },
		} {
			s := smallDepthwise()
			change(s, 1<<power)
			s.xs = ncdhw{n: s.h.in * s.w.in * s.c, c: 1, h: s.w.in * s.c, w: s.c}
			s.os = ncdhw{n: s.h.out * s.w.out * s.c, c: 1, h: s.w.out * s.c, w: s.c}
			if !windowCompiles(s, tensor.Float32) {
				rejected++
				continue
			}
			accepted++
			if _, err := newDepthwiseWindow(s, tensor.Float32); err != nil {
				t.Errorf("%s + 2^%d is accepted, but: %v", what, power, err)
			}
			if power > 31 {
				t.Errorf("%s + 2^%d is accepted", what, power)
			}
		}
	}
	if accepted < 40 || rejected < 80 {
		t.Errorf("%d accepted, %d rejected", accepted, rejected)
	}
}

// TestFarByteWindows does so for bytes.
func TestFarByteWindows(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	for what, change := range map[string]func(s *convShape){
		"step":     func(s *convShape) { s.w.stride, s.w.pad = 1<<30, 1<<30 },
		"dilation": func(s *convShape) { s.h.dilation, s.h.pad = 1<<29, 1<<29 },
		"width":    func(s *convShape) { s.w.in, s.w.out = 1<<27, 1<<27 },
		"wraps":    func(s *convShape) { s.w.in, s.w.out, s.c, s.o = 1<<32, 1<<32, 1<<32, 1<<32 },
	} {
		s := smallDepthwise()
		if !s.byteWindowCompiles() {
			t.Fatal("small windows are rejected")
		}
		if change(s); s.byteWindowCompiles() {
			t.Errorf("a far %s is accepted", what)
		}
	}
}
