package machine

import "testing"

// TestGrains checks the time of a chunk of one grain: at least ten times the time to hand out a chunk, and at most a
// tenth of a millisecond. The factors are measured times of an element in ns on a Zen 5 desktop, of portable code if
// there is any.
func TestGrains(t *testing.T) {
	for name, ns := range map[string]float64{
		"MoveGrain":     MoveGrain * 0.4,
		"GatherGrain":   GatherGrain * 1.06,
		"FunctionGrain": FunctionGrain * 5,
		"CallGrain":     CallGrain * 13,
		"ReduceGrain":   ReduceGrain * 0.4,
		"MACGrain":      MACGrain / 96.,
		// Vector instructions compute several multiply-adds at once.
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
