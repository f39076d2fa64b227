package expr

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// blockBytes is how much of a value passes from instruction to instruction at a time, where elements are the widest
// of a loop: several values of a block fit the L1 cache together, and a call is lost in the work on one. Blocks are a
// multiple of Lanes elements, so that each begins with the first accumulator.
const blockBytes = machine.BlockBytes

// blockGap keeps values of blocks from lying at the same place of different pages, where a store holds up loads.
const blockGap = 192

// body computes n elements of d from those of a, b and c. What lies at d may be what lies at an operand, if elements
// are of one size, and else does not overlap it.
type body func(d, a, b, c unsafe.Pointer, n int)

// step is a body and the slots of its operands; slots that it has no use for are 0.
type step struct {
	f          body
	d, a, b, c int
}

// foldStep adds what lies at slot v to the accumulators of a fold.
type foldStep struct {
	f     func(acc, v unsafe.Pointer, n int)
	fold  int
	v     int
	after int // number of steps of the body that come before it
}

// Interp is a [Loop] that was made ready to run in Go, block by block, an instruction after the other. It is
// immutable and may run on any number of goroutines.
//
// What is computed lies at slots: outputs, operands, constants, values that are the same for a row, blocks of others.
// An operand that needs no conversion is read where it lies, and the last instruction writes to the output itself: an
// expression of one instruction is one loop over the row.
type Interp struct {
	outs, ins int
	size      []int  // bytes of an element, outputs before operands
	scalar    []bool // what stays where it is along a row
	consts    []uint64
	uniforms  int // values that are the same for a row
	blocks    int
	wide      int    // bytes of the widest element
	block     int    // elements
	setup     []step // once: constants all over a block
	row       []step // once a row, for one element
	spread    []step // once a row, for a block
	body      []step // once a block
	folds     []foldStep
	totals    []total // by fold, where rows are folded one by one
	scratch   sync.Pool
}

// total is how the accumulators of a fold begin, and how they become one number.
type total struct {
	size    int
	fill    body
	neutral uint64
	combine func(dst, acc unsafe.Pointer, n int)
}

// Prepare makes the loop ready to run in Go. An error says what is wrong with the loop.
func (l *Loop) Prepare() (*Interp, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	p := &Interp{outs: len(l.Code.Out), ins: len(l.Code.In)}
	for _, o := range l.Code.Out {
		p.size = append(p.size, o.DType.Size())
		p.scalar = append(p.scalar, false)
	}
	for k, d := range l.Code.In {
		p.size = append(p.size, d.Size())
		p.scalar = append(p.scalar, l.Scalar[k])
	}
	m := maker{Interp: p, loop: l, code: l.Code}
	m.classify()
	for v := range m.code.Insts {
		if err := m.inst(Value(v)); err != nil {
			return nil, fmt.Errorf("expr: v%d: %w", v, err)
		}
	}
	m.finish()
	p.wide = max(p.wide, slices.Max(p.size))
	p.block = blockBytes / p.wide
	if l.Totals {
		for k, f := range l.Folds {
			d := l.DType(k)
			p.totals = append(p.totals, total{d.Size(), fills[sizeIndex(d.Size())], Neutral(f.Op, d), Combine(f.Op, d)})
		}
	}
	p.scratch.New = func() any { return p.NewScratch() }
	return p, nil
}

// maker holds what is known of values while an Interp is made.
type maker struct {
	*Interp
	loop     *Loop
	code     *Code
	constant []bool  // the same wherever the loop runs
	uniform  []bool  // the same for a row
	at       []place // where values lie
	spreads  []place // where a uniform one lies all over a block
	last     []int   // the last instruction that reads a value
	lastRead int     // the last instruction that reads an operand where it lies
	direct   []int   // by value: the output to which it is written at once, or -1
	free     []int   // blocks that hold nothing any more
}

// place is a slot before numbers of slots are known: which one of its kind.
type place struct {
	kind placeKind
	n    int
}

type placeKind uint8

const (
	nowhere placeKind = iota
	atOutput
	atOperand
	atConst
	atUniform
	atBlock
)

// slot numbers places: outputs, operands, constants, uniforms, blocks. Constants and uniforms are told apart from
// what follows when all are known, so kinds stand in the upper bits until then.
func (p place) slot() int { return int(p.kind)<<24 | p.n }

// classify finds what is constant, what is uniform, who reads a value last, and which outputs are written at once.
func (m *maker) classify() {
	c, n := m.code, len(m.code.Insts)
	m.constant, m.uniform, m.last = make([]bool, n), make([]bool, n), make([]int, n)
	m.at, m.spreads, m.direct = make([]place, n), make([]place, n), make([]int, n)
	for v, i := range c.Insts {
		uses := i.Uses()
		m.constant[v], m.uniform[v] = i.Op != Load, i.Op != Load || m.loop.Scalar[i.A]
		for _, u := range uses {
			m.constant[v] = m.constant[v] && m.constant[u]
			m.uniform[v] = m.uniform[v] && m.uniform[u]
		}
		m.last[v], m.direct[v] = v, -1
		for _, u := range uses {
			m.last[u] = v
			if m.inPlace(u) && !m.uniform[v] {
				m.lastRead = v
			}
		}
		if i.Op == Load && c.In[i.A].IsComplex() && !m.uniform[v] {
			m.lastRead = v
		}
	}
	for _, f := range m.loop.Folds {
		if m.inPlace(f.V) {
			m.lastRead = max(m.lastRead, int(f.V))
		}
	}
	for k, o := range c.Out {
		if o.DType == tensor.Invalid {
			continue
		}
		v := o.Re
		// An output may be the memory of an operand: it is written at once only if no operand is read afterwards.
		if o.Im == None && !m.uniform[v] && c.Insts[v].Op != Load && m.direct[v] < 0 && int(v) >= m.lastRead {
			m.direct[v] = k
			continue
		}
		m.last[v] = n
		if o.Im != None {
			m.last[o.Im] = n
		}
	}
}

// inPlace reports whether a value is read where an operand lies.
func (m *maker) inPlace(v Value) bool {
	i := m.code.Insts[v]
	return i.Op == Load && !m.uniform[v] && !m.code.In[i.A].IsComplex() && !m.staged(v)
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

// inst makes the step of an instruction.
func (m *maker) inst(v Value) error {
	i := m.code.Insts[v]
	if i.Op == Const {
		m.at[v] = m.newConst(i.Imm)
		return nil
	}
	if m.inPlace(v) {
		m.at[v] = place{atOperand, int(i.A)}
		m.fold(v)
		return nil
	}
	if m.at[v].kind != nowhere { // computed with another part
		m.fold(v)
		m.release(v)
		return nil
	}
	s, err := m.step(v, i)
	if err != nil {
		return err
	}
	switch {
	case m.constant[v]:
		m.at[v] = m.newConst(0)
		addr := func(slot int) unsafe.Pointer { return unsafe.Pointer(&m.consts[slot&(1<<24-1)]) }
		s.f(addr(m.at[v].slot()), addr(s.a), addr(s.b), addr(s.c), 1)
		return nil
	case m.uniform[v]:
		m.at[v] = place{atUniform, m.uniforms}
		m.uniforms++
		s.d = m.at[v].slot()
		m.row = append(m.row, s)
		return nil
	}
	m.withImag(&s, v, i)
	m.at[v] = m.result(v, i)
	s.d = m.at[v].slot()
	m.body = append(m.body, s)
	m.fold(v)
	m.release(v)
	return nil
}

// withImag has the step of the real part of a complex function compute the imaginary part too, if that comes next.
func (m *maker) withImag(s *step, v Value, i Inst) {
	if i.Op != Call || int(v)+1 == len(m.code.Insts) || m.uniform[i.A] || m.uniform[i.B] {
		return
	}
	f, next := m.code.Funcs[i.Imm], m.code.Insts[v+1]
	if f.both == nil || next.Op != Call || m.code.Funcs[next.Imm] != f.imag || next.A != i.A || next.B != i.B ||
		m.direct[v+1] >= 0 {
		return
	}
	if s.f = bothBody[float64](f.both); i.DType == tensor.Float32 {
		s.f = bothBody[float32](f.both)
	}
	m.at[v+1] = m.newBlock(i.DType.Size())
	s.c = m.at[v+1].slot()
}

// step finds the body of an instruction, and brings its operands to where that wants them.
func (m *maker) step(v Value, i Inst) (step, error) {
	if i.Op == Load {
		s := step{a: place{atOperand, int(i.A)}.slot()}
		if d := m.code.In[i.A]; d.IsComplex() {
			s.f = loadPart(d, int(i.Imm))
		} else {
			s.f = moves[sizeIndex(d.Size())]
		}
		return s, nil
	}
	uses := i.Uses()
	var single, constant [3]bool
	var bits [3]uint64
	for k, u := range uses {
		single[k] = m.uniform[u] && !m.uniform[v]
		if constant[k] = m.constant[u]; constant[k] {
			bits[k] = m.consts[m.at[u].n]
		}
	}
	f, form := choose(m.code, i, single, bits, constant)
	if f == nil {
		return step{}, fmt.Errorf("%v of %v cannot be computed", i.Op, i.DType)
	}
	s := step{f: f}
	for k, u := range uses {
		at := m.at[u]
		if single[k] && !form[k] {
			at = m.spreadOut(u)
		}
		*[]*int{&s.a, &s.b, &s.c}[k] = at.slot()
	}
	return s, nil
}

func (m *maker) newConst(imm uint64) place {
	m.consts = append(m.consts, imm)
	return place{atConst, len(m.consts) - 1}
}

// spreadOut returns the block that holds a uniform value all over.
func (m *maker) spreadOut(v Value) place {
	if m.spreads[v].kind != nowhere {
		return m.spreads[v]
	}
	d := m.code.Insts[v].DType
	m.spreads[v] = m.newBlock(d.Size())
	s := step{f: fills[sizeIndex(d.Size())], d: m.spreads[v].slot(), a: m.at[v].slot()}
	if m.constant[v] {
		m.setup = append(m.setup, s)
	} else {
		m.spread = append(m.spread, s)
	}
	return m.spreads[v]
}

func (m *maker) newBlock(size int) place {
	m.wide = max(m.wide, size)
	m.blocks++
	return place{atBlock, m.blocks - 1}
}

// result says where an instruction writes: to an output, over an operand that nobody reads any more, or to a block.
func (m *maker) result(v Value, i Inst) place {
	if m.direct[v] >= 0 {
		return place{atOutput, m.direct[v]}
	}
	for _, u := range i.Uses() {
		if m.dies(u, v) && m.code.Insts[u].DType.Size() == i.DType.Size() {
			m.last[u] = -1 // the block is not free
			return m.at[u]
		}
	}
	if n := len(m.free); n > 0 {
		m.wide = max(m.wide, i.DType.Size())
		b := m.free[n-1]
		m.free = m.free[:n-1]
		return place{atBlock, b}
	}
	return m.newBlock(i.DType.Size())
}

// dies reports whether instruction v is the last to read the block of value u.
func (m *maker) dies(u, v Value) bool { return m.last[u] == int(v) && m.at[u].kind == atBlock }

// release frees the blocks of what nobody reads after an instruction.
func (m *maker) release(v Value) {
	for _, u := range append(m.code.Insts[v].Uses(), v) {
		if m.dies(u, v) {
			m.free = append(m.free, m.at[u].n)
			m.last[u] = -1
		}
	}
}

// fold adds up a value as soon as it is there.
func (m *maker) fold(v Value) {
	for k, f := range m.loop.Folds {
		if f.V == v {
			m.folds = append(m.folds, foldStep{foldBody(f.Op, m.loop.DType(k)), k, m.at[v].slot(), len(m.body)})
		}
	}
}

// finish makes what comes at the end of a block, and numbers the slots.
func (m *maker) finish() {
	for v := range m.code.Insts {
		if m.uniform[v] {
			for k, f := range m.loop.Folds {
				if int(f.V) == v {
					m.folds = append(m.folds, foldStep{foldBody(f.Op, m.loop.DType(k)), k, m.spreadOut(f.V).slot(), len(m.body)})
				}
			}
		}
	}
	for k, o := range m.code.Out {
		out := place{atOutput, k}.slot()
		switch {
		case o.DType == tensor.Invalid || o.Im == None && m.direct[o.Re] == k:
		case o.Im != None:
			m.body = append(m.body, step{f: storePair(o.DType), d: out, a: m.whole(o.Re).slot(), b: m.whole(o.Im).slot()})
		case m.uniform[o.Re]:
			m.body = append(m.body, step{f: fills[sizeIndex(o.DType.Size())], d: out, a: m.at[o.Re].slot()})
		default:
			m.body = append(m.body, step{f: moves[sizeIndex(o.DType.Size())], d: out, a: m.at[o.Re].slot()})
		}
	}
	first := [...]int{atOutput: 0, atOperand: m.outs, atConst: m.outs + m.ins,
		atUniform: m.outs + m.ins + len(m.consts), atBlock: m.outs + m.ins + len(m.consts) + m.uniforms}
	number := func(slots ...*int) {
		for _, s := range slots {
			*s = first[*s>>24] + *s&(1<<24-1)
		}
	}
	for _, list := range [][]step{m.setup, m.row, m.spread, m.body} {
		for k := range list {
			number(&list[k].d, &list[k].a, &list[k].b, &list[k].c)
		}
	}
	for k := range m.folds {
		number(&m.folds[k].v)
	}
}

// whole returns where a value lies element by element.
func (m *maker) whole(v Value) place {
	if m.uniform[v] {
		return m.spreadOut(v)
	}
	return m.at[v]
}
