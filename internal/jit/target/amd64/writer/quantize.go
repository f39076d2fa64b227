package writer

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
)

// clampLimit is the greatest level (see [Quantizer]) that is not clamped. With any zero point, a greater level and
// clampLimit saturate to the same byte. The sum of clampLimit and a zero point does not overflow an int32.
const clampLimit = 1 << 20

// cmpOrdered is the predicate of VCMPPS for lanes in which no operand is NaN.
const cmpOrdered = 7

// Quantizer writes the conversion of int32 sums to quantized bytes:
//
//	level = roundToEven(float32(sum) * scale)
//	byte  = saturate(level + zero point), or 0 for NaN
//
// Begin loads the constants. ToLevels computes the levels of a register of sums, Pack packs four registers of levels
// into one of bytes, and Arrange sorts the bytes. NoEVEX restricts the Writer to AVX2; without it, the code uses
// AVX-512. Operands are in the order of Go's assembler, the result last.
//
// The zero point is added to int32 levels (signed bytes) or to levels packed to int16 (unsigned bytes). A NaN must give
// the byte 0:
//
//	bytes                zero point   level of NaN          byte of NaN
//	unsigned, AVX2       in Pack      -clampLimit           0, by saturation
//	unsigned, AVX-512    in Pack      the least int32       0, by saturation
//	signed               in ToLevels  set to 0 by a mask    0
type Quantizer struct {
	*Writer
	Signed bool // the bytes are signed

	// Used with AVX-512 only: registers for constants, and a mask register for the lanes that are not NaN.
	MaxLevel, ZeroPoint target.VReg
	NotNaN              asm.Mask
	// The methods use these fields with AVX2 only. Sums occupy most registers, so the constants are in memory.
	// A vector with the zero point in all lanes (32 bytes) is in jit.Args: ZeroPointWord is its first word. Temp is a
	// free register.
	ZeroPointWord target.ArgsWord
	Temp          target.VReg

	minLevel, maxLevel asm.Mem // the constants -clampLimit and clampLimit
}

// Begin loads the constants. zeroPoint is the address of the zero point.
func (q *Quantizer) Begin(zeroPoint target.Addr) {
	inAllLanes := func(v float32) asm.Mem {
		return q.Constant(bytes.Repeat(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)), q.vectorBytes/4))
	}
	loadZeroPoint := func(to target.VReg) {
		if q.Signed {
			q.Emit("VPBROADCASTD", Mem(zeroPoint), q.Vec(to))
		} else {
			q.Emit("VPBROADCASTW", Mem(zeroPoint), q.Vec(to))
		}
	}
	if q.NoEVEX {
		q.minLevel, q.maxLevel = inAllLanes(-clampLimit), inAllLanes(clampLimit)
		loadZeroPoint(q.Temp)
		q.Emit("VMOVDQU", q.Vec(q.Temp), Word(q.ZeroPointWord))
		return
	}
	if q.Signed { // ToLevels and Pack need no lower bound for unsigned bytes
		q.minLevel = inAllLanes(-clampLimit)
	}
	loadZeroPoint(q.ZeroPoint)
	q.Emit("VMOVUPS", inAllLanes(clampLimit), q.Vec(q.MaxLevel))
}

// ToLevels converts sums, already float32, to levels in the same register: it multiplies them by scales and rounds
// them. For signed bytes, ToLevels also adds the zero point; for unsigned bytes, Pack adds it.
func (q *Quantizer) ToLevels(sums target.VReg, scale target.Source) {
	levels := q.Vec(sums)
	q.Emit("VMULPS", q.vectorOperand(scale), levels, levels)
	switch {
	case q.NoEVEX:
		q.toLevels256(levels)
	case q.Signed:
		q.Emit("VMINPS", levels, q.Vec(q.MaxLevel), levels) // if levels is NaN, the result is levels, the first operand
		q.Emit("VCMPPS", asm.Imm(cmpOrdered), levels, levels, q.NotNaN)
		q.Emit("VMAXPS", q.minLevel, levels, levels)
		q.Emit("VCVTPS2DQ", levels, levels)
		q.Emit("VPADDD", q.Vec(q.ZeroPoint), levels, q.NotNaN.Zero(), levels) // 0 for NaN
	default: // values below the range of int32, and NaN, become the minimum of int32, which Pack saturates to 0
		q.Emit("VMINPS", levels, q.Vec(q.MaxLevel), levels)
		q.Emit("VCVTPS2DQ", levels, levels)
	}
}

// toLevels256 finishes ToLevels for AVX2. For signed bytes, NaN becomes 0. For unsigned bytes, it becomes -clampLimit,
// which Pack saturates to 0.
func (q *Quantizer) toLevels256(levels asm.Vec) {
	temp := q.Vec(q.Temp)
	if q.Signed {
		q.Emit("VCMPPS", asm.Imm(cmpOrdered), levels, levels, temp)
	}
	q.Emit("VMAXPS", q.minLevel, levels, levels) // if levels is NaN, the result is minLevel, the first operand
	q.Emit("VMINPS", q.maxLevel, levels, levels)
	q.Emit("VCVTPS2DQ", levels, levels)
	if q.Signed {
		q.Emit("VPADDD", Word(q.ZeroPointWord), levels, levels)
		q.Emit("VPAND", temp, levels, levels)
	}
}

// Pack packs the levels of four registers into bytes of the first register. Each 16 bytes hold four values of each
// register. Pack overwrites the first and third registers. For unsigned bytes, it adds the zero point to 16-bit
// elements, with saturation.
func (q *Quantizer) Pack(registers [4]target.VReg) {
	vecs := [4]asm.Vec{q.Vec(registers[0]), q.Vec(registers[1]), q.Vec(registers[2]), q.Vec(registers[3])}
	q.Emit("VPACKSSDW", vecs[1], vecs[0], vecs[0])
	q.Emit("VPACKSSDW", vecs[3], vecs[2], vecs[2])
	if q.Signed {
		q.Emit("VPACKSSWB", vecs[2], vecs[0], vecs[0])
		return
	}
	var zeroPoint asm.Arg = Word(q.ZeroPointWord)
	if !q.NoEVEX {
		zeroPoint = q.Vec(q.ZeroPoint)
	}
	q.Emit("VPADDSW", zeroPoint, vecs[0], vecs[0])
	q.Emit("VPADDSW", zeroPoint, vecs[2], vecs[2])
	q.Emit("VPACKUSWB", vecs[2], vecs[0], vecs[0])
}

// LoadOrder loads the permutation of [Quantizer.Arrange].
func (q *Quantizer) LoadOrder(to target.VReg) {
	order := make([]byte, 0, q.vectorBytes)
	blocks := q.vectorBytes / 16
	for i := range q.vectorBytes / 4 {
		// A packed register has blocks of 16 bytes. Each block has 4 words of 4 bytes, one from each source register.
		// In the result, the words of a source register are contiguous.
		register, block := i/blocks, i%blocks
		order = binary.LittleEndian.AppendUint32(order, uint32(block*4+register))
	}
	name := "VMOVUPS"
	if q.NoEVEX {
		name = "VMOVDQU" // has no EVEX encoding
	}
	q.Emit(name, q.Constant(order), q.Vec(to))
}

// Arrange permutes a packed register so that the bytes of each of its four source registers are contiguous: the result
// has a quarter for each source register.
func (q *Quantizer) Arrange(packed, order target.VReg) {
	q.Emit("VPERMD", q.Vec(packed), q.Vec(order), q.Vec(packed))
}

// The following methods convert a row of 64 columns of a matrix of sums. It is converted in four quarters of 16
// columns, with a mask and a register of scales for each quarter.
const (
	allColumnsMask = asm.K1         // a bit for each of the 64 columns
	columnMasks    = asm.K2         // the first of four masks
	columnScales   = target.VReg(4) // the first of four registers
)

// BeginColumns loads the mask of 64 columns, with a bit for each, and their scales into registers 4 to 7, with AVX-512.
func (q *Quantizer) BeginColumns(mask target.ArgsWord, scales target.GReg) {
	q.Emit("KMOVQ", Word(mask), allColumnsMask)
	for k := range 4 {
		quarter := columnMasks + asm.Mask(k)
		q.Emit("KSHIFTRQ", asm.Imm(16*k), allColumnsMask, quarter)
		q.Emit("VMOVUPS", asm.Mem{Base: Reg(scales), Disp: int32(64 * k)}, quarter.Zero(),
			q.Vec(columnScales+target.VReg(k)))
	}
}

// ConvertColumns converts the 64 int32 sums at the address sums to bytes. It stores the bytes of the columns that the
// mask selects at the address out. It uses registers 0 to 3.
func (q *Quantizer) ConvertColumns(sums, out target.GReg, order target.VReg) {
	for k := range target.VReg(4) {
		addr := asm.Mem{Base: Reg(sums), Disp: 64 * int32(k)}
		q.Emit("VCVTDQ2PS", addr, (columnMasks + asm.Mask(k)).Zero(), q.Vec(k))
		q.ToLevels(k, columnScales+k)
	}
	q.Pack([4]target.VReg{0, 1, 2, 3})
	q.Arrange(0, order)
	q.Emit("VMOVDQU8", q.Vec(0), allColumnsMask, asm.Mem{Base: Reg(out)}) // register 0 has the bytes
}
