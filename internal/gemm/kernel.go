package gemm

import (
	"reflect"
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// Number lists the element types a Plan can multiply. Machine code exists for
// float32 and float64; the others run the portable register-tiled kernel.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// Float lists the element types with machine code.
type Float interface{ ~float32 | ~float64 }

// microFunc computes one register tile from packed panels:
//
//	C[i,j] = Σ_k a[k,i]·b[k,j] + init[i,j] (+ rowBias[i])   i < rows, j < cols
//
// kc >= 1 is the depth, astep the bytes between consecutive k of the A panel
// (rows of B are nr elements apart), ldc and ldinit the bytes between rows of
// C and of init. init is read as rows×cols and may equal c; rowBias is nil or
// has at least mr readable elements.
type microFunc func(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int,
	init unsafe.Pointer, ldinit int, rowBias unsafe.Pointer, rows, cols int)

// axpyFunc computes y[j] += Σ_{q<4} x[q]·b[q,j] for j < n; ldb is in bytes.
type axpyFunc func(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer)

// dotFunc stores Σ_k x[k]·y[k] over n contiguous elements to out.
type dotFunc func(n int, x, y, out unsafe.Pointer)

// axpysFunc computes y[j] += Σ_{q<k} x[q]·b[q,j] for j < n and k >= 1, a few j at a time:
// for short rows; ldb is in bytes.
type axpysFunc func(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer, k int)

// dotsFunc stores Σ_k x[k]·y[j,k] over n contiguous elements to out[j], for j < 4·quads and
// quads >= 1; ldy is in bytes.
type dotsFunc func(n int, x, y unsafe.Pointer, ldy int, out unsafe.Pointer, quads int)

// thin is what products of few rows or columns are made of.
type thin struct {
	axpy4 axpyFunc
	dot   dotFunc
	axpys axpysFunc
	dots  dotsFunc
}

// kernelSet is one implementation of the inner loops for one element type:
// of functions in Go, or of machine code that is made for the tiles of a plan.
type kernelSet struct {
	name   string
	mr, nr int // panel widths of A and of B
	kc     int // greatest depth of one K block
	thin
	micro microFunc // nil where there is machine code

	// Of machine code: the instruction set, the bytes of an element, how many
	// a vector has, and the greatest height of tiles by their vectors.
	isa   machine.ISA
	size  int
	lanes int
	tall  [maxVectors + 1]int
	// narrow is the width of panels of B for few rows.
	narrow int
}

// panelRows is the narrowest A panel a plan with m rows can use.
func (s *kernelSet) panelRows(m int) int {
	if s.coded() {
		return min(s.mr, m)
	}
	return s.mr
}

// candidates lists the kernel sets usable for T on this machine, best first.
func candidates[T Number]() []*kernelSet {
	return append(codedSets(reflect.TypeFor[T]().Kind()), goKernels[T]())
}

// kernelsOf is the kernel set that new plans of T use. The choice depends on
// the CPU alone, so packed buffers fit every plan of the same process.
func kernelsOf[T Number]() *kernelSet {
	kind := reflect.TypeFor[T]().Kind()
	if s := codedSets(kind); len(s) > 0 {
		return s[0]
	}
	s := goKernels[T]()
	if t, ok := thinOf(kind); ok {
		s.thin = t
	}
	return s
}

// PanelRows is the width MR of packed A panels of T.
func PanelRows[T Number]() int { return kernelsOf[T]().mr }

// PanelCols is the width NR of packed B panels of T.
func PanelCols[T Number]() int { return kernelsOf[T]().nr }

// PanelColsOf is the width of packed B panels of T for a product of so many rows, which is told by Operand.Panel. A
// panel that few rows read has come from afar for them: a narrow one stays in L1 from tile to tile, and leaves the way
// to L2 to the one that follows.
func PanelColsOf[T Number](rows int) int {
	s := kernelsOf[T]()
	if s.coded() && rows > s.tall[s.vectors(s.nr)] && rows <= someRows {
		return s.narrow
	}
	return s.nr
}

// hasPanel reports whether products take panels of an operand's width.
func (s *kernelSet) hasPanel(b Operand) bool {
	return b.Panel == 0 || b.Source == Prepacked && (b.Panel == s.nr || s.coded() && b.Panel == s.narrow)
}

// zeroRow is the initial value of overwriting tiles: a row of zeros as wide as
// the widest register tile, read with a row stride of 0.
var zeroRow [32]uint64
