package kernels

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/tensor"
)

type conv3dAttrs struct {
	Stride   []int            `attr:"stride" default:"1" doc:"steps of the window: [depth, height, width]"`
	Padding  graph.IntsOrWord `attr:"padding" default:"0" words:"same|valid" doc:"zeros around the volume: [depth, height, width], or of 6 numbers those before it and then those behind it; valid: none, same: as many as give the result the size of the input"`
	Dilation []int            `attr:"dilation" default:"1" doc:"distance between the elements of the window: [depth, height, width]"`
	Groups   int              `attr:"groups" default:"1" doc:"channels are parted into groups that do not see one another"`
}

var conv3d = convolution{"conv3d", 3, func(c *graph.Call) convParams {
	a := attrs[conv3dAttrs](c)
	return newConvParams(c, 3, a.Stride, a.Padding, a.Dilation, a.Groups)
}}

// Conv3d is the cross-correlation of volumes with a window.
var Conv3d = define[conv3dAttrs](graph.Op{
	Name: "conv3d",
	Doc: "Convolves volumes: input [n, c, d, h, w] or [c, d, h, w], weight [o, c/groups, kd, kh, kw] and bias [o] give " +
		"[n, o, od, oh, ow] with od = (d + 2*padding - dilation*(kd-1) - 1)/stride + 1. The result is row-major.",
	Params: []graph.Param{input, weight, optBias},
	Infer:  conv3d.infer,
	Impls: []graph.Impl{{Name: "planes", Doc: "Multiplies the packed weight by windows of volumes, one after another.",
		Lower: lowerConv3d,
		Pack: packs(func(c *graph.Call, i int) (graph.Packing, bool) {
			e := engines[c.Out[0].DType]
			if e == nil || i != 1 {
				return graph.Packing{}, false
			}
			return e.convVolumePacking(newConvVolume(c), c.Out[0].DType)
		})}},
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
	xs, ws             [5]int
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
	for d := range 3 {
		v.in[d], v.out[d], v.k[d] = x.Shape[lead+d], out.Shape[lead+d], w.Shape[2+d]
		v.step[d], v.pad[d], v.dilated[d] = p.stride[d], p.padding[d], p.dilation[d]
	}
	v.groups = convShape{groups: p.groups, o: w.Shape[0]}
	v.groups.ws[0] = w.Strides[0]
	if c.Has(2) {
		v.groups.hasBias, v.groups.bias = true, c.Meta(2).Strides[0]
	}
	v.groups.call = c
	return v
}

func lowerConv3d(c *graph.Call) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	return converted(c, computesIn(c), func(c *graph.Call) (*graph.Kernel, error) {
		e, err := engineFor(c.Out[0].DType, "convolution")
		if err != nil {
			return nil, err
		}
		return e.convVolume(newConvVolume(c))
	})
}

// volumePanels are the panels of the weight, by channel and place in the window.
func volumePanels[T gemm.Number](v *convVolume, d tensor.DType) *panels {
	taps := product3(v.k)
	terms := make([]int, 0, v.c*taps)
	for c := range v.c {
		for t := range taps {
			terms = append(terms, c*v.ws[1]+t/v.k[2]/v.k[1]*v.ws[2]+t/v.k[2]%v.k[1]*v.ws[3]+t%v.k[2]*v.ws[4])
		}
	}
	return v.groups.weightPanels(d, gemm.PanelRows[T](), "c,kd,kh,kw", terms)
}

func product3(v [3]int) int { return v[0] * v[1] * v[2] }

// convVolumes multiplies channels by the windows under the elements of the output, as
// convNCHW does. The input may have any strides; the output is row-major.
func convVolumes[T gemm.Number](v *convVolume) (*graph.Kernel, error) {
	s, taps, points := &v.groups, product3(v.k), product3(v.out)
	spec := gemm.Spec{M: s.og(), N: points, K: v.c * taps,
		A:          gemm.Operand{Source: gemm.Prepacked},
		B:          gemm.Operand{Source: gemm.Custom},
		CRowStride: points, CColStride: 1}
	if s.hasBias {
		spec.Bias, spec.BiasStride = gemm.BiasRows, s.bias
	}
	plan, err := gemm.NewPlan[T](spec)
	if err != nil {
		return nil, err
	}
	weight, err := newPackedWeight[T](s.call, volumePanels[T](v, s.call.Out[0].DType))
	if err != nil {
		return nil, err
	}
	x := &multiplier[T]{plan: plan, entries: v.n * s.groups, macs: s.og() * points * spec.K}
	if x.entries > 1 {
		x.a = eachEntry(v.n, 0, s.groups, weight.each())
		x.b = eachEntry(v.n, v.xs[0], s.groups, v.c*v.xs[1])
		x.c = eachEntry(v.n, s.o*points, s.groups, s.og()*points)
		x.bias = eachEntry(v.n, 0, s.groups, s.og()*s.bias)
	}
	x.bind = func(m *graph.Mem, j *productJob[T]) {
		j.c, j.a, j.b, j.bias = m.Ptrs[0], weight.at(m), m.Ptrs[1], s.biasAt(m)
	}
	p := &volumePacker[T]{v: v, width: plan.PackCols()}
	x.prepare = func(j *productJob[T]) {
		j.tapStart, j.tapPad = make([]int, taps+1), make([]int, taps)
		j.args.PackB = func(dst []T, k0, k1, l0, l1 int) { p.pack(j, dst, k0, k1, l0, l1) }
	}
	return weight.kernel(x), nil
}

// volumePacker fills panels of windows from the channels of a volume.
type volumePacker[T gemm.Number] struct {
	v     *convVolume
	width int
}

// pack is the PackFunc of the windows. What is copied where is the same for all channels.
func (p *volumePacker[T]) pack(j *productJob[T], dst []T, k0, k1, l0, l1 int) {
	v, taps := p.v, product3(p.v.k)
	step := v.step[2] * v.xs[4]
	for l := l0; l < l1; l += p.width {
		panel := dst[:p.width*(k1-k0)]
		dst = dst[p.width*(k1-k0):]
		p.plan(j, l, min(p.width, l1-l))
		for k := k0; k < k1; k++ {
			tap := k % taps
			row := panel[(k-k0)*p.width:][:p.width]
			if j.tapPad[tap] != 0 {
				clear(row)
			}
			for i := j.tapStart[tap]; i < j.tapStart[tap+1]; i++ {
				mv := &j.moves[i]
				copyPixels(row[mv.lane:mv.lane+mv.n], elem[T](j.args.B, k/taps*v.xs[1]+mv.from), step)
			}
		}
	}
}

// plan lists, by place in the window, the moves that fill the lanes from output element l
// on, and whether some lanes lie in the padding.
func (p *volumePacker[T]) plan(j *productJob[T], l, lanes int) {
	v := p.v
	j.moves = j.moves[:0]
	for tap := range product3(v.k) {
		j.tapStart[tap] = len(j.moves)
		at := [3]int{tap / v.k[2] / v.k[1], tap / v.k[2] % v.k[1], tap % v.k[2]}
		covered := 0
		for lane := 0; lane < lanes; {
			row, ow := (l+lane)/v.out[2], (l+lane)%v.out[2]
			n := min(v.out[2]-ow, lanes-lane)
			id := row/v.out[1]*v.step[0] - v.pad[0] + at[0]*v.dilated[0]
			ih := row%v.out[1]*v.step[1] - v.pad[1] + at[1]*v.dilated[1]
			iw := ow*v.step[2] - v.pad[2] + at[2]*v.dilated[2]
			if first, end := validRange(iw, v.step[2], v.in[2], n); uint(id) < uint(v.in[0]) && uint(ih) < uint(v.in[1]) && first < end {
				j.moves = append(j.moves, rowMove{lane + first, end - first, id*v.xs[2] + ih*v.xs[3] + (iw+first*v.step[2])*v.xs[4]})
				covered += end - first
			}
			lane += n
		}
		j.tapPad[tap] = lanes - covered
	}
	j.tapStart[product3(v.k)] = len(j.moves)
}

// planeOf returns the n elements of plane i of a row-major value.
func planeOf[T any](p unsafe.Pointer, i, n int) []T {
	return unsafe.Slice((*T)(elem[T](p, i*n)), n)
}
