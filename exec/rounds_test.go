package exec_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// countedOps are ops that count how often they are compiled: one for which there is no memory when it
// is compiled, and one that always goes well.
func countedOps(compiled *int) graph.Lookup {
	infer := func(c *graph.Call) ([]graph.Result, error) { return c.NewResult(c.Meta(0).Type()), nil }
	kernel := &graph.Kernel{Phases: []graph.Phase{{Chunks: 1, Run: func(*graph.Mem, int) error { return nil }}}}
	op := func(name string, fails bool) *graph.Op {
		return defined(graph.Op{
			Semantics: graph.Semantics{
				Name: name, Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](), Infer: infer,
			},
			Lowerings: graph.Lowerings{
				Compile: func(*graph.Call) (*graph.Kernel, error) {
					*compiled++
					if fails {
						panic(&tensor.MemoryError{Bytes: min(1<<40, math.MaxInt)})
					}
					return kernel, nil
				},
			},
		})
	}
	ops := map[string]*graph.Op{"greedy": op("greedy", true), "plain": op("plain", false)}
	return func(name string) *graph.Op {
		if o := ops[name]; o != nil {
			return o
		}
		return lookup(name)
	}
}

// What cannot be compiled for want of memory costs no compilation of all the rest.
func TestManyThatCannotBeCompiled(t *testing.T) {
	const n = 300
	compiled := 0
	g := graph.New("g", countedOps(&compiled))
	x := g.Input("x", tensor.Float32, 4)
	for i := range n {
		g.Output(fmt.Sprintf("a%d", i), g.Apply("greedy", nil, x)[0]).Output(fmt.Sprintf("b%d", i),
			g.Apply("plain", nil, x)[0])
	}
	require.NoError(t, g.Err())
	p, err := compileParts(g, nil, exec.Options{Threads: 1, KeepGoing: true})
	require.NoError(t, err)
	assert.LessOrEqual(t, compiled, 3*n, "all nodes, and then those that did not fail")
	out, err := p.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 4)})
	var part *exec.Incomplete
	require.ErrorAs(t, err, &part)
	assert.Len(t, part.Failed, n)
	assert.Len(t, out, n)
}

// Values that take turns in the arena do not go one a round, and no more of them go than must.
func TestManyThatTakeTurns(t *testing.T) {
	testsize.Long(t)
	const n, size = 200, 1000
	for _, must := range []int{1, 5, 77, n} {
		compiled := 0
		g := graph.New("g", countedOps(&compiled))
		wide, narrow := g.Input("wide", tensor.Float32, size), g.Input("narrow", tensor.Float32, size/2)
		for i := range n {
			x := wide
			if i >= must {
				x = narrow
			}
			y := g.Apply("plain", nil, g.Apply("plain", nil, x)[0])[0]
			g.Output(fmt.Sprintf("y%d", i), g.Apply("total", nil, y)[0])
		}
		require.NoError(t, g.Err())
		// Beside the inputs, two values of 500 elements fit at a time, two of 1000 do not.
		p, err := compileParts(g, nil, exec.Options{Threads: 1, KeepGoing: true, MemoryLimit: 4 * (3*size/2 + 3*size/2 + n)})
		require.NoError(t, err)
		_, err = p.Run(context.Background(), map[string]*tensor.Tensor{"wide": tensor.Zeros(tensor.Float32, size),
			"narrow": tensor.Zeros(tensor.Float32, size/2)})
		var part *exec.Incomplete
		require.ErrorAs(t, err, &part)
		assert.Len(t, part.Failed, must)
		assert.Less(t, compiled, 70*n, "%d must go", must)
	}
}
