// Package writer implements [target.Writer] for AVX2 and AVX-512. The generators with fixed registers use it: packages
// tile, depthwise, winograd and requantize.
//
// The files are:
//
//   - writer.go: the methods of the interface;
//   - depthwise.go: depthwise convolutions of bytes, with VPDPBUSD or VPMADDWD;
//   - quantize.go, parts.go: the conversion of int32 sums to bytes, and stores of the bytes;
//   - matrix.go: the instructions of the matrix unit (AMX).
//
// Partial vectors use a mask. With AVX-512 this is a mask register. With AVX2 it is a vector register in which the
// lanes that are loaded or stored have the sign bit set, as VMASKMOVPS requires.
package writer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
	"github.com/graphrun/graphrun/internal/machine"
)

// Writer implements [target.Writer], and has methods for instructions that only amd64 has. The mask of partial vectors
// (see [target.Writer.SetLanes]) is in K1 or, with AVX2, in a vector register. For example, w.Add(target.Imm(64), 3)
// emits ADDQ $64, DX, because register 3 of the interface is DX.
type Writer struct {
	asm.Assembler
	target.Roles         // implements Declare
	elemBytes    int     // size of an element in bytes
	vectorBytes  int     // size of a vector in bytes
	mask         asm.Vec // the mask of partial vectors, with AVX2
	// permutesParts is set if VPERMILPS replaces VPERMPS: for vectors of 16 bytes, which VPERMPS does not support, and
	// with AVX2, because VPERMPS takes several times as long on AMD's processors. The permutation must keep each word
	// in its 16 bytes of the vector.
	permutesParts bool
}

// New returns a Writer for elements of a size in bytes.
func New(cpu machine.Features, size int, withListing bool) *Writer {
	_, vectorBytes := target.VectorRegisters(cpu)
	assembler := asm.Assembler{NoEVEX: !cpu.Has(machine.Vector512), WithListing: withListing}
	return &Writer{Assembler: assembler, elemBytes: size, vectorBytes: vectorBytes}
}

// partialMask is the mask register of partial vectors, with AVX-512.
const partialMask = asm.K1

// SetVectorBytes makes the vectors shorter than the processor's vectors: 16 or 32 bytes.
func (w *Writer) SetVectorBytes(n int) { w.vectorBytes = n }

// generalRegisters has the registers of amd64 by GReg.
var generalRegisters = [target.GeneralRegisters]asm.Reg{asm.AX, asm.BX, asm.CX, asm.DX, asm.SI, asm.R8, asm.R9, asm.R10,
	asm.R11, asm.R12, asm.R13, asm.R14, asm.R15}

// Reg returns a general register.
func Reg(number target.GReg) asm.Reg {
	if number == target.Args {
		return asm.DI
	}
	return generalRegisters[number]
}

// Mem returns the memory operand for an address. Inlining is off, as for [Writer.Vec]: it would only enlarge the many
// callers.
//
//go:noinline
func Mem(addr target.Addr) asm.Mem {
	mem := asm.Mem{Base: Reg(addr.Base), Disp: int32(addr.Disp)}
	if addr.Scale > 0 {
		mem.Index, mem.Scale = Reg(addr.Index), addr.Scale
	}
	return mem
}

// Word returns the memory operand for a word of the arguments, to which DI points.
func Word(w target.ArgsWord) asm.Mem { return asm.Mem{Base: asm.DI, Disp: int32(w)} }

// Vec returns a vector register with the width of the Writer's vectors.
//
//go:noinline
func (w *Writer) Vec(number target.VReg) asm.Vec {
	switch w.vectorBytes {
	case 64:
		return asm.Z(int(number))
	case 32:
		return asm.Y(int(number))
	}
	return asm.X(int(number))
}

// vectorOperand returns x as an operand of a vector instruction: a register, a memory operand, or a constant. A
// constant of the size of one element is broadcast.
func (w *Writer) vectorOperand(x target.Source) asm.Arg {
	switch x := x.(type) {
	case target.Addr:
		return Mem(x)
	case target.Constant:
		constant := w.Constant([]byte(x))
		constant.Broadcast = len(x) == w.elemBytes
		return constant
	}
	return w.Vec(x.(target.VReg))
}

// intOperand returns x as an operand of an integer instruction.
func intOperand(x target.Int) asm.Arg {
	switch x := x.(type) {
	case target.GReg:
		return Reg(x)
	case target.ArgsWord:
		return Word(x)
	}
	return asm.Imm(x.(target.Imm))
}

// withSizeLetter appends the letter for the size of elements to the name of an instruction: S for 4 bytes, D for 8.
func (w *Writer) withSizeLetter(name string) string {
	if w.elemBytes == 8 {
		return name + "D"
	}
	return name + "S"
}

// Move implements [target.Writer]. If from is a constant and to a register, the constant must not be negative, because
// MOVL zero-extends it to 64 bits; see [Writer.MoveDistance].
func (w *Writer) Move(from, to target.Int) {
	name := "MOVQ"
	constant, isImm := from.(target.Imm)
	if reg, isReg := to.(target.GReg); isImm && isReg {
		if constant == 0 {
			w.Emit("XORL", Reg(reg), Reg(reg))
			return
		}
		name = "MOVL"
	}
	w.Emit(name, intOperand(from), intOperand(to))
}

// Add implements [target.Writer].
func (w *Writer) Add(from, to target.Int) { w.Emit("ADDQ", intOperand(from), intOperand(to)) }

// Sub implements [target.Writer].
func (w *Writer) Sub(from target.Int, to target.GReg) { w.Emit("SUBQ", intOperand(from), Reg(to)) }

// Lea implements [target.Writer].
func (w *Writer) Lea(addr target.Addr, to target.GReg) { w.Emit("LEAQ", Mem(addr), Reg(to)) }

// AlignDown implements [target.Writer].
func (w *Writer) AlignDown(bytes int, to target.GReg) { w.Emit("ANDQ", asm.Imm(-bytes), Reg(to)) }

// Prefetch implements [target.Writer].
func (w *Writer) Prefetch(level int, addr target.Addr) {
	w.Emit([]string{"PREFETCHT0", "PREFETCHT1"}[level-1], Mem(addr))
}

// NewLabel implements [target.Writer].
func (w *Writer) NewLabel() target.Label { return target.Label(w.Assembler.NewLabel()) }

// Bind implements [target.Writer].
func (w *Writer) Bind(label target.Label) { w.Assembler.Bind(asm.Label(label)) }

// jump writes a conditional jump.
func (w *Writer) jump(cond target.Cond, label target.Label) {
	name := [...]string{target.NE: "JNE", target.LT: "JLT", target.LE: "JLE", target.GT: "JGT", target.GE: "JGE",
		target.EQ: "JEQ"}[cond]
	w.Emit(name, asm.Label(label))
}

// Jump implements [target.Writer].
func (w *Writer) Jump(label target.Label) { w.Emit("JMP", asm.Label(label)) }

// CompareJump implements [target.Writer].
func (w *Writer) CompareJump(x target.GReg, y target.Int, cond target.Cond, label target.Label) {
	w.Emit("CMPQ", Reg(x), intOperand(y))
	w.jump(cond, label)
}

// AddJump implements [target.Writer].
func (w *Writer) AddJump(addend int64, to target.Int, cond target.Cond, label target.Label) {
	switch counter := intOperand(to); {
	case addend == 0:
		w.Emit("TESTQ", counter, counter)
	case addend < 0:
		w.Emit("SUBQ", asm.Imm(-addend), counter)
	default:
		w.Emit("ADDQ", asm.Imm(addend), counter)
	}
	w.jump(cond, label)
}

// CountDown implements [target.Writer].
func (w *Writer) CountDown(counter target.Int, cond target.Cond, label target.Label) {
	w.Emit("DECQ", intOperand(counter))
	w.jump(cond, label)
}

// JumpIfBits implements [target.Writer].
func (w *Writer) JumpIfBits(mask int64, value target.GReg, label target.Label) {
	w.Emit("TESTL", asm.Imm(mask), Reg(value))
	w.jump(target.NE, label)
}

// SetLanes implements [target.Writer].
func (w *Writer) SetLanes(lanes target.Int, mask target.VReg, temporaries [2]target.GReg) {
	if w.NoEVEX {
		w.mask = w.Vec(mask)
		w.setVectorMask(lanes, Reg(temporaries[0]), Reg(temporaries[1]))
		return
	}
	bits, laneCount := Reg(temporaries[0]), Reg(temporaries[1])
	if count, isConstant := lanes.(target.Imm); isConstant {
		w.Emit("MOVL", asm.Imm(1<<count-1), bits)
	} else {
		w.Emit("MOVL", asm.Imm(-1), bits)
		w.Emit("MOVQ", intOperand(lanes), laneCount)
		w.Emit("BZHIL", laneCount, bits, bits) // clears the bits from laneCount on
	}
	w.Emit("KMOVW", bits, partialMask)
}

// setVectorMask writes the code that sets AVX2's mask. It loads the mask from a constant with vectorBytes bytes of ones
// and vectorBytes bytes of zeros. The number of lanes determines the offset of the load, and thus the number of ones.
// address and laneCount are temporary registers.
func (w *Writer) setVectorMask(lanes target.Int, address, laneCount asm.Reg) {
	onesThenZeros := make([]byte, 2*w.vectorBytes)
	for i := range w.vectorBytes {
		onesThenZeros[i] = 0xFF
	}
	if count, isConstant := lanes.(target.Imm); isConstant {
		w.Emit("VMOVUPS", w.Constant(onesThenZeros[w.vectorBytes-int(count)*w.elemBytes:][:w.vectorBytes]), w.mask)
		return
	}
	w.Emit("LEAQ", w.Constant(onesThenZeros), address)
	w.Emit("MOVQ", intOperand(lanes), laneCount)
	w.Emit("NEGQ", laneCount)
	w.Emit("VMOVUPS", asm.Mem{Base: address, Index: laneCount, Scale: uint8(w.elemBytes),
		Disp: int32(w.vectorBytes)}, w.mask)
}

// Load implements [target.Writer].
func (w *Writer) Load(addr target.Addr, to target.VReg, partial bool) {
	switch {
	case !partial:
		w.Emit(w.withSizeLetter("VMOVUP"), Mem(addr), w.Vec(to))
	case w.NoEVEX:
		w.Emit(w.withSizeLetter("VMASKMOVP"), Mem(addr), w.mask, w.Vec(to))
	default:
		w.Emit(w.withSizeLetter("VMOVUP"), Mem(addr), partialMask.Zero(), w.Vec(to))
	}
}

// Store implements [target.Writer].
func (w *Writer) Store(from target.VReg, addr target.Addr, partial bool) {
	switch {
	case !partial:
		w.Emit(w.withSizeLetter("VMOVUP"), w.Vec(from), Mem(addr))
	case w.NoEVEX:
		w.Emit(w.withSizeLetter("VMASKMOVP"), w.Vec(from), w.mask, Mem(addr))
	default:
		w.Emit(w.withSizeLetter("VMOVUP"), w.Vec(from), partialMask, Mem(addr))
	}
}

// Broadcast implements [target.Writer].
func (w *Writer) Broadcast(addr target.Addr, to target.VReg) {
	w.Emit(w.withSizeLetter("VBROADCASTS"), Mem(addr), w.Vec(to))
}

// BroadcastNumber implements [target.Writer].
func (w *Writer) BroadcastNumber(number float64, to target.VReg) {
	data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(number)))
	if w.elemBytes == 8 {
		data = binary.LittleEndian.AppendUint64(nil, math.Float64bits(number))
	}
	w.Copy(target.Constant(data), to)
}

// Copy implements [target.Writer].
func (w *Writer) Copy(from, to target.Source) {
	if constant, ok := from.(target.Constant); ok && len(constant) == w.elemBytes {
		w.Emit(w.withSizeLetter("VBROADCASTS"), w.Constant([]byte(constant)), w.vectorOperand(to))
		return
	}
	name := "VMOVUPS"
	_, isFromReg := from.(target.VReg)
	if _, isToReg := to.(target.VReg); isFromReg && isToReg {
		name = "VMOVAPS"
	}
	w.Emit(name, w.vectorOperand(from), w.vectorOperand(to))
}

// Clear implements [target.Writer].
func (w *Writer) Clear(to target.VReg) {
	name := "VPXORD"
	if w.NoEVEX {
		name = "VXORPS"
	}
	w.Emit(name, w.Vec(to), w.Vec(to), w.Vec(to))
}

// ClearBelow16 sets a register below 16 to 0. The instruction for 128 bits is the shortest.
func (w *Writer) ClearBelow16(to target.VReg) {
	x := asm.X(int(to))
	w.Emit("VXORPS", x, x, x)
}

// Op implements [target.Writer]. If x or y is NaN, VMAXPS and VMINPS return x, the last source in Intel's notation.
func (w *Writer) Op(op target.Op, x target.Source, y, to target.VReg) {
	name := [...]string{target.Add: "VADDP", target.Sub: "VSUBP", target.Mul: "VMULP", target.Max: "VMAXP",
		target.Min: "VMINP"}[op]
	w.Emit(w.withSizeLetter(name), w.vectorOperand(x), w.Vec(y), w.Vec(to))
}

// FMA implements [target.Writer].
func (w *Writer) FMA(x target.Source, y, sum target.VReg) {
	w.Emit(w.withSizeLetter("VFMADD231P"), w.vectorOperand(x), w.Vec(y), w.Vec(sum))
}

// FMABroadcast implements [target.Writer].
func (w *Writer) FMABroadcast(addr target.Addr, y, sum target.VReg) {
	mem := Mem(addr)
	mem.Broadcast = true
	w.Emit(w.withSizeLetter("VFMADD231P"), mem, w.Vec(y), w.Vec(sum))
}

// LoadElements implements [target.Writer]. It broadcasts one element; amd64 permits no more (see
// [target.MaxLoadedElements]).
func (w *Writer) LoadElements(addr target.Addr, _ int, to target.VReg) { w.Broadcast(addr, to) }

// FMAElement implements [target.Writer].
func (w *Writer) FMAElement(x target.Element, y, sum target.VReg) {
	w.Emit(w.withSizeLetter("VFMADD231P"), w.Vec(x.Reg), w.Vec(y), w.Vec(sum))
}

// Inst implements [target.Writer]. The operands are in the order of Go's assembler.
func (w *Writer) Inst(name string, operands ...target.Source) {
	var buf [3]asm.Arg
	args := buf[:0]
	for _, x := range operands {
		args = append(args, w.vectorOperand(x))
	}
	w.Emit(name, args...)
}

// LoadBytes implements [target.Writer].
func (w *Writer) LoadBytes(addr target.Addr, to target.VReg) {
	w.Emit("VPMOVSXBD", Mem(addr), w.Vec(to))
}

// LoadHalves implements [target.Writer].
func (w *Writer) LoadHalves(half target.Half, addr target.Addr, to target.VReg) {
	if half == target.BFloat16 { // the upper half of a float32
		w.Emit("VPMOVZXWD", Mem(addr), w.Vec(to))
		w.ShiftLeft(16, to, to)
		return
	}
	w.Emit("VCVTPH2PS", Mem(addr), w.Vec(to))
}

// BroadcastInteger loads 32 bits into all lanes.
func (w *Writer) BroadcastInteger(addr target.Addr, to target.VReg) {
	w.Emit("VPBROADCASTD", Mem(addr), w.Vec(to))
}

// AddIntegers adds the int32 lanes of x to sum.
func (w *Writer) AddIntegers(x, sum target.VReg) { w.Emit("VPADDD", w.Vec(x), w.Vec(sum), w.Vec(sum)) }

// ShiftLeft implements [target.Writer].
func (w *Writer) ShiftLeft(n int, x, to target.VReg) {
	w.Emit("VPSLLD", asm.Imm(n), w.Vec(x), w.Vec(to))
}

// ShiftRight implements [target.Writer].
func (w *Writer) ShiftRight(n int, x, to target.VReg) {
	w.Emit("VPSRAD", asm.Imm(n), w.Vec(x), w.Vec(to))
}

// Dot implements [target.Writer] for unsigned bytes of x: isSigned must be false.
func (w *Writer) Dot(x target.Element, y, sum target.VReg, isSigned bool) {
	if isSigned {
		w.Fail(errors.New("amd64: Dot requires unsigned bytes of x: there is no instruction for signed bytes"))
	}
	w.Emit("VPDPBUSD", w.Vec(y), w.Vec(x.Reg), w.Vec(sum))
}

// DotWords adds x0*y0 + x1*y1 to each 32-bit lane of sum. x0, x1, y0 and y1 are the 16-bit words in this lane of x and
// y. It changes a temporary register, which may be y.
func (w *Writer) DotWords(x target.Source, y, sum, temporary target.VReg) {
	w.Emit("VPMADDWD", w.vectorOperand(x), w.Vec(y), w.Vec(temporary))
	w.AddIntegers(temporary, sum)
}

// ToFloats implements [target.Writer].
func (w *Writer) ToFloats(v target.VReg) { w.Emit("VCVTDQ2PS", w.Vec(v), w.Vec(v)) }

// Permutation implements [target.Writer].
func (w *Writer) Permutation(indices []int, to target.VReg) {
	w.permutesParts = w.vectorBytes == 16 || w.NoEVEX
	var data []byte
	for i, index := range indices {
		data = binary.LittleEndian.AppendUint32(data, uint32(index))
		w.permutesParts = w.permutesParts && index/4 == i/4
	}
	w.Emit("VMOVUPS", w.Constant(data), w.Vec(to))
}

// AddToIndices implements [target.Writer].
func (w *Writer) AddToIndices(n int, permutation target.VReg) {
	data := bytes.Repeat(binary.LittleEndian.AppendUint32(nil, uint32(n)), w.vectorBytes/4)
	w.Emit("VPADDD", w.Constant(data), w.Vec(permutation), w.Vec(permutation))
}

// Permute implements [target.Writer].
func (w *Writer) Permute(addr target.Addr, permutation, to target.VReg) {
	if !w.permutesParts {
		w.Emit("VPERMPS", Mem(addr), w.Vec(permutation), w.Vec(to))
		return
	}
	w.Emit("VMOVUPS", Mem(addr), w.Vec(to))
	w.Emit("VPERMILPS", w.Vec(permutation), w.Vec(to), w.Vec(to))
}

// Return implements [target.Writer].
func (w *Writer) Return() {
	w.Emit("VZEROUPPER") // otherwise SSE instructions of the caller would be slow
	w.Emit("RET")
}

// Finish implements [target.Writer].
func (w *Writer) Finish() (jit.Code, error) {
	if err := w.Err(); err != nil {
		return jit.Code{}, err
	}
	return jit.Finish(&w.Assembler)
}

// FMAForms returns the encodings of sum + x*y (or of sum - x*y if negate is set) in float32, for the register
// allocator. Source 0 is x, 1 is y, and 2 is sum. Tied is the source that the result overwrites. Order lists the other
// two sources; the first of them may be in memory.
func FMAForms(negate bool) []alloc.Form {
	name := "VFMADD"
	if negate {
		name = "VFNMADD"
	}
	return []alloc.Form{{Name: name + "231PS", Tied: 2, Order: [2]int8{0, 1}},
		{Name: name + "231PS", Tied: 2, Order: [2]int8{1, 0}}, {Name: name + "213PS", Tied: 1, Order: [2]int8{2, 0}},
		{Name: name + "132PS", Tied: 1, Order: [2]int8{0, 2}}}
}
