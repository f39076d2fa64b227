package exec_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// compileParts compiles a graph whose shapes may depend on data. It counts the plans, also those of later runs, in
// plans if that is not nil.
func compileParts(g *graph.Graph, plans *atomic.Int64, o exec.Options) (*program.Program, error) {
	return program.Compile(context.Background(), g, program.Options{Threads: o.Threads, Costs: o.Costs, Tracer: o.Tracer,
		MemoryLimit: o.MemoryLimit, KeepGoing: o.KeepGoing, Strategy: layout.Propagate, Progress: func(stage string) {
			if stage == "planning" && plans != nil {
				plans.Add(1)
			}
		}})
}

// manySegments has a segment before an op that decides shapes, one behind it, one that waits for an
// attribute, and a subgraph that is called twice for values of one class.
func manySegments() *graph.Graph {
	g := graph.New("g", lookupDynamic)
	x := g.Input("x", tensor.Float32, 6)
	p := g.Apply("positive", nil, g.Apply("half", nil, x)[0])[0]
	k := g.Apply("count", nil, x)[0]
	h := g.Apply("head", graph.Attrs{"k": graph.ValueRef{Value: k}}, x)[0]
	g.Output("sum", g.Apply("add", nil, g.Apply("half", nil, h)[0], p)[0])
	g.Output("twice", g.Apply("twice", nil, p)[0])
	return g
}

func six(v ...float32) map[string]*tensor.Tensor {
	return map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice(v, 6))}
}

// What values of one class need is planned and compiled once, whatever the values are. The body, whose sizes are open,
// is planned for a size that is rounded up to a power of two, and this plan is repeated for other sizes.
func TestAClassIsPlannedOnce(t *testing.T) {
	var c atomic.Int64
	r, err := compileParts(manySegments(), &c, exec.Options{})
	require.NoError(t, err)
	run := func(want []float32, v ...float32) int64 {
		before := c.Load()
		out, err := r.Run(t.Context(), six(v...))
		require.NoError(t, err)
		assert.Equal(t, want, bits(t, out["sum"]))
		return c.Load() - before
	}
	assert.EqualValues(t, 3, run([]float32{2, 1, 8}, 2, -4, 6, -8, 10, -12),
		"a segment, and the body for 4 and then for 3; Compile planned the first segment")
	assert.EqualValues(t, 0, run([]float32{2, 4, 6}, 2, 4, 6, -8, -10, -12), "three are positive again")
	assert.EqualValues(t, 2, run([]float32{2, 4}, 2, 4, -6, -8, -10, -12), "a segment and the body; the first segment is the same for two")
	assert.EqualValues(t, 0, run([]float32{2, 4, 6}, 2, 4, 6, -8, -10, -12))
}

// Runs at the same time share what one of them prepares.
func TestClassesAtTheSameTime(t *testing.T) {
	testsize.Long(t)
	var c atomic.Int64
	r, err := compileParts(manySegments(), &c, exec.Options{Threads: 2, Costs: anyWork()})
	require.NoError(t, err)
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			v := []float32{1, 1, -1, -1, -1, -1}
			for k := range 1 + i%3 {
				v[2+k] = 1
			}
			for range 20 {
				out, err := r.Run(context.Background(), six(v...))
				if !assert.NoError(t, err) {
					return
				}
				assert.Len(t, bits(t, out["sum"]), 3+i%3)
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, 1+3+4, c.Load(), "the first segment, one for each of 3, 4 and 5, the body for 4, 8, 3 and 5")
}

// What is kept is bounded: the class that was used least recently goes. With KeepGoing, each class has a plan of its
// own.
func TestClassesAreBounded(t *testing.T) {
	testsize.Long(t)
	g := graph.New("g", lookupDynamic)
	g.Output("y", g.Apply("half", nil, g.Apply("positive", nil, g.Input("x", tensor.Float32, 6))[0])[0])
	var c atomic.Int64
	for _, kept := range []struct {
		limit, plans int
	}{{64 << 20, 6}, {9 << 10, 600}} {
		c.Store(0)
		r, err := compileParts(g, &c, exec.Options{MemoryLimit: kept.limit, KeepGoing: true})
		require.NoError(t, err)
		for range 100 {
			for n := 1; n <= 6; n++ {
				v := []float32{-1, -1, -1, -1, -1, -1}
				for i := range n {
					v[i] = 1
				}
				_, err := r.Run(t.Context(), six(v...))
				require.NoError(t, err)
			}
		}
		assert.EqualValues(t, kept.plans, c.Load(), "with %d bytes", kept.limit)
	}
}

// Operands that begin elsewhere in their storage are of one class, unless an op sees where.
func TestClassesOfOffsets(t *testing.T) {
	testsize.Long(t)
	for _, sees := range []bool{false, true} {
		look := defined(graph.Op{
			Semantics: graph.Semantics{
				Name: "look", Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
				Infer: func(c *graph.Call) ([]graph.Result, error) {
					return c.NewResult(tensor.New(tensor.Float32, c.Meta(0).Shape...).Type()), nil
				},
			},
			Facts:     graph.Facts{ReadsStorage: sees},
			Lowerings: graph.Lowerings{Compile: lookup("half").Compile},
		})
		rows := defined(graph.Op{
			Semantics: graph.Semantics{
				Name: "rows", Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
				Infer: dynamicOps["twice"].Infer,
			},
			Lowerings: graph.Lowerings{
				RunDynamic: func(rt graph.Runtime, _ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
					body := lookBody(look)
					var last []*tensor.Tensor
					for i := range 3 {
						m, err := in[0].Select(0, i)
						if err != nil {
							return nil, err
						}
						if last, err = rt.Run(body, []*tensor.Tensor{tensor.Must(in[0].View(m))}); err != nil {
							return nil, err
						}
					}
					return last, nil
				},
			},
		})
		g := graph.New("g", func(name string) *graph.Op {
			if name == "rows" {
				return rows
			}
			return lookupDynamic(name)
		})
		g.Output("y", g.Apply("rows", nil, g.Input("x", tensor.Float32, 3, 2))[0])
		var c atomic.Int64
		r, err := compileParts(g, &c, exec.Options{})
		require.NoError(t, err)
		x := tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2))
		out, err := r.Run(t.Context(), map[string]*tensor.Tensor{"x": x})
		require.NoError(t, err)
		assert.Equal(t, []float32{2.5, 3}, bits(t, out["y"]))
		assert.EqualValues(t, map[bool]int{false: 1, true: 3}[sees], c.Load())
	}
}

func lookBody(look *graph.Op) *graph.Graph {
	g := graph.New("body", func(string) *graph.Op { return look })
	return g.Output("y", g.Apply("look", nil, g.Input("x", tensor.Float32, 2))[0])
}

// maybe is an op whose result depends on data where its operand has an odd number of elements, which
// is known only when the operand is.
var maybe = defined(graph.Op{
	Semantics: graph.Semantics{
		Name: "maybe", Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			r := c.NewResult(tensor.New(tensor.Float32, c.Meta(0).Shape...).Type())
			r[0].Dynamic = c.Meta(0).Numel()%2 == 1
			return r, nil
		},
	},
	Lowerings: graph.Lowerings{
		Compile: lookup("half").Compile,
		RunDynamic: func(_ graph.Runtime, _ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			return []*tensor.Tensor{in[0]}, nil
		},
	},
})

// A node that turns out to decide shapes cuts its segment once more.
func TestSegmentsAreCutAgain(t *testing.T) {
	g := graph.New("g", func(name string) *graph.Op {
		if name == "maybe" {
			return maybe
		}
		return lookupDynamic(name)
	})
	p := g.Apply("positive", nil, g.Input("x", tensor.Float32, 6))[0]
	m := g.Apply("maybe", nil, g.Apply("half", nil, p)[0])[0]
	g.Output("y", g.Apply("half", nil, m)[0]).Output("p", p)
	require.NoError(t, g.Err())
	all := g.Segments()
	require.Len(t, all, 2)
	var c atomic.Int64
	rec := &recorder{}
	r, err := compileParts(g, &c, rec.options(2))
	require.NoError(t, err)
	for range 2 {
		out, err := r.Run(t.Context(), six(8, 16, -1, -1, -1, -1))
		require.NoError(t, err)
		assert.Equal(t, []float32{1, 2}, bits(t, out["y"]), "all three halve")
		assert.Len(t, follow(t, rec.take()), 2)
		out, err = r.Run(t.Context(), six(8, 16, 32, -1, -1, -1))
		require.NoError(t, err)
		assert.Equal(t, []float32{2, 4, 8}, bits(t, out["y"]), "two do")
		runs := follow(t, rec.take())
		require.Len(t, runs, 4, "the whole, the segment in pieces, and before and behind the op that decides")
		assert.Same(t, runs[0].run, runs[1].run.Parent)
		assert.Same(t, runs[1].run, runs[2].run.Parent)
		assert.EqualValues(t, 6, c.Load(), "two elements; the segment for 4 and in vain for 3; before the op that decides; "+
			"behind it for 4 and 3")
	}
}

// What is computed from constants when a segment is planned is computed once for all classes, and kept
// as long as one of their programs is.
func TestConstantsAreFoldedOnceForAllClasses(t *testing.T) {
	var folded atomic.Int64
	half := lookup("half")
	counted := defined(graph.Op{
		Semantics: graph.Semantics{
			Name: "counted", Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				return c.NewResult(tensor.New(tensor.Float32, c.Meta(0).Shape...).Type()), nil
			},
		},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) {
				folded.Add(1)
				return half.Compile(c)
			},
		},
	})
	g := graph.New("g", func(name string) *graph.Op {
		if name == "counted" {
			return counted
		}
		return lookupDynamic(name)
	})
	w := g.Constant("w", tensor.Must(tensor.FromSlice([]float32{8}, 1)))
	p := g.Apply("positive", nil, g.Input("x", tensor.Float32, 6))[0]
	twice := g.Apply("counted", nil, g.Apply("counted", nil, w)[0])[0]
	g.Output("y", g.Apply("add", nil, g.Apply("half", nil, p)[0], twice)[0])
	run := func(r *program.Program, want []float32, v ...float32) {
		out, err := r.Run(t.Context(), six(v...))
		require.NoError(t, err)
		assert.Equal(t, want, bits(t, out["y"]))
	}
	var c atomic.Int64
	r, err := compileParts(g, &c, exec.Options{})
	require.NoError(t, err)
	run(r, []float32{3, 4}, 2, 4, -1, -1, -1, -1)
	assert.EqualValues(t, 2, folded.Load())
	runtime.GC()
	run(r, []float32{3}, 2, -4, -1, -1, -1, -1)
	run(r, []float32{3, 4, 5}, 2, 4, 6, -1, -1, -1)
	assert.EqualValues(t, 4, c.Load(), "for 2, 1, 4 and 3")
	assert.LessOrEqual(t, folded.Load(), int64(4), "the second is found; the first, which nobody keeps, may be made again")
	runtime.KeepAlive(r)
}
