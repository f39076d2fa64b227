// Package asm assembles machine code for amd64: the instructions that loops over vectors are made of, for AVX2 with
// its companions FMA, F16C and BMI2, for AVX-512 (F, BW, DQ, VL, BF16) and for the matrix unit (AMX). It writes bytes
// and runs nothing, so it is there on every platform.
//
// Instructions are named, and take their operands in the order, as in Go's assembler: sources first, the destination
// last, a mask right before it. A table has one row for each form of an instruction, and one function encodes it: by
// VEX where all operands have a place in it, else by EVEX. What was assembled can be had as a text that Go's assembler
// takes, but for instructions that it does not know, and tests compare the bytes that it makes of it.
package asm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// Assembler collects instructions, constants and labels. The zero value is ready to use. Mistakes are kept, and the
// first is returned by [Assembler.Finish]. An Assembler belongs to one goroutine.
type Assembler struct {
	NoEVEX bool // AVX2 alone: no masks, no vectors of 512 bits or above 15
	List   bool // keep a listing

	code         []byte
	instructions int
	labels       []int // where they are, or -1
	jumps        []jump
	constants    []byte
	constantAt   map[string]int32
	constantRefs []constantRef
	listing      []string
	err          error
}

// jump is a distance that waits for its label.
type jump struct {
	at int // of the four bytes
	to Label
}

// constantRef is an address of a constant that waits for the end of the code.
type constantRef struct{ at, end int }

// poolName is what listings call the constants.
const poolName = "const<>"

// poolAlign is what the constants are aligned to behind the code: the length of the longest vector.
const poolAlign = 64

// constantBytes bounds a constant: tables have more than a vector.
const constantBytes = 4096

// Len returns how many bytes there are so far, constants aside.
func (a *Assembler) Len() int { return len(a.code) }

// Instructions returns how many of them there are so far.
func (a *Assembler) Instructions() int { return a.instructions }

// Emit appends an instruction. A jump to a label that was bound before takes two bytes where it reaches; others take
// five or six.
func (a *Assembler) Emit(name string, args ...Arg) {
	var ops, buf [6]operand
	if len(args) > len(ops) {
		a.fail(name, args, "too many operands")
		return
	}
	for i, arg := range args {
		if arg == nil {
			a.fail(name, args, "an operand is missing")
			return
		}
		ops[i] = arg.operand()
		if why := ops[i].wrong(); why != "" {
			a.fail(name, args, why)
			return
		}
	}
	rows := rowsOf()[name]
	for i := range rows {
		if in, ok := rows[i].match(ops[:len(args)], buf[:0], a.NoEVEX); ok {
			if a.List {
				a.listing = append(a.listing, "\t"+line(name, args))
			}
			a.instructions++
			if len(args) == 1 && ops[0].kind == isLabel {
				a.jump(&rows[i], Label(ops[0].imm))
				return
			}
			if len(in.args) > 1 && in.clash() {
				a.fail(name, args, "indices, mask and destination of a gather are different registers")
			}
			if in.alike() {
				a.fail(name, args, "factors and sums are different tiles")
			}
			a.encode(&in)
			return
		}
	}
	why := "no form of it takes these operands"
	if len(rows) == 0 {
		why = "there is no such instruction"
	}
	a.fail(name, args, why)
}

func (a *Assembler) fail(name string, args []Arg, why string) {
	if a.err == nil {
		a.err = fmt.Errorf("asm: %s: %s", line(name, args), why)
	}
}

// jump appends a jump. A row has the opcode of the short form.
func (a *Assembler) jump(r *row, to Label) {
	if to < 0 || int(to) >= len(a.labels) {
		a.fail(r.name, []Arg{to}, "the label is not of this assembler")
		return
	}
	if at := a.labels[to]; at >= 0 {
		if d := at - len(a.code) - 2; d >= -128 {
			a.code = append(a.code, r.opcode(), byte(d))
			return
		}
	}
	if op := r.opcode(); op == 0xEB {
		a.code = append(a.code, 0xE9)
	} else {
		a.code = append(a.code, 0x0F, op+0x10)
	}
	a.jumps = append(a.jumps, jump{at: len(a.code), to: to})
	a.code = appendInt32(a.code, 0)
}

// NewLabel returns a label that is not bound yet.
func (a *Assembler) NewLabel() Label {
	a.labels = append(a.labels, -1)
	return Label(len(a.labels) - 1)
}

// Bind puts a label where the next instruction will be.
func (a *Assembler) Bind(l Label) {
	switch {
	case l < 0 || int(l) >= len(a.labels):
		a.fail(l.String()+":", nil, "the label is not of this assembler")
		return
	case a.labels[l] >= 0:
		a.fail(l.String()+":", nil, "the label is bound twice")
		return
	}
	a.labels[l] = len(a.code)
	if a.List {
		a.listing = append(a.listing, l.String()+":")
	}
}

// nops do nothing: entry i is one instruction of i+1 bytes.
var nops = [...]string{
	"\x90", "\x66\x90", "\x0f\x1f\x00", "\x0f\x1f\x40\x00", "\x0f\x1f\x44\x00\x00", "\x66\x0f\x1f\x44\x00\x00",
	"\x0f\x1f\x80\x00\x00\x00\x00", "\x0f\x1f\x84\x00\x00\x00\x00\x00", "\x66\x0f\x1f\x84\x00\x00\x00\x00\x00",
}

// Align fills up with instructions that do nothing, until the code's length is a multiple of n, a power of two up to
// 64.
func (a *Assembler) Align(n int) {
	if n < 1 || n > 64 || n&(n-1) != 0 {
		a.fail("PCALIGN", []Arg{Imm(n)}, "not a power of two up to 64")
		return
	}
	if a.List {
		a.listing = append(a.listing, fmt.Sprintf("\tPCALIGN\t$%d", n))
	}
	for need := -len(a.code) & (n - 1); need > 0; {
		k := min(need, len(nops))
		a.code = append(a.code, nops[k-1]...)
		need -= k
	}
}

// Constant puts data of 1 to 4096 bytes behind the code, once if it is asked for again, and returns its address. It is
// aligned to its length, rounded up to a power of two, and to 64 bytes where it has more.
func (a *Assembler) Constant(data []byte) Mem {
	if len(data) < 1 || len(data) > constantBytes {
		a.fail("DATA", []Arg{Imm(len(data))}, "constants have 1 to 4096 bytes")
		return Mem{}
	}
	at, ok := a.constantAt[string(data)]
	if !ok {
		align := min(1<<bits.Len(uint(len(data)-1)), poolAlign)
		a.constants = append(a.constants, make([]byte, -len(a.constants)&(align-1))...)
		at = int32(len(a.constants))
		a.constants = append(a.constants, data...)
		if a.constantAt == nil {
			a.constantAt = map[string]int32{}
		}
		a.constantAt[string(data)] = at
	}
	return Mem{Disp: at, constant: true}
}

// Finish returns the code, with its constants behind it, or the first mistake. It may be put at any address that is a
// multiple of 64. The assembler is used up.
func (a *Assembler) Finish() ([]byte, error) {
	for _, j := range a.jumps {
		to := a.labels[j.to]
		if to < 0 {
			a.fail(j.to.String(), nil, "the label is not bound")
			break
		}
		binary.LittleEndian.PutUint32(a.code[j.at:], uint32(int32(to-j.at-4)))
	}
	if a.err != nil {
		return nil, a.err
	}
	if len(a.constants) == 0 {
		return a.code, nil
	}
	pool := (len(a.code) + poolAlign - 1) &^ (poolAlign - 1)
	if pool+len(a.constants) > 1<<30 {
		return nil, errors.New("asm: the code is longer than jumps and addresses reach")
	}
	for _, ref := range a.constantRefs {
		at := int32(binary.LittleEndian.Uint32(a.code[ref.at:]))
		binary.LittleEndian.PutUint32(a.code[ref.at:], uint32(at+int32(pool-ref.end)))
	}
	for len(a.code) < pool {
		a.code = append(a.code, 0xCC) // would stop whoever ran into it
	}
	return append(a.code, a.constants...), nil
}

// Listing returns what was assembled so far in the syntax of Go's assembler, if List was set: a line for each
// instruction and each label, and the constants as data.
func (a *Assembler) Listing() string {
	var b strings.Builder
	for _, l := range a.listing {
		b.WriteString(l)
		b.WriteByte('\n')
	}
	if !a.List || len(a.constants) == 0 {
		return b.String()
	}
	data := append(a.constants[:len(a.constants):len(a.constants)], make([]byte, -len(a.constants)&3)...)
	for i := 0; i < len(data); i += 4 {
		fmt.Fprintf(&b, "DATA %s+%d(SB)/4, $%#08x\n", poolName, i, binary.LittleEndian.Uint32(data[i:]))
	}
	fmt.Fprintf(&b, "GLOBL %s(SB), RODATA, $%d\n", poolName, len(data))
	return b.String()
}

// line writes an instruction in the syntax of Go's assembler, where broadcast and zeroing are part of the name.
func line(name string, args []Arg) string {
	var b strings.Builder
	b.WriteString(name)
	var operands []string
	zero := false
	for _, arg := range args {
		switch o := arg.(type) {
		case Mem:
			if o.Broadcast {
				b.WriteString(".BCST")
			}
		case Mask:
			zero = zero || o&zeroing != 0
		}
		operands = append(operands, fmt.Sprint(arg))
	}
	if zero {
		b.WriteString(".Z")
	}
	if len(operands) > 0 {
		b.WriteString("\t" + strings.Join(operands, ", "))
	}
	return b.String()
}

func appendInt32(b []byte, v int32) []byte { return binary.LittleEndian.AppendUint32(b, uint32(v)) }
