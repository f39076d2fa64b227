//go:build linux || darwin

package jittest

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/goasm"
)

// maxPerForm is the maximum number of compared instructions of a form.
const maxPerForm = 6

// Forms collects instructions of listings (Add), at most maxPerForm of each form, and compares their encodings with
// those of Go's assembler (Check). A form is the set of properties that determine the encoding: the name, the kind and
// width of each register, the number of digits of its number and whether the number exceeds 15, and the kinds of
// addresses and constants. For example, VADDPS Z3, Z4, Z17 has the same form as VADDPS Z5, Z6, Z18, but not as VADDPS
// Z3, Z4, Z5.
type Forms struct {
	addedLines map[string]bool // by line of a listing
	counts     map[string]int  // by form: number of collected instructions
	lines      []string        // the collected instructions
}

// Operands in the listings of amd64. The groups of an address are its displacement, base, index and scale.
var (
	registers = strings.Fields("AX CX DX BX SP BP SI DI R8 R9 R10 R11 R12 R13 R14 R15") // by number
	vectorReg = regexp.MustCompile(`^([XYZ])([0-9]+)$`)
	maskReg   = regexp.MustCompile(`^K([0-7])$`)
	address   = regexp.MustCompile(`^(-?[0-9]*)\(([A-Z0-9]+)\)(?:\(([A-Z0-9]+)\*([1248])\))?$`)
	tiles     = regexp.MustCompile(`TILE|TMM`) // instructions and registers of AMX
	constant  = regexp.MustCompile(`^const<>\+[0-9]+\(SB\)$`)
)

// Add collects the instructions of a listing, except for jumps.
func (f *Forms) Add(listing string) {
	if f.addedLines == nil {
		f.addedLines, f.counts = map[string]bool{}, map[string]int{}
	}
	for line := range strings.Lines(listing) {
		line = strings.TrimSpace(line)
		name, operands, _ := strings.Cut(line, "\t")
		switch {
		// Labels, jumps and directives (also the next case) have no form.
		case line == "" || strings.HasSuffix(line, ":") || name[0] == 'J' || name == "PCALIGN":
		case strings.HasPrefix(name, "DATA ") || strings.HasPrefix(name, "GLOBL "):
		case f.addedLines[line]: // a repeated line
		default:
			f.addedLines[line] = true
			if form := name + formOf(operands); f.counts[form] < maxPerForm {
				f.counts[form]++
				f.lines = append(f.lines, line)
			}
		}
	}
}

// formOf returns the part of the form that depends on the operands.
func formOf(operands string) (form string) {
	for _, operand := range splitOperands(operands) {
		form += " "
		if match := vectorReg.FindStringSubmatch(operand); match != nil {
			exceeds15 := len(match[2]) > 1 && match[2] > "15" // texts of two digits compare as numbers
			form += match[1] + strconv.Itoa(len(match[2])) + strconv.FormatBool(exceeds15)
			continue
		}
		match := address.FindStringSubmatch(operand)
		switch {
		case maskReg.MatchString(operand):
			form += "K"
		case constant.MatchString(operand):
			form += "const"
		case match != nil:
			disp, _ := strconv.Atoi(match[1]) // the displacement: not encoded if 0, otherwise in one or four bytes
			form += fmt.Sprintf("%v%v", disp == 0, disp == int(int8(disp))) + match[2] + "*" + match[4]
		default:
			form += operand
		}
	}
	return form
}

// splitOperands returns the operands of an instruction.
func splitOperands(operands string) []string {
	if operands == "" {
		return nil
	}
	return strings.Split(operands, ", ")
}

// Check encodes the collected instructions by package asm, and compares the bytes with the code of Go's assembler. It
// returns the number of forms.
func (f *Forms) Check(t testing.TB) int {
	t.Helper()
	var lines []string
	var encoded [][]byte
	for _, line := range f.lines {
		if isIncomparable(line) {
			continue
		}
		var assembler asm.Assembler
		name, args, err := parseInstruction(&assembler, line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		assembler.Emit(name, args...)
		length := assembler.Len()
		code, err := assembler.Finish() // the instruction, then constants
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		lines, encoded = append(lines, "\t"+line), append(encoded, code[:length])
	}
	for index, want := range goasm.Assemble(t, lines) {
		if !equal(encoded[index], want, strings.Contains(lines[index], "const<>")) {
			t.Errorf("%s: % x, Go's assembler: % x", lines[index][1:], encoded[index], want)
		}
	}
	return len(f.counts)
}

// isIncomparable reports whether an instruction cannot be compared with Go's assembler. Go's assembler lacks some
// instructions, which the tests of package asm compare with another assembler. For constants with AX, it uses a shorter
// encoding that other registers lack.
func isIncomparable(line string) bool {
	return strings.HasPrefix(line, "VCVTNEPS2BF16") || tiles.MatchString(line) ||
		strings.Contains(line, "\t$") && strings.HasSuffix(line, ", AX")
}

// parseInstruction parses an instruction of a listing. It adds a constant to the assembler if the instruction has one.
func parseInstruction(assembler *asm.Assembler, line string) (name string, args []asm.Arg, err error) {
	name, operands, _ := strings.Cut(line, "\t")
	name, suffixes, _ := strings.Cut(name, ".") // ".Z" zeroes the elements outside the mask; ".BCST" broadcasts
	isZeroing, isBroadcast := strings.HasSuffix(suffixes, "Z"), strings.HasPrefix(suffixes, "BCST")
	for _, operand := range splitOperands(operands) {
		arg, err := parseOperand(assembler, operand, isZeroing, isBroadcast)
		if err != nil {
			return "", nil, err
		}
		args = append(args, arg)
	}
	return name, args, nil
}

// parseOperand parses an operand of an instruction. isZeroing applies to a mask, and isBroadcast to memory.
func parseOperand(assembler *asm.Assembler, operand string, isZeroing, isBroadcast bool) (asm.Arg, error) {
	if match := vectorReg.FindStringSubmatch(operand); match != nil {
		number, _ := strconv.Atoi(match[2])
		return map[string]func(int) asm.Vec{"X": asm.X, "Y": asm.Y, "Z": asm.Z}[match[1]](number), nil
	}
	if match := maskReg.FindStringSubmatch(operand); match != nil {
		mask := asm.Mask(match[1][0] - '0')
		if isZeroing {
			mask = mask.Zero()
		}
		return mask, nil
	}
	switch match := address.FindStringSubmatch(operand); {
	case operand[0] == '$':
		value, err := strconv.ParseInt(operand[1:], 0, 64)
		return asm.Imm(value), err
	case constant.MatchString(operand):
		constant := assembler.Constant([]byte{1})
		constant.Broadcast = isBroadcast
		return constant, nil
	case match != nil:
		disp, _ := strconv.Atoi(match[1])
		memory := asm.Mem{Base: register(match[2]), Disp: int32(disp), Broadcast: isBroadcast}
		if match[3] != "" {
			memory.Index, memory.Scale = register(match[3]), match[4][0]-'0'
		}
		return memory, nil
	case register(operand) <= asm.R15:
		return register(operand), nil
	}
	return nil, fmt.Errorf("the operand %q is not a register, an address or a constant", operand)
}

// register returns the register with a name. It returns a number above asm.R15 for an unknown name.
func register(name string) asm.Reg {
	for number, candidate := range registers {
		if candidate == name {
			return asm.Reg(number)
		}
	}
	return asm.R15 + 1
}

// equal compares two encodings. If hasConstant is true, four bytes of the instruction are the distance to a constant.
// Go's assembler leaves zeros there for the linker, so any distance is accepted.
func equal(encoded, want []byte, hasConstant bool) bool {
	if !hasConstant || len(encoded) != len(want) {
		return bytes.Equal(encoded, want)
	}
	for start := 0; start+4 <= len(want); start++ {
		if bytes.Equal(want[start:start+4], make([]byte, 4)) && bytes.Equal(encoded[:start], want[:start]) &&
			bytes.Equal(encoded[start+4:], want[start+4:]) {
			return true
		}
	}
	return false
}
