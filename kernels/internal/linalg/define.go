package linalg

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// task is the computation of a call for one index of the batch: one matrix of each operand and of each result. An
// operand or result that is a vector or a number is a matrix with one column.
type task[T number] struct {
	*solver[T]
	call    *graph.Call
	in, out []matrix[T]
	chunk   int  // index in the batch
	isBatch bool // whether operands have dimensions of a batch
}

// errorPrefix returns the prefix of error messages that names the index in the batch. It returns "" without a batch.
func (t *task[T]) errorPrefix() string {
	if !t.isBatch {
		return ""
	}
	return fmt.Sprintf("(Batch element %d): ", t.chunk)
}

// algorithm computes the results of tasks. It computes in float64 for real numbers, and in complex128 for complex
// numbers.
type algorithm struct {
	float   func(t *task[float64]) error
	complex func(t *task[complex128]) error
	// memory returns the number of elements that the solver needs besides the operands and results. in and out are the
	// numbers of elements of the operands and results of one task. If memory is nil, the solver needs no elements.
	memory func(in, out int) int
	// ranks returns the number of dimensions that do not belong to the batch, for each operand and result.
	ranks func(c *graph.Call) (in, out []int)
}

// matrixOp defines an op that an algorithm computes.
func matrixOp(attrs *graph.Schema, o graph.Semantics, a algorithm) *graph.Op {
	o.Doc += " Dimensions before the last two are a batch."
	o.Ref = a.reference
	return kit.DefineWith(attrs, graph.Op{Semantics: o,
		Facts:     graph.Facts{UnfusableReason: "factors whole matrices", FixedLayoutReason: "factors whole matrices"},
		Lowerings: graph.Lowerings{Compile: a.compile}})
}

// ranksOf returns a function for algorithm.ranks, for operands and results with constant numbers of dimensions.
func ranksOf(in, out []int) func(*graph.Call) ([]int, []int) {
	return func(*graph.Call) ([]int, []int) { return in, out }
}

// matrices returns a function for algorithm.ranks, for operands and n results that are all matrices.
func matrices(n int) func(c *graph.Call) ([]int, []int) {
	return func(c *graph.Call) (in, out []int) {
		for range c.In {
			in = append(in, 2)
		}
		for range n {
			out = append(out, 2)
		}
		return in, out
	}
}

// copies returns a function for algorithm.memory, for a solver that makes n copies of the operands.
func copies(n int) func(in, out int) int {
	return func(in, _ int) int { return n * in }
}

// elements returns the numbers of elements of all operands and results of a task, and of the solver's memory.
func (a *algorithm) elements(in, out []part) (values, memory int) {
	count := func(parts []part) (n int) {
		for _, p := range parts {
			n += p.rows * p.cols
		}
		return n
	}
	operands, results := count(in), count(out)
	if a.memory != nil {
		memory = a.memory(operands, results)
	}
	return operands + results, memory
}

// part describes an operand or a result: its batch of matrices, and the layout of a matrix. A step is the distance of
// adjacent rows, columns or indices of the batch in bytes.
type part struct {
	meta        tensor.Meta
	rows, cols  int   // sizes of a matrix
	rowStep     int   // step between rows
	colStep     int   // step between columns
	batch       []int // steps along the dimensions of the batch; 0 along dimensions that are broadcast
	address     int   // index of the first element's address in Mem.Ptrs
	isOmitted   bool  // whether the operand is omitted
	hasNoMatrix bool  // whether this is an empty vector in place of a result that the attributes do not request
}

// newPart returns the part of an operand or a result with the given meta. rank is the number of dimensions that do not
// belong to the batch. batchRank is the number of dimensions of the batch. address is the index in Mem.Ptrs.
func newPart(meta tensor.Meta, rank, batchRank, address int) part {
	p := part{meta: meta, rows: 1, cols: 1, address: address}
	if meta.DType == tensor.Invalid {
		p.isOmitted = true
		return p
	}
	lead := meta.Rank() - rank
	if lead < 0 { // an empty vector in place of a matrix
		p.hasNoMatrix, p.batch = true, make([]int, batchRank)
		return p
	}
	if rank > 0 {
		p.rows, p.rowStep = meta.Shape[lead], kit.StepAt(meta, lead)
	}
	if rank > 1 {
		p.cols, p.colStep = meta.Shape[lead+1], kit.StepAt(meta, lead+1)
	}
	p.batch = make([]int, batchRank)
	for d := range lead {
		if meta.Shape[d] != 1 {
			p.batch[batchRank-lead+d] = kit.StepAt(meta, d)
		}
	}
	return p
}

// parts returns the operands and the results of a call, and the shape of the batch.
func (a *algorithm) parts(c *graph.Call) (in, out []part, batch []int) {
	inRanks, outRanks := a.ranks(c)
	for i, r := range outRanks {
		if lead := c.Out[i].Rank() - r; lead >= 0 && len(batch) == 0 {
			batch = c.Out[i].Shape[:lead]
		}
	}
	for i, r := range outRanks {
		out = append(out, newPart(c.Out[i], r, len(batch), i))
	}
	for i, r := range inRanks {
		m := tensor.Meta{}
		if c.Has(i) {
			m = c.Meta(i)
		}
		in = append(in, newPart(m, r, len(batch), len(c.Out)+i))
	}
	return in, out, batch
}

func (a *algorithm) compile(c *graph.Call) (*graph.Kernel, error) {
	if !slices.ContainsFunc(c.Out, func(m tensor.Meta) bool { return m.Numel() > 0 }) {
		return &graph.Kernel{}, nil
	}
	in, out, batch := a.parts(c)
	values, memory := a.elements(in, out)
	elements := values + memory
	isComplex := slices.ContainsFunc(slices.Concat(in, out), func(p part) bool { return p.meta.DType.IsComplex() })
	k := &graph.Kernel{WorkerScratch: 8 * elements}
	run := func(m *graph.Mem, chunk int) error {
		memory := unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(m.WorkerScratch))), elements)
		s := &solver[float64]{field: reals, ctx: m.Context, memory: memory}
		return runTask(s, a.float, c, m.Ptrs, in, out, batch, chunk, tensor.Float64)
	}
	if isComplex {
		k.WorkerScratch *= 2
		run = func(m *graph.Mem, chunk int) error {
			memory := unsafe.Slice((*complex128)(unsafe.Pointer(unsafe.SliceData(m.WorkerScratch))), elements)
			s := &solver[complex128]{field: complexes, ctx: m.Context, memory: memory}
			return runTask(s, a.complex, c, m.Ptrs, in, out, batch, chunk, tensor.Complex128)
		}
	}
	k.Phases = []graph.Phase{{Chunks: tensor.Numel(batch), Run: run}}
	return k, nil
}

// runTask runs the task at index chunk of the batch: it loads the operands, computes the results and stores them.
func runTask[T number](s *solver[T], compute func(*task[T]) error, c *graph.Call, ptrs []unsafe.Pointer, in, out []part,
	batch []int, chunk int, d tensor.DType) error {
	t := &task[T]{solver: s, call: c, chunk: chunk, isBatch: len(batch) > 0}
	size := int(unsafe.Sizeof(*new(T)))
	for i := range in {
		p := &in[i]
		if p.isOmitted {
			t.in = append(t.in, matrix[T]{})
			continue
		}
		m, load := s.make(p.rows, p.cols), tensor.Converter(d, p.meta.DType)
		for j := range p.cols {
			if p.rows > 0 {
				load(unsafe.Pointer(unsafe.SliceData(m.column(j))), p.column(ptrs, batch, chunk, j), size, p.rowStep, p.rows)
			}
			s.countWork(p.rows)
		}
		t.in = append(t.in, m)
	}
	for i := range out {
		t.out = append(t.out, s.make(out[i].rows, out[i].cols))
	}
	if err := compute(t); err != nil {
		return err
	}
	for i := range out {
		p := &out[i]
		store := tensor.Converter(p.meta.DType, d)
		for j := range p.cols {
			if p.rows > 0 && p.isStored(batch, chunk) {
				store(p.column(ptrs, batch, chunk, j), unsafe.Pointer(unsafe.SliceData(t.out[i].column(j))), p.rowStep, size,
					p.rows)
			}
			s.countWork(p.rows)
		}
	}
	return nil
}

// isStored reports whether the task at index chunk of the batch stores this result. It does not store the result if the
// result is empty, or if an earlier task stores the same elements because the result is the same along a dimension of
// the batch.
func (p *part) isStored(batch []int, chunk int) bool {
	for d := len(batch) - 1; d >= 0; d-- {
		if chunk%batch[d] != 0 && p.batch[d] == 0 {
			return false
		}
		chunk /= batch[d]
	}
	return !p.hasNoMatrix
}

// column returns the address of column j of the matrix at index chunk of the batch.
func (p *part) column(ptrs []unsafe.Pointer, batch []int, chunk, j int) unsafe.Pointer {
	offset := j * p.colStep
	for d := len(batch) - 1; d >= 0; d-- {
		offset += chunk % batch[d] * p.batch[d]
		chunk /= batch[d]
	}
	return unsafe.Add(ptrs[p.address], offset)
}

// reference computes the results in complex128, with the algorithm that kernels use. Tests check the algorithms by the
// identities that define their results.
func (a *algorithm) reference(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(c.Out))
	for i, m := range c.Out {
		out[i] = tensor.Zeros(m.DType, m.Shape...)
	}
	index := func(t *tensor.Tensor, rank int, lead []int, i, j int) []int {
		elementIndex := make([]int, 0, t.Rank())
		for d := range t.Rank() - rank {
			k := lead[len(lead)-(t.Rank()-rank)+d]
			if t.Shape[d] == 1 {
				k = 0
			}
			elementIndex = append(elementIndex, k)
		}
		return append(elementIndex, []int{i, j}[:rank]...)
	}
	if !slices.ContainsFunc(out, func(t *tensor.Tensor) bool { return t.Numel() > 0 }) {
		return out, nil
	}
	operands, results, batch := a.parts(c)
	inRanks, outRanks := a.ranks(c)
	_, memory := a.elements(operands, results)
	var err error
	chunk := 0
	kit.EachIndex(batch, func(lead []int) {
		s := &solver[complex128]{field: complexes, ctx: context.Background(), memory: make([]complex128, memory)}
		t := &task[complex128]{solver: s, call: c, chunk: chunk, isBatch: len(batch) > 0}
		chunk++
		for k, p := range operands {
			m := matrix[complex128]{make([]complex128, p.rows*p.cols), p.rows, p.cols}
			for i := range m.elements {
				if !p.isOmitted {
					m.elements[i] = in[k].At(index(in[k], inRanks[k], lead, i%p.rows, i/p.rows)...).Complex()
				}
			}
			t.in = append(t.in, m)
		}
		for _, p := range results {
			t.out = append(t.out, matrix[complex128]{make([]complex128, p.rows*p.cols), p.rows, p.cols})
		}
		if e := a.complex(t); e != nil && err == nil {
			err = e
			return
		}
		for k, p := range results {
			for i, v := range t.out[k].elements {
				if !p.hasNoMatrix {
					out[k].Set(tensor.ComplexScalar(v), index(out[k], outRanks[k], lead, i%p.rows, i/p.rows)...)
				}
			}
		}
	})
	return out, err
}

// columnMajor returns the type of a batch of column-major matrices. shape has the sizes of the batch and of a matrix.
func columnMajor(d tensor.DType, shape ...sym.Int) (tensor.Type, error) {
	t, err := kit.FreshType(d, shape)
	if n := len(shape); err == nil && n >= 2 {
		t.Strides[n-2], t.Strides[n-1] = sym.Of(1), shape[n-2].Max(sym.Of(1))
	}
	return t, err
}

// matrixCheck checks that an operand is a matrix, or a batch of matrices, of a supported dtype. Its fields select
// PyTorch's error messages.
type matrixCheck struct {
	name            string // the op; empty: messages do not name it
	kernel          string // the kernel in PyTorch's error for an unsupported dtype; empty: the error names the op
	rejectsIntegers bool   // for integers, the error names the op and not the kernel
}

// check returns PyTorch's error for an operand of type t. If square is set, matrices must be square.
func (m matrixCheck) check(t tensor.Type, square bool) error {
	n := t.Rank()
	name := m.name
	if name != "" {
		name += ": "
	}
	switch {
	case n < 2:
		return fmt.Errorf("%sThe input tensor A must have at least 2 dimensions.", name)
	case square && t.Shape[n-1].Ne(t.Shape[n-2]).Holds():
		return fmt.Errorf("%sA must be batches of square matrices, but they are %v by %v matrices", name, t.Shape[n-2],
			t.Shape[n-1])
	}
	return m.checkDType(t.DType)
}

func (m matrixCheck) checkDType(d tensor.DType) error {
	switch {
	case d.IsIntegral(true) && (m.rejectsIntegers || m.kernel == ""):
		return fmt.Errorf("%s: Expected a floating point or complex tensor as input. Got %s", m.name, d.TorchName())
	case d.IsReducedFloat() && m.kernel == "":
		return fmt.Errorf("%s: Low precision dtypes not supported. Got %s", m.name, d.TorchName())
	case d.IsIntegral(true) || d.IsReducedFloat():
		return kit.NotImplemented(m.kernel, d)
	}
	return nil
}

// lead returns the sizes of the batch of a type.
func lead(t tensor.Type) []sym.Int { return t.Shape[:t.Rank()-2] }

// withBatch returns a shape: the sizes of a batch, followed by the given sizes.
func withBatch(batch []sym.Int, sizes ...sym.Int) []sym.Int {
	return append(append([]sym.Int{}, batch...), sizes...)
}

// examples returns the examples of an op with one operand: one example for each given operand. attrs are the attributes
// of each example.
func examples(attrs graph.Attrs, operands ...tensor.Meta) (all []graph.Example) {
	for _, m := range operands {
		all = append(all, kit.Example(attrs, m))
	}
	return all
}

// setInfo sets result k, which is a single number, to info.
func (t *task[T]) setInfo(k, info int) { t.out[k].set(0, 0, t.of(float64(info), 0)) }

// infoType is the type of the results info of a batch.
func infoType(batch []sym.Int) tensor.Type { return tensor.NewType(tensor.Int32, batch...) }

// emptyVector returns the type of a result that the attributes of a call do not request.
func emptyVector(d tensor.DType) tensor.Type { return tensor.NewType(d, sym.Of(0)) }

// Operands and examples of several ops.
var (
	operandA = graph.Param{Name: "A"}
	selfOnly = []graph.Param{kit.Self}

	squareExample  = kit.F32(2, 3, 3).WithStrides([]int{9, 1, 3})
	complexExample = tensor.New(tensor.Complex128, 3, 3)
	tallExample    = kit.F32(2, 4, 3)
	wideExample    = tensor.New(tensor.Float64, 3, 4).WithStrides([]int{1, 3})
)

// equationShape returns the shape of the solution X of A X = B or, if left is not set, of X A = B. a and b are the
// shapes of A and B. name is the name of the op in errors.
func equationShape(name string, a, b []sym.Int, left bool) ([]sym.Int, error) {
	aRank, bRank := len(a), len(b)
	if bRank < 2 {
		return nil, fmt.Errorf("%s: The input tensor B must have at least 2 dimensions.", name)
	}
	equation, fits := "AX = B", a[aRank-2].Eq(b[bRank-2]).Holds()
	if !left {
		equation, fits = "XA = B", a[aRank-1].Eq(b[bRank-1]).Holds()
	}
	if !fits {
		return nil, fmt.Errorf("%s: Incompatible shapes of A and B for the equation %s (%vx%v and %vx%v)", name, equation,
			a[aRank-2], a[aRank-1], b[bRank-2], b[bRank-1])
	}
	batch, err := tensor.BroadcastSizes(b[:bRank-2], a[:aRank-2])
	return withBatch(batch, b[bRank-2:]...), err
}

// hasVector reports whether operand 1 of a call, the right side of equations, is a vector.
func hasVector(c *graph.Call) bool {
	a, b := c.Type(0), c.Type(1)
	return b.Rank() == 1 || a.Rank()-1 == b.Rank() && tensor.SameSizes(a.Shape[:b.Rank()], b.Shape)
}
