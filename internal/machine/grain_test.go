package machine

import "testing"

// TestGrains holds the grains against what work takes: handing out a chunk must cost a tenth of it at
// most, and a chunk must not take longer than a tenth of a millisecond. Times are those of an element on
// a Zen 5 desktop, by loops in Go where there are such.
func TestGrains(t *testing.T) {
	for name, ns := range map[string]float64{
		"MoveGrain":     MoveGrain * 0.4,
		"GatherGrain":   GatherGrain * 1.06,
		"FunctionGrain": FunctionGrain * 5,
		"CallGrain":     CallGrain * 13,
		"ReduceGrain":   ReduceGrain * 0.4,
		"MACGrain":      MACGrain / 96.,
		// A multiply-add each is part of a simple operation there: several are done at once.
		"PortableMACGrain": PortableMACGrain * 0.2,
		"DirectMACGrain":   DirectMACGrain * 0.08,
	} {
		if ns < 10*DefaultChunkNS || ns > 1e5 {
			t.Errorf("%s takes %.0f ns, and %d to hand out", name, ns, DefaultChunkNS)
		}
	}
	if 8*BlockBytes > L1Bytes {
		t.Errorf("eight blocks of %d bytes are more than a cache of %d", BlockBytes, L1Bytes)
	}
}
