package calibrate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/pricing"
)

// TestRatesArePositive solves for calls that were measured as shorter than a step alone: short measurements vary.
func TestRatesArePositive(t *testing.T) {
	work := pricing.Work{StartedSteps: 1, Footprint: 4096}
	work.Bytes[pricing.Copied] = 4096
	part := pricing.Work{StartedSteps: 1, Footprint: 4096}
	part.Parts[0] = pricing.Part{Kernel: "gemm.f32", Units: 100}
	m := &measurer{profile: pricing.DefaultProfile(), rates: []graph.Rate{{Name: "gemm.f32"}},
		probes: []*probe{{access: pricing.Copied, footprintBytes: 4096, stepWorks: []pricing.Work{work}, ns: 1e-3},
			{innerKernel: "gemm.f32", stepWorks: []pricing.Work{part}, ns: 1e-3}}}
	m.profile.StepPS = 1e6
	m.warmStepPS = 1e6
	m.solve()
	require.Positive(t, m.profile.Kernels["gemm.f32"])
	for _, l := range m.profile.Memory.Copied {
		require.Positive(t, l.PS)
	}
}
