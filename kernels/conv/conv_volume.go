package conv

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

type conv3dAttrs struct {
	Stride   []int            `attr:"stride" default:"1" doc:"steps of the window: [depth, height, width]"`
	Padding  graph.IntsOrWord `attr:"padding" default:"0" words:"same|valid" doc:"zeros around the volume: [depth, height, width], or of 6 numbers those before it and then those behind it; valid: none, same: as many as give the result the size of the input"`
	Dilation []int            `attr:"dilation" default:"1" doc:"distance between the elements of the window: [depth, height, width]"`
	Groups   int              `attr:"groups" default:"1" doc:"channels are parted into groups that do not see one another"`
}

var conv3d = convolution{"conv3d", 3, func(c *graph.Call) convParams {
	a := kit.Attrs[conv3dAttrs](c)
	return newConvParams(c, 3, a.Stride, a.Padding, a.Dilation, a.Groups)
}}

// Conv3d is the cross-correlation of volumes with a window.
var Conv3d = kit.Define[conv3dAttrs](graph.Op{
	Name: "conv3d",
	Doc: "Convolves volumes: input [n, c, d, h, w] or [c, d, h, w], weight [o, c/groups, kd, kh, kw] and bias [o] give " +
		"[n, o, od, oh, ow] with od = (d + 2*padding - dilation*(kd-1) - 1)/stride + 1. The result is row-major.",
	Params: []graph.Param{kit.Input, kit.Weight, kit.OptBias},
	Infer:  conv3d.infer,
	Impls: []graph.Impl{{
		Name: "volumes", Doc: "Multiplies the packed weight by windows of volumes, one after another.",
		Walks: func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
			list := []graph.Walk{{}}
			for _, o := range candidates {
				if _, even := pointStride(c.Out[0].WithStrides(o.Strides(c.Out[0].Shape))); even && o.Rank() == c.Out[0].Rank() {
					list = append(list, c.InOrder(o))
				}
			}
			return list
		},
		Work:  conv3dWork,
		Lower: compileConv3d,
	}},
	Flops: conv3d.flops,
	Ref:   conv3d.ref,
	Examples: []graph.Example{
		{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4, 5, 6), tensor.New(tensor.Float32, 4, 3, 2, 3, 3), tensor.New(tensor.Float32, 4)},
			Attrs: graph.Attrs{"padding": 1, "stride": []int{2, 1, 1}}},
		{In: []tensor.Meta{tensor.New(tensor.Float32, 4, 3, 5, 4), tensor.New(tensor.Float32, 4, 2, 2, 1, 3)},
			Attrs: graph.Attrs{"groups": 2, "padding": []int{0, 1, 1, 1, 0, 0}}},
	},
})

// convVolume is a convolution over three dimensions as its kernel sees it. Strides count
// elements; those of spatial dimensions come last.
type convVolume struct {
	n, c               int
	in, out, k         [3]int
	step, pad, dilated [3]int
	xs, ws, os         [5]int
	point              int       // from one element of the output to the next of the same channel
	groups             convShape // groups and weight, as packing needs them
}

func newConvVolume(c *graph.Call) *convVolume {
	p, x, w, out := conv3d.params(c), c.Meta(0), c.Meta(1), c.Out[0]
	v := &convVolume{n: 1, c: w.Shape[1]}
	lead := x.Rank() - 3
	if lead == 2 {
		v.n = x.Shape[0]
	}
	copy(v.xs[2-lead:], x.Strides)
	copy(v.ws[:], w.Strides)
	copy(v.os[2-lead:], out.Strides)
	v.point, _ = pointStride(out)
	for d := range 3 {
		v.in[d], v.out[d], v.k[d] = x.Shape[lead+d], out.Shape[lead+d], w.Shape[2+d]
		v.step[d], v.pad[d], v.dilated[d] = p.stride[d], p.padding[d], p.dilation[d]
	}
	v.groups = convShape{groups: p.groups, o: w.Shape[0]}
	v.groups.ws[0] = w.Strides[0]
	if c.Has(2) {
		v.groups.hasBias, v.groups.bias = true, c.Meta(2).Strides[0]
	}
	if t := c.Const(1); t != nil {
		v.groups.constant = t.Pointer()
	}
	return v
}

// pointStride returns the distance between the elements of a channel, which must lie evenly.
func pointStride(m tensor.Meta) (step int, even bool) {
	run := 0 // from the first element of a channel to what follows those so far
	for d := m.Rank() - 1; d >= m.Rank()-3; d-- {
		switch {
		case m.Shape[d] == 1:
		case run == 0:
			step, run = m.Strides[d], m.Strides[d]*m.Shape[d]
		case m.Strides[d] != run:
			return 0, false
		default:
			run *= m.Shape[d]
		}
	}
	return step, true
}

func compileConv3d(c *graph.Call) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	return copies.Converted(c, c.Out[0].DType.OpMath(), func(c *graph.Call) (*graph.Kernel, error) {
		v := newConvVolume(c)
		switch d := c.Out[0].DType; d {
		case tensor.Uint8:
			return convVolumes[uint8](v)
		case tensor.Int8:
			return convVolumes[int8](v)
		case tensor.Int16:
			return convVolumes[int16](v)
		case tensor.Int32:
			return convVolumes[int32](v)
		case tensor.Int64:
			return convVolumes[int64](v)
		case tensor.Float32:
			return convVolumes[float32](v)
		case tensor.Float64:
			return convVolumes[float64](v)
		case tensor.Complex64:
			return convVolumes[complex64](v)
		case tensor.Complex128:
			return convVolumes[complex128](v)
		default:
			return nil, fmt.Errorf("no convolution of %v", d)
		}
	})
}

// convVolumes multiplies channels by the windows under the elements of the output, as
// convNCHW does. The input may have any strides, and so may the output where a channel's elements
// lie evenly.
func convVolumes[T gemm.Number](v *convVolume) (*graph.Kernel, error) {
	s, taps, points := &v.groups, product3(v.k), product3(v.out)
	spec := gemm.Spec{M: s.og(), N: points, K: v.c * taps,
		A:          gemm.Operand{Source: gemm.Prepacked},
		B:          gemm.Operand{Source: gemm.Custom},
		CRowStride: v.os[1], CColStride: v.point}
	if s.hasBias {
		spec.Bias, spec.BiasStride = gemm.BiasRows, s.bias
	}
	plan, err := gemm.NewPlan[T](spec)
	if err != nil {
		return nil, err
	}
	terms := make([]int, 0, spec.K)
	for c := range v.c {
		for t := range taps {
			terms = append(terms, c*v.ws[1]+t/v.k[2]/v.k[1]*v.ws[2]+t/v.k[2]%v.k[1]*v.ws[3]+t%v.k[2]*v.ws[4])
		}
	}
	weight := newPackedWeight[T](s, gemm.PanelRows[T](), terms)
	x := &multiply.Multiplier[T]{Plan: plan, Entries: v.n * s.groups, MACs: s.og() * points * spec.K}
	if x.Entries > 1 {
		x.A = eachEntry(v.n, 0, s.groups, weight.perG)
		x.B = eachEntry(v.n, v.xs[0], s.groups, v.c*v.xs[1])
		x.C = eachEntry(v.n, v.os[0], s.groups, s.og()*v.os[1])
		x.Bias = eachEntry(v.n, 0, s.groups, s.og()*s.bias)
	}
	x.Bind = func(m *graph.Mem, j *multiply.Job[T]) {
		j.C, j.A, j.B, j.Bias = m.Ptrs[0], weight.at(m), m.Ptrs[1], s.biasAt(m)
	}
	p := &volumePacker[T]{v: v, width: plan.PackCols()}
	x.Prepare = func(j *multiply.Job[T]) {
		j.TapStart, j.TapPad = make([]int, taps+1), make([]int, taps)
		j.Args.PackB = func(dst []T, k0, k1, l0, l1 int) { p.pack(j, dst, k0, k1, l0, l1) }
	}
	return weight.kernel(x), nil
}

// volumePacker fills panels of windows from the channels of a volume.
type volumePacker[T gemm.Number] struct {
	v     *convVolume
	width int
}

// pack is the PackFunc of the windows. What is copied where is the same for all channels.
func (p *volumePacker[T]) pack(j *multiply.Job[T], dst []T, k0, k1, l0, l1 int) {
	v, taps := p.v, product3(p.v.k)
	step := v.step[2] * v.xs[4]
	for l := l0; l < l1; l += p.width {
		panel := dst[:p.width*(k1-k0)]
		dst = dst[p.width*(k1-k0):]
		p.plan(j, l, min(p.width, l1-l))
		for k := k0; k < k1; k++ {
			tap := k % taps
			row := panel[(k-k0)*p.width:][:p.width]
			if j.TapPad[tap] != 0 {
				clear(row)
			}
			for i := j.TapStart[tap]; i < j.TapStart[tap+1]; i++ {
				mv := &j.Moves[i]
				copyPixels(row[mv.Lane:mv.Lane+mv.N], kit.Elem[T](j.Args.B, k/taps*v.xs[1]+mv.From), step)
			}
		}
	}
}

// plan lists, by place in the window, the moves that fill the lanes from output element l
// on, and whether some lanes lie in the padding.
func (p *volumePacker[T]) plan(j *multiply.Job[T], l, lanes int) {
	v := p.v
	j.Moves = j.Moves[:0]
	for tap := range product3(v.k) {
		j.TapStart[tap] = len(j.Moves)
		at := [3]int{tap / v.k[2] / v.k[1], tap / v.k[2] % v.k[1], tap % v.k[2]}
		covered := 0
		for lane := 0; lane < lanes; {
			row, ow := (l+lane)/v.out[2], (l+lane)%v.out[2]
			n := min(v.out[2]-ow, lanes-lane)
			id := row/v.out[1]*v.step[0] - v.pad[0] + at[0]*v.dilated[0]
			ih := row%v.out[1]*v.step[1] - v.pad[1] + at[1]*v.dilated[1]
			iw := ow*v.step[2] - v.pad[2] + at[2]*v.dilated[2]
			if first, end := validRange(iw, v.step[2], v.in[2], n); uint(id) < uint(v.in[0]) && uint(ih) < uint(v.in[1]) && first < end {
				from := id*v.xs[2] + ih*v.xs[3] + (iw+first*v.step[2])*v.xs[4]
				j.Moves = append(j.Moves, multiply.RowMove{Lane: lane + first, N: end - first, From: from})
				covered += end - first
			}
			lane += n
		}
		j.TapPad[tap] = lanes - covered
	}
	j.TapStart[product3(v.k)] = len(j.Moves)
}

// conv3dWork is that of a convolution of volumes, which packs windows as those of planes do.
func conv3dWork(c *graph.Call, walk graph.Walk) graph.Work {
	w := kit.Stored(c, walk, "")
	if c.Out[0].Numel() == 0 {
		return w
	}
	laid := *c
	laid.Out = []tensor.Meta{walk.Lay(0, c.Out[0])}
	v := newConvVolume(&laid)
	points, taps := product3(v.out), product3(v.k)
	w.Ops[graph.Product] = float64(v.n*v.groups.groups) * multiply.Ops(c.Out[0].DType, v.groups.og(), points, v.c*taps)
	each := elementOps
	if v.step[2] != 1 || v.xs[4] != 1 {
		each = stridedOps
	}
	all := float64(v.n*v.groups.groups) * float64(points) * float64(v.c*taps)
	w.Ops[graph.Simple] = all * (each + runOps/float64(min(v.out[2], rowPixels)))
	if v.point != 1 {
		w.Ops[graph.Simple] += multiply.TurnOps(c.Out[0].Numel(), v.c*taps)
	}
	return w
}
