package program_test

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/graphtest/networks"
	"github.com/graphrun/graphrun/tensor"
)

var modelFile = flag.String("model", "", "the file that BenchmarkPrepare loads; empty: a network like resnet50")

// resident returns what the system says of the memory of the process, in MiB: now, and at most so far; 0 where it does
// not say.
func resident() (now, most float64) {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.ParseFloat(f[1], 64)
		switch f[0] {
		case "VmRSS:":
			now = n / 1024
		case "VmHWM:":
			most = n / 1024
		}
	}
	return now, most
}

// BenchmarkPrepare loads a network, compiles it and lets it run ten times, which is not in the time. It reports the
// memory of the process then, beside what the plan says that a run needs: with -benchtime 1x that is of one program.
func BenchmarkPrepare(b *testing.B) {
	load := func() *graph.Graph {
		if *modelFile == "" {
			return networks.Bottlenecks(64, 3, 4, 6, 3)
		}
		g, err := graphrun.Load(b.Context(), *modelFile)
		require.NoError(b, err)
		return g
	}
	var p *graphrun.Program
	for b.Loop() {
		g := load()
		b.StopTimer()
		in := map[string]*tensor.Tensor{}
		for _, v := range g.Inputs {
			in[v.Name] = tensor.Empty(v.Meta)
		}
		b.StartTimer()
		var err error
		p, err = graphrun.Compile(b.Context(), g, graphrun.Options{Strategy: graphrun.Optimal, Sizes: g.BoundSizes(),
			Threads: runtime.GOMAXPROCS(0)})
		require.NoError(b, err)
		b.StopTimer()
		for range 10 {
			_, err := p.Run(b.Context(), in)
			require.NoError(b, err)
		}
		b.StartTimer()
	}
	now, most := resident()
	b.ReportMetric(now, "MiB-resident")
	b.ReportMetric(most, "MiB-most")
	b.ReportMetric(float64(p.Need().Total())/(1<<20), "MiB-needed")
}
