package gemm

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/strided"
)

// This file computes products with few rows or columns, without packing. Each product reads the larger operand once, in
// place. The smaller operand becomes A. The strides of B select the loops:
//
//	pathDot     C[i,j] = Σ_k A[i,k]·B[k,j]      for each i and j, if B is contiguous along k
//	pathAxpy    C[i,:] += A[i,k]·B[k,:]         for each k and i, if B is contiguous along j
//
// For example, a product of 1×1000 by 1000×1000 with a row-major B uses pathAxpy. B exceeds the caches, and each
// element of B is used only once.
//
// A term is the product A[i,k]·B[k,j] for one k. K is divided into super-blocks of at most directDepth terms. The sums
// of one super-block are computed together.
//
// As in BLAS, lda, ldb and ldc are the distances between rows of A, B and C. For dot products, ldb is the distance
// between columns of B. lda and ldc are in elements, and ldb is in bytes. countMACs counts multiplications. After every
// checkMACs multiplications, it checks whether the caller has cancelled the product.

const (
	// directRows is the maximum number of rows of A for which B is not packed. With so few rows, an element of B is
	// used too rarely to amortize packing.
	directRows = 4
	// directMACs is the least number of multiplications in a tile of pathDot and pathAxpy.
	directMACs = machine.MoveGrain
	// directDepth is the greatest number of terms of a super-block of pathDot and pathAxpy.
	directDepth = 1 << 18
	// minAxpyCols is the minimum number of columns of B for pathAxpy, whose loops run along them.
	minAxpyCols = 16
	// directCols is the maximum number of columns of a tile. A call of the epilogue processes at most one tile.
	directCols = 1 << 14
	// joinedSumsBytes is the size in bytes of the sums of adjacent tiles that are computed together. These sums stay in
	// L1.
	joinedSumsBytes = 16 << 10
)

// axpyTerms is the number of rows of B that one call of axpy4 adds to a row of C. dotCols is the number of columns in a
// group of the routine dots.
const axpyTerms, dotCols = 4, 4

// planThin schedules a product with few rows (or, swapped, few columns) without packing B. It returns false if the
// product has too many rows and columns, or if no dimension of B is contiguous.
func (p *Plan) planThin() bool {
	if min(p.spec.M, p.spec.N) > directRows {
		return false
	}
	swapped := p.spec.N < p.spec.M // compute Cᵀ = Bᵀ·Aᵀ, so that the smaller operand becomes A
	if swapped {
		p.swap()
	}
	spec := &p.spec
	minTileCols := ceilDiv(directMACs, max(1, spec.M*spec.K)) // a column has M*K multiplications
	switch {
	case spec.B.RowStride == 1:
		const maxTiles = 32
		p.path = pathDot
		p.tileCols = roundUp(max(ceilDiv(spec.N, maxTiles), minTileCols), dotCols)
	case spec.B.ColStride == 1 && spec.N >= minAxpyCols:
		const maxTiles, minCols, maxCols = 16, 128, 1024 // there are more tiles only if tiles have maxCols columns
		const unit = 32                                  // the number of columns is a multiple of unit
		p.path = pathAxpy
		p.tileCols = min(maxCols, roundUp(max(ceilDiv(spec.N, maxTiles), minCols, minTileCols), unit))
	default:
		if swapped {
			p.swap()
		}
		return false
	}
	p.tileCols = min(p.tileCols, directCols, spec.N)
	p.tileRows, p.mTiles, p.nTiles = spec.M, 1, ceilDiv(spec.N, p.tileCols)
	p.maxSuperBlockTerms = min(spec.K, directDepth)
	p.joinedCols = p.tileCols
	// Adjacent tiles are computed together if B does not fit in L2 (JoinsTiles).
	if elemBytes := spec.DType.Size(); p.path == pathAxpy && spec.K*spec.N*elemBytes >= machine.L2Bytes {
		p.joinedCols = max(p.tileCols, joinedSumsBytes/(spec.M*elemBytes)/p.tileCols*p.tileCols)
	}
	p.layOutThinScratch()
	return true
}

// layOutThinScratch sets the layout of worker scratch on pathDot and pathAxpy: the copied rows of A, then the sums (at
// packedB), then the sums of later super-blocks (at tempTile).
func (p *Plan) layOutThinScratch() {
	spec, layout, elemBytes := &p.spec, &p.worker, p.spec.DType.Size()
	sumsBytes := p.joinedCols * spec.M * elemBytes
	if spec.A.ColStride != 1 {
		layout.packedB = roundUp(spec.M*p.maxSuperBlockTerms*elemBytes, alignBytes)
	}
	layout.tempTile = layout.packedB + roundUp(sumsBytes, alignBytes)
	layout.totalBytes = layout.tempTile + alignBytes // the first bytes are skipped if the scratch is not aligned
	if p.maxSuperBlockTerms < spec.K {
		layout.totalBytes += sumsBytes
	}
}

// JoinsTiles reports whether RunRange computes adjacent tiles faster than calls of Run. RunRange is faster if B exceeds
// L2, because it reads longer parts of the rows of B.
func (p *Plan) JoinsTiles() bool { return p.joinedCols > p.tileCols }

// RunRange executes tiles [begin, end) of a plan for which JoinsTiles returns true. Such a plan has one phase. See Run.
func (p *Plan) RunRange(begin, end int, args *Args, worker []byte) {
	x := p.execution(args, worker)
	x.superBlockTerms, x.epilogue = p.spec.K, args.Epilogue
	endCol := min(end*p.tileCols, p.spec.N)
	for j0 := begin * p.tileCols; j0 < endCol; j0 += p.joinedCols {
		j1 := min(j0+p.joinedCols, endCol)
		x.runDirect(j0, j1)
		x.runEpilogue(0, p.spec.M, j0, j1)
	}
}

// runDirect computes columns [j0, j1) of C, which has few rows. If the rows of C are contiguous and there is neither a
// bias nor an old C to add, sums accumulate in C itself. Otherwise they accumulate in worker scratch.
func (x *execution) runDirect(j0, j1 int) {
	spec := &x.spec
	cols := j1 - j0
	// x.worker is the address of the worker's scratch. x.Plan.worker has offsets in this scratch.
	sums, ldc := unsafe.Add(x.worker, x.Plan.worker.packedB), cols
	accumulatesInC := spec.CColStride == 1 && spec.Bias == NoBias && !spec.Accumulate
	if accumulatesInC {
		sums, ldc = x.elem(x.ptrC, j0), spec.CRowStride
	}
	for k0 := 0; k0 < spec.K; k0 += x.maxSuperBlockTerms { // k0 is the first term of a super-block
		depth := min(x.maxSuperBlockTerms, spec.K-k0)
		block := thinProduct{b: x.elem(x.memoryB.operand, k0*spec.B.RowStride+j0*spec.B.ColStride), sums: sums,
			ldc: ldc, cols: cols, depth: depth}
		block.rows, block.lda = x.rowsOf(k0, depth)
		if k0 > 0 { // the sums of later super-blocks are in scratch, and are added to the sums of the first
			block.sums, block.ldc = unsafe.Add(x.worker, x.Plan.worker.tempTile), cols
		}
		if x.path == pathDot {
			x.dotColumns(block)
		} else {
			x.axpyColumns(block)
		}
		if k0 > 0 {
			noBias, accumulate := matrix{}, true
			// The fields of a matrix are its address, the distance between rows, and the distance between columns.
			x.kernels.store(spec.M, cols, matrix{block.sums, block.ldc, 1}, matrix{sums, ldc, 1}, noBias, accumulate)
		}
	}
	if !accumulatesInC {
		x.kernels.store(spec.M, cols, matrix{sums, cols, 1}, x.result(0, j0), x.biasAt(0, j0), spec.Accumulate)
	}
}

// thinProduct is the product of all rows of A with some columns of B, over some of their terms.
type thinProduct struct {
	rows        unsafe.Pointer // the rows of A; their terms are contiguous
	b           unsafe.Pointer // the first term of the first column of B
	sums        unsafe.Pointer // the result; its rows are contiguous
	lda, ldc    int            // distances between rows of A and of the sums, in elements
	depth, cols int            // numbers of terms and columns
}

// rowsOf returns rows of A whose terms, from k0 on, are contiguous. lda is the distance between rows in elements. If
// the terms are not contiguous in A, rowsOf copies them to worker scratch.
func (x *execution) rowsOf(k0, depth int) (rows unsafe.Pointer, lda int) {
	spec, elemBytes := &x.spec, x.kernels.elemBytes
	src := x.elem(x.memoryA.operand, k0*spec.A.ColStride)
	if spec.A.ColStride == 1 {
		return src, spec.A.RowStride
	}
	mover := strided.MoverOf(elemBytes)
	mover.CopyBlock(x.worker, src, strided.Axis{N: depth, Dst: elemBytes, Src: spec.A.ColStride * elemBytes},
		strided.Axis{N: spec.M, Dst: depth * elemBytes, Src: spec.A.RowStride * elemBytes})
	x.countMACs(depth * spec.M)
	return x.worker, depth
}

// l1PartBytes is the size in bytes of a part of B that stays in L1. All rows of A are multiplied by the part before the
// next part is read.
const l1PartBytes = 16 << 10

// dotColumns computes the sums as dot products of rows of A with columns of B. It multiplies all rows of A by one part
// of B (l1PartBytes), in groups of four columns, before it reads the next part.
func (x *execution) dotColumns(thin thinProduct) {
	spec, elemBytes := &x.spec, x.kernels.elemBytes
	ldb := spec.B.ColStride * elemBytes
	groupsPerPart := max(1, l1PartBytes/(dotCols*thin.depth*elemBytes))
	if spec.M == 1 { // no other row reads a part again, so only the checks for cancellation limit the size of a part
		groupsPerPart = max(1, checkMACs/(dotCols*thin.depth))
	}
	j := 0
	for thin.cols-j >= dotCols {
		colGroups := min(groupsPerPart, (thin.cols-j)/dotCols)
		for i := range spec.M {
			row, out := x.elem(thin.rows, i*thin.lda), x.elem(thin.sums, i*thin.ldc+j)
			x.countMACs(thin.depth * dotCols * colGroups)
			x.kernels.dots(thin.depth, row, unsafe.Add(thin.b, j*ldb), ldb, out, colGroups)
		}
		j += dotCols * colGroups
	}
	if j == thin.cols {
		return
	}
	for i := range spec.M { // the last columns, fewer than a group
		row, out := x.elem(thin.rows, i*thin.lda), x.elem(thin.sums, i*thin.ldc+j)
		x.countMACs(thin.depth * (thin.cols - j))
		for col := range thin.cols - j {
			x.kernels.dot(thin.depth, row, unsafe.Add(thin.b, (j+col)*ldb), x.elem(out, col))
		}
	}
}

// maxShortRowCols is the maximum number of columns for which the sums of a row stay in registers while a part of B
// (l1PartBytes) is read.
const maxShortRowCols = 128

// axpyColumns computes the sums as sums of multiples of the rows of B. It reads four rows of B at a time, and
// multiplies them by all rows of A while they are in L1.
func (x *execution) axpyColumns(thin thinProduct) {
	spec, elemBytes := &x.spec, x.kernels.elemBytes
	for i := range spec.M {
		clear(unsafe.Slice((*byte)(x.elem(thin.sums, i*thin.ldc)), thin.cols*elemBytes))
	}
	// If tiles are joined, cols depends on the number of workers. Therefore cols must not select the loops: they add in
	// different orders, and the bits of results must not depend on the number of workers.
	if thin.cols <= maxShortRowCols && !x.JoinsTiles() {
		x.axpyShortRows(thin)
		return
	}
	ldb := spec.B.RowStride * elemBytes
	k := 0
	for ; k+axpyTerms <= thin.depth; k += axpyTerms {
		for i := range spec.M {
			sums, factors := x.elem(thin.sums, i*thin.ldc), x.elem(thin.rows, i*thin.lda+k)
			x.kernels.axpy4(thin.cols, sums, unsafe.Add(thin.b, k*ldb), ldb, factors)
		}
		x.countMACs(axpyTerms * spec.M * thin.cols)
	}
	if k < thin.depth { // the last rows of B, fewer than axpyTerms
		for i := range spec.M {
			sums, factors := x.elem(thin.sums, i*thin.ldc), x.elem(thin.rows, i*thin.lda+k)
			x.kernels.lastRows(thin.cols, sums, unsafe.Add(thin.b, k*ldb), ldb, factors, thin.depth-k)
		}
	}
}

// axpyShortRows does the work of axpyColumns for short rows of B: the sums of a row of C stay in registers while a part
// of B is read.
func (x *execution) axpyShortRows(thin thinProduct) {
	spec, elemBytes := &x.spec, x.kernels.elemBytes
	ldb := spec.B.RowStride * elemBytes
	termsPerPart := max(axpyTerms, checkMACs/thin.cols/64*64) // rounded down to a multiple of 64
	if spec.M > 1 {                                           // all rows of A read a part from L1
		termsPerPart = max(axpyTerms, l1PartBytes/(thin.cols*elemBytes))
	}
	for k := 0; k < thin.depth; k += termsPerPart {
		terms := min(termsPerPart, thin.depth-k)
		for i := range spec.M {
			sums, factors := x.elem(thin.sums, i*thin.ldc), x.elem(thin.rows, i*thin.lda+k)
			x.kernels.axpys(thin.cols, sums, unsafe.Add(thin.b, k*ldb), ldb, factors, terms)
		}
		x.countMACs(spec.M * thin.cols * terms)
	}
}
