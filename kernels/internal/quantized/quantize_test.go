package quantized_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// quantOperand makes a quantized operand over the whole range of its dtype, of any layout.
func quantOperand(r *rand.Rand, d tensor.DType, shape ...int) *tensor.Tensor {
	t := kerneltest.RandomOperand(r, d, shape...)
	kit.EachIndex(shape, func(i []int) {
		v := r.Int64N(1 << min(8*d.Size(), 20))
		if d.IsSigned() {
			v -= 1 << (min(8*d.Size(), 20) - 1)
		}
		t.Set(tensor.IntScalar(v), i...)
	})
	return t
}

func scaleOf(r *rand.Rand, d tensor.DType, shape ...int) *tensor.Tensor {
	t := kerneltest.RandomOperand(r, d, shape...)
	kit.EachIndex(shape, func(i []int) { t.Set(tensor.FloatScalar(0.01+r.Float64()/8), i...) })
	return t
}

var quantBytes = []tensor.DType{tensor.Uint8, tensor.Int8}

func TestQuantize(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 1))
	for range 150 {
		shape := []int{1 + r.IntN(4), 1 + r.IntN(5), 1 + r.IntN(6)}
		axis := r.IntN(3)
		at := graph.Attrs{"axis": axis - 3*r.IntN(2)}
		var side []int
		switch r.IntN(4) {
		case 0:
		case 1:
			side = []int{1}
		case 2:
			side = []int{shape[axis]}
		default:
			block := 1 + r.IntN(3)
			at["block_size"] = block
			side = append(side, shape...)
			side[axis] = kit.DivUp(shape[axis], block)
		}
		d := []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16, tensor.Int32}[r.IntN(5)]
		f := []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16}[r.IntN(3)]
		scale, zero := scaleOf(r, f, side...), quantOperand(r, d, side...)
		x := kerneltest.RandomOperand(r, f, shape...)
		kit.EachIndex(shape, func(i []int) { x.Set(tensor.FloatScalar((r.Float64()-0.5)*40), i...) })
		in := []*tensor.Tensor{x, scale, zero}
		q := []*tensor.Tensor{quantOperand(r, d, shape...), scale, zero}
		if r.IntN(4) == 0 {
			in, q = in[:2], q[:2]
		}
		kerneltest.CheckKernel(t, "quantize_linear", at, in, kerneltest.RandomConstants(r, in)...)
		kerneltest.CheckKernel(t, "dequantize_linear", at, q, kerneltest.RandomConstants(r, q)...)
		if f == tensor.Float32 {
			kerneltest.CheckKernel(t, "dynamic_quantize_linear", nil, in[:1])
		}
	}
	kerneltest.CheckKernel(t, "dynamic_quantize_linear", nil, []*tensor.Tensor{tensor.Zeros(tensor.Float32, 3)})
	kerneltest.CheckKernel(t, "dynamic_quantize_linear", nil,
		[]*tensor.Tensor{kerneltest.Filled(tensor.New(tensor.Float32, 300, 301), kerneltest.NonzeroValues(r))})
}

func TestQuantizedProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(62, 1))
	for range 150 {
		m, n, k := 1+r.IntN(6), 1+r.IntN(6), 1+r.IntN(9)
		if r.IntN(8) == 0 {
			k = 300
		}
		a, b := []int{m, k}, []int{k, n}
		if r.IntN(3) == 0 {
			a = append([]int{2}, a...)
		}
		if r.IntN(3) == 0 {
			b = append([]int{2}, b...)
		}
		da, db := quantBytes[r.IntN(2)], quantBytes[r.IntN(2)]
		one := func(n int) []int { return [][]int{nil, {1}, {n}}[r.IntN(3)] }
		rows, cols := one(m), one(n)
		in := []*tensor.Tensor{quantOperand(r, da, a...), quantOperand(r, db, b...), quantOperand(r, da, rows...),
			quantOperand(r, db, cols...)}
		if r.IntN(3) == 0 {
			in[2] = nil
		}
		kerneltest.CheckParts(t, "matmul_integer", nil, in[:2+r.IntN(3)])
		dy := quantBytes[r.IntN(2)]
		in = []*tensor.Tensor{in[0], scaleOf(r, tensor.Float32, rows...), quantOperand(r, da, rows...), in[1],
			scaleOf(r, tensor.Float32, cols...), quantOperand(r, db, cols...),
			scaleOf(r, tensor.Float32), quantOperand(r, dy)}
		in[6].Set(tensor.FloatScalar(1+10*r.Float64()), []int{}...)
		if r.IntN(2) == 0 {
			in = append(in, quantOperand(r, tensor.Int32, n))
		}
		kerneltest.CheckParts(t, "qlinear_matmul", nil, in)
	}
}

func TestQuantizedConvolutions(t *testing.T) {
	r := rand.New(rand.NewPCG(63, 1))
	for range 150 {
		dims := 1 + r.IntN(3)
		g, cg, og := 1+r.IntN(2), 1+r.IntN(3), 1+r.IntN(3)
		if r.IntN(4) == 0 { // depthwise
			g, cg, og = 2+r.IntN(40), 1, 1
		}
		x, w := []int{1 + r.IntN(2), g * cg}, []int{g * og, cg}
		var pad, stride, dilation []int
		for range dims {
			k := 1 + r.IntN(3)
			x, w = append(x, 5+r.IntN(4)), append(w, k)
			pad, stride, dilation = append(pad, r.IntN(2)), append(stride, 1+r.IntN(2)), append(dilation, 1+r.IntN(2))
		}
		for range dims {
			pad = append(pad, r.IntN(2))
		}
		at := graph.Attrs{"stride": stride, "padding": pad, "dilation": dilation, "groups": g}
		dx, dw := quantBytes[r.IntN(2)], quantBytes[r.IntN(2)]
		per := [][]int{nil, {1}, {g * og}}[r.IntN(3)]
		in := []*tensor.Tensor{quantOperand(r, dx, x...), quantOperand(r, dw, w...), quantOperand(r, dx),
			quantOperand(r, dw, per...)}
		kerneltest.CheckParts(t, "conv_integer", at, in[:2+r.IntN(3)])
		in = []*tensor.Tensor{in[0], scaleOf(r, tensor.Float32), in[2], in[1], scaleOf(r, tensor.Float32, per...), in[3],
			scaleOf(r, tensor.Float32), quantOperand(r, quantBytes[r.IntN(2)]), nil}
		in[6].Set(tensor.FloatScalar(1+10*r.Float64()), []int{}...)
		if r.IntN(2) == 0 {
			in[8] = quantOperand(r, tensor.Int32, g*og)
		}
		kerneltest.CheckParts(t, "qlinear_conv", at, in)
		// Products of bytes need int8 weights whose zero points are 0, as in most models.
		in[0], in[2] = quantOperand(r, tensor.Uint8, x...), quantOperand(r, tensor.Uint8)
		in[3], in[5] = quantOperand(r, tensor.Int8, w...), tensor.Zeros(tensor.Int8, per...)
		kerneltest.CheckParts(t, "qlinear_conv", at, in)
	}
}

// TestQuantizedZeroPointsOfOtherDTypes draws zero points that do not have the dtype of their operand.
func TestQuantizedZeroPointsOfOtherDTypes(t *testing.T) {
	r := rand.New(rand.NewPCG(65, 1))
	for range 30 {
		dx, dw := quantBytes[r.IntN(2)], quantBytes[r.IntN(2)]
		zx, zw := quantOperand(r, quantBytes[r.IntN(2)]), quantOperand(r, quantBytes[r.IntN(2)], 9)
		image, window := quantOperand(r, dx, 1, 4, 6, 5), quantOperand(r, dw, 9, 4, 3, 3)
		at := graph.Attrs{"padding": 1}
		kerneltest.CheckParts(t, "conv_integer", at, []*tensor.Tensor{image, window, zx, zw})
		one, each, zy := scaleOf(r, tensor.Float32), scaleOf(r, tensor.Float32, 9), quantOperand(r, quantBytes[r.IntN(2)])
		kerneltest.CheckParts(t, "qlinear_conv", at, []*tensor.Tensor{image, one, zx, window, each, zw, one, zy, nil})
		a, b := quantOperand(r, dx, 3, 7), quantOperand(r, dw, 7, 9)
		kerneltest.CheckParts(t, "matmul_integer", nil, []*tensor.Tensor{a, b, zx, zw})
		kerneltest.CheckParts(t, "qlinear_matmul", nil, []*tensor.Tensor{a, one, zx, b, each, zw, one, zy})
	}
}

// TestQuantizedProductsOfOddShapes multiplies vectors, operands without elements, and rows whose sums wrap.
func TestQuantizedProductsOfOddShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(64, 1))
	u8, f32 := tensor.Uint8, tensor.Float32
	for _, c := range []struct{ a, b, rows, cols []int }{
		{[]int{4}, []int{4}, nil, []int{1}}, {[]int{4}, []int{4, 3}, []int{1}, []int{3}},
		{[]int{2, 3, 4}, []int{4}, []int{3}, nil},
		{[]int{0, 4}, []int{4, 3}, []int{0}, []int{3}}, {[]int{2, 0}, []int{0, 3}, []int{2}, []int{3}},
		{[]int{2, 4}, []int{4, 0}, []int{2}, []int{0}}, {[]int{1, 4}, []int{2, 4, 1}, []int{1, 1}, []int{1}},
	} {
		a, b := quantOperand(r, u8, c.a...), quantOperand(r, u8, c.b...)
		za, zb := quantOperand(r, u8, c.rows...), quantOperand(r, u8, c.cols...)
		kerneltest.CheckParts(t, "matmul_integer", nil, []*tensor.Tensor{a, b, za, zb})
		kerneltest.CheckParts(t, "qlinear_matmul", nil, []*tensor.Tensor{a, scaleOf(r, f32, c.rows...), za, b,
			scaleOf(r, tensor.Float16, c.cols...), zb, scaleOf(r, f32, 1), quantOperand(r, tensor.Int8, 1, 1)})
	}
	long, tall := tensor.Zeros(u8, 1, 40000), tensor.Zeros(u8, 40000, 1)
	for i := range 40000 {
		long.Set(tensor.IntScalar(255), 0, i)
		tall.Set(tensor.IntScalar(255), i, 0)
	}
	kerneltest.CheckParts(t, "matmul_integer", nil, []*tensor.Tensor{long, tall})
}

// TestZeroPointsOfOtherShapes checks that zero points must have the shape of the scales. A single zero point may have
// any number of dimensions.
func TestZeroPointsOfOtherShapes(t *testing.T) {
	for _, c := range []struct {
		scale, zero []int
		at          graph.Attrs
		want        string
	}{
		{[]int{2, 3}, []int{3, 2}, graph.Attrs{"block_size": 2}, "zero_point has shape [3, 2], scale [2, 3]"},
		{[]int{2, 3}, []int{6}, graph.Attrs{"block_size": 2}, "zero_point has shape [6], scale [2, 3]"},
		{[]int{2, 3}, []int{2, 3}, graph.Attrs{"block_size": 2}, ""},
		{[]int{1}, []int{}, nil, ""},
		{[]int{}, []int{1, 1}, nil, ""},
	} {
		g := graph.New("zero", kernels.Lookup)
		g.Apply("quantize_linear", c.at, g.Input("x", tensor.Float32, 2, 5), g.Input("s", tensor.Float32, c.scale...),
			g.Input("z", tensor.Int16, c.zero...))
		switch err := g.Err(); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("scale %v, zero point %v: %v, want %q", c.scale, c.zero, err, c.want)
		}
	}
}
