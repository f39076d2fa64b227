package exec_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
)

// addGraph writes a graph file of n additions, each of the last values or of older ones.
func addGraph(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 1))
	var b bytes.Buffer
	b.WriteString(`{"version": 1, "inputs": [{"name": "n0", "dtype": "float32", "shape": [2, 3, 4, 5], "memory_format": "channels_last"}, {"name": "n1", "dtype": "float32", "shape": [3, 4, 5]}], "nodes": [`)
	for i := 2; i < n+2; i++ {
		if i > 2 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `{"name": "n%d", "op": "add", "inputs": ["n%d", "n%d"]}`, i, i-1, max(0, i-1-rng.IntN(50)))
	}
	fmt.Fprintf(&b, `], "outputs": ["n%d"]}`, n+1)
	return b.Bytes()
}

// BenchmarkPlan loads, infers, plans and compiles graphs of additions. The time a node must
// not grow with their number.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		data := addGraph(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				g, err := graph.Load(bytes.NewReader(data), "adds.json", ".", kernels.Lookup, nil)
				require.NoError(b, err)
				p, err := passes.Run(g, passes.Options{})
				require.NoError(b, err)
				_, err = exec.Compile(p.Graph, exec.Options{})
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
		})
	}
}
