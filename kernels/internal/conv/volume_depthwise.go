package conv

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// volumeTaps convolves each channel of a volume separately by compiled loops. A channel is copied to worker memory with
// its zero padding, deinterleaved by the column stride, so that each tap is a stream of rows with a constant stride.
// One run of the loop computes a plane of the result.
type volumeTaps struct {
	*convVolume
	d      tensor.DType
	elem   strided.Elem
	sum    *tapSum
	padded [3]int // sizes of a padded channel, as far as windows reach
	row    int    // columns of a row per remainder of the column stride
	run    graph.PerWorker[tapRun]
}

// maxTapsBytes bounds the worker memory of compiled taps.
const maxTapsBytes = 4 << 20

// depthwiseVolume returns nil if a convolution of volumes is not depthwise, or cannot be compiled.
func depthwiseVolume(v *convVolume, d tensor.DType) *volumeTaps {
	if v.c != 1 || !compilesTaps(d) || v.os[4] != 1 && v.out[2] > 1 {
		return nil
	}
	t := &volumeTaps{convVolume: v, d: d, elem: strided.Move(d.Size())}
	for i := range 3 {
		t.padded[i] = (v.out[i]-1)*v.step[i] + v.dilated[i]*(v.k[i]-1) + 1
	}
	t.row = kit.DivUp(t.padded[2], v.step[2])
	if t.room() > maxTapsBytes {
		return nil
	}
	return t
}

// pitch returns the row stride of a channel in worker memory, in elements; room returns the bytes of a channel.
func (t *volumeTaps) pitch() int { return t.row * t.step[2] }
func (t *volumeTaps) room() int  { return kit.Times(t.padded[0], t.padded[1], t.pitch(), t.d.Size()) }

// lowerTaps makes the kernel; a chunk is some channels of the result.
func (v convolution) lowerTaps(c *graph.Call) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	return copies.Converted(c, multiply.ComputesIn(c), func(c *graph.Call) (*graph.Kernel, error) {
		t := depthwiseVolume(v.volume(c), c.Out[0].DType)
		if t == nil {
			return v.lowerVolume(c)
		}
		var err error
		if t.sum, err = newTapSum(t.d, product3(t.k), t.groups.hasBias, true); err != nil || t.sum == nil {
			return nil, err
		}
		units := t.n * t.groups.o
		group := max(1, machine.MACGrain/(product3(t.out)*product3(t.k)))
		return &graph.Kernel{Worker: t.room(), Code: t.listings, Phases: []graph.Phase{{Chunks: kit.DivUp(units, group),
			Run: func(m *graph.Mem, chunk int) error {
				r := t.run.Of(m)
				clear(m.Worker[:t.room()])
				last := -1
				for u := chunk * group; u < min(units, (chunk+1)*group); u++ {
					image, o := u/t.groups.o, u%t.groups.o
					if from := o / (t.groups.o / t.groups.groups); last != image*t.groups.groups+from {
						last = image*t.groups.groups + from
						t.load(m, unsafe.Add(m.Ptrs[1], (image*t.xs[0]+from*t.xs[1])*t.d.Size()))
					}
					t.channel(m, r, image, o)
				}
				r.release()
				return nil
			}}}}, nil
	})
}

// listings returns the machine code of the loops.
func (t *volumeTaps) listings() (list []expr.Listing) {
	for _, p := range t.sum.parts {
		list = append(list, p.loop.Listing("taps"))
	}
	return list
}

// load copies a channel into worker memory, between the zeros.
func (t *volumeTaps) load(m *graph.Mem, from unsafe.Pointer) {
	size, room := t.d.Size(), unsafe.Pointer(unsafe.SliceData(m.Worker))
	rows := min(t.in[1], t.padded[1]-t.pad[1])
	for d := range min(t.in[0], t.padded[0]-t.pad[0]) {
		plane := unsafe.Add(room, ((d+t.pad[0])*t.padded[1]+t.pad[1])*t.pitch()*size)
		for phase := range t.step[2] {
			first := ((phase-t.pad[2])%t.step[2] + t.step[2]) % t.step[2] // first column with that remainder
			n := kit.DivUp(min(t.in[2], t.padded[2]-t.pad[2])-first, t.step[2])
			if n <= 0 || rows <= 0 {
				continue
			}
			at := phase*t.row + (first+t.pad[2])/t.step[2]
			t.elem.Block(unsafe.Add(plane, at*size), unsafe.Add(from, (d*t.xs[2]+first*t.xs[4])*size),
				strided.Axis{N: n, Dst: size, Src: t.step[2] * t.xs[4] * size},
				strided.Axis{N: rows, Dst: t.pitch() * size, Src: t.xs[3] * size})
		}
	}
}

// channel computes a channel of the result, plane by plane.
func (t *volumeTaps) channel(m *graph.Mem, r *tapRun, image, o int) {
	size, room := t.d.Size(), unsafe.Pointer(unsafe.SliceData(m.Worker))
	r.reserve(product3(t.k))
	var bias stream
	if t.groups.hasBias {
		bias.ptr = unsafe.Add(m.Ptrs[3], (o*t.groups.bias)*size)
	}
	for d := range t.out[0] {
		for tap := range r.x {
			kd, kh, kw := tap/t.k[2]/t.k[1], tap/t.k[2]%t.k[1], tap%t.k[2]
			column := kw * t.dilated[2]
			row := (d*t.step[0]+kd*t.dilated[0])*t.padded[1] + kh*t.dilated[1]
			r.x[tap] = stream{unsafe.Add(room, (row*t.pitch()+column%t.step[2]*t.row+column/t.step[2])*size),
				t.step[1] * t.pitch() * size}
			r.w[tap] = stream{unsafe.Add(m.Ptrs[2], (o*t.ws[0]+kd*t.ws[2]+kh*t.ws[3]+kw*t.ws[4])*size), 0}
		}
		out := stream{unsafe.Add(m.Ptrs[0], (image*t.os[0]+o*t.os[1]+d*t.os[2])*size), t.os[3] * size}
		t.sum.run(r, out, bias, t.out[2], t.out[1])
	}
}

// tapsImpl is the depthwise implementation for volumes.
func (v convolution) tapsImpl() graph.Impl {
	usable := func(c *graph.Call) *volumeTaps {
		if c.Out[0].Numel() == 0 {
			return nil
		}
		return depthwiseVolume(v.volume(c), multiply.ComputesIn(c))
	}
	return graph.Impl{Name: "taps",
		Doc: "Sums the elements of windows channel by channel, in compiled loops over planes.",
		Walks: func(c *graph.Call, _ []tensor.Order) []graph.Walk {
			if usable(c) == nil {
				return nil
			}
			return []graph.Walk{{}}
		},
		Work: func(c *graph.Call, _ graph.Walk) graph.Work {
			w := graph.Work{Steps: 1}
			c.Streamed(&w)
			if t := usable(c); t != nil {
				rows := float64(t.n * t.groups.groups * t.in[0])
				w.Do(tapsPlanes, float64(c.Out[0].Numel()*product3(t.k)))
				w.Do(tapsTile, rows*float64(t.in[1]*t.in[2]))
				w.Do(tapsRow, rows*float64(t.in[1]))
				w.Do(tapsPlane, rows)
			}
			return w
		},
		Lower: v.lowerTaps,
	}
}
