package fourier

import (
	"math/cmplx"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// This file has the kernel for lines of more than maxChunkLine elements, which all workers transform together. A line
// has the elements along the transformed dimension at one index of the other dimensions. A [fourierSpec] describes the
// transform that a call computes.

const (
	// maxChunkLine is the greatest length of a line that one worker transforms alone.
	maxChunkLine = 1 << 16
	// longScratchBytes is the approximate size in bytes of the scratch memory for long lines that are transformed
	// together.
	longScratchBytes = 256 << 20
)

// longFourier transforms groups of at most maxLines long lines, one group after another. A group is transformed in
// phases that all workers share. Each line is treated as a matrix ([matrixFourier]). The units of work of a phase are
// the columns, or the rows, of the matrices of the group.
//
// If the prime factors of the length n are small, two phases transform the columns and the rows. Otherwise four phases
// compute Bluestein's convolution. As j*k = (j*j + k*k - (k-j)*(k-j)) / 2, frequency k of a line x is
//
//	chirp[k] * sum over j of (x[j]*chirp[j]) * conj(chirp[k-j])    with chirp[k] = exp(-pi i k*k / n)
//
// The sum is a convolution with the filter conj(chirp). Its transforms have a length that is a power of two. The four
// phases are:
//
//  1. multiply the line by the chirp, and transform the columns
//  2. transform the rows, and multiply by the transform of the filter
//  3. transform the columns of this product
//  4. transform the rows, and multiply by the chirp
//
// Earlier phases, once for all groups, transform the filter.
//
// Scratch memory consists of matrices:
//
//	0 to maxLines-1            the lines of a group
//	maxLines to 2*maxLines-1   for a convolution: the products of the lines and the filter
//	2*maxLines                 for a convolution: the transform of the filter
type longFourier struct {
	*matrixFourier              // the transform of a line, or the longer transforms of the convolution
	spec           *fourierSpec // the transform that the call computes; its length is spec.points
	chirp          *rootTable   // powers of exp(-pi i / spec.points), if a convolution transforms the lines; else nil
	lines          *kit.LineSet
	read           elementReader // of the operand
	write          elementWriter // of the result
	maxLines       int           // number of lines of a group; the last group may have fewer
}

// longKernel returns the kernel of a call with lines longer than maxChunkLine.
func (spec *fourierSpec) longKernel(c *graph.Call) *graph.Kernel {
	f := &longFourier{spec: spec}
	f.lines, f.read, f.write = spec.access(c)
	f.setTransform()
	matrixBytes := complexBytes * f.n
	matricesPerLine := 1
	if f.chirp != nil {
		matricesPerLine = 2
	}
	f.maxLines = min(f.lines.Count, max(1, longScratchBytes/(matrixBytes*matricesPerLine)))
	kernel := &graph.Kernel{WorkerScratch: complexBytes * f.workLen(),
		Scratch: matrixBytes * matricesPerLine * f.maxLines}
	if f.chirp != nil {
		kernel.Scratch += matrixBytes // for the filter
		kernel.Phases = f.filterPhases()
	}
	for first := 0; first < f.lines.Count; first += f.maxLines {
		count := min(f.maxLines, f.lines.Count-first)
		if f.chirp != nil {
			kernel.Phases = append(kernel.Phases, f.convolutionPhases(first, count)...)
		} else {
			kernel.Phases = append(kernel.Phases, f.phases(first, count)...)
		}
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
	return kit.SliceOf[complex128](mem.Scratch, complexBytes*f.n*i, f.n)
}

// product returns the matrix of the product of line i of a group and the filter.
func (f *longFourier) product(mem *graph.Mem, i int) []complex128 { return f.matrix(mem, f.maxLines+i) }

// filter returns the matrix of the transform of the filter.
func (f *longFourier) filter(mem *graph.Mem) []complex128 { return f.matrix(mem, 2*f.maxLines) }

// columnPhase returns a phase that transforms the columns of the matrices of a group of count lines. load loads a
// column of the matrix of line i of the group.
func (f *longFourier) columnPhase(count int,
	load func(mem *graph.Mem, i, column int, elements []complex128)) graph.Phase {
	return f.phase(count, f.cols, f.rows, func(mem *graph.Mem, scratch []complex128, i, column int) {
		elements, scratch := scratch[:f.rows], scratch[f.rows:]
		load(mem, i, column, elements)
		f.transformColumn(mem, f.matrix(mem, i), elements, scratch, column)
	})
}

// rowPhase returns a phase that transforms the rows of the matrices of a group of count lines. store uses a transformed
// row of the matrix of line i of the group.
func (f *longFourier) rowPhase(count int,
	store func(mem *graph.Mem, i, row int, values []complex128)) graph.Phase {
	return f.phase(count, f.rows, f.cols, func(mem *graph.Mem, scratch []complex128, i, row int) {
		store(mem, i, row, f.transformRow(f.matrix(mem, i), scratch, row))
	})
}

// phase returns a phase that calls compute for each unit of work of count lines: a column or a row of line i. units is
// the number of units of a line, and elements the number of elements of a unit. scratch is memory of the worker.
func (f *longFourier) phase(count, units, elements int,
	compute func(mem *graph.Mem, scratch []complex128, i, unit int)) graph.Phase {
	return copies.ChunkedPhase(count*units, transformCost*elements, func(mem *graph.Mem, begin, end int) error {
		scratch := kit.SliceOf[complex128](mem.WorkerScratch, 0, f.workLen())
		for index := begin; index < end; index++ {
			compute(mem, scratch, index/units, index%units)
		}
		return nil
	})
}

// phases returns the phases that transform the group of the lines first to first+count-1.
func (f *longFourier) phases(first, count int) []graph.Phase {
	return []graph.Phase{
		f.columnPhase(count, func(mem *graph.Mem, i, column int, elements []complex128) {
			f.loadOperand(mem, first+i, elements, column)
		}),
		f.rowPhase(count, func(mem *graph.Mem, i, row int, values []complex128) {
			f.writeFrequencies(mem, first+i, row, values)
		})}
}

// convolutionPhases is [longFourier.phases] for Bluestein's convolution. The convolution is the inverse transform of
// the product of both transforms. The inverse transform of x is conj(forward(conj(x))) * scale. (If the call itself is
// an inverse transform, loadOperand and writeFrequencies conjugate its values in addition.)
func (f *longFourier) convolutionPhases(first, count int) []graph.Phase {
	scale := complex(1/float64(f.n), 0)
	return []graph.Phase{
		// Transform the columns of the line times the chirp.
		f.columnPhase(count, func(mem *graph.Mem, i, column int, elements []complex128) {
			count := min(len(elements), kit.DivUp(max(0, f.spec.points-column), f.cols)) // elements before the padding
			f.loadOperand(mem, first+i, elements[:count], column)
			for row, value := range elements[:count] {
				elements[row] = kit.MulComplex(value, f.chirpAt(row*f.cols+column))
			}
			clear(elements[count:])
		}),
		// Transform the rows and multiply by the transform of the filter. This gives x; compute conj(x).
		f.rowPhase(count, func(mem *graph.Mem, i, row int, values []complex128) {
			product, filter := f.product(mem, i), f.filter(mem)
			for column, value := range values {
				if column%checkEvery == 0 {
					mem.CheckContext()
				}
				frequency := f.frequency(row, column)
				product[frequency] = cmplx.Conj(kit.MulComplex(value, filter[frequency]))
			}
		}),
		// Compute forward(conj(x)): transform the columns.
		f.columnPhase(count, func(mem *graph.Mem, i, column int, elements []complex128) {
			product := f.product(mem, i)
			for row := range elements {
				elements[row] = product[row*f.cols+column]
			}
		}),
		// Transform the rows, compute the outer conj, and multiply by the scale and by the chirp.
		f.rowPhase(count, func(mem *graph.Mem, i, row int, values []complex128) {
			for column, value := range values {
				if frequency := f.frequency(row, column); frequency < f.spec.points {
					values[column] = kit.MulComplex(kit.MulComplex(cmplx.Conj(value), scale), f.chirpAt(frequency))
				}
			}
			f.writeFrequencies(mem, first+i, row, values)
		})}
}

// filterPhases returns the phases that transform the filter of the convolution, which is the conjugate chirp, extended
// periodically. They use matrix 0 as temporary memory.
func (f *longFourier) filterPhases() []graph.Phase {
	points, paddedLength := f.spec.points, f.n
	const count = 1 // the filter is transformed like a group of one line
	return []graph.Phase{
		f.columnPhase(count, func(_ *graph.Mem, _, column int, elements []complex128) {
			clear(elements)
			for row := range elements {
				switch j := row*f.cols + column; {
				case j < points:
					elements[row] = cmplx.Conj(f.chirpAt(j))
				case j > paddedLength-points:
					elements[row] = cmplx.Conj(f.chirpAt(paddedLength - j))
				}
			}
		}),
		f.rowPhase(count, func(mem *graph.Mem, _, row int, values []complex128) {
			filter := f.filter(mem)
			for column, value := range values {
				if column%checkEvery == 0 {
					mem.CheckContext()
				}
				filter[f.frequency(row, column)] = value
			}
		})}
}

// loadOperand loads a column of the matrix of a line of the operand. For an inverse transform it loads the conjugates
// (see [fourierSpec.transform]).
func (f *longFourier) loadOperand(mem *graph.Mem, line int, elements []complex128, column int) {
	address := unsafe.Add(mem.Ptrs[1], f.lines.Offsets(line)[0]) // Offsets: of the operand's line, and of the result's
	f.spec.load(elements, column, f.cols, func(values []complex128, first, step int) {
		f.read(address, values, first, step)
	})
	if f.spec.isInverse {
		conjugate(elements)
	}
}

// chirpAt returns element k of the chirp, exp(-pi i k*k / n) for lines of length n. k*k is reduced modulo 2n, because
// the table has only the powers below 2n.
func (f *longFourier) chirpAt(k int) complex128 {
	return f.chirp.power(k * k % (2 * f.spec.points))
}

// writeFrequencies scales the frequencies of a row of the matrix of a line and writes them to the result. values[i] is
// frequency row + i*rows. Frequencies that the result does not have are dropped.
func (f *longFourier) writeFrequencies(mem *graph.Mem, line, row int, values []complex128) {
	if row >= f.spec.outLen {
		return
	}
	belowOutLen := kit.DivUp(f.spec.outLen-row, f.rows) // number of these frequencies that are less than outLen
	values = values[:min(len(values), belowOutLen)]
	f.spec.scaleFrequencies(values)
	f.write(unsafe.Add(mem.Ptrs[0], f.lines.Offsets(line)[1]), values, row, f.rows)
}
