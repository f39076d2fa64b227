package window

import (
	"math"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// axisTaps tells, for every index of an output dimension, which elements of the input
// dimension it is made of: at[first[i]:first[i+1]] with their weights. An index that is
// outside has no taps and takes a number instead.
type axisTaps struct {
	first []int
	at    []int
	w     []float64
}

// newTaps collects taps; f calls add for each of index i.
func newTaps(out int, f func(i int, add func(at int, w float64))) *axisTaps {
	t := &axisTaps{first: make([]int, 1, out+1)}
	for i := range out {
		f(i, func(at int, w float64) {
			if w != 0 {
				t.at, t.w = append(t.at, at), append(t.w, w)
			}
		})
		t.first = append(t.first, len(t.at))
	}
	return t
}

func (t *axisTaps) size() int { return len(t.first) - 1 }

// picks reports whether every index takes one element as it is.
func (t *axisTaps) picks() bool {
	for i := range t.size() {
		if t.first[i+1]-t.first[i] != 1 || t.w[t.first[i]] != 1 {
			return false
		}
	}
	return true
}

// resampling is a separable resize: taps for each dimension, nil where it stays. outside is
// what indices without taps take.
type resampling struct {
	taps    []*axisTaps
	outside float64
}

func (r *resampling) shape(in []int) []int {
	out := slices.Clone(in)
	for d, t := range r.taps {
		if t != nil {
			out[d] = t.size()
		}
	}
	return out
}

// resampleDType is the dtype in which elements are weighted.
func resampleDType(d tensor.DType) tensor.DType {
	if d == tensor.Float64 || d.IsIntegral(true) && d.Size() > 2 {
		return tensor.Float64
	}
	return tensor.Float32
}

func (r *resampling) compile(c *graph.Call) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	if c.Out[0].Rank() == 0 {
		return copies.Call(c)
	}
	picks := true
	for _, t := range r.taps {
		picks = picks && (t == nil || t.picks())
	}
	if picks {
		return r.pickKernel(c), nil
	}
	if resampleDType(c.Out[0].DType) == tensor.Float32 {
		return resampleKernel[float32](r, c), nil
	}
	return resampleKernel[float64](r, c), nil
}

// pickKernel moves elements, row by row of the output.
func (r *resampling) pickKernel(c *graph.Call) *graph.Kernel {
	src, dst := c.Meta(0), c.Out[0]
	size, last := dst.DType.Size(), dst.Rank()-1
	ss, ds := kit.ByteStrides(src), kit.ByteStrides(dst)
	places := make([][]int, last+1)
	for d, n := range dst.Shape {
		for i := range n {
			at := i
			if t := r.taps[d]; t != nil {
				at = t.at[t.first[i]]
			}
			places[d] = append(places[d], at*ss[d])
		}
	}
	cols := dst.Shape[last]
	rows, grain := dst.Numel()/cols, max(1, machine.MoveGrain/cols)
	return &graph.Kernel{Phases: []graph.Phase{{Chunks: kit.DivUp(rows, grain), Run: func(m *graph.Mem, chunk int) error {
		for i := chunk * grain; i < min(rows, (chunk+1)*grain); i++ {
			to, from, rest := 0, 0, i
			for d := last - 1; d >= 0; d-- {
				k := rest % dst.Shape[d]
				rest /= dst.Shape[d]
				to, from = to+k*ds[d], from+places[d][k]
			}
			kit.ReadEach[size](unsafe.Add(m.Ptrs[0], to), unsafe.Add(m.Ptrs[1], from), ds[last], places[last])
		}
		return nil
	}}}}
}

// resamplePass resamples one dimension: a row-major array [outer, in, inner] becomes
// [outer, n, inner].
type resamplePass[T float32 | float64] struct {
	from, to         kit.Buffer
	outer, in, inner int
	taps             *axisTaps
	w                []T
	outside          T
}

// resampleKernel converts the operand to a row-major array, resamples dimension by
// dimension from the last on, and converts the result.
func resampleKernel[T float32 | float64](r *resampling, c *graph.Call) *graph.Kernel {
	d := tensor.DTypeOf[T]()
	src, k := kit.InBuffer(c, 0), &graph.Kernel{}
	room := func(shape []int) kit.Buffer {
		s := kit.ScratchBuffer(k.Scratch, tensor.New(d, shape...))
		k.Scratch += kit.AlignUp(s.Meta.Bytes())
		return s
	}
	move := func(dst, src kit.Buffer) {
		ph, worker := copies.Phase(copies.Job{Dst: dst, Src: src})
		k.Phases, k.Worker = append(k.Phases, ph), max(k.Worker, worker)
	}
	cur := src
	if src.Meta.DType != d || !src.Meta.IsContiguous() {
		cur = room(src.Meta.Shape)
		move(cur, src)
	}
	cur.Meta = tensor.New(d, src.Meta.Shape...)
	direct := c.Out[0].DType == d && c.Out[0].IsContiguous()
	left := 0
	for _, t := range r.taps {
		if t != nil {
			left++
		}
	}
	for dim := len(r.taps) - 1; dim >= 0; dim-- {
		t := r.taps[dim]
		if t == nil {
			continue
		}
		left--
		s := cur.Meta.Shape
		p := &resamplePass[T]{from: cur, outer: tensor.Numel(s[:dim]), in: s[dim], inner: tensor.Numel(s[dim+1:]), taps: t,
			outside: T(r.outside)}
		for _, w := range t.w {
			p.w = append(p.w, T(w))
		}
		shape := slices.Clone(s)
		shape[dim] = t.size()
		if left == 0 && direct {
			p.to = kit.OutBuffer(c, 0)
		} else {
			p.to = room(shape)
		}
		k.Phases = append(k.Phases, p.phase())
		cur = p.to
		cur.Meta = tensor.New(d, shape...)
	}
	if !direct {
		move(kit.OutBuffer(c, 0), cur)
	}
	return k
}

func (p *resamplePass[T]) phase() graph.Phase {
	n := p.taps.size()
	units := p.outer * n
	each := max(1, p.inner*max(1, len(p.w)/max(1, n)))
	grain := max(1, machine.GatherGrain/each)
	return graph.Phase{Chunks: kit.DivUp(units, grain), Run: func(m *graph.Mem, chunk int) error {
		from, to := p.from.Address(m), p.to.Address(m)
		for u := chunk * grain; u < min(units, (chunk+1)*grain); u++ {
			o, i := u/n, u%n
			src := unsafe.Slice((*T)(kit.Elem[T](from, o*p.in*p.inner)), p.in*p.inner)
			dst := unsafe.Slice((*T)(kit.Elem[T](to, u*p.inner)), p.inner)
			p.row(dst, src, p.taps.first[i], p.taps.first[i+1])
		}
		return nil
	}}
}

func (p *resamplePass[T]) row(dst, src []T, first, end int) {
	if first == end {
		for i := range dst {
			dst[i] = p.outside
		}
		return
	}
	if len(dst) == 1 {
		var s T
		for k := first; k < end; k++ {
			s += p.w[k] * src[p.taps.at[k]]
		}
		dst[0] = s
		return
	}
	for k := first; k < end; k++ {
		w, x := p.w[k], src[p.taps.at[k]*p.inner:][:len(dst)]
		if k == first {
			for i, v := range x {
				dst[i] = w * v
			}
			continue
		}
		for i, v := range x {
			dst[i] += w * v
		}
	}
}

// reference sums over all combinations of taps, in float64.
func (r *resampling) reference(t *tensor.Tensor) *tensor.Tensor {
	out := tensor.Zeros(t.DType, r.shape(t.Shape)...)
	exact := true
	for _, x := range r.taps {
		exact = exact && (x == nil || x.picks())
	}
	kit.EachIndex(out.Shape, func(index []int) {
		at := slices.Clone(index)
		if exact {
			for d, x := range r.taps {
				if x != nil {
					at[d] = x.at[x.first[index[d]]]
				}
			}
			out.Set(t.At(at...), index...)
			return
		}
		var sum func(d int) float64
		sum = func(d int) float64 {
			if d == len(at) {
				return t.At(at...).Float()
			}
			x := r.taps[d]
			if x == nil {
				return sum(d + 1)
			}
			i, s := index[d], 0.0
			if x.first[i] == x.first[i+1] {
				return r.outside
			}
			for k := x.first[i]; k < x.first[i+1]; k++ {
				at[d] = x.at[k]
				s += x.w[k] * sum(d+1)
			}
			return s
		}
		out.Set(tensor.FloatScalar(sum(0)), index...)
	})
	return out
}

// cubicWeights are the weights of the four elements around a place between the second and
// the third.
func cubicWeights(t, a float64) [4]float64 {
	near := func(x float64) float64 { return ((a+2)*x-(a+3))*x*x + 1 }
	far := func(x float64) float64 { return ((a*x-5*a)*x+8*a)*x - 4*a }
	return [4]float64{far(t + 1), near(t), near(1 - t), far(2 - t)}
}

// nearestIndices gives for every index of the output the index of the input. The
// arithmetic is float32, as in PyTorch, but float64 for float64 images. PyTorch's kernel
// for channels-last images halves the index where the output is twice the input, whatever
// the factor says; here the result does not depend on the layout.
func nearestIndices(d tensor.DType, in, out int, factor float64) []int {
	scale := float64(in) / float64(out)
	if factor > 0 {
		scale = 1 / factor
	}
	if d != tensor.Float64 && factor <= 0 {
		scale = float64(float32(in) / float32(out))
	}
	at := make([]int, out)
	for i := range at {
		x := float32(float64(i) * scale)
		if d != tensor.Float64 {
			x = float32(i) * float32(scale)
		}
		at[i] = min(int(math.Floor(float64(x))), in-1)
	}
	return at
}
