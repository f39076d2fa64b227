package linalg

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Each op of this package is defined by an [algorithm]; [matrixOp] builds the op from it. The operands and results of a
// call are batches of matrices. A call is divided into tasks, one for each index of the batch. For example, linalg_eigh
// of a [5 7 3 3] operand has 35 tasks, each with a 3x3 operand and two results: a vector and a 3x3 matrix. A task has
// column-major copies of its operands (runTask); the algorithm computes the results from these copies.

// task is the computation of a call for one index of the batch: one matrix of each operand and of each result. A vector
// is a matrix with one column, and a number is a 1x1 matrix. An algorithm may overwrite operands, which are copies.
// Results are 0 at first. T is float64 for real numbers, and complex128 for complex numbers.
type task[T number] struct {
	*solver[T] // the arithmetic of T, and memory for temporary matrices
	call       *graph.Call
	in, out    []matrix[T]
	index      int  // index of the task in the batch, in row-major order
	isBatch    bool // whether operands have dimensions of a batch
}

// errorPrefix returns the prefix of error messages that names the index in the batch, or "" if there is no batch.
func (t *task[T]) errorPrefix() string {
	if !t.isBatch {
		return ""
	}
	return fmt.Sprintf("(Batch element %d): ", t.index)
}

// setNumber sets a result that is a single number, such as an error code of LAPACK (info) or a rank.
func (t *task[T]) setNumber(resultIndex, number int) {
	t.out[resultIndex].set(0, 0, t.fromParts(float64(number), 0))
}

// algorithm computes the results of tasks. It computes in float64 for real numbers, and in complex128 for complex
// numbers.
type algorithm struct {
	float   func(t *task[float64]) error
	complex func(t *task[complex128]) error
	// solverElements returns the number of elements that the solver allocates in addition to the operands and results. in
	// and out are the numbers of elements of the operands and results of one task. If solverElements is nil, the solver
	// allocates none.
	solverElements func(in, out int) int
	// ranks returns the number of dimensions that do not belong to the batch, for each operand and result.
	ranks func(c *graph.Call) (in, out []int)
}

// matrixOp defines an op that the algorithm a computes. It sets the reference, and adds a sentence on the batch to
// the doc.
func matrixOp(attrs *graph.Schema, semantics graph.Semantics, a algorithm) *graph.Op {
	semantics.Doc += " Dimensions before the last two are a batch."
	semantics.Ref = a.reference
	return kit.DefineWith(attrs, graph.Op{Semantics: semantics,
		Facts:     graph.Facts{UnfusableReason: "factors whole matrices", FixedLayoutReason: "factors whole matrices"},
		Lowerings: graph.Lowerings{Compile: a.compile}})
}

// fixedRanks returns a function for algorithm.ranks, for operands and results with constant numbers of dimensions.
func fixedRanks(in, out []int) func(*graph.Call) ([]int, []int) {
	return func(*graph.Call) ([]int, []int) { return in, out }
}

// matrixResults returns a function for algorithm.ranks, for operands and results that are all matrices. count is the
// number of results.
func matrixResults(count int) func(c *graph.Call) ([]int, []int) {
	return func(c *graph.Call) (in, out []int) {
		for range c.In {
			in = append(in, 2)
		}
		for range count {
			out = append(out, 2)
		}
		return in, out
	}
}

// elementsOfCopies returns a function for algorithm.solverElements, for a solver that makes n copies of the operands.
func elementsOfCopies(n int) func(in, out int) int {
	return func(in, _ int) int { return n * in }
}

// batchedCall is a call whose operands and results are described as batches of matrices.
type batchedCall struct {
	call    *graph.Call
	in, out []matrixBatch // operands and results
	batch   []int         // shape of the batch, to which the batches of operands and results are broadcast
}

// newBatchedCall describes a call. In Mem.Ptrs the results come first, then the operands.
func (a *algorithm) newBatchedCall(c *graph.Call) *batchedCall {
	batched := &batchedCall{call: c}
	inRanks, outRanks := a.ranks(c)
	for i, rank := range outRanks { // the first result with batch dimensions has the batch of the call
		if resultBatchRank := c.Out[i].Rank() - rank; resultBatchRank >= 0 && len(batched.batch) == 0 {
			batched.batch = c.Out[i].Shape[:resultBatchRank]
		}
	}
	for i, rank := range outRanks {
		batched.out = append(batched.out, newMatrixBatch(c.Out[i], rank, len(batched.batch), i))
	}
	for i, rank := range inRanks {
		meta := tensor.Meta{} // of dtype Invalid
		if c.HasOperand(i) {
			meta = c.Meta(i)
		}
		batched.in = append(batched.in, newMatrixBatch(meta, rank, len(batched.batch), len(c.Out)+i))
	}
	return batched
}

// elementCounts returns two numbers of elements for one task: values is the total of all operands and results, and
// solverElements is the number that the solver allocates in addition.
func (a *algorithm) elementCounts(batched *batchedCall) (values, solverElements int) {
	count := func(list []matrixBatch) (n int) {
		for _, matrices := range list {
			n += matrices.rows * matrices.cols
		}
		return n
	}
	operands, results := count(batched.in), count(batched.out)
	if a.solverElements != nil {
		solverElements = a.solverElements(operands, results)
	}
	return operands + results, solverElements
}

// matrixBatch describes an operand or a result: its batch of matrices, and the layout of a matrix. A step is the
// distance of adjacent rows, columns or indices of the batch in bytes.
type matrixBatch struct {
	meta          tensor.Meta
	rows, cols    int   // sizes of a matrix
	rowStep       int   // step between rows
	colStep       int   // step between columns
	batchSteps    []int // steps along the dimensions of the batch; 0 along dimensions that are broadcast
	ptrIndex      int   // index in Mem.Ptrs of the pointer to the first element
	isOmitted     bool  // whether the operand is omitted
	isUnrequested bool  // whether the attributes do not request this result; an empty vector then replaces its matrices
}

// newMatrixBatch describes an operand or a result with the given meta; an omitted operand has dtype Invalid. rank is
// the number of dimensions that do not belong to the batch. batchRank is the number of dimensions of the batch of the
// call, to which this batch is broadcast. ptrIndex is the index in Mem.Ptrs.
func newMatrixBatch(meta tensor.Meta, rank, batchRank, ptrIndex int) matrixBatch {
	result := matrixBatch{meta: meta, rows: 1, cols: 1, ptrIndex: ptrIndex}
	if meta.DType == tensor.Invalid {
		result.isOmitted = true
		return result
	}
	thisBatchRank := meta.Rank() - rank // number of dimensions of this batch
	if thisBatchRank < 0 {              // a vector in place of matrices
		result.isUnrequested, result.batchSteps = true, make([]int, batchRank)
		return result
	}
	if rank > 0 {
		result.rows, result.rowStep = meta.Shape[thisBatchRank], kit.ByteStride(meta, thisBatchRank)
	}
	if rank > 1 {
		result.cols, result.colStep = meta.Shape[thisBatchRank+1], kit.ByteStride(meta, thisBatchRank+1)
	}
	result.batchSteps = make([]int, batchRank)
	for dim := range thisBatchRank { // batch dimensions are aligned at the last one
		if meta.Shape[dim] != 1 {
			result.batchSteps[batchRank-thisBatchRank+dim] = kit.ByteStride(meta, dim)
		}
	}
	return result
}

// compile returns a kernel with one chunk for each task, or without chunks if all results are empty. The scratch memory
// of a worker has the operands, the results and the memory of the solver.
func (a *algorithm) compile(c *graph.Call) (*graph.Kernel, error) {
	if !slices.ContainsFunc(c.Out, func(m tensor.Meta) bool { return m.Numel() > 0 }) {
		return &graph.Kernel{}, nil
	}
	batched := a.newBatchedCall(c)
	values, solverElements := a.elementCounts(batched)
	elements := values + solverElements
	isComplex := slices.ContainsFunc(slices.Concat(batched.in, batched.out),
		func(matrices matrixBatch) bool { return matrices.meta.DType.IsComplex() })
	kernel := &graph.Kernel{WorkerScratch: 8 * elements} // bytes: 8 for a float64, 16 for a complex128
	run := func(mem *graph.Mem, chunk int) error {
		scratch := unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))), elements)
		taskSolver := &solver[float64]{field: reals, ctx: mem.Context, freeMemory: scratch}
		return runTask(taskSolver, a.float, batched, mem.Ptrs, chunk, tensor.Float64)
	}
	if isComplex {
		kernel.WorkerScratch *= 2
		run = func(mem *graph.Mem, chunk int) error {
			scratch := unsafe.Slice((*complex128)(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))), elements)
			taskSolver := &solver[complex128]{field: complexes, ctx: mem.Context, freeMemory: scratch}
			return runTask(taskSolver, a.complex, batched, mem.Ptrs, chunk, tensor.Complex128)
		}
	}
	kernel.Phases = []graph.Phase{{Chunks: tensor.Numel(batched.batch), Run: run}}
	return kernel, nil
}

// runTask runs the task at an index of the batch: it loads the operands, computes the results and stores them. ptrs is
// Mem.Ptrs, and computeType is the dtype of T.
func runTask[T number](taskSolver *solver[T], compute func(*task[T]) error, batched *batchedCall, ptrs []unsafe.Pointer,
	index int, computeType tensor.DType) error {
	current := &task[T]{solver: taskSolver, call: batched.call, index: index, isBatch: len(batched.batch) > 0}
	for i := range batched.in {
		current.in = append(current.in, loadOperand(taskSolver, &batched.in[i], batched.batch, ptrs, index, computeType))
	}
	for i := range batched.out {
		current.out = append(current.out, taskSolver.zeros(batched.out[i].rows, batched.out[i].cols))
	}
	if err := compute(current); err != nil {
		return err
	}
	for i := range batched.out {
		storeResult(taskSolver, &batched.out[i], current.out[i], batched.batch, ptrs, index, computeType)
	}
	return nil
}

// loadOperand returns a copy of the matrix of source at an index of the batch. An omitted operand is an empty matrix.
func loadOperand[T number](taskSolver *solver[T], source *matrixBatch, batch []int, ptrs []unsafe.Pointer, index int,
	computeType tensor.DType) matrix[T] {
	if source.isOmitted {
		return matrix[T]{}
	}
	operand, load := taskSolver.zeros(source.rows, source.cols), tensor.Converter(computeType, source.meta.DType)
	for j := range source.cols {
		if source.rows > 0 {
			load(unsafe.Pointer(unsafe.SliceData(operand.column(j))), source.column(ptrs, batch, index, j),
				int(unsafe.Sizeof(*new(T))), source.rowStep, source.rows)
		}
		taskSolver.checkContextAfter(source.rows)
	}
	return operand
}

// storeResult stores a result in the matrix of target at an index of the batch, if the task stores it (isStored).
func storeResult[T number](taskSolver *solver[T], target *matrixBatch, result matrix[T], batch []int,
	ptrs []unsafe.Pointer, index int, computeType tensor.DType) {
	store := tensor.Converter(target.meta.DType, computeType)
	for j := range target.cols {
		if target.rows > 0 && target.isStored(batch, index) {
			store(target.column(ptrs, batch, index, j), unsafe.Pointer(unsafe.SliceData(result.column(j))),
				target.rowStep, int(unsafe.Sizeof(*new(T))), target.rows)
		}
		taskSolver.checkContextAfter(target.rows)
	}
}

// isStored reports whether the task at an index of the batch stores the result p. If p is broadcast along a dimension
// of the batch, only tasks with index 0 along this dimension store it: info of linalg_solve_ex has only the batch of A.
// No task stores a result that is not requested.
func (p *matrixBatch) isStored(batch []int, index int) bool {
	for dim := len(batch) - 1; dim >= 0; dim-- {
		if index%batch[dim] != 0 && p.batchSteps[dim] == 0 {
			return false
		}
		index /= batch[dim]
	}
	return !p.isUnrequested
}

// column returns the address of column j of the matrix at an index of the batch.
func (p *matrixBatch) column(ptrs []unsafe.Pointer, batch []int, index, j int) unsafe.Pointer {
	offset := j * p.colStep
	for dim := len(batch) - 1; dim >= 0; dim-- {
		offset += index % batch[dim] * p.batchSteps[dim]
		index /= batch[dim]
	}
	return unsafe.Add(ptrs[p.ptrIndex], offset)
}

// reference computes the results in complex128, with the algorithm that kernels use. Tests check the algorithms by the
// identities that define their results.
func (a *algorithm) reference(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(c.Out))
	for i, meta := range c.Out {
		out[i] = tensor.Zeros(meta.DType, meta.Shape...)
	}
	if !slices.ContainsFunc(out, func(t *tensor.Tensor) bool { return t.Numel() > 0 }) {
		return out, nil
	}
	batched := a.newBatchedCall(c)
	_, solverElements := a.elementCounts(batched)
	var err error // of the first task that fails
	taskIndex := 0
	kit.EachIndex(batched.batch, func(batchIndex []int) {
		taskSolver := &solver[complex128]{field: complexes, ctx: context.Background(),
			freeMemory: make([]complex128, solverElements)}
		current := &task[complex128]{solver: taskSolver, call: c, index: taskIndex, isBatch: len(batched.batch) > 0}
		taskIndex++
		if taskErr := a.referenceTask(current, batched, batchIndex, in, out); err == nil {
			err = taskErr
		}
	})
	return out, err
}

// referenceTask computes the results of one task from in, and stores them in out.
func (a *algorithm) referenceTask(current *task[complex128], batched *batchedCall, batchIndex []int,
	in, out []*tensor.Tensor) error {
	inRanks, outRanks := a.ranks(batched.call)
	zeros := func(p matrixBatch) matrix[complex128] {
		return matrix[complex128]{make([]complex128, p.rows*p.cols), p.rows, p.cols}
	}
	for k, source := range batched.in {
		operand := zeros(source)
		for i := range operand.elements {
			if !source.isOmitted {
				position := elementIndex(in[k], inRanks[k], batchIndex, i%source.rows, i/source.rows)
				operand.elements[i] = in[k].At(position...).Complex()
			}
		}
		current.in = append(current.in, operand)
	}
	for _, target := range batched.out {
		current.out = append(current.out, zeros(target))
	}
	if err := a.complex(current); err != nil {
		return err
	}
	for k, target := range batched.out {
		for i, element := range current.out[k].elements {
			if !target.isUnrequested {
				position := elementIndex(out[k], outRanks[k], batchIndex, i%target.rows, i/target.rows)
				out[k].Set(tensor.ComplexScalar(element), position...)
			}
		}
	}
	return nil
}

// elementIndex returns the index in t of element i, j of the matrix at an index of the batch. rank is the number of
// dimensions of t that do not belong to the batch.
func elementIndex(t *tensor.Tensor, rank int, batchIndex []int, i, j int) []int {
	index := make([]int, 0, t.Rank())
	for dim := range t.Rank() - rank {
		position := batchIndex[len(batchIndex)-(t.Rank()-rank)+dim]
		if t.Shape[dim] == 1 { // t is broadcast
			position = 0
		}
		index = append(index, position)
	}
	return append(index, []int{i, j}[:rank]...)
}
