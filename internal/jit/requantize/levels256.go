package requantize

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/graphrun/graphrun/internal/jit/asm"
)

// Levels256 is [Levels] for 256-bit vectors without masks. Few registers are free beside sums, so constants are in
// memory.
type Levels256 struct {
	Signed      bool
	Add         asm.Mem // 32 bytes: the zero point, as 16-bit elements for unsigned bytes
	Temp        asm.Vec // overwritten
	least, most asm.Mem
}

// Begin writes the constants; point is the address of the zero point.
func (l *Levels256) Begin(a *asm.Assembler, point asm.Mem) {
	lanes := func(v float32) asm.Mem {
		return a.Constant(bytes.Repeat(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)), 8))
	}
	l.least, l.most = lanes(-farLevel), lanes(farLevel)
	if l.Signed {
		a.Emit("VPBROADCASTD", point, l.Temp)
	} else {
		a.Emit("VPBROADCASTW", point, l.Temp)
	}
	a.Emit("VMOVDQU", l.Temp, l.Add)
}

// Level converts the scaled sums in a register to quantized values, without the zero point for unsigned bytes. NaN
// becomes the least value, which is 0 for unsigned bytes, and is cleared for signed ones.
func (l *Levels256) Level(a *asm.Assembler, v asm.Vec, scale asm.Arg) {
	a.Emit("VMULPS", scale, v, v)
	if l.Signed {
		a.Emit("VCMPPS", asm.Imm(7), v, v, l.Temp)
	}
	a.Emit("VMAXPS", l.least, v, v) // returns the second operand if one is NaN
	a.Emit("VMINPS", l.most, v, v)
	a.Emit("VCVTPS2DQ", v, v)
	if l.Signed {
		a.Emit("VPADDD", l.Add, v, v)
		a.Emit("VPAND", l.Temp, v, v)
	}
}

// Pack packs quantized values of four registers into bytes in the first, as [Levels] does: each 16 bytes hold four of
// each register. It overwrites the first and third registers.
func (l *Levels256) Pack(a *asm.Assembler, v [4]asm.Vec) { pack(a, v, l.Signed, l.Add) }

// Order256 loads the permutation of doublewords that makes the bytes of each packed register contiguous.
func Order256(a *asm.Assembler, to asm.Vec) {
	order := make([]byte, 0, 32)
	for i := range uint32(8) {
		order = binary.LittleEndian.AppendUint32(order, i%2*4+i/2)
	}
	a.Emit("VMOVDQU", a.Constant(order), to)
}
