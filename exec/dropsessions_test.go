package exec_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// DropSessions gives up idle sessions at once and the session of an active run at its end. Later runs are cached again.
func TestDropSessions(t *testing.T) {
	duringRun := func() {}
	hooked := defined(graph.Op{
		Semantics: graph.Semantics{
			Name: "hooked", Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
			Infer: spoil.Infer,
		},
		Lowerings: graph.Lowerings{
			Compile: func(*graph.Call) (*graph.Kernel, error) {
				return &graph.Kernel{Phases: []graph.Phase{{Chunks: 1, Run: func(*graph.Mem, int) error {
					duringRun()
					return nil
				}}}}, nil
			},
		},
	})
	g := graph.New("", func(string) *graph.Op { return hooked })
	g.Output("y", g.Apply("hooked", nil, g.InputMeta("x", tensor.New(tensor.Float32, 4)))[0])
	p := compile(t, g, 1)
	run := func() {
		_, err := p.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 4)})
		require.NoError(t, err)
	}
	run()
	require.Equal(t, 1, p.IdleSessions())
	p.DropSessions()
	require.Zero(t, p.IdleSessions())
	duringRun = p.DropSessions
	run()
	require.Zero(t, p.IdleSessions(), "the active run kept its session")
	duringRun = func() {}
	run()
	require.Equal(t, 1, p.IdleSessions())
}
