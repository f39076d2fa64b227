package experiment

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/tensor"
)

// BenchmarkEqualPlans measures the rate of false alarms on this machine. An iteration compiles one graph four times,
// measures the equal plans separately, and finds a false alarm if any of the six pairs differs significantly. From 200
// iterations on, it fails if more than 5 in 100 have one. Go's flag -cpu sets the workers of a run.
//
//	make false-alarms                          # 200 iterations
//	make false-alarms GRAPHRUN_MODEL=model.onnx
func BenchmarkEqualPlans(b *testing.B) {
	g, err := graphrun.Load(b.Context(), cmp.Or(os.Getenv("GRAPHRUN_MODEL"), "../examples/models/residual.json"))
	require.NoError(b, err)
	var in map[string]*tensor.Tensor
	alarms, significant, disturbed, worst := 0, 0, 0, 0.0
	for i := range b.N {
		var list []Candidate
		for k := range 4 {
			p, err := graphrun.Compile(b.Context(), g, graphrun.Options{})
			require.NoError(b, err)
			list = append(list, Candidate{fmt.Sprint("program ", k), p})
		}
		if in == nil {
			in = map[string]*tensor.Tensor{}
			for _, v := range list[0].Program.Internal().Planned().Inputs {
				in[v.Name] = tensor.Empty(v.Meta)
			}
		}
		c, err := Compare(context.Background(), list, in, Options{Seed: uint64(i), measureEqualPlans: true})
		require.NoError(b, err)
		alarm := false
		for _, p := range c.Verdict.Pairs {
			if p.Significant {
				alarm = true
				significant++
				worst = max(worst, math.Abs(*p.Ratio-1))
			}
		}
		if alarm {
			alarms++
		}
		if c.Verdict.Noise != "" {
			disturbed++
		}
		if i == 0 {
			for j := range list[1:] {
				x, y := identityOf(list[0].Program.Internal(), list[0].Program.Report()), identityOf(
					list[j+1].Program.Internal(), list[j+1].Program.Report())
				require.True(b, x.samePlan(context.Background(), &y))
			}
		}
	}
	if b.N >= 200 && 100*alarms > 5*b.N {
		b.Errorf("%d false alarms in %d comparisons: want at most 5 in 100", alarms, b.N)
	}
	b.ReportMetric(100*float64(alarms)/float64(b.N), "alarms/100")
	b.ReportMetric(float64(significant), "pairs")
	b.ReportMetric(100*worst, "worst-%")
	b.ReportMetric(100*float64(disturbed)/float64(b.N), "disturbed/100")
}
