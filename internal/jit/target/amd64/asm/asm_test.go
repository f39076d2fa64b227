package asm

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// TestUnknownToGo compares instructions that Go's assembler does not support with bytes from LLVM's assembler.
func TestUnknownToGo(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []Arg
		want string
	}{
		{"VCVTNEPS2BF16", []Arg{Z(1), Y(2)}, "62f27e4872d1"},
		{"VCVTNEPS2BF16", []Arg{Mem{Base: AX, Disp: 64}, K3.Zero(), Y(20)}, "62e27ecb726001"},
		{"VCVTNEPS2BF16", []Arg{Mem{Base: DI, Broadcast: true}, Y(1)}, "62f27e58720f"},
		{"VCVTNEPS2BF16X", []Arg{Mem{Base: R12, Index: CX, Scale: 4, Disp: 8, Broadcast: true}, K1, X(31)},
			"62427e19727c8c02"},
		{"VCVTNEPS2BF16Y", []Arg{Mem{Base: R13, Disp: 32}, X(9)}, "62527e28724d01"},
		{"VCVTNEPS2BF16Y", []Arg{Y(17), X(30)}, "62227e2872f1"},
		{"VPDPBUSD", []Arg{Y(1), Y(2), Y(3)}, "c4e26d50d9"}, // of AVX-VNNI; Go's assembler has only the EVEX encoding
		{"VPDPBUSD", []Arg{Y(15), Y(9), Y(12)}, "c4423550e7"},
		{"VPDPBUSD", []Arg{Mem{Base: AX, Disp: 64}, Y(2), Y(13)}, "c4626d506840"},
		{"VPDPBUSD", []Arg{Mem{Base: R12, Index: CX, Scale: 4, Disp: 8}, X(10), X(1)}, "c4c229504c8c08"},
	} {
		a := Assembler{NoEVEX: tc.name == "VPDPBUSD"}
		a.Emit(tc.name, tc.args...)
		if got := hex.EncodeToString(a.code); a.err != nil || got != tc.want {
			t.Errorf("%s: %s, want %s (%v)", formatInstruction(tc.name, tc.args), got, tc.want, a.err)
		}
	}
}

// TestJumps binds labels before and after jumps, within and beyond the range of short jumps.
func TestJumps(t *testing.T) {
	a := Assembler{WithListing: true}
	top, end := a.NewLabel(), a.NewLabel()
	a.Emit("JEQ", end)
	a.Bind(top)
	a.Emit("DECQ", CX)
	a.Emit("JNE", top) // short: from 11 back to 6
	a.Emit("JMP", top)
	for range 119 {
		a.Emit("RET")
	}
	a.Emit("JGT", top) // the longest short jump
	a.Emit("JMP", top) // too far for a short jump
	a.Emit("JMP", end)
	a.Bind(end)
	a.Emit("RET")
	code, err := a.Finish()
	if err != nil {
		t.Fatal(err)
	}
	want := "0f848a000000" + "48ffc9" + "75fb" + "ebf9" + strings.Repeat("c3", 119) +
		"7f80" + "e97bffffff" + "e900000000" + "c3"
	if got := hex.EncodeToString(code); got != want {
		t.Errorf("\n%s, want\n%s", got, want)
	}
	if text := a.Listing(); !strings.HasPrefix(text, "\tJEQ\tL1\nL0:\n\tDECQ\tCX\n\tJNE\tL0\n") {
		t.Errorf("%s", text)
	}
}

// TestConstants checks that constants follow the code, are aligned and stored once, and that references reach them.
func TestConstants(t *testing.T) {
	a := Assembler{WithListing: true}
	one, two := a.Constant([]byte{1, 0, 0, 0}), a.Constant(bytes.Repeat([]byte{2}, 16))
	if again := a.Constant([]byte{1, 0, 0, 0}); again != one {
		t.Errorf("%v, then %v", one, again)
	}
	one.Broadcast = true
	a.Emit("VPADDD", one, Z(1), Z(2))
	a.Emit("VPSHUFD", Imm(7), two, X(3)) // one byte follows the address
	a.Emit("RET")
	code, err := a.Finish()
	if err != nil {
		t.Fatal(err)
	}
	want := "62f17558fe15" + "36000000" + "c5f9701d" + "3d000000" + "07" + "c3" + strings.Repeat("cc", 44) +
		"01000000" + strings.Repeat("00", 12) + strings.Repeat("02", 16)
	if got := hex.EncodeToString(code); got != want {
		t.Errorf("\n%s, want\n%s", got, want)
	}
	text := a.Listing()
	for _, part := range []string{
		"\tVPADDD.BCST\tconst<>+0(SB), Z1, Z2\n", "\tVPSHUFD\t$7, const<>+16(SB), X3\n",
		"DATA const<>+16(SB)/4, $0x02020202\n", "GLOBL const<>(SB), RODATA, $32\n",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

// TestAlign checks the instructions that Align appends.
func TestAlign(t *testing.T) {
	for n := range 64 {
		var a Assembler
		for range n {
			a.Emit("RET")
		}
		a.Align(32)
		if a.Len()%32 != 0 || a.Len() >= n+32 || a.err != nil {
			t.Errorf("%d bytes became %d (%v)", n, a.Len(), a.err)
		}
	}
	for i, s := range nops {
		if i+1 != len(s) {
			t.Errorf("entry %d has %d bytes", i, len(s))
		}
	}
}

// TestMistakes checks that the first of several errors is returned, with the instruction.
func TestMistakes(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []Arg
		want string
	}{
		{"VADPS", []Arg{X(1), X(2), X(3)}, "VADPS\tX1, X2, X3: the assembler does not know"},
		{"VADDPS", []Arg{X(1), Y(2), X(3)}, "no form"},
		{"VADDPS", []Arg{X(1), X(2)}, "no form"},
		{"VADDPS", []Arg{X(1), nil, X(2)}, "missing"},
		{"VADDPS", []Arg{X(1), X(2), K0, X(2)}, "no form"},            // K0 is no mask for writing
		{"VMOVUPS", []Arg{Z(1), K1.Zero(), Mem{Base: AX}}, "no form"}, // memory cannot be zeroed
		{"VADDSS", []Arg{Mem{Base: AX, Broadcast: true}, X(1), X(2)}, "no form"},
		{"VPADDB", []Arg{Mem{Base: AX, Broadcast: true}, Z(1), Z(2)}, "no form"},
		{"VMOVD", []Arg{AX, K1, X(2)}, "no form"},
		{"VGATHERDPS", []Arg{VMem{Base: AX, Index: Z(1), Scale: 4}, Z(2)}, "no form"}, // without a mask
		{"VGATHERDPS", []Arg{VMem{Base: AX, Index: Z(1), Scale: 4}, K1, Z(1)}, "different registers"},
		{"VGATHERDPS", []Arg{VMem{Base: AX, Index: Z(1)}, K1, Z(2)}, "no scale"},
		{"VSHUFPS", []Arg{Imm(256), X(1), X(2), X(3)}, "no form"},
		{"MOVQ", []Arg{Mem{Base: AX, Index: SP, Scale: 1}, BX}, "SP cannot be an index"},
		{"MOVQ", []Arg{Mem{Base: AX, Index: BX, Scale: 3}, BX}, "cannot be encoded"},
		{"MOVQ", []Arg{Mem{Base: 16}, BX}, "cannot be encoded"},
		{"MOVQ", []Arg{Reg(16), BX}, "the general registers are 0 to 15"},
		{"KMOVW", []Arg{Mask(9), AX}, "the mask registers are 0 to 7|no form"},
		{"ADDQ", []Arg{Imm(1 << 40), AX}, "no form"},
		{"ADDQ", []Arg{AX, K1, BX}, "no form"},
		{"ADDQ", []Arg{Mem{Base: AX, Broadcast: true}, BX}, "no form"},
		{"JMP", []Arg{Label(3)}, "NewLabel did not return"},
		{"RET", []Arg{AX}, "no form"},
		{"RET", []Arg{AX, AX, AX, AX, AX, AX, AX}, "too many"},
	} {
		var a Assembler
		a.Emit(tc.name, tc.args...)
		a.Emit("NONSENSE")
		_, err := a.Finish()
		if err == nil || !anyOf(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	for name, f := range map[string]func(*Assembler){
		"not bound":               func(a *Assembler) { a.Emit("JMP", a.NewLabel()) },
		"bound twice":             func(a *Assembler) { l := a.NewLabel(); a.Bind(l); a.Bind(l) },
		"NewLabel did not return": func(a *Assembler) { a.Bind(7) },
		"1 to 4096":               func(a *Assembler) { a.Constant(nil) },
		"power of":                func(a *Assembler) { a.Align(3) },
	} {
		var a Assembler
		f(&a)
		if _, err := a.Finish(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

func anyOf(s, wants string) bool {
	for w := range strings.SplitSeq(wants, "|") {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// TestNoEVEX checks that NoEVEX rejects what AVX2 does not support.
func TestNoEVEX(t *testing.T) {
	for _, args := range [][]Arg{
		{X(1), X(2), X(16)}, {Z(1), Z(2), Z(3)}, {X(1), X(2), K1, X(3)}, {Mem{Base: AX, Broadcast: true}, X(1), X(2)},
	} {
		a := Assembler{NoEVEX: true}
		if a.Emit("VADDPS", args...); a.err == nil {
			t.Errorf("%s: % x", formatInstruction("VADDPS", args), a.code)
		}
	}
	a := Assembler{NoEVEX: true}
	if a.Emit("VADDPS", Y(1), Y(2), Y(15)); a.err != nil {
		t.Error(a.err)
	}
}

func BenchmarkEmit(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var a Assembler
		for range 100 {
			a.Emit("VFMADD231PS", Mem{Base: AX, Index: CX, Scale: 4, Disp: 64}, Z(1), Z(2))
		}
	}
}
