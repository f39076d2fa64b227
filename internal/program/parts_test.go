package program_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// selection is a network that applies a layer, and then a loop of three iterations, to the rows of x that a mask
// selects. The body of the loop is a network over all rows. The number of rows of x is open.
func selection() *graph.Graph {
	const width = 24
	r := rand.New(rand.NewPCG(3, 5))
	weight := func(g *graph.Graph, name string, shape ...int) *graph.Value {
		return g.Constant(name, randomFloats(r, shape...))
	}
	body := graph.New("body", kernels.Lookup)
	body.Input("i", tensor.Int64)
	body.Input("going", tensor.Bool)
	state := body.InputDims("state", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "n"}, graph.Dim{Size: width})
	next := op.Tanh(op.Add(op.Linear(state, weight(body, "v", width, width), nil), state))
	body.Output("on", op.Ge(op.Sum(op.Abs(next)), 0)).Output("next", next).Output("row", op.Sum(next, op.SumAttrs{Dim: []int{0}}))

	g := graph.New("selection", kernels.Lookup)
	n := graph.Dim{Symbol: "n"}
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, n, graph.Dim{Size: 16})
	mask := g.InputDims("mask", tensor.Bool, tensor.NoFormat, n)
	x = op.Sigmoid(op.Linear(x, weight(g, "u", 16, 16), nil))
	at := op.Squeeze(op.Nonzero(mask), op.SqueezeAttrs{Dim: []int{1}})
	chosen := op.Relu(op.Linear(op.IndexSelect(x, at, 0), weight(g, "w", width, 16), weight(g, "b", width)))
	looped := g.ApplyN("loop", 2, graph.Attrs{"body": body, "carried": 1}, 3, true, chosen)
	g.Output("softmax", op.Softmax(op.Add(looped[0], chosen), 1)).Output("rows", looped[1])
	return g.Output("wide", op.Matmul(op.Transpose(chosen, 0, 1), chosen))
}

// runSelection runs a program of selection for a mask with a number of rows.
func runSelection(t *testing.T, p *program.Program, rows, count int) map[string]*tensor.Tensor {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(count), 9))
	mask := make([]bool, rows)
	for _, i := range r.Perm(rows)[:count] {
		mask[i] = true
	}
	out, err := p.Run(t.Context(), map[string]*tensor.Tensor{"x": randomFloats(r, rows, 16),
		"mask": tensor.Must(tensor.FromSlice(mask, rows))})
	require.NoError(t, err, "%d rows", count)
	require.Equal(t, []int{count, 24}, out["softmax"].Shape)
	return out
}

// The bits of a run are those of a new program, whatever ran before. Plans are shared: they are made for sizes that are
// powers of two.
func TestPartsSharePlans(t *testing.T) {
	for _, check := range []bool{false, true} {
		var plans int
		compile := func() *program.Program {
			p, err := program.Compile(t.Context(), selection(), program.Options{Threads: 1, Check: check,
				Progress: func(stage string) {
					if stage == "planning" {
						plans++
					}
				}})
			require.NoError(t, err)
			return p
		}
		shared := compile()
		counts := append(rand.New(rand.NewPCG(1, 1)).Perm(70)[:23], 0, 1)
		rand.Shuffle(len(counts), func(i, k int) { counts[i], counts[k] = counts[k], counts[i] })
		rows := func(count int) int { return max(count*7%40+20, count) }
		plans = 0
		var outs []map[string]*tensor.Tensor
		for _, count := range counts {
			outs = append(outs, runSelection(t, shared, rows(count), count))
		}
		// The part before nonzero, one behind it, the body, and the part behind the loop are planned for 0, 1, 2, 4, ...,
		// 128 rows, and one of them once for each pair of numbers of rows of x and of chosen rows.
		const parts, plansOfPart, pairs = 3, 9 + 6, 2 * 9
		assert.LessOrEqual(t, plans, parts*plansOfPart+pairs, "other sizes are bound by templates")
		for i, count := range counts {
			for name, want := range runSelection(t, compile(), rows(count), count) {
				require.Equal(t, elementsOf(t, want), elementsOf(t, outs[i][name]), "%s of %d rows, in the order %v", name,
					count, counts)
			}
		}
	}
}

// elementsOf returns the elements of a float tensor as text that has all their bits.
func elementsOf(t *testing.T, x *tensor.Tensor) string {
	list, err := tensor.ToSlice[float32](x)
	require.NoError(t, err)
	return fmt.Sprintf("%v %x", x.Meta, list)
}

// Runs at the same time share the plans of parts.
func TestPartsAtOnce(t *testing.T) {
	const rows = 40
	p, err := program.Compile(t.Context(), selection(), program.Options{Threads: 2})
	require.NoError(t, err)
	var all sync.WaitGroup
	outs := make([]map[string]*tensor.Tensor, 24)
	for i := range outs {
		all.Go(func() { outs[i] = runSelection(t, p, rows, 3*i%rows) })
	}
	all.Wait()
	for i := range outs {
		for name, want := range runSelection(t, p, rows, 3*i%rows) {
			require.Equal(t, elementsOf(t, want), elementsOf(t, outs[i][name]))
		}
	}
}

// The part before nonzero is planned for the assumed sizes, as a graph whose shapes are known is: other sizes of x need
// no plan of their own.
func TestPartsArePlannedForTheAssumedSizes(t *testing.T) {
	plans := 0
	p, err := program.Compile(t.Context(), selection(), program.Options{Threads: 1, Progress: func(stage string) {
		if stage == "planning" {
			plans++
		}
	}})
	require.NoError(t, err)
	runSelection(t, p, 20, 5)
	runSelection(t, p, 21, 5)
	runSelection(t, p, 22, 5) // templates are made from the second size on
	plans = 0
	for _, rows := range []int{30, 50, 90, 200, 400, 1000} {
		runSelection(t, p, rows, 5)
	}
	assert.Zero(t, plans)
}
