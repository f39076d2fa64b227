package gemm

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// kernelSet is an implementation of the inner loops for one element type. The loops are Go functions (a portable set)
// or machine code that is generated for each plan.
type kernelSet struct {
	name      string
	mr, nr    int // widths of panels, named as in BLIS: rows of a panel of A, and columns of a panel of B
	kc        int // greatest number of terms k in a block
	elemBytes int // bytes of an element
	thinKernels
	sharedLoops
	micro microFunc // nil where there is machine code

	// The following fields are for machine code.

	cpu           machine.Features    // processor features that the code uses
	lanes         int                 // number of elements of a vector of the processor
	maxHeights    [maxVectors + 1]int // by number of vectors in a row of a register tile: greatest number of rows
	constantPanel int                 // width of panels of a B that is packed once: see ConstantPanelCols
}

// thinKernels has the routines for products with few rows or columns.
type thinKernels struct {
	axpy4 axpyFunc
	dot   dotFunc
	axpys axpysFunc
	dots  dotsFunc
}

// sharedLoops has the Go loops that are the same in all kernel sets of an element type.
type sharedLoops struct {
	product  productFunc // tiny products
	store    storeFunc
	lastRows axpysFunc // for the last rows of B, if they are fewer than the four rows of axpy4
}

// microFunc computes one register tile from packed panels:
//
//	C[i,j] = Σ_k a[k,i]·b[k,j] + init[i,j] (+ rowBias[i])   i < rows, j < cols
//
// kc >= 1 is the number of terms k. Distances are in bytes: astep is the distance between consecutive k of the A panel,
// ldc between rows of C, and ldinit between rows of init. Rows of the B panel have nr elements. init has rows×cols
// elements and may equal c. rowBias is nil or has at least mr readable elements. Only the first `rows` elements are
// used.
type microFunc func(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int,
	init unsafe.Pointer, ldinit int, rowBias unsafe.Pointer, rows, cols int)

// axpyFunc computes y[j] += Σ_{q<4} x[q]·b[q,j] for j < n. The elements of a row of b are contiguous. ldb is the
// distance between rows, in bytes.
type axpyFunc func(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer)

// dotFunc stores Σ_k x[k]·y[k] over n contiguous elements to out.
type dotFunc func(n int, x, y, out unsafe.Pointer)

// axpysFunc computes y[j] += Σ_{q<k} x[q]·b[q,j] for j < n and k >= 1. It is for short rows, whose sums y stay in
// registers. ldb is the distance between rows of b, in bytes.
type axpysFunc func(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer, k int)

// dotsFunc stores Σ_k x[k]·y[j,k] over n contiguous elements to out[j], for j < 4·colGroups. colGroups is the number of
// groups of four columns, at least 1. ldy is the distance between rows of y, in bytes.
type dotsFunc func(n int, x, y unsafe.Pointer, ldy int, out unsafe.Pointer, colGroups int)

// matrix is a matrix in memory. Its strides count elements.
type matrix struct {
	ptr                  unsafe.Pointer
	rowStride, colStride int
}

// productFunc computes C = A·B + bias for m×k by k×n elements, or C += A·B + bias if accumulate is true. The bias is a
// matrix of the shape of C. Its address is nil if there is no bias.
type productFunc func(m, n, k int, a, b, c, bias matrix, accumulate bool)

// storeFunc computes C = sums + bias for m×n elements, or C += sums + bias if accumulate is true. The bias is as in
// productFunc.
type storeFunc func(m, n int, sums, c, bias matrix, accumulate bool)

// narrowestPanelRows returns the width of the narrowest panels of A that a plan with m rows can use.
func (s *kernelSet) narrowestPanelRows(m int) int {
	if s.hasMachineCode() {
		return min(s.mr, m)
	}
	return s.mr
}

// kernelsOf returns the kernel set that new plans of a dtype use, or nil if there are no products of the dtype. The
// choice depends only on the CPU, so packed buffers fit every plan of the same process.
func kernelsOf(dtype tensor.DType) *kernelSet {
	if sets := machineCodeSets(dtype); len(sets) > 0 {
		return sets[0]
	}
	set := portable[dtype]
	if thin, ok := thinKernelsOf(dtype); ok {
		withThin := *set
		withThin.thinKernels = thin
		return &withThin
	}
	return set
}

// thinKernelsOf returns the assembly routines for products with few rows or columns of a dtype, and reports whether
// there are any.
func thinKernelsOf(dtype tensor.DType) (thinKernels, bool) {
	for _, sizes := range tileSizesByFeatures { // best features first
		if machine.HostFeatures().Has(sizes.cpu) {
			thin, ok := thinRoutines[sizes.cpu][dtype]
			return thin, ok
		}
	}
	return thinKernels{}, false
}

// Multiplies reports whether there are products of a dtype.
func Multiplies(dtype tensor.DType) bool { return portable[dtype] != nil }

// PanelRows returns the width of packed panels of A: the number of rows of A in a panel.
func PanelRows(dtype tensor.DType) int { return kernelsOf(dtype).mr }

// PanelCols returns the width of packed panels of B: the number of columns of B in a panel.
func PanelCols(dtype tensor.DType) int { return kernelsOf(dtype).nr }

// ConstantPanelCols returns the width of panels (Operand.Panel) of a B that is packed once for many products. It does
// not depend on the number of rows of A, so that all products read the same panels.
func ConstantPanelCols(dtype tensor.DType) int {
	if set := kernelsOf(dtype); set.hasMachineCode() {
		return set.constantPanel
	}
	return kernelsOf(dtype).nr
}

// HasMachineCode reports whether register tiles of a dtype run machine code.
func HasMachineCode(dtype tensor.DType) bool {
	set := kernelsOf(dtype)
	return set != nil && set.hasMachineCode()
}

// ReadsHalves reports whether products of a dtype can read a Prepacked B with elements of the dtype half: see
// Operand.Half. The results have the same bits as with a B that is converted beforehand.
func ReadsHalves(dtype, half tensor.DType) bool {
	return dtype == tensor.Float32 && halfFormats[half] != target.NotHalf && HasMachineCode(dtype)
}

// halfFormats has the formats of 16-bit floats, by dtype.
var halfFormats = map[tensor.DType]target.Half{tensor.Float16: target.Float16, tensor.BFloat16: target.BFloat16}

// HalfFormat returns the format of a dtype of 16-bit floats, as [tile.Spec.Half], or the zero value for other dtypes.
func HalfFormat(dtype tensor.DType) target.Half { return halfFormats[dtype] }

// hasPanels reports whether the kernel set supports the width and the dtype of the panels of operand b.
func (s *kernelSet) hasPanels(b Operand) bool {
	hasWidth := b.Panel == 0 || b.Source == Prepacked &&
		(b.Panel == s.nr || s.hasMachineCode() && b.Panel == s.constantPanel)
	hasDType := b.Half == 0 || b.Source == Prepacked && s.hasMachineCode() && s.elemBytes == tensor.Float32.Size() &&
		halfFormats[b.Half] != target.NotHalf
	return hasWidth && hasDType
}

// zeroRow is the initial value of tiles that overwrite C. It is one row of zeros, as wide as the widest register
// tile. Kernels read it for every row, with a stride of 0.
var zeroRow [32]uint64
