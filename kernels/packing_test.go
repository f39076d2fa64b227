package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/conv"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/product"
	"github.com/graphrun/graphrun/kernels/internal/recurrent"
	"github.com/graphrun/graphrun/tensor"
)

// packingCalls are calls with operands large enough to be packed, in addition to the ops' examples.
var packingCalls = []struct {
	op    *graph.Op
	in    []tensor.Meta
	attrs graph.Attrs
}{
	{product.Matmul, []tensor.Meta{kit.F32(40, 30), kit.F32(30, 50)}, nil},
	{product.Matmul, []tensor.Meta{kit.F32(40, 30), kit.F32(30, 50).WithStrides([]int{1, 30})}, nil},
	{product.Matmul, []tensor.Meta{kit.F32(3, 1, 40, 30), kit.F32(2, 30, 50)}, nil},
	{product.Matmul, []tensor.Meta{kit.F32(2, 40, 30).WithStrides([]int{0, 30, 1}), kit.F32(2, 30, 50)}, nil},
	{product.Linear, []tensor.Meta{kit.F32(2, 9, 40), kit.F32(70, 40), kit.F32(70)}, nil},
	{product.Linear, []tensor.Meta{tensor.New(tensor.BFloat16, 9, 40), tensor.New(tensor.BFloat16, 70, 40),
		tensor.New(tensor.BFloat16, 70)}, nil},
	{product.Linear, []tensor.Meta{tensor.New(tensor.Float16, 1, 40), tensor.New(tensor.Float16, 70, 40)}, nil},
	{product.Addmm, []tensor.Meta{tensor.New(tensor.Float64, 50), tensor.New(tensor.Float64, 40, 30),
		tensor.New(tensor.Float64, 30, 50)}, nil},
	{product.Bmm, []tensor.Meta{tensor.New(tensor.Int32, 3, 20, 30), tensor.New(tensor.Int32, 3, 30, 40)}, nil},
	{conv.Conv2d, []tensor.Meta{kit.F32(2, 8, 6, 5), kit.F32(34, 4, 3, 3)}, graph.Attrs{"groups": 2}},
	{conv.Conv2d, []tensor.Meta{lastChannels(kit.F32(2, 8, 6, 5)), lastChannels(kit.F32(34, 8, 3, 3)), kit.F32(34)}, nil},
	{conv.Conv2d, []tensor.Meta{lastChannels(kit.F32(2, 8, 6, 5)), kit.F32(16, 1, 3, 3)}, graph.Attrs{"groups": 8}},
	{conv.Conv2d, []tensor.Meta{kit.F32(2, 8, 6, 5), kit.F32(16, 1, 3, 3)}, graph.Attrs{"groups": 8}},
	{conv.Conv2d, []tensor.Meta{tensor.New(tensor.BFloat16, 1, 3, 6, 5), tensor.New(tensor.BFloat16, 5, 3, 3, 3)}, nil},
	{conv.Conv1d, []tensor.Meta{kit.F32(2, 8, 20), kit.F32(34, 8, 3)}, nil},
	{conv.Conv3d, []tensor.Meta{kit.F32(2, 8, 4, 6, 5), kit.F32(34, 4, 2, 3, 3)}, graph.Attrs{"groups": 2}},
	{recurrent.LSTM, []tensor.Meta{kit.F32(7, 9, 20), kit.F32(1, 9, 30), kit.F32(1, 9, 30), kit.F32(120, 20),
		kit.F32(120, 30).WithStrides([]int{1, 120}), kit.F32(120), kit.F32(120)}, nil},
	{recurrent.OnnxGRU, []tensor.Meta{tensor.New(tensor.BFloat16, 7, 9, 20), tensor.New(tensor.BFloat16, 2, 90, 20),
		tensor.New(tensor.BFloat16, 2, 90, 30)},
		graph.Attrs{"direction": "bidirectional"}},
	{recurrent.OnnxGRU, []tensor.Meta{kit.F32(7, 9, 20), kit.F32(2, 90, 20), kit.F32(2, 90, 30)},
		graph.Attrs{"direction": "bidirectional", "linear_before_reset": 1}},
	{product.Einsum, []tensor.Meta{tensor.New(tensor.Float16, 4, 5), tensor.New(tensor.Float16, 5, 6)},
		graph.Attrs{"equation": "ij,jk->ik"}},
}

func lastChannels(m tensor.Meta) tensor.Meta {
	o, err := tensor.ChannelsLast.Order(m.Rank())
	if err != nil {
		panic(err)
	}
	return m.WithStrides(o.Strides(m.Shape))
}

// TestPackedOperands checks, for every operand of all ops with a Pack, that packed operands unpack to the original and
// give the same results.
func TestPackedOperands(t *testing.T) {
	calls, packed := packingCalls, 0
	for _, op := range kernels.All() {
		for _, e := range op.Examples {
			if slices.ContainsFunc(op.Impls, func(m graph.Impl) bool { return m.Pack != nil }) {
				calls = append(calls, struct {
					op    *graph.Op
					in    []tensor.Meta
					attrs graph.Attrs
				}{op, e.In, e.Attrs})
			}
		}
	}
	for _, call := range calls {
		a, err := call.op.Schema.Decode(call.attrs, nil)
		require.NoError(t, err)
		draw := kerneltest.NonzeroValues(rand.New(rand.NewPCG(1, 2)))
		var in []*tensor.Tensor
		for _, m := range call.in {
			var x *tensor.Tensor
			if m.DType != tensor.Invalid {
				x = kerneltest.Filled(m, draw)
			}
			in = append(in, x)
		}
		for i := range call.op.Impls {
			name := fmt.Sprintf("%s by %s of %v", call.op.Name, call.op.Impls[i].Name, call.in)
			packed += comparePacked(t, name, call.op, &call.op.Impls[i], a, in)
		}
	}
	assert.GreaterOrEqual(t, packed, 30, "operands were packed")
}

// comparePacked computes a call with each operand packed and not, and returns the number of packed operands.
func comparePacked(t *testing.T, name string, op *graph.Op, m *graph.Impl, a any,
	in []*tensor.Tensor) (packed int) {
	c := &graph.Call{Attrs: a}
	for _, x := range in {
		if x == nil {
			c.In = append(c.In, graph.Arg{})
			continue
		}
		c.In = append(c.In, graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Meta: x.Meta, Const: x}})
	}
	res, err := op.Infer(c)
	require.NoError(t, err, name)
	if res[0].Alias != graph.NoAlias {
		return 0
	}
	for _, r := range res {
		c.Out = append(c.Out, r.Meta())
	}
	walks := m.Walks(c, nil)
	if len(walks) == 0 || !m.Reads(c, walks[0]) || m.Pack == nil {
		return 0
	}
	c.Impl, c.Walk = m, walks[0]
	for i := range c.Out {
		c.Out[i] = walks[0].ResultLayout(i, c.Out[i])
	}
	want := lowerAndRun(t, name, c, in)
	for i := range in {
		if in[i] == nil {
			continue
		}
		packing, ok := m.Pack(c, i)
		if !ok {
			continue
		}
		packed++
		v, err := graph.PackConstant(c.In[i].Value, packing)
		require.NoError(t, err, name)
		back := v.Data()
		require.Equal(t, in[i].DType, back.DType, name)
		require.Equal(t, numbers(in[i]), numbers(back), "%s: operand %d in the form %q", name, i, packing.Format)
		with, data := *c, slices.Clone(in)
		with.In = slices.Clone(c.In)
		with.In[i].Value, data[i] = v, v.Const
		again, ok := m.Pack(&with, i)
		require.True(t, ok && again.Format == packing.Format, "%s: a packed operand is asked for in the same form", name)
		got := lowerAndRun(t, name, &with, data)
		for k := range want {
			a, b := numbers(want[k]), numbers(got[k])
			if slices.Equal(a, b) {
				continue
			}
			// Small products, of recurrent cells and transposed convolutions, round differently in panels.
			require.Contains(t, []string{"steps", "spread"}, m.Name, "%s: result %d, operand %d in the form %q",
				name, k, i, packing.Format)
			for j := range a {
				require.InDelta(t, real(a[j]), real(b[j]), 1e-5*(1+math.Abs(real(a[j]))),
					"%s: result %d, operand %d in the form %q", name, k, i, packing.Format)
			}
		}
		if !strings.Contains(packing.Format, "panels") {
			continue
		}
		with.In[i].Value = &graph.Value{Meta: v.Meta, Const: v.Const,
			Packed: &graph.Packed{Format: "no such", Type: v.Packed.Type, Meta: v.Packed.Meta}}
		_, err = m.Lower(&with)
		require.ErrorContains(t, err, "packed as no such", name)
	}
	return packed
}

// lowerAndRun lowers a call and runs it.
func lowerAndRun(t *testing.T, name string, c *graph.Call, in []*tensor.Tensor) []*tensor.Tensor {
	k, err := c.Impl.Lower(c)
	require.NoError(t, err, name)
	var outs []*tensor.Tensor
	for _, m := range c.Out {
		outs = append(outs, tensor.Empty(m))
	}
	require.NoError(t, kerneltest.RunKernel(k, c, in, outs), name)
	return outs
}

// numbers returns the elements in logical order.
func numbers(x *tensor.Tensor) []complex128 {
	out, _ := tensor.ToSlice[complex128](x.CopyTo(tensor.New(tensor.Complex128, x.Shape...)))
	return out
}
