package interp

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// blockBytes is the size of a block in bytes if its elements are the widest of the loop. Several blocks fit the L1
// cache together, and the work on a block takes much longer than a call. The length of a block is a multiple of Lanes
// elements, so that each block begins with the first accumulator.
const blockBytes = machine.BlockBytes

// blockGap is the number of bytes between blocks. Without a gap, stores to a block would delay loads at the same offset
// in another page.
const blockGap = 192

// step is one loop over a block, or a mask test. A mask test skips the next steps if no element of the mask equals
// want. Unused operands of a loop are in slot 0.
type step struct {
	loop         loopFunc // nil for a mask test
	d, g         address  // the results
	a, b, c, e   address  // the operands; a is the mask of a mask test
	strides      strides
	skip         int // number of steps that a mask test skips
	want         bool
	accessesRows bool // the step accesses operands or outputs of the loop
}

// address is a slot and a byte offset.
type address struct{ slot, offset int }

// foldStep folds a block into the accumulators of a fold.
type foldStep struct {
	loop        func(acc, v unsafe.Pointer, n int)
	fold        int // number of the fold
	slot        int // slot of the block
	stepsBefore int // number of steps of the body that run before it
}

// Runner is an [expr.Loop] that is prepared to run in Go. It is immutable and safe for concurrent use.
type Runner struct {
	outs, ins    int      // numbers of outputs and operands
	elementSize  []int    // by output, then by operand: size of an element in bytes
	scalar       []bool   // by output, then by operand: it is an operand with one element for each row
	consts       []uint64 // bits of the constants
	uniforms     int      // number of values that are constant within a row
	blocks       int      // number of temporary blocks
	widestBytes  int      // size of the widest element in bytes
	block        int      // number of elements of a block
	row          []step   // steps that run once per row, for one element
	body         []step   // steps that run once per block
	folds        []foldStep
	isSingleStep bool         // a row needs only one step of the body
	sharesBlock  bool         // several short rows may share a block
	totals       []resultFold // by fold, if the loop stores one number per row for each fold ([expr.Loop].Totals)
	scratch      sync.Pool
}

// resultFold describes a fold of a loop with Totals.
type resultFold struct {
	size    int                                  // size of the result in bytes
	neutral uint64                               // bits of the neutral element
	fill    step                                 // initializes the accumulators with the neutral element
	combine func(dst, acc unsafe.Pointer, n int) // combines the accumulators
}

// New prepares a loop. It returns an error if the loop is invalid.
func New(l *expr.Loop) (*Runner, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	p := &Runner{outs: len(l.Code.Out), ins: len(l.Code.In)}
	for _, o := range l.Code.Out {
		p.elementSize = append(p.elementSize, o.DType.Size())
		p.scalar = append(p.scalar, false)
	}
	for k, d := range l.Code.In {
		p.elementSize = append(p.elementSize, d.Size())
		p.scalar = append(p.scalar, l.Scalar[k])
	}
	m := newPreparer(p, l)
	m.classify()
	for v := range m.code.Insts {
		m.openPredicates(expr.Value(v))
		if err := m.addInst(expr.Value(v)); err != nil {
			return nil, fmt.Errorf("expr: v%d: %w", v, err)
		}
		m.closePredicates(expr.Value(v))
	}
	m.numberSlots()
	p.widestBytes = max(p.widestBytes, slices.Max(p.elementSize))
	p.block = blockBytes / p.widestBytes
	p.isSingleStep = len(p.body) == 1 && len(p.row)+len(p.folds)+p.blocks == 0 && p.body[0].loop != nil
	p.markOuter()
	if l.Totals {
		for k, f := range l.Folds {
			d := l.DType(k)
			fill := step{loop: moves[sizeIndex(d.Size())], strides: strides{d: d.Size()}}
			p.totals = append(p.totals, resultFold{d.Size(), expr.Neutral(f.Op, d), fill, Combine(f.Op, d)})
		}
	}
	p.scratch.New = func() any { return p.NewScratch() }
	return p, nil
}

// location is the location of a value before slots are numbered.
type location struct {
	kind   locationKind
	n      int // index among the slots of this kind
	offset int // byte offset of a part of complex elements
	stride int // stride of elements in bytes
}

type locationKind uint8

const (
	nowhere locationKind = iota
	atOutput
	atOperand
	atConst
	atUniform
	atBlock
)

// address returns the address of a location. Until numberSlots numbers the slots, the upper bits of the slot hold the
// kind.
func (a location) address() address { return address{int(a.kind)<<24 | a.n, a.offset} }

// addInst adds the step of an instruction, and sets the location of its value.
func (m *preparer) addInst(v expr.Value) error {
	i := m.code.Insts[v]
	switch {
	case i.Op == expr.Const:
		m.locations[v] = m.newConst(i.Imm)
		return nil
	case m.inUserLoop[v]:
		return nil
	case m.isReadInPlace(v):
		m.locations[v] = m.operandLocation(i)
		m.addFoldSteps(v)
		return nil
	case m.locations[v].kind != nowhere: // the step of the other part of the complex number computes it
		if !m.uniform[v] { // numberSlots adds folds of uniform values, because these are in no block
			m.addFoldSteps(v)
			m.release(v)
		}
		return nil
	}
	s, err := m.makeStep(v, i)
	if err != nil {
		return err
	}
	switch {
	case m.constant[v]:
		m.locations[v] = m.newConst(0)
		addr := func(p address) unsafe.Pointer { return unsafe.Pointer(&m.consts[p.slot&(1<<24-1)]) }
		s.loop(addr(m.locations[v].address()), addr(s.a), addr(s.b), addr(s.c), addr(s.e), nil, 1, &s.strides)
		return nil
	case m.uniform[v]:
		m.setResults(&s, v, func(expr.Value) location { return m.newUniform() })
		m.row = append(m.row, s)
		return nil
	}
	m.setResults(&s, v, func(w expr.Value) location { return m.resultLocation(w, m.code.Insts[w]) })
	m.body = append(m.body, s)
	m.addFoldSteps(v)
	m.release(v)
	return nil
}

// setResults sets the destinations of a step. The function newLocation returns the location for a value.
func (m *preparer) setResults(s *step, v expr.Value, newLocation func(v expr.Value) location) {
	if m.computesBothParts[v] {
		var other location
		if w := m.otherPart[v]; w != expr.None {
			m.locations[w] = newLocation(w)
			other = m.locations[w]
		} else {
			other = m.newBlock(m.code.Insts[v].DType.Size())
		}
		s.g, s.strides.g = other.address(), other.stride
	}
	m.locations[v] = newLocation(v)
	s.d, s.strides.d = m.locations[v].address(), m.locations[v].stride
	if m.isImaginary[v] {
		s.d, s.g, s.strides.d, s.strides.g = s.g, s.d, s.strides.g, s.strides.d
	}
}

// operandLocation returns the location of an operand that is read in place.
func (m *preparer) operandLocation(i expr.Inst) location {
	d := m.code.In[i.A]
	return location{atOperand, int(i.A), int(i.Imm) * i.DType.Size(), d.Size()}
}

// makeStep returns the loop function of an instruction with the locations of its operands.
func (m *preparer) makeStep(v expr.Value, i expr.Inst) (step, error) {
	if i.Op == expr.Load {
		from := m.operandLocation(i)
		return step{loop: m.loopFor(i), a: from.address(), strides: strides{a: from.stride}}, nil
	}
	s := step{loop: m.jointLoop[v]}
	if s.loop == nil {
		s.loop = m.loopFor(i)
	}
	if s.loop == nil {
		return step{}, fmt.Errorf("%v of %v cannot be computed", i.Op, i.DType)
	}
	for k, u := range m.uses[v] {
		*[]*address{&s.a, &s.b, &s.c, &s.e}[k] = m.locations[u].address()
		*[]*int{&s.strides.a, &s.strides.b, &s.strides.c, &s.strides.e}[k] = m.locations[u].stride
	}
	m.addMask(&s, v, i)
	return s, nil
}

func (m *preparer) newConst(imm uint64) location {
	m.consts = append(m.consts, imm)
	return location{kind: atConst, n: len(m.consts) - 1}
}

func (m *preparer) newUniform() location {
	m.uniforms++
	return location{kind: atUniform, n: m.uniforms - 1}
}

func (m *preparer) newBlock(size int) location {
	m.widestBytes = max(m.widestBytes, size)
	m.blocks++
	return location{kind: atBlock, n: m.blocks - 1, stride: size}
}

// resultLocation returns the destination of an instruction: an output, the block of an operand that no later
// instruction reads, a free block, or a new block.
func (m *preparer) resultLocation(v expr.Value, i expr.Inst) location {
	if o := m.directOutput[v]; o.out >= 0 {
		return location{atOutput, o.out, o.part * i.DType.Size(), m.code.Out[o.out].DType.Size()}
	}
	for _, u := range m.uses[v] {
		if m.isLastUse(u, v) && m.code.Insts[u].DType.Size() == i.DType.Size() {
			m.lastReader[u] = -1 // the block is reused, not free
			return m.locations[u]
		}
	}
	if n := len(m.free); n > 0 {
		m.widestBytes = max(m.widestBytes, i.DType.Size())
		b := m.free[n-1]
		m.free = m.free[:n-1]
		return location{kind: atBlock, n: b, stride: i.DType.Size()}
	}
	return m.newBlock(i.DType.Size())
}

// isLastUse reports whether instruction v is the last to read the block of value u.
func (m *preparer) isLastUse(u, v expr.Value) bool {
	return m.lastReader[u] == int(v) && m.locations[u].kind == atBlock
}

// release frees the blocks that no instruction after v reads.
func (m *preparer) release(v expr.Value) {
	for _, u := range append(slices.Clone(m.uses[v]), v) {
		if m.isLastUse(u, v) {
			m.free = append(m.free, m.locations[u].n)
			m.lastReader[u] = -1
		}
	}
}

// addFoldSteps adds fold steps for the folds of a value.
func (m *preparer) addFoldSteps(v expr.Value) {
	for k, f := range m.folded {
		if f.V == v {
			from := m.denseLocation(v)
			m.folds = append(m.folds, foldStep{foldBody(f.Op, m.loop.DType(k)), k, from.address().slot, len(m.body)})
		}
	}
}

// denseLocation returns the location of a value with contiguous elements, which folds require. It adds a copy to a
// block if necessary.
func (m *preparer) denseLocation(v expr.Value) location {
	from, size := m.locations[v], m.code.Insts[v].DType.Size()
	if from.stride == size {
		return from
	}
	to := m.newBlock(size)
	m.body = append(m.body, step{loop: moves[sizeIndex(size)], d: to.address(), a: from.address(),
		strides: strides{d: size, a: from.stride}})
	return to
}

// numberSlots adds the last steps of the body and numbers the slots: see location.address.
func (m *preparer) numberSlots() {
	for v := range m.code.Insts {
		if m.uniform[v] {
			m.addFoldSteps(expr.Value(v))
		}
	}
	for k, o := range m.code.Out {
		if o.DType != tensor.Invalid {
			m.store(k, o)
		}
	}
	first := [...]int{atOutput: 0, atOperand: m.outs, atConst: m.outs + m.ins,
		atUniform: m.outs + m.ins + len(m.consts), atBlock: m.outs + m.ins + len(m.consts) + m.uniforms}
	number := func(slots ...*int) {
		for _, s := range slots {
			*s = first[*s>>24] + *s&(1<<24-1)
		}
	}
	for _, list := range [][]step{m.row, m.body} {
		for k := range list {
			s := &list[k]
			number(&s.d.slot, &s.a.slot, &s.b.slot, &s.c.slot, &s.e.slot, &s.g.slot)
		}
	}
	for k := range m.folds {
		number(&m.folds[k].slot)
	}
}

// store adds a step that writes the parts of output k, except parts that are written directly when they are computed.
func (m *preparer) store(k int, o expr.Output) {
	d := location{kind: atOutput, n: k}.address()
	re := m.locations[o.Re]
	s := step{loop: moves[sizeIndex(m.code.Insts[o.Re].DType.Size())], d: d, a: re.address(),
		strides: strides{d: o.DType.Size(), a: re.stride}}
	direct := m.directOutput[o.Re] == (outputPart{k, 0})
	if o.Im != expr.None {
		im, half := m.locations[o.Im], o.DType.Size()/2
		switch imDirect := m.directOutput[o.Im] == (outputPart{k, 1}); {
		case imDirect: // the imaginary part is written directly; the real part may remain
		case direct:
			s.d.offset, s.a, s.strides.a, direct = half, im.address(), im.stride, false
		default: // one step stores both parts, because each part may be in the destination of the other part
			s.g, s.b, s.strides.g, s.strides.b = address{d.slot, half}, im.address(), o.DType.Size(), im.stride
			s.loop = pairV[uint64]
			if half == 4 {
				s.loop = pairV[uint32]
			}
		}
	}
	if !direct {
		m.body = append(m.body, s)
	}
}
