package endtoend_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// headed is a product or a convolution. in adds an operand.
type headed struct {
	name string
	make func(in func(format tensor.MemoryFormat, shape ...int) *graph.Value) *graph.Value
}

var heads = []headed{
	{"linear", func(in inputs) *graph.Value { return op.Linear(in(rows, 3, 7, 40), in(rows, 70, 40), in(rows, 70)) }},
	{"matmul", func(in inputs) *graph.Value { return op.Matmul(in(rows, 2, 17, 260), in(rows, 260, 18)) }},
	{"batches", func(in inputs) *graph.Value { return op.Matmul(in(rows, 4, 9, 16), in(rows, 4, 16, 10)) }},
	{"thin", func(in inputs) *graph.Value { return op.Matmul(in(rows, 1, 40), in(rows, 40, 130)) }},
	{"column", func(in inputs) *graph.Value { return op.Matmul(in(rows, 2, 130, 30), in(rows, 30, 1)) }},
	{"tiny", func(in inputs) *graph.Value { return op.Matmul(in(rows, 2, 3), in(rows, 3, 2)) }},
	{"addmm", func(in inputs) *graph.Value {
		return op.Addmm(in(rows, 20, 1), in(rows, 20, 11), in(rows, 11, 40),
			op.AddmmAttrs{Alpha: tensor.FloatScalar(0.5), Beta: tensor.FloatScalar(2)})
	}},
	{"planes", func(in inputs) *graph.Value {
		return op.Conv2d(in(rows, 2, 5, 9, 8), in(rows, 6, 5, 3, 3), in(rows, 6), op.Conv2dAttrs{Padding: []int{1, 1}})
	}},
	{"pixels", func(in inputs) *graph.Value {
		return op.Conv2d(in(last, 2, 32, 5, 6), in(rows, 17, 32, 3, 3), in(rows, 17), op.Conv2dAttrs{Stride: []int{2, 1}})
	}},
	{"1x1", func(in inputs) *graph.Value { return op.Conv2d(in(last, 1, 33, 12, 12), in(rows, 9, 33, 1, 1), nil) }},
	{"groups", func(in inputs) *graph.Value {
		return op.Conv2d(in(last, 2, 12, 7, 7), in(rows, 15, 4, 3, 3), nil, op.Conv2dAttrs{Groups: new(3)})
	}},
	{"depthwise", func(in inputs) *graph.Value {
		return op.Conv2d(in(last, 2, 21, 9, 8), in(rows, 21, 1, 3, 3), in(rows, 21),
			op.Conv2dAttrs{Groups: new(21), Padding: []int{1, 1}})
	}},
	{"wide depthwise", func(in inputs) *graph.Value { // the last vector is a block of its own
		return op.Conv2d(in(last, 1, 450, 5, 5), in(rows, 450, 1, 3, 3), nil, op.Conv2dAttrs{Groups: new(450)})
	}},
	{"depthwise, several results", func(in inputs) *graph.Value {
		return op.Conv2d(in(last, 1, 5, 6, 6), in(rows, 10, 1, 3, 3), nil, op.Conv2dAttrs{Groups: new(5)})
	}},
	{"sequence", func(in inputs) *graph.Value { return op.Conv1d(in(rows, 2, 5, 30), in(rows, 8, 5, 3), nil) }},
	{"volume", func(in inputs) *graph.Value {
		return op.Conv3d(in(rows, 2, 3, 5, 6, 7), in(rows, 4, 3, 2, 3, 3), in(rows, 4))
	}},
}

// inputs adds an operand and returns it.
type inputs = func(format tensor.MemoryFormat, shape ...int) *graph.Value

const (
	rows = tensor.Contiguous
	last = tensor.ChannelsLast
)

// tails are ops on the result v. They add outputs, and in adds an input.
var tails = []struct {
	name string
	make func(g *graph.Graph, v *graph.Value, in func(m tensor.Meta) *graph.Value)
}{
	{"relu", func(g *graph.Graph, v *graph.Value, _ func(tensor.Meta) *graph.Value) { g.Output("y", op.Relu(v)) }},
	{"residual", func(g *graph.Graph, v *graph.Value, in func(tensor.Meta) *graph.Value) {
		g.Output("y", op.Relu(op.Add(in(v.Meta), v)))
	}},
	{"turned residual", func(g *graph.Graph, v *graph.Value, in func(tensor.Meta) *graph.Value) {
		m := tensor.New(f32, v.Meta.Shape...)
		for step, d := 1, 0; d < m.Rank(); d++ { // the first dimension is the fastest
			m.Strides[d], step = step, step*m.Shape[d]
		}
		g.Output("y", op.Mul(op.Add(v, in(m)), v))
	}},
	{"vectors", func(g *graph.Graph, v *graph.Value, in func(tensor.Meta) *graph.Value) {
		shape := v.Meta.Shape
		along := func(d int) *graph.Value {
			s := make([]int, len(shape))
			for k := range s {
				s[k] = 1
			}
			s[d] = shape[d]
			return in(tensor.New(f32, s...))
		}
		sum := op.Add(v, in(tensor.New(f32, shape[len(shape)-1])))
		for d := range shape {
			sum = op.Add(sum, op.Mul(along(d), 0.5))
		}
		g.Output("y", sum)
	}},
	{"scaled, moved and bounded", func(g *graph.Graph, v *graph.Value, in func(tensor.Meta) *graph.Value) {
		shape := make([]int, v.Meta.Rank()-1) // vectors along dimension 1
		for d := range shape {
			shape[d] = 1
		}
		shape[0] = v.Meta.Shape[1]
		scale, move := in(tensor.New(f32, shape...)), in(tensor.New(f32, shape...))
		g.Output("y", op.Relu6(op.Add(op.Mul(op.Mul(v, scale), 0.5), move)))
	}},
	{"several results", func(g *graph.Graph, v *graph.Value, in func(tensor.Meta) *graph.Value) {
		sum := op.Add(v, in(v.Meta))
		g.Output("sum", sum).Output("twice", op.Mul(op.Relu(sum), 2)).Output("positive", op.Gt(sum, 0))
	}},
	{"itself, and in another dtype", func(g *graph.Graph, v *graph.Value, _ func(tensor.Meta) *graph.Value) {
		g.Output("wide", op.To(op.Relu(v), op.ToAttrs{DType: tensor.Float64})).Output("v", v)
	}},
	{"read by others later", func(g *graph.Graph, v *graph.Value, _ func(tensor.Meta) *graph.Value) {
		g.Output("y", op.Neg(v)).Output("sums", op.Sum(v, op.SumAttrs{Dim: []int{0}}))
	}},
}

// ramps returns a function that adds an input to g, named in0, in1 and so on, and its tensor to in.
func ramps(g *graph.Graph, in map[string]*tensor.Tensor) func(tensor.Meta) *graph.Value {
	return func(m tensor.Meta) *graph.Value {
		v := g.InputMeta(fmt.Sprint("in", len(in)), m)
		in[v.Name] = ramp(m.Shape...).CopyTo(m)
		return v
	}
}

// Ops on the result of a product or a convolution run in its step. Every implementation gives the same values.
func TestTails(t *testing.T) {
	for i, h := range heads {
		for j, tail := range tails {
			if testing.Short() && (i+j)%len(tails) != 0 { // with the race detector, each head and each tail once
				continue
			}
			t.Run(h.name+", "+tail.name, func(t *testing.T) {
				t.Parallel()
				g := graph.New("g", kernels.Lookup)
				in := map[string]*tensor.Tensor{}
				made := ramps(g, in)
				v := h.make(func(f tensor.MemoryFormat, shape ...int) *graph.Value {
					m, err := tensor.NewFormat(f32, shape, f)
					require.NoError(t, err)
					return made(m)
				}).Named("head")
				tail.make(g, v, made)
				require.NoError(t, g.Err())
				want := holds(t, g, in)
				for _, impl := range v.Node.Op.Impls {
					require.NoError(t, g.Pin("head", graph.Pin{Impl: impl.Name}))
					p, err := passes.Run(g, passes.Options{Strategy: layout.Optimal})
					if err != nil {
						continue // it does not support the call
					}
					if loops.CodeAvailable() {
						require.NotEmpty(t, p.Groups, impl.Name)
						assert.Equal(t, "head", p.Groups[0].Parts[0], impl.Name)
					}
					program, err := exec.Compile(p.Graph, exec.Options{Threads: 2})
					require.NoError(t, err)
					got, err := program.Run(t.Context(), in)
					require.NoError(t, err)
					for name, w := range want {
						require.Equal(t, floats(w), floats(got[name]), "%s, output %s", impl.Name, name)
					}
				}
			})
		}
	}
}

// Winograd convolutions round differently, so the results are compared with a tolerance.
func TestTailsOfWinograd(t *testing.T) {
	if !loops.CodeAvailable() {
		t.Skip("no machine code")
	}
	for i, tail := range tails {
		t.Run(tail.name, func(t *testing.T) {
			g := graph.New("g", kernels.Lookup)
			in := map[string]*tensor.Tensor{}
			made := ramps(g, in)
			m, err := tensor.NewFormat(f32, []int{2, 20, 11, 10}, last)
			require.NoError(t, err)
			bias := ramp(37)
			for i := range bias.Numel() { // no sum is 0
				bias.SetFlat(i, tensor.FloatScalar(0.03125))
			}
			head := op.Conv2d(made(m), g.Constant("w", ramp(37, 20, 3, 3)), g.Constant("b", bias),
				op.Conv2dAttrs{Padding: []int{1, 1}}).Named("head")
			tail.make(g, head, made)
			require.NoError(t, g.Err())
			want, err := graph.Evaluate(g, in)
			require.NoError(t, err)
			impls := []string{"winograd2", "winograd4"}
			for _, impl := range testsize.Short(impls[i%2:i%2+1], impls) { // under an emulator the tails alternate
				require.NoError(t, g.Pin("head", graph.Pin{Impl: impl}))
				p, err := passes.Run(g, passes.Options{Strategy: layout.Optimal})
				require.NoError(t, err)
				require.NotEmpty(t, p.Groups, impl)
				var first map[string]*tensor.Tensor
				for _, threads := range []int{1, 2} {
					program, err := exec.Compile(p.Graph, exec.Options{Threads: threads})
					require.NoError(t, err)
					got, err := program.Run(t.Context(), in)
					require.NoError(t, err)
					if first == nil {
						first = got
					}
					for name, w := range want {
						require.InDeltaSlice(t, floats(w), floats(got[name]), 2e-3, "%s, output %s", impl, name)
						require.Equal(t, floats(first[name]), floats(got[name]), "%s, output %s", impl, name)
					}
				}
			}
		})
	}
}
