// Package asm assembles machine code for arm64 (A64). It has the instructions that vectorized loops need, with NEON and
// its extensions for half precision, dot products, 8-bit matrix products and bfloat16. The package only produces bytes
// and executes nothing, so it builds on every platform. Package jit maps the code into memory and calls it.
//
// An [Assembler] collects instructions ([Assembler.Emit]), labels and constants, and [Assembler.Finish] returns the
// code. Instructions have the mnemonics and the operand order of Arm's manual (DDI 0487): the destination first. A
// table has one or more rows for each mnemonic (rows_*.go). Emit chooses the first row that accepts the operands.
//
// [Assembler.Listing] returns the code in the syntax of GNU's and LLVM's assemblers. testdata/forms.txt has, for each
// row, an instruction as text and the bytes into which llvm-mc assembles the text.
package asm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// Assembler collects instructions, constants and labels. The zero value is ready to use. Methods record the first
// error, and [Assembler.Finish] returns it. An Assembler must not be used by several goroutines.
type Assembler struct {
	WithListing bool // records a listing: see Listing

	code         []byte
	labels       []int          // by label: its offset in the code; -1 before Bind
	branches     []branch       // branches to fill in
	constants    []byte         // the constants, which follow the code
	constantAt   map[string]int // by data of a constant: its offset in constants
	constantRefs []constantRef  // references to fill in
	listing      []string       // one line for each instruction and label
	err          error
}

// branch is a branch whose distance Finish fills in, when the label's address is known.
type branch struct {
	offset int // offset of the branch in the code
	label  Label
}

// constantRef is an instruction that addresses a constant relative to the program counter. Finish fills in the
// distance, when the length of the code is known.
type constantRef struct {
	offset   int // offset of the instruction in the code
	constant int // offset of the constant in constants
}

// poolAlign is the alignment of the constants, which follow the code, in bytes.
const poolAlign = 16

// maxConstantBytes is the maximum length of a constant in bytes.
const maxConstantBytes = 4096

// Len returns the length of the code so far in bytes, without constants.
func (a *Assembler) Len() int { return len(a.code) }

// Instructions returns the number of instructions so far.
func (a *Assembler) Instructions() int { return len(a.code) / 4 }

// Emit appends an instruction.
func (a *Assembler) Emit(name string, args ...Arg) {
	rows := rowsOf()[name]
	for i := range rows {
		r := &rows[i]
		word, ok := r.encode(a, r, args)
		if !ok {
			continue
		}
		if a.WithListing {
			a.listing = append(a.listing, "\t"+formatInstruction(name, args))
		}
		a.code = binary.LittleEndian.AppendUint32(a.code, word)
		return
	}
	if len(rows) == 0 {
		a.fail(name, args, "the assembler does not know the instruction")
		return
	}
	a.fail(name, args, "no form of the instruction accepts these operands")
}

// fail records the first error.
func (a *Assembler) fail(name string, args []Arg, reason string) {
	if a.err == nil {
		a.err = fmt.Errorf("asm: %s: %s", formatInstruction(name, args), reason)
	}
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

// Align appends instructions without effect until the length of the code is a multiple of `bytes`, a power of two from
// 4 to 64.
func (a *Assembler) Align(bytes int) {
	if bytes < 4 || bytes > 64 || bytes&(bytes-1) != 0 {
		a.fail(".balign", []Arg{Imm(bytes)}, "the alignment must be a power of two from 4 to 64")
		return
	}
	for len(a.code)%bytes != 0 {
		a.Emit("nop")
	}
}

// Constant stores data of 1 to 4096 bytes after the code and returns its address, for ldr and adr. Equal data is stored
// only once. The alignment is the length rounded up to a power of two, at most 16 bytes.
func (a *Assembler) Constant(data []byte) ConstantAddr {
	if len(data) < 1 || len(data) > maxConstantBytes {
		a.fail(".byte", []Arg{Imm(len(data))}, "a constant must have 1 to 4096 bytes")
		return ConstantAddr{}
	}
	offset, ok := a.constantAt[string(data)]
	if !ok {
		align := max(4, min(1<<bits.Len(uint(len(data)-1)), poolAlign))
		a.constants = append(a.constants, make([]byte, -len(a.constants)&(align-1))...)
		offset = len(a.constants)
		a.constants = append(a.constants, data...)
		if a.constantAt == nil {
			a.constantAt = map[string]int{}
		}
		a.constantAt[string(data)] = offset
	}
	return ConstantAddr{offset: offset}
}

// Finish returns the code followed by its constants, or the first error. The code may be placed at any address that is
// a multiple of 64. The assembler must not be used afterwards.
func (a *Assembler) Finish() ([]byte, error) {
	constantsStart := (len(a.code) + poolAlign - 1) &^ (poolAlign - 1) // offset of the first constant
	for _, branch := range a.branches {
		labelOffset := a.labels[branch.label]
		if labelOffset < 0 {
			a.fail(branch.label.String(), nil, "the label is not bound")
			break
		}
		a.displace(branch.offset, labelOffset-branch.offset)
	}
	for _, ref := range a.constantRefs {
		a.displace(ref.offset, constantsStart+ref.constant-ref.offset)
	}
	if a.err != nil {
		return nil, a.err
	}
	if len(a.constants) == 0 {
		return a.code, nil
	}
	for len(a.code) < constantsStart {
		a.code = append(a.code, 0, 0, 0, 0) // undefined: traps if executed
	}
	return append(a.code, a.constants...), nil
}

// displace adds a distance in bytes to the instruction at the given offset. The class of the instruction determines the
// field of the encoding that holds the distance:
//
//	b, bl                     distance/4 in bits 0 to 25
//	tbz, tbnz                 distance/4 in bits 5 to 18
//	b.cond, cbz, cbnz, ldr    distance/4 in bits 5 to 23
//	adr                       the low two bits of distance in bits 29 and 30, the others in bits 5 to 23
func (a *Assembler) displace(offset, distance int) {
	word := binary.LittleEndian.Uint32(a.code[offset:])
	width, shift := 19, 5 // of the field, in bits
	switch {
	case word>>26&0x1F == 0b00101: // b, bl
		width, shift = 26, 0
	case word>>25&0x3F == 0b011011: // tbz, tbnz
		width = 14
	case word>>24&0x1F == 0b10000: // adr
		if distance < -1<<20 || distance >= 1<<20 {
			a.err = errors.Join(a.err, errors.New("asm: a constant or label is more than 1 MiB away from its adr instruction"))
		}
		word |= uint32(distance)&3<<29 | uint32(distance>>2)&(1<<19-1)<<5
		binary.LittleEndian.PutUint32(a.code[offset:], word)
		return
	}
	instructions := distance / 4
	if instructions < -1<<(width-1) || instructions >= 1<<(width-1) {
		a.err = errors.Join(a.err, errors.New("asm: the code is too long: a branch or load cannot reach its target"))
	}
	binary.LittleEndian.PutUint32(a.code[offset:], word|uint32(instructions)&(1<<width-1)<<shift)
}

// Listing returns the code so far in the syntax of GNU's assembler, if WithListing is set. It has a line for each
// instruction and each label, and the constants as data.
func (a *Assembler) Listing() string {
	var text strings.Builder
	for _, listingLine := range a.listing {
		text.WriteString(listingLine + "\n")
	}
	if !a.WithListing || len(a.constants) == 0 {
		return text.String()
	}
	text.WriteString("constants:\n")
	data := append(a.constants[:len(a.constants):len(a.constants)], make([]byte, -len(a.constants)&3)...)
	for i := 0; i < len(data); i += 4 {
		fmt.Fprintf(&text, "\t.word\t%#08x\n", binary.LittleEndian.Uint32(data[i:]))
	}
	return text.String()
}

// formatInstruction formats an instruction in the syntax of GNU's assembler.
func formatInstruction(name string, args []Arg) string {
	var operands []string
	for _, arg := range args {
		operands = append(operands, fmt.Sprint(arg))
	}
	if len(operands) == 0 {
		return name
	}
	return name + "\t" + strings.Join(operands, ", ")
}
