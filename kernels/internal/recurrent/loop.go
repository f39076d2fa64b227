package recurrent

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

// This file compiles the elementwise loops of a time step of a recurrent layer from formulas (stepLoops), and runs them
// (runCellLoop). The loops compute the gates and the new states. The formula of a simple recurrent cell, for example,
// is
//
//	in_h = x0 + g0; h = tanh(in_h); (h, h)
//
// where x0 and g0 are the products of the inputs and of the state with the weights of gate 0. The loop stores the two
// results as the new state and as the output Y. As in ONNX, there are three activation functions. f (functionF)
// computes gates, g computes candidates, and h is applied to the cell of an LSTM.

// cellBuffer is a buffer that the loops of a step access. Each sequence of a block has a row in the buffer. A block
// consists of the sequences that a worker runs together through all steps.
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
	column int // index of the part's first element in the row
}

// cellLoop is the loop that computes gates or states after a product of a step.
type cellLoop struct {
	compiled *loops.Loop
	operands []cellOperand // results first
}

// stepLoops compiles the loops of a step in direction dir, with the given dtype of their operands.
func (layer *recurrentLayer) stepLoops(dtype tensor.DType, dir int) (list []cellLoop, err error) {
	var builders []formulaBuilder // one for each loop
	switch {
	case layer.kind == cellLSTM:
		builders = append(builders, (*cellFormula).lstm)
	case layer.kind == cellRNN:
		builders = append(builders, (*cellFormula).rnn)
	case layer.resetAfter: // the reset gate of a GRU applies after the product
		builders = append(builders, (*cellFormula).gru)
	default: // the reset gate applies before a second product
		builders = append(builders, (*cellFormula).resetLoop, (*cellFormula).gru)
	}
	for _, build := range builders {
		cell := &cellFormula{recurrentLayer: layer, dir: dir}
		results, outs := build(cell)
		loop := cellLoop{operands: append(outs, cell.operands...)}
		types := slices.Repeat([]tensor.DType{dtype}, len(cell.names))
		var onePerRow []bool // nil: no operand has only one element per row
		formula := cell.definitions.String() + results
		if loop.compiled, err = kit.FormulaLoop(formula, cell.names, types, onePerRow); err != nil {
			return nil, err
		}
		list = append(list, loop)
	}
	return list, nil
}

// formulaBuilder builds the formula of a loop. It returns the text of the results, such as "(h, h)", and their buffers.
type formulaBuilder func(cell *cellFormula) (results string, outs []cellOperand)

// cellFormula has the parts of a formula that precede its results. The methods return text, and add the operands and
// definitions that this text uses.
type cellFormula struct {
	*recurrentLayer
	dir         int             // direction
	definitions strings.Builder // text "name = value; ..."
	names       []string        // names of the operands in the formula
	operands    []cellOperand
}

// rnn returns the formula and the buffers for the loop of a layer of simple recurrent cells.
func (cell *cellFormula) rnn() (string, []cellOperand) {
	state := cell.gate("h", functionF, cell.sum(rnnState))
	return fmt.Sprintf("(%s, %s)", state, state), []cellOperand{{buffer: stateBuffer}, {buffer: yBuffer}}
}

// lstm returns the formula and the buffers for the loop of an LSTM layer. In the formula, gates 0 to 3 are i, o, f and
// n. The old cell is c, the new cell is d, and the new state is h. Without peepholes the formula is
//
//	in_i = x0 + g0; i = sigmoid(in_i); in_f = x2 + g2; f = sigmoid(in_f); in_n = x3 + g3; n = tanh(in_n);
//	d = f * c + i * n; in_o = x1 + g1; o = sigmoid(in_o); h = o * (tanh(d)); (d, h, h)
func (cell *cellFormula) lstm() (string, []cellOperand) {
	cellState := cell.operand("c", cellStateBuffer, 0)
	inputGate := cell.gate("i", functionF, cell.sum(lstmInput)+cell.peephole(lstmInput, cellState))
	forget := "(1 - i)"
	if !cell.coupledGates {
		forget = cell.gate("f", functionF, cell.sum(lstmForget)+cell.peephole(lstmForget, cellState))
	}
	candidate := cell.gate("n", functionG, cell.sum(lstmCandidate))
	newCell := cell.define("d", forget+" * c + "+inputGate+" * "+candidate)
	outputGate := cell.gate("o", functionF, cell.sum(lstmOutput)+cell.peephole(lstmOutput, newCell))
	state := cell.define("h", outputGate+" * "+"("+cell.activations[cell.dir][functionH].formula(newCell)+")")
	return fmt.Sprintf("(%s, %s, %s)", newCell, state, state),
		[]cellOperand{{buffer: cellStateBuffer}, {buffer: stateBuffer}, {buffer: yBuffer}}
}

// gru returns the formula and the buffers for the last loop of a step of a GRU layer. It is the only loop if the reset
// gate applies after the product.
func (cell *cellFormula) gru() (string, []cellOperand) {
	state := cell.operand("h", stateBuffer, 0)
	var update, sum string
	if cell.resetAfter {
		update = cell.gate("z", functionF, cell.sum(gruUpdate))
		reset := cell.gate("r", functionF, cell.sum(gruReset))
		input, product := cell.gateParts(gruCandidate)
		if cell.stateBias[cell.dir].IsGiven() {
			product = "(" + product + " + " + cell.operand("b", biasBuffer, cell.column(gruCandidate)) + ")"
		}
		sum = input + " + " + reset + " * " + product
	} else {
		update = cell.operand("z", gatesBuffer, cell.column(gruUpdate)) // stored by resetLoop
		sum = cell.sum(gruCandidate)
	}
	candidate := cell.gate("n", functionG, sum)
	newState := cell.define("y", fmt.Sprintf("(1 - %s) * %s + %s * %s", update, candidate, update, state))
	return fmt.Sprintf("(%s, %s)", newState, newState), []cellOperand{{buffer: stateBuffer}, {buffer: yBuffer}}
}

// resetLoop returns the formula and the buffers for the first loop of a step, for a GRU layer whose reset gate applies
// before a second product.
func (cell *cellFormula) resetLoop() (string, []cellOperand) {
	state := cell.operand("h", stateBuffer, 0)
	update, reset := cell.gate("z", functionF, cell.sum(gruUpdate)), cell.gate("r", functionF, cell.sum(gruReset))
	return fmt.Sprintf("(%s, %s * %s)", update, reset, state), []cellOperand{
		{gatesBuffer, cell.column(gruUpdate)}, {buffer: resetBuffer}}
}

// sum returns the formula of the argument of a gate's activation function: the sum of the input part (product of inputs
// and weights) and the state part (product of the state and weights). gate is a number such as lstmInput.
func (cell *cellFormula) sum(gate int) string {
	input, state := cell.gateParts(gate)
	return input + " + " + state
}

// gateParts returns the names of a gate's input part and state part, such as x0 and g0.
func (cell *cellFormula) gateParts(gate int) (input, state string) {
	input = cell.operand(fmt.Sprint("x", gate), inputsBuffer, cell.column(gate))
	return input, cell.operand(fmt.Sprint("g", gate), gatesBuffer, cell.column(gate))
}

// column returns the column of a gate's first element in the rows of buffers that have all gates.
func (cell *cellFormula) column(gate int) int { return cell.gatePosition[gate] * cell.hidden }

// peephole returns the term that peepholes add to the argument of gate i, o or f, as text " + weights * cellState". The
// text is empty if the layer has no peepholes. cellState is the name of the cell.
func (cell *cellFormula) peephole(gate int, cellState string) string {
	if !cell.peepholes[cell.dir].IsGiven() {
		return ""
	}
	column := gate * cell.hidden // peephole weights are in the order i, o, f, which have the numbers 0, 1, 2
	return " + " + cell.operand(fmt.Sprint("p", gate), peepholesBuffer, column) + " * " + cellState
}

// gate defines a value with the given name, and returns the name. The value is an activation function of sum, after sum
// is clipped to the layer's bound. function is the index of the activation function, such as functionF.
func (cell *cellFormula) gate(name string, function int, sum string) string {
	if cell.clip > 0 {
		sum = fmt.Sprintf("minimum(maximum(%s, %s), %s)", sum, numeral(-cell.clip), numeral(cell.clip))
	}
	return cell.define(name, cell.activations[cell.dir][function].formula(cell.define("in_"+name, sum)))
}

// numeral returns a number as text of the expression language.
func numeral(value float64) string {
	switch {
	case value != value:
		return "nan"
	case math.IsInf(value, 0):
		if value > 0 {
			return "inf"
		}
		return "(-inf)"
	case value < 0:
		return "(" + strconv.FormatFloat(value, 'g', -1, 64) + ")"
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}

// operand adds an operand with the given name, and returns the name. The operand begins at the given column of buffer.
func (cell *cellFormula) operand(name string, buffer cellBuffer, column int) string {
	cell.names, cell.operands = append(cell.names, name), append(cell.operands, cellOperand{buffer, column})
	return name
}

// define adds a definition and returns its name.
func (cell *cellFormula) define(name, value string) string {
	fmt.Fprintf(&cell.definitions, "%s = %s; ", name, value)
	return name
}

// runCellLoop runs the loop that follows a product in a step, for all sequences of the worker's block that have not
// ended. product is an index in s.products.
func (s *stepper) runCellLoop(worker *cellRun, product, step int) {
	loop := &s.products[product].loops[worker.dir]
	if worker.lengths == nil { // all sequences are at the same step
		const firstSequence = 0
		ptrs, strides := s.bind(worker, loop, step, firstSequence)
		loop.compiled.Run(&worker.loopState, ptrs, strides, s.hidden, worker.sequences)
		return
	}
	for sequence := range worker.sequences {
		if step < s.length(worker, sequence) {
			const rows = 1
			ptrs, strides := s.bind(worker, loop, step, sequence)
			loop.compiled.Run(&worker.loopState, ptrs, strides, s.hidden, rows)
		}
	}
}

// bind returns the addresses of a loop's operands for one sequence in a step, and the strides of these operands between
// sequences, in bytes.
func (s *stepper) bind(worker *cellRun, loop *cellLoop, step, sequence int) (ptrs []unsafe.Pointer, strides []int) {
	inputs, y := s.stepAddresses(worker, step, sequence)
	row := func(rows []byte, width int) unsafe.Pointer { return unsafe.Pointer(&rows[sequence*width*s.elemBytes]) }
	addresses := [cellBufferCount]unsafe.Pointer{inputsBuffer: inputs, gatesBuffer: row(worker.gates, s.gatesWidth),
		stateBuffer: row(worker.h, s.hidden), cellStateBuffer: row(worker.c, s.hidden),
		resetBuffer: row(worker.resetState, s.hidden), yBuffer: y, biasBuffer: worker.mem.Ptrs[stepBias+worker.dir],
		peepholesBuffer: worker.mem.Ptrs[stepPeepholes+worker.dir]}
	// The strides of biasBuffer and peepholesBuffer are 0.
	rowStrides := [cellBufferCount]int{inputsBuffer: s.xBatchStride * s.gatesWidth, gatesBuffer: s.gatesWidth,
		stateBuffer: s.hidden, cellStateBuffer: s.hidden, resetBuffer: s.hidden, yBuffer: s.yBatchStride}
	for operandIndex, operand := range loop.operands { // worker.ptrs and worker.strides are reused
		worker.ptrs[operandIndex] = unsafe.Add(addresses[operand.buffer], operand.column*s.elemBytes)
		worker.strides[operandIndex] = rowStrides[operand.buffer] * s.elemBytes
	}
	return worker.ptrs[:len(loop.operands)], worker.strides[:len(loop.operands)]
}

// listings returns the listings of the machine code of steps.
func (s *stepper) listings() (list []expr.Listing) {
	for i, product := range s.products {
		product.plan.Listings(func(name string, assembly func() string) {
			title := fmt.Sprintf("product %d of a step: %s", i, name)
			list = append(list, expr.Listing{Name: title, Assembly: assembly})
		})
	}
	for dir := range s.dirs {
		for i := range s.products {
			title := fmt.Sprintf("gates %d of direction %d", i, dir)
			list = append(list, s.products[i].loops[dir].compiled.Listing(title))
		}
	}
	return list
}
