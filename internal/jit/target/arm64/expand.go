package arm64

import (
	"encoding/binary"
	"strings"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target/arm64/asm"
)

// Mnemonics of pseudo-instructions. The allocator of registers treats a pseudo-instruction as one instruction; this
// file writes the real instructions that it stands for. Quotients of integers have the mnemonics sdiv and udiv.
const (
	completeRemainder = "completeRemainder" // completes a remainder of floats after one division
	tableRow          = "tableRow"          // loads a row of a table; its name is "tableRow ELEMENT TABLE"
	scvtfLong         = "scvtfLong"         // rounds 64-bit integers of one or two vectors to float32
	ucvtfLong         = "ucvtfLong"
)

// Numbers of the general registers that expansions use as temporaries. Other code keeps no value in them across a
// pseudo-instruction.
const (
	temp0 = int(regPointer)
	temp1 = int(regCount)
)

// expansion returns the function that writes a pseudo-instruction, or nil for the name of a real instruction.
func expansion(name string) Expansion {
	mnemonic, suffix, _ := strings.Cut(name, " ") // suffix is an arrangement of lanes, except for tableRow
	switch mnemonic {
	case "sdiv", "udiv":
		return func(w *writer, args []alloc.Operand) { w.divide(mnemonic, elementOfArrangement[suffix], args) }
	case scvtfLong, ucvtfLong:
		return func(w *writer, args []alloc.Operand) { w.roundLong(mnemonic[:len("scvtf")], args) }
	case completeRemainder:
		return func(w *writer, args []alloc.Operand) { newRemainderLoop(w, elementOfArrangement[suffix], args).write() }
	case tableRow: // the suffix has the letter of the element, b to q, and the bytes of the table
		element, table, _ := strings.Cut(suffix, " ")
		return func(w *writer, args []alloc.Operand) { w.tableRow(int(elemOfLetter(element[0])), table, args) }
	}
	return nil
}

// elementOfArrangement maps each arrangement of a 16-byte register to its element size.
var elementOfArrangement = map[string]asm.Elem{"16b": asm.B, "8h": asm.H, "4s": asm.S, "2d": asm.D}

// divide writes the division of two vectors of integers, lane by lane, because NEON has no integer division.
func (w *writer) divide(name string, elem asm.Elem, args []alloc.Operand) {
	x, y, quotient := w.vector(args[0], elem), w.vector(args[1], elem), w.vector(args[2], elem)
	move, generalReg := "umov", asm.W // quotients of narrow lanes are computed in 32 bits
	if elem == asm.D {
		generalReg = asm.X
	} else if name == "sdiv" && elem < asm.S {
		move = "smov" // extends the sign of the lane
	}
	xLane, yLane := generalReg(temp0), generalReg(temp1)
	for k := range vectorBytes / elem.Bytes() {
		w.asm.Emit(move, xLane, x.Lane(k))
		w.asm.Emit(move, yLane, y.Lane(k))
		w.asm.Emit(name, xLane, xLane, yLane)
		w.asm.Emit("mov", quotient.Lane(k), xLane)
	}
}

// roundLong writes the conversion of 64-bit integers to float32, lane by lane, because NEON has no such conversion of
// vectors. The instruction `name` converts one lane. args are one or two vectors of two integers each, a temporary, and
// the destination.
func (w *writer) roundLong(name string, args []alloc.Operand) {
	vectors := len(args) - 2
	temp, to := w.vector(args[vectors], asm.S), w.vector(args[vectors+1], asm.S)
	for k := range 2 * vectors {
		w.asm.Emit("umov", asm.X(temp0), w.vector(args[k/2], asm.D).Lane(k%2))
		if k == 0 { // sets the other lanes to 0
			w.asm.Emit(name, to.Scalar(), asm.X(temp0))
			continue
		}
		w.asm.Emit(name, temp.Scalar(), asm.X(temp0))
		w.asm.Emit("mov", to.Lane(k), temp.Lane(0))
	}
}

// tableRow writes the load of a row of a table to a register. args are a vector with the offsets of rows in bytes, the
// lane that has the offset, and the destination. The row has the size of an element `elem` (0 to 4 for 1 to 16 bytes).
func (w *writer) tableRow(elem int, table string, args []alloc.Operand) {
	to := w.vector(args[2], asm.Elem(elem))
	w.asm.Emit("umov", asm.W(temp0), w.vector(args[0], asm.S).Lane(int(args[1].Imm)))
	w.asm.Emit("adr", asm.X(temp1), w.asm.Constant([]byte(table)))
	w.asm.Emit("ldr", to.Scalar(), asm.Indexed(asm.X(temp1), asm.X(temp0)))
}

// remainderWork is the number of executions that jit.Work assumes for each instruction in the loop of remainderLoop.
// The loop has at most 42 iterations: a quotient of float64 has up to 2,098 bits, and an iteration removes at least 51
// bits. An iteration counts as 4, because it contains a slow division.
const remainderWork = 4 * 42

// remainderLoop writes the pseudo-instruction completeRemainder. Each lane of the operand `remainder` has a remainder
// after one division. The code computes
//
//	if all |remainder| < divisor: done
//	remainder = dividend // because the quotient of the first division may have been infinite
//	while any |remainder| >= divisor:
//		in these lanes: remainder -= trunc(remainder/multiple) * multiple
//	if divisor is NaN: remainder = NaN
//
// where multiple is the divisor or, if the quotient would overflow, the divisor times a power of 2. A remainder may
// become negative, because the rounded quotient may be too large. An infinite divisor leaves the dividend unchanged.
type remainderLoop struct {
	*writer
	elem              asm.Elem
	dividend, divisor asm.Vec // absolute values
	absRemainder      asm.Vec // absolute value of the remainder
	multiple          asm.Vec // the divisor times a power of 2
	quotient          asm.Vec
	overflowMask      asm.Vec // at first the power of 2, then the mask of the lanes with a scaled divisor
	mask              asm.Vec // lanes whose remainder is not less than the divisor
	remainder         asm.Vec // at first, the remainder after one division
}

// newRemainderLoop names the operands of completeRemainder: two sources, five temporaries, and the destination.
func newRemainderLoop(w *writer, elem asm.Elem, args []alloc.Operand) *remainderLoop {
	vecs := make([]asm.Vec, len(args))
	for k := range vecs {
		vecs[k] = w.vector(args[k], elem)
	}
	return &remainderLoop{writer: w, elem: elem, dividend: vecs[0], divisor: vecs[1], absRemainder: vecs[2],
		multiple: vecs[3], quotient: vecs[4], overflowMask: vecs[5], mask: vecs[6], remainder: vecs[7]}
}

// write writes the code.
func (r *remainderLoop) write() {
	assembler := r.asm
	loop, end, done := assembler.NewLabel(), assembler.NewLabel(), assembler.NewLabel()
	assembler.Emit("fabs", r.absRemainder, r.remainder)
	assembler.Emit("fcmgt", r.mask, r.divisor, r.absRemainder)
	r.jumpIfMask("uminv", "cbnz", done) // all remainders are less than their divisors; a NaN is not
	r.copy(r.remainder, r.dividend)

	assembler.Bind(loop)
	start := assembler.Instructions()
	assembler.Emit("fabs", r.absRemainder, r.remainder)
	assembler.Emit("fcmge", r.mask, r.absRemainder, r.divisor)
	r.jumpIfMask("umaxv", "cbz", end) // no remainder reaches its divisor
	r.subtractMultiple()
	assembler.Emit("b", loop)
	r.countRepeats(start, remainderWork) // the instructions since start

	assembler.Bind(end)
	assembler.Emit("fcmeq", r.mask, r.divisor, r.divisor)
	r.bitwise("bic", r.quotient, r.divisor, r.mask) // NaN where the divisor is NaN, else 0
	assembler.Emit("fadd", r.remainder, r.remainder, r.quotient)
	assembler.Bind(done)
}

// jumpIfMask writes a jump that depends on the mask, whose lanes are 0 or all ones. reduction is uminv, which gives 0
// unless all lanes are set, or umaxv, which gives 0 if no lane is set. branch is cbz (jump if 0) or cbnz.
func (r *remainderLoop) jumpIfMask(reduction, branch string, to asm.Label) {
	scratch := r.quotient.As(asm.S).Scalar() // a scratch register here
	r.asm.Emit(reduction, scratch, r.mask.As(asm.S))
	r.asm.Emit("fmov", asm.W(temp0), scratch)
	r.asm.Emit(branch, asm.W(temp0), to)
}

// subtractMultiple writes the subtraction of a multiple of the divisor in the lanes of the mask.
func (r *remainderLoop) subtractMultiple() {
	assembler := r.asm
	power := make([]byte, 0, vectorBytes) // the power of 2 in all lanes
	for range vectorBytes / r.elem.Bytes() {
		power = append(power, scaleBytes[r.elem]...)
	}
	scale := assembler.Constant(power)
	r.copy(r.multiple, r.divisor)
	scaled := r.quotient // the quotient is computed later
	for _, factor := range []asm.Vec{r.divisor, scaled} {
		// multiple = divisor*power, then divisor*power^2, in lanes where it is at most |remainder|
		assembler.Emit("ldr", r.overflowMask.As(asm.Q).Scalar(), scale)
		assembler.Emit("fmul", scaled, factor, r.overflowMask)
		assembler.Emit("fcmge", r.overflowMask, r.absRemainder, scaled)
		r.bitwise("bit", r.multiple, scaled, r.overflowMask)
	}
	assembler.Emit("fdiv", r.quotient, r.remainder, r.multiple)
	assembler.Emit("frintz", r.quotient, r.quotient)
	difference := r.absRemainder // a scratch register from here on
	r.copy(difference, r.remainder)
	assembler.Emit("fmls", difference, r.quotient, r.multiple)
	r.bitwise("bit", r.remainder, difference, r.mask)
}

// scaleBytes maps an element size to the bytes of a power of 2 as a float. One or two multiplications of the divisor by
// this power prevent an overflow of the quotient.
var scaleBytes = map[asm.Elem][]byte{
	asm.S: binary.LittleEndian.AppendUint32(nil, (127+100)<<23),   // 2^100; 127 is the bias of exponents
	asm.D: binary.LittleEndian.AppendUint64(nil, (1023+1000)<<52), // 2^1000
}

// bitwise writes a bitwise operation on whole registers.
func (w *writer) bitwise(name string, to, x, y asm.Vec) {
	w.asm.Emit(name, to.As(asm.B), x.As(asm.B), y.As(asm.B))
}

// copy writes the copy of a register.
func (w *writer) copy(to, from asm.Vec) { w.bitwise("orr", to, from, from) }

// vector returns the register of an operand, with elements of the given size.
func (w *writer) vector(operand alloc.Operand, elem asm.Elem) asm.Vec {
	return asm.V(w.register(operand), elem)
}
