package exec_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// tinyAdds is a chain of n additions of four elements.
func tinyAdds(n int) *graph.Graph {
	g := graph.New("tiny", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 4)
	v := x
	for range n {
		v = g.Apply("add", nil, v, x)[0]
	}
	g.Output("y", v)
	return g
}

// away is a tracer that wants to see no run.
type away struct{ exec.Tracer }

func (away) BeginRun(*exec.Run) bool { return false }
func (away) EndRun(*exec.Run, error) {}

// BenchmarkTiny runs 1,000 steps of four elements each: what a step costs besides its work.
func BenchmarkTiny(b *testing.B) {
	for _, c := range []struct {
		name    string
		threads int
		tracer  exec.Tracer
	}{{"1", 1, nil}, {"2", 2, nil}, {"1 looked away from", 1, away{}}} {
		b.Run(c.name, func(b *testing.B) {
			g := tinyAdds(1000)
			require.NoError(b, g.Err())
			p, err := exec.Compile(g, exec.Options{Threads: c.threads, Tracer: c.tracer})
			require.NoError(b, err)
			s := p.NewSession()
			in, out := []*tensor.Tensor{tensor.Zeros(tensor.Float32, 4)}, []*tensor.Tensor{tensor.Zeros(tensor.Float32, 4)}
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, s.RunInto(b.Context(), in, out))
			}
		})
	}
}
