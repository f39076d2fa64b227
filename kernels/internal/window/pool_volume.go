package window

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// volumeElement is the element types of poolings over volumes.
type volumeElement interface {
	uint8 | int8 | int16 | int32 | int64 | float32 | float64
}

// volume is a pooling in Go over up to three dimensions, with row-major operands and results. It computes the cases
// that the kernels for images do not support: volumes, indices in sequences, asymmetric padding, and integers.
type volume struct {
	planes int
	in     [3]int // missing dimensions are 1
	axes   [3]poolAxis
}

// newVolume pools the last len(axes) dimensions of m.
func newVolume(m tensor.Meta, axes []poolAxis) *volume {
	v := &volume{in: [3]int{1, 1, 1}, planes: 1}
	one := wholeAxis()
	v.axes = [3]poolAxis{one, one, one}
	first, lead := 3-len(axes), m.Rank()-len(axes)
	for i, w := range axes {
		v.in[first+i], v.axes[first+i] = m.Shape[lead+i], w
	}
	for _, n := range m.Shape[:lead] {
		v.planes *= n
	}
	return v
}

// volumeLook is the number of windows of a row between two checks of the context.
const volumeLook = 1 << 10

// volumeRow is one row of results: its plane, and the windows of the outer dimensions.
type volumeRow struct {
	plane, at int // index of the plane, and of the first result
	ds, hs    window
}

// phase runs f for every row of results.
func (v *volume) phase(f func(m *graph.Mem, r volumeRow)) graph.Phase {
	nd, nh, nw := v.axes[0].out, v.axes[1].out, v.axes[2].out
	area := nw
	for d := range v.axes {
		area = mulBounded(area, max(1, v.axes[d].most()))
	}
	return copies.CutUnits(v.planes*nd*nh, area, func(m *graph.Mem, begin, end int) error {
		for u := begin; u < end; u++ {
			f(m, volumeRow{plane: u / (nd * nh), at: u * nw, ds: v.axes[0].at(u / nh % nd), hs: v.axes[1].at(u % nh)})
		}
		return nil
	})
}

func (v *volume) plane() int { return v.in[0] * v.in[1] * v.in[2] }

// line returns the offset of a row within a plane.
func (v *volume) line(d, h int) int { return (d*v.in[1] + h) * v.in[2] }

// maxVolume computes the maximum of each window and its index in the plane; NaN propagates. An empty window gives the
// least value.
func maxVolume[T volumeElement](v *volume, least T, indices bool) graph.Phase {
	n := v.plane()
	return v.phase(func(m *graph.Mem, r volumeRow) {
		x := unsafe.Slice((*T)(unsafe.Add(m.Ptrs[len(m.Ptrs)-1], r.plane*n*int(unsafe.Sizeof(least)))), n)
		y := unsafe.Slice((*T)(kit.Elem[T](m.Ptrs[0], r.at)), v.axes[2].out)
		var at []int64
		if indices {
			at = unsafe.Slice((*int64)(kit.Elem[int64](m.Ptrs[1], r.at)), len(y))
		}
		for o := range y {
			if o%volumeLook == volumeLook-1 {
				m.CheckContext()
			}
			ws := v.axes[2].at(o)
			best, where := least, v.line(r.ds.start, r.hs.start)+ws.start
			for d := r.ds.start; d < r.ds.end; d += r.ds.step {
				for h := r.hs.start; h < r.hs.end; h += r.hs.step {
					base := v.line(d, h)
					for w := ws.start; w < ws.end; w += ws.step {
						if e := x[base+w]; e > best || e != e {
							best, where = e, base+w
						}
					}
				}
			}
			y[o] = best
			if indices {
				at[o] = int64(where)
			}
		}
	})
}

// sumVolume sums f of the elements of each window in A; g makes the result from the sum and the window's area.
func sumVolume[T volumeElement, A int64 | float64](v *volume, f func(T) A, g func(sum A, area float64) T) graph.Phase {
	n := v.plane()
	return v.phase(func(m *graph.Mem, r volumeRow) {
		x := unsafe.Slice((*T)(kit.Elem[T](m.Ptrs[1], r.plane*n)), n)
		y := unsafe.Slice((*T)(kit.Elem[T](m.Ptrs[0], r.at)), v.axes[2].out)
		for o := range y {
			if o%volumeLook == volumeLook-1 {
				m.CheckContext()
			}
			ws := v.axes[2].at(o)
			var sum A
			for d := r.ds.start; d < r.ds.end; d += r.ds.step {
				for h := r.hs.start; h < r.hs.end; h += r.hs.step {
					base := v.line(d, h)
					if f == nil {
						for w := ws.start; w < ws.end; w += ws.step {
							sum += A(x[base+w])
						}
						continue
					}
					for w := ws.start; w < ws.end; w += ws.step {
						sum += f(x[base+w])
					}
				}
			}
			y[o] = g(sum, areaOf(r.ds.size, r.hs.size, ws.size))
		}
	})
}

// poolKind is the reduction of a pooling.
type poolKind uint8

const (
	poolMax poolKind = iota
	poolAvg
	poolNorm
)

// volumeWalk is a pooling by planes or, if pixels is set, by pixels.
type volumeWalk struct {
	planes *volume
	pixels *volumePixels
}

// volumeKernel compiles a pooling of the call's first operand with one of the walks. By planes it reads and writes
// row-major values.
func volumeKernel(c *graph.Call, by poolWalk, kind poolKind, a *poolArgs, axes []poolAxis) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	f := poolFold{kind: kind}
	if a != nil && a.divisor != nil {
		f.divisor = *a.divisor
	}
	if k, err := compiledPool(c, by, f, axes); k != nil || err != nil {
		return k, err
	}
	d := c.Meta(0).DType.OpMath()
	x := copies.NewCompound(c)
	from, result := x.In(0), x.Laid
	if by != poolPixels || from.Meta.DType != d {
		from = x.Dense(from, d)
	}
	if by != poolPixels {
		result = x.Result
	}
	buffers := []kit.Buffer{result(0, d)}
	if len(c.Out) > 1 {
		buffers = append(buffers, result(1, tensor.Int64))
	}
	var s volumeWalk
	if by == poolPixels {
		s.pixels = newVolumePixels(from.Meta, buffers, axes)
	} else {
		s.planes = newVolume(from.Meta, axes)
	}
	var ph graph.Phase
	var worker int
	switch kind {
	case poolMax:
		ph, worker = maxOf(d, s, len(c.Out) > 1)
	case poolAvg:
		ph, worker = avgOf(d, s, a)
	default:
		ph, worker = normOf(d, s, a.norm)
	}
	x.Run(0, worker, append(buffers, from), ph)
	return x.Kernel()
}

func maxOf(d tensor.DType, s volumeWalk, indices bool) (graph.Phase, int) {
	switch d {
	case tensor.Uint8:
		return greatest[uint8](s, 0, indices)
	case tensor.Int8:
		return greatest[int8](s, math.MinInt8, indices)
	case tensor.Int16:
		return greatest[int16](s, math.MinInt16, indices)
	case tensor.Int32:
		return greatest[int32](s, math.MinInt32, indices)
	case tensor.Int64:
		return greatest[int64](s, math.MinInt64, indices)
	case tensor.Float32:
		return greatest(s, float32(math.Inf(-1)), indices)
	}
	return greatest(s, math.Inf(-1), indices)
}

func greatest[T volumeElement](s volumeWalk, least T, indices bool) (graph.Phase, int) {
	if s.pixels != nil {
		return maxPixels(s.pixels, least, indices)
	}
	return maxVolume(s.planes, least, indices), 0
}

func summed[T volumeElement, A int64 | float64](s volumeWalk, f func(T) A,
	g func(sum A, area float64) T) (graph.Phase, int) {
	if s.pixels != nil {
		return sumPixels(s.pixels, f, g)
	}
	return sumVolume(s.planes, f, g), 0
}

func avgOf(d tensor.DType, s volumeWalk, a *poolArgs) (graph.Phase, int) {
	by := func(area float64) float64 {
		if a.divisor != nil {
			return float64(*a.divisor)
		}
		return area
	}
	switch d {
	case tensor.Int64:
		return summed(s, nil, func(sum int64, area float64) int64 {
			if a.divisor != nil {
				return sum / int64(*a.divisor)
			}
			return sum / divisorOf[int64](area)
		})
	case tensor.Float32:
		return summed(s, nil, func(sum, area float64) float32 { return float32(sum / by(area)) })
	}
	return summed(s, nil, func(sum, area float64) float64 { return sum / by(area) })
}

// normOf computes the p-norm of each window.
func normOf(d tensor.DType, s volumeWalk, p float64) (graph.Phase, int) {
	power, root := normPower(p), normRoot(p)
	if d == tensor.Float32 {
		return summed(s, func(e float32) float64 { return power(float64(e)) },
			func(sum, _ float64) float32 { return float32(root(sum)) })
	}
	return summed(s, power, func(sum, _ float64) float64 { return root(sum) })
}

func normPower(p float64) func(float64) float64 {
	switch p {
	case 1:
		return math.Abs
	case 2:
		return func(x float64) float64 { return x * x }
	}
	return func(x float64) float64 { return math.Pow(math.Abs(x), p) }
}

func normRoot(p float64) func(float64) float64 {
	switch p {
	case 1:
		return func(x float64) float64 { return x }
	case 2:
		return math.Sqrt
	}
	return func(x float64) float64 { return math.Pow(x, 1/p) }
}
