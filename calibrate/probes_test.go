package calibrate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels"
)

// TestProbes prepares every call that is measured. Where there is machine code for amd64 none is left out; without,
// those of implementations that are nothing else.
func TestProbes(t *testing.T) {
	all := 0
	for _, r := range kernels.Rates() {
		all += len(r.Calls)
	}
	probes := kernelProbes(kernels.Rates())
	if jit.Available() == nil && machine.HostFeatures().Has(machine.AVX2) {
		require.Len(t, probes, all)
	} else {
		require.Less(t, len(probes), all)
	}
	for _, p := range probes {
		b := newBuilder(p.call.Make != nil)
		for i, v := range b.addCall(p.call) {
			b.graph.Output(fmt.Sprint("y", i), v)
		}
		_, err := b.compile()
		require.NoError(t, err, "%s by %s", p.name(), p.call.Impl)
	}
}
