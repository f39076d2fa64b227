package window

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type gridSamplerAttrs struct {
	InterpolationMode int  `attr:"interpolation_mode" default:"0" doc:"0 bilinear, 1 nearest, 2 bicubic (images only)"`
	PaddingMode       int  `attr:"padding_mode" default:"0" doc:"values outside the input: 0 zeros, 1 border, 2 reflection"`
	AlignCorners      bool `attr:"align_corners" default:"false" doc:"-1 and 1 are the centres of the outermost elements, not their edges"`
}

// GridSampler is aten::grid_sampler.
var GridSampler = kit.Define[gridSamplerAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "grid_sampler",
		Doc: "Samples images [N,C,H,W] at the positions (x, y) of a grid [N,h,w,2], or volumes [N,C,D,H,W] at " +
			"(x, y, z) of [N,d,h,w,3]. Coordinates range from -1 to 1.",
		Params: []graph.Param{kit.Input, {Name: "grid"}},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			t, g := c.Type(0), c.Type(1)
			if err := gridCheck(kit.Attrs[gridSamplerAttrs](c), t, g); err != nil {
				return nil, err
			}
			out, err := kit.FreshType(t.DType, kit.ReplaceSizes(t.Shape, 2, g.Shape[1:g.Rank()-1]...))
			return c.One(out), err
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			return []*tensor.Tensor{newGridSampling(c).reference(in[0], in[1])}, nil
		},
		Examples: []graph.Example{
			{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5), kit.F32(2, 3, 2, 2)},
				Attrs: graph.Attrs{"interpolation_mode": 2, "padding_mode": 2}},
			{In: []tensor.Meta{kit.F32(1, 2, 3, 4, 5), kit.F32(1, 2, 3, 2, 3)},
				Attrs: graph.Attrs{"padding_mode": 1, "align_corners": true}}},
	},
	Facts: graph.Facts{AnyOrder: true, Parallel: func(c *graph.Call) []graph.Parallel {
		return kit.BatchLoop(c.Meta(0).Rank(), 0, 1)(c)
	}},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			if c.Out[0].Numel() == 0 {
				return &graph.Kernel{}, nil
			}
			return newGridSampling(c).kernel(c), nil
		},
	},
})

// gridCheck makes the checks of aten::grid_sampler for operand t and grid g.
func gridCheck(a *gridSamplerAttrs, t, g tensor.Type) error {
	n := t.Rank()
	switch {
	case n != g.Rank() || n != 4 && n != 5:
		return fmt.Errorf("grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input "+
			"with sizes %s and grid with sizes %s", tensor.Sizes(t.Shape), tensor.Sizes(g.Shape))
	case t.Shape[0].Ne(g.Shape[0]).Holds():
		return fmt.Errorf("grid_sampler(): expected grid and input to have same batch size, but got input with sizes %s "+
			"and grid with sizes %s", tensor.Sizes(t.Shape), tensor.Sizes(g.Shape))
	case !kit.SizeIs(g.Shape[n-1], n-2):
		return fmt.Errorf("grid_sampler(): expected grid to have size %d in last dimension, but got grid with sizes %s", n-2,
			tensor.Sizes(g.Shape))
	case t.DType != g.DType:
		return errors.New("grid_sampler(): expected input and grid to have same dtype")
	case n == 5 && a.InterpolationMode == 2:
		return errors.New("grid_sampler(): bicubic interpolation only supports 4D input")
	case a.InterpolationMode < 0 || a.InterpolationMode > 2 || a.PaddingMode < 0 || a.PaddingMode > 2:
		return errors.New("grid_sampler(): unknown interpolation_mode or padding_mode")
	case !t.DType.IsFloat():
		return kit.NotImplementedBy("grid_sampler_2d_cpu", t.DType)
	}
	for d := 2; d < n; d++ {
		if !kit.AtLeastSize(t.Shape[d], 1) {
			return fmt.Errorf("grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes %s "+
				"with dimension %d being empty", tensor.Sizes(t.Shape), d)
		}
	}
	return nil
}

// gridTap is an element that a sample reads.
type gridTap struct {
	offset int // offset in the operand, in the unit of gridAxis.step
	weight float64
}

// gridAxis is a spatial dimension of the operand. step is its stride, in bytes in kernels and in elements in the
// reference.
type gridAxis struct{ size, step int }

// gridSampling describes a call of grid_sampler. It computes the taps of samples.
type gridSampling struct {
	attrs *gridSamplerAttrs
	axes  []gridAxis
	dtype tensor.DType // dtype of operand, grid and result
}

func newGridSampling(c *graph.Call) *gridSampling {
	m := c.Meta(0)
	s := &gridSampling{attrs: kit.Attrs[gridSamplerAttrs](c), dtype: m.DType}
	for d := 2; d < m.Rank(); d++ {
		s.axes = append(s.axes, gridAxis{m.Shape[d], kit.StepAt(m, d)})
	}
	return s
}

// position maps a grid coordinate to a fractional index.
func (s *gridSampling) position(x float64, size int) float64 {
	if s.attrs.AlignCorners {
		return (x + 1) / 2 * float64(size-1)
	}
	return (float64((x+1)*float64(size)) - 1) / 2
}

// padded maps an index outside the axis to an index inside, as the padding mode requires. Zero padding keeps the index.
func (s *gridSampling) padded(x float64, size int) float64 {
	switch s.attrs.PaddingMode {
	case 1:
		return s.clip(x, size)
	case 2:
		low, span := -0.5, float64(size)
		if s.attrs.AlignCorners {
			low, span = 0, float64(size-1)
		}
		if span == 0 {
			return 0
		}
		x = math.Abs(x - low)
		flips, extra := math.Floor(x/span), math.Mod(x, span)
		if math.Mod(flips, 2) == 0 {
			x = extra + low
		} else {
			x = span - extra + low
		}
		return s.clip(x, size)
	}
	return x
}

// clip clamps an index to the axis. NaN becomes the first index of images and the last index of volumes, because
// PyTorch's vector and scalar comparisons differ.
func (s *gridSampling) clip(x float64, size int) float64 {
	switch last := float64(size - 1); {
	case x > last, x != x && len(s.axes) == 3:
		return last
	case x > 0:
		return x
	}
	return 0
}

// undefined reports whether the weights of a sample are NaN because a coordinate is not finite. For volumes, and for
// positions that are clipped before weights are computed, weights are never NaN. get returns coordinate k.
func (s *gridSampling) undefined(get func(k int) float64) bool {
	if len(s.axes) == 3 || s.attrs.InterpolationMode == 1 || s.attrs.InterpolationMode == 0 && s.attrs.PaddingMode != 0 {
		return false
	}
	x, y := get(0), get(1)
	return x-x != 0 || y-y != 0
}

// coordinateTaps stores the taps of coordinate x along one axis in room, and returns the number of taps.
func (s *gridSampling) coordinateTaps(x float64, ax gridAxis, room *[4]gridTap) int {
	n := 0
	add := func(at, w float64) {
		if at >= 0 && at < float64(ax.size) {
			room[n] = gridTap{int(at) * ax.step, w}
			n++
		}
	}
	at := s.position(x, ax.size)
	switch s.attrs.InterpolationMode {
	case 1:
		add(math.RoundToEven(s.padded(at, ax.size)), 1)
	case 2:
		base := math.Floor(at)
		for k, w := range cubicWeights(at-base, -0.75) {
			add(s.padded(base-1+float64(k), ax.size), w)
		}
	default:
		at = s.padded(at, ax.size)
		base := math.Floor(at)
		add(base, 1-(at-base))
		add(base+1, at-base)
	}
	return n
}

// taps stores the taps of a sample in room, and returns the number of taps. get returns coordinate k. Coordinate 0
// belongs to the last dimension.
func (s *gridSampling) taps(get func(k int) float64, room *[16]gridTap) int {
	room[0] = gridTap{0, 1}
	if s.undefined(get) {
		room[0].weight = math.NaN()
		return 1
	}
	n := 1
	for d, ax := range s.axes {
		var axisTaps [4]gridTap
		k := s.coordinateTaps(get(len(s.axes)-1-d), ax, &axisTaps)
		var next [16]gridTap
		m := 0
		for _, t := range room[:n] {
			for _, u := range axisTaps[:k] {
				next[m] = gridTap{t.offset + u.offset, t.weight * u.weight}
				m++
			}
		}
		*room = next
		n = m
	}
	return n
}

// kernel returns a kernel that computes one sample after another, each for all channels.
func (s *gridSampling) kernel(c *graph.Call) *graph.Kernel {
	m, g, out := c.Meta(0), c.Meta(1), c.Out[0]
	chans, last := m.Shape[1], g.Rank()-1
	grid := tensor.Meta{DType: g.DType, Shape: g.Shape[:last], Strides: g.Strides[:last]}
	dst := tensor.Meta{DType: out.DType, Shape: g.Shape[:last], Strides: append([]int{out.Strides[0]}, out.Strides[2:]...)}
	src := tensor.Meta{DType: m.DType, Shape: g.Shape[:last], Strides: make([]int, last)}
	src.Strides[0] = m.Strides[0]
	l := kit.NewLineSet(append(append([]int{}, g.Shape[:last]...), 1), last)
	l.Strides = [][]int{kit.ByteStrides(grid), kit.ByteStrides(dst), kit.ByteStrides(src)}
	read, write := tensor.Converter(tensor.Float64, m.DType), tensor.Converter(m.DType, tensor.Float64)
	gs, from, to := kit.StepAt(g, last), kit.StepAt(m, 1), kit.StepAt(out, 1)
	return &graph.Kernel{Phases: []graph.Phase{l.Phase(8*chans+16, func(mem *graph.Mem, off [4]int) error {
		var xyz [3]float64
		at := unsafe.Add(mem.Ptrs[2], off[0])
		for k := range s.axes {
			read(unsafe.Pointer(&xyz[k]), unsafe.Add(at, k*gs), 0, 0, 1)
		}
		var taps [16]gridTap
		n := s.taps(func(k int) float64 { return xyz[k] }, &taps)
		x, y := unsafe.Add(mem.Ptrs[1], off[2]), unsafe.Add(mem.Ptrs[0], off[1])
		for ch := range chans {
			sum := 0.0
			for _, t := range taps[:n] {
				p := unsafe.Add(x, ch*from+t.offset)
				switch s.dtype {
				case tensor.Float32:
					sum += float64(t.weight * float64(*(*float32)(p)))
				case tensor.Float64:
					sum += float64(t.weight * *(*float64)(p))
				default:
					var v float64
					read(unsafe.Pointer(&v), p, 0, 0, 1)
					sum += float64(t.weight * v)
				}
			}
			write(unsafe.Add(y, ch*to), unsafe.Pointer(&sum), 0, 0, 1)
			mem.Count(2 + n)
		}
		return nil
	})}}
}

// reference computes each sample of each channel separately.
func (s *gridSampling) reference(x, grid *tensor.Tensor) *tensor.Tensor {
	x = x.CopyTo(tensor.New(x.DType, x.Shape...))
	r := *s
	r.axes = nil
	for d := 2; d < x.Rank(); d++ {
		r.axes = append(r.axes, gridAxis{x.Shape[d], x.Strides[d]})
	}
	last := grid.Rank() - 1
	out := tensor.Zeros(x.DType, append([]int{x.Shape[0], x.Shape[1]}, grid.Shape[1:last]...)...)
	flat := tensor.Must(x.View(tensor.New(x.DType, x.Shape[0], x.Shape[1], tensor.Numel(x.Shape[2:]))))
	kit.EachIndex(out.Shape, func(at []int) {
		point := append([]int{at[0]}, at[2:]...)
		var taps [16]gridTap
		n := r.taps(func(k int) float64 { return grid.At(append(point, k)...).Float() }, &taps)
		sum := 0.0
		for _, t := range taps[:n] {
			sum += float64(t.weight * flat.At(at[0], at[1], t.offset).Float())
		}
		out.Set(tensor.FloatScalar(sum), at...)
	})
	return out
}

type affineGridAttrs struct {
	Size         []sym.Int `attr:"size" doc:"sizes of the images or volumes to sample, [N,C,H,W] or [N,C,D,H,W]"`
	AlignCorners bool      `attr:"align_corners" default:"false" doc:"-1 and 1 are the centres of the outermost elements, not their edges"`
}

// AffineGridGenerator is aten::affine_grid_generator.
var AffineGridGenerator = kit.Define[affineGridAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:   "affine_grid_generator",
		Doc:    "Creates the grid with which grid_sampler applies affine maps theta, [N,2,3] or [N,3,4].",
		Params: []graph.Param{{Name: "theta"}},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			a, t := kit.Attrs[affineGridAttrs](c), c.Type(0)
			n := len(a.Size) - 2
			if n != 2 && n != 3 {
				return nil, errors.New("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
			}
			if t.Rank() != 3 || t.Shape[0].Ne(a.Size[0]).Holds() || !kit.SizeIs(t.Shape[1], n) || !kit.SizeIs(t.Shape[2], n+1) {
				return nil, fmt.Errorf("Expected a batch of %dD affine matrices of shape Nx%dx%d for size %s. Got %s.", n, n, n+1,
					tensor.Sizes(a.Size), tensor.Sizes(t.Shape))
			}
			if t.DType == tensor.Bool {
				return nil, kit.NotImplementedBy("linspace_cpu", t.DType)
			}
			out, err := kit.FreshType(t.DType, affineShape(a.Size))
			return c.One(out), err
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			switch d := in[0].DType; {
			case d.IsComplex():
				return affineReference[complex128](c, in[0]), nil
			case d.IsFloat():
				return affineReference[float64](c, in[0]), nil
			}
			return affineReference[int64](c, in[0]), nil
		},
		Examples: kit.OneExample(kit.F32(2, 2, 3), graph.Attrs{"size": []int{2, 1, 3, 4}}),
	},
	Facts: graph.Facts{AnyOrder: true},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			switch d := c.Meta(0).DType; {
			case d.IsComplex():
				return affineKernel[complex128](c)
			case d.IsFloat():
				return affineKernel[float64](c)
			}
			return affineKernel[int64](c)
		},
	},
})

// affineKernel computes a grid in T, the widest dtype of theta's kind.
func affineKernel[T kit.Widest](c *graph.Call) (*graph.Kernel, error) {
	out, th := c.Out[0], c.Meta(0)
	n := out.Rank() - 2
	l := kit.NewLineSet(out.Shape, n+1, out)
	if out.Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	var coordinates [3][]T
	for k := range n {
		coordinates[k] = affineCoordinates[T](out.Shape[n-k], th.DType, kit.Attrs[affineGridAttrs](c).AlignCorners)
	}
	size, d := th.DType.Size(), tensor.DTypeOf[T]()
	read, write := tensor.Converter(d, th.DType), tensor.Converter(th.DType, d)
	const group = machine.GatherGrain / 16 // positions of a chunk
	chunks := kit.DivUp(l.Count, group)
	return &graph.Kernel{Phases: []graph.Phase{{Chunks: chunks, Run: func(m *graph.Mem, chunk int) error {
		for i := chunk * group; i < min(l.Count, (chunk+1)*group); i++ {
			var x [3]T
			rest := i
			for k := range n {
				sz := out.Shape[n-k]
				x[k] = coordinates[k][rest%sz]
				rest /= sz
			}
			dst := unsafe.Add(m.Ptrs[0], l.At(i)[0])
			for r := range n {
				var sum T
				for k := range n + 1 {
					var v T
					read(unsafe.Pointer(&v), unsafe.Add(m.Ptrs[1], (rest*th.Strides[0]+r*th.Strides[1]+k*th.Strides[2])*size), 0, 0, 1)
					if k < n {
						v *= x[k]
					}
					sum += v
				}
				write(unsafe.Add(dst, r*kit.StepAt(out, n+1)), unsafe.Pointer(&sum), 0, 0, 1)
			}
		}
		return nil
	}}}}, nil
}

// affineReference is the reference implementation of affineKernel.
func affineReference[T kit.Widest](c *graph.Call, th *tensor.Tensor) []*tensor.Tensor {
	a := kit.Attrs[affineGridAttrs](c)
	n := len(a.Size) - 2
	out := tensor.Zeros(th.DType, kit.KnownSizes(affineShape(a.Size))...)
	kit.EachIndex(out.Shape, func(at []int) {
		sum := kit.WidestOf[T](th.At(at[0], at[n+1], n))
		for k := range n {
			x := affineCoordinates[T](out.Shape[n-k], th.DType, a.AlignCorners)[at[n-k]]
			sum += T(kit.WidestOf[T](th.At(at[0], at[n+1], k)) * x)
		}
		s, _ := tensor.ScalarOf(sum)
		out.Set(s, at...)
	})
	return []*tensor.Tensor{out}
}

// affineShape returns the shape of the grid for images or volumes of the given sizes.
func affineShape(size []sym.Int) []sym.Int {
	return append(append([]sym.Int{size[0]}, size[2:]...), sym.Of(len(size)-2))
}

// affineCoordinates returns the coordinates of n elements along a dimension, from -1 to 1. Integer coordinates are the
// numbers of linspace. Without align, these numbers are multiplied by n-1, divided by n as floats, and truncated.
func affineCoordinates[T kit.Widest](n int, d tensor.DType, align bool) []T {
	coordinates := make([]T, n)
	if n <= 1 {
		return coordinates
	}
	for i := range coordinates {
		x := tensor.FloatScalar((2*float64(i)+1)/float64(n) - 1)
		switch {
		case d.IsIntegral(true):
			x = kit.LinspaceElement(tensor.IntScalar(-1), tensor.IntScalar(1), n, d)(i).Tensor(d).At()
			if !align {
				product := tensor.IntScalar(x.Int() * int64(n-1)).Tensor(d).At()
				x = tensor.IntScalar(int64(float32(product.Int()) / float32(n)))
			}
		case align:
			x = tensor.FloatScalar(2*float64(i)/float64(n-1) - 1)
		}
		coordinates[i] = kit.WidestOf[T](x)
	}
	return coordinates
}
