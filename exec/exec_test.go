package exec_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// compile compiles for workers who share all that they can.
func compile(t testing.TB, g *graph.Graph, threads int) *exec.Program {
	return compileAs(t, g, exec.Options{Threads: threads, Costs: anyWork()})
}

func compileAs(t testing.TB, g *graph.Graph, o exec.Options) *exec.Program {
	require.NoError(t, g.Err())
	p, err := exec.Compile(g, o)
	require.NoError(t, err)
	return p
}

func random(rng *rand.Rand, m tensor.Meta) *tensor.Tensor {
	t := tensor.Zeros(m.DType, m.Shape...)
	for i := range t.Numel() {
		t.SetFlat(i, tensor.FloatScalar(rng.Float64()*2-1))
	}
	out := tensor.Empty(m)
	tensor.CopyElements(out, t)
	return out
}

// randomGraph makes a DAG with views, sums, shared operands and several outputs.
func randomGraph(rng *rand.Rand, nodes int) (*graph.Graph, map[string]*tensor.Tensor) {
	g := graph.New("random", lookup)
	in := map[string]*tensor.Tensor{}
	var vals []*graph.Value
	for i := range 3 {
		name := fmt.Sprintf("x%d", i)
		m := tensor.New(tensor.Float32, 20, 20)
		if i == 1 {
			m, _ = m.Transpose(0, 1)
		}
		vals = append(vals, g.InputMeta(name, m))
		in[name] = random(rng, m)
	}
	pick := func() *graph.Value { return vals[len(vals)-1-rng.IntN(min(6, len(vals)))] }
	for range nodes {
		var v *graph.Value
		switch rng.IntN(6) {
		case 0:
			v = g.Apply("half", nil, pick())[0]
		case 1:
			v = g.Apply("flip", nil, pick())[0]
		case 2:
			s := g.Apply("total", nil, g.Apply("half", nil, pick())[0])[0]
			v = g.Apply("add", nil, pick(), s)[0]
		case 3:
			v = g.Apply("mul", nil, pick(), 0.75)[0]
		default:
			v = g.Apply("add", nil, pick(), pick())[0]
		}
		vals = append(vals, g.Apply("half", nil, v)[0])
	}
	for i := range 4 {
		g.Output(fmt.Sprintf("y%d", i), vals[len(vals)-1-i*2])
	}
	return g, in
}

func bits(t testing.TB, x *tensor.Tensor) []float32 {
	v, err := tensor.ToSlice[float32](x)
	require.NoError(t, err)
	return v
}

// The same bits come out for any number of workers, and for sessions used again.
func TestSameBitsForAnyWorkers(t *testing.T) {
	for seed := range testsize.Of[uint64](12, 40) {
		g, in := randomGraph(rand.New(rand.NewPCG(seed, 0)), 30)
		want, err := compile(t, g, 1).Run(context.Background(), in)
		require.NoError(t, err)
		for _, threads := range []int{2, 3, 8} {
			p := compile(t, g, threads)
			for range 5 {
				got, err := p.Run(context.Background(), in)
				require.NoError(t, err)
				for name := range want {
					assert.Equal(t, bits(t, want[name]), bits(t, got[name]), "seed %d, %d threads, %s", seed, threads, name)
				}
			}
		}
	}
}

// What the arena's reuse could break shows against a program in which nothing is reused:
// one where every value is an output.
func TestReuseChangesNothing(t *testing.T) {
	for seed := range uint64(40) {
		g, in := randomGraph(rand.New(rand.NewPCG(seed, 1)), 25)
		shared, err := compile(t, g, 1).Run(context.Background(), in)
		require.NoError(t, err)
		all := g.Clone()
		for _, n := range all.Nodes {
			all.Output("keep "+n.Name, n.Out[0])
		}
		p := compile(t, all, 1)
		assert.Zero(t, p.ArenaBytes()/1024)
		kept, err := p.Run(context.Background(), in)
		require.NoError(t, err)
		for name := range shared {
			assert.Equal(t, bits(t, kept[name]), bits(t, shared[name]), "seed %d %s", seed, name)
		}
	}
}

func TestConcurrentRuns(t *testing.T) {
	g, in := randomGraph(rand.New(rand.NewPCG(7, 7)), 40)
	p := compile(t, g, 3)
	want, err := p.Run(context.Background(), in)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range 5 {
				got, err := p.Run(context.Background(), in)
				if assert.NoError(t, err) {
					for name := range want {
						assert.Equal(t, bits(t, want[name]), bits(t, got[name]))
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestFirstErrorNamesItsNode(t *testing.T) {
	for _, threads := range []int{1, 2, 8} {
		g := graph.New("failing", lookup)
		x := g.Input("x", tensor.Float32, 4)
		g.Output("a", g.Apply("fail", nil, x)[0])
		g.Output("b", g.Apply("fail", nil, x)[0])
		_, err := compile(t, g, threads).Run(context.Background(),
			map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 4)})
		var e *graph.Error
		require.ErrorAs(t, err, &e)
		assert.ErrorIs(t, err, errRefused)
		assert.Equal(t, "fail", e.Op)
		assert.Contains(t, []string{"fail", "fail.1"}, e.Node)
	}
}

func TestPanicIsAnError(t *testing.T) {
	g := graph.New("panicking", lookup)
	g.Output("a", g.Apply("panic", nil, g.Input("x", tensor.Float32, 4))[0])
	_, err := compile(t, g, 2).Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 4)})
	assert.ErrorContains(t, err, `node "panic" (panic): internal error: broken invariant`)
}

func TestCancelIsPrompt(t *testing.T) {
	for _, threads := range []int{1, 4} {
		g := graph.New("slow", lookup)
		g.Output("a", g.Apply("linger", nil, g.Input("x", tensor.Float32, 4))[0])
		p := compile(t, g, threads)
		ctx, cancel := context.WithCancelCause(context.Background())
		why := errors.New("the user left")
		var begun atomic.Int32
		linger = func(int) {
			if begun.Add(1) == 1 {
				cancel(why)
			}
			<-ctx.Done()
		}
		_, err := p.Run(ctx, map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 4)})
		assert.ErrorIs(t, err, why)
		assert.LessOrEqual(t, int(begun.Load()), threads, "every worker ends the chunk that it is at, and begins no other")
	}
}

func TestInputs(t *testing.T) {
	g := graph.New("g", lookup)
	g.Output("y", g.Apply("half", nil, g.Input("x", tensor.Float32, 2, 3))[0])
	p := compile(t, g, 1)
	run := func(in map[string]*tensor.Tensor) error {
		_, err := p.Run(context.Background(), in)
		return err
	}
	assert.EqualError(t, run(nil), `input "x" is missing`)
	assert.EqualError(t, run(map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float64, 2, 3)}),
		`input "x" is float64, the graph wants float32`)
	assert.EqualError(t, run(map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 3, 2)}),
		`input "x" has shape [3, 2], the graph wants [2, 3]`)
	assert.EqualError(t, run(map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 2, 3), "z": nil}),
		`the graph has no input "z"; it has x`)

	// Another layout is copied to the declared one.
	base := tensor.Must(tensor.FromSlice([]float32{0, 1, 2, 3, 4, 5}, 3, 2))
	m, _ := base.Transpose(0, 1)
	out, err := p.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.Must(base.View(m))})
	require.NoError(t, err)
	assert.Equal(t, []float32{0, 1, 2, 0.5, 1.5, 2.5}, bits(t, out["y"]))
}

// Outputs may be views of inputs, constants, views of intermediates, and one another.
func TestOutputsThatShare(t *testing.T) {
	g := graph.New("g", lookup)
	x := g.Input("x", tensor.Float32, 2, 3)
	c := g.Constant("c", tensor.Must(tensor.FromSlice([]float32{7}, 1)))
	h := g.Apply("half", nil, x)[0]
	g.Output("x", x).Output("xt", g.Apply("flip", nil, x)[0]).Output("c", c).
		Output("h", h).Output("ht", g.Apply("flip", nil, h)[0])
	p := compile(t, g, 2)
	in := tensor.Must(tensor.FromSlice([]float32{0, 1, 2, 3, 4, 5}, 2, 3))
	out, err := p.Run(context.Background(), map[string]*tensor.Tensor{"x": in})
	require.NoError(t, err)
	assert.Same(t, in.Storage(), out["xt"].Storage())
	assert.Equal(t, []float32{0, 3, 1, 4, 2, 5}, bits(t, out["xt"]))
	assert.NotSame(t, c.Const.Storage(), out["c"].Storage())
	assert.Equal(t, []float32{7}, bits(t, out["c"]))
	assert.Same(t, out["h"].Storage(), out["ht"].Storage())
	assert.Equal(t, []float32{0, 1.5, 0.5, 2, 1, 2.5}, bits(t, out["ht"]))
}

func TestRunInto(t *testing.T) {
	g := graph.New("g", lookup)
	x := g.Input("x", tensor.Float32, 100)
	v := x
	for range 20 {
		v = g.Apply("half", nil, g.Apply("add", nil, v, x)[0])[0]
	}
	g.Output("y", v)
	p := compile(t, g, 1)
	in := []*tensor.Tensor{random(rand.New(rand.NewPCG(1, 1)), x.Meta)}
	out := []*tensor.Tensor{tensor.Zeros(tensor.Float32, 100)}
	s := p.NewSession()
	require.NoError(t, s.RunInto(context.Background(), in, out))
	want, err := p.Run(context.Background(), map[string]*tensor.Tensor{"x": in[0]})
	require.NoError(t, err)
	assert.Equal(t, bits(t, want["y"]), bits(t, out[0]))
	assert.Zero(t, testing.AllocsPerRun(10, func() { _ = s.RunInto(context.Background(), in, out) }))
	assert.LessOrEqual(t, p.ArenaBytes(), 2*448, "a chain of pointwise ops writes in place")

	shifted := tensor.Zeros(tensor.Float32, 101)
	first, err := shifted.View(x.Meta)
	require.NoError(t, err)
	meta := x.Meta
	meta.Offset = 1
	second, err := shifted.View(meta)
	require.NoError(t, err)
	assert.ErrorContains(t, p.RunInto(context.Background(), []*tensor.Tensor{first}, []*tensor.Tensor{second}),
		"shares memory with input")
	require.NoError(t, p.RunInto(context.Background(), in, in))
	assert.Equal(t, bits(t, want["y"]), bits(t, in[0]), "an output over the input")
	assert.ErrorContains(t, p.RunInto(context.Background(), in, []*tensor.Tensor{tensor.Zeros(tensor.Float32, 99)}),
		`output "y" has shape [100], but the tensor given for it has shape [99]`)
}

// An operand that an output overwrites is in the memory of the output, and is overwritten after all others have read it.
func TestOperandsInTheMemoryOfOutputs(t *testing.T) {
	g := graph.New("g", lookup)
	x := g.Input("x", tensor.Float32, 64, 64)
	a := g.Apply("half", nil, g.Apply("half", nil, x)[0])[0]
	z := g.Apply("add", nil, a, x)[0]
	g.Output("z", z).Output("y", g.Apply("half", nil, a)[0])
	p := compile(t, g, 4)
	assert.Zero(t, p.ArenaBytes())
	in := random(rand.New(rand.NewPCG(4, 4)), x.Meta)
	memory := map[string]*tensor.Tensor{"y": tensor.Zeros(tensor.Float32, 64, 64), "z": tensor.Zeros(tensor.Float32, 64, 64)}
	for range 50 {
		require.NoError(t, p.RunInto(context.Background(), []*tensor.Tensor{in},
			[]*tensor.Tensor{memory["z"], memory["y"]}))
		for i, v := range bits(t, in)[:64] {
			require.Equal(t, v/4+v, bits(t, memory["z"])[i])
			require.Equal(t, v/8, bits(t, memory["y"])[i])
		}
	}
	require.NoError(t, p.RunInto(context.Background(), []*tensor.Tensor{in}, []*tensor.Tensor{memory["z"], in}))
	assert.Equal(t, bits(t, memory["y"]), bits(t, in), "an output over the input")
}

// An operand that is also read in another order must not be overwritten.
func TestNoInPlaceUnderATransposedReader(t *testing.T) {
	g := graph.New("g", lookup)
	h := g.Apply("half", nil, g.Input("x", tensor.Float32, 30, 30))[0]
	g.Output("y", g.Apply("half", nil, g.Apply("add", nil, h, g.Apply("flip", nil, h)[0])[0])[0])
	in := random(rand.New(rand.NewPCG(3, 3)), tensor.New(tensor.Float32, 30, 30))
	out, err := compile(t, g, 1).Run(context.Background(), map[string]*tensor.Tensor{"x": in})
	require.NoError(t, err)
	got := bits(t, out["y"])
	for i := range 30 {
		for j := range 30 {
			a, b := float32(in.At(i, j).Float())/2, float32(in.At(j, i).Float())/2
			require.Equal(t, (a+b)/2, got[i*30+j])
		}
	}
}

// gapped has a result with a gap after each element.
var gapped = defined(graph.Op{
	Semantics: graph.Semantics{
		Name: "gapped", Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			return c.NewResult(tensor.Meta{DType: tensor.Float32, Shape: []int{4096}, Strides: []int{2}}.Type()), nil
		},
	},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			return &graph.Kernel{Phases: []graph.Phase{{Chunks: 1, Run: func(m *graph.Mem, _ int) error {
				for i := range 4096 {
					*(*float32)(unsafe.Add(m.Ptrs[0], 8*i)) = 1
				}
				return nil
			}}}}, nil
		},
	},
})

// Memory between the elements of a result holds nothing of another run.
func TestGapsOfResultsAreZero(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // collections empty the pool
	g := graph.New("g", func(string) *graph.Op { return gapped })
	x := g.Input("x", tensor.Float32, 4096)
	p := compile(t, g.Output("y", g.Apply("gapped", nil, x)[0]), 1)
	var at unsafe.Pointer
	for i := range 3 {
		out, err := p.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 4096)})
		require.NoError(t, err)
		y := unsafe.Slice((*float32)(out["y"].Pointer()), 8191)
		for i := range y {
			require.Equal(t, float32(1-i%2), y[i])
			y[i] = 7
		}
		require.True(t, i == 0 || at == out["y"].Pointer())
		at = out["y"].Pointer()
		require.NoError(t, out["y"].Release())
	}
}
