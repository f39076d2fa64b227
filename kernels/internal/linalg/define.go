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
// column-major copies of its operands, from which the algorithm computes the results (runTask).

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
	// mayHaveVectorB is set if operand 1, B, may be a vector or a batch of vectors: see hasVectorB.
	mayHaveVectorB bool
}

// matrixOp defines an op that the algorithm a computes. It sets the reference, and adds a sentence on the batch to
// the doc.
func matrixOp(attrs *graph.Schema, semantics graph.Semantics, a algorithm) *graph.Op {
	semantics.Doc += " Dimensions before the last two are a batch."
	semantics.Ref = a.reference
	return kit.DefineWith(attrs, graph.Op{Semantics: semantics,
		Facts: graph.Facts{Parallel: a.loops, UnfusableReason: "factors whole matrices",
			FixedLayoutReason: "factors whole matrices"},
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

// elementsOfCopies returns a function for algorithm.solverElements, for a solver whose other matrices are at most as
// large as n copies of all operands.
func elementsOfCopies(n int) func(in, out int) int {
	return func(in, _ int) int { return n * in }
}

// loops returns a loop over each dimension of the batch that all results have. Operands that are broadcast along the
// dimension are read whole.
func (a *algorithm) loops(c *graph.Call) (loops []graph.Parallel) {
	if a.mayHaveVectorB && !hasVectorB(c) && mayBeVectors(c.Meta(0).Shape, c.Meta(1).Shape) {
		return nil
	}
	inRanks, outRanks := a.ranks(c)
	batch := c.Out[0].Shape[:max(0, c.Out[0].Rank()-outRanks[0])]
	for dim, size := range batch {
		// dimOf returns the dimension of an operand or a result that is aligned with dim. hasBatch is false if there is
		// none, or if the operand is broadcast along dim.
		dimOf := func(m tensor.Meta, rank int) (aligned int, hasBatch bool) {
			aligned = m.Rank() - rank - len(batch) + dim
			return aligned, aligned >= 0 && m.Shape[aligned] == size
		}
		loop, allHaveBatch := kit.LoopOverResults(c), true
		for i, rank := range outRanks {
			var hasBatch bool
			loop.ResultDims[i], hasBatch = dimOf(c.Out[i], rank)
			allHaveBatch = allHaveBatch && hasBatch
		}
		for i, rank := range inRanks {
			if aligned, hasBatch := dimOf(c.Meta(i), rank); hasBatch {
				loop.OperandDims[i] = aligned
			}
		}
		if allHaveBatch {
			loops = append(loops, loop)
		}
	}
	return loops
}

// mayBeVectors reports whether B is a batch of vectors (hasVectorB) for some sizes of the batch of A. B then has one
// dimension less than A, and its last size is the number of rows of A. For example, B of shape [4, 4] is a matrix if A
// has the shape [3, 4, 4], and a batch of vectors if A has the shape [4, 4, 4].
func mayBeVectors(a, b []int) bool {
	return len(b) == len(a)-1 && b[len(b)-1] == a[len(a)-2]
}

// compile returns a kernel with one chunk for each task, or without chunks if all results are empty.
func (a *algorithm) compile(c *graph.Call) (*graph.Kernel, error) {
	hasElements := func(m tensor.Meta) bool { return m.Numel() > 0 }
	if !slices.ContainsFunc(c.Out, hasElements) {
		return &graph.Kernel{}, nil
	}
	operands := make([]tensor.Meta, len(c.In))
	for i := range operands {
		operands[i] = c.Meta(i)
	}
	batched := a.newBatchedCall(c, operands, c.Out)
	elements := a.memoryElements(batched)
	isComplex := func(m tensor.Meta) bool { return m.DType.IsComplex() }
	kernel := &graph.Kernel{WorkerScratch: 8 * elements} // bytes: 8 for a float64, 16 for a complex128
	run := func(mem *graph.Mem, chunk int) error {
		memory := unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))), elements)
		taskSolver := &solver[float64]{field: reals, ctx: mem.Context, freeMemory: memory}
		return runTask(taskSolver, a.float, batched, mem.Ptrs, chunk)
	}
	if slices.ContainsFunc(operands, isComplex) || slices.ContainsFunc(c.Out, isComplex) {
		kernel.WorkerScratch *= 2
		run = func(mem *graph.Mem, chunk int) error {
			memory := unsafe.Slice((*complex128)(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))), elements)
			taskSolver := &solver[complex128]{field: complexes, ctx: mem.Context, freeMemory: memory}
			return runTask(taskSolver, a.complex, batched, mem.Ptrs, chunk)
		}
	}
	kernel.Phases = []graph.Phase{{Chunks: tensor.Numel(batched.batch), Run: run}}
	return kernel, nil
}

// memoryElements returns the number of elements of a solver's memory: the operands and results of a task, and the
// algorithm's own memory.
func (a *algorithm) memoryElements(batched *batchedCall) int {
	count := func(list []matrixBatch) (n int) {
		for _, matrices := range list {
			n += matrices.rows * matrices.cols
		}
		return n
	}
	in, out := count(batched.in), count(batched.out)
	elements := in + out
	if a.solverElements != nil {
		elements += a.solverElements(in, out)
	}
	return elements
}

// runTask runs the task at an index of the batch: it loads the operands, computes the results and stores them.
// addresses has the addresses of the results, then of the operands, as in Mem.Ptrs.
func runTask[T number](taskSolver *solver[T], compute func(*task[T]) error, batched *batchedCall,
	addresses []unsafe.Pointer, index int) error {
	current := &task[T]{solver: taskSolver, call: batched.call, index: index, isBatch: len(batched.batch) > 0}
	resultAddresses, operandAddresses := addresses[:len(batched.out)], addresses[len(batched.out):]
	for i := range batched.in {
		operand := &batched.in[i]
		address := unsafe.Add(operandAddresses[i], operand.offset(batched.batch, index))
		current.in = append(current.in, loadMatrix(taskSolver, operand, address))
	}
	for i := range batched.out {
		current.out = append(current.out, taskSolver.zeros(batched.out[i].rows, batched.out[i].cols))
	}
	if err := compute(current); err != nil {
		return err
	}
	for i := range batched.out {
		// A result that is broadcast along the batch is stored by one of the tasks only.
		if result := &batched.out[i]; result.isStored(batched.batch, index) {
			address := unsafe.Add(resultAddresses[i], result.offset(batched.batch, index))
			storeMatrix(taskSolver, result, current.out[i], address)
		}
	}
	return nil
}

// reference computes the results in complex128, with the algorithm that kernels use. Tests check the algorithms by the
// identities that define their results. Operands and results are row-major copies, so that tests compare the kernels'
// access to other layouts and dtypes with CopyTo.
func (a *algorithm) reference(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	const dtype = tensor.Complex128
	var operands, results []tensor.Meta
	var addresses []unsafe.Pointer
	out := make([]*tensor.Tensor, len(c.Out))
	for i, meta := range c.Out {
		out[i] = tensor.Zeros(dtype, meta.Shape...)
		results, addresses = append(results, out[i].Meta), append(addresses, out[i].Pointer())
	}
	for _, operand := range in {
		operand = operand.CopyTo(tensor.New(dtype, operand.Shape...))
		operands, addresses = append(operands, operand.Meta), append(addresses, operand.Pointer())
	}
	if slices.ContainsFunc(out, func(t *tensor.Tensor) bool { return t.Numel() > 0 }) {
		batched := a.newBatchedCall(c, operands, results)
		for index := range tensor.Numel(batched.batch) {
			taskSolver := &solver[complex128]{field: complexes, ctx: context.Background(),
				freeMemory: make([]complex128, a.memoryElements(batched))}
			if err := runTask(taskSolver, a.complex, batched, addresses, index); err != nil {
				return nil, err
			}
		}
	}
	for i, meta := range c.Out {
		out[i] = out[i].CopyTo(tensor.New(meta.DType, meta.Shape...))
	}
	return out, nil
}
