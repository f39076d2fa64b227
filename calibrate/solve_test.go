package calibrate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
)

// TestRatesArePositive solves for calls that were measured as shorter than a step alone: short measurements vary.
func TestRatesArePositive(t *testing.T) {
	work := graph.Work{StartedSteps: 1, Footprint: 4096}
	work.Bytes[graph.Copied] = 4096
	part := graph.Work{StartedSteps: 1, Footprint: 4096}
	part.Parts[0] = machine.Part{Kernel: "gemm.f32", Units: 100}
	m := &measurer{profile: machine.DefaultProfile(), rates: []graph.Rate{{Name: "gemm.f32"}},
		probes: []*probe{{access: graph.Copied, footprintBytes: 4096, stepWorks: []graph.Work{work}, ns: 1e-3},
			{innerKernel: "gemm.f32", stepWorks: []graph.Work{part}, ns: 1e-3}}}
	m.profile.StepPS = 1e6
	m.warmStepPS = 1e6
	m.solve()
	require.Positive(t, m.profile.Kernels["gemm.f32"])
	for _, l := range m.profile.Memory.Copied {
		require.Positive(t, l.PS)
	}
}
