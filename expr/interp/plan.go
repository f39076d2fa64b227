package interp

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// preparer holds the analysis of values while a Runner is prepared.
type preparer struct {
	*Runner
	loop       *expr.Loop
	code       *expr.Code
	constant   []bool // by value: whether it depends on no operand
	uniform    []bool // by value: whether it is constant within a row
	inUserLoop []bool // by value: whether it is computed in the loop of its user
	// by value: the loop of the instruction joined with an operand, of a peephole, or of both parts of a complex
	// number; nil for a single instruction
	joint             []loopFunc
	computesBothParts []bool         // by value: whether its loop computes both parts of a complex number
	isImaginary       []bool         // by value of a twin: whether it is the imaginary part
	otherPart         []expr.Value   // by value of a twin: the other part, or None if that is unused
	first             []expr.Value   // by value: the part whose loop computes it, or None
	uses              [][]expr.Value // by value: the operands of its loop
	at                []location     // by value: where it is stored
	lastReader        []int          // by value: the last instruction that reads it
	direct            []outputPart   // by value: the output to which its step writes directly
	free              []int          // blocks that can be reused
	folded            []expr.Fold    // the folds of the loop, with values of code
	predicated        []predicatedBlock
	openBlocks        []openBlock // the predicated blocks that contain the current instruction
}

// openBlock is a predicated block that has begun. Its mask test is step number step of the body.
type openBlock struct {
	block predicatedBlock
	step  int
}

// newPreparer rewrites the code of the loop, finds peepholes and orders predicated blocks.
func newPreparer(p *Runner, l *expr.Loop) *preparer {
	m := &preparer{Runner: p, loop: l}
	c := l.Code
	if len(l.Folds) == 0 {
		if whole := int64Code(c); whole != nil {
			c = whole
		} else if plain, err := withoutOnes(c); err == nil {
			c = plain
		}
	}
	found := findPeepholes(c, m.perElement)
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
	m.joint, m.otherPart, m.first, m.uses = make([]loopFunc, n), make([]expr.Value, n), make([]expr.Value, n),
		make([][]expr.Value, n)
	m.computesBothParts, m.isImaginary = make([]bool, n), make([]bool, n)
	for v := range m.otherPart {
		m.otherPart[v], m.first[v] = expr.None, expr.None
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
		m.joint[v], m.computesBothParts[v], m.isImaginary[v] = f.body, f.other != expr.None, f.swapped
		if f.other != expr.None && at[f.other] != expr.None {
			m.otherPart[v], m.first[at[f.other]] = at[f.other], v
		}
	}
	return m
}

// perElement reports whether an operand is read in place and has an element for each element of the row. It returns
// false if the loop has several outputs, because an output may share the memory of the operand.
func (m *preparer) perElement(operand int) bool {
	return !m.loop.Scalar[operand] && len(m.loop.Code.Out) == 1
}

// outputPart is an output, or one part of a complex output. out is -1 for none.
type outputPart struct{ out, part int }

// classify sets constant, uniform and direct, joins instructions, and finds the last reader of each value.
func (m *preparer) classify() {
	c, n := m.code, len(m.code.Insts)
	m.constant, m.uniform, m.lastReader = make([]bool, n), make([]bool, n), make([]int, n)
	m.inUserLoop, m.at, m.direct = make([]bool, n), make([]location, n), make([]outputPart, n)
	count := make([]int, n)
	for v, i := range c.Insts {
		m.direct[v] = outputPart{-1, 0}
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
	m.readers()
}

// joinAll finds the instructions that share a loop with one of their operands. count is the number of uses of each
// value.
func (m *preparer) joinAll(count []int) {
	for v, i := range m.code.Insts {
		if m.uniform[v] || m.first[v] != expr.None {
			continue
		}
		m.withImag(expr.Value(v), i)
		for k, u := range i.Uses() {
			if m.joint[v] != nil || count[u] != 1 || m.uniform[u] || m.joint[u] != nil || m.first[u] != expr.None {
				continue
			}
			if f, uses := m.join(i, u, k); f != nil {
				m.joint[v], m.uses[v], m.inUserLoop[u] = f, uses, true
			}
		}
	}
}

// withImag changes the loop of the real part of a complex function to a loop that also computes the imaginary part. It
// does so if the next instruction is the imaginary part.
func (m *preparer) withImag(v expr.Value, i expr.Inst) {
	if i.Op != expr.Call || int(v)+1 == len(m.code.Insts) || m.joint[v] != nil || m.joint[v+1] != nil {
		return
	}
	both, imag := m.code.Funcs[i.Imm].Complex()
	next := m.code.Insts[v+1]
	if both == nil || next.Op != expr.Call || m.code.Funcs[next.Imm] != imag || next.A != i.A || next.B != i.B {
		return
	}
	if m.joint[v] = bothBody[float64](both); i.DType == tensor.Float32 {
		m.joint[v] = bothBody[float32](both)
	}
	m.computesBothParts[v], m.otherPart[v], m.first[v+1], m.uses[v+1] = true, v+1, v, []expr.Value{v}
}

// operandRead is a read of a part of an operand. when is the number of the reading instruction.
type operandRead struct {
	when, operand, part int
}

// readers finds the last reader of each value, and the values that are written directly to outputs. An output may share
// the memory of an operand. A value is written directly to the output only if no such operand is read later.
func (m *preparer) readers() {
	c, n := m.code, len(m.code.Insts)
	var all []operandRead
	read := func(u expr.Value, when int) {
		m.lastReader[u] = max(m.lastReader[u], when)
		if i := c.Insts[u]; m.inPlace(u) {
			all = append(all, operandRead{when, int(i.A), int(i.Imm)})
		}
	}
	for v, i := range c.Insts {
		m.lastReader[v] = max(m.lastReader[v], v)
		if i.Op == expr.Load && !m.uniform[v] && !m.inPlace(expr.Value(v)) {
			all = append(all, operandRead{v, int(i.A), int(i.Imm)})
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
	stored := func(f func(v expr.Value, k, p int)) {
		for k, o := range c.Out {
			for p, v := range []expr.Value{o.Re, o.Im} {
				if o.DType != tensor.Invalid && v != expr.None {
					f(v, k, p)
				}
			}
		}
	}
	stored(func(v expr.Value, _, _ int) {
		if c.Insts[v].Op == expr.Load {
			read(v, n)
		}
	})
	stored(func(v expr.Value, k, p int) {
		if m.canWrite(v, k, p, all) {
			m.direct[v] = outputPart{k, p}
		} else {
			m.lastReader[v] = n
		}
	})
}

// canWrite reports whether value v may be written to part p of output k when v is computed. all has all reads of
// operands.
func (m *preparer) canWrite(v expr.Value, k, p int, all []operandRead) bool {
	if m.uniform[v] || m.code.Insts[v].Op == expr.Load || m.direct[v].out >= 0 {
		return false
	}
	out, when := m.code.Out[k].DType, v
	if m.first[v] != expr.None {
		when = m.first[v]
	}
	for _, r := range all {
		in := m.code.In[r.operand]
		if r.when > int(when) && in.Size() == out.Size() && (in != out || !out.IsComplex() || r.part == p) {
			return false
		}
	}
	return true
}

// inPlace reports whether a value is an operand that is read in place.
func (m *preparer) inPlace(v expr.Value) bool {
	return m.code.Insts[v].Op == expr.Load && !m.uniform[v] && !m.staged(v)
}

// staged reports whether an operand must be copied to a block. This is necessary if its memory is also that of an
// output and another output may share this memory.
func (m *preparer) staged(v expr.Value) bool {
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
func pairV[U word](d, a, b, _, _, g unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sg := by.d, by.a, by.b, by.g
	for ; ; d, a, b, g = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb), unsafe.Add(g, sg) {
		x, y := *(*U)(a), *(*U)(b)
		*(*U)(d), *(*U)(g) = x, y
		if n--; n == 0 {
			return
		}
	}
}
