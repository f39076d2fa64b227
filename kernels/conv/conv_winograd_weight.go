package conv

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// packing is the form of the weight: what it is at the points, and behind that the weights themselves, as which it can
// be had again to the bit; no run reads those.
func (w *winogradConv) packing() graph.Packing {
	s := w.s
	return graph.Packing{
		Form:  fmt.Sprintf("float32 at the points of F(%dx%d,3x3) by %d", w.form.M, w.form.M, w.width),
		DType: tensor.Float32, Len: w.transformed() + s.o*s.c*9,
		Fill: func(dst, src *tensor.Tensor) {
			to := kit.ElementsOf[float32](dst.Pointer(), w.transformed()+s.o*s.c*9)
			for b := range w.blocks {
				w.fill(to, kit.ElementsOf[float32](src.Pointer(), src.Extent()), src.Strides, b)
			}
			plain := tensor.Must(tensor.Over(w.plain(), dst.Storage()))
			tensor.CopyElements(plain, src)
		},
		Unpack: func(dst, packed *tensor.Tensor) {
			tensor.CopyElements(dst, tensor.Must(tensor.Over(w.plain(), packed.Storage())))
		},
	}
}

// plain is how the weights lie behind what they are at the points.
func (w *winogradConv) plain() tensor.Meta {
	m := tensor.New(tensor.Float32, w.s.o, w.s.c, 3, 3)
	m.Offset = w.transformed()
	return m
}

// fill brings a block of output channels to the points, in float64, rounded once. Those that there are not are 0.
func (w *winogradConv) fill(to, from []float32, strides []int, block int) {
	s, points := w.s, w.form.Points()
	to = to[block*points*w.matrix():][:points*w.matrix()]
	first := block * w.width
	lanes := min(w.width, s.o-first)
	if lanes < w.width {
		clear(to)
	}
	var room [36 * 32]float32 // the most points by the widest block
	rows := room[:points*w.width]
	var g [3][3]float64
	for c := range s.c {
		for o := range lanes {
			at := (first+o)*strides[0] + c*strides[1]
			for k := range 9 {
				g[k/3][k%3] = float64(from[at+k/3*strides[2]+k%3*strides[3]])
			}
			u := w.form.Window(&g)
			for p := range points {
				rows[p*w.width+o] = float32(u[p])
			}
		}
		for p := range points {
			copy(to[p*w.matrix()+c*w.width:][:w.width], rows[p*w.width:][:w.width])
		}
	}
}

// inForm reports whether the weight comes at the points; else it comes as it is.
func (w *winogradConv) inForm() (bool, error) {
	is := w.s.call.Packed(1)
	if is == nil {
		return false, nil
	}
	if want := w.packing().Form; is.Form != want {
		return false, fmt.Errorf("operand 1 is packed as %s, and is wanted as %s", is.Form, want)
	}
	return true, nil
}
