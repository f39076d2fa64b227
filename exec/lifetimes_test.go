package exec_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// TestLifetimes holds lifetimes to the plan of memory: worked off in order, what is held never exceeds the arena,
// what the outputs take is theirs, and every step touches something.
func TestLifetimes(t *testing.T) {
	for seed := range uint64(20) {
		g, _ := randomGraph(rand.New(rand.NewPCG(seed, 0)), 40)
		p := compile(t, g, 1)
		held, outputs, touched := make([]int, len(p.Steps())+1), 0, map[int]bool{}
		for _, l := range p.Lifetimes() {
			require.NotEmpty(t, l.Steps)
			for i, s := range l.Steps {
				touched[s] = true
				assert.True(t, i == 0 || l.Steps[i-1] < s, "steps %v", l.Steps)
			}
			if l.Output {
				outputs += l.Bytes
				continue
			}
			held[l.Steps[0]] += l.Bytes
			held[l.Steps[len(l.Steps)-1]+1] -= l.Bytes
		}
		now, most := 0, 0
		for _, change := range held {
			now += change
			most = max(most, now)
		}
		assert.Zero(t, now)
		assert.Positive(t, most)
		assert.LessOrEqual(t, most, p.ArenaBytes())
		assert.Equal(t, p.Need().Outputs, outputs)
		assert.Len(t, touched, len(p.Steps()))
	}
}

// TestMemoryIsTakenOverInOrder has steps that use the same memory for different values wait for one another: also those
// that write parts of one value, where the first of them took the memory over and others do not depend on it.
func TestMemoryIsTakenOverInOrder(t *testing.T) {
	testsize.Long(t)
	shared := 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		g := graph.New("parts", kernels.Lookup)
		list := []*graph.Value{g.Input("x", tensor.Float32, 1, 64)}
		one := func() *graph.Value { return list[rng.IntN(len(list))] }
		for range 30 {
			v := op.Flip(one(), []int{1})
			if rng.IntN(3) == 0 {
				parts := []*graph.Value{v, op.Flip(one(), []int{1}), op.Roll(one(), []int{1}, op.RollAttrs{Dims: []int{1}})}
				v = op.Narrow(op.Flip(op.Cat(parts, op.CatAttrs{Dim: 1}), []int{1}), 1, 3, 64)
			}
			list = append(list, v)
		}
		g.Output("y", op.Cat(list[len(list)-4:], op.CatAttrs{Dim: 1}))
		require.NoError(t, g.Err())
		plan, err := passes.Run(g, passes.Options{})
		require.NoError(t, err)
		shared += len(plan.Placed)
		alone := compile(t, plan.Graph, 1)
		for threads := 2; threads <= 5; threads++ {
			p := compile(t, plan.Graph, threads)
			assert.Empty(t, p.Unordered(), "seed %d", seed)
			assert.LessOrEqual(t, p.ArenaBytes(), alone.ArenaBytes()*9/8, "seed %d, %d threads", seed, threads)
		}
	}
	assert.Greater(t, shared, 40)
}

// TestTracerKeepsData hands back what a tracer notes at a run, and the program that runs.
func TestTracerKeepsData(t *testing.T) {
	g, in := randomGraph(rand.New(rand.NewPCG(1, 0)), 10)
	k := &keeper{t: t}
	p, err := exec.Compile(g, exec.Options{Threads: 2, Tracer: k})
	require.NoError(t, err)
	k.want = p
	_, err = p.Run(context.Background(), in)
	require.NoError(t, err)
	assert.Equal(t, 1, k.ended)
}

type keeper struct {
	recorder
	t     *testing.T
	want  *exec.Program
	ended int
}

func (k *keeper) BeginRun(r *exec.Run) bool {
	assert.Nil(k.t, r.Data)
	assert.Same(k.t, k.want, r.Program)
	r.Data = k
	return true
}

func (k *keeper) BeginStep(w exec.Position) { assert.Same(k.t, k, w.Run.Data) }

func (k *keeper) EndRun(r *exec.Run, _ error) {
	assert.Same(k.t, k, r.Data)
	k.ended++
}
