package rowprog

// Direction is the direction of inner loops: along a reduced dimension (by rows) or along a kept one (by columns).
type Direction uint8

// Directions. With AnyDirection, chooseDirection decides by the layouts. Empty rows are always processed by columns.
const (
	AnyDirection Direction = iota
	ByRows
	ByColumns
)

const (
	// shortRow is the row length below which loops run along columns, if a column is at least as long as a row.
	shortRow = 16
	// minLoopColumns is the minimum number of adjacent columns for a loop along them.
	minLoopColumns = 8
	// maxTransposedBytes is the maximum size of a transposed tile of an operand, which stays in the caches of a core.
	maxTransposedBytes = 1 << 20
)

// chooseDirection sets p.alongColumns and p.severalRowsPerCall (see Plan). Loops usually run along the axis on which
// the operand with the most elements has the smaller stride. In a row-major [64, 100], for example, a softmax along
// dimension 1 runs along rows, and a softmax along dimension 0 along columns.
func (p *Plan) chooseDirection(direction Direction) {
	keptAxis, reducedAxis, largest := p.kept[0], p.reduced[0], p.largestOperand()
	switch {
	case direction != AnyDirection:
		p.alongColumns = direction == ByColumns
	case reducedAxis.strides[largest] <= keptAxis.strides[largest] || keptAxis.length == 1:
		// The stride along rows is smaller. Loops run along columns for many short rows, for transposed outputs, and for
		// rows that consist of short contiguous runs (see splitRows).
		hasShortRows := reducedAxis.length < shortRow && keptAxis.length >= reducedAxis.length && keptAxis.length > 1
		p.alongColumns = hasShortRows || p.transposesOutputs(keptAxis) || p.hasColumnRuns()
	default: // the stride along columns is smaller
		p.alongColumns = keptAxis.length >= minLoopColumns || keptAxis.length > reducedAxis.length
	}
	if p.rowLen == 0 {
		p.alongColumns = true
	}
	p.severalRowsPerCall = !p.alongColumns && len(p.reduced) == 1
}

// transposesOutputs reports whether all outputs that vary within a row are contiguous along the kept axis. Loops along
// rows would write consecutive elements of such outputs at distant addresses. Loops along columns are then faster, even
// if tiles of operands must be transposed.
func (p *Plan) transposesOutputs(keptAxis axis) bool {
	if keptAxis.length < minLoopColumns {
		return false
	}
	hasOutput := false
	for output := range p.outCount {
		if !p.program.PerElement[output] {
			continue
		}
		size := p.metas[output].DType.Size()
		if keptAxis.strides[output] != size || min(keptAxis.length, minColumns)*p.rowLen*size > maxTransposedBytes {
			return false
		}
		hasOutput = true
	}
	return hasOutput
}
