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

// blockWords is the distance of blocks in words of 8 bytes. Without the gap of 192 bytes, stores to a block would delay
// loads at the same offset in another page.
const blockWords = (blockBytes + 192) / 8

// Runner is an [expr.Loop] that is prepared to run in Go. It is immutable and safe for concurrent use.
//
// The slots of a Runner are addresses: outputs, operands, accumulators of folds, cells, and temporary blocks. A cell is
// a number: a constant, or a value that is constant within a row. Each instruction has a cell.
type Runner struct {
	elementSize []int  // by output, then by operand: size of an element in bytes
	scalar      []bool // by output, then by operand: it is an operand with one element for each row
	consts      []uint64
	folds       int     // number of folds
	blocks      int     // number of temporary blocks
	blockLen    int     // number of elements of a block
	row         []step  // run once for each row
	body        []step  // run for each block of a row
	totals      []total // by fold, if the loop has Totals
	scratch     sync.Pool
}

// step is a loop over a block, or a mask test. A mask test skips the next steps if no element of the mask a equals
// want.
type step struct {
	loop       loop // nil for a mask test
	d, a, b, c place
	skip       int
	want       bool
}

// place is the location of a value: a slot, the offset in bytes of the first element, and the distance of elements.
type place struct{ slot, at, by int }

// total describes a fold of a loop with Totals.
type total struct {
	size    int                                  // size of the result in bytes
	neutral uint64                               // bits of the neutral element
	combine func(dst, acc unsafe.Pointer, n int) // combines the accumulators
}

// preparer prepares a Runner. Slices with an entry for each value are indexed by values of code.
type preparer struct {
	*Runner
	loop       *expr.Loop
	code       *expr.Code
	folded     []expr.Fold // the folds of the loop, with values of code
	uniform    []bool      // by value: it is constant within a row
	places     []place     // by value
	lastReader []int       // by value: the last instruction that reads it, or the number of instructions for an output
	free       []int       // slots of blocks that can be reused
	// lastOperandReader is the last instruction that reads an operand with more than one element for each row.
	lastOperandReader expr.Value
	predicated        []predicatedBlock
	openBlocks        []openBlock // the predicated blocks that contain the current instruction
}

// openBlock is a predicated block that has begun.
type openBlock struct {
	block predicatedBlock
	step  int // index of its mask test in the body
}

// New prepares a loop. It returns an error if the loop is invalid.
func New(l *expr.Loop) (*Runner, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	p := &Runner{folds: len(l.Folds), scalar: append(make([]bool, len(l.Code.Out)), l.Scalar...)}
	for _, o := range l.Code.Out {
		p.elementSize = append(p.elementSize, o.DType.Size())
	}
	for _, d := range l.Code.In {
		p.elementSize = append(p.elementSize, d.Size())
	}
	m := newPreparer(p, l)
	for v := range m.code.Insts {
		m.openPredicates(expr.Value(v))
		if err := m.addInst(expr.Value(v)); err != nil {
			return nil, fmt.Errorf("expr: v%d: %w", v, err)
		}
		m.closePredicates(expr.Value(v))
	}
	m.addStores()
	widest := 1
	for _, i := range m.code.Insts {
		widest = max(widest, i.DType.Size())
	}
	p.blockLen = blockBytes / widest
	if l.Totals {
		for k, f := range l.Folds {
			d := l.DType(k)
			p.totals = append(p.totals, total{d.Size(), expr.Neutral(f.Op, d), Combine(f.Op, d)})
		}
	}
	p.tabulate(l)
	p.scratch.New = func() any { return p.NewScratch() }
	return p, nil
}

// newPreparer simplifies the code of the loop, orders predicated blocks, and finds uniform values and last readers.
func newPreparer(p *Runner, l *expr.Loop) *preparer {
	c := l.Code
	if len(l.Folds) == 0 {
		if simple, err := c.Simplify(); err == nil {
			c = simple
		}
	}
	m := &preparer{Runner: p, loop: l}
	var newValue []expr.Value
	m.code, newValue, m.predicated = predicateBlocks(c, l.Folds)
	for _, f := range l.Folds {
		m.folded = append(m.folded, expr.Fold{Op: f.Op, V: newValue[f.V]})
	}
	n := len(m.code.Insts)
	m.consts, m.uniform, m.places, m.lastReader = make([]uint64, n), make([]bool, n), make([]place, n), make([]int, n)
	for v, i := range m.code.Insts {
		m.uniform[v] = i.Op != expr.Load || l.Scalar[i.A]
		m.lastReader[v] = v
		for _, u := range i.Uses() {
			m.uniform[v] = m.uniform[v] && m.uniform[u]
			m.lastReader[u] = v
			if m.code.Insts[u].Op == expr.Load {
				m.lastOperandReader = expr.Value(v)
			}
		}
	}
	m.eachOutput(func(v expr.Value, _ place) { m.lastReader[v] = n })
	return m
}

// eachOutput calls f for each stored value and the place where it is stored. The parts of a complex number are two
// values.
func (m *preparer) eachOutput(f func(v expr.Value, to place)) {
	for k, o := range m.code.Out {
		if o.DType == tensor.Invalid {
			continue
		}
		f(o.Re, place{k, 0, o.DType.Size()})
		if o.Im != expr.None {
			f(o.Im, place{k, o.DType.Size() / 2, o.DType.Size()})
		}
	}
}

// The slots of an operand, of the accumulators of a fold, and of a cell.
func (m *preparer) operandSlot(k expr.Value) int { return len(m.code.Out) + int(k) }
func (m *preparer) foldSlot(k int) int           { return len(m.elementSize) + k }
func (m *preparer) cellSlot(v expr.Value) int    { return m.foldSlot(m.Runner.folds) + int(v) }

// addInst adds the step of an instruction, and sets the place of its value.
func (m *preparer) addInst(v expr.Value) error {
	i := m.code.Insts[v]
	switch {
	case i.Op == expr.Const:
		m.places[v], m.consts[v] = place{m.cellSlot(v), 0, 0}, i.Imm
	case i.Op == expr.Load:
		from := place{m.operandSlot(i.A), int(i.Imm) * i.DType.Size(), 0}
		if !m.uniform[v] {
			from.by = m.code.In[i.A].Size()
		}
		// Stores come last. An operand that is stored is copied first, because it may have the memory of an output.
		if m.places[v] = from; m.lastReader[v] == len(m.code.Insts) {
			m.addStep(v, step{loop: loopFor(m.code, i), a: from})
		}
	default:
		s := step{loop: loopFor(m.code, i)}
		if s.loop == nil {
			return fmt.Errorf("%v of %v cannot be computed", i.Op, i.DType)
		}
		for k, u := range i.Uses() {
			*[]*place{&s.a, &s.b, &s.c}[k] = m.places[u]
		}
		m.addStep(v, s)
	}
	for k, f := range m.folded {
		if f.V == v {
			d := m.loop.DType(k)
			m.body = append(m.body, step{loop: foldLoop(table[f.Op][d]), d: place{m.foldSlot(k), 0, d.Size()}, a: m.places[v]})
		}
	}
	for _, u := range append(slices.Clone(i.Uses()), v) {
		m.release(u, v)
	}
	return nil
}

// addStep adds the step that computes a value.
func (m *preparer) addStep(v expr.Value, s step) {
	if m.uniform[v] {
		m.places[v] = place{m.cellSlot(v), 0, 0}
		s.d = m.places[v]
		m.row = append(m.row, s)
		return
	}
	m.places[v] = m.resultPlace(v)
	s.d = m.places[v]
	m.body = append(m.body, s)
}

// resultPlace returns the destination of an instruction: an output, the block of an operand that no later instruction
// reads, a free block, or a new block. Outputs may have the memory of operands, so an instruction writes to an output
// only if no later instruction reads operands.
func (m *preparer) resultPlace(v expr.Value) (to place) {
	i := m.code.Insts[v]
	if v >= m.lastOperandReader && i.Op != expr.Load {
		m.eachOutput(func(w expr.Value, output place) {
			if w == v && (output.by == i.DType.Size() || i.Op == expr.Convert) {
				to = output
			}
		})
		if to.by > 0 {
			return to
		}
	}
	for _, u := range i.Uses() {
		if m.isLastUse(u, v) && m.code.Insts[u].DType.Size() == i.DType.Size() {
			m.lastReader[u] = -1 // the block is reused, not free
			return m.places[u]
		}
	}
	if n := len(m.free); n > 0 {
		slot := m.free[n-1]
		m.free = m.free[:n-1]
		return place{slot, 0, i.DType.Size()}
	}
	m.blocks++
	return place{m.cellSlot(expr.Value(len(m.code.Insts))) + m.blocks - 1, 0, i.DType.Size()}
}

// isLastUse reports whether instruction v is the last to read the block of value u.
func (m *preparer) isLastUse(u, v expr.Value) bool {
	return m.lastReader[u] == int(v) && m.places[u].slot >= m.cellSlot(expr.Value(len(m.code.Insts)))
}

// release frees the block of value u if no instruction after v reads it.
func (m *preparer) release(u, v expr.Value) {
	if m.isLastUse(u, v) {
		m.free = append(m.free, m.places[u].slot)
		m.lastReader[u] = -1
	}
}

// addStores adds the steps that store outputs which the last instruction does not write.
func (m *preparer) addStores() {
	m.eachOutput(func(v expr.Value, to place) {
		if from := m.places[v]; from != to {
			m.body = append(m.body, step{loop: moves[sizeIndex(m.code.Insts[v].DType.Size())], d: to, a: from})
		}
	})
}
