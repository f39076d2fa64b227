package gemm

import (
	"reflect"
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// Number lists the element types a Plan can multiply. Assembly kernels exist
// for float32 and float64; the others run the portable register-tiled kernel.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// Float lists the element types with assembly kernels.
type Float interface{ ~float32 | ~float64 }

// microFunc computes one register tile from packed panels:
//
//	C[i,j] = Σ_k a[k,i]·b[k,j] + init[i,j] (+ rowBias[i])   i < rows, j < cols
//
// kc >= 1 is the depth, astep the bytes between consecutive k of the A panel
// (rows of B are nr elements apart), ldc and ldinit the bytes between rows of
// C and of init. init is read as rows×cols and may equal c; rowBias is nil or
// has at least mr readable elements. Kernels of a set without maskedCols
// ignore cols and store all nr columns.
type microFunc func(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int,
	init unsafe.Pointer, ldinit int, rowBias unsafe.Pointer, rows, cols int)

// axpyFunc computes y[j] += Σ_{q<4} x[q]·b[q,j] for j < n; ldb is in bytes.
type axpyFunc func(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer)

// dotFunc stores Σ_k x[k]·y[k] over n contiguous elements to out.
type dotFunc func(n int, x, y, out unsafe.Pointer)

// variant is a micro-kernel for at most rows×cols live elements. Narrow ones
// spare edge tiles the arithmetic on padding.
type variant struct {
	rows, cols int
	fn         microFunc
}

// kernelSet is one implementation of the inner loops for one element type.
type kernelSet struct {
	name       string
	mr, nr     int // panel widths of A and of B
	kc         int // greatest depth of one K block
	maskedCols bool
	variants   []variant // the first one is the full mr×nr kernel
	axpy4      axpyFunc
	dot        dotFunc

	// Of a set of machine code, which has no variants: the instruction set, the bytes of an element, how many a vector
	// has, and the height of tiles by their vectors.
	isa   machine.ISA
	size  int
	lanes int
	tall  [maxVectors + 1]int
}

// micro returns the cheapest kernel that covers rows×cols.
func (s *kernelSet) micro(rows, cols int) microFunc { return s.smallest(rows, cols).fn }

// smallest returns the cheapest variant that covers rows×cols.
func (s *kernelSet) smallest(rows, cols int) variant {
	best := s.variants[0]
	for _, v := range s.variants[1:] {
		if v.rows >= rows && v.cols >= cols && v.rows*v.cols < best.rows*best.cols {
			best = v
		}
	}
	return best
}

// panelRows is the narrowest A panel a plan with m rows can use: a variant's
// height when one covers all of m, else mr.
func (s *kernelSet) panelRows(m int) int {
	best := s.mr
	if s.coded() {
		return min(best, m)
	}
	for _, v := range s.variants {
		if v.cols == s.nr && v.rows >= m && v.rows < best {
			best = v.rows
		}
	}
	return best
}

// candidates lists the kernel sets usable for T on this machine, best first.
func candidates[T Number]() []*kernelSet {
	return append(asmKernels(reflect.TypeFor[T]().Kind()), goKernels[T]())
}

// kernelsOf is the kernel set that new plans of T use. The choice depends on
// the CPU alone, so packed buffers fit every plan of the same process.
func kernelsOf[T Number]() *kernelSet {
	if s := asmKernels(reflect.TypeFor[T]().Kind()); len(s) > 0 {
		return s[0]
	}
	return goKernels[T]()
}

// PanelRows is the width MR of packed A panels of T.
func PanelRows[T Number]() int { return kernelsOf[T]().mr }

// PanelCols is the width NR of packed B panels of T.
func PanelCols[T Number]() int { return kernelsOf[T]().nr }

// zeroRow is the initial value of overwriting tiles: a row of zeros as wide as
// the widest register tile, read with a row stride of 0.
var zeroRow [32]uint64
