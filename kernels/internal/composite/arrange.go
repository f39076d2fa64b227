package composite

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/index"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type rot90Attrs struct {
	K    int   `attr:"k" default:"1" range:"int64" doc:"number of rotations by 90 degrees"`
	Dims []int `attr:"dims" default:"0,1" doc:"the two dimensions of the plane"`
}

type narrowCopyAttrs struct {
	Dim    int     `attr:"dim" doc:"dimension to narrow"`
	Start  sym.Int `attr:"start" range:"int64" doc:"first index; a negative index counts from the end"`
	Length sym.Int `attr:"length" doc:"number of indices"`
}

type diagEmbedAttrs struct {
	Offset int `attr:"offset" default:"0" doc:"diagonal: 0 is the main one, positive ones are above it"`
	Dim1   int `attr:"dim1" default:"-2" doc:"first new dimension"`
	Dim2   int `attr:"dim2" default:"-1" doc:"second new dimension"`
}

type diagAttrs struct {
	Diagonal int `attr:"diagonal" default:"0" doc:"diagonal: 0 is the main one, positive ones are above it"`
}

type offsetAttrs struct {
	Offset int `attr:"offset" default:"0" doc:"diagonal: 0 is the main one, positive ones are above it"`
}

// Ops that rearrange elements. The function of an op applies other ops (steps.go) and returns the result. s.Reject ends
// it with an error if the condition holds.
var (
	Fliplr = defineOneResult(graph.Semantics{
		Name: "fliplr", Doc: "Reverses the second dimension.", Params: selfOnly,
		Examples: kit.OneExample(kit.TransposedMatrix, nil),
	}, func(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
		s.Reject(len(s.shape(in[0])) < 2, "Input must be >= 2-d.")
		return s.flip(in[0], 1)
	})
	Flipud = defineOneResult(graph.Semantics{
		Name: "flipud", Doc: "Reverses the first dimension.", Params: selfOnly,
		Examples: kit.OneExample(kit.TransposedMatrix, nil),
	}, func(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
		s.Reject(len(s.shape(in[0])) < 1, "Input must be >= 1-d.")
		return s.flip(in[0], 0)
	})
	MH = defineOneResult(graph.Semantics{
		Name: "mH", Doc: "Transposes matrices, the last two dimensions, and conjugates their elements. The result for " +
			"real elements is a view.",
		Params: selfOnly, Examples: adjointExamples,
	}, func(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
		s.Reject(len(s.shape(in[0])) == 1, "tensor.mH is only supported on matrices or batches of matrices. Got 1-D tensor.")
		return s.adjoint(in[0])
	})
	MatrixH = defineOneResult(graph.Semantics{
		Name: "matrix_H", Doc: "Transposes a matrix and conjugates its elements. The result for real elements is a view.",
		Params: selfOnly, Examples: adjointExamples,
	}, func(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
		rank, hint := len(s.shape(in[0])), ""
		if rank > 2 {
			hint = " For batches of matrices, consider using tensor.mH"
		}
		s.Reject(rank != 0 && rank != 2, "tensor.H is only supported on matrices (2-D tensors). Got %d-D tensor.%s", rank,
			hint)
		return s.adjoint(in[0])
	})
	Rot90 = defineOneResult(graph.Semantics{
		Name: "rot90", Doc: "Rotates a plane of two dimensions by multiples of 90 degrees, from the first towards " +
			"the second.",
		Params: selfOnly, Examples: append(kit.OneExample(kit.TransposedMatrix, nil), kit.OneExample(kit.FloatMatrix,
			graph.Attrs{"k": 2})...),
	}, rot90)
	NarrowCopy = defineOneResult(graph.Semantics{
		Name: "narrow_copy", Doc: "Copies `length` indices of a dimension, beginning at `start`.", Params: selfOnly,
		Examples: kit.OneExample(kit.FloatMatrix, graph.Attrs{"dim": 1, "start": 1, "length": 2}),
	}, func(s applier, a *narrowCopyAttrs, in []*graph.Arg) *graph.Arg {
		x := s.Apply(view.Narrow, graph.Attrs{"dim": a.Dim, "start": a.Start, "length": a.Length}, in[0])
		// If the whole dimension is copied, PyTorch's result has the layout of empty_like(self).
		if s.shape(in[0])[s.wrapDim(in[0], a.Dim)].Eq(a.Length).Holds() {
			return s.Apply(view.Clone, nil, x)
		}
		return s.rowMajor(x)
	})
	Msort = defineOneResult(graph.Semantics{
		Name: "msort", Doc: "Sorts along the first dimension. NaN is greater than all numbers.", Params: selfOnly,
		Examples: kit.OneExample(kit.FloatMatrix, nil),
	}, func(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
		return s.ApplyMany(index.Sort, graph.Attrs{"dim": 0}, in[0])[0]
	})
	DiagEmbed = defineOneResult(graph.Semantics{
		Name: "diag_embed", Doc: "Creates matrices of two new dimensions with the last dimension on a diagonal and " +
			"0 elsewhere.",
		Params:   selfOnly,
		Examples: append(kit.OneExample(kit.FloatMatrix, nil), kit.OneExample(kit.FloatRow, graph.Attrs{"offset": -1})...),
	}, func(s applier, a *diagEmbedAttrs, in []*graph.Arg) *graph.Arg {
		return s.diagEmbed(in[0], a.Offset, a.Dim1, a.Dim2)
	})
	Diag = defineOneResult(graph.Semantics{
		Name: "diag", Doc: "Copies a diagonal of a matrix, or creates a matrix with the vector self on a diagonal.",
		Params:   selfOnly,
		Examples: append(kit.OneExample(kit.FloatMatrix, nil), kit.OneExample(kit.FloatRow, graph.Attrs{"diagonal": 1})...),
	}, func(s applier, a *diagAttrs, in []*graph.Arg) *graph.Arg {
		rank := len(s.shape(in[0]))
		s.Reject(rank != 1 && rank != 2, "diag(): Supports 1D or 2D tensors. Got %dD", rank)
		if rank == 1 {
			return s.diagEmbed(in[0], a.Diagonal, -2, -1)
		}
		return s.rowMajor(s.Apply(view.Diagonal, graph.Attrs{"offset": a.Diagonal}, in[0]))
	})
	Diagflat = defineOneResult(graph.Semantics{
		Name: "diagflat", Doc: "Creates a matrix with the elements of self, in row-major order, on a diagonal.",
		Params:   selfOnly,
		Examples: kit.OneExample(kit.TransposedMatrix, graph.Attrs{"offset": 1}),
	}, func(s applier, a *offsetAttrs, in []*graph.Arg) *graph.Arg {
		return s.diagEmbed(s.reshape(in[0], sym.Of(-1)), a.Offset, -2, -1)
	})
)

// flip reverses dimensions.
func (s applier) flip(x *graph.Arg, dims ...int) *graph.Arg {
	return s.Apply(view.Flip, graph.Attrs{"dims": dims}, x)
}

// rot90 is the function of [Rot90]: a rotation by 90 or 270 degrees is a reversal of one dimension and a transposition.
func rot90(s applier, a *rot90Attrs, in []*graph.Arg) *graph.Arg {
	rank := len(s.shape(in[0]))
	s.Reject(len(a.Dims) != 2, "expected total rotation dims == 2, but got dims = %d", len(a.Dims))
	s.Reject(rank < 2, "expected total dims >= 2, but got total dims = %d", rank)
	distance := a.Dims[0] - a.Dims[1] // a negative dimension counts from the end
	s.Reject(distance == 0 || distance == rank || distance == -rank,
		"expected rotation dims to be different, but got dim0 = %d and dim1 = %d", a.Dims[0], a.Dims[1])
	for i, dim := range a.Dims {
		s.Reject(dim >= rank || dim < -rank, "Rotation dim%d out of range, dim%d = %d", i, i, dim)
	}
	switch ((a.K % 4) + 4) % 4 { // in 0 to 3, also for negative K
	case 1:
		return s.transpose(s.flip(in[0], a.Dims[1]), a.Dims[0], a.Dims[1])
	case 2:
		return s.flip(in[0], a.Dims...)
	case 3:
		return s.transpose(s.flip(in[0], a.Dims[0]), a.Dims[0], a.Dims[1])
	}
	return s.rowMajor(in[0])
}

// diagEmbed returns matrices of size x size, in two new dimensions, with the last dimension of x on a diagonal and 0
// elsewhere. It appends size zeros to each element, and reshapes the result to rows of size elements. For x = [a, b, c]
// and offset 0, size is 3:
//
//	a 0 0 0     a 0 0
//	b 0 0 0  =  0 b 0   in row-major order; the last row is then removed
//	c 0 0 0     0 0 c
//	            0 0 0
func (s applier) diagEmbed(x *graph.Arg, offset, dim1, dim2 int) *graph.Arg {
	rank := len(s.shape(x)) + 1
	firstDim, err := tensor.WrapDim(dim1, rank)
	s.Check(err)
	secondDim, err := tensor.WrapDim(dim2, rank)
	s.Check(err)
	s.Reject(firstDim == secondDim, "diagonal dimensions cannot be identical %d, %d", dim1, dim2)
	s.Reject(rank < 2, "Dimension specified as -1 but tensor has no dimensions")
	shape := s.shape(x)
	length, magnitude := shape[rank-2], max(offset, -offset)
	size := length.Add(sym.Of(magnitude))
	result := s.unsqueeze(x, -1)
	result = s.pad(result, sym.Of(0), size) // [..., length, size+1]
	flatLength := length.Mul(size.Add(sym.Of(1)))
	result = s.reshape(result, append(slices.Clone(shape[:rank-2]), flatLength)...)
	// diagonalStart is the index, in row-major order, of the first element of the diagonal.
	diagonalStart := sym.Of(max(offset, 0)).Add(size.Mul(sym.Of(max(-offset, 0))))
	// If the number of elements after the diagonal is negative, pad removes elements, such as the last row of the
	// example.
	result = s.pad(result, diagonalStart, size.Mul(size).Sub(flatLength).Sub(diagonalStart))
	result = s.reshape(result, append(slices.Clone(shape[:rank-2]), size, size)...)
	return s.rowMajor(s.Apply(view.Movedim, graph.Attrs{"source": []int{-2, -1},
		"destination": []int{firstDim, secondDim}}, result))
}

// adjointExamples are the examples of conjugate transposes.
var adjointExamples = append(kit.OneExample(kit.F32(2, 3), nil),
	kit.OneExample(tensor.New(tensor.Complex64, 2, 3), nil)...)
