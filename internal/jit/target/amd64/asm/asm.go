// Package asm assembles machine code for amd64. It covers the instructions of vectorized loops. These are AVX2 with
// FMA, F16C and BMI2; AVX-512 (F, BW, DQ, VL, BF16 and VNNI); and the matrix unit (AMX). The package only produces
// bytes and executes nothing, so it builds on every platform. Package jit maps the code into memory and calls it.
//
// An [Assembler] collects instructions ([Assembler.Emit]), labels and constants, and [Assembler.Finish] returns the
// code. Instructions have the mnemonics and the operand order of Go's assembler: sources first, the destination last, a
// mask immediately before the destination. A table has one row for each form of an instruction (rows_*.go; the notation
// is explained at the type row). Emit chooses the first row that accepts the operands, and one function encodes it. The
// prefix is VEX if VEX can encode all operands, and EVEX if not.
//
// [Assembler.Listing] returns the code as source text for Go's assembler. The tests assemble this text with Go's
// assembler and compare the bytes. Go's assembler lacks AMX, VCVTNEPS2BF16, and VPDPBUSD with VEX. For these
// instructions, the tests compare with bytes from GNU's and LLVM's assemblers.
package asm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// Assembler collects instructions, constants and labels. The zero value is ready to use. Methods record the first
// error, and [Assembler.Finish] returns it. An Assembler must not be used by several goroutines. For example, this loop
// adds 8 floats in each of CX iterations:
//
//	loop := a.NewLabel()
//	a.Bind(loop)
//	a.Emit("VADDPS", Mem{Base: AX}, Y(1), Y(1)) // Y1 += the floats at AX
//	a.Emit("ADDQ", Imm(32), AX)
//	a.Emit("DECQ", CX)
//	a.Emit("JNE", loop)
type Assembler struct {
	NoEVEX      bool // restricts the code to AVX2: no masks, no 512-bit vectors, no vector registers above 15
	WithListing bool // records a listing: see Listing

	code         []byte
	instructions int
	labels       []int            // by label: its offset in the code; -1 before Bind
	jumps        []jump           // displacements to fill in
	constants    []byte           // the constants, which follow the code
	constantAt   map[string]int32 // by data of a constant: its offset in constants
	constantRefs []constantRef    // references to fill in
	listing      []string         // one line for each instruction and label
	err          error
}

// jump is a jump displacement that Finish fills in, when the label's address is known.
type jump struct {
	offset int // offset of the displacement, of four bytes
	label  Label
}

// constantRef is a reference to a constant that Finish fills in, when the length of the code is known. The reference
// is at `offset` in the code. It is relative to `end`, the offset of the instruction's end.
type constantRef struct{ offset, end int }

// poolName is the symbol of the constants, which form a pool after the code, in listings.
const poolName = "const<>"

// poolAlign is the alignment of the constants, which follow the code: the length of the longest vector.
const poolAlign = 64

// maxConstantBytes is the maximum length of a constant in bytes. Tables are longer than a vector.
const maxConstantBytes = 4096

// Len returns the length of the code so far in bytes, without constants.
func (a *Assembler) Len() int { return len(a.code) }

// Instructions returns the number of instructions so far.
func (a *Assembler) Instructions() int { return a.instructions }

// Emit appends an instruction. A backward jump over a short distance takes two bytes, and other jumps take five or six.
func (a *Assembler) Emit(name string, args ...Arg) {
	var operands, withoutMask [6]operand // withoutMask: memory for match
	if len(args) > len(operands) {
		a.fail(name, args, "too many operands")
		return
	}
	for i, arg := range args {
		if arg == nil {
			a.fail(name, args, "an operand is missing")
			return
		}
		operands[i] = arg.operand()
		if reason := operands[i].invalidReason(); reason != "" {
			a.fail(name, args, reason)
			return
		}
	}
	rows := rowsByName()[name]
	for i := range rows {
		if inst, ok := rows[i].match(operands[:len(args)], withoutMask[:0], a.NoEVEX); ok {
			if a.WithListing {
				a.listing = append(a.listing, "\t"+formatInstruction(name, args))
			}
			a.instructions++
			if len(args) == 1 && operands[0].kind == labelKind {
				a.appendJump(&rows[i], Label(operands[0].imm))
				return
			}
			if len(inst.args) > 1 && inst.repeatsRegister() {
				a.fail(name, args, "the indices, the mask and the destination of a gather must be different registers")
			}
			if inst.usesTileTwice() {
				a.fail(name, args, "the factors and the sums must be in different tile registers")
			}
			a.encode(&inst)
			return
		}
	}
	reason := "no form of the instruction accepts these operands"
	if len(rows) == 0 {
		reason = "the assembler does not know the instruction"
	}
	a.fail(name, args, reason)
}

// fail records the first error.
func (a *Assembler) fail(name string, args []Arg, reason string) {
	if a.err == nil {
		a.err = fmt.Errorf("asm: %s: %s", formatInstruction(name, args), reason)
	}
}

// appendJump appends a jump. The row has the opcode of the short form.
func (a *Assembler) appendJump(r *row, to Label) {
	if to < 0 || int(to) >= len(a.labels) {
		a.fail(r.name, []Arg{to}, "NewLabel did not return the label")
		return
	}
	if target := a.labels[to]; target >= 0 {
		if distance := target - len(a.code) - 2; distance >= -128 { // from the end of the jump, which has two bytes
			a.code = append(a.code, r.opcode(), byte(distance))
			return
		}
	}
	// The long form: JMP is E9, and the opcode of a conditional jump is 0F followed by the short opcode + 0x10.
	if opcode := r.opcode(); opcode == 0xEB {
		a.code = append(a.code, 0xE9)
	} else {
		a.code = append(a.code, 0x0F, opcode+0x10)
	}
	a.jumps = append(a.jumps, jump{offset: len(a.code), label: to})
	a.code = appendInt32(a.code, 0)
}

// NewLabel returns a new, unbound label.
func (a *Assembler) NewLabel() Label {
	a.labels = append(a.labels, -1)
	return Label(len(a.labels) - 1)
}

// Bind sets a label to the position of the next instruction.
func (a *Assembler) Bind(label Label) {
	switch {
	case label < 0 || int(label) >= len(a.labels):
		a.fail(label.String()+":", nil, "NewLabel did not return the label")
		return
	case a.labels[label] >= 0:
		a.fail(label.String()+":", nil, "the label is bound twice")
		return
	}
	a.labels[label] = len(a.code)
	if a.WithListing {
		a.listing = append(a.listing, label.String()+":")
	}
}

// nops are instructions without effect: entry i has i+1 bytes.
var nops = [...]string{
	"\x90", "\x66\x90", "\x0f\x1f\x00", "\x0f\x1f\x40\x00", "\x0f\x1f\x44\x00\x00", "\x66\x0f\x1f\x44\x00\x00",
	"\x0f\x1f\x80\x00\x00\x00\x00", "\x0f\x1f\x84\x00\x00\x00\x00\x00", "\x66\x0f\x1f\x84\x00\x00\x00\x00\x00",
}

// Align appends instructions without effect until the length of the code is a multiple of `bytes`, a power of two up to
// 64.
func (a *Assembler) Align(bytes int) {
	if bytes < 1 || bytes > 64 || bytes&(bytes-1) != 0 {
		a.fail("PCALIGN", []Arg{Imm(bytes)}, "the alignment must be a power of two up to 64")
		return
	}
	if a.WithListing {
		a.listing = append(a.listing, fmt.Sprintf("\tPCALIGN\t$%d", bytes))
	}
	for padding := -len(a.code) & (bytes - 1); padding > 0; {
		size := min(padding, len(nops))
		a.code = append(a.code, nops[size-1]...)
		padding -= size
	}
}

// Constant stores data of 1 to 4096 bytes after the code and returns its address. Equal data is stored only once. The
// alignment is the length rounded up to a power of two, at most 64 bytes.
func (a *Assembler) Constant(data []byte) Mem {
	if len(data) < 1 || len(data) > maxConstantBytes {
		a.fail("DATA", []Arg{Imm(len(data))}, "a constant must have 1 to 4096 bytes")
		return Mem{}
	}
	offset, ok := a.constantAt[string(data)]
	if !ok {
		align := min(1<<bits.Len(uint(len(data)-1)), poolAlign)
		a.constants = append(a.constants, make([]byte, -len(a.constants)&(align-1))...)
		offset = int32(len(a.constants))
		a.constants = append(a.constants, data...)
		if a.constantAt == nil {
			a.constantAt = map[string]int32{}
		}
		a.constantAt[string(data)] = offset
	}
	return Mem{Disp: offset, constant: true}
}

// Finish returns the code followed by its constants, or the first error. The code may be placed at any address that is
// a multiple of 64. The assembler must not be used afterwards.
func (a *Assembler) Finish() ([]byte, error) {
	for _, pending := range a.jumps {
		to := a.labels[pending.label]
		if to < 0 {
			a.fail(pending.label.String(), nil, "the label is not bound")
			break
		}
		binary.LittleEndian.PutUint32(a.code[pending.offset:], uint32(int32(to-pending.offset-4)))
	}
	if a.err != nil {
		return nil, a.err
	}
	if len(a.constants) == 0 {
		return a.code, nil
	}
	constantsStart := (len(a.code) + poolAlign - 1) &^ (poolAlign - 1) // offset of the first constant
	if constantsStart+len(a.constants) > 1<<30 {
		return nil, errors.New("asm: the code and its constants are too long: want at most 1 GiB, for 32-bit displacements")
	}
	for _, ref := range a.constantRefs {
		constant := int32(binary.LittleEndian.Uint32(a.code[ref.offset:])) // offset of the operand in constants
		binary.LittleEndian.PutUint32(a.code[ref.offset:], uint32(constant+int32(constantsStart-ref.end)))
	}
	for len(a.code) < constantsStart {
		a.code = append(a.code, 0xCC) // INT3: traps if executed
	}
	return append(a.code, a.constants...), nil
}

// Listing returns the code so far in the syntax of Go's assembler, if WithListing is set. It has a line for each
// instruction and each label, and the constants as data.
func (a *Assembler) Listing() string {
	var text strings.Builder
	for _, line := range a.listing {
		text.WriteString(line)
		text.WriteByte('\n')
	}
	if !a.WithListing || len(a.constants) == 0 {
		return text.String()
	}
	data := append(a.constants[:len(a.constants):len(a.constants)], make([]byte, -len(a.constants)&3)...)
	for i := 0; i < len(data); i += 4 {
		fmt.Fprintf(&text, "DATA %s+%d(SB)/4, $%#08x\n", poolName, i, binary.LittleEndian.Uint32(data[i:]))
	}
	fmt.Fprintf(&text, "GLOBL %s(SB), RODATA, $%d\n", poolName, len(data))
	return text.String()
}

// formatInstruction formats an instruction in the syntax of Go's assembler, in which broadcast and zeroing are suffixes
// of the mnemonic.
func formatInstruction(name string, args []Arg) string {
	var text strings.Builder
	text.WriteString(name)
	var operands []string
	isZeroing := false
	for _, arg := range args {
		switch operand := arg.(type) {
		case Mem:
			if operand.Broadcast {
				text.WriteString(".BCST")
			}
		case Mask:
			isZeroing = isZeroing || operand&zeroing != 0
		}
		operands = append(operands, fmt.Sprint(arg))
	}
	if isZeroing {
		text.WriteString(".Z")
	}
	if len(operands) > 0 {
		text.WriteString("\t" + strings.Join(operands, ", "))
	}
	return text.String()
}

// appendInt32 appends a little-endian number of 32 bits.
func appendInt32(b []byte, number int32) []byte {
	return binary.LittleEndian.AppendUint32(b, uint32(number))
}
