package expr

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/memo"
	"github.com/graphrun/graphrun/tensor"
)

// RowProgram is a [Code] with folds, split into passes over a row. The values that a pass computes depend only on folds
// of earlier passes. Independent folds share a pass, so the number of passes is the nesting depth of folds. A
// RowProgram is immutable.
//
// A running fold ([Scan]) needs a stored row: a pass writes the operand to that row, the row is scanned in place, and
// later passes read the result.
//
// Values that are constant within a row are called numbers: folds, operands with one element for each row, and values
// that depend only on numbers and constants. If a later pass needs a value that varies within the row, the pass
// recomputes it. If recomputing costs more than a store and a load, the value is stored as a row instead.
//
// For example, the code of a softmax is y0 = e / reduce add(e), with e = exp(x0 - reduce max(x0)). It has three passes,
// two numbers m and s, and a stored row e in the memory of y0:
//
//	pass 0:  loads x0;      folds max(x0) to m
//	pass 1:  loads x0, m;   stores e = exp(x0 - m), and folds add(e) to s
//	pass 2:  loads e, s;    stores y0 = e / s
type RowProgram struct {
	Code       *Code
	Uniform    []bool // indexed by operand: whether it has one element for each row
	PerElement []bool // indexed by output: one element for each element of a row (true) or for each row (false)
	Passes     []RowPass
	Numbers    []tensor.DType // dtypes of the numbers that are stored between passes
	Rows       []Row

	derived memo.Memo // of Columns, Overlap and Pipeline
}

// passLoop has the results of [RowProgram.Columns], [RowProgram.Overlap] and [RowProgram.Pipeline].
type passLoop struct {
	code    *Code
	folds   []Fold
	in, out []Place
	err     error
}

// RowPass is one loop over a row, followed by a computation once per row.
type RowPass struct {
	Code        *Code   // computed for each element; nil if the pass has no loop
	In, Out     []Place // the places of the operands and outputs of Code
	Folds       []Fold  // each folds an output of Code; this output is not stored
	FoldResults []int   // indexed by fold: the index in RowProgram.Numbers of its result
	// PerRow is computed once per row, from numbers and operands with one element for each row. It is nil if there is
	// nothing to compute. PerRowIn and PerRowOut are the places of its operands and outputs.
	PerRow              *Code
	PerRowIn, PerRowOut []Place
}

// Place is the source of an operand of a [RowPass], or the destination of an output.
type Place struct {
	Kind    PlaceKind
	N       int // an index that depends on Kind
	Element int // 0 in Passes; its meaning in other programs: see RowProgram's Columns, Overlap and Pipeline
}

// PlaceKind is the kind of a [Place].
type PlaceKind uint8

// The kinds of places.
const (
	Nowhere   PlaceKind = iota // an output that only a fold uses
	AtOperand                  // operand N of RowProgram.Code
	AtOutput                   // output N of RowProgram.Code
	AtRow                      // RowProgram.Rows[N]
	AtNumber                   // RowProgram.Numbers[N]
)

// Row is a stored row. It shares the memory of an output in two cases: the row is that output, or both have elements of
// the same size and the output is written after the last read of the row.
type Row struct {
	DType tensor.DType
	Out   int // the output with the memory of the row, or -1 for separate memory
	Scan  Op  // Add or Mul if the row is scanned after the pass that writes it ([Scanning]), else Invalid
}

// Scans reports whether a row is scanned.
func (program *RowProgram) Scans() bool {
	return program != nil && slices.ContainsFunc(program.Rows, func(r Row) bool { return r.Scan != Invalid })
}

// RowProgram splits the code into passes over a row. uniform marks operands with one element for each row. perElement
// marks outputs with an element for each element of the row. Other outputs must be constant within a row. Calls with
// equal arguments return the same program, which must not be changed.
func (c *Code) RowProgram(uniform, perElement []bool) (*RowProgram, error) {
	if c == nil {
		return nil, errors.New("expr: there is no code")
	}
	type result struct {
		program *RowProgram
		err     error
	}
	key := struct{ uniform, perElement string }{bitText(uniform), bitText(perElement)}
	split := memo.Of(&c.derived, key, func() result {
		program, err := c.rowProgram(slices.Clone(uniform), slices.Clone(perElement))
		return result{program, err}
	})
	return split.program, split.err
}

// bitText returns a list as a text, for keys.
func bitText(list []bool) string {
	text := make([]byte, len(list))
	for i, isSet := range list {
		text[i] = '0'
		if isSet {
			text[i] = '1'
		}
	}
	return string(text)
}

func (c *Code) rowProgram(uniform, perElement []bool) (*RowProgram, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if len(uniform) != len(c.In) || len(perElement) != len(c.Out) {
		return nil, fmt.Errorf("expr: uniform has %d entries and perElement %d for a code with %d operands and %d outputs",
			len(uniform), len(perElement), len(c.In), len(c.Out))
	}
	if usesPosition(c) {
		return nil, errors.New("expr: row programs load positions from an operand: see Code.Positioned")
	}
	split := &splitter{RowProgram: &RowProgram{Code: c, Uniform: uniform, PerElement: perElement}, code: c}
	split.assignPasses()
	split.scanRows()
	for output := range c.Out {
		if !perElement[output] && split.outputVaries(output) {
			return nil, fmt.Errorf("expr: y%d has one element per row, but differs within a row", output)
		}
	}
	split.Passes = make([]RowPass, split.countPasses())
	split.perRowNumbers = make([][]Value, len(split.Passes))
	// The last pass is built first: a pass adds outputs (numbers and stored rows) to the earlier passes that compute
	// them.
	for pass := len(split.Passes) - 1; pass >= 0; pass-- {
		if err := split.buildPerRow(pass); err != nil {
			return nil, err
		}
		if err := split.buildPass(pass); err != nil {
			return nil, err
		}
	}
	split.reuseOutputMemory()
	return split.RowProgram, nil
}

// splitter assigns the values of a code to passes.
type splitter struct {
	*RowProgram
	code        *Code
	variesInRow []bool // indexed by value: whether it varies within the row; otherwise it is a number
	// passOf[v] is the index of the pass that computes value v. For a number, it is the index of the pass after which
	// the number is computed, or -1 if the number depends on no pass. In the softmax, passOf is 0 for x0 and m, 1 for e
	// and s, and 2 for y0. For a Scan, passOf is the first pass that can load the result; the previous pass writes the
	// row.
	passOf         []int
	numberIndex    []int     // indexed by value: its index in Numbers, or -1
	rowIndex       []int     // indexed by value: its index in Rows, or -1
	writerPass     []int     // indexed by row: the pass that writes it
	lastReader     []int     // indexed by row: the last pass that reads it
	inOutputMemory []bool    // indexed by output: whether its memory stores a scanned row that is the output
	perRowNumbers  [][]Value // indexed by pass: the numbers that its PerRow computes
}

// assignPasses sets variesInRow and passOf of each value. A [Scan] is available one pass after the pass that computes
// its operand, because the row is scanned between passes.
func (s *splitter) assignPasses() {
	values := len(s.code.Insts)
	s.variesInRow, s.passOf = make([]bool, values), make([]int, values)
	s.numberIndex, s.rowIndex = make([]int, values), make([]int, values)
	for v, inst := range s.code.Insts {
		s.numberIndex[v], s.rowIndex[v], s.passOf[v] = -1, -1, -1
		if inst.Op == Load {
			s.variesInRow[v] = !s.Uniform[inst.A]
			if s.variesInRow[v] {
				s.passOf[v] = 0
			}
			continue
		}
		for _, operand := range inst.Operands() {
			s.variesInRow[v] = s.variesInRow[v] || s.variesInRow[operand]
		}
		inLoop := s.variesInRow[v] || inst.Op == Reduce // else v is computed once per row, after the loop
		for _, operand := range inst.Operands() {
			s.passOf[v] = max(s.passOf[v], s.firstPass(operand, inLoop))
		}
		switch inst.Op {
		case Reduce: // the result is a number; a fold of numbers that depend on no pass runs in pass 0
			s.variesInRow[v], s.passOf[v] = false, max(s.passOf[v], 0)
		case Scan:
			const writtenInLoop = true // a loop writes the operand to the row, even if it is a number
			s.variesInRow[v], s.passOf[v] = true, max(s.firstPass(inst.A, writtenInLoop), 0)+1
		}
	}
}

// firstPass returns the first pass that can use a value in its loop or, if inLoop is false, after its loop. A number is
// computed after the loop of its pass, so that only the loops of later passes can use it.
func (s *splitter) firstPass(v Value, inLoop bool) int {
	if inLoop && !s.variesInRow[v] {
		return s.passOf[v] + 1
	}
	return s.passOf[v]
}

// scanRows adds a stored row for each Scan. If an output is the row itself, the row is stored in the output's memory.
func (s *splitter) scanRows() {
	s.inOutputMemory = make([]bool, len(s.code.Out))
	for v, inst := range s.code.Insts {
		if inst.Op != Scan {
			continue
		}
		s.rowIndex[v] = len(s.Rows)
		row := Row{DType: inst.DType, Out: -1, Scan: Op(inst.Imm)}
		for output, out := range s.code.Out {
			if out.Re == Value(v) && out.Im == None && s.PerElement[output] && row.Out < 0 {
				row.Out, s.inOutputMemory[output] = output, true
			}
		}
		s.Rows = append(s.Rows, row)
		writer := s.passOf[v] - 1
		s.writerPass, s.lastReader = append(s.writerPass, writer), append(s.lastReader, writer) // no reader yet
	}
}

// outputVaries reports whether an output varies within the row.
func (s *splitter) outputVaries(output int) bool {
	out := s.code.Out[output]
	return s.variesInRow[out.Re] || out.Im != None && s.variesInRow[out.Im]
}

// countPasses returns the number of passes over a row that the outputs, folds and scans need.
func (s *splitter) countPasses() int {
	passes := 0
	for output := range s.code.Out {
		passes = max(passes, s.outputPass(output)+1)
	}
	for v, inst := range s.code.Insts {
		switch inst.Op {
		case Reduce:
			passes = max(passes, s.passOf[v]+1)
		case Scan: // pass passOf[v]-1 writes the row
			passes = max(passes, s.passOf[v])
		}
	}
	return passes
}

// outputPass returns the pass that writes an output. For an output with one element for each row, it returns the pass
// after which the output is written.
func (s *splitter) outputPass(output int) int {
	out := s.code.Out[output]
	if s.inOutputMemory[output] {
		return s.passOf[out.Re] - 1
	}
	pass := s.firstPass(out.Re, s.PerElement[output])
	if out.Im != None {
		pass = max(pass, s.firstPass(out.Im, s.PerElement[output]))
	}
	return max(pass, 0)
}

// buildPerRow builds the computation that runs once per row, after a pass: [RowPass.PerRow].
func (s *splitter) buildPerRow(pass int) error {
	emitter := s.newEmitter(func(v Value) (Place, bool) { // loads folds and numbers of earlier passes
		isEarlierNumber := s.passOf[v] >= 0 && s.passOf[v] < pass
		if s.code.Insts[v].Op == Reduce || isEarlierNumber {
			return s.requireNumber(v), true
		}
		return Place{}, false
	})
	var outputs []Output
	var places []Place
	for output, out := range s.code.Out {
		if !s.PerElement[output] && s.outputPass(output) == pass {
			emitter.mark(out.Re, out.Im)
			outputs, places = append(outputs, out), append(places, Place{Kind: AtOutput, N: output})
		}
	}
	for _, v := range s.perRowNumbers[pass] {
		emitter.mark(v)
		outputs = append(outputs, Output{DType: s.code.Insts[v].DType, Re: v, Im: None})
		places = append(places, Place{Kind: AtNumber, N: s.numberIndex[v]})
	}
	if len(outputs) == 0 {
		return nil
	}
	code, err := emitter.builder.Build(emitter.emit().outputs(outputs)...)
	if err != nil {
		return err
	}
	s.Passes[pass].PerRow, s.Passes[pass].PerRowIn, s.Passes[pass].PerRowOut = code, emitter.places, places
	return nil
}

// buildPass builds the loop of a pass: [RowPass.Code].
func (s *splitter) buildPass(pass int) error {
	emitter := s.newEmitter(func(v Value) (Place, bool) { return s.loadPlace(v, pass) })
	outputs, places := s.passOutputs(pass)
	rowPass, storedCount := &s.Passes[pass], len(outputs)
	for v, inst := range s.code.Insts {
		if inst.Op == Reduce && s.passOf[v] == pass {
			outputs, places = append(outputs, Output{Re: inst.A, Im: None}), append(places, Place{Kind: Nowhere})
			rowPass.Folds = append(rowPass.Folds, Fold{Op: Op(inst.Imm)})
			rowPass.FoldResults = append(rowPass.FoldResults, s.requireNumber(Value(v)).N)
		}
	}
	if len(outputs) == 0 {
		return nil
	}
	for _, output := range outputs { // before mark, which skips the operands of stored rows
		s.storeRows(pass, output.Re, output.Im)
	}
	for _, output := range outputs {
		emitter.mark(output.Re, output.Im)
	}
	code, err := emitter.builder.Build(emitter.emit().outputs(outputs)...)
	if err != nil {
		return err
	}
	for fold := range rowPass.Folds { // the folded values are the last outputs
		rowPass.Folds[fold].Value = code.Out[storedCount+fold].Re
	}
	rowPass.Code, rowPass.In, rowPass.Out = code, emitter.places, places
	return nil
}

// passOutputs returns the values that a pass stores, and their places.
func (s *splitter) passOutputs(pass int) (outputs []Output, places []Place) {
	for output, out := range s.code.Out {
		if s.PerElement[output] && s.outputPass(output) == pass && !s.inOutputMemory[output] {
			outputs, places = append(outputs, out), append(places, Place{Kind: AtOutput, N: output})
		}
	}
	for row, writer := range s.writerPass {
		isOutput := s.Rows[row].Out >= 0 && s.Rows[row].Scan == Invalid // the pass stores the row as an output
		if writer != pass || isOutput {
			continue
		}
		stored := s.storedValue(row)
		if s.Rows[row].Scan != Invalid {
			stored = s.code.Insts[stored].A // the operand of the Scan, which is scanned in place
		}
		outputs = append(outputs, Output{DType: s.code.Insts[stored].DType, Re: stored, Im: None})
		places = append(places, Place{Kind: AtRow, N: row})
	}
	return outputs, places
}

// storedValue returns the value that the given row stores.
func (s *splitter) storedValue(row int) Value {
	for v, stored := range s.rowIndex {
		if stored == row {
			return Value(v)
		}
	}
	return None
}

// loadPlace returns the place from which a pass loads a value, and records that the pass reads it. It returns false if
// the pass computes the value.
func (s *splitter) loadPlace(v Value, pass int) (Place, bool) {
	if !s.variesInRow[v] {
		if s.passOf[v] < 0 { // the number depends on no pass, so the pass can compute it
			return Place{}, false
		}
		return s.requireNumber(v), true
	}
	row := s.rowIndex[v]
	if row < 0 || s.writerPass[row] >= pass { // not stored, or not by an earlier pass
		return Place{}, false
	}
	s.lastReader[row] = max(s.lastReader[row], pass)
	return Place{Kind: AtRow, N: row}, true
}

// requireNumber returns the place of a number. At the first call for a number it schedules the computation.
func (s *splitter) requireNumber(v Value) Place {
	if s.numberIndex[v] < 0 {
		s.numberIndex[v] = len(s.Numbers)
		s.Numbers = append(s.Numbers, s.code.Insts[v].DType)
		if s.code.Insts[v].Op != Reduce {
			s.perRowNumbers[s.passOf[v]] = append(s.perRowNumbers[s.passOf[v]], v)
		}
	}
	return Place{Kind: AtNumber, N: s.numberIndex[v]}
}

// emitter builds a new code, RowPass.Code or RowPass.PerRow, from values of the whole code. mark selects the values
// that the new code needs, and emit builds them. A value that the new code loads becomes an operand of the new code.
type emitter struct {
	splitter *splitter
	builder  *Builder // builds the new code
	marked   []bool   // indexed by value: whether the new code needs it
	places   []Place  // indexed by operand of the new code
	// placeOf returns the place from which the new code loads a value, or false if the new code computes the value.
	placeOf func(v Value) (Place, bool)
}

func (s *splitter) newEmitter(placeOf func(v Value) (Place, bool)) *emitter {
	return &emitter{splitter: s, builder: NewBuilder(), marked: make([]bool, len(s.code.Insts)), placeOf: placeOf}
}

// mark marks the values on which the roots depend, from last to first: an operand precedes the values that use it.
func (e *emitter) mark(roots ...Value) {
	last := None
	for _, v := range roots {
		if v != None {
			e.marked[v], last = true, max(last, v)
		}
	}
	for v := last; v >= 0; v-- {
		if !e.marked[v] {
			continue
		}
		if _, isLoaded := e.placeOf(v); isLoaded {
			continue
		}
		for _, operand := range e.splitter.code.Insts[v].Operands() {
			e.marked[operand] = true
		}
	}
}

// emit builds the marked values. It returns, for each value of the code, the value of the new code.
func (e *emitter) emit() valueMap {
	code := e.splitter.code
	newValue := make(valueMap, len(code.Insts))
	for v, inst := range code.Insts {
		newValue[v] = None
		if !e.marked[v] {
			continue
		}
		if place, isLoaded := e.placeOf(Value(v)); isLoaded {
			newValue[v] = e.builder.Load(e.operandAt(place, inst.DType))
			continue
		}
		switch inst.Op {
		case Load:
			newValue[v] = e.builder.load(e.operandAt(Place{Kind: AtOperand, N: int(inst.A)}, code.In[inst.A]), inst.Imm)
			continue
		case Call:
			function := code.Funcs[inst.Imm]
			newValue[v] = e.builder.Call(function, inst.DType,
				[]Value{newValue[inst.A], newValue[inst.B], newValue[inst.C]}[:function.ArgCount]...)
			continue
		}
		for _, operand := range []*Value{&inst.A, &inst.B, &inst.C}[:inst.Op.ArgCount()] {
			*operand = newValue[*operand]
		}
		newValue[v] = e.builder.AddInst(inst)
	}
	return newValue
}

// operandAt returns the index of the operand of the new code that is loaded from a place. It adds the operand if
// necessary.
func (e *emitter) operandAt(place Place, dtype tensor.DType) int {
	if index := slices.Index(e.places, place); index >= 0 {
		return index
	}
	e.places = append(e.places, place)
	e.builder.code.In = append(e.builder.code.In, dtype)
	return len(e.places) - 1
}

// reuseOutputMemory stores rows in the memory of outputs that are written after the last read of the row.
func (s *splitter) reuseOutputMemory() {
	isUsed := make([]bool, len(s.code.Out))
	for _, row := range s.Rows {
		if row.Out >= 0 {
			isUsed[row.Out] = true
		}
	}
	for i := range s.Rows {
		row := &s.Rows[i]
		if row.Out >= 0 {
			continue
		}
		for output, out := range s.code.Out {
			isWrittenAfter := s.PerElement[output] && s.outputPass(output) >= s.lastReader[i]
			if isWrittenAfter && !isUsed[output] && out.DType.Size() == row.DType.Size() {
				row.Out, isUsed[output] = output, true
				break
			}
		}
	}
}
