package exec_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// adds is a chain of n additions of so many elements.
func adds(n, elements int) *graph.Graph {
	g := graph.New("adds", kernels.Lookup)
	x := g.Input("x", tensor.Float32, elements)
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

// benchRuns measures runs of a graph of one input and one output, with nothing of them allocated.
func benchRuns(b *testing.B, g *graph.Graph, o exec.Options) {
	require.NoError(b, g.Err())
	p, err := exec.Compile(g, o)
	require.NoError(b, err)
	in, out := []*tensor.Tensor{tensor.Zeros(tensor.Float32, g.Inputs[0].Meta.Shape...)}, make([]*tensor.Tensor, 1)
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, p.RunInto(b.Context(), in, out))
	}
}

// BenchmarkTiny runs 1,000 steps of some elements each: what a step costs besides its work.
func BenchmarkTiny(b *testing.B) {
	for _, c := range []struct {
		name    string
		threads int
		tracer  exec.Tracer
	}{{"1", 1, nil}, {"2", 2, nil}, {"1 looked away from", 1, away{}}} {
		for _, elements := range []int{4, 10} {
			b.Run(fmt.Sprintf("threads=%s/elements=%d", c.name, elements), func(b *testing.B) {
				benchRuns(b, adds(1000, elements), exec.Options{Threads: c.threads, Tracer: c.tracer})
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/step")
			})
		}
	}
}

// branches are chains side by side, of n additions of so many elements each.
func branches(count, n, elements int) *graph.Graph {
	g := graph.New("branches", kernels.Lookup)
	x := g.Input("x", tensor.Float32, elements)
	ends := make([]*graph.Value, count)
	for i := range ends {
		ends[i] = x
	}
	for range n {
		for i, v := range ends {
			ends[i] = g.Apply("add", nil, v, x)[0]
		}
	}
	sum := ends[0]
	for _, v := range ends[1:] {
		sum = g.Apply("add", nil, sum, v)[0]
	}
	g.Output("y", sum)
	return g
}

// BenchmarkShared runs what workers share: loops that are split, chains of them, and steps side by side. Two workers
// must not take longer than one, whatever the size. Runs with one and with two take turns, so that both see the same
// machine; medians are of runs, and the ratio is that of neighbours.
func BenchmarkShared(b *testing.B) {
	one := func(op string, attrs graph.Attrs, shape ...int) *graph.Graph {
		g := graph.New(op, kernels.Lookup)
		g.Output("y", g.Apply(op, attrs, g.Input("x", tensor.Float32, shape...))[0])
		return g
	}
	for _, c := range []struct {
		name string
		g    *graph.Graph
	}{
		{"1,000 adds of 10", adds(1000, 10)},
		{"add of 16M", adds(1, 16<<20)},
		{"add of 128K", adds(1, 128<<10)},
		{"100 adds of 64K", adds(100, 64<<10)},
		{"100 adds of 16K", adds(100, 16<<10)},
		{"100 adds of 1K", adds(100, 1<<10)},
		{"25 adds of 16K in 4 branches", branches(4, 25, 16<<10)},
		{"25 adds of 1K in 4 branches", branches(4, 25, 1<<10)},
		{"softmax of 4096x256", one("softmax", graph.Attrs{"dim": 1}, 4096, 256)},
		{"softmax of 16x256", one("softmax", graph.Attrs{"dim": 1}, 16, 256)},
		{"sum of 1M", one("sum", nil, 1<<20)},
	} {
		b.Run(c.name, func(b *testing.B) { benchPaired(b, c.g) })
	}
}

// benchPaired measures runs with one worker and with two in turns.
func benchPaired(b *testing.B, g *graph.Graph) {
	require.NoError(b, g.Err())
	var programs [2]*exec.Program
	var outs [2][]*tensor.Tensor
	for i := range programs {
		p, err := exec.Compile(g, exec.Options{Threads: i + 1})
		require.NoError(b, err)
		programs[i], outs[i] = p, make([]*tensor.Tensor, 1)
	}
	in := []*tensor.Tensor{tensor.Zeros(tensor.Float32, g.Inputs[0].Meta.Shape...)}
	var times [2][]float64
	var ratios []float64
	for b.Loop() {
		var took [2]float64
		for i, p := range programs {
			for warm := range 4 {
				start := time.Now()
				require.NoError(b, p.RunInto(b.Context(), in, outs[i]))
				if took[i] = float64(time.Since(start)); warm > 1 {
					times[i] = append(times[i], took[i])
				}
			}
		}
		ratios = append(ratios, took[1]/took[0])
	}
	quantile := func(list []float64, q float64) float64 {
		slices.Sort(list)
		return list[int(q*float64(len(list)-1))]
	}
	b.ReportMetric(0, "ns/op")
	for i, list := range times {
		b.ReportMetric(quantile(list, 0.5), fmt.Sprintf("median-T%d-ns", i+1))
		b.ReportMetric(quantile(list, 0.1), fmt.Sprintf("p10-T%d-ns", i+1))
	}
	b.ReportMetric(quantile(ratios, 0.5), "T2/T1")
}
