// Package requantize generates machine code that converts sums of int32 to quantized bytes, 64 at a time, for AVX-512.
//
// A sum is converted to float32, multiplied by the scale of its column, rounded to nearest even, and added to the zero
// point with saturation. NaN becomes 0.
package requantize

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/machine"
)

// Columns is the number of columns that the code processes.
const Columns = 64

// Operands: indices into Ptr of [jit.Args]. Operand k starts Row[k] bytes after Ptr[k]. Scales are float32, and the
// zero point is an int32. Args.Rows is the number of rows, at least 1.
const (
	Out = iota
	Sums
	Scales
	ZeroPoint
)

// Indices into Step of [jit.Args].
const (
	ColumnMask = iota // bit mask of the columns
	NextOut           // bytes between rows of the result
	NextSums
)

// CallRows bounds the number of rows of a call, so that the call takes less than 50 us.
const CallRows = 1 << 10

// clampLimit is a quantized value that saturates with any zero point, and is far from the bounds of int32.
const clampLimit = 1 << 20

// Levels emits code that converts sums to quantized values and packs the values into bytes with saturation. The caller
// chooses the registers.
type Levels struct {
	Signed    bool     // the bytes are signed
	MaxLevel  asm.Vec  // register for clampLimit
	ZeroPoint asm.Vec  // register for the zero point: 32-bit elements for signed bytes, else 16-bit elements
	Ordered   asm.Mask // overwritten: the mask of lanes without NaN, for signed bytes
	minLevel  asm.Mem
}

// Begin emits the loads of the constants. point is the address of the zero point.
func (l *Levels) Begin(a *asm.Assembler, point asm.Mem) {
	lanes := func(v float32) asm.Mem {
		return a.Constant(bytes.Repeat(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)), 16))
	}
	if l.Signed {
		l.minLevel = lanes(-clampLimit)
		a.Emit("VPBROADCASTD", point, l.ZeroPoint)
	} else {
		a.Emit("VPBROADCASTW", point, l.ZeroPoint)
	}
	a.Emit("VMOVUPS", lanes(clampLimit), l.MaxLevel)
}

// Level converts the sums in register v to quantized values. For unsigned bytes, Pack adds the zero point later. Values
// below the range of int32, and NaN, become the minimum of int32.
func (l *Levels) Level(a *asm.Assembler, v asm.Vec, scale asm.Arg) {
	a.Emit("VMULPS", scale, v, v)
	a.Emit("VMINPS", v, l.MaxLevel, v) // NaN is preserved
	if !l.Signed {
		a.Emit("VCVTPS2DQ", v, v)
		return
	}
	a.Emit("VCMPPS", asm.Imm(7), v, v, l.Ordered)
	a.Emit("VMAXPS", l.minLevel, v, v)
	a.Emit("VCVTPS2DQ", v, v)
	a.Emit("VPADDD", l.ZeroPoint, v, l.Ordered.Zero(), v)
}

// Pack packs the quantized values of four registers into bytes of the first register. Each 16 bytes hold four values of
// each register. Pack overwrites the first and third registers. For unsigned bytes, zero points are added to 16-bit
// elements, with saturation.
func (l *Levels) Pack(a *asm.Assembler, v [4]asm.Vec) { pack(a, v, l.Signed, l.ZeroPoint) }

// pack implements Pack of [Levels] and [Levels256]. zeroPoint has 16-bit elements, in a register or in memory. It is
// unused for signed bytes.
func pack(a *asm.Assembler, v [4]asm.Vec, signed bool, zeroPoint asm.Arg) {
	a.Emit("VPACKSSDW", v[1], v[0], v[0])
	a.Emit("VPACKSSDW", v[3], v[2], v[2])
	if signed {
		a.Emit("VPACKSSWB", v[2], v[0], v[0])
		return
	}
	a.Emit("VPADDSW", zeroPoint, v[0], v[0])
	a.Emit("VPADDSW", zeroPoint, v[2], v[2])
	a.Emit("VPACKUSWB", v[2], v[0], v[0])
}

// Order loads the permutation of doublewords that makes the bytes of each packed register contiguous.
func Order(a *asm.Assembler, to asm.Vec) {
	order := make([]byte, 0, 64)
	for i := range uint32(16) {
		order = binary.LittleEndian.AppendUint32(order, i%4*4+i/4)
	}
	a.Emit("VMOVUPS", a.Constant(order), to)
}

// Compile generates the code for signed or unsigned bytes, or returns existing code. Calls do not modify their
// arguments, and access only the columns in ColumnMask.
func Compile(signed bool, cpu machine.Features) (*jit.Func, error) {
	if !cpu.Has(machine.Vector512) {
		return nil, fmt.Errorf("requantize: no machine code for %v", cpu)
	}
	return jit.Lookup(fmt.Sprintf("requantize signed %v", signed), func(list bool) (jit.Code, error) {
		a := &asm.Assembler{List: list}
		emit(a, signed)
		return jit.Finish(a)
	})
}

// emit writes the function. Masks K2 to K5 are for the quarters of the columns.
func emit(a *asm.Assembler, signed bool) {
	const out, sums, scales, rows, nextOut, nextSums = asm.DX, asm.SI, asm.BX, asm.R8, asm.R9, asm.R10
	field := func(offset int32, k int) asm.Mem { return asm.Mem{Base: asm.DI, Disp: offset + int32(8*k)} }
	operand := func(k int, to asm.Reg) {
		a.Emit("MOVQ", field(jit.OffsetPtr, k), to)
		a.Emit("ADDQ", field(jit.OffsetRow, k), to)
	}
	operand(Out, out)
	operand(Sums, sums)
	operand(Scales, scales)
	operand(ZeroPoint, asm.AX)
	l := &Levels{Signed: signed, MaxLevel: asm.Z(8), ZeroPoint: asm.Z(9), Ordered: asm.K6}
	l.Begin(a, asm.Mem{Base: asm.AX})
	Order(a, asm.Z(10))
	a.Emit("KMOVQ", field(jit.OffsetStep, ColumnMask), asm.K1)
	quarter := func(q int) asm.Mask { return asm.K2 + asm.Mask(q) }
	scale := func(q int) asm.Vec { return asm.Z(4 + q) }
	for q := range 4 {
		a.Emit("KSHIFTRQ", asm.Imm(16*q), asm.K1, quarter(q))
		a.Emit("VMOVUPS", asm.Mem{Base: scales, Disp: int32(64 * q)}, quarter(q).Zero(), scale(q))
	}
	a.Emit("MOVQ", field(jit.OffsetStep, NextOut), nextOut)
	a.Emit("MOVQ", field(jit.OffsetStep, NextSums), nextSums)
	a.Emit("MOVQ", asm.Mem{Base: asm.DI, Disp: jit.OffsetRows}, rows)
	top := a.NewLabel()
	a.Align(32)
	a.Bind(top)
	for q := range 4 {
		a.Emit("VCVTDQ2PS", asm.Mem{Base: sums, Disp: int32(64 * q)}, quarter(q).Zero(), asm.Z(q))
		l.Level(a, asm.Z(q), scale(q))
	}
	l.Pack(a, [4]asm.Vec{asm.Z(0), asm.Z(1), asm.Z(2), asm.Z(3)})
	a.Emit("VPERMD", asm.Z(0), asm.Z(10), asm.Z(0))
	a.Emit("VMOVDQU8", asm.Z(0), asm.K1, asm.Mem{Base: out})
	a.Emit("ADDQ", nextOut, out)
	a.Emit("ADDQ", nextSums, sums)
	a.Emit("DECQ", rows)
	a.Emit("JNE", top)
	a.Emit("VZEROUPPER")
	a.Emit("RET")
}
