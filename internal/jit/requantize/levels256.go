package requantize

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/graphrun/graphrun/internal/jit/asm"
)

// Levels256 is [Levels] for 256-bit vectors without masks. Sums occupy most registers, so the constants are in memory.
// The zero point has elements of 32 bits for signed bytes, and of 16 bits for unsigned bytes.
type Levels256 struct {
	Signed             bool
	ZeroPoint          asm.Mem // 32 bytes of the caller's memory, which Begin fills with the zero point
	Temp               asm.Vec // overwritten
	minLevel, maxLevel asm.Mem
}

// Begin emits code that prepares the constants. point is the address of the zero point.
func (l *Levels256) Begin(a *asm.Assembler, point asm.Mem) {
	lanes := func(v float32) asm.Mem {
		return a.Constant(bytes.Repeat(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)), 8))
	}
	l.minLevel, l.maxLevel = lanes(-clampLimit), lanes(clampLimit)
	if l.Signed {
		a.Emit("VPBROADCASTD", point, l.Temp)
	} else {
		a.Emit("VPBROADCASTW", point, l.Temp)
	}
	a.Emit("VMOVDQU", l.Temp, l.ZeroPoint)
}

// Level quantizes the sums in register v. For unsigned bytes, Pack adds the zero point later, and NaN becomes the
// minimum. For signed bytes, the lane of a NaN is cleared.
func (l *Levels256) Level(a *asm.Assembler, v asm.Vec, scale asm.Arg) {
	a.Emit("VMULPS", scale, v, v)
	if l.Signed {
		a.Emit("VCMPPS", asm.Imm(7), v, v, l.Temp)
	}
	a.Emit("VMAXPS", l.minLevel, v, v) // returns the second operand if an operand is NaN
	a.Emit("VMINPS", l.maxLevel, v, v)
	a.Emit("VCVTPS2DQ", v, v)
	if l.Signed {
		a.Emit("VPADDD", l.ZeroPoint, v, v)
		a.Emit("VPAND", l.Temp, v, v)
	}
}

// Pack packs the quantized values of four registers into bytes of the first register, as [Levels.Pack] does. Pack
// overwrites the first and third registers.
func (l *Levels256) Pack(a *asm.Assembler, v [4]asm.Vec) { pack(a, v, l.Signed, l.ZeroPoint) }

// Order256 loads the permutation of doublewords that makes the bytes of each packed register contiguous.
func Order256(a *asm.Assembler, to asm.Vec) {
	order := make([]byte, 0, 32)
	for i := range uint32(8) {
		order = binary.LittleEndian.AppendUint32(order, i%2*4+i/2)
	}
	a.Emit("VMOVDQU", a.Constant(order), to)
}
