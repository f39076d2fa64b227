package lower

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/expand"
	"github.com/graphrun/graphrun/tensor"
)

// If there are few rows and the rows are long, they are cut into pieces. A group then computes a piece of a row.
const (
	minCutRow  = 1 << 14 // the least number of elements of a row that is cut
	maxCutRows = 64      // the greatest number of rows that are cut
	minPiece   = 1 << 12 // the least number of elements of a piece
	maxPieces  = 256     // the greatest number of pieces of a row
)

// slotBytes is the size in bytes in scratch memory of a number of a row, and also of the result of a piece.
const slotBytes = 8

// maxGroupMemory is the number of bytes of group memory that every device has.
const maxGroupMemory = 16 << 10

// Rows returns the program of an expression with folds (see rowprog.New). A fold combines the elements of a row into a
// number, for example by a sum. A row consists of the elements along the dimensions that mask marks. There is one row
// for each index in the other dimensions. For example, the shape [2, 3, 4] and the mask [false, true, false] give 8
// rows of 3 elements. outs and ins are the layouts of the outputs and operands. The buffers of the program are the
// outputs, followed by the operands.
//
// A row is computed in the passes of expr.RowProgram. A pass reads all elements of the row and folds values. From the
// results it computes numbers of the row, which later passes read. For example, a softmax has three passes: the
// maximum, the sum of exp(x - maximum), and the quotients. A group of threads computes a row or, if rows are short,
// several rows. If rows are cut, a pass has up to two launches. The first launch folds pieces. The second launch
// combines the results of the pieces of each row, and computes the numbers of the row.
//
// A row is divided into vectors of adjacent elements. Thread t of n threads folds vectors t, t+n, t+2*n and so on, in
// order. A balanced tree combines the results of threads, and then the results of pieces. The tree depends only on the
// shape and the expression.
func Rows(source *expr.Code, outs, ins []tensor.Meta, mask []bool, align []int, target Target) (*Program, error) {
	if _, err := expandFunctions(source, target); err != nil { // only checks for errors: expandPasses expands the code
		return nil, err
	}
	lowering := &rows{target: target, outputCount: len(outs), metas: append(slices.Clone(outs), ins...), align: align}
	source, lowering.hasPositions = source.Positioned() // positions become loads of an operand
	if err := lowering.setAxes(mask); err != nil {
		return nil, err
	}
	if lowering.rowCount == 0 {
		return new(Program), nil
	}
	if err := lowering.setProgram(source); err != nil {
		return nil, err
	}
	if err := lowering.expandPasses(); err != nil {
		return nil, err
	}
	lowering.setPieces(source)
	program := &Program{Scratch: lowering.layOutScratch()}
	return program, lowering.addLaunches(program)
}

// rows is a row program for fixed layouts. For later passes, a pass can store rows of elements (RowProgram.Rows) and
// numbers of the row (RowProgram.Numbers).
type rows struct {
	target          Target
	program         *expr.RowProgram
	outputCount     int
	metas           []tensor.Meta // outputs, operands, and the operand of positions if hasPositions
	align           []int         // by output and operand: the alignment in bytes of the first address
	hasPositions    bool          // whether the last operand has the positions of elements in their rows; it has no memory
	keptAxes        []axis        // the axes that select a row, the fastest first
	reducedAxes     []axis        // the axes within a row, in reverse order of dimensions: the first axis changes fastest
	rowLen          int           // elements of a row
	rowCount        int           // number of rows
	vector          int           // consecutive elements that a thread computes
	threadsSpanRows bool          // adjacent threads compute adjacent rows, not adjacent elements of a row
	pieces          int           // number of pieces of a row; 1 if rows are not cut
	pieceLen        int           // elements of a piece; the last piece may have fewer

	// Offsets in scratch memory.
	scratchRows    []int // by index in RowProgram.Rows: stored rows that are not in the memory of an output
	partialsOffset int   // the results of pieces, by fold, row and piece, slotBytes each
	numbersOffset  int   // the numbers of rows, by index in RowProgram.Numbers and row, slotBytes each
}

// axis is a dimension, or several dimensions that one loop replaces.
type axis struct {
	size    int
	strides []int // by index in rows.metas, in bytes
}

// setAxes sets keptAxes, reducedAxes, rowLen, rowCount and threadsSpanRows. It sets vector to the maximum that the
// shape allows. setPieces may reduce this number.
func (r *rows) setAxes(mask []bool) error {
	shape := r.setShape(mask)
	if err := r.checkLayouts(); err != nil {
		return err
	}
	r.vector = 1
	for dim, size := range slices.Backward(shape) {
		if size == 1 {
			continue
		}
		added := axis{size: size, strides: r.stridesAlong(dim)}
		if !mask[dim] {
			r.keptAxes = append(r.keptAxes, added)
			continue
		}
		if len(r.reducedAxes) == 0 { // use the greatest power of two up to 4 that divides the size of dim
			r.vector = min(4, size&-size)
		}
		r.reducedAxes = merge(r.reducedAxes, added)
	}
	firstOperand := min(r.outputCount, len(r.metas)-1) // the strides of this operand determine the order of the kept axes
	slices.SortStableFunc(r.keptAxes, func(a, b axis) int { return a.strides[firstOperand] - b.strides[firstOperand] })
	sorted := r.keptAxes
	r.keptAxes = nil
	for _, added := range sorted {
		r.keptAxes = merge(r.keptAxes, added)
	}
	single := axis{size: 1, strides: make([]int, len(r.metas))} // so that both lists have a fastest axis
	if len(r.keptAxes) == 0 {
		r.keptAxes = append(r.keptAxes, single)
	}
	if len(r.reducedAxes) == 0 {
		r.reducedAxes = append(r.reducedAxes, single)
	}
	rowStride := r.keptAxes[0].strides[firstOperand]
	r.threadsSpanRows = rowStride != 0 && rowStride < r.reducedAxes[0].strides[firstOperand]
	return nil
}

// setShape sets rowLen and rowCount, adds the operand of positions to metas, and returns the broadcast shape. The
// operand of positions has the strides of a row-major row, so that the offset of an element is its position.
func (r *rows) setShape(mask []bool) []int {
	shape, positions := slices.Repeat([]int{1}, len(mask)), make([]int, len(mask))
	r.rowLen, r.rowCount = 1, 1
	for dim := len(mask) - 1; dim >= 0; dim-- {
		for _, meta := range r.metas {
			if meta.Shape[dim] != 1 {
				shape[dim] = meta.Shape[dim]
			}
		}
		if mask[dim] {
			positions[dim] = r.rowLen
			r.rowLen *= shape[dim]
		} else {
			r.rowCount *= shape[dim]
		}
	}
	if r.hasPositions {
		r.metas = append(r.metas, tensor.Meta{DType: tensor.Int32, Shape: shape, Strides: positions})
	}
	return shape
}

// checkLayouts returns an error if offsets in an output or operand do not fit 31 bits, or a stride is negative.
func (r *rows) checkLayouts() error {
	if max(r.rowLen, 1)*max(r.rowCount, 1) > math.MaxInt32 {
		return fmt.Errorf("gpu: a fold over %d elements is %w", r.rowLen*r.rowCount, ErrUnsupported)
	}
	for _, meta := range r.metas {
		if bytes := meta.Extent() * meta.DType.Size(); bytes > math.MaxInt32 ||
			slices.Min(append([]int{0}, meta.Strides...)) < 0 {
			return fmt.Errorf("gpu: a fold is %w: %v has a negative stride or spans more than %d bytes", ErrUnsupported,
				meta, math.MaxInt32)
		}
	}
	return nil
}

// stridesAlong returns the stride of each output and operand along a dimension, in bytes.
func (r *rows) stridesAlong(dim int) (strides []int) {
	for _, meta := range r.metas {
		stride := meta.Strides[dim] * meta.DType.Size()
		if meta.Shape[dim] == 1 { // broadcast
			stride = 0
		}
		strides = append(strides, stride)
	}
	return strides
}

// merge appends an axis that is slower than all given axes. If in all operands one stride steps through the last axis
// and the added axis, merge enlarges the last axis instead.
func merge(axes []axis, added axis) []axis {
	if len(axes) == 0 {
		return append(axes, added)
	}
	last := &axes[len(axes)-1]
	for i, stride := range added.strides {
		if stride != last.size*last.strides[i] {
			return append(axes, added)
		}
	}
	last.size *= added.size
	return axes
}

// setProgram divides the expression into passes.
func (r *rows) setProgram(source *expr.Code) (err error) {
	// uniform marks operands with one element for each row. perElement marks outputs with all elements of a row.
	uniform, perElement := make([]bool, len(source.In)), make([]bool, r.outputCount)
	for i := range r.metas {
		varies := slices.ContainsFunc(r.reducedAxes, func(dim axis) bool { return dim.strides[i] != 0 })
		if i < r.outputCount {
			perElement[i] = varies
		} else {
			uniform[i-r.outputCount] = !varies
		}
	}
	if r.program, err = source.RowProgram(uniform, perElement); err != nil {
		return fmt.Errorf("gpu: %w: %w", ErrUnsupported, err)
	}
	if r.program.Scans() || r.rowLen == 0 { // a scan is a cumulative sum or product
		return fmt.Errorf("gpu: a scan, or an empty row, is %w", ErrUnsupported)
	}
	return nil
}

// expandPasses replaces the elementary functions in the code of passes. This renumbers the values of the code.
// Therefore expandPasses also updates the folded values, which are the last outputs of a pass.
func (r *rows) expandPasses() error {
	r.program = &expr.RowProgram{Code: r.program.Code, Uniform: r.program.Uniform, PerElement: r.program.PerElement,
		Passes: slices.Clone(r.program.Passes), Numbers: r.program.Numbers, Rows: r.program.Rows} // programs are shared
	for i := range r.program.Passes {
		pass := &r.program.Passes[i]
		pass.Folds = slices.Clone(pass.Folds)
		for _, codePtr := range []**expr.Code{&pass.Code, &pass.PerRow} {
			if *codePtr == nil {
				continue
			}
			code, err := expand.Functions(*codePtr, expand.Target{})
			if err != nil {
				return fmt.Errorf("gpu: %w: %w", ErrUnsupported, err)
			}
			*codePtr = code
		}
		for fold := range pass.Folds {
			pass.Folds[fold].Value = pass.Code.Out[len(pass.Code.Out)-len(pass.Folds)+fold].Re
		}
	}
	return nil
}

// setPieces sets pieces and pieceLen, and reduces vector if the code is long.
func (r *rows) setPieces(code *expr.Code) {
	if r.vector*len(code.Insts) > maxInstructions {
		r.vector = 1
	}
	r.pieces, r.pieceLen = 1, r.rowLen
	if r.rowLen >= minCutRow && r.rowCount <= maxCutRows {
		block := groupSize * r.vector // elements that a group computes in an iteration; a piece has whole blocks
		r.pieceLen = max(minPiece, (r.rowLen+maxPieces-1)/maxPieces)
		r.pieceLen = (r.pieceLen + block - 1) / block * block
		r.pieces = (r.rowLen + r.pieceLen - 1) / r.pieceLen
	}
}

// layOutScratch sets the offsets in scratch memory, and returns the number of bytes.
func (r *rows) layOutScratch() (bytes int) {
	for _, row := range r.program.Rows {
		r.scratchRows = append(r.scratchRows, bytes)
		if row.Out >= 0 { // the row is in the memory of an output
			continue
		}
		bytes += (r.rowLen*r.rowCount*row.DType.Size() + 15) &^ 15 // the next multiple of 16
	}
	if r.pieces > 1 {
		folds := 0 // the passes share the memory of the results of pieces
		for _, pass := range r.program.Passes {
			folds = max(folds, len(pass.Folds))
		}
		r.partialsOffset = bytes
		r.numbersOffset = r.partialsOffset + slotBytes*folds*r.rowCount*r.pieces
		bytes = r.numbersOffset + slotBytes*len(r.program.Numbers)*r.rowCount
	}
	return bytes
}

// addLaunches adds launches to the program: one for all passes or, if rows are cut, one or two for each pass.
func (r *rows) addLaunches(program *Program) error {
	if r.pieces == 1 {
		return r.addLaunch(program, r.rowCount, func(k *rowKernel) {
			for i := range r.program.Passes {
				k.addPass(i)
				k.addPerRow(i)
			}
		})
	}
	for i, pass := range r.program.Passes {
		if pass.Code != nil { // processes pieces
			if err := r.addLaunch(program, r.rowCount*r.pieces, func(k *rowKernel) { k.addPass(i) }); err != nil {
				return err
			}
		}
		// Combines the results of pieces, and computes the numbers of each row.
		if len(pass.Folds) > 0 || pass.PerRow != nil {
			if err := r.addLaunch(program, r.rowCount, func(k *rowKernel) {
				k.joinPieces(i)
				k.addPerRow(i)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// isPositions reports whether an operand has the positions of elements in their rows. Such an operand is not in memory.
func (r *rows) isPositions(operand int) bool {
	return r.hasPositions && r.outputCount+operand == len(r.metas)-1
}

// lanesOf returns the number of lanes: the threads that together fold a number of elements, with `vector` elements at a
// time in each lane. The result is the greatest power of 2 that exceeds neither elements/vector nor groupSize, and at
// least 1.
func lanesOf(elements, vector int) int {
	return min(groupSize, 1<<(bits.Len(uint(max(1, elements/vector)))-1))
}
