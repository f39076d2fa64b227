package graph_test

import (
	"cmp"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// freeWork prices every call at nothing but its start.
func freeWork(*graph.Call, graph.Walk) pricing.Work { return pricing.Work{StartedSteps: 1e-6} }

// lowerAs returns a Lower function that counts its calls and makes the kernel of another implementation.
func lowerAs(t *testing.T, op, impl string, calls *int) func(*graph.Call) (*graph.Kernel, error) {
	other, err := kernels.Lookup(op).Impl(impl)
	require.NoError(t, err)
	return func(call *graph.Call) (*graph.Kernel, error) {
		*calls++
		return other.Lower(call)
	}
}

// extended returns a network whose catalogue has the extended op: a convolution with an epilogue, and a product that a
// composite op adds.
func extended(t *testing.T, op string, impls ...graph.Impl) *graph.Graph {
	t.Helper()
	extension, err := graph.Extend(kernels.Lookup(op), impls...)
	require.NoError(t, err)
	assert.Same(t, kernels.Lookup(op), extension.Base())
	lookup, err := graphrun.Lookup(extension)
	require.NoError(t, err)
	g := graph.New("net", lookup)
	x, w := g.Input("x", tensor.Float32, 1, 4, 8, 8), g.Input("w", tensor.Float32, 4, 4, 3, 3)
	conv := g.Apply("conv2d", graph.Attrs{"padding": 1}, x, w)[0]
	g.Output("y", g.Apply("relu", nil, conv)[0])
	a := g.Input("a", tensor.Float32, 4, 5)
	g.Output("z", g.Apply("einsum", graph.Attrs{"equation": "ij,jk->ik"}, a, g.Input("b", tensor.Float32, 5, 6))[0])
	require.NoError(t, g.Err())
	return g
}

// implsOf returns the implementations of a plan, by name of the step.
func implsOf(t *testing.T, g *graph.Graph, o graphrun.Options) map[string]string {
	t.Helper()
	p, err := graphrun.Compile(t.Context(), g, o)
	require.NoError(t, err)
	impls := map[string]string{}
	for _, step := range p.Report().Steps {
		impls[step.Name] = step.Impl
	}
	return impls
}

// convolves returns the implementation of the convolution, with which relu is fused if there is machine code.
func convolves(impls map[string]string) string { return cmp.Or(impls["conv2d"], impls["relu"]) }

// TestExtend: an extended op keeps its identity; its implementation is chosen by price, also for a fused node and for
// a part of a composite node, and its price replaces that of an implementation.
func TestExtend(t *testing.T) {
	lowered := 0
	mine := graph.Impl{Name: "mine", Doc: "Mine.", Work: freeWork, Lower: lowerAs(t, "conv2d", "nchw", &lowered)}
	impls := implsOf(t, extended(t, "conv2d", mine), graphrun.Options{Check: true})
	assert.Equal(t, "mine", convolves(impls))
	assert.NotZero(t, lowered)

	impls = implsOf(t, extended(t, "conv2d", graph.Impl{Name: "nchw", Work: freeWork}), graphrun.Options{})
	assert.Equal(t, "nchw", convolves(impls))

	mine.Lower = lowerAs(t, "matmul", "loops", &lowered)
	products := 0
	for _, impl := range implsOf(t, extended(t, "matmul", mine), graphrun.Options{}) {
		if impl == "mine" {
			products++
		}
	}
	assert.Equal(t, 1, products, "the part of einsum")

	dear := mine
	dear.Work = func(*graph.Call, graph.Walk) pricing.Work { return pricing.Work{StartedSteps: 1e6} }
	dear.Lower = lowerAs(t, "conv2d", "nchw", &lowered)
	g := extended(t, "conv2d", dear)
	assert.NotEqual(t, "mine", convolves(implsOf(t, g, graphrun.Options{})))
	pinned := map[string]graph.Pin{"conv2d": {Impl: "mine"}}
	assert.Equal(t, "mine", convolves(implsOf(t, g, graphrun.Options{Pins: pinned})))

	shown := map[string]graph.Pin{"conv2d+relu": {Impl: "mine"}}
	assert.Equal(t, "mine", convolves(implsOf(t, g, graphrun.Options{Pins: shown})))

	// A cache would return plans at other prices.
	dir := t.TempDir()
	implsOf(t, extended(t, "matmul", mine), graphrun.Options{Cache: graphrun.OpenCache(dir, graphrun.CacheOptions{})})
	files, err := os.ReadDir(dir)
	assert.NoError(t, err)
	assert.Empty(t, files)
	_, err = graph.Extend(kernels.Lookup("conv2d"), mine, mine)
	assert.ErrorContains(t, err, `op "conv2d": extension 1: "mine" is an implementation of the op`)
}

// TestExtendRefuses: mistakes are errors that name op and implementation.
func TestExtendRefuses(t *testing.T) {
	lowered := 0
	lower := lowerAs(t, "conv2d", "nchw", &lowered)
	conv := kernels.Lookup("conv2d")
	for want, c := range map[string]struct {
		op   *graph.Op
		impl graph.Impl
	}{
		"nil":                                    {nil, graph.Impl{}},
		"has no name":                            {conv, graph.Impl{Work: freeWork, Lower: lower}},
		`"mine" is new, and lacks Work or Lower`: {conv, graph.Impl{Name: "mine", Lower: lower}},
		`"nchw" is an implementation of the op`:  {conv, graph.Impl{Name: "nchw", Work: freeWork, Lower: lower}},
		"only Work or Read":                      {conv, graph.Impl{Name: "nchw"}},
		"is a copy of an implementation":         {conv, conv.Impls[0]},
		`"mine" is new`:                          {kernels.Lookup("view"), graph.Impl{Name: "mine"}},
		`op "mine" was not made by graph.Define`: {&graph.Op{Semantics: graph.Semantics{Name: "mine"}}, graph.Impl{}},
		`"tensordot" has no implementations, `:   {kernels.Lookup("tensordot"), graph.Impl{Name: "mine"}},
	} {
		_, err := graph.Extend(c.op, c.impl)
		assert.ErrorContains(t, err, want)
	}
	work := func(amount float64) func(*graph.Call, graph.Walk) pricing.Work {
		return func(*graph.Call, graph.Walk) pricing.Work { return pricing.Work{StartedSteps: amount} }
	}
	walk := func(orders ...tensor.Order) func(*graph.Call, []tensor.Order) []graph.Walk {
		return func(*graph.Call, []tensor.Order) []graph.Walk { return []graph.Walk{{ResultOrders: orders}} }
	}
	for want, impl := range map[string]graph.Impl{
		`op conv2d: Work of implementation "mine": returns NaN started steps`:  {Work: work(math.NaN())},
		`op conv2d: Work of implementation "mine": returns -1 started steps`:   {Work: work(-1)},
		`op conv2d: Work of implementation "mine": returns +Inf started steps`: {Work: work(math.Inf(1))},
		`op conv2d: Work of implementation "mine": internal error: runtime error: index out of range`: {
			Work: func(call *graph.Call, _ graph.Walk) pricing.Work {
				return pricing.Work{Flops: float64(call.Out[len(call.In)].Numel())}
			}},
		`op conv2d: Read of implementation "mine": returns NaN dense bytes`: {Work: freeWork,
			Read: func(*graph.Call, graph.Walk, int, tensor.Meta) (work pricing.Work, ok bool) {
				work.Bytes[pricing.Dense] = math.NaN()
				return work, true
			}},
		`op conv2d: Walks of implementation "mine": a walk has 2 orders of results`: {Work: freeWork,
			Walks: walk(tensor.RowMajorOrder(4), tensor.RowMajorOrder(4))},
		`op conv2d: Walks of implementation "mine": a walk has order contiguous for result 0, which has 4 dimensions`: {
			Work: freeWork, Walks: walk(tensor.RowMajorOrder(2))},
		`op conv2d: Walks of implementation "mine": the order of result 0 of a walk`: {Work: freeWork,
			Walks: walk("\x00\x00\x01\x01")},
		`conv2d`:             {Work: freeWork, Lower: func(*graph.Call) (*graph.Kernel, error) { panic("my mistake") }},
		`returned no kernel`: {Work: freeWork, Lower: func(*graph.Call) (*graph.Kernel, error) { return nil, nil }},
	} {
		impl.Name = "mine"
		if impl.Lower == nil {
			impl.Lower = lower
		}
		for _, s := range []graphrun.Strategy{graphrun.Optimal, graphrun.Propagate} {
			_, err := graphrun.Compile(t.Context(), extended(t, "conv2d", impl), graphrun.Options{Strategy: s})
			assert.ErrorContains(t, err, want, s.Name())
		}
	}
}

// TestAttr: attributes of a call are found by name.
func TestAttr(t *testing.T) {
	g := extended(t, "conv2d", graph.Impl{Name: "nchw", Work: freeWork})
	require.NoError(t, g.Infer())
	call := g.Nodes[0].Call()
	assert.Equal(t, 1, call.Attr("groups"))
	assert.Equal(t, []int{1}, call.Attr("stride"))
	assert.Nil(t, call.Attr("strides"))
	assert.Nil(t, (&graph.Call{Attrs: 3}).Attr("groups"))
}
