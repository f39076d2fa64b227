//go:build !386 && !arm

package conv

import (
	"testing"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/depthwise"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/tensor"
)

// smallDepthwise returns a depthwise convolution that keeps the image size.
func smallDepthwise() *convShape {
	same := func(n int) geometry.Axis {
		return geometry.Axis{Size: n, Results: n, Window: geometry.Window{Taps: 3, Stride: 1, PadBefore: 1, Dilation: 1}}
	}
	return &convShape{window: newWindow([]geometry.Axis{same(6), same(5)}), batch: 1, inChannels: 16, outChannels: 16,
		inPerGroup: 1, groups: 16}
}

// TestFarDepthwiseWindows grows the distances of depthwise windows from small ones to beyond 32 bits. Shapes that
// [hasWindowCode] accepts must compile; shapes that exceed 32 bits must be rejected, so that the loops in Go are used.
func TestFarDepthwiseWindows(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	accepted, rejected := 0, 0
	for power := 0; power < 47; power++ {
		for what, change := range map[string]func(s *convShape, n int){
			"width":    func(s *convShape, n int) { s.w.Size, s.w.PadBefore, s.w.Results = s.w.Size+n, 0, s.w.Size+n-2 },
			"height":   func(s *convShape, n int) { s.h.Size, s.h.PadBefore, s.h.Results = s.h.Size+n, 0, s.h.Size+n-2 },
			"step":     func(s *convShape, n int) { s.h.Stride, s.h.PadBefore, s.h.Results = n, n, 3 },
			"dilation": func(s *convShape, n int) { s.w.Dilation, s.w.PadBefore, s.w.Results = n, n, s.w.Size },
			"channels": func(s *convShape, n int) {
				s.inChannels, s.outChannels, s.groups = s.inChannels+n, s.outChannels+n, s.groups+n
			},
		} {
			s := smallDepthwise()
			change(s, 1<<power)
			s.inStride = ncdhw{n: s.h.Size * s.w.Size * s.inChannels, c: 1, h: s.w.Size * s.inChannels, w: s.inChannels}
			s.outStride = ncdhw{n: s.h.Results * s.w.Results * s.inChannels, c: 1, h: s.w.Results * s.inChannels,
				w: s.inChannels}
			if !hasWindowCode(s, tensor.Float32) {
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

// TestFarByteWindows checks that windows of bytes whose distances exceed 32 bits are rejected.
func TestFarByteWindows(t *testing.T) {
	if jit.Available() != nil || !depthwise.SupportsBytes(machine.HostFeatures()) {
		t.Skip("no machine code for bytes here")
	}
	for what, change := range map[string]func(s *convShape){
		"step":     func(s *convShape) { s.w.Stride, s.w.PadBefore = 1<<30, 1<<30 },
		"dilation": func(s *convShape) { s.h.Dilation, s.h.PadBefore = 1<<29, 1<<29 },
		"width":    func(s *convShape) { s.w.Size, s.w.Results = 1<<27, 1<<27 },
		"wraps":    func(s *convShape) { s.w.Size, s.w.Results, s.inChannels, s.outChannels = 1<<32, 1<<32, 1<<32, 1<<32 },
	} {
		s := smallDepthwise()
		if !s.hasDepthwiseBytesCode() {
			t.Fatal("small windows are rejected")
		}
		if change(s); s.hasDepthwiseBytesCode() {
			t.Errorf("a far %s is accepted", what)
		}
	}
}
