package jit

import (
	"math"
	"testing"

	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
	"github.com/graphrun/graphrun/internal/machine"
)

// adderAMD64 returns the code of [adder] for amd64.
func adderAMD64(t testing.TB, c float32) []byte {
	t.Helper()
	a := asm.Assembler{NoEVEX: true}
	bits := math.Float32bits(c)
	constant := a.Constant([]byte{byte(bits), byte(bits >> 8), byte(bits >> 16), byte(bits >> 24)})
	a.Emit("MOVQ", asm.Mem{Base: asm.DI, Disp: OffsetPtr}, asm.SI)
	a.Emit("MOVQ", asm.Mem{Base: asm.DI, Disp: OffsetPtr + 8}, asm.DX)
	a.Emit("MOVQ", asm.Mem{Base: asm.DI, Disp: OffsetInnerCount}, asm.CX)
	a.Emit("VBROADCASTSS", constant, asm.Y(1))
	top, rest, one, end := a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel()
	a.Emit("XORL", asm.AX, asm.AX)
	a.Bind(top)
	a.Emit("LEAQ", asm.Mem{Base: asm.AX, Disp: 8}, asm.BX)
	a.Emit("CMPQ", asm.BX, asm.CX)
	a.Emit("JGT", rest)
	a.Emit("VADDPS", asm.Mem{Base: asm.SI, Index: asm.AX, Scale: 4}, asm.Y(1), asm.Y(2))
	a.Emit("VMOVUPS", asm.Y(2), asm.Mem{Base: asm.DX, Index: asm.AX, Scale: 4})
	a.Emit("MOVQ", asm.BX, asm.AX)
	a.Emit("JMP", top)
	a.Bind(rest)
	a.Align(16)
	a.Bind(one)
	a.Emit("CMPQ", asm.AX, asm.CX)
	a.Emit("JGE", end)
	a.Emit("VADDSS", asm.Mem{Base: asm.SI, Index: asm.AX, Scale: 4}, asm.X(1), asm.X(2))
	a.Emit("VMOVSS", asm.X(2), asm.Mem{Base: asm.DX, Index: asm.AX, Scale: 4})
	a.Emit("INCQ", asm.AX)
	a.Emit("JMP", one)
	a.Bind(end)
	a.Emit("VZEROUPPER")
	a.Emit("RET")
	code, err := a.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// clobberAMD64 returns code that changes all registers that code may use.
func clobberAMD64(t testing.TB) []byte {
	t.Helper()
	wide := machine.HostFeatures().Has(machine.Vector512)
	a := asm.Assembler{NoEVEX: !wide}
	for r := asm.AX; r <= asm.R15; r++ {
		if r != asm.SP && r != asm.BP {
			a.Emit("MOVQ", asm.Imm(-7777777777), r)
		}
	}
	a.Emit("VPCMPEQD", asm.Y(0), asm.Y(0), asm.Y(0))
	for i := range 16 {
		a.Emit("VMOVUPS", asm.Y(0), asm.Y(i))
	}
	if wide {
		for i := range 32 {
			a.Emit("VPTERNLOGD", asm.Imm(255), asm.Z(0), asm.Z(0), asm.Z(i))
		}
		for k := asm.K1; k <= asm.K7; k++ {
			a.Emit("KXNORQ", asm.K0, asm.K0, k)
		}
	}
	a.Emit("VZEROUPPER")
	a.Emit("RET")
	code, err := a.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// spillAMD64 returns code that writes to the end of the spill area, and its aligned address to Args.InnerCount.
func spillAMD64(t testing.TB) []byte {
	t.Helper()
	var a asm.Assembler
	a.Emit("LEAQ", asm.Mem{Base: asm.DI, Disp: OffsetSpill + 63}, asm.SI)
	a.Emit("ANDQ", asm.Imm(-64), asm.SI)
	a.Emit("MOVQ", asm.SI, asm.Mem{Base: asm.DI, Disp: OffsetInnerCount})
	a.Emit("MOVB", asm.SI, asm.Mem{Base: asm.SI, Disp: SpillBytes - 1})
	a.Emit("RET")
	code, err := a.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return code
}
