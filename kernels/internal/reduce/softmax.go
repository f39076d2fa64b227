package reduce

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type softmaxAttrs struct {
	Dim   int          `attr:"dim" doc:"dimension along which the results sum to 1"`
	DType tensor.DType `attr:"dtype" default:"none" doc:"dtype to which self is converted first"`
}

// Softmax and LogSoftmax compute on float32 with exponentials and sums in float64.
var (
	Softmax    = softmaxOp("softmax", "Computes exp(x) over the sum of exp(x) along a dimension.", false)
	LogSoftmax = softmaxOp("log_softmax", "Computes the logarithm of softmax along a dimension.", true)
)

func softmaxOp(name, doc string, logs bool) *graph.Op {
	rows := func(c *graph.Call) (*graph.Rows, error) {
		dim, err := tensor.WrapDim(kit.Attrs[softmaxAttrs](c).Dim, c.Meta(0).Rank())
		if err != nil {
			return nil, err
		}
		return softmaxRows(c, dim, softmaxDType(c), logs)
	}
	return kit.Define[softmaxAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: []graph.Param{kit.Self},
			Infer: func(c *graph.Call) ([]graph.Result, error) { return inferSoftmax(c, name) },
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				dim, err := tensor.WrapDim(kit.Attrs[softmaxAttrs](c).Dim, in[0].Rank())
				if err != nil {
					return nil, err
				}
				return []*tensor.Tensor{softmaxReference(in[0], dim, softmaxDType(c), logs)}, nil
			},
			Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)}, Attrs: graph.Attrs{"dim": 1}}},
		},
		Facts: graph.Facts{AnyOrder: true},
		Lowerings: graph.Lowerings{
			Rows: rows,
			Impls: lineOp{
				dim:  dimOf(func(c *graph.Call) int { return kit.Attrs[softmaxAttrs](c).Dim }),
				each: graph.Each{Simple: 1, Function: 0.7}, rows: rows, attrs: &softmaxAttrs{Dim: 1},
				lower: func(c *graph.Call, dim int, by lineWalk) (*graph.Kernel, error) {
					if c.Out[0].Numel() == 0 {
						return &graph.Kernel{}, nil
					}
					if k, err := compileRows(c, by.rows(rows)); k != nil || err != nil {
						return k, err
					}
					d := softmaxDType(c)
					p := newLinePlan(c.Meta(0), dim, by, c.Out[0], nil, d, d.OpMath(), 8)
					if p.ld.Size == 4 {
						return softmaxKernel[float32](p, logs, kit.ExpShift32), nil
					}
					return softmaxKernel[float64](p, logs, kit.ExpShift64), nil
				}}.impls(),
		},
	})
}

// softmaxDType returns the dtype of the result.
func softmaxDType(c *graph.Call) tensor.DType {
	if d := kit.Attrs[softmaxAttrs](c).DType; d != tensor.Invalid {
		return d
	}
	return c.Type(0).DType
}

// inferSoftmax infers the op with the given name.
func inferSoftmax(c *graph.Call, name string) ([]graph.Result, error) {
	m, d := c.Type(0), softmaxDType(c)
	dim, err := tensor.WrapDim(kit.Attrs[softmaxAttrs](c).Dim, m.Rank())
	if err != nil {
		return nil, err
	}
	if !d.IsFloat() && !kit.Empty(m) {
		kernel := "softmax_kernel_impl"
		if dim >= m.Rank()-1 {
			kernel = name + "_lastdim_kernel_impl"
		}
		return nil, kit.NotImplementedBy(kernel, d)
	}
	return c.One(m.RowMajor().WithDType(d)), nil
}

// expShift writes e^(x-m) for each x into y, which may be x, and returns the sum.
type expShift[T float32 | float64] func(y, x []T, m T) float64

func softmaxKernel[T float32 | float64](p *linePlan, logs bool, exp expShift[T]) *graph.Kernel {
	size := int(unsafe.Sizeof(T(0)))
	if !p.rows {
		s := softmaxColumns[T]{p, logs, exp}
		return p.kernel(p.unit*(size+8), s.run)
	}
	k := p.kept[0]
	lineOut := p.line.Out[0]
	s := softmaxRow[T]{logs, exp}
	return p.kernel(p.line.N*size, func(r lineRoom, in, out unsafe.Pointer, n int) error {
		for j := range n {
			src, dst := unsafe.Add(in, j*k.In), unsafe.Add(out, j*k.Out[0])
			x := wholeLine(p, r, src)
			y := p.target(r.own, dst, lineOut, p.line.N)
			s.do(r.mem, unsafe.Slice((*T)(y), p.line.N), unsafe.Slice((*T)(x), p.line.N),
				unsafe.Slice((*T)(r.tmp), folds.BlockLen))
			p.written(y, dst, lineOut, p.line.N)
		}
		return nil
	})
}

// wholeLine returns the line at src as one block: in place, or copied to r.own.
func wholeLine(p *linePlan, r lineRoom, src unsafe.Pointer) unsafe.Pointer {
	n, step := p.line.N, p.line.In
	if p.ld.Direct && (step == p.ld.Size || n == 1) {
		return src
	}
	for i := 0; i < n; i += folds.BlockLen {
		r.look(i, 1)
		p.ld.Load(unsafe.Add(r.own, i*p.ld.Size), r.tmp, unsafe.Add(src, i*step), step, min(folds.BlockLen, n-i))
	}
	return r.own
}

type softmaxRow[T float32 | float64] struct {
	logs bool
	exp  expShift[T]
}

// do needs a block of memory in buf.
func (s *softmaxRow[T]) do(mem *graph.Mem, y, x, buf []T) {
	m, sum := T(math.Inf(-1)), 0.0
	kit.Blocks(mem.Context, len(x), func(begin, end int) { maxFour(&m, x[begin:end]) })
	if !s.logs {
		kit.Blocks(mem.Context, len(x), func(begin, end int) { sum += s.exp(y[begin:end], x[begin:end], m) })
		f := T(1 / sum)
		kit.Blocks(mem.Context, len(y), func(begin, end int) {
			part := y[begin:end]
			for i := range part {
				part[i] *= f
			}
		})
		return
	}
	kit.Blocks(mem.Context, len(x), func(begin, end int) {
		for at := begin; at < end; at += len(buf) {
			part := x[at:min(at+len(buf), end)]
			sum += s.exp(buf[:len(part)], part, m)
		}
	})
	shift := float64(m) + math.Log(sum)
	kit.Blocks(mem.Context, len(y), func(begin, end int) {
		to, from := y[begin:end], x[begin:end]
		for i, v := range from {
			to[i] = T(float64(v) - shift)
		}
	})
}

// maxFour is maxRow for values that are rarely NaN, with four independent maxima.
func maxFour[T float32 | float64](a *T, x []T) {
	m0, m1, m2, m3 := *a, *a, *a, *a
	for len(x) >= 4 {
		m0, m1, m2, m3 = max(m0, x[0]), max(m1, x[1]), max(m2, x[2]), max(m3, x[3])
		x = x[4:]
	}
	for _, v := range x {
		m0 = max(m0, v)
	}
	*a = max(max(m0, m1), max(m2, m3))
}

// softmaxColumns processes adjacent lines in three passes: maxima, sums, results.
type softmaxColumns[T float32 | float64] struct {
	p    *linePlan
	logs bool
	exp  expShift[T]
}

func (s softmaxColumns[T]) run(r lineRoom, in, out unsafe.Pointer, n int) error {
	p := s.p
	k := p.kept[0]
	sums := unsafe.Slice((*float64)(r.own), n)
	most := unsafe.Slice((*T)(unsafe.Add(r.own, 8*p.unit)), n)
	for i := range n {
		most[i], sums[i] = T(math.Inf(-1)), 0
	}
	column := func(i int) []T {
		return unsafe.Slice((*T)(p.ld.Run(r.buf, r.tmp, unsafe.Add(in, i*p.line.In), k.In, n)), n)
	}
	for i := range p.line.N {
		r.look(i, n)
		maxTo(most, column(i))
	}
	// If the output can hold the exponentials, they are kept there.
	keeps := !s.logs && p.plain && (k.Out[0] == p.size || n == 1)
	for i := range p.line.N {
		r.look(i, n)
		at := r.tmp
		if keeps {
			at = unsafe.Add(out, i*p.line.Out[0])
		}
		y := unsafe.Slice((*T)(at), n)
		s.shifted(y, column(i), most)
		folds.SumColumns(sums, y, 0)
	}
	for i := range n {
		if sums[i] = 1 / sums[i]; s.logs {
			sums[i] = float64(most[i]) - math.Log(sums[i])
		}
	}
	for i := range p.line.N {
		r.look(i, n)
		o := unsafe.Add(out, i*p.line.Out[0])
		at := p.target(r.tmp, o, k.Out[0], n)
		y := unsafe.Slice((*T)(at), n)
		if s.logs {
			for j, v := range column(i) {
				y[j] = T(float64(v) - sums[j])
			}
		} else {
			if !keeps {
				s.shifted(y, column(i), most)
			}
			for j := range y {
				y[j] *= T(sums[j])
			}
		}
		p.written(at, o, k.Out[0], n)
	}
	return nil
}

// shifted writes e^(x-most), with a shift for each element.
func (s *softmaxColumns[T]) shifted(y, x, most []T) {
	for i, v := range x {
		y[i] = v - most[i]
	}
	s.exp(y, y, 0)
}
