package sequence

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// cellBuffer is a buffer that the loops of a step access. Each sequence of a block has a row in the buffer.
type cellBuffer uint8

const (
	inputsBuffer cellBuffer = iota // the products of the inputs with the weights of all gates
	gatesBuffer                    // the products of the states with the weights of all gates
	stateBuffer
	cellStateBuffer
	resetBuffer // the state times the reset gate of a GRU
	yBuffer
	biasBuffer      // the bias of the state, the same for all sequences
	peepholesBuffer // the peephole weights, the same for all sequences
	cellBufferCount
)

// cellOperand is an operand or a result of a loop. Each sequence has a row in the buffer, and the operand is a part of
// this row.
type cellOperand struct {
	buffer cellBuffer
	first  int // index of the part's first element in the row
}

// cellLoop is the loop that computes gates or states after a product of a step.
type cellLoop struct {
	loop     *loops.Loop
	operands []cellOperand // results first
}

// cellFormula builds the formula of a loop. definitions has the text of the definitions. operands[i] is the operand
// named names[i].
type cellFormula struct {
	*recurrentLayer
	dir         int
	definitions strings.Builder
	names       []string
	operands    []cellOperand
}

// operand adds an operand and returns its name.
func (t *cellFormula) operand(name string, place cellBuffer, first int) string {
	t.names, t.operands = append(t.names, name), append(t.operands, cellOperand{place, first})
	return name
}

// define adds a definition and returns its name.
func (t *cellFormula) define(name, value string) string {
	fmt.Fprintf(&t.definitions, "%s = %s; ", name, value)
	return name
}

// sum returns the formula of a gate's argument: the sum of its input part and its state part.
func (t *cellFormula) sum(gate int) string {
	x, g := t.part(gate)
	return x + " + " + g
}

// part returns the names of a gate's input part and state part.
func (t *cellFormula) part(gate int) (x, g string) {
	first := t.order[gate] * t.hidden
	return t.operand(fmt.Sprint("x", gate), inputsBuffer, first), t.operand(fmt.Sprint("g", gate), gatesBuffer, first)
}

// peephole returns the summand of the argument of gate i, o or f: the peephole weights times the value v. It is empty
// if the layer has no peepholes.
func (t *cellFormula) peephole(gate int, v string) string {
	if !t.peepholes[t.dir].IsGiven() {
		return ""
	}
	return " + " + t.operand(fmt.Sprint("p", gate), peepholesBuffer, gate*t.hidden) + " * " + v
}

// gate defines the named value as activation function f of a sum. The sum is first clipped.
func (t *cellFormula) gate(name string, f int, sum string) string {
	if t.clip > 0 {
		sum = fmt.Sprintf("minimum(maximum(%s, %s), %s)", sum, numeral(-t.clip), numeral(t.clip))
	}
	return t.define(name, t.activations[t.dir][f].formula(t.define("in_"+name, sum)))
}

// lstm returns the formula of an LSTM layer's loop, which has several results, and the buffer of each result.
func (t *cellFormula) lstm() (string, []cellOperand) {
	c := t.operand("c", cellStateBuffer, 0)
	i := t.gate("i", 0, t.sum(0)+t.peephole(0, c))
	f := "(1 - i)"
	if !t.coupledGates {
		f = t.gate("f", 0, t.sum(2)+t.peephole(2, c))
	}
	n := t.gate("n", 1, t.sum(3))
	d := t.define("d", f+" * c + "+i+" * "+n)
	o := t.gate("o", 0, t.sum(1)+t.peephole(1, d))
	h := t.define("h", o+" * "+"("+t.activations[t.dir][2].formula(d)+")")
	return fmt.Sprintf("(%s, %s, %s)", d, h, h), []cellOperand{{buffer: cellStateBuffer}, {buffer: stateBuffer},
		{buffer: yBuffer}}
}

// gru returns the formula and the buffers for the last loop of a step of a GRU layer. It is the only loop if the reset
// gate applies after the product.
func (t *cellFormula) gru() (string, []cellOperand) {
	h := t.operand("h", stateBuffer, 0)
	var z, sum string
	if t.resetAfter {
		z = t.gate("z", 0, t.sum(0))
		reset := t.gate("r", 0, t.sum(1))
		x, g := t.part(2)
		if t.stateBias[t.dir].IsGiven() {
			g = "(" + g + " + " + t.operand("b", biasBuffer, t.order[2]*t.hidden) + ")"
		}
		sum = x + " + " + reset + " * " + g
	} else {
		z, sum = t.operand("z", gatesBuffer, t.order[0]*t.hidden), t.sum(2)
	}
	n := t.gate("n", 1, sum)
	y := t.define("y", fmt.Sprintf("(1 - %s) * %s + %s * %s", z, n, z, h))
	return fmt.Sprintf("(%s, %s)", y, y), []cellOperand{{buffer: stateBuffer}, {buffer: yBuffer}}
}

// resetLoop returns the formula and the buffers for the first loop of a step of a GRU layer, in which the reset gate
// applies before a second product.
func (t *cellFormula) resetLoop() (string, []cellOperand) {
	h := t.operand("h", stateBuffer, 0)
	z, r := t.gate("z", 0, t.sum(0)), t.gate("r", 0, t.sum(1))
	return fmt.Sprintf("(%s, %s * %s)", z, r, h), []cellOperand{{gatesBuffer, t.order[0] * t.hidden},
		{buffer: resetBuffer}}
}

// rnn returns the formula and the buffers for the loop of a layer of simple recurrent cells.
func (t *cellFormula) rnn() (string, []cellOperand) {
	h := t.gate("h", 0, t.sum(0))
	return fmt.Sprintf("(%s, %s)", h, h), []cellOperand{{buffer: stateBuffer}, {buffer: yBuffer}}
}

// stepLoops compiles the loops of a step in direction dir, in dtype d.
func (l *recurrentLayer) stepLoops(d tensor.DType, dir int) (list []cellLoop, err error) {
	var texts []func(*cellFormula) (string, []cellOperand)
	switch {
	case l.kind == cellLSTM:
		texts = append(texts, (*cellFormula).lstm)
	case l.kind == cellRNN:
		texts = append(texts, (*cellFormula).rnn)
	case l.resetAfter:
		texts = append(texts, (*cellFormula).gru)
	default:
		texts = append(texts, (*cellFormula).resetLoop, (*cellFormula).gru)
	}
	for _, text := range texts {
		t := &cellFormula{recurrentLayer: l, dir: dir}
		results, outs := text(t)
		c := cellLoop{operands: append(outs, t.operands...)}
		types := slices.Repeat([]tensor.DType{d}, len(t.names))
		if c.loop, err = kit.FormulaLoop(t.definitions.String()+results, t.names, types, nil); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// numeral returns a number as text of the expression language.
func numeral(v float64) string {
	switch {
	case v != v:
		return "nan"
	case math.IsInf(v, 0):
		return map[bool]string{true: "inf", false: "(-inf)"}[v > 0]
	case v < 0:
		return "(" + strconv.FormatFloat(v, 'g', -1, 64) + ")"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// bind returns the addresses of a loop's operands for sequence i of a block, and their strides from one sequence to the
// next.
func (s *stepper) bind(r *cellRun, c *cellLoop, step, i int) (ptrs []unsafe.Pointer, strides []int) {
	in, y := s.stepAddresses(r, step, i)
	row := func(v []byte, width int) unsafe.Pointer { return unsafe.Pointer(&v[i*width*s.elemBytes]) }
	addresses := [cellBufferCount]unsafe.Pointer{in, row(r.gates, s.rows), row(r.h, s.hidden), row(r.c, s.hidden),
		row(r.resetState, s.hidden), y, r.mem.Ptrs[stepBias+r.dir], r.mem.Ptrs[stepPeepholes+r.dir]}
	steps := [cellBufferCount]int{s.xBatch * s.rows, s.rows, s.hidden, s.hidden, s.hidden, s.yBatch, 0, 0}
	for k, o := range c.operands {
		r.ptrs[k] = unsafe.Add(addresses[o.buffer], o.first*s.elemBytes)
		r.strides[k] = steps[o.buffer] * s.elemBytes
	}
	return r.ptrs[:len(c.operands)], r.strides[:len(c.operands)]
}

// runCellLoop runs loop k of a step for the sequences of a block that have not ended.
func (s *stepper) runCellLoop(r *cellRun, k, step int) {
	c := &s.loops[r.dir][k]
	if r.lengths == nil { // all sequences are at the same step
		ptrs, strides := s.bind(r, c, step, 0)
		c.loop.Run(&r.loopState, ptrs, strides, s.hidden, r.n)
		return
	}
	for i := range r.n {
		if step < s.length(r, i) {
			ptrs, strides := s.bind(r, c, step, i)
			c.loop.Run(&r.loopState, ptrs, strides, s.hidden, 1)
		}
	}
}

// listings returns the listings of the machine code of steps.
func (s *stepper) listings() (list []expr.Listing) {
	for q, p := range s.plans[0] {
		if p != nil {
			p.Listings(func(name string, assembly func() string) {
				list = append(list, expr.Listing{Name: fmt.Sprintf("product %d of a step: %s", q, name), Assembly: assembly})
			})
		}
	}
	for dir := range s.dirs {
		for k := range s.loops[dir] {
			list = append(list, s.loops[dir][k].loop.Listing(fmt.Sprintf("gates %d of direction %d", k, dir)))
		}
	}
	return list
}
