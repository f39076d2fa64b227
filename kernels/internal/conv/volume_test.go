package conv_test

import (
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/graph"

	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

func TestConvVolumes(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 1))
	for i := range 120 {
		d := kerneltest.ProductDTypes[r.IntN(len(kerneltest.ProductDTypes))]
		at, in, k := randomConv(r, d, 3, 4)
		if r.IntN(2) == 0 {
			pad := append([]int{}, at["padding"].([]int)...)
			for range 3 {
				pad = append(pad, pad[len(pad)-3]+r.IntN(2))
			}
			at["padding"] = pad
		}
		p, err := kerneltest.NewProductCall("conv3d", at, in, kerneltest.RandomConstants(r, in)...)
		if err != nil {
			t.Fatalf("%d %v %v: %v", i, at, kerneltest.MetasOf(in), err)
		}
		p.Check(t, k)
	}
}

// TestDepthwiseVolumes compares depthwise convolutions of volumes with the definition.
func TestDepthwiseVolumes(t *testing.T) {
	found := 0
	r := rand.New(rand.NewPCG(41, 2))
	for i := range 120 {
		d := kerneltest.FloatDTypes[r.IntN(len(kerneltest.FloatDTypes))]
		g := 1 + r.IntN(4)
		x, w := []int{1 + r.IntN(2), g}, []int{g * (1 + r.IntN(2)), 1}
		var stride, padding, dilation []int
		terms := 1
		for range 3 {
			k, dl := 1+r.IntN(4), 1+r.IntN(2)
			pad := r.IntN(4)
			x, w = append(x, max(1, (k-1)*dl+1-2*pad)+r.IntN(12)), append(w, k)
			stride, padding, dilation = append(stride, 1+r.IntN(3)), append(padding, pad), append(dilation, dl)
			terms *= k
		}
		in := []*tensor.Tensor{kerneltest.RandomOperand(r, d, x...), kerneltest.RandomOperand(r, d, w...), nil}
		if r.IntN(2) == 0 {
			in[2] = kerneltest.RandomOperand(r, d, w[0])
		}
		at := graph.Attrs{"stride": stride, "padding": padding, "dilation": dilation, "groups": g}
		p, err := kerneltest.NewProductCall("conv3d", at, in, kerneltest.RandomConstants(r, in)...)
		if err != nil {
			t.Fatalf("%d %v %v: %v", i, at, kerneltest.MetasOf(in), err)
		}
		if impl := p.Op.Fitting(p.Call); impl != nil && impl.Name == "taps" {
			found++
		}
		p.Check(t, terms)
	}
	if loops.CodeAvailable() && found < 60 {
		t.Errorf("only %d calls used compiled loops", found)
	}
}

// TestConvBorders covers asymmetric padding of sequences and images.
func TestConvBorders(t *testing.T) {
	r := rand.New(rand.NewPCG(42, 1))
	for i := range 150 {
		d := kerneltest.ProductDTypes[r.IntN(len(kerneltest.ProductDTypes))]
		dims := 1 + i%2
		at, in, k := randomConv(r, d, dims, 5)
		pad := append([]int{}, at["padding"].([]int)...)
		for range dims {
			pad = append(pad, pad[len(pad)-dims]+r.IntN(3))
		}
		at["padding"] = pad
		p, err := kerneltest.NewProductCall([]string{"conv1d", "conv2d"}[dims-1], at, in,
			kerneltest.RandomConstants(r, in)...)
		if err != nil {
			t.Fatalf("%d %v %v: %v", i, at, kerneltest.MetasOf(in), err)
		}
		p.Check(t, k)
	}
}

func TestConvTranspose(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 1))
	direct := 0
	for i := range testsize.Of(120, 3000) {
		dims := 1 + i%3
		d := append([]tensor.DType{tensor.Int64}, kerneltest.FloatDTypes...)[r.IntN(1+len(kerneltest.FloatDTypes))]
		g, cg, og := 1+r.IntN(3)/2, 1+r.IntN(4), 1+r.IntN(4)
		if i%16 == 1 { // several blocks of output channels
			og = 30 + r.IntN(80)
		}
		x, w := []int{r.IntN(4), g * cg}, []int{g * cg, og}
		var stride, padding, dilation, output []int
		terms := cg
		for range dims {
			k, s, dl := 1+r.IntN(5), 1+r.IntN(4), 1+r.IntN(3)
			size := 1 + r.IntN(6)
			if dims < 3 && i%4 == 0 { // large enough for machine code
				size = 12 + r.IntN(8)
			}
			maxPadding := (size-1)*s + dl*(k-1) // leaves one element
			x, w = append(x, size), append(w, k)
			stride, dilation = append(stride, s), append(dilation, dl)
			padding, output = append(padding, min(r.IntN(6), maxPadding/2)), append(output, r.IntN(max(s, dl)))
			terms *= k
		}
		if r.IntN(5) == 0 {
			x = x[1:]
		}
		in := []*tensor.Tensor{kerneltest.RandomOperand(r, d, x...), kerneltest.RandomOperand(r, d, w...), nil}
		if r.IntN(2) == 0 {
			in[2] = kerneltest.RandomOperand(r, d, g*og)
		}
		at := graph.Attrs{"stride": stride, "padding": padding, "output_padding": output, "dilation": dilation, "groups": g}
		p, err := kerneltest.NewProductCall([]string{"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}[dims-1], at,
			in, kerneltest.RandomConstants(r, in)...)
		if err != nil {
			t.Fatalf("%v %v: %v", at, kerneltest.MetasOf(in), err)
		}
		p.Check(t, terms)
		if p.Call.Out[0].Numel() > 0 {
			direct += runConvImpls(t, p, at, in[0], terms, kerneltest.RandomConstants(r, in)...) - 1
		}
	}
	if loops.CodeAvailable() && direct == 0 {
		t.Error("no direct convolution ran")
	}
}

func TestConvTransposeLarge(t *testing.T) {
	r := rand.New(rand.NewPCG(44, 1))
	in := []*tensor.Tensor{kerneltest.RandomOperand(r, tensor.Float32, 3, 24, 9, 8),
		kerneltest.RandomOperand(r, tensor.Float32, 24, 20, 4, 4), kerneltest.RandomOperand(r, tensor.Float32, 20)}
	p, err := kerneltest.NewProductCall("conv_transpose2d", graph.Attrs{"stride": 2, "padding": 1}, in)
	if err != nil {
		t.Fatal(err)
	}
	p.Check(t, 400)
}

func TestConvTransposeRefusals(t *testing.T) {
	z := func(shape ...int) *tensor.Tensor { return tensor.Zeros(tensor.Float32, shape...) }
	for _, c := range []struct {
		name string
		a    graph.Attrs
		in   []*tensor.Tensor
		want string
	}{
		{"conv_transpose2d", nil, []*tensor.Tensor{z(3, 4, 4), z(2, 3, 2, 2)}, "Given transposed=1, weight of size [2, 3, " +
			"2, 2], expected input[1, 3, 4, 4] to have 2 channels, but got 3 channels instead"},
		{"conv_transpose2d", graph.Attrs{"output_padding": 1}, []*tensor.Tensor{z(2, 4, 4), z(2, 3, 2, 2)},
			"output padding must be smaller than either stride or dilation, but got output_padding_height: 1 " +
				"output_padding_width: 1 stride_height: 1 stride_width: 1 dilation_height: 1 dilation_width: 1"},
		{"conv_transpose1d", graph.Attrs{"output_padding": 2, "stride": 2}, []*tensor.Tensor{z(2, 4), z(2, 3, 2)},
			"output padding must be smaller than either stride or dilation, but got output_padding_height: 0 " +
				"output_padding_width: 2 stride_height: 1 stride_width: 2 dilation_height: 1 dilation_width: 1"},
		{"conv_transpose2d", graph.Attrs{"padding": 2}, []*tensor.Tensor{z(2, 1, 1), z(2, 3, 2, 2)},
			"Given input size per channel: (1 x 1). Calculated output size per channel: (-2 x -2). Output size is too small"},
		{"conv_transpose2d", graph.Attrs{"stride": []int{1, 1, 1}}, []*tensor.Tensor{z(2, 1, 1), z(2, 3, 2, 2)},
			"expected stride to be a single integer value or a list of 2 values to match the convolution dimensions, but got " +
				"stride=[1, 1, 1]"},
		{"conv_transpose2d", nil, []*tensor.Tensor{z(2, 4, 4), tensor.Zeros(tensor.Float64, 2, 3, 2, 2)},
			"expected scalar type Float but found Double"},
		{"conv3d", nil, []*tensor.Tensor{z(2, 4, 4, 4), z(3, 3, 2, 2, 2)}, "Given groups=1, weight of size [3, 3, 2, 2, " +
			"2], expected input[1, 2, 4, 4, 4] to have 3 channels, but got 2 channels instead"},
	} {
		if _, err := kerneltest.NewProductCall(c.name, c.a, c.in); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}
