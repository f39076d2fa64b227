package exec_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
)

// largeGraphs write node number i of a graph file, whose operands are earlier nodes.
var largeGraphs = []struct {
	name string
	node func(rng *rand.Rand, i int) string
}{
	{"chain", func(_ *rand.Rand, i int) string {
		return fmt.Sprintf(`"op": "add", "inputs": ["n%d", "n0"]`, i-1)
	}},
	{"wide", func(rng *rand.Rand, i int) string {
		return fmt.Sprintf(`"op": "add", "inputs": ["n%d", "n%d"]`, rng.IntN(i), max(0, i-1-rng.IntN(1000)))
	}},
	{"mixed", func(rng *rand.Rand, i int) string {
		before := max(0, i-1-rng.IntN(50))
		switch rng.IntN(4) {
		case 0:
			return fmt.Sprintf(`"op": "relu", "inputs": ["n%d"]`, before)
		case 1:
			return fmt.Sprintf(`"op": "contiguous", "inputs": ["n%d"]`, before)
		case 2:
			return fmt.Sprintf(`"op": "reshape", "inputs": ["n%d"], "attrs": {"shape": [2, 3, 4, 5]}`, before)
		}
		return fmt.Sprintf(`"op": "mul", "inputs": ["n%d", "n%d"]`, i-1, before)
	}},
}

// largeGraph writes a graph file of n nodes.
func largeGraph(n int, node func(rng *rand.Rand, i int) string) []byte {
	rng := rand.New(rand.NewPCG(1, 1))
	var b bytes.Buffer
	b.WriteString(`{"version": 1, "inputs": [{"name": "n0", "dtype": "float32", "shape": [2, 3, 4, 5]}], "nodes": [`)
	for i := 1; i <= n; i++ {
		if i > 1 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `{"name": "n%d", %s}`, i, node(rng, i))
	}
	fmt.Fprintf(&b, `], "outputs": ["n%d"]}`, n)
	return b.Bytes()
}

// BenchmarkPhases gives the time a node of reading, inferring, planning and compiling large graphs, which
// must not grow with the number of nodes. A million are taken with -benchtime 1x alone.
func BenchmarkPhases(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		if n == 1_000_000 && flag.Lookup("test.benchtime").Value.String() != "1x" {
			continue
		}
		for _, large := range largeGraphs {
			data := largeGraph(n, large.node)
			parse := func(b *testing.B) *graph.Graph {
				g, err := graphfile.Parse(bytes.NewReader(data), kernels.Lookup, graphfile.Options{Name: "large.json", Dir: "."})
				require.NoError(b, err)
				return g
			}
			phase := func(name string, prepare func(b *testing.B) func()) {
				b.Run(fmt.Sprintf("%s/nodes=%d/%s", name, n, large.name), func(b *testing.B) {
					run := prepare(b)
					b.ReportAllocs()
					for b.Loop() {
						run()
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
				})
			}
			phase("load", func(b *testing.B) func() { return func() { parse(b) } })
			phase("infer", func(b *testing.B) func() {
				g := parse(b)
				return func() { require.NoError(b, g.Infer()) }
			})
			plan := func(b *testing.B, g *graph.Graph) *graph.Graph {
				p, err := passes.Run(g, passes.Options{})
				require.NoError(b, err)
				return p.Graph
			}
			phase("plan", func(b *testing.B) func() {
				g := parse(b)
				return func() { plan(b, g) }
			})
			phase("compile", func(b *testing.B) func() {
				g := plan(b, parse(b))
				return func() {
					_, err := exec.Compile(g, exec.Options{MemoryLimit: -1})
					require.NoError(b, err)
				}
			})
		}
	}
}
