package gemm

import (
	"errors"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// Spec describes a product C = A·B + bias, or C += A·B + bias with Accumulate, without addresses. All strides are in
// elements.
type Spec struct {
	DType      tensor.DType // dtype of A, B, C and the bias
	M, N, K    int          // A is M×K, B is K×N, and C is M×N
	A, B       Operand
	CRowStride int
	CColStride int
	Accumulate bool // adds to the old C instead of overwriting it
	Bias       Bias
	BiasStride int
	Algorithm  Algorithm
	// BInCache states that B is in the caches, for example because consecutive products share B. It disables
	// prefetching of B.
	BInCache bool
}

// Source is the way in which a plan gets the elements of an operand.
type Source uint8

const (
	// Strided reads the operand in place, with any strides in elements. Strides may be 0 (broadcast) or negative.
	Strided Source = iota
	// Prepacked reads the output of PackA or PackB; strides are ignored.
	Prepacked
	// Custom calls a PackFunc, which writes panels; strides are ignored.
	Custom
)

// Operand describes A (M×K) or B (K×N). Strides are in elements. A panel is a group of adjacent rows of A or columns of
// B that is packed in contiguous memory; see plan.go.
type Operand struct {
	Source    Source
	RowStride int
	ColStride int
	// Panel is the number of columns of a panel of a Prepacked B: PanelCols or ConstantPanelCols. 0 means PanelCols.
	Panel int
	// Half is the dtype of a Prepacked B with 16-bit floats, which register tiles convert to Spec.DType: see ReadsHalves.
	// Otherwise it is 0, and B has Spec.DType.
	Half tensor.DType
}

// Bias selects a vector that is added to every row or column of the product.
type Bias uint8

const (
	NoBias   Bias = iota
	BiasRows      // bias[i] is added to all elements of row i; it has M elements
	BiasCols      // bias[j] is added to all elements of column j; it has N elements
)

// Algorithm is the way in which a plan computes a product.
type Algorithm uint8

const (
	// Any selects an algorithm: Loops for tiny products, Thin for products with few rows or columns if their strides allow
	// it, and otherwise Tiled.
	Any Algorithm = iota
	// Loops is nested loops over strided operands.
	Loops
	// Thin reads the larger operand once, in place. It needs strided operands and a product with few rows or columns.
	Thin
	// Tiled computes register tiles. It packs operands into panels if they are neither packed nor readable in place.
	Tiled
)

// Args are the inputs of one execution of a plan. A, B and Bias may overlap one another. C must not overlap A, B, Bias
// or Shared.
type Args struct {
	A, B, C unsafe.Pointer
	Bias    unsafe.Pointer
	PackA   PackFunc // for an A of Source Custom
	PackB   PackFunc // for a B of Source Custom
	// Shared has SharedBytes bytes. It keeps packed panels between phases. Its initial contents do not matter.
	Shared []byte
	// Epilogue, if set, is called for each part C[i0:i1, j0:j1] of a tile, when this part has its final values and is
	// still in the caches. It runs on the goroutine of the tile. The parts of all calls are a partition of C.
	Epilogue func(i0, i1, j0, j1 int)
	// Check, if set, is called after every few million multiplications. It may panic to interrupt Run.
	Check func()
}

var (
	errShape     = errors.New("gemm: M, N and K must not be negative")
	errOption    = errors.New("gemm: the spec has a source, bias, algorithm or panels that do not exist")
	errAlgorithm = errors.New("gemm: the requested algorithm cannot compute the product")
)

// check returns an error if the spec is invalid, or if the kernel set (the inner loops for the dtype) does not support
// the panels of B.
func (s *Spec) check(set *kernelSet) error {
	switch {
	case s.M < 0 || s.N < 0 || s.K < 0:
		return errShape
	case s.A.Source > Custom || s.B.Source > Custom || s.Bias > BiasCols || s.Algorithm > Tiled || !set.hasPanels(s.B):
		return errOption
	case !s.isEmpty() && !Supports(*s, s.Algorithm):
		return errAlgorithm
	}
	return nil
}

// isEmpty reports whether the product has no elements or no terms.
func (s *Spec) isEmpty() bool { return s.M == 0 || s.N == 0 || s.K == 0 }

// isStrided reports whether both operands are strided.
func (s *Spec) isStrided() bool { return s.A.Source == Strided && s.B.Source == Strided }

// Supports reports whether an algorithm can compute a product with the shape and strides of spec. [Multiplies] must
// accept the dtype.
func Supports(spec Spec, algorithm Algorithm) bool {
	switch algorithm {
	case Loops:
		return spec.isStrided()
	case Thin:
		plan := &Plan{spec: spec}
		return spec.isStrided() && spec.M > 0 && spec.N > 0 && spec.K > 0 && plan.planThin()
	case Tiled:
		return spec.M > 0 && spec.N > 0 && spec.K > 0
	}
	return algorithm == Any
}
