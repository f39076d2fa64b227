package interp

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// preparer holds what is known of values while an Interp is made.
type preparer struct {
	*Runner
	loop     *expr.Loop
	code     *expr.Code
	constant []bool         // the same wherever the loop runs
	uniform  []bool         // the same for a row
	inner    []bool         // computed in the loop of the one that needs it
	joint    []loopFunc     // the loop of an instruction together with another, or for both parts of a complex number
	twin     []bool         // the loop computes both parts of a complex number
	swapped  []bool         // the value is the imaginary part of those
	other    []expr.Value   // the other part, or None if nobody needs it
	first    []expr.Value   // the part with which another one is computed, or None
	uses     [][]expr.Value // the operands of a loop
	at       []location     // where values lie
	last     []int          // the last instruction that reads a value
	direct   []outputPart   // by value: where it is written at once
	free     []int          // blocks that hold nothing any more
	folded   []expr.Fold    // the loop's, by the code's values
	arms     []predicatedBlock
	open     []openBlock // the arms that an instruction is in
}

// openBlock is an arm whose first step, which may skip the others, was made.
type openBlock struct {
	arm  predicatedBlock
	step int
}

// newPreparer finds the idioms in the loop's code, and brings what is needed together together.
func newPreparer(p *Runner, l *expr.Loop) *preparer {
	m := &preparer{Runner: p, loop: l}
	c := l.Code
	if len(l.Folds) == 0 {
		if whole := moved(c); whole != nil {
			c = whole
		} else if plain, err := withoutOnes(c); err == nil {
			c = plain
		}
	}
	idioms := findPeepholes(c, m.lying)
	if len(idioms) == 0 && len(l.Folds) == 0 {
		if simple, err := c.Simplify(); err == nil {
			c = simple
		}
	}
	tabulate(l, c, idioms)
	uses := make([][]expr.Value, len(c.Insts))
	for v, i := range c.Insts {
		uses[v] = i.Uses()
	}
	for v, f := range idioms {
		if uses[v] = f.uses; f.other != expr.None {
			uses[f.other] = []expr.Value{v}
		}
	}
	var at []expr.Value
	m.code, at, m.arms = predicateBlocks(c, uses, l.Folds)
	for _, f := range l.Folds {
		m.folded = append(m.folded, expr.Fold{Op: f.Op, V: at[f.V]})
	}
	n := len(m.code.Insts)
	m.joint, m.other, m.first, m.uses = make([]loopFunc, n), make([]expr.Value, n), make([]expr.Value, n),
		make([][]expr.Value, n)
	m.twin, m.swapped = make([]bool, n), make([]bool, n)
	for v := range m.other {
		m.other[v], m.first[v] = expr.None, expr.None
	}
	for v, list := range uses {
		if to := at[v]; to != expr.None {
			for _, u := range list {
				m.uses[to] = append(m.uses[to], at[u])
			}
		}
	}
	for v, f := range idioms {
		if v = at[v]; v == expr.None {
			continue
		}
		m.joint[v], m.twin[v], m.swapped[v] = f.body, f.other != expr.None, f.swapped
		if f.other != expr.None && at[f.other] != expr.None {
			m.other[v], m.first[at[f.other]] = at[f.other], v
		}
	}
	return m
}

// lying reports whether an operand is read where it lies, and is another for each element. Where there are several
// outputs one may be its memory.
func (m *preparer) lying(operand int) bool {
	return !m.loop.Scalar[operand] && len(m.loop.Code.Out) == 1
}

// outputPart is an output, or one part of a complex one; an out of -1 is none.
type outputPart struct{ out, part int }

// classify finds what is constant, what is uniform, which instructions are one loop, who reads a value last, and which
// outputs are written at once.
func (m *preparer) classify() {
	c, n := m.code, len(m.code.Insts)
	m.constant, m.uniform, m.last = make([]bool, n), make([]bool, n), make([]int, n)
	m.inner, m.at, m.direct = make([]bool, n), make([]location, n), make([]outputPart, n)
	count := make([]int, n)
	for v, i := range c.Insts {
		m.direct[v] = outputPart{-1, 0}
		m.constant[v], m.uniform[v] = i.Op != expr.Load && !m.twin[v], i.Op != expr.Load || m.loop.Scalar[i.A]
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
	for _, a := range m.arms {
		count[a.mask]++ // it is looked at by itself
	}
	m.joinAll(count)
	m.readers()
}

// joinAll finds the instructions that are one loop with another.
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
				m.joint[v], m.uses[v], m.inner[u] = f, uses, true
			}
		}
	}
}

// withImag has the step of the real part of a complex function compute the imaginary part too, if that comes next.
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
	m.twin[v], m.other[v], m.first[v+1], m.uses[v+1] = true, v+1, v, []expr.Value{v}
}

// operandRead is when an operand is read where it lies.
type operandRead struct {
	when, operand, part int
}

// readers finds who reads a value last, and what is written to outputs at once. An output may be the memory of an
// operand: it is written at once only if no operand that may lie there is read afterwards.
func (m *preparer) readers() {
	c, n := m.code, len(m.code.Insts)
	var all []operandRead
	read := func(u expr.Value, when int) {
		m.last[u] = max(m.last[u], when)
		if i := c.Insts[u]; m.inPlace(u) {
			all = append(all, operandRead{when, int(i.A), int(i.Imm)})
		}
	}
	for v, i := range c.Insts {
		m.last[v] = max(m.last[v], v)
		if i.Op == expr.Load && !m.uniform[v] && !m.inPlace(expr.Value(v)) {
			all = append(all, operandRead{v, int(i.A), int(i.Imm)})
		}
		if !m.inner[v] {
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
			m.last[v] = n
		}
	})
}

// canWrite reports whether a value may be written to part p of output k as soon as it is computed.
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

// inPlace reports whether a value is read where an operand lies.
func (m *preparer) inPlace(v expr.Value) bool {
	return m.code.Insts[v].Op == expr.Load && !m.uniform[v] && !m.staged(v)
}

// staged reports whether an operand that is an output as it is must be put aside: another output may be its memory.
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

// pairV puts parts together.
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
