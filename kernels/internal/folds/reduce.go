// Package folds defines ops that reduce dimensions of one operand ([Define]), for reductions and poolings.
//
// A [Spec] describes a call: the reduced dimensions, the dtypes, and the [Computation] of the results of a row. A row
// has the elements of one result: all indices of the reduced dimensions at one index of the other dimensions. The
// computation is an expression. Without an expression, or where the interpreter of expressions would be slower, it is a
// loop in Go (iter.Fold). The package comment of reduce has measurements.
package folds

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Spec describes the reduction of one call. [Define] derives the op's functions Infer, Compile and Ref from it. For the
// sum of an operand of shape [2, 3, 4] over the dimensions 0 and 2, Mask is [true, false, true]. There are three rows
// of eight elements, and the result has the shape [3], or [1, 3, 1] with Keepdim.
type Spec struct {
	Mask        []bool             // for each dimension of the operand, whether it is reduced
	Keepdim     bool               // reduced dimensions are kept with size 1
	Cast        tensor.DType       // the dtype to which the operand is converted first, as in PyTorch
	Outs        []tensor.DType     // dtypes of the results
	Computation func() Computation // the computation; inference does not call it
}

// Computation is the computation of a reduction.
type Computation struct {
	// Row returns the results as expressions over a row. x is an element of the row: its real and imaginary part,
	// converted to dtype Cast and then to the dtype of the computation. The caller of Row converts each result to its
	// dtype. Row is nil, or returns nil, if there is no expression.
	Row func(b *expr.Builder, x Number) []Number
	// Fold is the computation in Go, for calls without an expression and for expressions without machine code. If Fold
	// is nil, expressions without machine code are interpreted.
	Fold func() *iter.Fold
	// UseFoldForUnsuitedRows is set if Fold is also used for shapes that are unsuitable for row programs, which are
	// compiled expressions over rows ([graph.Rows.UnsuitedReason]).
	UseFoldForUnsuitedRows bool
	// Ref computes the results of one row. The values of the row have dtype Cast and are in logical order.
	Ref func(x []tensor.Scalar) []tensor.Scalar
}

// Define defines an op of one operand by its spec.
func Define(attrs *graph.Schema, op graph.Op, spec func(c *graph.Call) (Spec, error)) *graph.Op {
	op.Params = []graph.Param{kit.Self}
	op.WritesAnyDenseLayout = true
	op.Infer = func(c *graph.Call) ([]graph.Result, error) {
		reduction, err := spec(c)
		if err != nil {
			return nil, err
		}
		return reduction.infer(c), nil
	}
	op.Compile = func(c *graph.Call) (*graph.Kernel, error) {
		reduction, err := spec(c)
		if err != nil {
			return nil, err
		}
		return reduction.Compile(c)
	}
	op.Rows = func(c *graph.Call) (*graph.Rows, error) {
		reduction, err := spec(c)
		if err != nil {
			return nil, err
		}
		return reduction.rows(c)
	}
	op.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		reduction, err := spec(c)
		if err != nil {
			return nil, err
		}
		return reduction.Reference(in[0]), nil
	}
	return kit.DefineWith(attrs, op)
}

// Compile returns the kernel for the layouts of the call: of the expression over rows, or else of the Fold.
func (s *Spec) Compile(c *graph.Call) (*graph.Kernel, error) {
	if tensor.Numel(c.Out[0].Shape) == 0 {
		return &graph.Kernel{}, nil
	}
	if kernel, err := s.compileRows(c); kernel != nil || err != nil {
		return kernel, err
	}
	reducer, err := newReducer(c.Meta(0), s.Mask, c.Out, s.Keepdim, s.Cast, s.Computation().Fold())
	if err != nil {
		return nil, err
	}
	kernel := &graph.Kernel{Scratch: reducer.Scratch(), WorkerScratch: reducer.WorkerScratch()}
	for phase := range reducer.Phases() {
		kernel.Phases = append(kernel.Phases, graph.Phase{Chunks: reducer.Chunks(phase),
			Run: func(mem *graph.Mem, chunk int) error {
				return reducer.Run(phase, chunk, mem.Ptrs, mem.Scratch, mem.WorkerScratch)
			}})
	}
	return kernel, nil
}

// compileRows returns the kernel of the expression over rows. It returns nil if Fold must be used: if there is no
// expression, if the operand is empty, or if the rows are unsuitable and UseFoldForUnsuitedRows is set.
func (s *Spec) compileRows(call *graph.Call) (*graph.Kernel, error) {
	rows, err := s.rows(call)
	computation := s.Computation()
	switch {
	case rows == nil || err != nil:
		return nil, err
	case computation.Fold == nil: // loops without machine code are interpreted
		return fusion.LowerRows(rows, call)
	case call.Meta(0).Numel() == 0 || computation.UseFoldForUnsuitedRows && rows.UnsuitedReason(call.Meta(0).Shape) != "":
		return nil, nil
	}
	return fusion.CompileRows(rows, call) // nil if a loop has no machine code or stored rows need too much memory
}

// newReducer prepares the reduction of an operand into the results by a fold. Elements are first converted to
// dtype cast.
func newReducer(operand tensor.Meta, mask []bool, results []tensor.Meta, keepdim bool, cast tensor.DType,
	fold *iter.Fold) (*iter.Reducer, error) {
	config := rule.New().CheckMemOverlap(false).ResizeOutputs(false).IsReduction(true).CastInputs(cast)
	for _, result := range results {
		config = config.Output(rule.OperandOfMeta(rule.ReduceOutput(result, mask, keepdim)))
	}
	iterator, err := iter.Build(config.Input(rule.OperandOfMeta(operand)))
	if err != nil {
		return nil, err
	}
	return iterator.Reducer(fold)
}

// MaskOfDim returns [rule.ReduceMask] for an op with one optional dimension. If dim is nil, all dimensions are reduced.
func MaskOfDim(dim *int, rank int) ([]bool, error) {
	if dim == nil {
		return rule.ReduceMask(nil, rank)
	}
	return rule.ReduceMask([]int{*dim}, rank)
}

// Count returns the number of elements of a row.
func Count(shape []int, mask []bool) int {
	count := 1
	for dim, size := range shape {
		if mask[dim] {
			count *= size
		}
	}
	return count
}

// SymbolicCount is [Count] for sizes that may be symbolic.
func SymbolicCount(shape []sym.Int, mask []bool) sym.Int {
	count := sym.Of(1)
	for dim, size := range shape {
		if mask[dim] {
			count = count.Mul(size)
		}
	}
	return count
}

// infer returns the types of the results, which are row-major for any layout of the operand.
func (s *Spec) infer(call *graph.Call) []graph.Result {
	out := call.Type(0).Reduced(s.Mask, s.Keepdim)
	out.DType = s.Outs[0]
	if len(s.Outs) == 1 {
		return call.NewResult(out)
	}
	var buffer [2]tensor.Type // avoids an allocation
	types := buffer[:0]
	for _, dtype := range s.Outs {
		types = append(types, out.WithDType(dtype))
	}
	return call.NewResults(types...)
}

// Reference computes the results from self, index by index.
func (s *Spec) Reference(self *tensor.Tensor) []*tensor.Tensor {
	if self.Numel() > 0 { // the sizes of an empty tensor may be too large for the wider dtype
		self = self.CopyTo(tensor.New(s.Cast, self.Shape...))
	}
	results := make([]*tensor.Tensor, len(s.Outs))
	const keepdim = true // results have the rank of self until the end
	shape := rule.ReduceShape(self.Shape, s.Mask, keepdim)
	for i, dtype := range s.Outs {
		results[i] = tensor.Zeros(dtype, shape...)
	}
	rowShape := s.rowShape(self.Shape)
	elementIndex, rowReference := make([]int, len(shape)), s.Computation().Ref
	row := make([]tensor.Scalar, 0, min(tensor.Numel(rowShape), self.Numel()))
	kit.EachIndex(shape, func(index []int) {
		row = row[:0]
		kit.EachIndex(rowShape, func(rowIndex []int) {
			for dim := range elementIndex { // one of the two terms is 0
				elementIndex[dim] = index[dim] + rowIndex[dim]
			}
			row = append(row, self.At(elementIndex...))
		})
		for i, result := range rowReference(row) {
			results[i].Set(result, index...)
		}
	})
	for i, result := range results {
		results[i] = tensor.Must(result.View(tensor.New(result.DType, rule.ReduceShape(self.Shape, s.Mask, s.Keepdim)...)))
	}
	return results
}

// rowShape returns the shape of a row: the sizes of reduced dimensions, and 1 for the others.
func (s *Spec) rowShape(shape []int) []int {
	rowShape := slices.Clone(shape)
	for dim := range rowShape {
		if !s.Mask[dim] {
			rowShape[dim] = 1
		}
	}
	return rowShape
}
