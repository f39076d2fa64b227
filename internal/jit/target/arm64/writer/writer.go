// Package writer implements [target.Writer] for NEON. The generators that choose registers themselves use it: packages
// tile, depthwise, winograd and requantize.
//
// The files are:
//
//   - writer.go: the methods of the interface;
//   - depthwise.go: depthwise convolutions of bytes, with SDOT or USDOT;
//   - matrix.go: products of byte matrices, with SMMLA or USMMLA (I8MM);
//   - quantize.go: the conversion of int32 sums to bytes.
//
// X16, X17 and V31 are temporaries of the methods. Partial vectors, which have fewer than 16 bytes, are loaded and
// stored in pieces of 8, 4, 2 and 1 bytes.
package writer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/arm64/asm"
)

// Writer implements [target.Writer] for vectors of 128 bits. General registers are X1 to X13. For example,
// w.Add(target.Imm(64), 3) emits add x4, x4, #64, because register 3 of the interface is X4.
type Writer struct {
	asm.Assembler
	target.Roles          // implements Declare
	elem         asm.Elem // size of an element: asm.S or asm.D
	partialLanes int      // number of lanes of partial vectors, from SetLanes
}

// Registers for the Writer's own use: an address, an integer, and a vector.
const (
	addressTemp = asm.Reg(16)
	integerTemp = asm.Reg(17)
	vectorTemp  = target.VReg(31)
)

// New returns a Writer for elements of 4 or 8 bytes.
func New(size int, withListing bool) *Writer {
	w := &Writer{Assembler: asm.Assembler{WithListing: withListing}, elem: asm.S}
	if size == 8 {
		w.elem = asm.D
	}
	w.Declare("a temporary", vectorTemp)
	return w
}

// reg returns a general register.
func reg(number target.GReg) asm.Reg {
	if number == target.Args {
		return asm.X(0)
	}
	return asm.X(int(number) + 1)
}

// word returns the memory operand of a word of [jit.Args]. X0 has the address of the Args.
func word(x target.ArgsWord) asm.Mem { return asm.Mem{Base: asm.X(0), Offset: int(x)} }

// vec returns a vector register.
func (w *Writer) vec(v target.VReg) asm.Vec { return asm.V(int(v), w.elem) }

// lowBytes returns a register as the operand of loads and stores of its low bytes.
func lowBytes(v target.VReg, bytes int) asm.Scalar {
	elem := map[int]asm.Elem{4: asm.S, 8: asm.D, 16: asm.Q}[bytes]
	return asm.Scalar{Num: int(v), Elem: elem}
}

// setConstant sets a register to a constant, 16 bits at a time. The first instruction, MOVZ or MOVN, also fills the
// other bits with 0 or 1. MOVK then sets each group of 16 bits that still differs.
func (w *Writer) setConstant(to asm.Reg, constant int64) {
	name, pattern := "movz", uint64(constant) // pattern has the bits that differ from the fill
	if constant < 0 {
		name, pattern = "movn", ^uint64(constant)
	}
	w.Emit(name, to, asm.Imm(pattern&0xFFFF))
	for shift := 16; shift < 64; shift += 16 {
		if pattern>>shift&0xFFFF != 0 {
			w.Emit("movk", to, asm.Imm(uint64(constant)>>shift&0xFFFF), asm.Shift(shift))
		}
	}
}

// intRegister returns a register with the value of an operand: the operand itself if it is a register, otherwise
// integerTemp, into which it loads the value.
func (w *Writer) intRegister(x target.Int) asm.Reg {
	switch x := x.(type) {
	case target.GReg:
		return reg(x)
	case target.ArgsWord:
		w.Emit("ldr", integerTemp, word(x))
	case target.Imm:
		w.setConstant(integerTemp, int64(x))
	}
	return integerTemp
}

// addConstant computes to = from + constant. The argument flags is the suffix "s" of instructions that set the flags,
// or empty.
func (w *Writer) addConstant(from asm.Reg, constant int64, to asm.Reg, flags string) {
	name, magnitude := "add"+flags, constant
	if constant < 0 {
		name, magnitude = "sub"+flags, -constant
	}
	switch lowBits := magnitude & 0xFFF; { // an immediate has 12 bits, or 12 bits followed by 12 zeros
	case magnitude < 1<<12 || magnitude < 1<<24 && lowBits == 0:
		w.Emit(name, to, from, asm.Imm(magnitude))
	case magnitude < 1<<24 && flags == "":
		w.Emit(name, to, from, asm.Imm(magnitude-lowBits))
		w.Emit(name, to, to, asm.Imm(lowBits))
	default:
		w.setConstant(addressTemp, constant)
		w.Emit("add"+flags, to, from, addressTemp)
	}
}

// Move implements [target.Writer].
func (w *Writer) Move(from, to target.Int) {
	if to, ok := to.(target.ArgsWord); ok {
		w.Emit("str", w.intRegister(from), word(to))
		return
	}
	switch x := from.(type) {
	case target.GReg:
		w.Emit("mov", w.intRegister(to), reg(x))
	case target.ArgsWord:
		w.Emit("ldr", w.intRegister(to), word(x))
	case target.Imm:
		w.setConstant(w.intRegister(to), int64(x))
	}
}

// Add implements [target.Writer].
func (w *Writer) Add(from, to target.Int) {
	sumWord, isWord := to.(target.ArgsWord)
	sum := addressTemp
	if isWord {
		w.Emit("ldr", sum, word(sumWord))
	} else {
		sum = w.intRegister(to)
	}
	if n, ok := from.(target.Imm); ok && !isWord { // addConstant may change addressTemp, which is sum for a word
		w.addConstant(sum, int64(n), sum, "")
	} else {
		w.Emit("add", sum, sum, w.intRegister(from))
	}
	if isWord {
		w.Emit("str", sum, word(sumWord))
	}
}

// Sub implements [target.Writer].
func (w *Writer) Sub(from target.Int, to target.GReg) {
	w.Emit("sub", reg(to), reg(to), w.intRegister(from))
}

// addIndex returns a register with base + Index*Scale of an address: the base itself if there is no index, otherwise
// the register `to`.
func (w *Writer) addIndex(base asm.Reg, addr target.Addr, to asm.Reg) asm.Reg {
	shift := map[uint8]asm.Shift{1: 0, 2: 1, 4: 2}[addr.Scale]
	switch {
	case addr.Scale == 0:
		return base
	case shift == 0:
		w.Emit("add", to, base, reg(addr.Index))
	default:
		w.Emit("add", to, base, reg(addr.Index), shift)
	}
	return to
}

// mem returns an address for an access of a size in bytes. If an instruction cannot encode the address, mem writes
// code that computes it.
func (w *Writer) mem(addr target.Addr, bytes int) asm.Mem {
	if addr.Scale == 1 && addr.Disp == 0 {
		return asm.Indexed(reg(addr.Base), reg(addr.Index))
	}
	// A displacement is a signed number of 9 bits, or an unsigned number of 12 bits in units of the access size.
	if addr.Disp >= -256 && addr.Disp < 256 || addr.Disp >= 0 && addr.Disp%bytes == 0 && addr.Disp/bytes < 1<<12 {
		return asm.Mem{Base: w.addIndex(reg(addr.Base), addr, addressTemp), Offset: addr.Disp}
	}
	return w.baseOnly(addr)
}

// baseOnly returns an address that is only a base register, and writes code that adds the displacement and index to it.
func (w *Writer) baseOnly(addr target.Addr) asm.Mem {
	base := reg(addr.Base)
	if addr.Disp != 0 { // before the index, because addConstant may overwrite addressTemp
		w.addConstant(base, int64(addr.Disp), addressTemp, "")
		base = addressTemp
	}
	return asm.Mem{Base: w.addIndex(base, addr, addressTemp)}
}

// Lea implements [target.Writer].
func (w *Writer) Lea(addr target.Addr, to target.GReg) {
	if base := w.addIndex(reg(addr.Base), addr, reg(to)); base != reg(to) || addr.Disp != 0 {
		w.addConstant(base, int64(addr.Disp), reg(to), "")
	}
}

// AlignDown implements [target.Writer].
func (w *Writer) AlignDown(bytes int, to target.GReg) {
	w.Emit("and", reg(to), reg(to), asm.Imm(-bytes))
}

// Prefetch implements [target.Writer].
func (w *Writer) Prefetch(level int, addr target.Addr) {
	mem := w.mem(addr, 8) // prfm has only displacements that are multiples of 8
	if mem.HasIndex || mem.Offset%8 != 0 || mem.Offset < 0 {
		mem = w.baseOnly(addr)
	}
	w.Emit("prfm", asm.Imm(2*(level-1)), mem) // 0 is PLDL1KEEP, and 2 is PLDL2KEEP
}

// NewLabel implements [target.Writer].
func (w *Writer) NewLabel() target.Label { return target.Label(w.Assembler.NewLabel()) }

// Bind implements [target.Writer].
func (w *Writer) Bind(label target.Label) { w.Assembler.Bind(asm.Label(label)) }

var branchNames = [...]string{target.NE: "b.ne", target.LT: "b.lt", target.LE: "b.le", target.GT: "b.gt",
	target.GE: "b.ge", target.EQ: "b.eq"}

// Jump implements [target.Writer].
func (w *Writer) Jump(label target.Label) { w.Emit("b", asm.Label(label)) }

// CompareJump implements [target.Writer].
func (w *Writer) CompareJump(x target.GReg, y target.Int, cond target.Cond, label target.Label) {
	if constant, ok := y.(target.Imm); ok {
		w.Emit("cmp", reg(x), asm.Imm(constant))
	} else {
		w.Emit("cmp", reg(x), w.intRegister(y))
	}
	w.Emit(branchNames[cond], asm.Label(label))
}

// AddJump implements [target.Writer].
func (w *Writer) AddJump(addend int64, to target.Int, cond target.Cond, label target.Label) {
	x := w.intRegister(to)
	w.addConstant(x, addend, x, "s")
	if counterWord, ok := to.(target.ArgsWord); ok {
		w.Emit("str", x, word(counterWord))
	}
	w.Emit(branchNames[cond], asm.Label(label))
}

// CountDown implements [target.Writer].
func (w *Writer) CountDown(counter target.Int, cond target.Cond, label target.Label) {
	w.AddJump(-1, counter, cond, label)
}

// JumpIfBits implements [target.Writer].
func (w *Writer) JumpIfBits(mask int64, value target.GReg, label target.Label) {
	w.Emit("tst", reg(value), asm.Imm(mask))
	w.Emit("b.ne", asm.Label(label))
}

// SetLanes implements [target.Writer] for constants.
func (w *Writer) SetLanes(lanes target.Int, _ target.VReg, _ [2]target.GReg) {
	count, isConstant := lanes.(target.Imm)
	if !isConstant {
		w.Fail(errors.New("arm64: SetLanes requires a constant number of lanes"))
	}
	w.partialLanes = int(count)
}

// accessPieces loads or stores the first count bytes of a vector, in pieces of 16, 8, 4, 2 and 1 bytes. name is the
// instruction for a piece of at least 4 bytes at the start of the register, and laneName the one for other pieces.
func (w *Writer) accessPieces(name, laneName string, vector target.VReg, addr target.Addr, count int) {
	for size, done := 16, 0; done < count; size /= 2 {
		if count&size == 0 {
			continue
		}
		if done == 0 && size >= 4 {
			w.Emit(name, lowBytes(vector, size), w.mem(addr, size))
		} else {
			elem := asm.Elem(bits.TrailingZeros(uint(size)))
			w.Emit(laneName, asm.List{First: asm.V(int(vector), elem), Count: 1, Lane: done / size}, w.baseOnly(addr))
		}
		done, addr.Disp = done+size, addr.Disp+size
	}
}

// vectorBytes returns the number of bytes of a vector.
func (w *Writer) vectorBytes(partial bool) int {
	if partial {
		return w.partialLanes * w.elem.Bytes()
	}
	return 16
}

// Load implements [target.Writer].
func (w *Writer) Load(addr target.Addr, to target.VReg, partial bool) {
	w.accessPieces("ldr", "ld1", to, addr, w.vectorBytes(partial))
}

// LoadBytes implements [target.Writer]. It loads a signed byte for each lane, as int32.
func (w *Writer) LoadBytes(addr target.Addr, to target.VReg) {
	w.Emit("ldr", lowBytes(to, 4), w.mem(addr, 4))
	w.Emit("sshll", asm.V(int(to), asm.H), asm.V(int(to), asm.B).Low(), asm.Imm(0))
	w.Emit("sshll", w.vec(to), asm.V(int(to), asm.H).Low(), asm.Imm(0))
}

// LoadHalves implements [target.Writer].
func (w *Writer) LoadHalves(half target.Half, addr target.Addr, to target.VReg) {
	w.Emit("ldr", lowBytes(to, 8), w.mem(addr, 8))
	if half == target.BFloat16 { // the upper half of a float32
		w.Emit("ushll", w.vec(to), asm.V(int(to), asm.H).Low(), asm.Imm(0))
		w.ShiftLeft(16, to, to)
		return
	}
	w.Emit("fcvtl", w.vec(to), asm.V(int(to), asm.H).Low())
}

// ShiftLeft implements [target.Writer].
func (w *Writer) ShiftLeft(n int, x, to target.VReg) { w.Emit("shl", w.vec(to), w.vec(x), asm.Imm(n)) }

// ShiftRight implements [target.Writer].
func (w *Writer) ShiftRight(n int, x, to target.VReg) {
	w.Emit("sshr", w.vec(to), w.vec(x), asm.Imm(n))
}

// Store implements [target.Writer].
func (w *Writer) Store(from target.VReg, addr target.Addr, partial bool) {
	w.StoreBytes(from, addr, w.vectorBytes(partial))
}

// StoreBytes stores the first n bytes of a vector, 1 to 16.
func (w *Writer) StoreBytes(from target.VReg, addr target.Addr, n int) {
	w.accessPieces("str", "st1", from, addr, n)
}

// Broadcast implements [target.Writer].
func (w *Writer) Broadcast(addr target.Addr, to target.VReg) {
	w.Emit("ld1r", asm.Regs(w.vec(to), 1), w.baseOnly(addr))
}

// BroadcastNumber implements [target.Writer].
func (w *Writer) BroadcastNumber(x float64, to target.VReg) {
	data := binary.LittleEndian.AppendUint64(nil, math.Float64bits(x))
	if w.elem == asm.S {
		data = binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(x)))
	}
	w.loadSource(target.Constant(data), to)
}

// Clear implements [target.Writer].
func (w *Writer) Clear(to target.VReg) { w.Emit("movi", asm.V(int(to), asm.D), asm.Imm(0)) }

// Copy implements [target.Writer].
func (w *Writer) Copy(from, to target.Source) {
	if addr, ok := to.(target.Addr); ok {
		w.Store(from.(target.VReg), addr, wholeVector)
		return
	}
	toReg := to.(target.VReg)
	if fromReg, ok := from.(target.VReg); ok {
		x := asm.V(int(fromReg), asm.B)
		w.Emit("orr", asm.V(int(toReg), asm.B), x, x) // x | x
		return
	}
	w.loadSource(from, toReg)
}

// loadSource loads a vector that is not in a register.
func (w *Writer) loadSource(x target.Source, to target.VReg) {
	if addr, ok := x.(target.Addr); ok {
		w.Load(addr, to, wholeVector)
		return
	}
	data := []byte(x.(target.Constant))
	w.Emit("ldr", lowBytes(to, 16), w.Constant(bytes.Repeat(data, 16/len(data))))
}

// vectorRegister returns a register with a vector: the register x, or vectorTemp if x is in memory.
func (w *Writer) vectorRegister(x target.Source) target.VReg {
	if v, ok := x.(target.VReg); ok {
		return v
	}
	w.loadSource(x, vectorTemp)
	return vectorTemp
}

// Op implements [target.Writer]: to = y op x.
func (w *Writer) Op(op target.Op, x target.Source, y, to target.VReg) {
	if name, ok := arithmeticNames[op]; ok {
		w.Emit(name, w.vec(to), w.vec(y), w.vec(w.vectorRegister(x)))
		return
	}
	w.extremum(op, w.vectorRegister(x), y, to)
}

var arithmeticNames = map[target.Op]string{target.Add: "fadd", target.Sub: "fsub", target.Mul: "fmul"}

// extremum computes Max or Min. FMAX and FMIN are not used, because they order -0 before +0. FCMGT sets the mask of the
// lanes in which y is greater (Max) or less (Min). A second instruction then selects y in these lanes, otherwise x.
func (w *Writer) extremum(op target.Op, x, y, to target.VReg) {
	var name string
	var mask, first, second target.VReg
	switch to {
	case x: // BIT inserts y where the mask is set
		mask, name, first, second = vectorTemp, "bit", y, vectorTemp
	case y: // BIF inserts x where the mask is clear
		mask, name, first, second = vectorTemp, "bif", x, vectorTemp
	default: // BSL reads the mask from the destination, and selects y where it is set, otherwise x
		mask, name, first, second = to, "bsl", y, x
	}
	if mask == x { // x was loaded from memory to vectorTemp, which the mask would overwrite
		w.Fail(errors.New("arm64: Max and Min with x in memory require a destination other than y"))
	}
	if op == target.Max {
		w.Emit("fcmgt", w.vec(mask), w.vec(y), w.vec(x))
	} else {
		w.Emit("fcmgt", w.vec(mask), w.vec(x), w.vec(y))
	}
	w.Emit(name, w.vec(to).As(asm.B), w.vec(first).As(asm.B), w.vec(second).As(asm.B))
}

// Inst implements [target.Writer]. The operands are registers, the destination last.
func (w *Writer) Inst(name string, operands ...target.Source) {
	last := len(operands) - 1
	args := []asm.Arg{w.vec(operands[last].(target.VReg))}
	for _, x := range operands[:last] {
		args = append(args, w.vec(x.(target.VReg)))
	}
	w.Emit(name, args...)
}

// LoadElements implements [target.Writer]. It loads n adjacent elements.
func (w *Writer) LoadElements(addr target.Addr, n int, to target.VReg) {
	bytes := n * w.elem.Bytes()
	w.Emit("ldr", lowBytes(to, bytes), w.mem(addr, bytes))
}

// FMAElement implements [target.Writer].
func (w *Writer) FMAElement(x target.Element, y, sum target.VReg) {
	w.Emit("fmla", w.vec(sum), w.vec(y), w.vec(x.Reg).Lane(x.Lane))
}

// Dot implements [target.Writer].
func (w *Writer) Dot(x target.Element, y, sum target.VReg, isSigned bool) {
	name := "sudot" // y has the signed bytes, x the unsigned ones
	if isSigned {
		name = "sdot"
	}
	w.Emit(name, w.vec(sum), w.vec(y).As(asm.B), asm.Lane{Num: int(x.Reg), Elem: asm.B, Index: x.Lane, Group: 4})
}

// ToFloats implements [target.Writer].
func (w *Writer) ToFloats(v target.VReg) { w.Emit("scvtf", w.vec(v), w.vec(v)) }

// FMABroadcast implements [target.Writer].
func (w *Writer) FMABroadcast(target.Addr, target.VReg, target.VReg) {
	w.Fail(errors.New("arm64: FMABroadcast is not supported: fmla has no operand in memory"))
}

// FMAForms returns the encoding of sum + x*y, or of sum - x*y if negate is set. The sources are x, y and sum.
func FMAForms(negate bool) []alloc.Form {
	name := "fmla"
	if negate {
		name = "fmls"
	}
	return []alloc.Form{{Name: name, Tied: 2, Order: [2]int8{0, 1}}} // the result overwrites source 2
}

// FMA implements [target.Writer].
func (w *Writer) FMA(x target.Source, y, sum target.VReg) {
	w.Emit("fmla", w.vec(sum), w.vec(y), w.vec(w.vectorRegister(x)))
}

// Permutation implements [target.Writer]. tbl selects bytes, so each word has the indices of four bytes.
func (w *Writer) Permutation(indices []int, to target.VReg) {
	var data []byte
	for _, index := range indices {
		for k := range 4 {
			data = append(data, byte(4*index+k))
		}
	}
	w.loadSource(target.Constant(data), to)
}

// AddToIndices implements [target.Writer]. Adding n to the index of a word adds 4*n to the indices of its bytes.
func (w *Writer) AddToIndices(n int, permutation target.VReg) {
	byteIndices, difference := asm.V(int(permutation), asm.B), asm.V(int(vectorTemp), asm.B)
	w.Emit("movi", difference, asm.Imm(4*n))
	w.Emit("add", byteIndices, byteIndices, difference)
}

// Permute implements [target.Writer]. It loads a vector and permutes its words.
func (w *Writer) Permute(addr target.Addr, permutation, to target.VReg) {
	w.Load(addr, to, wholeVector)
	x := asm.V(int(to), asm.B)
	w.Emit("tbl", x, asm.Regs(x, 1), asm.V(int(permutation), asm.B))
}

// Return implements [target.Writer].
func (w *Writer) Return() { w.Emit("ret") }

// Finish implements [target.Writer].
func (w *Writer) Finish() (jit.Code, error) {
	if err := w.Err(); err != nil {
		return jit.Code{}, err
	}
	return jit.Finish(&w.Assembler)
}
