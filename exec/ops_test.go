package exec_test

import (
	"errors"
	"unsafe"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// The tests bring a small catalogue of their own, so that they can make kernels fail,
// linger and panic.

var one, two = graph.Param{Name: "self"}, graph.Param{Name: "other", AcceptsNumber: true}

type noAttrs struct{}

func pointwise(name string, grain int, params []graph.Param, config func(*graph.Call, []rule.Operand) (rule.Config,
	error), body rule.Kernel) *graph.Op {
	p := &graph.Pointwise{Config: config, Grain: grain,
		Body: func(*graph.Call, *rule.Rule) (rule.Kernel, error) { return body, nil }}
	return &graph.Op{
		Semantics: graph.Semantics{
			Name: name, Params: params, Schema: graph.SchemaOf[noAttrs](), Kind: graph.FollowsOperands, Infer: p.Infer,
		},
		Lowerings: graph.Lowerings{
			Pointwise: p,
			Compile:   func(c *graph.Call) (*graph.Kernel, error) { return fusion.CompileLoop(p, c) },
		},
	}
}

func binary(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
	return rule.Binary(outs[0], c.In[0].Operand(), c.In[1].Operand()), nil
}

func unary(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
	return rule.Unary(outs[0], c.In[0].Operand()), nil
}

var errRefused = errors.New("refused by the kernel")

// linger is what a chunk of the op linger does; the test that runs one sets it.
var linger func(chunk int)

// chunked makes an op of several chunks that call f.
func chunked(name string, chunks int, f func(chunk int) error) *graph.Op {
	return &graph.Op{
		Semantics: graph.Semantics{
			Name: name, Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				return c.NewResult(tensor.New(tensor.Float32, 4).Type()), nil
			},
		},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) {
				return &graph.Kernel{Phases: []graph.Phase{{Chunks: chunks, Run: func(_ *graph.Mem, chunk int) error {
					return f(chunk)
				}}}}, nil
			},
		},
	}
}

// total sums in two phases with scratch: the partial sums of fixed cuts, then their sum.
var total = &graph.Op{
	Semantics: graph.Semantics{
		Name: "total", Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			return c.NewResult(tensor.New(tensor.Float32).Type()), nil
		},
	},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			const cut = 100
			n := c.Meta(0).Numel()
			chunks := (n + cut - 1) / cut
			return &graph.Kernel{Scratch: 4 * chunks, Phases: []graph.Phase{
				{Chunks: chunks, Run: func(m *graph.Mem, chunk int) error {
					var s float32
					for _, x := range unsafe.Slice((*float32)(m.Ptrs[1]), n)[chunk*cut : min(n, (chunk+1)*cut)] {
						s += x
					}
					*(*float32)(unsafe.Pointer(&m.Scratch[4*chunk])) = s
					return nil
				}},
				{Chunks: 0},
				{Chunks: 1, Run: func(m *graph.Mem, _ int) error {
					var s float32
					for k := range chunks {
						s += *(*float32)(unsafe.Pointer(&m.Scratch[4*k]))
					}
					*(*float32)(m.Ptrs[0]) = s
					return nil
				}},
			}}, nil
		},
	},
}

type transposeAttrs struct{}

var flip = &graph.Op{Semantics: graph.Semantics{
	Name: "flip", Params: []graph.Param{one}, Schema: graph.SchemaOf[transposeAttrs](),
	Kind: graph.View,
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		m, err := c.Meta(0).Transpose(0, -1)
		return []graph.Result{{Type: m.Type(), Alias: 0}}, err
	},
}}

var catalogue = func() map[string]*graph.Op {
	m := map[string]*graph.Op{}
	for _, o := range []*graph.Op{
		pointwise("add", 64, []graph.Param{one, two}, binary, iter.Slice2(func(d, a, b []float32) {
			for i := range d {
				d[i] = a[i] + b[i]
			}
		})),
		pointwise("mul", 64, []graph.Param{one, two}, binary, iter.Slice2(func(d, a, b []float32) {
			for i := range d {
				d[i] = a[i] * b[i]
			}
		})),
		pointwise("half", 64, []graph.Param{one}, unary, iter.Slice1(func(d, a []float32) {
			for i := range d {
				d[i] = a[i] / 2
			}
		})),
		total, flip,
		chunked("fail", 8, func(chunk int) error {
			if chunk == 5 {
				return errRefused
			}
			return nil
		}),
		chunked("panic", 1, func(int) error { panic("broken invariant") }),
		chunked("linger", 1000, func(chunk int) error {
			linger(chunk)
			return nil
		}),
	} {
		m[o.Name] = defined(*o)
	}
	return m
}()

// defined is the op as a graph takes it. Nothing here is evaluated by reference.
func defined(o graph.Op) *graph.Op {
	o.NoRef = "the test has none"
	d, err := fusion.Define(o)
	if err != nil {
		panic(err)
	}
	return d
}

func lookup(name string) *graph.Op { return catalogue[name] }
