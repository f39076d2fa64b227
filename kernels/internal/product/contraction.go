package product

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// contraction is the common form of all matrix products: c = alpha * a @ b + beta * add for every index of the batch.
// The matrix a has m x k elements, b has k x n, and c and add have m x n. An entry is the product at one index of the
// batch.
type contraction struct {
	batch   []int    // sizes of the batch dimensions
	m, n, k int      // rows of the result, columns of the result, depth
	a, b, c matrices // layouts of the matrices
	add     matrices // layout of the addend, if hasAdd
	hasAdd  bool

	// aOperand, bOperand and addOperand are the operand indexes of the matrices a, b and add.
	aOperand, bOperand, addOperand int
	alpha, beta                    tensor.Scalar
	algorithm                      gemm.Algorithm
	// sharedRows is the number of rows that are multiplied by the same matrix b. mergeBatch computes it from sizes alone:
	// the width of packed panels depends on it, and must not depend on the layouts of other operands.
	sharedRows int
}

// matrices has the strides of a batch of matrices, in elements.
type matrices struct {
	batch    []int
	row, col int
}

func (x *contraction) entries() int { return tensor.Numel(x.batch) }

// flops returns the number of operations: a multiplication and an addition for every term.
func (x *contraction) flops() float64 {
	return 2 * float64(x.entries()) * float64(x.m) * float64(x.n) * float64(x.k)
}

// mergeBatch merges batch dimensions into m or n, because one large product is faster than many small products. It
// merges a dimension into m if all entries along the dimension have the same matrix b, and the rows of the matrices a,
// c and add have the same stride within and between entries. The entries of a then form one taller matrix. It merges a
// dimension into n if all entries have the same matrix a, and the columns of b, c and add have the same stride within
// and between entries.
func (x *contraction) mergeBatch() {
	x.sharedRows = x.m
	for d, n := range x.batch {
		if x.b.batch[d] == 0 || n == 1 {
			x.sharedRows = kit.BoundedProduct(x.sharedRows, n)
		}
	}
	for d := len(x.batch) - 1; d >= 0; d-- {
		if x.batch[d] == 1 {
			x.dropBatchDim(d)
		}
	}
	for len(x.batch) > 0 {
		d := len(x.batch) - 1
		switch {
		case x.b.batch[d] == 0 && x.canMergeRows(d):
			if x.m == 1 {
				x.a.row, x.c.row = x.a.batch[d], x.c.batch[d]
				if x.hasAdd {
					x.add.row = x.add.batch[d]
				}
			}
			x.m *= x.batch[d]
		case x.a.batch[d] == 0 && x.canMergeCols(d):
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
		x.dropBatchDim(d)
	}
}

// canMergeRows reports whether the rows of a, c and add have the same stride within and between entries of dimension d.
func (x *contraction) canMergeRows(d int) bool {
	evenlySpaced := func(p matrices) bool { return x.m == 1 || p.batch[d] == x.m*p.row }
	return evenlySpaced(x.a) && evenlySpaced(x.c) && (!x.hasAdd || evenlySpaced(x.add))
}

// canMergeCols is canMergeRows for the columns of b, c and add.
func (x *contraction) canMergeCols(d int) bool {
	evenlySpaced := func(p matrices) bool { return x.n == 1 || p.batch[d] == x.n*p.col }
	return evenlySpaced(x.b) && evenlySpaced(x.c) && (!x.hasAdd || evenlySpaced(x.add))
}

// dropBatchDim removes a dimension from the batch.
func (x *contraction) dropBatchDim(d int) {
	x.batch = slices.Delete(slices.Clone(x.batch), d, d+1)
	for _, p := range []*matrices{&x.a, &x.b, &x.c, &x.add} {
		if p.batch != nil {
			p.batch = slices.Delete(slices.Clone(p.batch), d, d+1)
		}
	}
}

// offsets returns the offset of each entry's matrix, in row-major order of the batch. It returns nil if all offsets are
// 0.
func (p matrices) offsets(batch []int) []int {
	if len(p.batch) == 0 || !slices.ContainsFunc(p.batch, func(s int) bool { return s != 0 }) {
		return nil
	}
	out := make([]int, 0, tensor.Numel(batch))
	tensor.Meta{Shape: batch, Strides: p.batch}.Walk(func(at int) { out = append(out, at) })
	return out
}

// vectorBias reports whether the addend is a vector that gemm can add. It also returns the direction and the stride of
// the vector.
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

// spec describes the product of one entry for gemm, with matrices of dtype d.
func (x *contraction) spec(d tensor.DType) gemm.Spec {
	return gemm.Spec{DType: d, M: x.m, N: x.n, K: x.k,
		A:          gemm.Operand{RowStride: x.a.row, ColStride: x.a.col},
		B:          gemm.Operand{RowStride: x.b.row, ColStride: x.b.col},
		CRowStride: x.c.row, CColStride: x.c.col, Algorithm: x.algorithm}
}

// compile returns the kernel of a contraction. It computes in the dtype of the output.
func (x *contraction) compile(c *graph.Call) (*graph.Kernel, error) {
	d := c.Out[0].DType
	if !gemm.Multiplies(d) {
		return nil, fmt.Errorf("no matrix product of %v", d)
	}
	x.mergeBatch()
	w := &multiply.Multiplier{Entries: x.entries(), MACs: kit.BoundedProduct(x.m, x.n, max(1, x.k))}
	spec := x.spec(d)
	w.A, w.B, w.C = x.a.offsets(x.batch), x.b.offsets(x.batch), x.c.offsets(x.batch)

	panelsA, panelsB := x.panels(true, d), x.panels(false, d)
	if packed, err := multiply.InPanels(c, x.aOperand, panelsA); err != nil {
		return nil, err
	} else if packed {
		spec.A.Source, w.A = gemm.Prepacked, panelsA.PackedOffsets(w.A)
	}
	if packed, err := multiply.InPanels(c, x.bOperand, panelsB); err != nil {
		return nil, err
	} else if packed {
		spec.B.Source, spec.B.Panel, w.B = gemm.Prepacked, panelsB.Width, panelsB.PackedOffsets(w.B)
	}

	bias, stride, vector := x.vectorBias()
	if vector {
		spec.Bias, spec.BiasStride = bias, stride
		w.Bias = x.add.offsets(x.batch)
	} else if x.hasAdd || x.alpha.Complex() != 1 {
		w.Add = x.add.offsets(x.batch)
		affine := affineLoops[d](&affine{alpha: x.alpha, beta: x.beta, c: x.c, add: x.add, hasAdd: x.hasAdd})
		w.Prepare = func(j *multiply.Job) {
			j.Args.Epilogue = func(i0, i1, j0, j1 int) { affine(j.Args.C, j.EntryAdd, i0, i1, j0, j1) }
		}
	}
	aOperand, bOperand, addOperand, hasAdd := 1+x.aOperand, 1+x.bOperand, 1+x.addOperand, x.hasAdd
	w.Bind = func(m *graph.Mem, j *multiply.Job) {
		j.C, j.A, j.B = m.Ptrs[0], m.Ptrs[aOperand], m.Ptrs[bOperand]
		if hasAdd && vector {
			j.Bias = m.Ptrs[addOperand]
		} else if hasAdd {
			j.Add = m.Ptrs[addOperand]
		}
	}
	var err error
	if w.Plan, err = gemm.NewPlan(spec); err != nil {
		return nil, err
	}
	w.SetEpilogue(fusion.EpilogueOf(c), spec)
	k := &graph.Kernel{Code: w.Listings}
	k.Phases, k.Scratch, k.Worker = w.Phases(0)
	return k, nil
}

// tinyMACs is the maximum number of multiplications of a product that gemm computes by plain loops.
const tinyMACs = 4096

// panels returns the packed form, in dtype d, of matrix a (if isA is set) or b. It returns nil if the product reads the
// matrix in place. mergeBatch must be called first.
func (x *contraction) panels(isA bool, d tensor.DType) *multiply.Panels {
	p, width, lanes := x.b, gemm.PanelColsOf(d, x.sharedRows), x.n
	lane, step := p.col, p.row
	if isA {
		p, width, lanes = x.a, gemm.PanelRows(d), x.m
		lane, step = p.row, p.col
	}
	hasUnitStride := p.row == 1 || p.col == 1
	switch thin := (x.m <= multiply.MaxThin || x.n <= multiply.MaxThin) && hasUnitStride; {
	case x.algorithm == gemm.Loops || x.algorithm == gemm.Thin,
		x.algorithm == gemm.Any && (thin || kit.BoundedProduct(x.m, x.n, x.k) <= tinyMACs):
		return nil
	}
	return multiply.MatrixPanels(d, width, lanes, lane, x.k, step, p.offsets(x.batch))
}

// affine describes the computation after a product: c = alpha * c + beta * add. As in BLAS, the addend is not read if
// beta is 0. Multiplications by 1 are skipped, because a complex infinity times 1 contains a NaN.
type affine struct {
	alpha, beta tensor.Scalar
	c, add      matrices
	hasAdd      bool
}

// affineLoop applies an affine to rows [i0, i1) and columns [j0, j1) of the matrix at c, with the addend at add.
type affineLoop = func(c, add unsafe.Pointer, i0, i1, j0, j1 int)

var affineLoops = map[tensor.DType]func(f *affine) affineLoop{
	tensor.Uint8: newAffineLoop[uint8], tensor.Int8: newAffineLoop[int8],
	tensor.Uint16: newAffineLoop[uint16], tensor.Int16: newAffineLoop[int16],
	tensor.Uint32: newAffineLoop[uint32], tensor.Int32: newAffineLoop[int32],
	tensor.Uint64: newAffineLoop[uint64], tensor.Int64: newAffineLoop[int64],
	tensor.Float32: newAffineLoop[float32], tensor.Float64: newAffineLoop[float64],
	tensor.Complex64: newAffineLoop[complex64], tensor.Complex128: newAffineLoop[complex128],
}

func newAffineLoop[T number](f *affine) affineLoop {
	alpha, beta := scalarOf[T](f.alpha), T(0)
	if f.hasAdd {
		beta = scalarOf[T](f.beta)
	}
	return func(c, add unsafe.Pointer, i0, i1, j0, j1 int) {
		for i := i0; i < i1; i++ {
			for j := j0; j < j1; j++ {
				v := (*T)(kit.AddressOf[T](c, i*f.c.row+j*f.c.col))
				if alpha != 1 {
					*v *= alpha
				}
				if beta == 0 {
					continue
				}
				w := *(*T)(kit.AddressOf[T](add, i*f.add.row+j*f.add.col))
				if beta != 1 {
					w *= beta
				}
				*v += w
			}
		}
	}
}

// number has the element types of products.
type number interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64 | complex64 | complex128
}

// scalarOf converts a number to an element. Integers wrap.
func scalarOf[T number](s tensor.Scalar) (v T) {
	d := tensor.DTypeOf[T]()
	if !d.IsFloat() && !d.IsComplex() {
		s = tensor.IntScalar(s.Int())
	}
	s.Store(d, unsafe.Pointer(&v))
	return v
}

// productFlops counts the operations of a product of two operands.
func productFlops(c *graph.Call) float64 {
	x, err := productContraction(c, c.Out[0])
	if err != nil {
		return 0
	}
	return x.flops()
}
