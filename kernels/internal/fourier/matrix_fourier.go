package fourier

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// This file transforms a long line as a matrix, column by column and then row by row. The phases of longFourier
// (long.go) divide the columns and rows among workers.

// maxLongRadix bounds the prime factors of the length of a matrixFourier.
const maxLongRadix = 13

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
// same column of matrix. elements has the column. scratch is memory of the worker.
func (f *matrixFourier) transformColumn(mem *graph.Mem, matrix, elements, scratch []complex128, column int) {
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

// frequency returns the frequency at a row and column of the matrix after the transform.
func (f *matrixFourier) frequency(row, column int) int { return row + column*f.rows }

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
