package expr

import (
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// maker holds what is known of values while an Interp is made.
type maker struct {
	*Interp
	loop     *Loop
	code     *Code
	constant []bool    // the same wherever the loop runs
	uniform  []bool    // the same for a row
	inner    []bool    // computed in the loop of the one that needs it
	joint    []body    // the loop of an instruction together with another, or for both parts of a complex number
	twin     []bool    // the loop computes both parts of a complex number
	swapped  []bool    // the value is the imaginary part of those
	other    []Value   // the other part, or None if nobody needs it
	first    []Value   // the part with which another one is computed, or None
	uses     [][]Value // the operands of a loop
	at       []at      // where values lie
	last     []int     // the last instruction that reads a value
	direct   []written // by value: where it is written at once
	free     []int     // blocks that hold nothing any more
	folded   []Fold    // the loop's, by the code's values
	arms     []arm
	open     []opened // the arms that an instruction is in
}

// opened is an arm whose first step, which may skip the others, was made.
type opened struct {
	arm  arm
	step int
}

// newMaker finds the idioms in the loop's code, and brings what is needed together together.
func newMaker(p *Interp, l *Loop) *maker {
	m := &maker{Interp: p, loop: l}
	c := l.Code
	if len(l.Folds) == 0 {
		if whole := c.moved(); whole != nil {
			c = whole
		} else if plain, err := c.withoutOnes(); err == nil {
			c = plain
		}
	}
	idioms := findIdioms(c, m.lying)
	if len(idioms) == 0 && len(l.Folds) == 0 {
		if simple, err := c.Simplify(); err == nil {
			c = simple
		}
	}
	tabulate(l, c, idioms)
	uses := make([][]Value, len(c.Insts))
	for v, i := range c.Insts {
		uses[v] = i.Uses()
	}
	for v, f := range idioms {
		if uses[v] = f.uses; f.other != None {
			uses[f.other] = []Value{v}
		}
	}
	var at []Value
	m.code, at, m.arms = withArms(c, uses, l.Folds)
	for _, f := range l.Folds {
		m.folded = append(m.folded, Fold{f.Op, at[f.V]})
	}
	n := len(m.code.Insts)
	m.joint, m.other, m.first, m.uses = make([]body, n), make([]Value, n), make([]Value, n), make([][]Value, n)
	m.twin, m.swapped = make([]bool, n), make([]bool, n)
	for v := range m.other {
		m.other[v], m.first[v] = None, None
	}
	for v, list := range uses {
		if to := at[v]; to != None {
			for _, u := range list {
				m.uses[to] = append(m.uses[to], at[u])
			}
		}
	}
	for v, f := range idioms {
		if v = at[v]; v == None {
			continue
		}
		m.joint[v], m.twin[v], m.swapped[v] = f.body, f.other != None, f.swapped
		if f.other != None && at[f.other] != None {
			m.other[v], m.first[at[f.other]] = at[f.other], v
		}
	}
	return m
}

// lying reports whether an operand is read where it lies, and is another for each element. Where there are several
// outputs one may be its memory.
func (m *maker) lying(operand int) bool { return !m.loop.Scalar[operand] && len(m.loop.Code.Out) == 1 }

// written is an output, or one part of a complex one; an out of -1 is none.
type written struct{ out, part int }

// classify finds what is constant, what is uniform, which instructions are one loop, who reads a value last, and which
// outputs are written at once.
func (m *maker) classify() {
	c, n := m.code, len(m.code.Insts)
	m.constant, m.uniform, m.last = make([]bool, n), make([]bool, n), make([]int, n)
	m.inner, m.at, m.direct = make([]bool, n), make([]at, n), make([]written, n)
	count := make([]int, n)
	for v, i := range c.Insts {
		m.direct[v] = written{-1, 0}
		m.constant[v], m.uniform[v] = i.Op != Load && !m.twin[v], i.Op != Load || m.loop.Scalar[i.A]
		for _, u := range m.uses[v] {
			m.constant[v] = m.constant[v] && m.constant[u]
			m.uniform[v] = m.uniform[v] && m.uniform[u]
			count[u]++
		}
	}
	for _, o := range c.Out {
		count[o.Re]++
		if o.Im != None {
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
func (m *maker) joinAll(count []int) {
	for v, i := range m.code.Insts {
		if m.uniform[v] || m.first[v] != None {
			continue
		}
		m.withImag(Value(v), i)
		for k, u := range i.Uses() {
			if m.joint[v] != nil || count[u] != 1 || m.uniform[u] || m.joint[u] != nil || m.first[u] != None {
				continue
			}
			if f, uses := m.join(i, u, k); f != nil {
				m.joint[v], m.uses[v], m.inner[u] = f, uses, true
			}
		}
	}
}

// withImag has the step of the real part of a complex function compute the imaginary part too, if that comes next.
func (m *maker) withImag(v Value, i Inst) {
	if i.Op != Call || int(v)+1 == len(m.code.Insts) || m.joint[v] != nil || m.joint[v+1] != nil {
		return
	}
	f, next := m.code.Funcs[i.Imm], m.code.Insts[v+1]
	if f.both == nil || next.Op != Call || m.code.Funcs[next.Imm] != f.imag || next.A != i.A || next.B != i.B {
		return
	}
	if m.joint[v] = bothBody[float64](f.both); i.DType == tensor.Float32 {
		m.joint[v] = bothBody[float32](f.both)
	}
	m.twin[v], m.other[v], m.first[v+1], m.uses[v+1] = true, v+1, v, []Value{v}
}

// reading is when an operand is read where it lies.
type reading struct {
	when, operand, part int
}

// readers finds who reads a value last, and what is written to outputs at once. An output may be the memory of an
// operand: it is written at once only if no operand that may lie there is read afterwards.
func (m *maker) readers() {
	c, n := m.code, len(m.code.Insts)
	var all []reading
	read := func(u Value, when int) {
		m.last[u] = max(m.last[u], when)
		if i := c.Insts[u]; m.inPlace(u) {
			all = append(all, reading{when, int(i.A), int(i.Imm)})
		}
	}
	for v, i := range c.Insts {
		m.last[v] = max(m.last[v], v)
		if i.Op == Load && !m.uniform[v] && !m.inPlace(Value(v)) {
			all = append(all, reading{v, int(i.A), int(i.Imm)})
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
	stored := func(f func(v Value, k, p int)) {
		for k, o := range c.Out {
			for p, v := range []Value{o.Re, o.Im} {
				if o.DType != tensor.Invalid && v != None {
					f(v, k, p)
				}
			}
		}
	}
	stored(func(v Value, _, _ int) {
		if c.Insts[v].Op == Load {
			read(v, n)
		}
	})
	stored(func(v Value, k, p int) {
		if m.canWrite(v, k, p, all) {
			m.direct[v] = written{k, p}
		} else {
			m.last[v] = n
		}
	})
}

// canWrite reports whether a value may be written to part p of output k as soon as it is computed.
func (m *maker) canWrite(v Value, k, p int, all []reading) bool {
	if m.uniform[v] || m.code.Insts[v].Op == Load || m.direct[v].out >= 0 {
		return false
	}
	out, when := m.code.Out[k].DType, v
	if m.first[v] != None {
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
func (m *maker) inPlace(v Value) bool {
	return m.code.Insts[v].Op == Load && !m.uniform[v] && !m.staged(v)
}

// staged reports whether an operand that is an output as it is must be put aside: another output may be its memory.
func (m *maker) staged(v Value) bool {
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
