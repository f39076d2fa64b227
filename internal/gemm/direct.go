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
func (p *Plan) planSimple() {
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
func (p *Plan) planDirect() bool {
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
	size := s.DType.Size()
	if s.A.ColStride != 1 {
		p.worker.b = roundUp(s.M*s.K*size, alignBytes)
	}
	p.worker.total = p.worker.b + p.nt*s.M*size + alignBytes
	return true
}

// runSimple computes C[i0:i1, j0:j1] with strided loops.
func (x *exec) runSimple(i0, i1, j0, j1 int) {
	s := &x.spec
	a := matrix{x.elem(x.pa, i0*s.A.RowStride), s.A.RowStride, s.A.ColStride}
	b := matrix{x.elem(x.pb, j0*s.B.ColStride), s.B.RowStride, s.B.ColStride}
	x.set.product(i1-i0, j1-j0, s.K, a, b, x.result(i0, j0), x.biasAt(i0, j0), s.Accumulate)
}

// result is C from (i, j) on.
func (x *exec) result(i, j int) matrix {
	s := &x.spec
	return matrix{x.elem(x.pc, i*s.CRowStride+j*s.CColStride), s.CRowStride, s.CColStride}
}

// biasAt is the bias of C from (i, j) on, broadcast by a stride of 0; without a bias its address is nil.
func (x *exec) biasAt(i, j int) matrix {
	switch s := &x.spec; s.Bias {
	case BiasRows:
		return matrix{x.elem(x.bias, i*s.BiasStride), s.BiasStride, 0}
	case BiasCols:
		return matrix{x.elem(x.bias, j*s.BiasStride), 0, s.BiasStride}
	}
	return matrix{}
}

// runDirect computes columns [j0, j1) of a C with few rows. Sums accumulate in C if its rows are contiguous and nothing
// is added to them, else in worker scratch.
func (x *exec) runDirect(j0, j1 int) {
	s := &x.spec
	rows, lda := x.pa, s.A.RowStride
	if s.A.ColStride != 1 {
		rows, lda = x.worker, s.K
		size := x.set.size
		e := strided.Move(size)
		e.Block(rows, x.pa, strided.Axis{N: s.K, Dst: size, Src: s.A.ColStride * size},
			strided.Axis{N: s.M, Dst: s.K * size, Src: s.A.RowStride * size})
	}
	n := j1 - j0
	sums, ldc := unsafe.Add(x.worker, x.Plan.worker.b), n
	there := s.CColStride == 1 && s.Bias == NoBias && !s.Accumulate
	if there {
		sums, ldc = x.elem(x.pc, j0), s.CRowStride
	}
	if x.path == pathDot {
		x.dotColumns(rows, lda, sums, ldc, j0, n)
	} else {
		x.axpyColumns(rows, lda, sums, ldc, j0, n)
	}
	if there {
		return
	}
	x.set.store(s.M, n, matrix{sums, n, 1}, x.result(0, j0), x.biasAt(0, j0), s.Accumulate)
}

// nearBytes is the part of B that all rows of A read, from L1, before the next part.
const nearBytes = 16 << 10

// dotColumns reads columns of B once, four at a time; every row of A reads nearBytes of them before the next columns.
func (x *exec) dotColumns(rows unsafe.Pointer, lda int, sums unsafe.Pointer, ldc, j0, n int) {
	s, size := &x.spec, x.set.size
	ldb := s.B.ColStride * size
	near := max(1, nearBytes/(4*s.K*size))
	if s.M == 1 {
		near = n
	}
	for j := 0; j < n; {
		quads := min(near, (n-j)/4)
		b := x.elem(x.pb, (j0+j)*s.B.ColStride)
		for i := range s.M {
			row, out := x.elem(rows, i*lda), x.elem(sums, i*ldc+j)
			if quads > 0 {
				x.set.dots(s.K, row, b, ldb, out, quads)
				continue
			}
			for c := range n - j {
				x.set.dot(s.K, row, unsafe.Add(b, c*ldb), x.elem(out, c))
			}
		}
		if quads == 0 {
			return
		}
		j += 4 * quads
	}
}

// shortRow is the number of columns up to which a row's sums stay in registers over nearBytes of rows of B.
const shortRow = 128

// axpyColumns streams rows of B once, four at a time, adding them to the sums
// of every row of A while they are in L1.
func (x *exec) axpyColumns(rows unsafe.Pointer, lda int, sums unsafe.Pointer, ldc, j0, n int) {
	s, size := &x.spec, x.set.size
	for i := range s.M {
		clear(unsafe.Slice((*byte)(x.elem(sums, i*ldc)), n*size))
	}
	ldb := s.B.RowStride * size
	k := 0
	if n <= shortRow {
		near := s.K
		if s.M > 1 {
			near = max(4, nearBytes/(n*size))
		}
		for ; k < s.K; k += near {
			b := x.elem(x.pb, k*s.B.RowStride+j0)
			for i := range s.M {
				x.set.axpys(n, x.elem(sums, i*ldc), b, ldb, x.elem(rows, i*lda+k),
					min(near, s.K-k))
			}
		}
		return
	}
	for ; k+4 <= s.K; k += 4 {
		b := x.elem(x.pb, k*s.B.RowStride+j0)
		for i := range s.M {
			x.set.axpy4(n, x.elem(sums, i*ldc), b, ldb, x.elem(rows, i*lda+k))
		}
	}
	if k < s.K {
		for i := range s.M {
			x.set.lastRows(n, x.elem(sums, i*ldc), x.elem(x.pb, k*s.B.RowStride+j0), ldb, x.elem(rows, i*lda+k), s.K-k)
		}
	}
}
