package expr

import "slices"

// A row program runs several passes over a row. This file decides which values a pass stores. A later pass loads a
// stored value instead of computing it again. splitter (rowprogram.go) builds the passes. Its field passOf has the pass
// that computes each value. Its field rowIndex has the stored row of each value, or -1.

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
	for steps := 0; s.isWorthStoring(v) && steps < maxSourceSteps; steps++ {
		source := s.rowSource(v)
		if source == None {
			break
		}
		v = source
	}
	if s.isWorthStoring(v) {
		s.addRow(v, pass)
	}
}

// isWorthStoring reports whether v varies in the row, has no stored row yet, and costs more to recompute than to store
// and load.
func (s *splitter) isWorthStoring(v Value) bool {
	return s.variesInRow[v] && s.rowIndex[v] < 0 && s.cost(v) > recomputeCost
}

// rowSource returns the operand of v that should be stored instead of v, or None.
func (s *splitter) rowSource(v Value) Value {
	source, expensiveCount := None, 0
	for _, operand := range s.code.Insts[v].Operands() {
		if operand != source && s.isWorthStoring(operand) {
			source = operand
			expensiveCount++
		}
	}
	// A row of source must suffice to compute v.
	if expensiveCount != 1 || opCost(s.code.Insts[v].Op) > 1 {
		return None
	}
	// If v needs another operand, and no other value uses source, a row of v is better.
	if s.useCount(source) == 1 && s.hasOtherOperand(v, source) {
		return None
	}
	return source
}

// addRow adds a stored row for value v, which the given pass reads. If the pass that computes v also writes v to an
// output of the same dtype, the row is that output.
func (s *splitter) addRow(v Value, pass int) {
	row := Row{DType: s.code.Insts[v].DType, Out: -1}
	for output, out := range s.code.Out {
		isValue := out.Re == v && out.Im == None && out.DType == row.DType
		if isValue && s.PerElement[output] && s.outputPass(output) == s.passOf[v] {
			row.Out = output
		}
	}
	s.rowIndex[v] = len(s.Rows)
	s.Rows = append(s.Rows, row)
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
