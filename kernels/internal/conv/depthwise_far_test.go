package conv

import (
	"testing"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/tensor"
)

// TestFarDepthwiseWindows grows the distances of depthwise windows from small ones to beyond 32 bits. Shapes that
// [windowCompiles] accepts must compile; shapes that exceed 32 bits must be rejected, so that the loops in Go are used.
func TestFarDepthwiseWindows(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	accepted, rejected := 0, 0
	for power := 0; power < 47; power++ {
		for what, change := range map[string]func(s *convShape, n int){
			"width":    func(s *convShape, n int) { s.w, s.pw, s.ow = s.w+n, 0, s.w+n-2 },
			"height":   func(s *convShape, n int) { s.h, s.ph, s.oh = s.h+n, 0, s.h+n-2 },
			"step":     func(s *convShape, n int) { s.sh, s.ph, s.oh = n, n, 3 },
			"dilation": func(s *convShape, n int) { s.dw, s.pw, s.ow = n, n, s.w },
			"channels": func(s *convShape, n int) { s.c, s.o, s.groups = s.c+n, s.o+n, s.groups+n },
		} {
			s := &convShape{n: 1, c: 16, h: 6, w: 5, o: 16, cg: 1, kh: 3, kw: 3, oh: 6, ow: 5, sh: 1, sw: 1, ph: 1, pw: 1,
				dh: 1, dw: 1, groups: 16}
			change(s, 1<<power)
			s.xs = [4]int{s.h * s.w * s.c, 1, s.w * s.c, s.c}
			s.os = [4]int{s.oh * s.ow * s.c, 1, s.ow * s.c, s.c}
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
		"step":     func(s *convShape) { s.sw, s.pw = 1<<30, 1<<30 },
		"dilation": func(s *convShape) { s.dh, s.ph = 1<<29, 1<<29 },
		"width":    func(s *convShape) { s.w, s.ow = 1<<27, 1<<27 },
		"wraps":    func(s *convShape) { s.w, s.ow, s.c, s.o = 1<<32, 1<<32, 1<<32, 1<<32 },
	} {
		s := &convShape{n: 1, c: 16, h: 6, w: 5, o: 16, cg: 1, kh: 3, kw: 3, oh: 6, ow: 5, sh: 1, sw: 1, ph: 1, pw: 1,
			dh: 1, dw: 1, groups: 16}
		if !s.byteWindowCompiles() {
			t.Fatal("small windows are rejected")
		}
		if change(s); s.byteWindowCompiles() {
			t.Errorf("a far %s is accepted", what)
		}
	}
}
