package reduce

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter/axes"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type layerNormAttrs struct {
	NormalizedShape []sym.Int `attr:"normalized_shape" doc:"the last sizes of the input, over which it is normalised"`
	Eps             float64   `attr:"eps" default:"1e-5" doc:"added to the variance"`
	CuDNN           bool      `attr:"cudnn_enable" default:"true" doc:"of no effect"`
}

// LayerNorm normalises over the last dimensions; the result is row-major.
var LayerNorm = kit.Define[layerNormAttrs](graph.Op{
	Name:   "layer_norm",
	Doc:    "Normalises over the last dimensions, then scales by weight and adds bias, both of normalized_shape. The result is row-major.",
	Params: []graph.Param{kit.Input, kit.OptWeight, kit.OptBias},
	Infer:  inferLayerNorm,
	Compile: func(c *graph.Call) (*graph.Kernel, error) {
		if c.Meta(0).DType.OpMath() == tensor.Float32 {
			return newLayerNorm[float32](c), nil
		}
		return newLayerNorm[float64](c), nil
	},
	Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		a := kit.Attrs[layerNormAttrs](c)
		in = append(slices.Clone(in), nil, nil)[:3]
		shape := in[0].Shape
		first := len(shape) - len(a.NormalizedShape)
		ravel := func(index, shape []int) int {
			i := 0
			for d, s := range shape {
				i = i*s + index[d]
			}
			return i
		}
		return []*tensor.Tensor{normReference(in[0], a.Eps, func(index []int) int { return ravel(index, shape[:first]) },
			func(index []int) int { return ravel(index[first:], shape[first:]) }, in[1], in[2], nil, nil)}, nil
	},
	Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4), tensor.New(tensor.Float32, 4), tensor.New(tensor.Float32, 4)},
		Attrs: graph.Attrs{"normalized_shape": []int{4}}}},
})

func inferLayerNorm(c *graph.Call) ([]graph.Result, error) {
	shape, m := kit.Attrs[layerNormAttrs](c).NormalizedShape, c.Type(0)
	if len(shape) == 0 {
		return nil, fmt.Errorf("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []")
	}
	for i, name := range []string{"weight", "bias"} {
		if p := c.Type(i + 1); c.Has(i+1) && !tensor.SameSizes(p.Shape, shape) {
			return nil, fmt.Errorf("Expected %s to be of same shape as normalized_shape, but got %s of shape %s and normalized_shape = %s",
				name, name, tensor.Sizes(p.Shape), tensor.Sizes(shape))
		}
	}
	if first := m.Rank() - len(shape); first < 0 || !tensor.SameSizes(m.Shape[first:], shape) {
		list := tensor.Sizes(shape)
		return nil, fmt.Errorf("Given normalized_shape=%s, expected input with shape [*, %s, but got input of size%s", list, list[1:], tensor.Sizes(m.Shape))
	}
	if !m.DType.IsFloat() {
		return nil, kit.NotImplementedBy("LayerNormKernelImpl", m.DType)
	}
	if err := normDTypes(c, 1, 2); err != nil {
		return nil, err
	}
	return graph.New1(tensor.NewType(m.DType, m.Shape...)), nil
}

// layerNorm normalises rows: the positions of the kept axes, each with the whole run over
// the normalised ones, which is gathered where it is not contiguous.
type layerNorm[T float32 | float64] struct {
	kept, row []axes.Axis
	n         int
	rows      int
	eps       float64
	ld        axes.Loader
	out       tensor.Meta
	store     tensor.ConvertFunc
	// params are weight and bias: given as they are needed, or gathered into scratch.
	params [2]layerParam
}

type layerParam struct {
	given, copied bool
	meta          tensor.Meta
	at            int // in scratch
}

func newLayerNorm[T float32 | float64](c *graph.Call) *graph.Kernel {
	m, loops := c.Meta(0), c.Meta(0).DType.OpMath()
	mask := make([]bool, m.Rank())
	for d := m.Rank() - len(kit.Attrs[layerNormAttrs](c).NormalizedShape); d < m.Rank(); d++ {
		mask[d] = true
	}
	l := &layerNorm[T]{eps: kit.Attrs[layerNormAttrs](c).Eps, out: c.Out[0], ld: axes.NewLoader(m.DType, m.DType, loops), store: tensor.Converter(m.DType, loops)}
	l.kept, l.row = axes.Split(axes.Dims(m, c.Out...), mask, true)
	l.n, l.rows = axes.Numel(l.row), axes.Numel(l.kept)
	k := &graph.Kernel{}
	if m.Numel() == 0 {
		return k
	}
	if m.SameAddresses(c.Out[0]) {
		k.InPlace = []graph.InPlace{{Out: 0, In: 0}}
	}
	size := loops.Size()
	k.Worker = 2*kit.AlignUp(8*(len(l.kept)+len(l.row))) + axes.BlockBytes + 2*kit.AlignUp(l.n*size)
	copies := false
	for i := range l.params {
		p := &l.params[i]
		*p = layerParam{given: c.Has(i + 1), meta: c.Meta(i + 1), at: k.Scratch}
		if p.given && (p.meta.DType != loops || !p.meta.IsContiguous()) {
			p.copied, copies = true, true
			k.Scratch += kit.AlignUp(l.n * size)
		}
	}
	if copies {
		k.Phases = append(k.Phases, graph.Phase{Chunks: 2, Run: func(m *graph.Mem, chunk int) error {
			l.copyParam(m, chunk)
			return nil
		}})
	}
	perChunk := max(1, machine.ReduceGrain/2/l.n)
	k.Phases = append(k.Phases, graph.Phase{Chunks: (l.rows + perChunk - 1) / perChunk, Run: func(m *graph.Mem, chunk int) error {
		l.run(m, chunk*perChunk, min((chunk+1)*perChunk, l.rows))
		return nil
	}})
	return k
}

// copyParam gathers weight (0) or bias (1) into scratch.
func (l *layerNorm[T]) copyParam(m *graph.Mem, i int) {
	p := &l.params[i]
	if !p.copied {
		return
	}
	var z T
	size, last := int(unsafe.Sizeof(z)), p.meta.Rank()-1
	cv := tensor.Converter(tensor.DTypeOf[T](), p.meta.DType)
	at, n := p.at, p.meta.Shape[last]
	step := p.meta.Strides[last] * p.meta.DType.Size()
	tensor.Meta{Shape: p.meta.Shape[:last], Strides: p.meta.Strides[:last]}.Walk(func(off int) {
		cv(unsafe.Pointer(&m.Scratch[at]), unsafe.Add(m.Ptrs[2+i], off*p.meta.DType.Size()), size, step, n)
		at += n * size
	})
}

func (l *layerNorm[T]) param(m *graph.Mem, i int) []T {
	switch p := &l.params[i]; {
	case !p.given:
		return nil
	case p.copied:
		return unsafe.Slice((*T)(unsafe.Pointer(&m.Scratch[p.at])), l.n)
	}
	return unsafe.Slice((*T)(m.Ptrs[2+i]), l.n)
}

func (l *layerNorm[T]) run(m *graph.Mem, begin, end int) {
	r := kit.RegionOf(m.Worker)
	kept := axes.Walker{Axes: l.kept, At: r.Ints(len(l.kept))}
	inner := axes.Walker{Axes: l.row[1:], At: r.Ints(len(l.row) - 1)}
	tmp := r.Take(folds.BlockLen * 16)
	buf, res := r.Take(l.n*l.ld.Size), r.Take(l.n*l.ld.Size)
	w, b := l.param(m, 0), l.param(m, 1)
	for i := begin; i < end; i++ {
		kept.Seek(i)
		x := unsafe.Slice((*T)(l.load(&inner, buf, tmp, unsafe.Add(m.Ptrs[1], kept.Off))), l.n)
		dst := unsafe.Add(m.Ptrs[0], kept.Out[0])
		y := res
		if l.ld.Direct {
			y = dst
		}
		normalizeRow(unsafe.Slice((*T)(y), l.n), x, w, b, l.eps)
		if y != dst {
			l.store(dst, y, l.out.DType.Size(), l.ld.Size, l.n)
		}
	}
}

// load returns the row at src as one block: the memory itself, or buf, filled.
func (l *layerNorm[T]) load(w *axes.Walker, buf, tmp, src unsafe.Pointer) unsafe.Pointer {
	k := l.row[0]
	if l.ld.Direct && len(l.row) == 1 && (k.In == l.ld.Size || k.N == 1) {
		return src
	}
	w.Seek(0)
	for at := 0; at < l.n; at += k.N {
		run := unsafe.Add(src, w.Off)
		for i := 0; i < k.N; i += folds.BlockLen {
			l.ld.Load(unsafe.Add(buf, (at+i)*l.ld.Size), tmp, unsafe.Add(run, i*k.In), k.In, min(folds.BlockLen, k.N-i))
		}
		w.Next()
	}
	return buf
}

// normalizeRow takes mean and variance in float64.
func normalizeRow[T float32 | float64](y, x, w, b []T, eps float64) {
	var sum float64
	folds.SumRow(&sum, x, 0)
	n := float64(len(x))
	mu := sum / n
	f := T(1 / math.Sqrt(folds.Squares(x, mu)/n+eps))
	mean := T(mu)
	y = y[:len(x)]
	switch {
	case w != nil && b != nil:
		w, b = w[:len(x)], b[:len(x)]
		for i, v := range x {
			y[i] = (v-mean)*f*w[i] + b[i]
		}
		return
	case w != nil:
		w = w[:len(x)]
		for i, v := range x {
			y[i] = (v - mean) * f * w[i]
		}
		return
	}
	for i, v := range x {
		y[i] = (v - mean) * f
	}
	if b != nil {
		b = b[:len(x)]
		for i := range y {
			y[i] += b[i]
		}
	}
}
