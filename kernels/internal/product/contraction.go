package product

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// contraction is the common form of all matrix products. At each index of the batch, it computes c = alpha * a @ b +
// beta * add. The matrix a has m x k elements, b has k x n, and c and add have m x n. The depth is the dimension of
// size k, which is summed. An entry is the product at one index of the batch. For example, linear with an input [8, 16,
// 64], a weight [32, 64] and a bias [32] is a contraction with the batch [8], m = 16, n = 32 and k = 64. Its b is the
// transposed weight with batch stride 0, and its add is the bias with row stride 0.
type contraction struct {
	batch   []int         // sizes of the batch dimensions
	m, n, k int           // rows of the result, columns of the result, depth
	a, b, c matrixStrides // layouts of the matrices
	add     matrixStrides // layout of the addend, if hasAdd
	hasAdd  bool          // whether there is an addend

	aOperand, bOperand, addOperand int            // indices of the operands with the matrices a, b and add
	alpha, beta                    tensor.Scalar  // factors of the product and of the addend
	algorithm                      gemm.Algorithm // gemm.Any if gemm chooses
}

// matrixStrides has the strides of a batch of matrices, in elements.
type matrixStrides struct {
	batch    []int // strides of the batch dimensions
	row, col int   // strides of rows and columns
}

// entries returns the number of entries.
func (product *contraction) entries() int { return tensor.Numel(product.batch) }

// flops returns the number of operations: a multiplication and an addition for every term.
func (product *contraction) flops() float64 {
	return 2 * float64(product.entries()) * float64(product.m) * float64(product.n) * float64(product.k)
}

// compile returns the kernel of a contraction. It computes in the dtype of the output. An addend that is a vector
// becomes the bias of the product (see vectorBias). Any other addend and the factor alpha are applied to each part of
// the result after its product is complete.
func (product *contraction) compile(call *graph.Call) (*graph.Kernel, error) {
	dtype := call.Out[0].DType
	if !gemm.Multiplies(dtype) {
		return nil, fmt.Errorf("no matrix product of %v", dtype)
	}
	product.mergeBatch()
	multiplier := &multiply.Multiplier{Entries: product.entries(),
		MACs: kit.BoundedProduct(product.m, product.n, max(1, product.k)),
		A:    product.a.offsets(product.batch), B: product.b.offsets(product.batch), C: product.c.offsets(product.batch)}
	spec := product.spec(dtype)
	if err := product.readPacked(call, multiplier, &spec); err != nil {
		return nil, err
	}
	isBias := product.addAddend(multiplier, &spec)
	multiplier.Bind = product.bind(isBias)
	var err error
	if multiplier.Plan, err = gemm.NewPlan(spec); err != nil {
		return nil, err
	}
	multiplier.SetEpilogue(fusion.EpilogueOf(call), spec)
	kernel := &graph.Kernel{Code: multiplier.Listings, FoldOrder: multiplier.Plan.FoldOrder()}
	const scratchOffset = 0
	kernel.Phases, kernel.Scratch, kernel.WorkerScratch = multiplier.Phases(scratchOffset)
	return kernel, nil
}

// mergeBatch merges batch dimensions into m or n, because one large product is faster than many small products. It
// merges a dimension into m under two conditions. All entries along the dimension have the same matrix b. In each of a,
// c and add, the first row of the next entry follows the last row of an entry at the usual row stride. The entries of a
// then form one taller matrix: a row-major [8, 16, k] times [k, n] becomes [128, k] times [k, n]. The conditions for n
// are symmetric, with the same matrix a and the columns of b, c and add.
func (product *contraction) mergeBatch() {
	for dim := len(product.batch) - 1; dim >= 0; dim-- {
		if product.batch[dim] == 1 {
			product.dropBatchDim(dim)
		}
	}
	for len(product.batch) > 0 {
		dim := len(product.batch) - 1
		switch {
		case product.b.batch[dim] == 0 && product.canMergeRows(dim):
			product.mergeIntoRows(dim)
		case product.a.batch[dim] == 0 && product.canMergeCols(dim):
			product.mergeIntoCols(dim)
		default:
			return
		}
		product.dropBatchDim(dim)
	}
}

// canMergeRows reports whether the rows of all entries along dimension dim are evenly spaced in each of a, c and add.
func (product *contraction) canMergeRows(dim int) bool {
	if product.m == 1 {
		return true
	}
	isEvenlySpaced := func(matrix matrixStrides) bool { return matrix.batch[dim] == product.m*matrix.row }
	return isEvenlySpaced(product.a) && isEvenlySpaced(product.c) && (!product.hasAdd || isEvenlySpaced(product.add))
}

// canMergeCols is canMergeRows for the columns of b, c and add.
func (product *contraction) canMergeCols(dim int) bool {
	if product.n == 1 {
		return true
	}
	isEvenlySpaced := func(matrix matrixStrides) bool { return matrix.batch[dim] == product.n*matrix.col }
	return isEvenlySpaced(product.b) && isEvenlySpaced(product.c) && (!product.hasAdd || isEvenlySpaced(product.add))
}

// mergeIntoRows makes the rows of all entries along dimension dim the rows of one entry.
func (product *contraction) mergeIntoRows(dim int) {
	if product.m == 1 { // the stride of a single row was arbitrary
		product.a.row, product.c.row = product.a.batch[dim], product.c.batch[dim]
		if product.hasAdd {
			product.add.row = product.add.batch[dim]
		}
	}
	product.m *= product.batch[dim]
}

// mergeIntoCols is mergeIntoRows for columns.
func (product *contraction) mergeIntoCols(dim int) {
	if product.n == 1 {
		product.b.col, product.c.col = product.b.batch[dim], product.c.batch[dim]
		if product.hasAdd {
			product.add.col = product.add.batch[dim]
		}
	}
	product.n *= product.batch[dim]
}

// dropBatchDim removes a dimension from the batch.
func (product *contraction) dropBatchDim(dim int) {
	product.batch = slices.Delete(slices.Clone(product.batch), dim, dim+1)
	for _, strides := range []*matrixStrides{&product.a, &product.b, &product.c, &product.add} {
		if strides.batch != nil {
			strides.batch = slices.Delete(slices.Clone(strides.batch), dim, dim+1)
		}
	}
}

// offsets returns the offset of each entry's matrix, in elements, in row-major order of the batch. It returns nil if
// all offsets are 0.
func (matrices matrixStrides) offsets(batch []int) []int {
	if len(matrices.batch) == 0 || !slices.ContainsFunc(matrices.batch, func(stride int) bool { return stride != 0 }) {
		return nil
	}
	list := make([]int, 0, tensor.Numel(batch))
	tensor.Meta{Shape: batch, Strides: matrices.batch}.Walk(func(offset int) { list = append(list, offset) })
	return list
}

// spec describes the product of one entry, with matrices of the given dtype, for gemm.
func (product *contraction) spec(dtype tensor.DType) gemm.Spec {
	return gemm.Spec{DType: dtype, M: product.m, N: product.n, K: product.k,
		A:          gemm.Operand{RowStride: product.a.row, ColStride: product.a.col},
		B:          gemm.Operand{RowStride: product.b.row, ColStride: product.b.col},
		CRowStride: product.c.row, CColStride: product.c.col, Algorithm: product.algorithm}
}

// readPacked sets the sources and the offsets of the matrices that were packed when the graph was planned.
func (product *contraction) readPacked(call *graph.Call, multiplier *multiply.Multiplier, spec *gemm.Spec) error {
	half := multiply.Half(call, product.bOperand, spec.DType)
	panelsA, panelsB := product.panelsOfA(spec.DType), product.panelsOfB(spec.DType, half)
	if packed, err := multiply.IsPackedIn(call, product.aOperand, panelsA); err != nil {
		return err
	} else if packed {
		spec.A.Source, multiplier.A = gemm.Prepacked, panelsA.PackedOffsets(multiplier.A)
	}
	packed, err := multiply.IsPackedIn(call, product.bOperand, panelsB)
	if packed && err == nil {
		spec.B.Source, spec.B.Panel, spec.B.Half = gemm.Prepacked, panelsB.Width, half
		multiplier.B = panelsB.PackedOffsets(multiplier.B)
		for i := range multiplier.B { // in elements of spec.DType; panels have an even number of columns
			multiplier.B[i] = multiplier.B[i] * panelsB.DType.Size() / spec.DType.Size()
		}
	}
	return err
}

// panelsOfA describes the packed form of matrix a in the given dtype. Its lanes (see [multiply.Panels]) are rows. It
// returns nil if the product reads a in place. mergeBatch must have been called.
func (product *contraction) panelsOfA(dtype tensor.DType) *multiply.Panels {
	if product.readsInPlace(product.a) {
		return nil
	}
	laneStride, termStride := product.a.row, product.a.col
	return multiply.MatrixPanels(dtype, gemm.PanelRows(dtype), product.m, laneStride, product.k, termStride,
		product.a.offsets(product.batch))
}

// panelsOfB is panelsOfA for matrix b, whose lanes are columns. half is a result of [multiply.Half].
func (product *contraction) panelsOfB(dtype, half tensor.DType) *multiply.Panels {
	if product.readsInPlace(product.b) {
		return nil
	}
	laneStride, termStride := product.b.col, product.b.row
	return multiply.MatrixPanels(cmp.Or(half, dtype), gemm.ConstantPanelCols(dtype), product.n, laneStride, product.k,
		termStride, product.b.offsets(product.batch))
}

// readsInPlace reports whether the algorithm reads a matrix, a or b, in its own layout. Other algorithms pack it.
func (product *contraction) readsInPlace(matrix matrixStrides) bool {
	switch product.algorithm {
	case gemm.Loops, gemm.Thin:
		return true
	case gemm.Any: // gemm chooses loops for tiny products and the thin algorithm for thin products
		hasUnitStride := matrix.row == 1 || matrix.col == 1
		isThin := (product.m <= multiply.MaxThin || product.n <= multiply.MaxThin) && hasUnitStride
		isTiny := kit.BoundedProduct(product.m, product.n, product.k) <= tinyMACs
		return isThin || isTiny
	}
	return false
}

// tinyMACs is the maximum number of multiplications of a product that gemm computes by plain loops.
const tinyMACs = 4096

// addAddend makes the multiplier add the addend, as the bias of the product or by an affine loop. It reports whether
// the addend is a bias.
func (product *contraction) addAddend(multiplier *multiply.Multiplier, spec *gemm.Spec) (isBias bool) {
	direction, stride, isBias := product.vectorBias()
	if isBias {
		spec.Bias, spec.BiasStride = direction, stride
		multiplier.Bias = product.add.offsets(product.batch)
	} else if product.hasAdd || product.alpha.Complex() != 1 {
		multiplier.Add = product.add.offsets(product.batch)
		applyAffine := affineLoops[spec.DType](&affine{alpha: product.alpha, beta: product.beta, c: product.c,
			add: product.add, hasAdd: product.hasAdd})
		multiplier.Prepare = func(job *multiply.Job) {
			job.Args.Epilogue = func(i0, i1, j0, j1 int) { applyAffine(job.Args.C, job.EntryAdd, i0, i1, j0, j1) }
		}
	}
	return isBias
}

// vectorBias returns the direction and the stride, in elements, of an addend that gemm can add as a bias. This requires
// that alpha and beta are 1, and that the addend is a vector that is broadcast along the rows or the columns. Otherwise
// ok is false.
func (product *contraction) vectorBias() (direction gemm.Bias, stride int, ok bool) {
	if !product.hasAdd || product.alpha.Complex() != 1 || product.beta.Complex() != 1 {
		return gemm.NoBias, 0, false
	}
	switch {
	case product.add.row == 0 || product.m == 1: // an element for each column
		return gemm.BiasCols, product.add.col, true
	case product.add.col == 0 || product.n == 1: // an element for each row
		return gemm.BiasRows, product.add.row, true
	}
	return gemm.NoBias, 0, false
}

// bind returns the function that sets the addresses of the matrices in a job.
func (product *contraction) bind(isBias bool) func(mem *graph.Mem, job *multiply.Job) {
	// Indices in Mem.Ptrs, where the result precedes the operands.
	aPtr, bPtr, addPtr, hasAdd := 1+product.aOperand, 1+product.bOperand, 1+product.addOperand, product.hasAdd
	return func(mem *graph.Mem, job *multiply.Job) {
		job.C, job.A, job.B = mem.Ptrs[0], mem.Ptrs[aPtr], mem.Ptrs[bPtr]
		if hasAdd && isBias {
			job.Bias = mem.Ptrs[addPtr]
		} else if hasAdd {
			job.Add = mem.Ptrs[addPtr]
		}
	}
}

// formOf describes the contraction of a call for device compilers (code generators for accelerators).
func formOf(call *graph.Call, describe func(c *graph.Call) (*contraction, error)) ([]graph.Form, error) {
	product, err := describe(call)
	if err != nil {
		return nil, err
	}
	operand := func(index int) graph.ContractionOperand {
		return graph.ContractionOperand{Index: 1 + index, DType: call.Meta(index).DType}
	}
	form := &graph.Contraction{Out: graph.ContractionOperand{DType: call.Out[0].DType}, A: operand(product.aOperand),
		B: operand(product.bOperand), Alpha: real(product.alpha.Complex()), HasAdd: product.hasAdd}
	if form.HasAdd {
		form.Add, form.Beta = operand(product.addOperand), real(product.beta.Complex())
	}
	for dim, size := range product.batch {
		loop := graph.ContractionLoop{Size: size, Out: product.c.batch[dim], A: product.a.batch[dim],
			B: product.b.batch[dim]}
		if form.HasAdd {
			loop.Add = product.add.batch[dim]
		}
		form.Loops = append(form.Loops, loop)
	}
	form.Loops = append(form.Loops,
		graph.ContractionLoop{Size: product.m, Out: product.c.row, A: product.a.row, Add: product.add.row},
		graph.ContractionLoop{Size: product.n, Out: product.c.col, B: product.b.col, Add: product.add.col},
		graph.ContractionLoop{Size: product.k, A: product.a.col, B: product.b.row, Summed: true})
	return []graph.Form{form}, nil
}

// productContraction describes a call as a contraction, the common form of matrix products. The op is matmul or one of
// its special cases, such as mm. The result has the dimensions [batch..., rows, columns]. There is no dimension columns
// if b is a vector, and no dimension rows if a is a vector.
func productContraction(c *graph.Call, out tensor.Meta) (*contraction, error) {
	a, b := c.Meta(0), c.Meta(1)
	product := &contraction{m: 1, n: 1, aOperand: 0, bOperand: 1, alpha: tensor.IntScalar(1)}
	rankA, rankB, outDims := a.Rank(), b.Rank(), out.Rank() // outDims counts down the dimensions of the result
	product.k = a.Shape[rankA-1]
	product.a.col, product.b.row = a.Strides[rankA-1], b.Strides[max(rankB-2, 0)]
	if rankB > 1 {
		outDims--
		product.n, product.b.col, product.c.col = b.Shape[rankB-1], b.Strides[rankB-1], out.Strides[outDims]
	}
	if rankA > 1 {
		outDims--
		product.m, product.a.row, product.c.row = a.Shape[rankA-2], a.Strides[rankA-2], out.Strides[outDims]
	}
	product.batch, product.c.batch = out.Shape[:outDims], out.Strides[:outDims]
	var err error
	if product.a.batch, err = expandedStrides(a, max(rankA-2, 0), product.batch); err != nil {
		return nil, err
	}
	product.b.batch, err = expandedStrides(b, max(rankB-2, 0), product.batch)
	return product, err
}

// expandedStrides returns the strides of the first dims dimensions of an operand, broadcast to shape. Added dimensions
// and dimensions of size 1 have stride 0, as contractions require.
func expandedStrides(meta tensor.Meta, dims int, shape []int) ([]int, error) {
	expanded, err := tensor.Meta{DType: meta.DType, Shape: meta.Shape[:dims], Strides: meta.Strides[:dims]}.Expand(shape)
	if err != nil {
		return nil, err
	}
	for d, size := range expanded.Shape {
		if size == 1 {
			expanded.Strides[d] = 0
		}
	}
	for d := range len(shape) - dims {
		expanded.Strides[d] = 0
	}
	return expanded.Strides, nil
}

// productFlops counts the operations of matmul or one of its special cases, such as mm.
func productFlops(c *graph.Call) float64 {
	product, err := productContraction(c, c.Out[0])
	if err != nil {
		return 0
	}
	return product.flops()
}

// linearLoops returns the parallel loops over the dimensions of the input before the last.
func linearLoops(c *graph.Call) []graph.Parallel {
	const input = 0
	return kit.LoopsOverDims(c, input, c.Meta(input).Rank()-1)
}
