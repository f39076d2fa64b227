package kernels_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// selectionDraw makes random operands with random layouts.
type selectionDraw struct{ *rand.Rand }

func (r selectionDraw) value(d tensor.DType, shape ...int) *tensor.Tensor {
	return kerneltest.Filled(r.meta(d, shape), kerneltest.NonzeroValues(r.Rand))
}

func (r selectionDraw) meta(d tensor.DType, shape []int) tensor.Meta {
	m := tensor.Meta{DType: d, Shape: shape, Strides: make([]int, len(shape)), Offset: r.IntN(3)}
	perm := r.Perm(len(shape))
	if r.IntN(2) == 0 {
		slices.Sort(perm)
	}
	step := 1 + r.IntN(6)/5
	for i := len(perm) - 1; i >= 0; i-- {
		m.Strides[perm[i]] = step
		step *= max(1, shape[perm[i]])
	}
	return m
}

// index makes indices into a dimension of size n, including negative ones.
func (r selectionDraw) index(n int, shape ...int) *tensor.Tensor {
	d := tensor.Int64
	if r.IntN(3) == 0 {
		d = tensor.Int32
	}
	return kerneltest.Filled(r.meta(d, shape), func(tensor.DType) tensor.Scalar {
		return tensor.IntScalar(int64(r.IntN(2*n) - n))
	})
}

func (r selectionDraw) dtype() tensor.DType { return tensor.DTypes()[r.IntN(15)] }

func (r selectionDraw) float() tensor.DType {
	return []tensor.DType{tensor.Float32, tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16}[r.IntN(5)]
}

func (r selectionDraw) shape(rank, most int) []int {
	s := make([]int, rank)
	for d := range s {
		s[d] = 1 + r.IntN(most)
	}
	return s
}

func (r selectionDraw) check(t *testing.T, name string, a graph.Attrs, in ...*tensor.Tensor) {
	t.Helper()
	op := kernels.Lookup(name)
	var metas []tensor.Meta
	for _, x := range in {
		if x == nil {
			metas = append(metas, tensor.Meta{})
		} else {
			metas = append(metas, x.Meta)
		}
	}
	c, err := kerneltest.CallOf(op, a, metas)
	if err == nil {
		err = kerneltest.CheckCall(op, c, in)
	}
	// Some ops do not support all dtypes.
	if err != nil && !strings.Contains(err.Error(), "not implemented for") &&
		!strings.Contains(err.Error(), "does not support complex") {
		t.Errorf("%s %v %v: %v", name, a, metas, err)
	}
}

func TestSelectionIndexing(t *testing.T) {
	testsize.Long(t)
	r := selectionDraw{rand.New(rand.NewPCG(1, 4))}
	for i := range testsize.Of(40, 150) {
		rank, d := 1+r.IntN(4), r.dtype()
		if i%75 == 0 {
			rank = 2
		}
		s := r.shape(rank, 6)
		if i%75 == 0 {
			s = []int{40 + r.IntN(40), 300 + r.IntN(100)} // several chunks and blocks
		}
		dim := r.IntN(rank)
		ix := slices.Clone(s)
		for k := range ix {
			ix[k] = 1 + r.IntN(ix[k])
		}
		ix[dim] = 1 + r.IntN(2*s[dim])
		x, index := r.value(d, s...), r.index(s[dim], ix...)
		r.check(t, "gather", graph.Attrs{"dim": dim}, x, index)
		r.check(t, "take", nil, x, r.index(x.Numel(), ix...))
		flat := r.index(s[dim], 1+r.IntN(9))
		r.check(t, "index_select", graph.Attrs{"dim": dim - rank}, x, flat)
		src := r.value(d, ix...)
		r.check(t, "scatter", graph.Attrs{"dim": dim}, x, index, src)
		if d.IsReducedFloat() {
			continue // the kernel rounds at every step, the reference does not
		}
		for _, how := range []string{"sum", "prod", "mean", "amax", "amin"} {
			if how != "prod" && how != "sum" || i%75 != 0 {
				r.check(t, "scatter_reduce", graph.Attrs{"dim": dim, "reduce": how, "include_self": r.IntN(2) == 0}, x, index, src)
			}
		}
		s2 := slices.Clone(s)
		s2[dim] = flat.Shape[0]
		r.check(t, "index_add", graph.Attrs{"dim": dim, "alpha": 2}, x, flat, r.value(d, s2...))
		r.check(t, "index_copy", graph.Attrs{"dim": dim}, x, flat, r.value(d, s2...))
		r.check(t, "index_fill", graph.Attrs{"dim": dim}, x, flat, r.value(d))
	}
}

func TestSelectionTuples(t *testing.T) {
	testsize.Long(t)
	r := selectionDraw{rand.New(rand.NewPCG(2, 4))}
	for range 300 {
		rank, d := 1+r.IntN(4), r.dtype()
		s := r.shape(rank, 5)
		batch := r.IntN(rank)
		k := 1 + r.IntN(rank-batch)
		least := slices.Min(s[batch : batch+k])
		ix := append(slices.Clone(s[:batch]), r.shape(r.IntN(3), 4)...)
		r.check(t, "gather_nd", graph.Attrs{"batch_dims": batch}, r.value(d, s...), r.index(least, append(ix, k)...))
		k = 1 + r.IntN(rank)
		ix = r.shape(1+r.IntN(2), 4)
		how := []string{"none", "add", "mul", "amax", "amin"}[r.IntN(5)]
		if !d.IsReducedFloat() {
			r.check(t, "scatter_nd", graph.Attrs{"reduce": how}, r.value(d, s...),
				r.index(slices.Min(s[:k]), append(slices.Clone(ix), k)...), r.value(d, append(ix, s[k:]...)...))
		}
		in := []*tensor.Tensor{r.value(d, s...)}
		given := r.shape(r.IntN(3), 3)
		for d := range rank {
			if r.IntN(2) == 0 && d < rank-1 {
				in = append(in, nil)
				continue
			}
			in = append(in, r.index(s[d], given[r.IntN(len(given)+1):]...))
		}
		r.check(t, "index", nil, in...)
	}
}

func TestSelectionOrder(t *testing.T) {
	testsize.Long(t)
	r := selectionDraw{rand.New(rand.NewPCG(3, 4))}
	for i := range 150 {
		rank, d := 1+r.IntN(3), r.dtype()
		s := r.shape(rank, 7)
		if i%30 == 0 {
			s[r.IntN(rank)] = 200
		}
		dim := r.IntN(rank)
		x := r.value(d, s...)
		r.check(t, "sort", graph.Attrs{"dim": dim, "descending": r.IntN(2) == 0}, x)
		r.check(t, "argsort", graph.Attrs{"dim": dim, "descending": r.IntN(2) == 0}, x)
		r.check(t, "topk", graph.Attrs{"dim": dim, "k": r.IntN(s[dim] + 1), "largest": r.IntN(2) == 0}, x)
		r.check(t, "kthvalue", graph.Attrs{"dim": dim, "k": 1 + r.IntN(s[dim]), "keepdim": r.IntN(2) == 0}, x)
		r.check(t, "repeat_interleave", graph.Attrs{"dim": dim, "repeats": r.IntN(4)}, x)
		r.check(t, "one_hot", graph.Attrs{"dim": r.IntN(rank + 1), "num_classes": 4}, r.index(6, s...), r.value(d, 2))
	}
}

func TestSelectionImages(t *testing.T) {
	testsize.Long(t)
	r := selectionDraw{rand.New(rand.NewPCG(4, 4))}
	modes := []string{"nearest", "linear", "cubic"}
	coordinates := strings.Split(
		"half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|asymmetric|tf_crop_and_resize|tf_half_pixel_for_nn",
		"|")
	for range 60 {
		d := r.float()
		x := r.value(d, r.shape(4, 6)...)
		size := []int{1 + r.IntN(9), 1 + r.IntN(9)}
		for _, op := range []string{"upsample_bilinear2d", "upsample_bicubic2d", "_upsample_nearest_exact2d"} {
			r.check(t, op, graph.Attrs{"output_size": size, "align_corners": r.IntN(2) == 0}, x)
		}
		a := graph.Attrs{"mode": modes[r.IntN(3)], "coordinate_transformation_mode": coordinates[r.IntN(len(coordinates))],
			"antialias":       r.IntN(2) == 0,
			"exclude_outside": r.IntN(2) == 0, "axes": []int{3, 1}, "sizes": size, "roi": []float64{0.1, -0.2, 0.8, 1.3},
			"extrapolation_value": 7}
		r.check(t, "resize", a, x)
		g := r.value(d, x.Shape[0], 3, 4, 2)
		r.check(t, "grid_sampler", graph.Attrs{"interpolation_mode": r.IntN(3), "padding_mode": r.IntN(3),
			"align_corners": r.IntN(2) == 0}, x, g)
		y := r.value(r.dtype(), 2, 8, 1+r.IntN(5), 6)
		r.check(t, "pixel_shuffle", graph.Attrs{"upscale_factor": 2}, y)
		r.check(t, "depth_to_space", graph.Attrs{"block_size": 2}, y)
		r.check(t, "channel_shuffle", graph.Attrs{"groups": 4}, y)
	}
}

func TestSelectionProducts(t *testing.T) {
	testsize.Long(t)
	r := selectionDraw{rand.New(rand.NewPCG(5, 4))}
	equations := []string{"ab,bc,cd->ad", "ab,bc->ca", "abc,cb->a", "aab,bc->ac", "ab,ab->", "a,b,c->cab",
		"a...,...b->b...a", "abc->", "abcd,badc->dc", "ab,cd->", "abc,abd->adc"}
	for range testsize.Of(40, 120) {
		d := []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int64, tensor.Complex64, tensor.Int32}[r.IntN(5)]
		eq := equations[r.IntN(len(equations))]
		left, _, _ := strings.Cut(eq, "->")
		var in []*tensor.Tensor
		sizes := r.shape(4, 5)
		for _, p := range strings.Split(left, ",") {
			var s []int
			for _, l := range strings.ReplaceAll(p, "...", ".") {
				if l == '.' {
					s = append(s, 2, 3)
				} else {
					s = append(s, sizes[l-'a'])
				}
			}
			in = append(in, r.value(d, s...))
		}
		r.check(t, "einsum", graph.Attrs{"equation": eq}, in...)
		n := 1 + r.IntN(140)
		r.check(t, "fft_fft", graph.Attrs{"dim": r.IntN(2), "n": n}, r.value(tensor.Complex128, r.shape(2, 9)...))
		r.check(t, "dft", graph.Attrs{"dim": r.IntN(2), "inverse": r.IntN(2) == 0, "onesided": true, "dft_length": n},
			r.value(tensor.Float64, append(r.shape(2, 90), 2)...))
		k := 1 + r.IntN(5)
		r.check(t, "linalg_det", nil, r.value(tensor.Float64, 2, k, k))
	}
}

func TestSelectionRefusals(t *testing.T) {
	testsize.Long(t)
	r := selectionDraw{rand.New(rand.NewPCG(6, 4))}
	far := tensor.Must(tensor.FromSlice([]int64{0, 5, 1}, 3))
	for _, name := range []string{"gather", "index_select"} {
		op := kernels.Lookup(name)
		c, err := kerneltest.CallOf(op, graph.Attrs{"dim": 0}, []tensor.Meta{kit.F32(3), far.Meta})
		if err != nil {
			t.Fatal(err)
		}
		_, err = kerneltest.RunCall(op, c, []*tensor.Tensor{r.value(tensor.Float32, 3).CopyTo(kit.F32(3)), far})
		if err == nil || err.Error() != "index 5 is out of bounds for dimension 0 with size 3" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestSelectionRandom(t *testing.T) {
	testsize.Long(t)
	for _, name := range []string{"rand", "randn"} {
		op := kernels.Lookup(name)
		c, err := kerneltest.CallOf(op, graph.Attrs{"size": []int{100, 200}, "seed": 3}, nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := kerneltest.RunCall(op, c, nil)
		if err != nil {
			t.Fatal(err)
		}
		least, most, mean := out[0].Stats()
		if name == "rand" && (least < 0 || most >= 1 || mean < 0.49 || mean > 0.51) || name == "randn" &&
			(mean < -0.03 || mean > 0.03 || most < 3 || least > -3) {
			t.Errorf("%s: from %v to %v, mean %v", name, least, most, mean)
		}
	}
	w := tensor.Must(tensor.FromSlice([]float32{0, 1, 3, 0}, 4))
	op := kernels.Lookup("multinomial")
	c, err := kerneltest.CallOf(op, graph.Attrs{"num_samples": 4000, "replacement": true, "seed": 1},
		[]tensor.Meta{w.Meta})
	if err != nil {
		t.Fatal(err)
	}
	out, err := kerneltest.RunCall(op, c, []*tensor.Tensor{w})
	if err != nil {
		t.Fatal(err)
	}
	if least, most, mean := out[0].Stats(); least != 1 || most != 2 || mean < 1.72 || mean > 1.78 {
		t.Errorf("multinomial: from %v to %v, mean %v", least, most, mean)
	}
}
