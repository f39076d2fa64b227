package product

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// contraction is what all matrix products come down to: for every index of batch,
// out = alpha * a @ b + beta * add, with a of m x k elements and b of k x n.
type contraction struct {
	batch   []int
	m, n, k int
	a, b, c matrices
	add     matrices
	hasAdd  bool

	// opA, opB and opAdd are the places of the matrices among the operands.
	opA, opB, opAdd int
	alpha, beta     tensor.Scalar
	way             gemm.Way
	// sharing is the number of rows that are multiplied by the same matrix b. fold sets it from sizes alone, so that the
	// panels of a packed operand do not depend on the layouts of the others.
	sharing int
}

// matrices are the strides of a batch of matrices.
type matrices struct {
	batch    []int
	row, col int
}

func (x *contraction) entries() int { return tensor.Numel(x.batch) }

// flops counts a multiplication and an addition for every term.
func (x *contraction) flops() float64 {
	return 2 * float64(x.entries()) * float64(x.m) * float64(x.n) * float64(x.k)
}

// compile makes the kernel of a contraction in the dtype of the output.
func (x *contraction) compile(c *graph.Call) (*graph.Kernel, error) {
	e, err := engines.For(c.Out[0].DType, "matrix product")
	if err != nil {
		return nil, err
	}
	return e.compile(x, c)
}

// fold makes dimensions of the batch part of m or n, where one of the matrices is the same
// for all of them and the other ones follow one another as rows (or columns) do. One large
// product is faster than many small ones.
func (x *contraction) fold() {
	x.sharing = x.m
	for d, n := range x.batch {
		if x.b.batch[d] == 0 || n == 1 {
			x.sharing = kit.Times(x.sharing, n)
		}
	}
	for d := len(x.batch) - 1; d >= 0; d-- {
		if x.batch[d] == 1 {
			x.drop(d)
		}
	}
	for len(x.batch) > 0 {
		d := len(x.batch) - 1
		switch {
		case x.b.batch[d] == 0 && x.rowsFollow(d):
			if x.m == 1 {
				x.a.row, x.c.row = x.a.batch[d], x.c.batch[d]
				if x.hasAdd {
					x.add.row = x.add.batch[d]
				}
			}
			x.m *= x.batch[d]
		case x.a.batch[d] == 0 && x.colsFollow(d):
			if x.n == 1 {
				x.b.col, x.c.col = x.b.batch[d], x.c.batch[d]
				if x.hasAdd {
					x.add.col = x.add.batch[d]
				}
			}
			x.n *= x.batch[d]
		default:
			return
		}
		x.drop(d)
	}
}

func (x *contraction) rowsFollow(d int) bool {
	follow := func(p matrices) bool { return x.m == 1 || p.batch[d] == x.m*p.row }
	return follow(x.a) && follow(x.c) && (!x.hasAdd || follow(x.add))
}

func (x *contraction) colsFollow(d int) bool {
	follow := func(p matrices) bool { return x.n == 1 || p.batch[d] == x.n*p.col }
	return follow(x.b) && follow(x.c) && (!x.hasAdd || follow(x.add))
}

// drop takes a dimension out of the batch.
func (x *contraction) drop(d int) {
	x.batch = slices.Delete(slices.Clone(x.batch), d, d+1)
	for _, p := range []*matrices{&x.a, &x.b, &x.c, &x.add} {
		if p.batch != nil {
			p.batch = slices.Delete(slices.Clone(p.batch), d, d+1)
		}
	}
}

// offsets returns the offset of every entry, in row-major order of the batch; nil if all
// are 0.
func (p matrices) offsets(batch []int) []int {
	if len(p.batch) == 0 || !slices.ContainsFunc(p.batch, func(s int) bool { return s != 0 }) {
		return nil
	}
	out := make([]int, 0, tensor.Numel(batch))
	tensor.Meta{Shape: batch, Strides: p.batch}.Walk(func(at int) { out = append(out, at) })
	return out
}

// vectorBias reports whether the addend is a vector that gemm adds on its way.
func (x *contraction) vectorBias() (gemm.Bias, int, bool) {
	if !x.hasAdd || x.alpha.Complex() != 1 || x.beta.Complex() != 1 {
		return gemm.NoBias, 0, false
	}
	switch {
	case x.add.row == 0 || x.m == 1:
		return gemm.BiasCols, x.add.col, true
	case x.add.col == 0 || x.n == 1:
		return gemm.BiasRows, x.add.row, true
	}
	return gemm.NoBias, 0, false
}

// spec is the product of one entry, of strided matrices.
func (x *contraction) spec() gemm.Spec {
	return gemm.Spec{M: x.m, N: x.n, K: x.k,
		A:          gemm.Operand{RowStride: x.a.row, ColStride: x.a.col},
		B:          gemm.Operand{RowStride: x.b.row, ColStride: x.b.col},
		CRowStride: x.c.row, CColStride: x.c.col, Way: x.way}
}

func compileContraction[T gemm.Number](x *contraction, c *graph.Call) (*graph.Kernel, error) {
	x.fold()
	w := &multiply.Multiplier[T]{Entries: x.entries(), MACs: kit.Times(x.m, x.n, max(1, x.k))}
	spec := x.spec()
	w.A, w.B, w.C = x.a.offsets(x.batch), x.b.offsets(x.batch), x.c.offsets(x.batch)

	panelsA, panelsB := contractionPanels[T](x, true, c.Out[0].DType), contractionPanels[T](x, false, c.Out[0].DType)
	if is, err := multiply.InPanels(c, x.opA, panelsA); err != nil {
		return nil, err
	} else if is {
		spec.A.Source, w.A = gemm.Prepacked, panelsA.Places(w.A)
	}
	if is, err := multiply.InPanels(c, x.opB, panelsB); err != nil {
		return nil, err
	} else if is {
		spec.B.Source, spec.B.Panel, w.B = gemm.Prepacked, panelsB.Width, panelsB.Places(w.B)
	}

	bias, stride, vector := x.vectorBias()
	if vector {
		spec.Bias, spec.BiasStride = bias, stride
		w.Bias = x.add.offsets(x.batch)
	} else if x.hasAdd || x.alpha.Complex() != 1 {
		w.Add = x.add.offsets(x.batch)
		w.Prepare = newAffine[T](x).prepare
	}
	opA, opB, opAdd, hasAdd := 1+x.opA, 1+x.opB, 1+x.opAdd, x.hasAdd
	w.Bind = func(m *graph.Mem, j *multiply.Job[T]) {
		j.C, j.A, j.B = m.Ptrs[0], m.Ptrs[opA], m.Ptrs[opB]
		if hasAdd && vector {
			j.Bias = m.Ptrs[opAdd]
		} else if hasAdd {
			j.Add = m.Ptrs[opAdd]
		}
	}
	var err error
	if w.Plan, err = gemm.NewPlan[T](spec); err != nil {
		return nil, err
	}
	w.Then(c.Tail, spec)
	k := &graph.Kernel{Code: w.Listings}
	k.Phases, k.Scratch, k.Worker = w.Phases(0)
	return k, nil
}

// tinyMACs is the product that gemm computes by plain loops.
const tinyMACs = 4096

// contractionPanels are the panels of a constant matrix, or batch of them; nil where it is read in its
// own layout.
func contractionPanels[T gemm.Number](x *contraction, isA bool, d tensor.DType) *multiply.Panels {
	p, width, lanes := x.b, gemm.PanelColsOf[T](x.sharing), x.n
	lane, step := p.col, p.row
	if isA {
		p, width, lanes = x.a, gemm.PanelRows[T](), x.m
		lane, step = p.row, p.col
	}
	unit := p.row == 1 || p.col == 1
	switch thin := (x.m <= multiply.Thin || x.n <= multiply.Thin) && unit; {
	case x.way == gemm.Loops || x.way == gemm.Thin, x.way == gemm.Any && (thin || kit.Times(x.m, x.n, x.k) <= tinyMACs):
		return nil
	}
	return multiply.MatrixPanels(d, width, lanes, lane, x.k, step, p.offsets(x.batch))
}

// affine is the step after a product: out = alpha * out + beta * add. As in BLAS, a beta
// of 0 leaves the addend unread, and factors of 1 are none: a complex infinity times 1 has a NaN
// in it.
type affine[T gemm.Number] struct {
	alpha, beta    T
	cRow, cCol     int
	addRow, addCol int
	add            bool
}

func newAffine[T gemm.Number](x *contraction) *affine[T] {
	f := &affine[T]{alpha: scalarOf[T](x.alpha), cRow: x.c.row, cCol: x.c.col, addRow: x.add.row, addCol: x.add.col}
	if x.hasAdd {
		f.beta = scalarOf[T](x.beta)
		f.add = f.beta != 0
	}
	return f
}

func (f *affine[T]) prepare(j *multiply.Job[T]) {
	j.Args.Epilogue = func(i0, i1, j0, j1 int) {
		for i := i0; i < i1; i++ {
			c := kit.Elem[T](j.Args.C, i*f.cRow)
			for q := j0; q < j1; q++ {
				v := (*T)(kit.Elem[T](c, q*f.cCol))
				if f.alpha != 1 {
					*v *= f.alpha
				}
				if !f.add {
					continue
				}
				add := *(*T)(kit.Elem[T](j.EntryAdd, i*f.addRow+q*f.addCol))
				if f.beta != 1 {
					add *= f.beta
				}
				*v += add
			}
		}
	}
}

// scalarOf converts a number to an element; integers wrap.
func scalarOf[T gemm.Number](s tensor.Scalar) T {
	switch any(*new(T)).(type) {
	case float32:
		return any(float32(s.Float())).(T)
	case float64:
		return any(s.Float()).(T)
	case complex64:
		return any(complex64(s.Complex())).(T)
	case complex128:
		return any(s.Complex()).(T)
	}
	var v any
	switch i := s.Int(); any(*new(T)).(type) {
	case int8:
		v = int8(i)
	case int16:
		v = int16(i)
	case int32:
		v = int32(i)
	case int64:
		v = i
	case uint8:
		v = uint8(i)
	case uint16:
		v = uint16(i)
	case uint32:
		v = uint32(i)
	default:
		v = uint64(i)
	}
	return v.(T)
}

// productFlops counts those of a product of two operands.
func productFlops(c *graph.Call) float64 {
	x, err := productOf(c, c.Out[0])
	if err != nil {
		return 0
	}
	return x.flops()
}
