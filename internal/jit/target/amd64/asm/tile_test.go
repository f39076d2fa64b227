package asm

import (
	"encoding/hex"
	"strings"
	"testing"
)

// TestTiles compares the instructions of the matrix unit, which Go's assembler does not support, with bytes from GNU's
// assembler (binutils 2.40).
func TestTiles(t *testing.T) {
	seen := map[string]bool{}
	for _, tc := range []struct {
		name string
		args []Arg
		want string
	}{
		{"LDTILECFG", []Arg{Mem{Base: R10, Index: AX, Scale: 1, Disp: 64}}, "c4c27849440240"},
		{"LDTILECFG", []Arg{Mem{Base: BX, Disp: -128}}, "c4e278494380"},
		{"LDTILECFG", []Arg{Mem{Base: SI, Index: DI, Scale: 1}}, "c4e27849043e"},
		{"LDTILECFG", []Arg{Mem{Base: DI}}, "c4e2784907"},
		{"TILERELEASE", nil, "c4e27849c0"},
		{"TILEZERO", []Arg{Tile(0)}, "c4e27b49c0"},
		{"TILEZERO", []Arg{Tile(5)}, "c4e27b49e8"},
		{"TILEZERO", []Arg{Tile(7)}, "c4e27b49f8"},
		{"TILELOADD", []Arg{Mem{Base: BP, Index: R11, Scale: 2}, Tile(5)}, "c4a27b4b6c5d00"},
		{"TILELOADD", []Arg{Mem{Base: BX, Index: R10, Scale: 1, Disp: 1193046}, Tile(3)}, "c4a27b4b9c1356341200"},
		{"TILELOADD", []Arg{Mem{Base: R15, Index: SI, Scale: 8, Disp: 1193046}, Tile(7)}, "c4c27b4bbcf756341200"},
		{"TILELOADD", []Arg{Mem{Base: R11, Index: DX, Scale: 2, Disp: 127}, Tile(1)}, "c4c27b4b4c537f"},
		{"TILELOADD", []Arg{Mem{Base: R9, Index: SI, Scale: 8, Disp: 1193046}, Tile(4)}, "c4c27b4ba4f156341200"},
		{"TILELOADD", []Arg{Mem{Base: DX, Index: DX, Scale: 4}, Tile(2)}, "c4e27b4b1492"},
		{"TILELOADD", []Arg{Mem{Base: R15, Index: R11, Scale: 1, Disp: 128}, Tile(5)}, "c4827b4bac1f80000000"},
		{"TILESTORED", []Arg{Tile(3), Mem{Base: DI, Index: DX, Scale: 2, Disp: 64}}, "c4e27a4b5c5740"},
		{"TILESTORED", []Arg{Tile(2), Mem{Base: AX, Disp: 4096}}, "c4e27a4b942000100000"},
		{"TILESTORED", []Arg{Tile(5), Mem{Base: R8, Index: DI, Scale: 4, Disp: 127}}, "c4c27a4b6cb87f"},
		{"TILESTORED", []Arg{Tile(0), Mem{Base: SP, Disp: 1193046}}, "c4e27a4b842456341200"},
		{"TILESTORED", []Arg{Tile(1), Mem{Base: R14, Index: DI, Scale: 8, Disp: 1193046}}, "c4c27a4b8cfe56341200"},
		{"TILESTORED", []Arg{Tile(7), Mem{Base: R15, Index: CX, Scale: 2, Disp: 128}}, "c4c27a4bbc4f80000000"},
		{"TILESTORED", []Arg{Tile(0), Mem{Base: BP, Index: AX, Scale: 1}}, "c4e27a4b440500"},
		{"TDPBUSD", []Arg{Tile(3), Tile(4), Tile(2)}, "c4e2615ed4"},
		{"TDPBUSD", []Arg{Tile(2), Tile(5), Tile(4)}, "c4e2695ee5"},
		{"TDPBUSD", []Arg{Tile(0), Tile(6), Tile(4)}, "c4e2795ee6"},
		{"TDPBUSD", []Arg{Tile(4), Tile(5), Tile(0)}, "c4e2595ec5"},
	} {
		a := Assembler{NoEVEX: true, WithListing: true}
		a.Emit(tc.name, tc.args...)
		if got := hex.EncodeToString(a.code); a.err != nil || got != tc.want {
			t.Errorf("%s: %s, want %s (%v)", formatInstruction(tc.name, tc.args), got, tc.want, a.err)
		}
		if text := a.Listing(); !strings.HasPrefix(text, "\t"+tc.name) {
			t.Errorf("%q", text)
		}
		seen[tc.name] = true
	}
	for i := range tileRows {
		if !seen[tileRows[i].name] {
			t.Errorf("%s was not compared", tileRows[i].name)
		}
	}
}

// TestTilesRefused checks that operands that raise an exception are rejected.
func TestTilesRefused(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []Arg
		want string
	}{
		{"TDPBUSD", []Arg{Tile(1), Tile(2), Tile(1)}, "different tile registers"},
		{"TDPBUSD", []Arg{Tile(1), Tile(1), Tile(2)}, "different tile registers"},
		{"TILEZERO", []Arg{Tile(8)}, "the tile registers are 0 to 7"},
		{"TILEZERO", []Arg{Z(1)}, "no form"},
		{"TILELOADD", []Arg{Mem{constant: true}, Tile(1)}, "no form"},
	} {
		var a Assembler
		a.Emit(tc.name, tc.args...)
		if a.err == nil || !strings.Contains(a.err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", formatInstruction(tc.name, tc.args), a.err, tc.want)
		}
	}
}
