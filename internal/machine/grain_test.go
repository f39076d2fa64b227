package machine

import "testing"

// TestGrains holds the grains against the profile: handing out a chunk must cost a tenth of it at
// most, and a chunk must not take longer than a tenth of a millisecond.
func TestGrains(t *testing.T) {
	p := DefaultProfile()
	for name, ns := range map[string]float64{
		"MoveGrain":     MoveGrain * p.NS([3]float64{8, 0, 0}, [3]float64{1, 0, 0}, 0),
		"GatherGrain":   GatherGrain * p.NS([3]float64{4, 0, 4}, [3]float64{}, 0),
		"FunctionGrain": FunctionGrain * p.NS([3]float64{8, 0, 0}, [3]float64{0, 0, 1}, 0),
		"CallGrain":     CallGrain * p.NS([3]float64{8, 0, 0}, [3]float64{20, 0, 1}, 0),
		"ReduceGrain":   ReduceGrain * p.NS([3]float64{4, 0, 0}, [3]float64{1, 0, 0}, 0),
		"MACGrain":      MACGrain / p.MACs,
		// A multiply-add each is part of a simple operation there: several are done at once.
		"PortableMACGrain": PortableMACGrain * p.NS([3]float64{}, [3]float64{0.5, 0, 0}, 0),
		"DirectMACGrain":   DirectMACGrain * p.NS([3]float64{}, [3]float64{0.2, 0, 0}, 0),
	} {
		if ns < 10*p.ChunkNS || ns > 1e5 {
			t.Errorf("%s takes %.0f ns, and %.0f to hand out", name, ns, p.ChunkNS)
		}
	}
	if 8*BlockBytes > p.Cache[0] {
		t.Errorf("eight blocks of %d bytes are more than a cache of %d", BlockBytes, p.Cache[0])
	}
}
