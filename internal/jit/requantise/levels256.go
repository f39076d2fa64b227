package requantise

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/graphrun/graphrun/internal/jit/asm"
)

// Levels256 emits what [Levels] does, for vectors of 256 bits without masks. Few registers are left beside sums, so
// that what is kept is in memory.
type Levels256 struct {
	Signed      bool
	Add         asm.Mem // 32 bytes: the zero point, as words without a sign
	Temp        asm.Vec // overwritten
	least, most asm.Mem
}

// Begin writes what is kept; point is where the zero point is.
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

// Level makes the sums in a register levels, without the zero point if that has no sign. NaN becomes the least level,
// which without a sign is 0 in the end, and with one is cleared.
func (l *Levels256) Level(a *asm.Assembler, v asm.Vec, scale asm.Arg) {
	a.Emit("VMULPS", scale, v, v)
	if l.Signed {
		a.Emit("VCMPPS", asm.Imm(7), v, v, l.Temp)
	}
	a.Emit("VMAXPS", l.least, v, v) // of NaN and another number, that is taken
	a.Emit("VMINPS", l.most, v, v)
	a.Emit("VCVTPS2DQ", v, v)
	if l.Signed {
		a.Emit("VPADDD", l.Add, v, v)
		a.Emit("VPAND", l.Temp, v, v)
	}
}

// Pack packs levels of four registers into bytes in the first, as those of [Levels]: of each 16 bytes four are of each
// register. The first and the third are overwritten.
func (l *Levels256) Pack(a *asm.Assembler, v [4]asm.Vec) { pack(a, v, l.Signed, l.Add) }

// Order256 loads the order of doublewords by which the bytes of each register that was packed come together.
func Order256(a *asm.Assembler, to asm.Vec) {
	order := make([]byte, 0, 32)
	for i := range uint32(8) {
		order = binary.LittleEndian.AppendUint32(order, i%2*4+i/2)
	}
	a.Emit("VMOVDQU", a.Constant(order), to)
}
