package conv

import (
	"testing"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/tensor"
)

// TestDirectCallsAreShort counts what calls multiply, for which the runtime waits before it stops the world, and the
// chunks that there are for workers.
func TestDirectCallsAreShort(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct{ n, c, size, o, k, chunks int }{
		{1, 3, 224, 64, 7, 16}, {1, 64, 56, 64, 3, 16}, {1, 512, 7, 512, 3, 16}, {1, 1820, 14, 256, 3, 16},
		{1, 64, 224, 64, 1, 16}, {1, 16384, 3, 64, 1, 2}, {4, 256, 56, 256, 1, 16}, {1, 2048, 7, 512, 1, 16},
	} {
		for _, planes := range []bool{false, true} {
			s := &convShape{n: c.n, c: c.c, h: c.size, w: c.size, o: c.o, cg: c.c, kh: c.k, kw: c.k, groups: 1, sh: 1, sw: 1,
				ph: c.k / 2, pw: c.k / 2, dh: 1, dw: 1, oh: c.size, ow: c.size}
			if !directComputes(s, tensor.Float32) {
				t.Errorf("%+v: there is no code", c)
				continue
			}
			d, err := newDirect(s, tensor.Float32, planes)
			if err != nil {
				t.Fatal(err)
			}
			var calls []directCall
			for strip := range d.strips {
				calls = d.callsOf(calls, strip)
			}
			for _, call := range calls {
				macs := call.tiles * d.specs[call.code].Rows * d.shape.block() * s.depth()
				if most := d.callMACs(); macs > most {
					t.Errorf("%+v, planes %v: a call of %d multiplications, %d are the most", c, planes, macs, most)
				}
			}
			if n := d.order.Chunks(); n < c.chunks {
				t.Errorf("%+v, planes %v: %d chunks", c, planes, n)
			}
		}
	}
}
