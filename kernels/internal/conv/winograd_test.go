package conv_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// winogradImpls returns the Winograd implementations that support a call.
func winogradImpls(c *graph.Call) (list []*graph.Impl) {
	op := kernels.Lookup("conv2d")
	for i := range op.Impls {
		if m := &op.Impls[i]; m.Inexact && len(m.Walks(c, nil)) > 0 {
			list = append(list, m)
		}
	}
	return list
}

// channelsLast returns a random channels-last image, sometimes a slice of one with more channels or pixels.
func channelsLast(r *rand.Rand, n, c, h, w int) *tensor.Tensor {
	width, height, channels := w, h, c
	if r.IntN(3) == 0 {
		width, height, channels = w+r.IntN(3), h+r.IntN(3), c+r.IntN(5)
	}
	m := tensor.Meta{DType: tensor.Float32, Shape: []int{n, c, h, w},
		Strides: []int{height * width * channels, 1, width * channels, channels}, Offset: r.IntN(3)}
	x := tensor.Empty(m)
	kerneltest.FillRandom(r, x)
	return x
}

// TestWinograd compares Winograd convolutions with sums in float64: the error is less than 1e-5 of the largest result.
func TestWinograd(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	r := rand.New(rand.NewPCG(21, 22))
	check := func(n, c, h, w, o int, pad []int, bias bool) {
		t.Helper()
		x := channelsLast(r, n, c, h, w)
		in := []*tensor.Tensor{x, kerneltest.RandomOperand(r, tensor.Float32, o, c, 3, 3), nil}
		consts := []int{1}
		if bias {
			in[2] = kerneltest.RandomOperand(r, tensor.Float32, o)
			if in[2].Strides[0] != 1 {
				in[2] = in[2].Contiguous()
			}
		}
		p, err := kerneltest.NewProductCall("conv2d", graph.Attrs{"padding": pad}, in, consts...)
		if err != nil {
			t.Fatal(err)
		}
		impls := winogradImpls(p.Call)
		if len(impls) != 2 {
			t.Fatalf("%d Winograd implementations support %v", len(impls), p.Call.Out)
		}
		want := convDoubles(in, pad, p.Call.Out[0].Shape)
		for _, m := range impls {
			q := withImpl(p, m)
			if !m.Reads(q.Call, q.Call.Walk) {
				t.Fatalf("%s does not read %v", m.Name, x.Meta)
			}
			for _, packed := range []bool{true, false} {
				checkWinograd(t, q, x.Meta, want, packed)
			}
		}
	}
	for range 60 {
		pad := []int{r.IntN(5), r.IntN(5), r.IntN(5), r.IntN(5)}
		if r.IntN(2) == 0 {
			pad = []int{1, 1, 1, 1}
		}
		h, w := max(3-pad[0]-pad[2], 1)+r.IntN(14), max(3-pad[1]-pad[3], 1)+r.IntN(14)
		check(1+r.IntN(3), 1+r.IntN(40), h, w, 1+r.IntN(70), pad, r.IntN(2) == 0)
	}
	one := []int{1, 1, 1, 1}
	check(1, 64, 28, 28, 64, one, true)    // several sections
	check(1, 512, 7, 7, 64, one, true)     // few tiles: the weights of a block are read once
	check(2, 1024, 5, 6, 33, one, false)   // pixels 4096 bytes apart
	check(1, 16, 60, 61, 16, one, true)    // many tiles
	check(1, 3, 9, 9, 8, []int{5}, false)  // tiles outside the image
	check(1, 128, 36, 33, 70, one, true)   // several sections; streamed weights
	check(1, 256, 30, 32, 130, one, false) // several sections; cached points, streamed weights
	check(1, 256, 24, 24, 130, one, true)  // streamed points and products
}

// withImpl returns the call with an implementation.
func withImpl(p *kerneltest.ProductCall, m *graph.Impl) *kerneltest.ProductCall {
	q, call := *p, *p.Call
	q.Call = &call
	walk := m.Walks(q.Call, nil)[0]
	q.Call.Impl, q.Call.Walk = m, walk
	q.Call.Out = []tensor.Meta{walk.ResultLayout(0, p.Call.Out[0])}
	return &q
}

// TestWinogradBits compares the bits of results with those of amd64, as checksums.
func TestWinogradBits(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	r := rand.New(rand.NewPCG(27, 28))
	normal := func(shape ...int) *tensor.Tensor {
		data := make([]float32, tensor.Numel(shape))
		for i := range data {
			data[i] = float32(r.NormFloat64())
		}
		return tensor.Must(tensor.FromSlice(data, shape...))
	}
	in := []*tensor.Tensor{normal(2, 37, 13, 11), normal(21, 37, 3, 3), normal(21)}
	m, err := tensor.NewFormat(tensor.Float32, in[0].Shape, tensor.ChannelsLast)
	if err != nil {
		t.Fatal(err)
	}
	in[0] = in[0].CopyTo(m)
	p, err := kerneltest.NewProductCall("conv2d", graph.Attrs{"padding": 1}, in, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]uint32{"winograd2": 0x6820a599, "winograd4": 0x43cf281a}
	for _, m := range winogradImpls(p.Call) {
		out := withImpl(p, m).Result(t, true).Contiguous()
		if got := crc32.ChecksumIEEE(out.Storage().Bytes()); got != want[m.Name] {
			t.Errorf("%s: the results have the checksum %#x, want %#x", m.Name, got, want[m.Name])
		}
	}
}

// TestWinogradBatchBits compares the images of a batch with each image alone, bit by bit. The transformed weight of
// F(4x4) has more than a mebibyte, so that the call of a single image transforms it and the call of the batch does not.
func TestWinogradBatchBits(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	r := rand.New(rand.NewPCG(29, 30))
	const images, channels, size, outChannels = 9, 129, 7, 70
	m := tensor.Meta{DType: tensor.Float32, Shape: []int{images, channels, size, size},
		Strides: []int{size * size * channels, 1, size * channels, channels}}
	batch := tensor.Empty(m)
	kerneltest.FillRandom(r, batch)
	weight := kerneltest.RandomOperand(r, tensor.Float32, outChannels, channels, 3, 3)
	results := func(x *tensor.Tensor) (bits map[string][]byte, formats map[string]string) {
		p, err := kerneltest.NewProductCall("conv2d", graph.Attrs{"padding": 1}, []*tensor.Tensor{x, weight}, 1)
		if err != nil {
			t.Fatal(err)
		}
		bits, formats = map[string][]byte{}, map[string]string{}
		for _, impl := range winogradImpls(p.Call) {
			packing, _ := impl.Pack(p.Call, 1)
			formats[impl.Name] = packing.Format
			for _, packed := range []bool{true, false} {
				bits[fmt.Sprint(impl.Name, packed)] = withImpl(p, impl).Result(t, packed).Contiguous().Storage().Bytes()
			}
		}
		return bits, formats
	}
	all, batchFormats := results(batch)
	for i := range images {
		one := m
		one.Shape, one.Offset = []int{1, channels, size, size}, i*m.Strides[0]
		alone, formats := results(tensor.Must(batch.View(one)))
		isPanels := strings.Contains(formats["winograd4"], "panels")
		if isPanels != machine.HostFeatures().Has(machine.AVX512) || strings.Contains(batchFormats["winograd4"], "panels") {
			t.Errorf("the weight is packed as %v for one image and as %v for the batch", formats, batchFormats)
		}
		for name, want := range all {
			image := len(want) / images
			if !bytes.Equal(alone[name], want[i*image:][:image]) {
				t.Errorf("%s: image %d has other bits in the batch", name, i)
			}
		}
	}
}

// checkWinograd runs a call, with the weight transformed before or in the run, and compares the result.
func checkWinograd(t *testing.T, p *kerneltest.ProductCall, x tensor.Meta, want []float64, packed bool) {
	t.Helper()
	got := p.Result(t, packed)
	scale, worst := 0.0, 0.0
	for _, v := range want {
		scale = max(scale, math.Abs(v))
	}
	values, err := tensor.ToSlice[float64](got.CopyTo(tensor.New(tensor.Float64, got.Shape...)))
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		if d := math.Abs(v - want[i]); !(d <= worst) {
			worst = d
		}
	}
	if !(worst <= 1e-5*scale) {
		t.Errorf("%s of %v, packed %v: differs by %.1e of the largest", p.Call.Impl.Name, x, packed, worst/scale)
	}
}

// convDoubles computes a convolution with a 3x3 window in float64, row-major.
func convDoubles(in []*tensor.Tensor, pad []int, shape []int) []float64 {
	var v [3][]float64
	for i, x := range in {
		if x == nil {
			continue
		}
		if x.Rank() == 4 { // the channels of a pixel, or of a tap, are contiguous
			m, _ := x.Meta.Permute([]int{0, 2, 3, 1})
			x = tensor.Must(x.View(m))
		}
		v[i], _ = tensor.ToSlice[float64](x.CopyTo(tensor.New(tensor.Float64, x.Shape...)))
	}
	c, h, w := in[0].Shape[1], in[0].Shape[2], in[0].Shape[3]
	out := make([]float64, 0, tensor.Numel(shape))
	left := pad[min(1, len(pad)-1)]
	for e := range tensor.Numel(shape) {
		x, y, o, n := e%shape[3], e/shape[3]%shape[2], e/shape[3]/shape[2]%shape[1], e/shape[3]/shape[2]/shape[1]
		sum := 0.0
		if v[2] != nil {
			sum = v[2][o]
		}
		for k := range 9 {
			i, j := y-pad[0]+k/3, x-left+k%3
			if i < 0 || i >= h || j < 0 || j >= w {
				continue
			}
			pixel, tap := v[0][((n*h+i)*w+j)*c:][:c], v[1][(o*9+k)*c:][:c]
			for ch, a := range pixel {
				sum += a * tap[ch]
			}
		}
		out = append(out, sum)
	}
	return out
}

// TestWinogradPacking checks that original weights are recovered bit by bit from the packed form.
func TestWinogradPacking(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	r := rand.New(rand.NewPCG(23, 24))
	for _, s := range [][2]int{{1, 1}, {33, 5}, {64, 32}, {70, 129}} {
		in := []*tensor.Tensor{channelsLast(r, 1, s[1], 6, 6), kerneltest.RandomOperand(r, tensor.Float32, s[0], s[1], 3, 3)}
		p, err := kerneltest.NewProductCall("conv2d", nil, in, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range winogradImpls(p.Call) {
			packing, ok := m.Pack(p.Call, 1)
			if !ok {
				t.Fatalf("%s packs no weight", m.Name)
			}
			v, err := graph.PackConstant(p.Call.In[1].Value, packing)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := tensor.ToSlice[float32](v.Data().Contiguous())
			if want, _ := tensor.ToSlice[float32](in[1].Contiguous()); !slices.Equal(got, want) {
				t.Errorf("%s: unpacked weights differ, %v", m.Name, in[1].Meta)
			}
		}
	}
}

// TestWinogradUnoffered checks that unsupported calls get no Winograd implementation.
func TestWinogradUnoffered(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	implsOf := func(d tensor.DType, k int, at graph.Attrs, consts ...int) int {
		c := 4
		if at["groups"] != nil {
			c = 2
		}
		in := []*tensor.Tensor{kerneltest.RandomOperand(r, d, 1, 4, 9, 9), kerneltest.RandomOperand(r, d, 8, c, k, k)}
		p, err := kerneltest.NewProductCall("conv2d", at, in, consts...)
		if err != nil {
			t.Fatal(err)
		}
		return len(winogradImpls(p.Call))
	}
	want := 2
	if jit.Available() != nil {
		want = 0
	}
	for what, c := range map[string]struct{ is, want int }{
		"float32":  {implsOf(tensor.Float32, 3, nil, 1), want},
		"float64":  {implsOf(tensor.Float64, 3, nil, 1), 0},
		"float16":  {implsOf(tensor.Float16, 3, nil, 1), 0},
		"int32":    {implsOf(tensor.Int32, 3, nil, 1), 0},
		"5x5":      {implsOf(tensor.Float32, 5, nil, 1), 0},
		"stride":   {implsOf(tensor.Float32, 3, graph.Attrs{"stride": 2}, 1), 0},
		"dilation": {implsOf(tensor.Float32, 3, graph.Attrs{"dilation": 2}, 1), 0},
		"groups":   {implsOf(tensor.Float32, 3, graph.Attrs{"groups": 2}, 1), 0},
		"variable": {implsOf(tensor.Float32, 3, nil), 0},
	} {
		if c.is != c.want {
			t.Errorf("%s: %d implementations, want %d", what, c.is, c.want)
		}
	}
}

// winogradLayers are 3x3 layers of ResNet, VGG and others: channels, size and output channels.
var winogradLayers = [][3]int{{64, 56, 64}, {128, 28, 128}, {256, 14, 256}, {512, 7, 512}, {16, 55, 64}, {32, 112, 32},
	{96, 28, 128}, {64, 224, 64}, {256, 56, 256}, {512, 28, 512}, {512, 14, 512}}

// BenchmarkWinograd measures Winograd and direct convolutions. GFLOP/s count the operations of the definition.
func BenchmarkWinograd(b *testing.B) {
	for _, l := range winogradLayers {
		m, err := tensor.NewFormat(tensor.Float32, []int{1, l[0], l[1], l[1]}, tensor.ChannelsLast)
		if err != nil {
			b.Fatal(err)
		}
		in := []*tensor.Tensor{kerneltest.BenchTensor(m),
			kerneltest.BenchTensor(tensor.New(tensor.Float32, l[2], l[0], 3, 3)),
			kerneltest.BenchTensor(tensor.New(tensor.Float32, l[2]))}
		for i := range 6 {
			impl, cold := []string{"direct_nhwc", "winograd2", "winograd4"}[i%3], i >= 3
			b.Run(fmt.Sprintf("%dx%d-%d/%s/cold=%v", l[0], l[1], l[2], impl, cold), func(b *testing.B) {
				p, err := kerneltest.NewProductCall("conv2d", graph.Attrs{"padding": 1}, in, 1, 2)
				if err != nil {
					b.Fatal(err)
				}
				p.BenchImpl(b, impl, cold)
			})
		}
	}
}
