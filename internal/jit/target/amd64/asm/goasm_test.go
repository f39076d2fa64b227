package asm

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/internal/jit/target/amd64/goasm"
)

// drawer draws random operands.
type drawer struct{ *rand.Rand }

func (d drawer) pick(n ...int) int { return n[d.IntN(len(n))] }

func (d drawer) reg() Reg { return Reg(d.IntN(16)) }

// vec draws a register of the given width; low registers can be encoded with VEX.
func (d drawer) vec(width uint8, low bool) Vec {
	n := d.IntN(16)
	if !low && d.IntN(2) == 0 {
		n += 16
	}
	return Vec(n | int(width)<<5)
}

func (d drawer) disp(unit int32) int32 {
	u := int(unit)
	return int32(d.pick(0, 0, 1, u, -u, 127, 128, -128, -129, 127*u, 128*u, -128*u, -129*u, 0x1234567, d.IntN(1<<20)))
}

func (d drawer) mem(unit int32, broadcast bool) Mem {
	m := Mem{Base: d.reg(), Disp: d.disp(unit), Broadcast: broadcast}
	switch d.IntN(6) {
	case 0, 1:
		m.Index, m.Scale = d.reg(), uint8(d.pick(1, 2, 4, 8))
		if m.Index == SP {
			m.Index = R12
		}
	case 2:
		m = Mem{constant: true, Broadcast: broadcast} // displacement 0, which Go's assembler leaves to the linker
	}
	return m
}

func (d drawer) imm(class byte) Imm {
	switch class {
	case '1':
		return 1
	case 'b':
		return Imm(d.pick(-128, -1, 0, 3, 127))
	case 'u':
		return Imm(d.IntN(256))
	case 'd':
		return Imm(d.pick(-1<<31, -129, -1, 1, 200, 1<<31-1))
	case 'w':
		return Imm(d.pick(0, 7, min(1<<31, math.MaxInt), min(1<<32, math.MaxInt)-1))
	}
	return Imm(d.Int64() - 1<<62)
}

// operands draws the operands of a row for a vector length; low operands can be encoded with VEX.
func (d drawer) operands(r *row, length uint8, vex bool) []Arg {
	var args []Arg
	broadcast := !vex && r.evex&bcst != 0 && d.IntN(2) == 0
	for i := range r.operandCount() {
		spec := r.args[3*i : 3*i+2]
		unit := int32(1)
		if !vex && r.evex != 0 {
			unit = r.dispUnitBytes(length, broadcast)
		}
		memory := spec[0] == 'M' || spec[0] == 'B' || spec[0] == 'm' && d.IntN(2) == 0
		switch {
		case memory:
			args = append(args, d.mem(unit, broadcast))
		case spec[0] == 'i':
			args = append(args, d.imm(spec[1]))
		case spec[0] == 'S':
			args = append(args, VMem{Base: d.reg(), Index: d.vec(widthOf(spec[1], length), vex),
				Scale: uint8(d.pick(1, 2, 4, 8)), Disp: d.disp(unit)})
		case spec[1] == 'g' || spec[1] == '1':
			args = append(args, d.reg())
		case spec[1] == 'k':
			args = append(args, Mask(d.IntN(8)))
		case spec[1] == 't':
			args = append(args, Tile(i))
		default:
			args = append(args, d.vec(widthOf(spec[1], length), vex))
		}
	}
	if vex || r.evex&noMask != 0 || r.code&legacy != 0 {
		return args
	}
	last := len(args) - 1
	gather := strings.Contains(r.args, "S")
	if d.IntN(2) == 0 || gather {
		k := Mask(1 + d.IntN(7))
		if _, ok := args[last].(Vec); ok && !gather && d.IntN(2) == 0 {
			k = k.Zero()
		}
		args = append(args[:last:last], k, args[last])
	}
	return args
}

// otherwise reports whether Go's assembler does not support an instruction, or chooses another, equally good encoding.
func otherwise(name string, args []Arg) bool {
	if strings.HasPrefix(name, "VCVTNEPS2BF16") { // see TestUnknownToGo
		return true
	}
	for i := range tileRows { // see TestTiles
		if tileRows[i].name == name {
			return true
		}
	}
	ax, imm := false, strings.HasPrefix(name, "TEST")
	for _, a := range args {
		ax = ax || a == Arg(AX)
		i, ok := a.(Imm)
		imm = imm || ok && int64(i) != int64(int8(i))
	}
	if _, alu := map[string]bool{"ADD": true, "SUB": true, "AND": true, "ORL": true, "ORQ": true, "XOR": true,
		"CMP": true, "TES": true}[name[:min(3, len(name))]]; alu && ax && imm {
		return true // a form without ModRM, only for AX
	}
	return false
}

// TestAgainstGo assembles every row with every vector length, with VEX and EVEX, with random operands, and compares the
// bytes with those that Go's assembler produces from the listing.
func TestAgainstGo(t *testing.T) {
	d := drawer{rand.New(rand.NewPCG(1, 2))}
	var lines []string
	var ours [][]byte
	used := map[*row]int{}
	try := func(r *row, args []Arg) {
		if otherwise(r.name, args) {
			used[r]++
			return
		}
		a := Assembler{WithListing: true}
		a.Emit(r.name, args...)
		if a.err != nil && strings.Contains(a.err.Error(), "gather") { // refused by Go's assembler as well
			return
		}
		if a.err != nil {
			t.Errorf("%v", a.err)
			return
		}
		used[emitted(r.name, args)]++
		lines = append(lines, a.listing[0])
		ours = append(ours, a.code)
	}
	for _, table := range tables {
		for i := range table {
			r := &table[i]
			if strings.HasPrefix(r.args, "j") || r.name == "VPDPBUSD" && r.evex == 0 {
				used[r]++ // TestJumps, TestUnknownToGo
				continue
			}
			draws := 24
			if r.args == "" {
				draws = 1
			}
			for length := range uint8(3) {
				for range draws {
					if r.code&legacy != 0 && length == 0 || r.vex>>length&1 != 0 {
						try(r, d.operands(r, length, true))
					}
					if r.evex>>length&1 != 0 {
						try(r, d.operands(r, length, false))
					}
				}
			}
		}
	}
	wrong := 0
	for i, want := range goasm.Assemble(t, lines) {
		if !bytes.Equal(ours[i], want) {
			if wrong++; wrong < 40 {
				t.Errorf("%s: % x, Go's assembler makes % x", lines[i][1:], ours[i], want)
			}
		}
	}
	if len(lines) < 20000 {
		t.Errorf("only %d lines were compared", len(lines))
	}
	t.Logf("%d of %d lines differ", wrong, len(lines))
	for _, table := range tables {
		for i := range table {
			if used[&table[i]] == 0 {
				t.Errorf("%s %s was not used", table[i].name, table[i].args)
			}
		}
	}
}

// emitted returns the row that an instruction is encoded by.
func emitted(name string, args []Arg) *row {
	var ops, buf [6]operand
	for i, a := range args {
		ops[i] = a.operand()
	}
	rows := rowsByName()[name]
	for i := range rows {
		if _, ok := rows[i].match(ops[:len(args)], buf[:0], false); ok {
			return &rows[i]
		}
	}
	return nil
}
