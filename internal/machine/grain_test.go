package machine_test

import (
	"testing"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/pricing"
)

// TestGrains checks the time of a chunk of one grain: at least ten times the time to hand out a chunk, and at most a
// tenth of a millisecond. The factors are measured times of an element in ns on a Zen 5 desktop, of portable code if
// there is any.
func TestGrains(t *testing.T) {
	for name, ns := range map[string]float64{
		"MoveGrain":     machine.MoveGrain * 0.4,
		"GatherGrain":   machine.GatherGrain * 1.06,
		"FunctionGrain": machine.FunctionGrain * 5,
		"CallGrain":     machine.CallGrain * 13,
		"ReduceGrain":   machine.ReduceGrain * 0.4,
		"MACGrain":      machine.MACGrain / 96.,
		// Vector instructions compute several multiply-adds at once.
		"PortableMACGrain": machine.PortableMACGrain * 0.2,
		"DirectMACGrain":   machine.DirectMACGrain * 0.08,
	} {
		if ns < 10*pricing.DefaultChunkNS || ns > 1e5 {
			t.Errorf("%s takes %.0f ns, and %d to hand out", name, ns, pricing.DefaultChunkNS)
		}
	}
	if 8*machine.BlockBytes > machine.L1Bytes {
		t.Errorf("eight blocks of %d bytes are more than a cache of %d", machine.BlockBytes, machine.L1Bytes)
	}
}
