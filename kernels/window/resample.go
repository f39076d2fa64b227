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

// resampleImpls are those of an op that resamples.
func resampleImpls(of func(c *graph.Call) (*resampling, error)) []graph.Impl {
	return []graph.Impl{{Name: "plain", Doc: "Resamples dimension by dimension, the fastest one first, by loops over " +
		"the elements that lie together.",
		Lower: func(c *graph.Call) (*graph.Kernel, error) {
			r, err := of(c)
			if err != nil {
				return nil, err
			}
			return r.compile(c)
		},
		Work: func(c *graph.Call, walk graph.Walk) graph.Work {
			w := graph.Work{Steps: 1}
			c.Streamed(&w)
			if r, err := of(c); err == nil {
				r.work(&w, c.Meta(0).Shape, walk.Lay(0, c.Out[0]))
			}
			return w
		}}}
}

func (r *resampling) compile(c *graph.Call) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	if c.Out[0].Rank() == 0 {
		return copies.Call(c)
	}
	if r.picks() {
		return r.pickKernel(c), nil
	}
	if resampleDType(c.Out[0].DType) == tensor.Float32 {
		return resampleKernel[float32](r, c)
	}
	return resampleKernel[float64](r, c)
}

// picks reports whether every element of the result is one of the operand.
func (r *resampling) picks() bool {
	for _, t := range r.taps {
		if t != nil && !t.picks() {
			return false
		}
	}
	return true
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

// reference sums over all combinations of taps, in float64.
func (r *resampling) reference(t *tensor.Tensor) *tensor.Tensor {
	out := tensor.Zeros(t.DType, r.shape(t.Shape)...)
	exact := r.picks()
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
