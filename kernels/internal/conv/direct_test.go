//go:build linux || darwin

package conv_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// directCase is a convolution by register tiles. Strides begin with s, padding with p, and dilation with d; ph1 and pw1
// pad the ends.
type directCase struct {
	n, c, h, w, o, kh, kw, groups    int
	sh, sw, ph, pw, dh, dw, ph1, pw1 int
	bias                             bool
}

// drawDirect draws a case: blocks of several vectors and remainders; rows of one tile and of several; images of one
// tile and of one pixel; windows that reach far outside the image; many groups of few channels.
func drawDirect(r *rand.Rand) directCase {
	for {
		pick := func(n ...int) int { return n[r.IntN(len(n))] }
		g := pick(1, 1, 1, 2, 3)
		d := directCase{n: pick(1, 1, 2, 3), groups: g, c: g * pick(1, 2, 3, 5, 8, 17, 40),
			o: g * pick(2, 7, 8, 16, 24, 33, 48, 70),
			h: pick(1, 2, 5, 7, 9, 16), w: pick(1, 3, 6, 7, 11, 15, 29, 33), kh: pick(1, 1, 2, 3, 5), kw: pick(1, 1, 3, 4, 7),
			sh: pick(1, 1, 2), sw: pick(1, 1, 2, 3), dh: pick(1, 1, 2), dw: pick(1, 1, 3), ph: r.IntN(4), pw: r.IntN(5),
			ph1: r.IntN(4), pw1: r.IntN(5), bias: r.IntN(3) > 0}
		if few := pick(1, 2, 4, 8); few > 1 && r.IntN(2) == 0 {
			d.groups = pick(2, 3, 5, 8, 11)
			d.c, d.o = d.groups*few, d.groups*few
		}
		if d.kh*d.kw == 1 && r.IntN(3) > 0 {
			d.ph, d.pw, d.ph1, d.pw1 = 0, 0, 0, 0
		}
		if d.h+d.ph+d.ph1 > (d.kh-1)*d.dh && d.w+d.pw+d.pw1 > (d.kw-1)*d.dw && (d.c > d.groups || d.groups == 1) {
			return d
		}
	}
}

func (d *directCase) attrs() graph.Attrs {
	return graph.Attrs{"stride": []int{d.sh, d.sw}, "padding": []int{d.ph, d.pw, d.ph1, d.pw1},
		"dilation": []int{d.dh, d.dw}, "groups": d.groups}
}

// naive computes the result by its definition, channels last.
func (d *directCase) naive(x, w, b elements) []float64 {
	var out []float64
	oh := (d.h+d.ph+d.ph1-(d.kh-1)*d.dh-1)/d.sh + 1
	ow := (d.w+d.pw+d.pw1-(d.kw-1)*d.dw-1)/d.sw + 1
	for e := range d.n * oh * ow * d.o {
		o, ox, oy, n := e%d.o, e/d.o%ow, e/d.o/ow%oh, e/d.o/ow/oh
		sum := 0.0
		if b.values != nil {
			sum = b.values[o]
		}
		for k := range d.kh * d.kw {
			y, z := oy*d.sh-d.ph+k/d.kw*d.dh, ox*d.sw-d.pw+k%d.kw*d.dw
			if y < 0 || y >= d.h || z < 0 || z >= d.w {
				continue
			}
			for c := range d.c / d.groups {
				sum += x.at(n, o/(d.o/d.groups)*(d.c/d.groups)+c, y, z) * w.at(o, c, k/d.kw, k%d.kw)
			}
		}
		out = append(out, sum)
	}
	return out
}

// TestDirect compares both direct convolutions with the definition, with operands between pages that cannot be
// accessed.
func TestDirect(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	var mem [4][]byte
	for i := range mem {
		mem[i] = jittest.Guarded(t, 1<<20)
	}
	r := rand.New(rand.NewPCG(21, 22))
	ran := map[string]int{}
	for i := range 240 {
		d := drawDirect(r)
		dtype := []tensor.DType{tensor.Float32, tensor.Float32, tensor.Float64}[i%3]
		name := []string{"direct_nhwc", "direct_planes"}[i/3%2]
		if ok := d.check(t, r, dtype, name, mem, i%2 == 0); ok {
			ran[fmt.Sprint(name, dtype)]++
		}
	}
	for _, n := range []string{"direct_nhwcfloat32", "direct_nhwcfloat64", "direct_planesfloat32",
		"direct_planesfloat64"} {
		if ran[n] < 20 {
			t.Errorf("%s ran %d times", n, ran[n])
		}
	}
}

// check compares an implementation with the definition, with operands at the beginning or at the end of accessible
// memory.
func (d *directCase) check(t *testing.T, r *rand.Rand, dtype tensor.DType, name string, mem [4][]byte, end bool) bool {
	out, in := d.run(t, dtype, name, mem, end, func(v *tensor.Tensor) { kerneltest.FillRandom(r, v) })
	if out == nil {
		return false
	}
	d.compare(t, name, out, in)
	return true
}

// run runs an implementation; the result is nil if the call is not supported.
func (d *directCase) run(t *testing.T, dtype tensor.DType, name string, mem [4][]byte, end bool,
	fill func(*tensor.Tensor)) (result *tensor.Tensor, operands []*tensor.Tensor) {
	format := map[string]tensor.MemoryFormat{"direct_nhwc": tensor.ChannelsLast, "direct_planes": tensor.Contiguous}[name]
	m, err := tensor.NewFormat(dtype, []int{d.n, d.c, d.h, d.w}, format)
	if err != nil {
		t.Fatal(err)
	}
	x, w := tensor.Empty(m), tensor.Empty(tensor.New(dtype, d.o, d.c/d.groups, d.kh, d.kw))
	in := []*tensor.Tensor{x, w, nil}
	if d.bias {
		in[2] = tensor.Empty(tensor.New(dtype, d.o))
	}
	for _, v := range in {
		if v != nil {
			fill(v)
		}
	}
	p, err := kerneltest.NewProductCall("conv2d", d.attrs(), in, 1)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(p.Op.Impls, func(m graph.Impl) bool { return m.Name == name })
	walks := p.Op.Impls[i].Walks(p.Call, nil)
	if len(walks) == 0 {
		return nil, nil
	}
	p.Call.Impl, p.Call.Walk, p.Call.Out[0] = &p.Op.Impls[i], walks[0], walks[0].ResultLayout(0, p.Call.Out[0])
	k, err := kerneltest.CompileAnyLayouts(p.Op, p.Call)
	if err != nil {
		t.Fatal(err)
	}
	out := tensor.Empty(p.Call.Out[0])
	run := kerneltest.MemOf(k, p.Call, in, []*tensor.Tensor{out})
	bytes := [][]byte{out.Storage().Bytes(), x.Storage().Bytes(), p.Call.In[1].Value.Const.Storage().Bytes()}
	if d.bias {
		bytes = append(bytes, in[2].Storage().Bytes())
	}
	for i, b := range bytes {
		to := mem[i][:len(b)]
		if end {
			to = mem[i][len(mem[i])-len(b):]
		}
		copy(to, b)
		run.Ptrs[i] = unsafe.Pointer(&to[0])
	}
	for _, ph := range k.Phases {
		for chunk := range ph.Chunks {
			if err := ph.Run(run, chunk); err != nil {
				t.Fatal(err)
			}
		}
	}
	copy(bytes[0], unsafe.Slice((*byte)(run.Ptrs[0]), len(bytes[0])))
	return out, in
}

// elements has the elements of an operand in row-major order, none of nil.
type elements struct {
	values []float64
	shape  []int
}

func elementsOf(v *tensor.Tensor) elements {
	if v == nil {
		return elements{}
	}
	list, err := tensor.ToSlice[float64](v.CopyTo(tensor.New(tensor.Float64, v.Shape...)))
	if err != nil {
		panic(err)
	}
	return elements{list, v.Shape}
}

// at returns an element of an operand with four dimensions.
func (e elements) at(i, j, k, l int) float64 {
	return e.values[((i*e.shape[1]+j)*e.shape[2]+k)*e.shape[3]+l]
}

func (d *directCase) compare(t *testing.T, name string, out *tensor.Tensor, in []*tensor.Tensor) {
	eps := map[tensor.DType]float64{tensor.Float32: 1e-6, tensor.Float64: 2e-15}[out.DType]
	eps *= math.Sqrt(float64(1 + d.c/d.groups*d.kh*d.kw))
	oh, ow := out.Shape[2], out.Shape[3]
	for e, want := range d.naive(elementsOf(in[0]), elementsOf(in[1]), elementsOf(in[2])) {
		got := out.At(e/d.o/ow/oh, e%d.o, e/d.o/ow%oh, e/d.o%ow).Float()
		if !(math.Abs(got-want) <= eps*(1+math.Abs(want))) {
			t.Fatalf("%s %v of %+v: element %d is %v, want %v", name, out.DType, *d, e, got, want)
		}
	}
}

// TestDirectSumsOfBorders checks that convolving a padded image, and an image that has the zeros in memory, gives the
// same bits: skipped taps must not change the order of sums.
func TestDirectSumsOfBorders(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	var mem [4][]byte
	for i := range mem {
		mem[i] = jittest.Guarded(t, 1<<22)
	}
	for _, d := range []directCase{
		{c: 200, h: 7, w: 7, o: 9, kh: 3, kw: 3, ph: 1, pw: 1, ph1: 1, pw1: 1},   // a block of sums is a row of the window
		{c: 90, h: 2, w: 1, o: 7, kh: 5, kw: 4, ph: 3, pw: 3, ph1: 2, pw1: 2},    // tiles of pixels in several rows
		{c: 300, h: 2, w: 29, o: 16, kh: 1, kw: 5, pw: 4, pw1: 4},                // or one tap
		{c: 600, h: 3, w: 30, o: 33, kh: 3, kw: 3, ph: 2, pw: 2, ph1: 2, pw1: 2}, // or a part of a tap
	} {
		d.n, d.groups, d.sh, d.sw, d.dh, d.dw, d.bias = 2, 1, 1, 1, 1, 1, true
		whole := d
		whole.h, whole.w = d.h+d.ph+d.ph1, d.w+d.pw+d.pw1
		whole.ph, whole.pw, whole.ph1, whole.pw1 = 0, 0, 0, 0
		for _, name := range []string{"direct_nhwc", "direct_planes"} {
			r := rand.New(rand.NewPCG(25, 26))
			got, in := d.run(t, tensor.Float32, name, mem, true, func(v *tensor.Tensor) { kerneltest.FillRandom(r, v) })
			i := -1
			want, _ := whole.run(t, tensor.Float32, name, mem, true, func(v *tensor.Tensor) {
				if i++; i > 0 {
					tensor.CopyElements(v, in[i])
					return
				}
				clear(v.Storage().Bytes())
				for e := range in[0].Numel() {
					x, y := e%d.w, e/d.w%d.h
					n, c := e/d.w/d.h/d.c, e/d.w/d.h%d.c
					v.Set(in[0].At(n, c, y, x), n, c, y+d.ph, x+d.pw)
				}
			})
			if got == nil || want == nil {
				t.Fatalf("%s does not compute %+v", name, d)
			}
			if !bytes.Equal(got.Storage().Bytes(), want.Storage().Bytes()) {
				t.Errorf("%s of %+v: sums differ from those with zeros in memory", name, d)
			}
		}
	}
}

// TestDirectSumsAreNear checks that sums of many positive terms have at most half the error of a single chain of
// additions.
func TestDirectSumsAreNear(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	var mem [4][]byte
	for i := range mem {
		mem[i] = jittest.Guarded(t, 1<<20)
	}
	r := rand.New(rand.NewPCG(23, 24))
	for _, d := range []directCase{
		{c: 700, h: 7, w: 7, kh: 3, kw: 3},          // blocks of a tap, and of parts of a tap
		{c: 300, h: 3, w: 30, kh: 3, kw: 3},         // tiles along rows, some with skipped taps
		{c: 96, h: 5, w: 21, kh: 5, kw: 7},          // blocks of several taps
		{c: 4099, h: 3, w: 3, kh: 1, kw: 1},         // no window
		{c: 4000, h: 3, w: 3, kh: 1, kw: 1, sh: 2},  // pixels that are not adjacent
		{c: 40, h: 14, w: 14, kh: 11, kw: 11},       // rows of a window of few channels
		{c: 1200, h: 9, w: 9, kh: 3, kw: 2, sw: 2},  // more channels than a block has
		{c: 4200, h: 2, w: 12, kh: 2, kw: 1, ph: 1}, // blocks of parts of taps that are not adjacent
	} {
		d.n, d.o, d.groups, d.dh, d.dw = 1, 4, 1, 1, 1
		d.sh, d.sw = max(1, d.sh), max(1, d.sw)
		if d.kw > 1 {
			d.ph, d.pw, d.ph1, d.pw1 = d.kh/2, d.kw/2, d.kh/2, d.kw/2
		}
		for _, name := range []string{"direct_nhwc", "direct_planes"} {
			out, in := d.run(t, tensor.Float32, name, mem, true, func(v *tensor.Tensor) {
				for i := range v.Numel() {
					*(*float32)(unsafe.Add(v.Pointer(), 4*i)) = r.Float32()
				}
			})
			if out == nil {
				t.Fatalf("%s does not compute %+v", name, d)
			}
			ours, chain := d.errors(out, in)
			if ours > chain/2 {
				t.Errorf("%s of %+v is off by %.3g, a chain of additions by %.3g", name, d, ours, chain)
			}
		}
	}
}

// errors returns the root mean square of the relative errors of a result, and of sums in one chain.
func (d *directCase) errors(out *tensor.Tensor, in []*tensor.Tensor) (ours, chain float64) {
	oh, ow := out.Shape[2], out.Shape[3]
	add := func(sum *float64, got, want float64) { *sum += (got/want - 1) * (got/want - 1) }
	x, w := elementsOf(in[0]), elementsOf(in[1])
	for e, want := range d.naive(x, w, elements{}) {
		o, ox, oy := e%d.o, e/d.o%ow, e/d.o/ow
		sum := float32(0)
		for k := range d.kh * d.kw {
			y, z := oy*d.sh-d.ph+k/d.kw, ox*d.sw-d.pw+k%d.kw
			for c := range d.c {
				if y >= 0 && y < d.h && z >= 0 && z < d.w {
					sum = float32(math.FMA(x.at(0, c, y, z), w.at(o, c, k/d.kw, k%d.kw), float64(sum)))
				}
			}
		}
		add(&ours, out.At(0, o, oy, ox).Float(), want)
		add(&chain, float64(sum), want)
	}
	n := float64(oh * ow * d.o)
	return math.Sqrt(ours / n), math.Sqrt(chain / n)
}
