package kernels

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// reduceSpec is a reduction of one call: what Infer, Compile and Ref derive from.
type reduceSpec struct {
	mask    []bool // by dimension of the operand: is it reduced
	keepdim bool
	cast    tensor.DType   // the operand is converted to it first, as PyTorch does
	outs    []tensor.DType // dtypes of the results
	fold    func() *fold
	// ref computes the results of one run of values, of dtype cast, in logical order.
	ref func(x []tensor.Scalar) []tensor.Scalar
}

// reductionOp defines an op of one operand by its spec.
func reductionOp[A any](o graph.Op, spec func(c *graph.Call) (reduceSpec, error)) *graph.Op {
	o.Params = []graph.Param{self}
	o.Infer = func(c *graph.Call) ([]graph.Result, error) {
		s, err := spec(c)
		if err != nil {
			return nil, err
		}
		return s.infer(c.Meta(0)), nil
	}
	o.Compile = func(c *graph.Call) (*graph.Kernel, error) {
		s, err := spec(c)
		if err != nil {
			return nil, err
		}
		return s.compile(c), nil
	}
	o.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		s, err := spec(c)
		if err != nil {
			return nil, err
		}
		return s.reference(in[0]), nil
	}
	return define[A](o)
}

func (s *reduceSpec) compile(c *graph.Call) *graph.Kernel {
	p := newReducePlan(c.Meta(0), s.mask, c.Out, s.cast, s.fold())
	k := &graph.Kernel{Scratch: p.scratch(), Worker: p.worker()}
	outs := len(c.Out)
	k.Phases = p.phases(func(m *graph.Mem) reduceWhere {
		w := reduceWhere{in: m.Ptrs[outs], scratch: m.Scratch}
		copy(w.outs[:], m.Ptrs[:outs])
		return w
	})
	return k
}

// reduceMask marks the reduced dimensions; no dims means all. A 0-dim operand takes the
// dims 0 and -1.
func reduceMask(dims []int, rank int) ([]bool, error) {
	seen := make([]bool, max(rank, 1))
	for _, d := range dims {
		w, err := tensor.WrapDim(d, rank)
		if err != nil {
			return nil, err
		}
		if seen[w] {
			return nil, fmt.Errorf("dim %d appears multiple times in the list of dims", w)
		}
		seen[w] = true
	}
	if len(dims) == 0 {
		for d := range seen {
			seen[d] = true
		}
	}
	return seen[:rank], nil
}

// oneDim is reduceMask for an op that takes one dimension or none.
func oneDim(dim *int, rank int) ([]bool, error) {
	if dim == nil {
		return reduceMask(nil, rank)
	}
	return reduceMask([]int{*dim}, rank)
}

func (s *reduceSpec) shape(in []int) []int {
	out := make([]int, 0, len(in))
	for d, n := range in {
		if !s.mask[d] {
			out = append(out, n)
		} else if s.keepdim {
			out = append(out, 1)
		}
	}
	return out
}

// reduceCount returns the number of elements that make one result.
func reduceCount(shape []int, mask []bool) int {
	n := 1
	for d, s := range shape {
		if mask[d] {
			n *= s
		}
	}
	return n
}

// infer: reductions lay their results out row-major whatever the operand's layout.
func (s *reduceSpec) infer(m tensor.Meta) []graph.Result {
	shape := s.shape(m.Shape)
	res := make([]graph.Result, len(s.outs))
	for i, d := range s.outs {
		res[i] = graph.Result{Meta: tensor.New(d, shape...), Alias: graph.Fresh}
	}
	return res
}

func (s *reduceSpec) reference(t *tensor.Tensor) []*tensor.Tensor {
	t = t.CopyTo(tensor.New(s.cast, t.Shape...))
	outs := make([]*tensor.Tensor, len(s.outs))
	keep := reduceSpec{mask: s.mask, keepdim: true}
	shape := keep.shape(t.Shape)
	for i, d := range s.outs {
		outs[i] = tensor.Zeros(d, shape...)
	}
	run := make([]int, len(shape))
	for d := range run {
		run[d] = 1
		if s.mask[d] {
			run[d] = t.Shape[d]
		}
	}
	at := make([]int, len(shape))
	x := make([]tensor.Scalar, 0, tensor.Numel(run))
	eachIndex(shape, func(index []int) {
		x = x[:0]
		eachIndex(run, func(r []int) {
			for d := range at {
				at[d] = index[d] + r[d]
			}
			x = append(x, t.At(at...))
		})
		for i, y := range s.ref(x) {
			outs[i].Set(y, index...)
		}
	})
	for i, o := range outs {
		outs[i] = tensor.Must(o.View(tensor.New(o.DType, s.shape(t.Shape)...)))
	}
	return outs
}

// reduceAxis is a dimension of a walk, with the steps in bytes of the operand and of each
// output.
type reduceAxis struct {
	n, in int
	out   [2]int
}

// splitAxes splits the dimensions of an operand into kept and reduced ones, fastest in the
// operand first, neighbours that form one run merged. Outputs have the operand's shape,
// or that without the reduced dimensions, or with size 1 there. inOrder leaves the reduced ones in
// logical order, so that the position of an element in the walk is its logical index.
func splitAxes(m tensor.Meta, mask []bool, outs []tensor.Meta, inOrder bool) (kept, red []reduceAxis) {
	size := m.DType.Size()
	od := 0
	for d, n := range m.Shape {
		a := reduceAxis{n: n, in: m.Strides[d] * size}
		keep := !mask[d]
		for i, o := range outs {
			switch {
			case len(o.Shape) == len(m.Shape):
				if o.Shape[d] == n {
					a.out[i] = o.Strides[d] * o.DType.Size()
				}
			case keep:
				a.out[i] = o.Strides[od] * o.DType.Size()
			}
		}
		if keep {
			od++
			kept = append(kept, a)
		} else {
			red = append(red, a)
		}
	}
	slices.Reverse(kept)
	slices.Reverse(red)
	byStride := func(a, b reduceAxis) int { return a.in - b.in }
	slices.SortStableFunc(kept, byStride)
	if !inOrder {
		slices.SortStableFunc(red, byStride)
	}
	return mergeAxes(kept), mergeAxes(red)
}

// mergeAxes drops dimensions of size 1 and merges those that form one run. There is
// always one left.
func mergeAxes(v []reduceAxis) []reduceAxis {
	out := make([]reduceAxis, 0, max(len(v), 1))
	for _, a := range v {
		if a.n == 1 {
			continue
		}
		if k := len(out) - 1; k >= 0 {
			l := &out[k]
			if l.n*l.in == a.in && l.n*l.out[0] == a.out[0] && l.n*l.out[1] == a.out[1] {
				l.n *= a.n
				continue
			}
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		out = append(out, reduceAxis{n: 1})
	}
	return out
}

func axesNumel(v []reduceAxis) int {
	n := 1
	for _, a := range v {
		n *= a.n
	}
	return n
}

// walker runs over the positions of some axes in order. at is its counter.
type walker struct {
	axes []reduceAxis
	at   []int
	off  int // bytes in the operand
	out  [2]int
}

func (w *walker) seek(i int) {
	w.off, w.out = 0, [2]int{}
	for d, a := range w.axes {
		k := i
		if a.n > 0 {
			k = i % a.n
			i /= a.n
		}
		w.at[d] = k
		w.off += k * a.in
		w.out[0] += k * a.out[0]
		w.out[1] += k * a.out[1]
	}
}

// next advances by one position, in the operand only.
func (w *walker) next() {
	for d := range w.axes {
		a := &w.axes[d]
		w.off += a.in
		if w.at[d]++; w.at[d] < a.n {
			return
		}
		w.off -= a.n * a.in
		w.at[d] = 0
	}
}

// loader brings runs of an operand into contiguous blocks of the dtype that loops take.
type loader struct {
	size        int // of an element as loops see it
	first, then tensor.ConvertFunc
	stride      int  // of an element as the operand holds it
	middle      int  // size after the first of two conversions
	direct      bool // no conversion: a contiguous run serves as it lies
}

// newLoader converts from to by way of cast, the dtype to which PyTorch casts first.
func newLoader(from, cast, to tensor.DType) loader {
	l := loader{size: to.Size(), stride: from.Size(), first: tensor.Converter(to, from), direct: from == to && cast == to}
	if from != cast && cast != to {
		l.first, l.then, l.middle = tensor.Converter(cast, from), tensor.Converter(to, cast), cast.Size()
	}
	return l
}

// blockLen is the number of elements that loops take at once.
const blockLen = 1024

// load copies n <= blockLen elements to dst; tmp is room for a block.
func (l *loader) load(dst, tmp, src unsafe.Pointer, step, n int) {
	if l.then == nil {
		l.first(dst, src, l.size, step, n)
		return
	}
	l.first(tmp, src, l.middle, step, n)
	l.then(dst, tmp, l.size, l.middle, n)
}

// run returns n elements from src as a block: the memory itself, or buf, filled.
func (l *loader) run(buf, tmp, src unsafe.Pointer, step, n int) unsafe.Pointer {
	if l.direct && (step == l.size || n == 1) {
		return src
	}
	l.load(buf, tmp, src, step, n)
	return buf
}

// region hands out parts of a worker's memory.
type region struct{ b []byte }

func (r *region) take(n int) unsafe.Pointer {
	p := unsafe.Pointer(unsafe.SliceData(r.b))
	r.b = r.b[alignUp(n):]
	return p
}

func (r *region) ints(n int) []int { return unsafe.Slice((*int)(r.take(n*8)), n) }

func alignUp(n int) int { return (n + 63) &^ 63 }
