package amd64

import (
	"bytes"
	"encoding/binary"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
	"github.com/graphrun/graphrun/internal/lane"
)

// completeRemainder is a pseudo-instruction that completes the remainder of floats if one division is not enough.
const completeRemainder = "completeRemainder"

// fmod computes C's fmod. Each step truncates the quotient to an integer, and a fused multiply-add computes the
// remainder for this quotient exactly. For example, 7.5/2 is truncated to 3, and the remainder is 7.5 - 3*2 = 1.5. A
// step divides the magnitude of the remainder by about 2^23 (float32) or 2^52 (float64), so one step is nearly always
// enough. The loop of writeRemainderLoop runs only if an element of the vector needs more steps.
func (g *generator) fmod(laneBytes int, x, y alloc.Virt) alloc.Virt {
	suffix := floatSuffix(laneBytes)
	dividend, divisor := g.floatOp(lane.Abs, laneBytes, x, 0), g.floatOp(lane.Abs, laneBytes, y, 0)
	quotient := g.round(lane.Trunc, laneBytes, g.binaryOp("VDIV"+suffix, laneBytes, divisor, dividend))
	width := g.Values[x].Bytes
	tempCounts := [2]uint8{alloc.Vectors: 4} // absRemainder, multiple, temp and mask of remainderLoop
	if g.avx512 {
		tempCounts = [2]uint8{alloc.Vectors: 3, alloc.Masks: 2} // mask and scaledLanes are mask registers
	}
	firstRemainder := g.multiplyAdd("VFNMADD", laneBytes, quotient, divisor, dividend) // dividend - quotient*divisor
	remainder := g.Add(alloc.Inst{Name: completeRemainder,
		Src:  append(alloc.Sources(dividend, divisor), alloc.Arg{Imm: int64(laneBytes)}),
		Tied: firstRemainder, Dst: g.newVector(width),
		FoldableSource:   noFoldableSource,
		TempCounts:       tempCounts,
		InstructionCount: 1}) // estimates the time: the loop rarely runs. remainderWork bounds it
	// The remainder is negative if the quotient was rounded up. The divisor is then added.
	negative := g.compareFloats(laneBytes, cmpLess, remainder, g.constLanes(laneBytes, 0))
	if g.avx512 { // a masked addition
		remainder = g.Add(alloc.Inst{Name: "VADD" + suffix, Src: alloc.Sources(divisor, remainder), Tied: remainder,
			Mask: negative, Dst: g.newVector(width), FoldableSource: 0, BroadcastBytes: uint8(laneBytes)})
	} else {
		remainder = g.commutativeOp("VADD"+suffix, laneBytes, remainder, g.and(laneBytes, negative, divisor))
	}
	sign := g.and(laneBytes, x, g.constLanes(laneBytes, signBit(laneBytes)))
	return g.or(laneBytes, remainder, sign)
}

// jit.Work counts each instruction in the loop of writeRemainderLoop remainderWork times. The loop has at most 42
// iterations, because a quotient of float64 has up to 2,098 bits, and an iteration removes at least 51 bits. Each
// iteration counts as 4, because it contains a slow division.
const remainderWork = 4 * 42

// remainderLoop writes the instructions of one pseudo-instruction completeRemainder. The operands are registers.
type remainderLoop struct {
	g                 *generator
	laneBytes         int
	dividend, divisor asm.Arg // absolute values
	remainder         asm.Arg // the result; at first, the remainder after one division

	// Temporary registers.

	absRemainder asm.Arg
	multiple     asm.Arg // the divisor times a power of 2
	temp         asm.Arg
	mask         asm.Arg // the lanes with |remainder| >= divisor; after the loop, the lanes with a NaN
	scaledLanes  asm.Arg // the lanes with a scaled divisor; without AVX-512, the same register as mask
}

// writeRemainderLoop writes the instructions of completeRemainder:
//
//	if any |remainder| >= divisor {
//		remainder = dividend // again from the start, because the first quotient may have been infinite
//		for any |remainder| >= divisor {
//			multiple = divisor * 2^k // k > 0 only if remainder/divisor is near the overflow
//			remainder -= trunc(remainder/multiple) * multiple // in the lanes with |remainder| >= divisor
//		}
//		remainder += NaN where the divisor is NaN
//	}
//
// The remainder may become negative. An infinite divisor leaves the dividend unchanged. args has the sources, the
// temporary registers and the result.
func (g *generator) writeRemainderLoop(args []asm.Arg) {
	sources, temps := args[:3], args[3:len(args)-1]
	r := &remainderLoop{g: g, laneBytes: int(sources[2].(asm.Imm)),
		dividend: sources[0], divisor: sources[1], remainder: args[len(args)-1],
		absRemainder: temps[0], multiple: temps[1], temp: temps[2], mask: temps[3], scaledLanes: temps[len(temps)-1]}
	assembler := g.asm
	loop, end, done := assembler.NewLabel(), assembler.NewLabel(), assembler.NewLabel() // end: of the loop
	r.setAbsRemainder()
	r.compare(r.mask, r.absRemainder, cmpNotLess, r.divisor) // also true for NaN
	r.jumpIfEmpty(done)
	assembler.Emit("VMOVAPS", r.dividend, r.remainder)

	assembler.Bind(loop)
	executedBefore := g.executedCount()
	r.setAbsRemainder()
	r.compare(r.mask, r.absRemainder, cmpGreaterEqual, r.divisor) // false for NaN
	r.jumpIfEmpty(end)
	r.subtractMultiple()
	assembler.Emit("JMP", loop)
	// The written instructions have been counted once.
	g.extraExecuted += (g.executedCount() - executedBefore) * (remainderWork - 1)

	assembler.Bind(end)
	r.compare(r.mask, r.divisor, cmpUnordered, r.divisor) // the divisor is NaN; its addition gives NaN
	if g.avx512 {
		r.emit("VADD", r.divisor, r.remainder, r.mask, r.remainder)
	} else {
		r.emit("VAND", r.divisor, r.mask, r.mask)
		r.emit("VADD", r.mask, r.remainder, r.remainder)
	}
	assembler.Bind(done)
}

// emit writes a float instruction. It adds the suffix for the size of the lanes to the name.
func (r *remainderLoop) emit(name string, args ...asm.Arg) {
	r.g.asm.Emit(name+floatSuffix(r.laneBytes), args...)
}

// compare writes a comparison of two vectors by a predicate, such as x <= y.
func (r *remainderLoop) compare(result, x asm.Arg, predicate int, y asm.Arg) {
	r.emit("VCMP", asm.Imm(predicate), y, x, result)
}

// replace writes to = from in the lanes of a mask.
func (r *remainderLoop) replace(mask, to, from asm.Arg) {
	if r.g.avx512 {
		r.emit("VMOVA", from, mask, to)
	} else {
		r.emit("VBLENDV", mask, from, to, to)
	}
}

// setAbsRemainder writes absRemainder = |remainder|.
func (r *remainderLoop) setAbsRemainder() {
	r.emit("VAND", r.constant(signBit(r.laneBytes)-1), r.remainder, r.absRemainder)
}

// jumpIfEmpty writes a jump to a label. The code jumps if no lane of mask is set.
func (r *remainderLoop) jumpIfEmpty(to asm.Label) {
	assembler := r.g.asm
	if r.g.avx512 {
		assembler.Emit("KORTESTW", r.mask, r.mask)
	} else {
		r.emit("VMOVMSK", r.mask, regTemp)
		assembler.Emit("TESTL", regTemp, regTemp)
	}
	assembler.Emit("JEQ", to)
}

// subtractMultiple writes remainder -= trunc(remainder/multiple)*multiple, in the lanes of mask. multiple is the
// greatest of divisor, divisor*scaleOf and divisor*scaleOf^2 that does not exceed absRemainder.
func (r *remainderLoop) subtractMultiple() {
	scale := r.constant(scaleOf(r.laneBytes))
	r.g.asm.Emit("VMOVAPS", r.divisor, r.multiple)
	for _, factor := range []asm.Arg{r.divisor, r.temp} { // temp becomes divisor*scale, then divisor*scale^2
		r.emit("VMUL", scale, factor, r.temp)
		r.compare(r.scaledLanes, r.temp, cmpLessEqual, r.absRemainder)
		r.replace(r.scaledLanes, r.multiple, r.temp)
	}
	r.emit("VDIV", r.multiple, r.remainder, r.temp)
	if r.g.avx512 {
		r.emit("VRNDSCALE", asm.Imm(truncate), r.temp, r.temp)
		r.emit("VFNMADD231", r.multiple, r.temp, r.mask, r.remainder) // remainder -= temp*multiple
		return
	}
	r.emit("VROUND", asm.Imm(truncate), r.temp, r.temp)
	r.emit("VFNMADD213", r.remainder, r.multiple, r.temp)         // temp = remainder - temp*multiple
	r.compare(r.mask, r.absRemainder, cmpGreaterEqual, r.divisor) // again: mask has had scaledLanes
	r.replace(r.mask, r.remainder, r.temp)
}

// scaleOf returns the bits of a power of 2 as a float. One or two multiplications of the divisor by this power prevent
// an overflow of the quotient.
func scaleOf(laneBytes int) uint64 {
	if laneBytes == 8 {
		return (1023 + 1000) << 52 // 2^1000; 1023 is the bias of exponents
	}
	return (127 + 100) << 23 // 2^100
}

// constant returns a memory operand with x in all lanes.
func (r *remainderLoop) constant(x uint64) asm.Arg {
	element := binary.LittleEndian.AppendUint64(nil, x)[:r.laneBytes]
	if r.g.avx512 {
		operand := r.g.asm.Constant(element)
		operand.Broadcast = true
		return operand
	}
	return r.g.asm.Constant(bytes.Repeat(element, int(r.g.width(r.laneBytes))/r.laneBytes))
}
