//go:build !386 && !arm

package conv_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// farCases are convolutions whose strides, padding or dilation exceed 32 bits, alone or times the size of a row.
var farCases = []struct {
	op   string
	x, w []int
	at   graph.Attrs
}{
	{"conv2d", []int{1, 2, 5, 4}, []int{3, 2, 3, 3}, graph.Attrs{"stride": 1 << 28, "padding": 1<<31 - 1}},
	{"conv2d", []int{1, 2, 5, 4}, []int{3, 2, 3, 3}, graph.Attrs{"stride": 1 << 27, "padding": 1 << 30}},
	{"conv2d", []int{1, 2, 5, 4}, []int{3, 2, 3, 3},
		graph.Attrs{"stride": 1 << 46, "padding": 1 << 47, "dilation": 1 << 46}},
	{"conv2d", []int{3, 1, 16, 7}, []int{3, 1, 1, 3}, graph.Attrs{"padding": "same", "dilation": 1 << 47}},
	{"conv2d", []int{2, 3, 4, 5}, []int{4, 3, 1, 1},
		graph.Attrs{"stride": 1 << 40, "padding": []int{1 << 39, 0}, "dilation": 1 << 47}},
	{"conv2d", []int{1, 16, 5, 5}, []int{16, 16, 3, 3}, graph.Attrs{"padding": 1 << 31, "dilation": 1 << 31}},
	{"conv2d", []int{1, 8, 4, 5}, []int{8, 1, 3, 3}, graph.Attrs{"padding": 1 << 29, "dilation": 1 << 29, "groups": 8}},
	{"conv2d", []int{1, 8, 4, 5}, []int{8, 1, 3, 3},
		graph.Attrs{"padding": 1431655765, "dilation": 1431655765, "groups": 8}},
	{"conv2d", []int{1, 16, 4, 5}, []int{16, 4, 3, 3},
		graph.Attrs{"padding": 1 << 45, "dilation": 1 << 45, "groups": 4}},
	{"conv2d", []int{1, 16, 4, 5}, []int{16, 1, 2, 2},
		graph.Attrs{"padding": 1 << 34, "stride": 1 << 33, "groups": 16}},
	{"conv1d", []int{2, 4, 9}, []int{5, 4, 3},
		graph.Attrs{"padding": 1 << 45, "stride": 1 << 43, "dilation": 1 << 44}},
	{"conv3d", []int{1, 3, 4, 3, 5}, []int{4, 3, 2, 2, 2}, graph.Attrs{"padding": 1 << 46, "stride": 1 << 45}},
	{"conv3d", []int{1, 3, 4, 3, 5}, []int{3, 1, 2, 2, 2},
		graph.Attrs{"padding": 1 << 33, "dilation": 1 << 34, "groups": 3}},
	{"conv_transpose2d", []int{1, 3, 1, 1}, []int{3, 4, 3, 3}, graph.Attrs{"stride": 1 << 40, "padding": 1}},
	{"conv_transpose2d", []int{1, 3, 12, 13}, []int{3, 4, 3, 1},
		graph.Attrs{"padding": []int{1 << 33, 0}, "dilation": []int{1 << 33, 1 << 47}}},
	{"conv_transpose2d", []int{1, 1, 16, 16}, []int{1, 1, 1, 5},
		graph.Attrs{"stride": []int{1 << 32, 3}, "padding": []int{15 << 31, 0}}},
	{"conv_transpose1d", []int{1, 2, 2}, []int{2, 3, 2},
		graph.Attrs{"stride": 1 << 44, "padding": 1 << 43, "dilation": 2}},
}

// TestFarWindows compares all implementations of calls with huge strides, padding and dilation with the definition.
func TestFarWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 27))
	for _, c := range farCases {
		for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.BFloat16} {
			x, w := tensor.Empty(tensor.New(d, c.x...)), tensor.Empty(tensor.New(d, c.w...))
			kerneltest.FillRandom(r, x)
			kerneltest.FillRandom(r, w)
			in := []*tensor.Tensor{x, w}
			p, err := kerneltest.NewProductCall(c.op, c.at, in)
			if err != nil {
				t.Errorf("%s %v by %v, %v: %v", c.op, c.x, c.w, c.at, err)
				continue
			}
			p.Check(t, tensor.Numel(c.w))
			runConvImpls(t, p, c.at, x, tensor.Numel(c.w), 1)
		}
	}
}

// TestFarBytes does the same for conv2d_bytes.
func TestFarBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 27))
	for _, c := range farCases {
		if c.op != "conv2d" || c.at["padding"] == "same" {
			continue
		}
		x, w := byteOperand(r, tensor.Uint8, 200, c.x...), byteOperand(r, tensor.Int8, 100, c.w...)
		in := []*tensor.Tensor{x, w, byteOperand(r, tensor.Int32, 1000, c.w[0]), byteScales(r, c.w[0], 9),
			byteOperand(r, tensor.Uint8, 200), byteOperand(r, tensor.Int8, 100)}
		compareBytes(t, c.at, in)
	}
}

// TestTooFar checks that calls whose sizes exceed 64 bits are rejected with specific errors.
func TestTooFar(t *testing.T) {
	for _, c := range []struct {
		op   string
		w    int
		at   graph.Attrs
		want string
	}{
		{"conv1d", 1 << 20, graph.Attrs{"dilation": 1 << 47, "padding": 1 << 47}, "Kernel size can't be greater"},
		{"conv1d", 1 << 20, graph.Attrs{"dilation": 1 << 47, "padding": "same"}, "Kernel size can't be greater"},
		{"conv_transpose1d", 1 << 20, graph.Attrs{"dilation": 1 << 47}, "too many elements"},
		{"conv_transpose1d", 3, graph.Attrs{"stride": 1 << 47}, "too many elements"},
		{"conv_transpose1d", 3, graph.Attrs{"padding": 1 << 47}, "Output size is too small"},
	} {
		g := graph.New("far", kernels.Lookup)
		g.Apply(c.op, c.at, g.Input("x", tensor.Float32, 1, 1, 5), g.Input("w", tensor.Float32, 1, 1, c.w))
		require.ErrorContains(t, g.Err(), c.want)
	}
}

// TestPricesOfFarWindows checks that the time of pricing depends on the window's size only; a slow one would exceed the
// timeout of the test.
func TestPricesOfFarWindows(t *testing.T) {
	for _, c := range []struct {
		op   string
		x, w []int
		at   graph.Attrs
	}{
		{"conv2d", []int{1, 1, 4, 4}, []int{1, 1, 4, 4}, graph.Attrs{"padding": []int{1 << 40, 1}}},
		{"conv1d", []int{4, 8, 1}, []int{7, 8, 8}, graph.Attrs{"padding": 1 << 38}},
		{"conv2d", []int{1, 8, 4, 4}, []int{8, 1, 3, 3}, graph.Attrs{"padding": []int{1, 1 << 36}, "groups": 8}},
		{"conv2d", []int{1, 16, 4, 4}, []int{16, 4, 3, 3}, graph.Attrs{"padding": []int{1 << 36, 1}, "groups": 4}},
		{"conv3d", []int{1, 2, 4, 4, 4}, []int{2, 2, 3, 3, 3}, graph.Attrs{"padding": []int{1 << 36, 1, 1}}},
	} {
		g := graph.New("far", kernels.Lookup)
		v := g.Apply(c.op, c.at, g.Input("x", tensor.Float32, c.x...), g.Input("w", tensor.Float32, c.w...))
		if err := g.Err(); err != nil {
			t.Fatal(err)
		}
		n := v[0].Node
		call, priced := n.Call(), 0
		for i := range n.Op.Impls {
			m := &n.Op.Impls[i]
			for _, walk := range m.Walks(call, nil) {
				m.Work(call, walk)
				priced++
			}
		}
		if priced == 0 {
			t.Errorf("%s %v: nothing was priced", c.op, c.at)
		}
	}
}

// TestResultBeyondMemory checks that a result of more than 2^47 bytes is rejected before its layout is computed.
func TestResultBeyondMemory(t *testing.T) {
	for _, c := range []struct {
		op   string
		d    tensor.DType
		x, w []int
		at   graph.Attrs
	}{
		{"conv2d", tensor.Complex64, []int{2, 4, 5, 5}, []int{6, 2, 3, 3}, graph.Attrs{"groups": 2, "padding": 1 << 32}},
		{"conv1d", tensor.Float32, []int{3, 9}, []int{3, 1, 2},
			graph.Attrs{"groups": 3, "padding": 1 << 46, "stride": 9}},
	} {
		g := graph.New("far", kernels.Lookup)
		g.Apply(c.op, c.at, g.Input("x", c.d, c.x...), g.Input("w", c.d, c.w...))
		require.ErrorContains(t, g.Err(), "has too many elements", c.op)
	}
}

// TestReferencesOfLongWindows checks that references compute only the products of existing elements: all pairs of taps
// and results would be 2^34.
func TestReferencesOfLongWindows(t *testing.T) {
	const long = 1 << 17
	ones := func(shape ...int) *tensor.Tensor {
		x := tensor.Empty(tensor.New(tensor.Float64, shape...))
		for i := range x.Numel() {
			x.SetFlat(i, tensor.IntScalar(1))
		}
		return x
	}
	for _, c := range []struct {
		op     string
		images int
		at     graph.Attrs
	}{
		{"conv1d", 1, graph.Attrs{"padding": long}},
		{"conv_transpose1d", 1, graph.Attrs{"stride": long}},
		{"conv1d", 0, graph.Attrs{"padding": 1 << 40}},
		{"conv_transpose1d", 0, graph.Attrs{"stride": 1 << 40}},
	} {
		in := []*tensor.Tensor{ones(c.images, 1, 2), ones(1, 1, long)}
		g := graph.New("long", kernels.Lookup)
		v := g.Apply(c.op, c.at, g.InputMeta("x", in[0].Meta), g.InputMeta("w", in[1].Meta))
		require.NoError(t, g.Err())
		out, err := v[0].Node.Op.Ref(v[0].Node.Call(), in)
		require.NoError(t, err)
		sum := 0.0
		for i := range out[0].Numel() {
			sum += out[0].At(0, 0, i).Float()
		}
		require.Equal(t, float64(c.images*2*long), sum, c.op)
	}
}
