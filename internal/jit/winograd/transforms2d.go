package winograd

import "github.com/graphrun/graphrun/internal/jit/tile"

// This file makes the blocks of the three two-dimensional transforms. inputBlock and weightBlock transform pixels and
// weights to N x N points. outputBlock transforms the sums of the products of points to M x M results. Each applies a
// one-dimensional transform of [Form] to the columns and then to the rows.

// Part is a rectangle of a tile: rows [Row, RowEnd) and columns [Col, ColEnd).
type Part struct{ Row, Col, RowEnd, ColEnd int }

// contains reports whether an element is in the part.
func (part Part) contains(row, col int) bool {
	return part.Row <= row && row < part.RowEnd && part.Col <= col && col < part.ColEnd
}

// inputBlock returns the block that transforms the pixels of a tile to points: first each column, then each row. Pixels
// outside the part are 0, and loads are relative to the first pixel inside the part. For F(4x4) the four inner rows of
// points (the points +-A and +-B of the one-dimensional transform) are computed and stored first, then the two outer
// rows (the points 0 and infinity). The columns are loaded twice, but at most 24 instead of 36 transformed values are
// live, few enough for the registers of AVX-512 and NEON.
func (f Form) inputBlock(part Part) *block {
	in := inputBuilder{block: newBlock(), form: f, part: part}
	size := f.N()
	if f.M == 2 {
		for col := range size {
			for row, value := range f.inputTransform(in.block, in.loadColumn(col)) {
				in.transformed[row][col] = value
			}
		}
		in.storeRows(0, 1, 2, 3)
		return in.block
	}
	for col := range size {
		for index, value := range f.pointsAB(in.block, in.loadColumn(col)) {
			in.transformed[1+index][col] = value // rows 1 to 4
		}
	}
	in.storeRows(1, 2, 3, 4)
	for col := range size {
		in.transformed[0][col], in.transformed[5][col] = f.pointsZeroInfinity(in.block, in.loadColumn(col))
	}
	in.storeRows(0, 5)
	return in.block
}

// inputBuilder makes the block of an input transform.
type inputBuilder struct {
	*block
	form        Form
	part        Part          // of the tile: the pixels inside the image
	transformed [6][6]valueID // by row of points and column of pixels, at most 6 each: the transforms of the columns
}

// loadColumn returns the pixels of a column of the tile.
func (in *inputBuilder) loadColumn(col int) []valueID {
	pixels := make([]valueID, in.form.N())
	for row := range pixels {
		pixels[row] = zero
		if in.part.contains(row, col) {
			pixels[row] = in.load(row-in.part.Row, col-in.part.Col)
		}
	}
	return pixels
}

// storeRows transforms rows of transformed columns to rows of points, and stores them.
func (in *inputBuilder) storeRows(rows ...int) {
	for _, row := range rows {
		for col, value := range in.form.inputTransform(in.block, in.transformed[row][:in.form.N()]) {
			in.store(value, row, col)
		}
	}
}

// weightBlock returns the transform of the 3x3 weights of a window to points: first each column, then each row.
func (f Form) weightBlock() *block {
	weights := newBlock()
	size := f.N()
	transformed := make([][]valueID, size) // by row of points: the transforms of the columns
	for col := range windowSize {
		column := []valueID{weights.load(0, col), weights.load(1, col), weights.load(2, col)}
		for row, value := range f.weightTransform(weights, column) {
			transformed[row] = append(transformed[row], value)
		}
	}
	for row := range size {
		for col, value := range f.weightTransform(weights, transformed[row]) {
			weights.store(value, row, col)
		}
	}
	return weights
}

// windowSize is the number of rows and of columns of the window.
const windowSize = 3

// outputBlock returns the transform of a tile's points to results. It stores only the first `rows` rows and `cols`
// columns of results. If hasBias is true, it adds the bias. It then applies the epilogue.
func (f Form) outputBlock(rows, cols int, hasBias bool, epilogue []tile.EpilogueStep) *block {
	out := newBlock()
	size := f.N()
	transformed := make([][]valueID, f.M) // by row of results: the transforms of the columns
	for col := range size {
		points := make([]valueID, size)
		for row := range size {
			points[row] = out.load(row, col)
		}
		for row, value := range f.outputTransform(out, points) {
			transformed[row] = append(transformed[row], value)
		}
	}
	biasValue := zero
	if hasBias {
		biasValue = out.appendOperation(operation{opcode: opBias})
	}
	for row := range rows {
		results := f.outputTransform(out, transformed[row])
		for col, value := range results[:cols] { // codeGen.lower drops operations that only other columns need
			// The results lack the factors scale(row) and scale(col): outputTransform omits them.
			value = out.addScaled(f.scale(row)*f.scale(col), value, biasValue)
			for _, step := range epilogue {
				value = out.epilogueStep(step, value, row, col)
			}
			out.store(value, row, col)
		}
	}
	return out
}
