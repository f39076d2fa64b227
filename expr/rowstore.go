package expr

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// A row program runs several passes over a row. This file decides which values a pass stores for a later pass: a stored
// value is loaded there instead of being computed again. splitter (rowprogram.go) builds the passes. Its field
// passOf has the pass that computes each value, and rowIndex the stored row of each value, or -1.

// recomputeCost is the maximum cost of recomputing an element in a later pass, in simple operations. It is about the
// cost of storing and loading the element.
const recomputeCost = 6

// maxSourceSteps is the maximum number of operations between a value and the stored row from which it is recomputed.
const maxSourceSteps = 3

// storeRows adds stored rows for values that the given pass needs and earlier passes compute. It adds a row only if
// loading is cheaper than recomputing. roots are the results of the pass.
func (s *splitter) storeRows(pass int, roots ...Value) {
	isNeeded := make([]bool, len(s.code.Insts))
	for _, v := range roots {
		if v != None {
			isNeeded[v] = true
		}
	}
	for v := len(isNeeded) - 1; v >= 0; v-- {
		if !isNeeded[v] || !s.variesInRow[v] {
			continue
		}
		if s.passOf[v] < pass {
			s.storeIfExpensive(Value(v), pass)
			continue
		}
		if s.code.Insts[v].Op == Scan {
			continue // v already has a stored row
		}
		for _, operand := range s.code.Insts[v].Operands() {
			isNeeded[operand] = true
		}
	}
}

// storeIfExpensive adds a stored row for value v, which the given pass needs, if recomputing v is expensive. If v is
// cheap to compute from a single expensive value, it adds the row of that value instead.
func (s *splitter) storeIfExpensive(v Value, pass int) {
	isExpensive := func(operand Value) bool {
		return s.variesInRow[operand] && s.rowIndex[operand] < 0 && s.cost(operand) > recomputeCost
	}
	for steps := 0; isExpensive(v) && steps < maxSourceSteps; steps++ {
		source, expensiveCount := None, 0
		for _, operand := range s.code.Insts[v].Operands() {
			if operand != source && isExpensive(operand) {
				source = operand
				expensiveCount++
			}
		}
		// A row of source must suffice to compute v.
		if expensiveCount != 1 || opCost(s.code.Insts[v].Op) > 1 {
			break
		}
		// If v needs another operand, and no other value uses source, a row of v is better.
		if s.useCount(source) == 1 && s.hasOtherOperand(v, source) {
			break
		}
		v = source
	}
	if !isExpensive(v) {
		return
	}
	s.rowIndex[v] = len(s.Rows)
	dtype := s.code.Insts[v].DType
	s.Rows = append(s.Rows, Row{DType: dtype, Out: -1})
	for output, out := range s.code.Out {
		if out.Re == v && out.Im == None && out.DType == dtype && s.PerElement[output] &&
			s.outputPass(output) == s.passOf[v] {
			s.Rows[len(s.Rows)-1].Out = output
		}
	}
	s.writerPass, s.lastReader = append(s.writerPass, s.passOf[v]), append(s.lastReader, pass)
}

// cost estimates the cost, in simple operations, of computing an element of v from operands, numbers and stored rows.
// It stops counting above recomputeCost.
func (s *splitter) cost(v Value) int {
	isCounted, costSum := map[Value]bool{v: true}, 0
	pending := []Value{v}
	for len(pending) > 0 && costSum <= recomputeCost {
		current := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		costSum += opCost(s.code.Insts[current].Op)
		for _, operand := range s.code.Insts[current].Operands() {
			if s.variesInRow[operand] && s.rowIndex[operand] < 0 && !isCounted[operand] {
				isCounted[operand] = true
				pending = append(pending, operand)
			}
		}
	}
	return costSum
}

// opCost returns the cost of an operation, in simple operations.
func opCost(op Op) int {
	switch {
	case op == Const || op == Load || op == Position:
		return 0
	case op == Div || op == Sqrt:
		return 4
	case op == Mod || !op.Primitive():
		return 20
	}
	return 1
}

// useCount returns the number of values and outputs that use v.
func (s *splitter) useCount(v Value) (uses int) {
	for _, out := range s.code.Out {
		if out.Re == v || out.Im == v {
			uses++
		}
	}
	for _, inst := range s.code.Insts {
		if slices.Contains(inst.Operands(), v) {
			uses++
		}
	}
	return uses
}

// hasOtherOperand reports whether v has an operand, other than `stored`, that varies within a row and has no stored
// row. If a row of `stored` replaces a row of v, a later pass must also read or recompute this operand.
func (s *splitter) hasOtherOperand(v, stored Value) bool {
	return slices.ContainsFunc(s.code.Insts[v].Operands(), func(operand Value) bool {
		return operand != stored && s.variesInRow[operand] && s.rowIndex[operand] < 0
	})
}

// Columns returns the code of a pass for a loop across rows that are adjacent in memory. An iteration of the loop
// processes the given number of consecutive elements of each row. [Place.Element] is the index of the element. The
// accumulators of folds are the last operands and, in the same memory, the last outputs. Elements are folded in order.
// For example, a pass that stores 2*x0 and sums it has this code for 2 elements, where x0[1] has Element 1:
//
//	y0[0] = 2 * x0[0]    y0[1] = 2 * x0[1]    sum = (sum + y0[0]) + y0[1]
func (program *RowProgram) Columns(passIndex, elements int) (code *Code, in, out []Place, err error) {
	if passIndex < 0 || passIndex >= len(program.Passes) {
		return nil, nil, nil, fmt.Errorf("expr: pass %d does not exist: the program has %d passes", passIndex,
			len(program.Passes))
	}
	pass := &program.Passes[passIndex]
	if pass.Code == nil {
		return nil, nil, nil, errors.New("expr: the pass has no loop")
	}
	if elements < 1 || elements > MaxOperands {
		return nil, nil, nil, fmt.Errorf("expr: elements is %d: want 1 to %d", elements, MaxOperands)
	}
	columns := columnsBuilder{program: program, pass: pass, Builder: NewBuilder()}
	folded := make([][]Value, len(pass.Folds)) // by fold, then by element
	for element := range elements {
		for i, v := range columns.addElement(element) {
			folded[i] = append(folded[i], v)
		}
	}
	columns.addFolds(folded)
	code, err = columns.Build(columns.outputs...)
	return code, columns.in, columns.out, err
}

// columnsBuilder builds the code of [RowProgram.Columns].
type columnsBuilder struct {
	*Builder
	program *RowProgram
	pass    *RowPass
	outputs []Output
	in, out []Place // the places of operands and outputs
}

// addElement adds the computation of an element. It returns the folded values, indexed by fold.
func (b *columnsBuilder) addElement(element int) []Value {
	values := b.Inline(b.pass.Code, func(i, part int) Value {
		place := b.pass.In[i]
		isPerRow := place.Kind == AtNumber || place.Kind == AtOperand && b.program.Uniform[place.N]
		if place.Element = element; isPerRow {
			place.Element = 0
		}
		return b.load(b.operand(place, b.pass.Code.In[i]), uint64(part))
	})
	for i, place := range b.pass.Out {
		if place.Kind != Nowhere {
			place.Element = element
			b.outputs, b.out = append(b.outputs, values[i]), append(b.out, place)
		}
	}
	var folded []Value
	for _, output := range values[len(values)-len(b.pass.Folds):] {
		folded = append(folded, output.Re)
	}
	return folded
}

// addFolds adds the operations that fold the elements into the accumulators. folded is indexed by fold and by element.
func (b *columnsBuilder) addFolds(folded [][]Value) {
	for i, fold := range b.pass.Folds {
		place := Place{Kind: AtNumber, N: b.pass.FoldResults[i]}
		accumulator := b.Load(b.operand(place, b.DType(folded[i][0])))
		for _, element := range folded[i] {
			accumulator = b.Emit(fold.Op, accumulator, element)
		}
		b.outputs, b.out = append(b.outputs, b.Real(accumulator)), append(b.out, place)
	}
}

// operand returns the index of the operand that is loaded from a place.
func (b *columnsBuilder) operand(place Place, dtype tensor.DType) int {
	if i := slices.Index(b.in, place); i >= 0 {
		return i
	}
	b.in, b.code.In = append(b.in, place), append(b.code.In, dtype)
	return len(b.in) - 1
}

// Joining returns the code that combines two accumulators of a fold by op. The first operand is the accumulator of the
// earlier elements.
func Joining(op Op, dtype tensor.DType) (*Code, error) {
	builder := NewBuilder(dtype, dtype)
	return builder.Build(builder.Real(builder.Emit(op, builder.Load(0), builder.Load(1))))
}
