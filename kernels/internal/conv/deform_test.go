package conv_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

func TestDeformConv(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 1))
	for i := range 150 {
		d := []tensor.DType{tensor.Float32, tensor.Float64}[r.IntN(2)]
		g, og, cg, o := 1+r.IntN(2), 1+r.IntN(3), 1+r.IntN(3), 1+r.IntN(3)
		if g*cg%og != 0 {
			og = 1
		}
		x, w := []int{1 + r.IntN(3), g * cg}, []int{g * o, cg}
		var stride, padding, dilation, out []int
		for range 2 {
			k, p, dl, s := 1+r.IntN(3), r.IntN(3), 1+r.IntN(2), 1+r.IntN(2)
			n := max(1, dl*(k-1)+1-2*p) + r.IntN(9)
			if i%20 == 0 && len(x) == 3 {
				n += 200 // several blocks of points
			}
			x, w, out = append(x, n), append(w, k), append(out, (n+2*p-dl*(k-1)-1)/s+1)
			stride, padding, dilation = append(stride, s), append(padding, p), append(dilation, dl)
		}
		in := []*tensor.Tensor{kerneltest.RandomOperand(r, d, x...), kerneltest.RandomOperand(r, d, w...),
			kerneltest.RandomOperand(r, d, x[0], og*w[2]*w[3]*2, out[0], out[1]), nil, nil}
		if r.IntN(2) == 0 {
			in[3] = kerneltest.RandomOperand(r, d, x[0], og*w[2]*w[3], out[0], out[1])
		}
		if r.IntN(2) == 0 {
			b := append([]tensor.DType{d, d, d}, kerneltest.ProductDTypes...)[r.IntN(3+len(kerneltest.ProductDTypes))]
			if b.Size() > d.Size() && b.ToReal() == tensor.Float64 {
				b = d // the precision of sums is that of d
			}
			in[4] = kerneltest.RandomOperand(r, b, g*o)
		}
		at := graph.Attrs{"stride": stride, "padding": padding, "dilation": dilation, "groups": g, "offset_groups": og}
		p, err := kerneltest.NewProductCall("deform_conv2d", at, in, kerneltest.RandomConstants(r, in)...)
		if err != nil {
			t.Fatalf("%v %v: %v", at, kerneltest.MetasOf(in), err)
		}
		p.Check(t, 4*tensor.Numel(w[1:]))
	}
}

// TestDeformConvPlain compares a call without offsets with conv2d, for enough images that several passes are needed.
func TestDeformConvPlain(t *testing.T) {
	r := rand.New(rand.NewPCG(62, 1))
	in := []*tensor.Tensor{kerneltest.RandomOperand(r, tensor.Float32, 5, 40, 70, 70),
		kerneltest.RandomOperand(r, tensor.Float32, 6, 20, 3, 3),
		tensor.Zeros(tensor.Float32, 5, 18, 70, 70)}
	results := [2]*tensor.Tensor{}
	for i, name := range []string{"deform_conv2d", "conv2d"} {
		op, c, err := kerneltest.NewCall(name, graph.Attrs{"groups": 2, "padding": 1},
			append([]*tensor.Tensor{in[0].Contiguous(), in[1]}, in[2:3-i]...))
		if err != nil {
			t.Fatal(err)
		}
		out, err := kerneltest.RunInFilledMemory(op, c, append([]*tensor.Tensor{in[0].Contiguous(), in[1]}, in[2:3-i]...),
			0x55, i == 0)
		if err != nil {
			t.Fatal(err)
		}
		results[i] = out[0]
	}
	kit.EachIndex(results[0].Shape, func(at []int) {
		if a, b := results[0].At(at...).Float(), results[1].At(at...).Float(); math.Abs(a-b) > 2e-5*(1+math.Abs(b)) {
			t.Fatalf("at %v got %v, want %v", at, a, b)
		}
	})
}

// TestDeformConvFarOffsets samples far outside the image and at NaN coordinates.
func TestDeformConvFarOffsets(t *testing.T) {
	x, w, offset := tensor.Zeros(tensor.Float32, 1, 1, 2, 2), tensor.Zeros(tensor.Float32, 1, 1, 1, 1),
		tensor.Zeros(tensor.Float32, 1, 2, 2, 2)
	kit.EachIndex(x.Shape, func(at []int) { x.Set(tensor.FloatScalar(math.Inf(1)), at...) })
	w.Set(tensor.FloatScalar(1), 0, 0, 0, 0)
	for i, v := range []float64{math.Inf(1), math.Inf(-1), 1e30, math.NaN()} {
		offset.Set(tensor.FloatScalar(v), 0, i%2, i/2, i%2)
	}
	kerneltest.CheckKernel(t, "deform_conv2d", nil, []*tensor.Tensor{x, w, offset})
	_, c, err := kerneltest.NewCall("deform_conv2d", nil, []*tensor.Tensor{x, w, offset})
	if err != nil {
		t.Fatal(err)
	}
	out, err := kerneltest.RunInFilledMemory(kernels.Lookup("deform_conv2d"), c, []*tensor.Tensor{x, w, offset}, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0, 0, 0, math.NaN()} {
		if got := out[0].At(0, 0, i/2, i%2).Float(); got != want && (got == got || want == want) {
			t.Errorf("point %d: got %v, want %v", i, got, want)
		}
	}
}

func TestDeformConvEmpty(t *testing.T) {
	z := func(shape ...int) *tensor.Tensor { return tensor.Zeros(tensor.Float32, shape...) }
	kerneltest.CheckKernel(t, "deform_conv2d", nil, []*tensor.Tensor{z(0, 4, 5, 6), z(6, 4, 3, 2), z(0, 12, 3, 5),
		z(0, 6, 3, 5), z(1)})
	kerneltest.CheckKernel(t, "deform_conv2d", nil, []*tensor.Tensor{z(2, 4, 5, 6), z(0, 4, 3, 2), z(2, 12, 3, 5)})
	b := z(6)
	b.Set(tensor.FloatScalar(2), 3)
	kerneltest.CheckKernel(t, "deform_conv2d", nil,
		[]*tensor.Tensor{z(2, 0, 5, 6), z(6, 0, 3, 2), z(2, 12, 3, 5), nil, b})
	kerneltest.CheckKernel(t, "deform_conv2d", graph.Attrs{"padding": []int{2, 0}},
		[]*tensor.Tensor{z(2, 4, 0, 6), z(6, 4, 3, 2), z(2, 12, 2, 5), nil, b})
}

func TestDeformConvRefusals(t *testing.T) {
	z := func(shape ...int) *tensor.Tensor { return tensor.Zeros(tensor.Float32, shape...) }
	in := func() []*tensor.Tensor {
		return []*tensor.Tensor{z(2, 4, 5, 6), z(6, 4, 3, 2), z(2, 12, 3, 5), z(2, 6, 3, 5), z(6)}
	}
	for want, c := range map[string]struct {
		a  graph.Attrs
		at int
		to *tensor.Tensor
	}{
		"Expected input_c.ndimension() == 4 to be true, but got false.":             {nil, 0, z(4, 5, 6)},
		"Expected !use_mask || mask_c.ndimension() == 4 to be true, but got false.": {nil, 3, z(6, 3, 5)},
		"shape '[1, 6, 1, 1]' is invalid for input of size 5":                       {nil, 4, z(5)},
		"pad_h: -1 pad_w: 1":          {graph.Attrs{"padding": []int{-1, 1}}, 4, nil},
		"dilation_h: 0 dilation_w: 1": {graph.Attrs{"dilation": []int{0, 1}}, 4, nil},
		"stride_h: 1 stride_w: 0":     {graph.Attrs{"stride": []int{1, 0}}, 4, nil},
		"weight_h: 0 weight_w: 2":     {nil, 1, z(6, 4, 0, 2)},
		"Expected weight_c.size(1) * n_weight_grps == input_c.size(1) to be true, but got false.": {nil, 1, z(6, 3, 3, 2)},
		"Expected weight_c.size(0) % n_weight_grps == 0 to be true, but got false.": {graph.Attrs{"groups": 4},
			1, z(6, 1, 3, 2)},
		"offset.shape[1] is not valid: got: 10 expected: 12":        {nil, 2, z(2, 10, 3, 5)},
		"mask.shape[1] is not valid: got: 5 expected: 6":            {nil, 3, z(2, 5, 3, 5)},
		"invalid batch size of offset":                              {nil, 2, z(1, 12, 3, 5)},
		"offset output dims: (3, 4) - computed output dims: (3, 5)": {nil, 2, z(2, 12, 3, 4)},
		"invalid batch size of mask":                                {nil, 3, z(1, 6, 3, 5)},
		"mask output dims: (3, 4) - computed output dims: (3, 5)":   {nil, 3, z(2, 6, 3, 4)},
		"mat1 and mat2 must have the same dtype":                    {nil, 1, tensor.Zeros(tensor.Float64, 6, 4, 3, 2)},
		"expected scalar type Float but found Double":               {nil, 2, tensor.Zeros(tensor.Float64, 2, 12, 3, 5)},
		"\"deformable_im2col\" not implemented for 'Long'":          {nil, 0, tensor.Zeros(tensor.Int64, 2, 4, 5, 6)},
		"non-positive groups is not supported":                      {graph.Attrs{"offset_groups": 0}, 4, nil},
	} {
		ops := in()
		ops[c.at] = c.to
		if _, _, err := kerneltest.NewCall("deform_conv2d", c.a, ops); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
