package linalg

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the checks and result types that several ops share.

// columnMajor returns the type of a batch of column-major matrices. shape has the sizes of the batch, followed by the
// numbers of rows and columns. If shape has only one size, the type is a dense vector.
func columnMajor(dtype tensor.DType, shape ...sym.Int) (tensor.Type, error) {
	result, err := kit.FreshType(dtype, shape)
	if rank := len(shape); err == nil && rank >= 2 {
		result.Strides[rank-2], result.Strides[rank-1] = sym.Of(1), shape[rank-2].Max(sym.Of(1))
	}
	return result, err
}

// matrixCheck checks that an operand is a matrix, or a batch of matrices, of a supported dtype. Its fields select
// PyTorch's error messages.
type matrixCheck struct {
	name                string // the op; empty: messages do not name it
	kernel              string // the kernel in PyTorch's error for an unsupported dtype; empty: the error names the op
	integerErrorNamesOp bool   // the error for integers names the op and not the kernel
}

// check returns PyTorch's error for an operand of type t.
func (m matrixCheck) check(t tensor.Type) error {
	if t.Rank() < 2 {
		return fmt.Errorf("%sThe input tensor A must have at least 2 dimensions.", m.prefix())
	}
	return m.checkDType(t.DType)
}

// checkSquare is like check, and also requires square matrices.
func (m matrixCheck) checkSquare(t tensor.Type) error {
	if rank := t.Rank(); rank >= 2 && t.Shape[rank-1].Ne(t.Shape[rank-2]).Holds() {
		return fmt.Errorf("%sA must be batches of square matrices, but they are %v by %v matrices", m.prefix(),
			t.Shape[rank-2], t.Shape[rank-1])
	}
	return m.check(t)
}

// prefix returns the start of a message: the name of the op, if messages have it.
func (m matrixCheck) prefix() string {
	if m.name == "" {
		return ""
	}
	return m.name + ": "
}

// checkDType returns PyTorch's error for operands of a dtype that is not supported.
func (m matrixCheck) checkDType(dtype tensor.DType) error {
	switch {
	case dtype.IsIntegral(true) && (m.integerErrorNamesOp || m.kernel == ""):
		return fmt.Errorf("%s: Expected a floating point or complex tensor as input. Got %s", m.name, dtype.TorchName())
	case dtype.IsReducedFloat() && m.kernel == "":
		return fmt.Errorf("%s: Low precision dtypes not supported. Got %s", m.name, dtype.TorchName())
	case dtype.IsIntegral(true) || dtype.IsReducedFloat():
		return kit.NotImplemented(m.kernel, dtype)
	}
	return nil
}

// batchSizes returns the sizes of all dimensions of t except the last two.
func batchSizes(t tensor.Type) []sym.Int { return t.Shape[:t.Rank()-2] }

// withBatch returns a shape: the sizes of a batch, followed by the given sizes.
func withBatch(batch []sym.Int, sizes ...sym.Int) []sym.Int {
	return append(append([]sym.Int{}, batch...), sizes...)
}

// infoType returns the type of the result named "info": one number for each matrix of a batch.
func infoType(batch []sym.Int) tensor.Type { return tensor.NewType(tensor.Int32, batch...) }

// emptyVector returns the type of a result that the attributes of a call do not request: a vector without elements.
func emptyVector(dtype tensor.DType) tensor.Type { return tensor.NewType(dtype, sym.Of(0)) }

// equationShape returns the shape of the solution X of A X = B or, if isLeft is not set, of X A = B. a and b are the
// shapes of A and B; a has at least two dimensions. The batches of A and B are broadcast. equationShape returns
// PyTorch's error, which begins with name, if the shapes do not match.
func equationShape(name string, a, b []sym.Int, isLeft bool) ([]sym.Int, error) {
	aRank, bRank := len(a), len(b)
	if bRank < 2 {
		return nil, fmt.Errorf("%s: The input tensor B must have at least 2 dimensions.", name)
	}
	equation, fits := "AX = B", a[aRank-2].Eq(b[bRank-2]).Holds()
	if !isLeft {
		equation, fits = "XA = B", a[aRank-1].Eq(b[bRank-1]).Holds()
	}
	if !fits {
		return nil, fmt.Errorf("%s: Incompatible shapes of A and B for the equation %s (%vx%v and %vx%v)", name, equation,
			a[aRank-2], a[aRank-1], b[bRank-2], b[bRank-1])
	}
	batch, err := tensor.BroadcastSizes(b[:bRank-2], a[:aRank-2])
	return withBatch(batch, b[bRank-2:]...), err
}

// hasVectorB reports whether operand 1 of a call, B, is a vector or a batch of vectors. B is a batch of vectors if its
// shape is the shape of operand 0, A, without the last size.
func hasVectorB(c *graph.Call) bool {
	aType, bType := c.Type(0), c.Type(1)
	return bType.Rank() == 1 || aType.Rank()-1 == bType.Rank() &&
		tensor.SameSizes(aType.Shape[:bType.Rank()], bType.Shape)
}

// Operands and examples of several ops.
var (
	operandA = graph.Param{Name: "A"}
	selfOnly = []graph.Param{kit.Self}

	squareExample  = kit.F32(2, 3, 3).WithStrides([]int{9, 1, 3})
	complexExample = tensor.New(tensor.Complex128, 3, 3)
	tallExample    = kit.F32(2, 4, 3)
	wideExample    = tensor.New(tensor.Float64, 3, 4).WithStrides([]int{1, 3})
)

// examples returns the examples of an op with one operand: one example for each given operand. attrs are the attributes
// of each example.
func examples(attrs graph.Attrs, operands ...tensor.Meta) (all []graph.Example) {
	for _, operand := range operands {
		all = append(all, kit.Example(attrs, operand))
	}
	return all
}
