package fourier

import (
	"math/cmplx"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// This file transforms lines of more than maxChunkLine elements. A line has the elements along the transformed
// dimension at one index of the others. The parts of the file, in order:
//
//	matrixFourier  transforms a line as a matrix: columns, then rows
//	rootTable      computes roots of unity, the factors of a transform
//	longFourier    the phases of a kernel, in which all workers transform a group of lines together
//
// Two types of other files matter here: [fourierSpec] describes the transform that a call computes, and [fourier]
// transforms a line that fits in the cache of one worker.

const (
	// maxChunkLine is the greatest length of a line that one worker transforms alone.
	maxChunkLine = 1 << 16
	// maxLongRadix bounds the prime factors of lengths above maxChunkLine. Lengths with greater factors use Bluestein's
	// convolution.
	maxLongRadix = 13
	// longScratchBytes is the approximate size in bytes of the scratch memory for long lines that are transformed
	// together.
	longScratchBytes = 256 << 20
)

// matrixFourier transforms a line as a matrix of n = rows*cols elements (Bailey's four-step method): element j*cols+i
// of the line is at row j and column i. It transforms the columns, multiplies them by twiddle factors, and then
// transforms the rows.
//
// After the transform, row k has the frequencies k, k+rows, k+2*rows and so on. For example, with 6 elements and 2
// rows:
//
//	x0 x1 x2        X0 X2 X4
//	x3 x4 x5   ->   X1 X3 X5
type matrixFourier struct {
	n, rows, cols                 int
	columnTransform, rowTransform *fourier // transforms of the columns and of the rows
	twiddles                      rootTable
}

// newMatrixFourier returns the transform of lines of the given length. Lines are treated as matrices with the given
// number of rows.
func newMatrixFourier(length, rows int) *matrixFourier {
	cols := length / rows
	return &matrixFourier{n: length, rows: rows, cols: cols, columnTransform: newFourier(rows),
		rowTransform: newFourier(cols), twiddles: newRootTable(length)}
}

// matrixRows divides a line into a matrix with about as many rows as columns, and returns the number of rows. It
// returns 0 if the length of the line has a prime factor above maxLongRadix.
func matrixRows(length int) int {
	rows, cols := 1, 1
	for factor := maxLongRadix; factor > 1; factor-- { // composite factors are products of small primes
		for length%factor == 0 {
			if length /= factor; rows < cols {
				rows *= factor
			} else {
				cols *= factor
			}
		}
	}
	if length > 1 || max(rows, cols) > maxChunkLine {
		return 0
	}
	return rows
}

// workLen returns the number of elements of memory that a worker needs.
func (f *matrixFourier) workLen() int {
	return max(f.rows+f.columnTransform.workLen(), f.cols+f.rowTransform.workLen())
}

// checkEvery is the number of elements of a column after which a worker checks whether the call was cancelled. The
// number is small because each write may be the first access to a large page, which the operating system must clear.
const checkEvery = 64

// transformColumn transforms a column of the matrix of a line, multiplies it by twiddle factors, and writes it to the
// same column of the argument matrix. element(j) returns element j of the line. scratch is memory of the worker.
func (f *matrixFourier) transformColumn(mem *graph.Mem, matrix, scratch []complex128, column int,
	element func(j int) complex128) {
	elements, scratch := scratch[:f.rows], scratch[f.rows:]
	for row := range elements {
		elements[row] = element(row*f.cols + column)
	}
	f.columnTransform.forward(elements, scratch)
	for row, value := range elements {
		if row%checkEvery == 0 {
			mem.CheckContext()
		}
		matrix[row*f.cols+column] = kit.MulComplex(value, f.twiddles.power(column*row))
	}
}

// transformRow returns the transform of a row of the matrix. Row k has the frequencies k, k+rows, k+2*rows and so on of
// the line.
func (f *matrixFourier) transformRow(matrix, scratch []complex128, row int) []complex128 {
	elements, scratch := scratch[:f.cols], scratch[f.cols:]
	copy(elements, matrix[row*f.cols:])
	f.rowTransform.forward(elements, scratch)
	return elements
}

// rootTable computes powers of exp(-2 pi i / n). A power is the product of an entry of low and an entry of high. The
// lowest rootBits bits of the exponent are the index in low, and its other bits are the index in high.
type rootTable struct{ low, high []complex128 }

// rootBits is the number of bits of an exponent that index rootTable.low.
const rootBits = 13

// newRootTable returns the table for n.
func newRootTable(n int) rootTable {
	table := rootTable{make([]complex128, 1<<rootBits), make([]complex128, n>>rootBits+1)}
	for k := range table.low {
		table.low[k] = unitRoot(k, n)
	}
	for k := range table.high {
		table.high[k] = unitRoot(k<<rootBits, n)
	}
	return table
}

// power returns exp(-2 pi i / n) to the power of k, for k from 0 to n-1.
func (t *rootTable) power(k int) complex128 {
	return kit.MulComplex(t.high[k>>rootBits], t.low[k&(1<<rootBits-1)])
}

// longFourier transforms a group of long lines in phases that all workers share. Each line is treated as a matrix
// ([matrixFourier]). The units of work of a phase are the columns, or the rows, of the matrices of the group.
//
// If the prime factors of the length n are small, two phases transform the columns and the rows. Otherwise four phases
// compute Bluestein's convolution. As j*k = (j*j + k*k - (k-j)*(k-j)) / 2, frequency k of a line x is
//
//	chirp[k] * sum over j of (x[j]*chirp[j]) * conj(chirp[k-j])    with chirp[k] = exp(-pi i k*k / n)
//
// The sum is a convolution with the filter conj(chirp). Its transforms have a length that is a power of two. The four
// phases transform:
//
//	columns of the line times the chirp
//	rows, then multiplication by the transform of the filter
//	columns of this product
//	rows, then multiplication by the chirp
//
// Earlier phases, once for all groups, transform the filter.
//
// Scratch memory consists of matrices. With groups of at most L lines, these are:
//
//	0 to L-1     the lines
//	L to 2*L-1   for a convolution: the products of the lines and the filter
//	2*L          for a convolution: the transform of the filter
type longFourier struct {
	*matrixFourier              // the transform of a line, or the transforms of the convolution
	spec           *fourierSpec // the transform that the call computes; its length is spec.points
	chirp          *rootTable   // powers of exp(-pi i / spec.points), if a convolution transforms the lines; else nil
	lines          *kit.LineSet
	loadElement    elementReader // of the operand
	storeElements  elementWriter // of the result
	firstLine      int           // index of the first line of the group
	groupLines     int           // number of lines of the group
}

// longKernel returns the kernel of a call with lines longer than maxChunkLine. Each group of lines has phases of its
// own.
func (spec *fourierSpec) longKernel(c *graph.Call) *graph.Kernel {
	f := longFourier{spec: spec}
	f.lines, f.loadElement, f.storeElements = spec.access(c)
	f.setTransform()
	matrixBytes := complexBytes * f.n
	matricesPerLine := 1
	if f.chirp != nil {
		matricesPerLine = 2
	}
	maxLines := min(f.lines.Count, max(1, longScratchBytes/(matrixBytes*matricesPerLine)))
	kernel := &graph.Kernel{WorkerScratch: complexBytes * f.workLen(), Scratch: matrixBytes * matricesPerLine * maxLines}
	if f.chirp != nil {
		kernel.Scratch += matrixBytes // for the filter
		kernel.Phases = f.filterPhases(2 * maxLines)
	}
	for firstLine := 0; firstLine < f.lines.Count; firstLine += maxLines {
		group := f
		group.firstLine, group.groupLines = firstLine, min(maxLines, f.lines.Count-firstLine)
		kernel.Phases = append(kernel.Phases, group.phases(maxLines)...)
	}
	return kernel
}

// setTransform sets the fields matrixFourier and chirp. The length of a convolution is a power of two.
func (f *longFourier) setTransform() {
	points := f.spec.points
	if rows := matrixRows(points); rows > 0 {
		f.matrixFourier = newMatrixFourier(points, rows)
		return
	}
	paddedLength := 1
	for paddedLength < 2*points-1 {
		paddedLength *= 2
	}
	f.matrixFourier = newMatrixFourier(paddedLength, matrixRows(paddedLength))
	chirp := newRootTable(2 * points) // powers of exp(-2 pi i / (2*points)) = exp(-pi i / points)
	f.chirp = &chirp
}

// matrix returns matrix i of scratch memory.
func (f *longFourier) matrix(mem *graph.Mem, i int) []complex128 {
	size := f.n
	return kit.SliceOf[complex128](mem.Scratch, complexBytes*size*i, size)
}

// columnPhase returns a phase that calls compute for each column of the matrices of the lines 0 to lines-1 of the
// group. The argument scratch of compute is memory of the worker.
func (f *longFourier) columnPhase(lines int,
	compute func(mem *graph.Mem, scratch []complex128, line, column int)) graph.Phase {
	return f.phase(lines, f.cols, f.rows, compute)
}

// rowPhase is columnPhase for rows.
func (f *longFourier) rowPhase(lines int,
	compute func(mem *graph.Mem, scratch []complex128, line, row int)) graph.Phase {
	return f.phase(lines, f.rows, f.cols, compute)
}

// phase is columnPhase for units of work: columns or rows. units is the number of units of a line, and elements the
// number of elements of a unit.
func (f *longFourier) phase(lines, units, elements int,
	compute func(mem *graph.Mem, scratch []complex128, line, unit int)) graph.Phase {
	return copies.ChunkedPhase(lines*units, transformCost*elements, func(mem *graph.Mem, begin, end int) error {
		scratch := kit.SliceOf[complex128](mem.WorkerScratch, 0, f.workLen())
		for index := begin; index < end; index++ {
			compute(mem, scratch, index/units, index%units)
		}
		return nil
	})
}

// operandLine returns the address of a line of the group in the operand.
func (f *longFourier) operandLine(mem *graph.Mem, line int) unsafe.Pointer {
	return unsafe.Add(mem.Ptrs[1], f.lines.Offsets(f.firstLine + line)[0])
}

// resultLine returns the address of a line of the group in the result.
func (f *longFourier) resultLine(mem *graph.Mem, line int) unsafe.Pointer {
	return unsafe.Add(mem.Ptrs[0], f.lines.Offsets(f.firstLine + line)[1])
}

// phases returns the phases that transform the group. Scratch memory has room for maxLines lines. The last group may
// have fewer.
func (f *longFourier) phases(maxLines int) []graph.Phase {
	if f.chirp != nil {
		return f.convolutionPhases(maxLines)
	}
	return []graph.Phase{
		f.columnPhase(f.groupLines, func(mem *graph.Mem, scratch []complex128, line, column int) {
			src := f.operandLine(mem, line)
			f.transformColumn(mem, f.matrix(mem, line), scratch, column, func(j int) complex128 {
				return f.lineValue(src, j)
			})
		}),
		f.rowPhase(f.groupLines, func(mem *graph.Mem, scratch []complex128, line, row int) {
			f.writeFrequencies(f.resultLine(mem, line), f.transformRow(f.matrix(mem, line), scratch, row), row)
		})}
}

// convolutionPhases returns the phases that transform the group by Bluestein's convolution. The convolution is the
// inverse transform of the product of both transforms. The inverse transform of x is conj(forward(conj(x))) * scale.
func (f *longFourier) convolutionPhases(maxLines int) []graph.Phase {
	scale := complex(1/float64(f.n), 0)
	return []graph.Phase{
		// Transform the columns of the line times the chirp.
		f.columnPhase(f.groupLines, func(mem *graph.Mem, scratch []complex128, line, column int) {
			src := f.operandLine(mem, line)
			f.transformColumn(mem, f.matrix(mem, line), scratch, column, func(j int) complex128 {
				if j >= f.spec.points {
					return 0
				}
				return kit.MulComplex(f.lineValue(src, j), f.chirpAt(j))
			})
		}),
		// Transform the rows and multiply by the transform of the filter. This gives x; compute conj(x).
		f.rowPhase(f.groupLines, func(mem *graph.Mem, scratch []complex128, line, row int) {
			product, filter := f.matrix(mem, maxLines+line), f.matrix(mem, 2*maxLines)
			for column, value := range f.transformRow(f.matrix(mem, line), scratch, row) {
				if column%checkEvery == 0 {
					mem.CheckContext()
				}
				frequency := row + column*f.rows
				product[frequency] = cmplx.Conj(kit.MulComplex(value, filter[frequency]))
			}
		}),
		// Compute forward(conj(x)): transform the columns.
		f.columnPhase(f.groupLines, func(mem *graph.Mem, scratch []complex128, line, column int) {
			product := f.matrix(mem, maxLines+line)
			f.transformColumn(mem, f.matrix(mem, line), scratch, column, func(j int) complex128 { return product[j] })
		}),
		// Transform the rows, compute the outer conj, and multiply by the scale and by the chirp.
		f.rowPhase(f.groupLines, func(mem *graph.Mem, scratch []complex128, line, row int) {
			frequencies := f.transformRow(f.matrix(mem, line), scratch, row)
			for column, value := range frequencies {
				if frequency := row + column*f.rows; frequency < f.spec.points {
					frequencies[column] = kit.MulComplex(kit.MulComplex(cmplx.Conj(value), scale), f.chirpAt(frequency))
				}
			}
			f.writeFrequencies(f.resultLine(mem, line), frequencies, row)
		})}
}

// filterPhases returns the phases that transform the filter of the convolution, which is the conjugate chirp, extended
// periodically. They write the transform to matrix filterIndex of scratch memory, and use matrix 0 as temporary
// memory.
func (f *longFourier) filterPhases(filterIndex int) []graph.Phase {
	points, paddedLength := f.spec.points, f.n
	const lines = 1 // the filter
	return []graph.Phase{
		f.columnPhase(lines, func(mem *graph.Mem, scratch []complex128, _, column int) {
			f.transformColumn(mem, f.matrix(mem, 0), scratch, column, func(j int) complex128 {
				switch {
				case j < points:
					return cmplx.Conj(f.chirpAt(j))
				case j > paddedLength-points:
					return cmplx.Conj(f.chirpAt(paddedLength - j))
				}
				return 0
			})
		}),
		f.rowPhase(lines, func(mem *graph.Mem, scratch []complex128, _, row int) {
			filter := f.matrix(mem, filterIndex)
			for column, value := range f.transformRow(f.matrix(mem, 0), scratch, row) {
				if column%checkEvery == 0 {
					mem.CheckContext()
				}
				filter[row+column*f.rows] = value
			}
		})}
}

// chirpAt returns element k of the chirp, exp(-pi i k*k / n) for lines of length n. k*k is reduced modulo 2n, because
// the table has only the powers below 2n.
func (f *longFourier) chirpAt(k int) complex128 {
	return f.chirp.power(k * k % (2 * f.spec.points))
}

// lineValue returns element j of a line after the line is cut or extended to the length of the transform. It computes
// the same elements as [fourierSpec.load]. For an inverse transform it returns the conjugate.
func (f *longFourier) lineValue(line unsafe.Pointer, j int) (value complex128) {
	points, available := f.spec.points, min(f.spec.inLen, f.spec.points)
	if f.spec.isToReal {
		available = min(f.spec.inLen, points/2+1)
	}
	switch {
	case j < available:
		value = f.loadElement(line, j)
	case f.spec.isToReal && points-j < available:
		value = cmplx.Conj(f.loadElement(line, points-j))
	}
	if f.spec.isToReal && (j == 0 || 2*j == points) {
		value = complex(real(value), 0)
	}
	if f.spec.isInverse {
		return cmplx.Conj(value)
	}
	return value
}

// writeFrequencies scales the frequencies first, first+rows, first+2*rows and so on of a line, and writes them to the
// result. It drops frequencies that the result does not have.
func (f *longFourier) writeFrequencies(line unsafe.Pointer, values []complex128, first int) {
	imagScale := f.spec.scale // for an inverse transform, the result is the conjugate of the values
	if f.spec.isInverse {
		imagScale = -imagScale
	}
	if first >= f.spec.outLen {
		return
	}
	belowOutLen := kit.DivUp(f.spec.outLen-first, f.rows) // number of frequencies below outLen
	values = values[:min(len(values), belowOutLen)]
	for column, value := range values {
		values[column] = complex(real(value)*f.spec.scale, imag(value)*imagScale)
	}
	f.storeElements(line, values, first, f.rows)
}
