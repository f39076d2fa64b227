package exec_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// spoil overwrites its operand in place, chunk by chunk, and fails on the last.
var spoil = defined(graph.Op{
	Semantics: graph.Semantics{
		Name: "spoil", Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			return c.NewResult(tensor.New(tensor.Float32, c.Meta(0).Shape...).Type()), nil
		},
	},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			n := c.Meta(0).Numel()
			k := &graph.Kernel{Phases: []graph.Phase{{Chunks: 4, Run: func(m *graph.Mem, chunk int) error {
				for i := chunk * n / 4; i < (chunk+1)*n/4; i++ {
					unsafe.Slice((*float32)(m.Ptrs[0]), n)[i] = -777
				}
				if chunk == 3 {
					return errRefused
				}
				return nil
			}}, {Chunks: 1, Run: func(*graph.Mem, int) error { panic("a phase after a failed one") }}}}
			if c.Meta(0).IsContiguous() {
				k.InPlace = []graph.InPlace{{Out: 0, In: 0}}
			}
			return k, nil
		},
	},
})

var errNoKernel = errors.New("no kernel for this")

var failingOps = map[string]*graph.Op{
	"spoil": spoil,
	"nokernel": defined(graph.Op{
		Semantics: graph.Semantics{
			Name: "nokernel", Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
			Infer: spoil.Infer,
		},
		Lowerings: graph.Lowerings{Compile: func(*graph.Call) (*graph.Kernel, error) { return nil, errNoKernel }},
	}),
	"badcompile": defined(graph.Op{
		Semantics: graph.Semantics{
			Name: "badcompile", Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
			Infer: spoil.Infer,
		},
		Lowerings: graph.Lowerings{Compile: func(*graph.Call) (*graph.Kernel, error) { panic("in Compile") }},
	}),
}

func lookupFailing(name string) *graph.Op {
	if o := failingOps[name]; o != nil {
		return o
	}
	return lookupDynamic(name)
}

// failingGraph is a random graph with failing nodes, and the names of outputs that do not
// depend on them. All values that are not views are outputs, or few.
func failingGraph(rng *rand.Rand, nodes int, all bool) (g *graph.Graph, in map[string]*tensor.Tensor,
	fine map[string]bool) {
	g = graph.New("failing", lookupFailing)
	fine = map[string]bool{}
	m := tensor.New(tensor.Float32, 20, 20)
	x := g.InputMeta("x", m)
	vals, bad := []*graph.Value{x}, map[*graph.Value]bool{}
	for i := range nodes {
		pick := func() *graph.Value { return vals[rng.IntN(len(vals))] }
		a, b := pick(), pick()
		var v *graph.Value
		spoils := false
		switch rng.IntN(8) {
		case 0:
			v, spoils = g.Apply("spoil", nil, a)[0], true
			b = a
		case 1:
			name := []string{"nokernel", "badcompile", "panic"}[rng.IntN(3)]
			v, spoils = g.Apply(name, nil, a)[0], true
			if name == "panic" {
				v = g.Apply("add", nil, a, g.Apply("total", nil, v)[0])[0]
			}
			b = a
		case 2:
			v = g.Apply("flip", nil, a)[0]
			b = a
		case 3:
			v = g.Apply("half", nil, a)[0]
			b = a
		default:
			v = g.Apply("add", nil, a, b)[0]
		}
		bad[v] = spoils || bad[a] || bad[b]
		vals = append(vals, v)
		if all || i%5 == 0 || i == nodes-1 {
			name := fmt.Sprintf("y%d", i)
			g.Output(name, v)
			fine[name] = !bad[v]
		}
	}
	return g, map[string]*tensor.Tensor{"x": random(rng, m)}, fine
}

// withKernels returns a graph without the nodes that have no kernel.
func withKernels(g *graph.Graph) *graph.Graph {
	rejected := map[*graph.Node]*graph.Error{}
	for _, n := range g.Nodes {
		if n.Op.Name == "nokernel" || n.Op.Name == "badcompile" {
			rejected[n] = g.NodeError(n, errNoKernel)
		}
	}
	return g.WithoutRejected(rejected)
}

func TestKeepGoing(t *testing.T) {
	lost, kept := 0, 0
	for seed := range testsize.Of[uint64](20, 60) {
		g, in, fine := failingGraph(rand.New(rand.NewPCG(seed, 5)), 24, seed%2 == 0)
		require.NoError(t, g.Err())
		want, err := compile(t, withoutFailing(g, fine), 1).Run(context.Background(), in)
		require.NoError(t, err)
		for _, threads := range []int{1, 2, 7} {
			p, err := compileParts(g, nil, exec.Options{Threads: threads, Costs: anyWork(), KeepGoing: true})
			require.NoError(t, err)
			for range 3 {
				got, err := p.Run(context.Background(), in)
				left := map[string]bool{}
				var part *exec.Incomplete
				if errors.As(err, &part) {
					for _, l := range part.MissingOutputs {
						left[l.Output] = true
						assert.NotEmpty(t, l.Node)
					}
				} else {
					require.NoError(t, err)
				}
				for name, ok := range fine {
					assert.Equal(t, ok, got[name] != nil && !left[name], "seed %d, %d threads, %s", seed, threads, name)
					if ok {
						assert.Equal(t, bits(t, want[name]), bits(t, got[name]), "seed %d, %d threads, %s", seed, threads, name)
						kept++
					} else {
						lost++
					}
				}
			}
		}
	}
	assert.Greater(t, lost, testsize.Of(300, 1000))
	assert.Greater(t, kept, testsize.Of(300, 1000))
}

// withoutFailing returns a graph of the fine outputs alone.
func withoutFailing(g *graph.Graph, fine map[string]bool) *graph.Graph {
	c := g.Clone()
	var outputs []graph.Output
	live := map[*graph.Node]bool{}
	var mark func(v *graph.Value)
	mark = func(v *graph.Value) {
		if v != nil && v.Node != nil && !live[v.Node] {
			live[v.Node] = true
			for _, a := range v.Node.In {
				mark(a.Value)
			}
		}
	}
	for _, o := range c.Outputs {
		if fine[o.Name] {
			outputs = append(outputs, o)
			mark(o.Value)
		}
	}
	var nodes []*graph.Node
	for _, n := range c.Nodes {
		if live[n] {
			nodes = append(nodes, n)
		}
	}
	c.Outputs, c.Nodes = outputs, nodes
	return c
}

func TestIncompleteNamesNodesAndOutputs(t *testing.T) {
	g := graph.New("g", lookupFailing)
	x := g.Input("x", tensor.Float32, 4)
	bad := g.Apply("spoil", nil, g.Apply("half", nil, x)[0])[0]
	g.Output("a", g.Apply("half", nil, bad)[0]).Output("b", g.Apply("half", nil, x)[0])
	g.Output("c", g.Apply("nokernel", nil, x)[0]).Output("d", bad)
	p, err := compileParts(g, nil, exec.Options{KeepGoing: true})
	require.NoError(t, err)
	in := map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4}, 4))}
	out, err := p.Run(context.Background(), in)
	assert.ErrorIs(t, err, errRefused)
	assert.ErrorIs(t, err, errNoKernel)
	assert.Len(t, out, 1)
	assert.Equal(t, []float32{0.5, 1, 1.5, 2}, bits(t, out["b"]))
	assert.Equal(t, strings.Join([]string{
		`node "nokernel" (nokernel): no kernel for this`,
		`node "spoil" (spoil): refused by the kernel`,
		`output "a" is left out: it depends on node "spoil"`,
		`output "c" is left out: it depends on node "nokernel"`,
		`output "d" is left out: it depends on node "spoil"`}, "\n"), err.Error())

	into := map[string]*tensor.Tensor{}
	for _, name := range []string{"a", "b", "c", "d"} {
		into[name] = tensor.Zeros(tensor.Float32, 4)
	}
	assert.ErrorIs(t, p.RunInto(context.Background(), in, into), errRefused)
	assert.Equal(t, []float32{0.5, 1, 1.5, 2}, bits(t, into["b"]))

	_, err = exec.Compile(g, exec.Options{})
	assert.ErrorIs(t, err, errNoKernel)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = p.Run(cancelled, in)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestKeepGoingPiecewise(t *testing.T) {
	g := graph.New("g", lookupFailing)
	x := g.Input("x", tensor.Float32, 6)
	p := g.Apply("positive", nil, x)[0]
	none := g.Apply("positive", nil, g.Apply("mul", nil, g.Apply("mul", nil, x, x)[0], -1)[0])[0]
	g.Output("p", g.Apply("half", nil, p)[0]).Output("none", g.Apply("half", nil, none)[0])
	g.Output("spoilt", g.Apply("half", nil, g.Apply("spoil", nil, p)[0])[0])
	g.Output("unmade", g.Apply("nokernel", nil, p)[0]).Output("first", g.Apply("half", nil, x)[0])
	g.Output("mixed", g.Apply("add", nil, none, p)[0])
	// Three of seven elements: the attribute is refused when it is known.
	k := g.Apply("count", nil, g.Apply("mul", nil, x, x)[0])[0]
	seven := g.Apply("head", graph.Attrs{"k": graph.ValueRef{Value: k}}, p)[0]
	g.Output("head", seven).Output("after", g.Apply("half", nil, seven)[0])
	require.NoError(t, g.Err())
	for _, threads := range []int{1, 3} {
		r, err := compileParts(g, nil, exec.Options{Threads: threads, Costs: anyWork(), KeepGoing: true})
		require.NoError(t, err)
		out, err := r.Run(context.Background(),
			map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice([]float32{2, -4, 6, -8, 10, -12}, 6))})
		var part *exec.Incomplete
		require.ErrorAs(t, err, &part)
		assert.Len(t, out, 2)
		assert.Equal(t, []float32{1, 3, 5}, bits(t, out["p"]))
		assert.Equal(t, []float32{1, -2, 3, -4, 5, -6}, bits(t, out["first"]))
		assert.Len(t, part.Failed, 4, "%v", err)
		assert.Len(t, part.MissingOutputs, 6, "%v", err)
		for _, want := range []string{"nothing is positive", "refused by the kernel", "no kernel for this",
			`node "head" (head)`} {
			assert.ErrorContains(t, err, want)
		}
		for _, l := range part.MissingOutputs {
			assert.NotEmpty(t, l.Node, l.Output)
		}
	}
}

// Kernels are made by several workers at once, and the node that is told of is the first all the same.
func TestTheFirstErrorOfCompiling(t *testing.T) {
	g := graph.New("g", lookupFailing)
	v := g.Input("x", tensor.Float32, 6)
	for i := range 400 {
		if i > 150 && i%7 == 0 {
			v = g.Apply("nokernel", nil, v)[0].Named(fmt.Sprint("bad", i))
			continue
		}
		v = g.Apply("half", nil, v)[0]
	}
	g.Output("y", v)
	require.NoError(t, g.Infer())
	for range 20 {
		_, err := exec.Compile(g, exec.Options{Threads: 4})
		require.ErrorContains(t, err, `node "bad154"`)
	}
}
