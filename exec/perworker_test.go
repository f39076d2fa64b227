package exec_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// TestPerWorker holds sessions to what kernels are promised: memory that no two workers use at the
// same time, and that the session keeps from run to run.
func TestPerWorker(t *testing.T) {
	type memory struct{ busy atomic.Bool }
	var made, shared, chunks atomic.Int32
	op := defined(graph.Op{
		Semantics: graph.Semantics{
			Name: "mine", Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
			Infer: spoil.Infer,
		},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) {
				own := &graph.PerWorker[memory]{Make: func() *memory { made.Add(1); return new(memory) }}
				return &graph.Kernel{Phases: []graph.Phase{{Chunks: 64, Run: func(m *graph.Mem, _ int) error {
					x := own.Get(m)
					if !x.busy.CompareAndSwap(false, true) {
						shared.Add(1)
					}
					for range 20 {
						runtime.Gosched()
					}
					x.busy.Store(false)
					chunks.Add(1)
					return nil
				}}}}, nil
			},
		},
	})
	const threads, steps, runs = 4, 3, 5
	g := graph.New("", func(name string) *graph.Op { return map[string]*graph.Op{"mine": op}[name] })
	x := g.InputMeta("x", tensor.New(tensor.Float32, 4))
	for i := range steps {
		g.Output(fmt.Sprint("y", i), g.Apply("mine", nil, x)[0])
	}
	p := compile(t, g, threads)
	in := []*tensor.Tensor{tensor.Zeros(tensor.Float32, 4)}
	sessions := []*exec.Session{p.NewSession(), p.NewSession()}
	for range runs {
		for _, s := range sessions {
			require.NoError(t, s.RunInto(context.Background(), in, make([]*tensor.Tensor, steps)))
		}
	}
	require.Zero(t, shared.Load(), "two workers had the same memory at the same time")
	require.EqualValues(t, 2*runs*steps*64, chunks.Load())
	require.LessOrEqual(t, made.Load(), int32(2*threads*steps), "memory is not kept from run to run")
}
