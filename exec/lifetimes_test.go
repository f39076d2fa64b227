package exec_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
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

func (k *keeper) BeginStep(w exec.Work) { assert.Same(k.t, k, w.Run.Data) }

func (k *keeper) EndRun(r *exec.Run, _ error) {
	assert.Same(k.t, k, r.Data)
	k.ended++
}
