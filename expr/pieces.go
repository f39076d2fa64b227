package expr

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/tensor"
)

// Pieces replaces a [Code] with folds when rows are cut into pieces. It has two codes: PieceCode folds one piece, and
// Join combines the results of all pieces of a row. A Pieces is immutable. For example, the mean of a row of n elements
// in 3 pieces:
//
//	Code:       y0 = reduce add(x0) / x1    x0: the row     x1: n, one element for each row
//	PieceCode:  y0 = reduce add(x0)         x0: a piece     the results for the 3 pieces: s0, s1, s2
//	Join:       y0 = reduce add(x0) / x1    x0: s0, s1, s2  x1: operand 1 of Code, so In is [1]
type Pieces struct {
	// PieceCode has an output for each fold of the code. Its operands are the operands of the code, followed by an
	// int32 with one element per piece: the index in the row of the piece's first element.
	PieceCode *Code
	// Join computes the outputs of the code. A row of Join has one element for each piece. The operands of Join are the
	// outputs of PieceCode, followed by operands of the code with one element for each row; In lists their indices.
	Join *Code
	In   []int
	// DependentFolds is the number of folds that depend on another fold. If it is 0, PieceCode needs only one pass.
	DependentFolds int
}

// MaxCutLen is the maximum length, in elements, of a row that can be cut into pieces. A position in such a row fits an
// int32.
const MaxCutLen = 1 << 30

// Pieces splits the folds of the code for rows that are cut into pieces. uniform marks operands with one element for
// each row. Pieces fails if the result of the row cannot be computed from the results of the pieces. If a fold depends
// on no other fold, its operation also combines the results of the pieces. A fold that depends on another fold is
// supported only if it is the least value among the elements that equal an extreme (an argmax or argmin):
//
//	reduce min(select(x == reduce max(x), v, k)), also with (x == reduce max(x)) | (x != x)
//
// For such a fold, Join takes the least result among the pieces whose extreme equals the extreme of the row. In the
// second form, it also takes pieces whose extreme is NaN.
func (c *Code) Pieces(uniform []bool) (*Pieces, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if len(uniform) != len(c.In) {
		return nil, fmt.Errorf("expr: uniform has %d entries for %d operands", len(uniform), len(c.In))
	}
	splitter := &pieceSplitter{code: c, uniform: uniform, dependsOnFold: make([]bool, len(c.Insts)),
		joined: map[Value]Value{}}
	dependentFolds := 0
	for v, inst := range c.Insts {
		for _, operand := range inst.Operands() {
			splitter.dependsOnFold[v] = splitter.dependsOnFold[v] || splitter.dependsOnFold[operand] ||
				c.Insts[operand].Op == Reduce
		}
		switch inst.Op {
		case Scan:
			return nil, errors.New("expr: a row with a Scan cannot be cut")
		case Reduce:
			splitter.folds = append(splitter.folds, Value(v))
			if splitter.dependsOnFold[v] {
				dependentFolds++
			}
		}
	}
	pieceCode, err := splitter.buildPieceCode()
	if err != nil {
		return nil, err
	}
	join, err := splitter.buildJoin()
	if err != nil {
		return nil, err
	}
	return &Pieces{PieceCode: pieceCode, Join: join, In: splitter.operands, DependentFolds: dependentFolds}, nil
}

// pieceSplitter builds a [Pieces].
type pieceSplitter struct {
	code          *Code
	uniform       []bool  // indexed by operand: whether it has one element for each row
	dependsOnFold []bool  // indexed by value: whether it depends on another value that is a fold
	folds         []Value // the folds of the code

	joinBuilder *Builder        // builds Join
	joined      map[Value]Value // indexed by value of the code: its value in Join
	operands    []int           // Pieces.In
	err         error           // the first error
}

// buildPieceCode builds PieceCode.
func (p *pieceSplitter) buildPieceCode() (*Code, error) {
	c := p.code.WithOperand(tensor.Int32)
	c.Out = nil
	for _, v := range p.folds {
		c.Out = append(c.Out, Output{DType: c.Insts[v].DType, Re: v, Im: None})
	}
	builder := NewBuilder(c.In...)
	firstIndex := builder.Load(len(c.In) - 1)
	loadPart := func(operand, part int) Value { return builder.load(operand, uint64(part)) } // a real or imaginary part
	addInst := func(_ Value, inst Inst) Value {
		if inst.Op == Position { // the position in the row, not in the piece
			return builder.Emit(Add, builder.Position(), firstIndex)
		}
		return builder.AddInst(inst)
	}
	return builder.Build(builder.inline(c, loadPart, addInst)...)
}

// buildJoin builds Join.
func (p *pieceSplitter) buildJoin() (*Code, error) {
	p.joinBuilder = NewBuilder()
	for _, v := range p.folds {
		p.joinBuilder.code.In = append(p.joinBuilder.code.In, p.code.Insts[v].DType)
	}
	var outs []Output
	for _, output := range p.code.Out {
		outs = append(outs, Output{DType: output.DType, Re: p.valueInJoin(output.Re), Im: p.valueInJoin(output.Im)})
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.joinBuilder.Build(outs...)
}

// valueInJoin adds the computation of v to Join and returns its value in Join. It returns None if v is None. It fails
// if v differs within a row.
func (p *pieceSplitter) valueInJoin(v Value) Value {
	if v == None || p.err != nil {
		return None
	}
	if joined, ok := p.joined[v]; ok {
		return joined
	}
	inst := p.code.Insts[v]
	switch {
	case inst.Op == Reduce:
		p.joined[v] = p.joinFold(v)
	case inst.Op == Position || inst.Op == Load && !p.uniform[inst.A]:
		return p.fail("an output differs within a row")
	case inst.Op == Load:
		p.joined[v] = p.joinBuilder.load(p.joinOperand(int(inst.A)), inst.Imm)
	default:
		p.joined[v] = p.copyToJoin(inst)
	}
	return p.joined[v]
}

// copyToJoin adds an instruction, and the computation of its operands, to Join.
func (p *pieceSplitter) copyToJoin(inst Inst) Value {
	args := [3]Value{inst.A, inst.B, inst.C}
	for k := range inst.Operands() {
		args[k] = p.valueInJoin(args[k])
	}
	switch {
	case p.err != nil:
		return None
	case inst.Op == Call:
		function := p.code.Funcs[inst.Imm]
		return p.joinBuilder.Call(function, inst.DType, args[:function.ArgCount]...)
	}
	inst.A, inst.B, inst.C = args[0], args[1], args[2]
	return p.joinBuilder.AddInst(inst)
}

// joinFold returns the value in Join that combines the results of fold v of all pieces.
func (p *pieceSplitter) joinFold(v Value) Value {
	inst := p.code.Insts[v]
	if !p.dependsOnFold[v] {
		return p.joinBuilder.Reduce(Op(inst.Imm), p.pieceResult(v))
	}
	extreme, matchesNaN, ok := p.matchLeastAtExtreme(inst)
	if !ok {
		return p.fail("a fold depends on another one and is not an argmin or argmax")
	}
	selection := p.code.Insts[inst.A]
	x := p.pieceResult(extreme)
	matches := p.joinBuilder.Emit(Eq, x, p.valueInJoin(extreme))
	if matchesNaN {
		matches = p.joinBuilder.Emit(Or, matches, p.joinBuilder.Emit(Ne, x, x))
	}
	return p.joinBuilder.Reduce(Min, p.joinBuilder.Emit(Select, matches, p.pieceResult(v), p.valueInJoin(selection.C)))
}

// matchLeastAtExtreme reports whether a fold is reduce min(select(condition, v, k)), where the condition tests that an
// element equals an extreme of its row, v depends on no fold, and k is a constant. It returns the results of
// matchExtreme for the condition.
func (p *pieceSplitter) matchLeastAtExtreme(fold Inst) (extreme Value, matchesNaN, ok bool) {
	selection := p.code.Insts[fold.A]
	if Op(fold.Imm) != Min || selection.Op != Select {
		return None, false, false
	}
	if p.code.Insts[selection.B].Op == Reduce || p.dependsOnFold[selection.B] || p.code.Insts[selection.C].Op != Const {
		return None, false, false
	}
	return p.matchExtreme(selection.A)
}

// matchExtreme reports whether v tests that an element equals the maximum or minimum of its row, and returns this
// extreme. matchesNaN means that v is also true for an element that is NaN.
func (p *pieceSplitter) matchExtreme(v Value) (extreme Value, matchesNaN, ok bool) {
	inst := p.code.Insts[v]
	if inst.Op != Or {
		extreme, _, ok = p.matchEqual(v)
		return extreme, false, ok
	}
	for _, operands := range [2][2]Value{{inst.A, inst.B}, {inst.B, inst.A}} {
		extreme, x, ok := p.matchEqual(operands[0])
		if ne := p.code.Insts[operands[1]]; ok && ne.Op == Ne && ne.A == x && ne.B == x {
			return extreme, true, true
		}
	}
	return None, false, false
}

// matchEqual reports whether v is the comparison x == extreme, where extreme is the maximum or minimum of x in the row.
func (p *pieceSplitter) matchEqual(v Value) (extreme, x Value, ok bool) {
	inst := p.code.Insts[v]
	if inst.Op != Eq {
		return None, None, false
	}
	for _, operands := range [2][2]Value{{inst.A, inst.B}, {inst.B, inst.A}} {
		fold := p.code.Insts[operands[1]]
		if fold.Op != Reduce || fold.A != operands[0] || p.dependsOnFold[operands[1]] {
			continue
		}
		op := Op(fold.Imm)
		isBoolExtreme := (op == Or || op == And) && fold.DType == tensor.Bool // the maximum or minimum of bools
		if op == Max || op == Min || isBoolExtreme {
			return operands[1], operands[0], true
		}
	}
	return None, None, false
}

// pieceResult returns the operand of Join with the results of fold v of the pieces.
func (p *pieceSplitter) pieceResult(v Value) Value {
	for k, fold := range p.folds {
		if fold == v {
			return p.joinBuilder.Load(k)
		}
	}
	return p.fail("v%d is not a fold", v)
}

// joinOperand returns the index that operand i of the code has among the operands of Join.
func (p *pieceSplitter) joinOperand(i int) int {
	for k, operand := range p.operands {
		if operand == i {
			return len(p.folds) + k
		}
	}
	p.operands = append(p.operands, i)
	p.joinBuilder.code.In = append(p.joinBuilder.code.In, p.code.In[i])
	return len(p.joinBuilder.code.In) - 1
}

// fail records the first error and returns None.
func (p *pieceSplitter) fail(format string, args ...any) Value {
	if p.err == nil {
		p.err = fmt.Errorf("expr: "+format, args...)
	}
	return None
}
