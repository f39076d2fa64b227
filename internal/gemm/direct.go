package gemm

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/strided"
)

const (
	// simpleMACs is the size up to which plain strided loops beat packing.
	simpleMACs = 512
	// directRows is the number of rows up to which each element of B is used
	// too rarely to repay packing it.
	directRows = 4
	// directMACs is the least work of a tile of the direct paths.
	directMACs = machine.MoveGrain
	// emptyElems is the size of a tile that only stores zeros or biases.
	emptyElems = machine.MoveGrain / 2
)

// planSimple schedules strided loops: one tile, or row slices of a C that has
// nothing to sum.
func (p *Plan[T]) planSimple() {
	s := &p.spec
	p.path, p.kd = pathSimple, s.K
	p.mt, p.nt, p.mTiles, p.nTiles = max(1, s.M), max(1, s.N), 1, 1
	if s.M == 0 || s.N == 0 {
		p.mTiles = 0
		return
	}
	if s.K == 0 {
		p.mt = max(1, emptyElems/s.N)
		p.mTiles = ceilDiv(s.M, p.mt)
	}
}

// planDirect schedules a product with few rows (or, swapped, few columns)
// without packing B. It reports false when the strides do not allow that.
func (p *Plan[T]) planDirect() bool {
	if min(p.spec.M, p.spec.N) > directRows {
		return false
	}
	swap := p.spec.N < p.spec.M
	if swap {
		p.swap()
	}
	s := &p.spec
	per := max(1, s.M*s.K)
	switch {
	case s.B.RowStride == 1:
		p.path = pathDot
		p.nt = roundUp(max(ceilDiv(s.N, 32), ceilDiv(directMACs, per)), 4)
	case s.B.ColStride == 1 && s.N >= 16:
		p.path = pathAxpy
		p.nt = roundUp(max(ceilDiv(s.N, 16), 128, ceilDiv(directMACs, per)), 32)
		p.nt = min(p.nt, 1024)
	default:
		if swap {
			p.swap()
		}
		return false
	}
	p.nt = min(p.nt, s.N)
	p.kd, p.mt, p.mTiles, p.nTiles = s.K, s.M, 1, ceilDiv(s.N, p.nt)
	slack := alignBytes / int(unsafe.Sizeof(*(*T)(nil)))
	if s.A.ColStride != 1 {
		p.worker.b = roundUp(s.M*s.K, slack)
	}
	p.worker.total = p.worker.b + p.nt*s.M + slack
	return true
}

// runSimple computes C[i0:i1, j0:j1] with strided loops.
func (x *exec[T]) runSimple(i0, i1, j0, j1 int) {
	s := &x.spec
	for i := i0; i < i1; i++ {
		for j := j0; j < j1; j++ {
			var sum T
			for k := range s.K {
				sum += *at[T](x.pa, i*s.A.RowStride+k*s.A.ColStride) *
					*at[T](x.pb, k*s.B.RowStride+j*s.B.ColStride)
			}
			x.finish(i, j, sum)
		}
	}
}

// finish stores a complete sum with its bias.
func (x *exec[T]) finish(i, j int, v T) {
	s := &x.spec
	switch s.Bias {
	case BiasRows:
		v += *at[T](x.bias, i*s.BiasStride)
	case BiasCols:
		v += *at[T](x.bias, j*s.BiasStride)
	}
	d := at[T](x.pc, i*s.CRowStride+j*s.CColStride)
	if s.Accumulate {
		v += *d
	}
	*d = v
}

// runDirect computes columns [j0, j1) of a C with few rows. Sums build up where C has them if its rows are contiguous
// and nothing is added to them, else in worker scratch.
func (x *exec[T]) runDirect(j0, j1 int) {
	s := &x.spec
	rows, lda := x.pa, s.A.RowStride
	if s.A.ColStride != 1 {
		rows, lda = x.worker, s.K
		size := int(unsafe.Sizeof(*(*T)(nil)))
		e := strided.Move(size)
		e.Block(rows, x.pa, strided.Axis{N: s.K, Dst: size, Src: s.A.ColStride * size},
			strided.Axis{N: s.M, Dst: s.K * size, Src: s.A.RowStride * size})
	}
	n := j1 - j0
	sums, ldc := unsafe.Pointer(at[T](x.worker, x.Plan.worker.b)), n
	there := s.CColStride == 1 && s.Bias == NoBias && !s.Accumulate
	if there {
		sums, ldc = unsafe.Pointer(at[T](x.pc, j0)), s.CRowStride
	}
	if x.path == pathDot {
		x.dotColumns(rows, lda, sums, ldc, j0, n)
	} else {
		x.axpyColumns(rows, lda, sums, ldc, j0, n)
	}
	if there {
		return
	}
	for i := range s.M {
		for j := range n {
			x.finish(i, j0+j, *at[T](sums, i*n+j))
		}
	}
}

// nearBytes are what is read of B before the next row of A reads it again, from L1.
const nearBytes = 16 << 10

// dotColumns reads columns of B once, four at a time, and those that are near for every row of A.
func (x *exec[T]) dotColumns(rows unsafe.Pointer, lda int, sums unsafe.Pointer, ldc, j0, n int) {
	s := &x.spec
	size := int(unsafe.Sizeof(*(*T)(nil)))
	ldb := s.B.ColStride * size
	near := max(1, nearBytes/(4*s.K*size))
	if s.M == 1 {
		near = n
	}
	for j := 0; j < n; {
		quads := min(near, (n-j)/4)
		b := unsafe.Pointer(at[T](x.pb, (j0+j)*s.B.ColStride))
		for i := range s.M {
			row, out := unsafe.Pointer(at[T](rows, i*lda)), unsafe.Pointer(at[T](sums, i*ldc+j))
			if quads > 0 {
				x.set.dots(s.K, row, b, ldb, out, quads)
				continue
			}
			for c := range n - j {
				x.set.dot(s.K, row, unsafe.Add(b, c*ldb), unsafe.Pointer(at[T](out, c)))
			}
		}
		if quads == 0 {
			return
		}
		j += 4 * quads
	}
}

// shortRow is the number of columns up to which sums of a row stay in registers over all rows of B that are near.
const shortRow = 128

// axpyColumns streams rows of B once, four at a time, adding them to the sums
// of every row of A while they are in L1.
func (x *exec[T]) axpyColumns(rows unsafe.Pointer, lda int, sums unsafe.Pointer, ldc, j0, n int) {
	s := &x.spec
	for i := range s.M {
		clear(unsafe.Slice(at[T](sums, i*ldc), n))
	}
	size := int(unsafe.Sizeof(*(*T)(nil)))
	ldb := s.B.RowStride * size
	k := 0
	if n <= shortRow {
		near := s.K
		if s.M > 1 {
			near = max(4, nearBytes/(n*size))
		}
		for ; k < s.K; k += near {
			b := unsafe.Pointer(at[T](x.pb, k*s.B.RowStride+j0))
			for i := range s.M {
				x.set.axpys(n, unsafe.Pointer(at[T](sums, i*ldc)), b, ldb, unsafe.Pointer(at[T](rows, i*lda+k)),
					min(near, s.K-k))
			}
		}
		return
	}
	for ; k+4 <= s.K; k += 4 {
		b := unsafe.Pointer(at[T](x.pb, k*s.B.RowStride+j0))
		for i := range s.M {
			x.set.axpy4(n, unsafe.Pointer(at[T](sums, i*ldc)), b, ldb, unsafe.Pointer(at[T](rows, i*lda+k)))
		}
	}
	for ; k < s.K; k++ {
		b := unsafe.Slice(at[T](x.pb, k*s.B.RowStride+j0), n)
		for i := range s.M {
			v, y := *at[T](rows, i*lda+k), unsafe.Slice(at[T](sums, i*ldc), n)
			for j := range y {
				y[j] += v * b[j]
			}
		}
	}
}
