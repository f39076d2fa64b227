package interp

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// preparer prepares a Runner. Most of its fields describe the values of the code.
type preparer struct {
	*Runner
	loop       *expr.Loop
	code       *expr.Code
	constant   []bool // by value: it depends on no operand
	uniform    []bool // by value: it is constant within a row
	inUserLoop []bool // by value: it is computed in the loop of its user
	// jointLoop is, by value, a loop that computes more than one instruction: the value and one of its operands, a
	// peephole, or both parts of a complex number. It is nil if the value has no such loop.
	jointLoop         []loopFunc
	computesBothParts []bool         // by value: its loop computes both parts of a complex number
	isImaginary       []bool         // by value that computesBothParts: it is the imaginary part
	otherPart         []expr.Value   // by value that computesBothParts: the other part, or None if that part is unused
	partWithLoop      []expr.Value   // by value: the other part, if the loop of that part computes both; else None
	uses              [][]expr.Value // by value: the operands of its loop
	locations         []location     // by value: where it is stored
	// lastReader is, by value, the last instruction that reads it. It is the number of instructions if a step at the end
	// stores the value.
	lastReader   []int
	directOutput []outputPart // by value: the output to which its step writes directly
	free         []int        // blocks that can be reused
	folded       []expr.Fold  // the folds of the loop, with values of code
	predicated   []predicatedBlock
	openBlocks   []openBlock // the predicated blocks that contain the current instruction
}

// openBlock is a predicated block that has begun.
type openBlock struct {
	block predicatedBlock
	step  int // index of its mask test in the body
}

// newPreparer rewrites the code of the loop, finds peepholes and orders predicated blocks.
func newPreparer(p *Runner, l *expr.Loop) *preparer {
	m := &preparer{Runner: p, loop: l}
	c := l.Code
	if len(l.Folds) == 0 {
		if whole := int64Code(c); whole != nil {
			c = whole
		} else if plain, err := removeUnitFactors(c); err == nil {
			c = plain
		}
	}
	found := findPeepholes(c, m.readsEachElement)
	if len(found) == 0 && len(l.Folds) == 0 {
		if simple, err := c.Simplify(); err == nil {
			c = simple
		}
	}
	tabulate(l, c, found)
	uses := make([][]expr.Value, len(c.Insts))
	for v, i := range c.Insts {
		uses[v] = i.Uses()
	}
	for v, f := range found {
		if uses[v] = f.uses; f.other != expr.None {
			uses[f.other] = []expr.Value{v}
		}
	}
	var at []expr.Value
	m.code, at, m.predicated = predicateBlocks(c, uses, l.Folds)
	for _, f := range l.Folds {
		m.folded = append(m.folded, expr.Fold{Op: f.Op, V: at[f.V]})
	}
	n := len(m.code.Insts)
	m.jointLoop, m.otherPart, m.partWithLoop, m.uses = make([]loopFunc, n), make([]expr.Value, n), make([]expr.Value, n),
		make([][]expr.Value, n)
	m.computesBothParts, m.isImaginary = make([]bool, n), make([]bool, n)
	for v := range m.otherPart {
		m.otherPart[v], m.partWithLoop[v] = expr.None, expr.None
	}
	for v, list := range uses {
		if to := at[v]; to != expr.None {
			for _, u := range list {
				m.uses[to] = append(m.uses[to], at[u])
			}
		}
	}
	for v, f := range found {
		if v = at[v]; v == expr.None {
			continue
		}
		m.jointLoop[v], m.computesBothParts[v], m.isImaginary[v] = f.body, f.other != expr.None, f.swapped
		if f.other != expr.None && at[f.other] != expr.None {
			m.otherPart[v], m.partWithLoop[at[f.other]] = at[f.other], v
		}
	}
	return m
}

// readsEachElement reports whether an operand is read in place and has an element for each element of the row. It
// returns false if the loop has several outputs, because an output may share the memory of the operand.
func (m *preparer) readsEachElement(operand int) bool {
	return !m.loop.Scalar[operand] && len(m.loop.Code.Out) == 1
}

// outputPart is an output, or one part of a complex output. out is -1 for none.
type outputPart struct{ out, part int }

// classify sets constant, uniform and directOutput, joins instructions, and finds the last reader of each value.
func (m *preparer) classify() {
	c, n := m.code, len(m.code.Insts)
	m.constant, m.uniform, m.lastReader = make([]bool, n), make([]bool, n), make([]int, n)
	m.inUserLoop, m.locations, m.directOutput = make([]bool, n), make([]location, n), make([]outputPart, n)
	count := make([]int, n)
	for v, i := range c.Insts {
		m.directOutput[v] = outputPart{-1, 0}
		m.constant[v], m.uniform[v] = i.Op != expr.Load && !m.computesBothParts[v], i.Op != expr.Load || m.loop.Scalar[i.A]
		for _, u := range m.uses[v] {
			m.constant[v] = m.constant[v] && m.constant[u]
			m.uniform[v] = m.uniform[v] && m.uniform[u]
			count[u]++
		}
	}
	for _, o := range c.Out {
		count[o.Re]++
		if o.Im != expr.None {
			count[o.Im]++
		}
	}
	for _, f := range m.folded {
		count[f.V]++
	}
	for _, a := range m.predicated {
		count[a.mask]++ // the mask is tested separately
	}
	m.joinAll(count)
	m.findReaders()
}

// joinAll finds the instructions that share a loop with one of their operands. count is the number of uses of each
// value.
func (m *preparer) joinAll(count []int) {
	for v, i := range m.code.Insts {
		if m.uniform[v] || m.partWithLoop[v] != expr.None {
			continue
		}
		m.joinParts(expr.Value(v), i)
		for k, u := range i.Uses() {
			if m.jointLoop[v] != nil || count[u] != 1 || m.uniform[u] || m.jointLoop[u] != nil ||
				m.partWithLoop[u] != expr.None {
				continue
			}
			if f, uses := m.jointLoopFor(i, u, k); f != nil {
				m.jointLoop[v], m.uses[v], m.inUserLoop[u] = f, uses, true
			}
		}
	}
}

// joinParts changes the loop of the real part of a complex function to a loop that also computes the imaginary part. It
// does so if the next instruction is the imaginary part.
func (m *preparer) joinParts(v expr.Value, i expr.Inst) {
	if i.Op != expr.Call || int(v)+1 == len(m.code.Insts) || m.jointLoop[v] != nil || m.jointLoop[v+1] != nil {
		return
	}
	both, imag := m.code.Funcs[i.Imm].Complex()
	next := m.code.Insts[v+1]
	if both == nil || next.Op != expr.Call || m.code.Funcs[next.Imm] != imag || next.A != i.A || next.B != i.B {
		return
	}
	if m.jointLoop[v] = bothBody[float64](both); i.DType == tensor.Float32 {
		m.jointLoop[v] = bothBody[float32](both)
	}
	m.computesBothParts[v], m.otherPart[v], m.partWithLoop[v+1], m.uses[v+1] = true, v+1, v, []expr.Value{v}
}

// operandRead is a read of a part of an operand.
type operandRead struct {
	when          int // number of the instruction
	operand, part int
}

// findReaders finds the last reader of each value, and the values that are written directly to outputs. An output may
// share the memory of an operand. A value is written directly to the output only if no such operand is read later.
func (m *preparer) findReaders() {
	c, n := m.code, len(m.code.Insts)
	var reads []operandRead
	read := func(u expr.Value, when int) {
		m.lastReader[u] = max(m.lastReader[u], when)
		if i := c.Insts[u]; m.isReadInPlace(u) {
			reads = append(reads, operandRead{when, int(i.A), int(i.Imm)})
		}
	}
	for v, i := range c.Insts {
		m.lastReader[v] = max(m.lastReader[v], v)
		if i.Op == expr.Load && !m.uniform[v] && !m.isReadInPlace(expr.Value(v)) {
			reads = append(reads, operandRead{v, int(i.A), int(i.Imm)})
		}
		if !m.inUserLoop[v] {
			for _, u := range m.uses[v] {
				read(u, v)
			}
		}
	}
	for _, f := range m.folded {
		read(f.V, int(f.V))
	}
	eachStored := func(f func(v expr.Value, k, p int)) {
		for k, o := range c.Out {
			for p, v := range []expr.Value{o.Re, o.Im} {
				if o.DType != tensor.Invalid && v != expr.None {
					f(v, k, p)
				}
			}
		}
	}
	eachStored(func(v expr.Value, _, _ int) {
		if c.Insts[v].Op == expr.Load {
			read(v, n)
		}
	})
	eachStored(func(v expr.Value, k, p int) {
		if m.canWrite(v, k, p, reads) {
			m.directOutput[v] = outputPart{k, p}
		} else {
			m.lastReader[v] = n
		}
	})
}

// canWrite reports whether value v may be written to part p of output k when v is computed. reads lists all reads of
// operands.
func (m *preparer) canWrite(v expr.Value, k, p int, reads []operandRead) bool {
	if m.uniform[v] || m.code.Insts[v].Op == expr.Load || m.directOutput[v].out >= 0 {
		return false
	}
	out, when := m.code.Out[k].DType, v
	if m.partWithLoop[v] != expr.None {
		when = m.partWithLoop[v]
	}
	for _, r := range reads {
		in := m.code.In[r.operand]
		if r.when > int(when) && in.Size() == out.Size() && (in != out || !out.IsComplex() || r.part == p) {
			return false
		}
	}
	return true
}

// isReadInPlace reports whether a value is an operand that is read in place.
func (m *preparer) isReadInPlace(v expr.Value) bool {
	return m.code.Insts[v].Op == expr.Load && !m.uniform[v] && !m.mustStage(v)
}

// mustStage reports whether an operand must be copied to a block. A copy is necessary if an output is equal to the
// operand and there are other outputs, because another output may share the memory of the operand.
func (m *preparer) mustStage(v expr.Value) bool {
	if len(m.code.Out) == 1 {
		return false
	}
	for _, o := range m.code.Out {
		if o.DType != tensor.Invalid && (o.Re == v || o.Im == v) {
			return true
		}
	}
	return false
}

// pairV stores the two parts of complex numbers.
func pairV[U word](d, a, b, _, _, g unsafe.Pointer, n int, s *strides) {
	sd, sa, sb, sg := s.d, s.a, s.b, s.g
	for ; ; d, a, b, g = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb), unsafe.Add(g, sg) {
		x, y := *(*U)(a), *(*U)(b)
		*(*U)(d), *(*U)(g) = x, y
		if n--; n == 0 {
			return
		}
	}
}
