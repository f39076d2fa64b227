package conv

import (
	"testing"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// TestDirectCallsAreShort checks that the multiplications of a call are bounded, since a call delays the runtime's
// stop-the-world, and that there are enough chunks for all workers.
func TestDirectCallsAreShort(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct{ n, c, size, o, k, chunks int }{
		{1, 3, 224, 64, 7, 16}, {1, 64, 56, 64, 3, 16}, {1, 512, 7, 512, 3, 16}, {1, 1820, 14, 256, 3, 16},
		{1, 64, 224, 64, 1, 16}, {1, 16384, 3, 64, 1, 2}, {4, 256, 56, 256, 1, 16}, {1, 2048, 7, 512, 1, 16},
	} {
		for _, planes := range []bool{false, true} {
			a := geometry.Axis{Size: c.size, Results: c.size,
				Window: geometry.Window{Taps: c.k, Stride: 1, PadBefore: c.k / 2, Dilation: 1}}
			s := &convShape{window: newWindow([]geometry.Axis{a, a}), batch: c.n, inChannels: c.c, outChannels: c.o,
				inPerGroup: c.c, groups: 1}
			if !hasDirectCode(s, tensor.Float32) {
				t.Errorf("%+v: not supported by machine code", c)
				continue
			}
			d, err := newDirect(s, tensor.Float32, tensor.Float32, planes)
			if err != nil {
				t.Fatal(err)
			}
			var calls []directCall
			for strip := range d.stripCount {
				calls = d.appendCalls(calls, strip)
			}
			for _, call := range calls {
				macs := call.tiles * d.specs[call.kind].Rows * d.shape.blockChannels() * s.termsPerOutput()
				if most := d.maxCallMACs(); macs > most {
					t.Errorf("%+v, planes %v: a call of %d multiplications, want at most %d", c, planes, macs, most)
				}
			}
			if n := d.order.Chunks(); n < c.chunks {
				t.Errorf("%+v, planes %v: %d chunks", c, planes, n)
			}
		}
	}
}

// TestUnitCallsAreShort checks that calls of the matrix unit, where partial operands take as long as whole ones, are
// bounded.
func TestUnitCallsAreShort(t *testing.T) {
	for _, c := range []struct{ cg, groups, h, w, o, k, dilation int }{
		{1, 1, 512, 512, 16, 1, 1}, {4, 1, 512, 512, 32, 1, 1}, {1, 1, 5000, 5, 16, 3, 2}, {1, 1, 20000, 1, 16, 1, 1},
		{2, 8, 224, 224, 64, 3, 1}, {2, 1, 224, 224, 16, 3, 2}, {16, 1, 56, 56, 64, 3, 1}, {128, 1, 7, 7, 512, 3, 1},
		{16384, 1, 9, 9, 64, 1, 1},
	} {
		along := func(n int) geometry.Axis {
			return geometry.Axis{Size: n, Results: n - (c.k-1)*c.dilation,
				Window: geometry.Window{Taps: c.k, Stride: 1, Dilation: c.dilation}}
		}
		s := &convShape{window: newWindow([]geometry.Axis{along(c.h), along(c.w)}), batch: 1, inChannels: c.cg * c.groups,
			outChannels: c.o, inPerGroup: c.cg, groups: c.groups}
		f := s.elementShape(dotChannels)
		if !f.usesMatrixUnit {
			t.Skip("there is no matrix unit")
		}
		d := &directConv{conv: s, shape: f, elemBytes: intBytes, inElemBytes: dotChannels,
			termBytes: f.blockChannels() * dotChannels, imageCount: 1,
			inPixelBytes: s.inChannels * dotChannels, outPixelStride: s.outChannels, outElemBytes: 1}
		d.makeTiles()
		for strip := range d.stripCount {
			for _, call := range d.appendCalls(nil, strip) {
				rows := kit.DivUp(d.specs[call.kind].Rows, tile.UnitRows) * tile.UnitRows
				if n := call.tiles * rows * f.blockChannels() * s.unitDepth(); n > tile.UnitCallGroups && call.tiles > 1 {
					t.Fatalf("%+v: a call of %d multiplications, want at most %d", c, n, tile.UnitCallGroups)
				}
			}
		}
	}
}
