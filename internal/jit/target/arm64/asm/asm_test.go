package asm

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/forms.txt with the bytes of llvm-mc")

// patterns are lists of operands, a letter each; see sample.
var patterns = strings.Fields("vvv vv vvz vvf vvl WNN WWN NW WN wv vs Wt Svv Sbb Sbg Shh " +
	"Shk Spp vvvi vTv vl vx vy ll lx ly sl xl " +
	"yl sv tv vvi WNi NWi vj vjq vm vF xs ys sx sy ss st sss stt xA yA sA ssA xxA yyA RA rA jA xxj yyj xj " +
	"yj xxx yyy xxxq yyyq xx yy xxm yym xm ym xm xjq yjq xxxx yyyy xxi yyi xxxC yyyC BA E")

// sample returns an operand for a letter of a pattern.
func sample(rng *rand.Rand, letter rune, e Elem, half bool) Arg {
	num := rng.IntN(32)
	vec := func(e Elem, half bool) Vec { return Vec{Num: num, Elem: e, Half: half} }
	switch letter {
	case 'v':
		return vec(e, half)
	case 'W':
		return vec(min(e+1, D), false)
	case 'w':
		return vec(min(e+1, D), half)
	case 'N':
		return vec(e, half)
	case 'S':
		return vec(S, half)
	case 'b':
		return vec(B, half)
	case 'h':
		return vec(H, half)
	case 'p':
		return HalfPrecision{num, half}
	case 'l':
		return Lane{Num: num % 16, Elem: e, Index: rng.IntN(16 / e.Bytes())}
	case 'g':
		return Lane{Num: num, Elem: B, Index: rng.IntN(4), Group: 4}
	case 'k':
		return Lane{Num: num, Elem: H, Index: rng.IntN(4), Group: 2}
	case 'z':
		return Imm(0)
	case 'f':
		return Float(0)
	case 'F':
		return Float(float64(16+rng.IntN(16)) / 16 * []float64{-8, -.125, 1, 16}[rng.IntN(4)])
	case 'i':
		return Imm(1 + rng.IntN(7))
	case 'j':
		return Imm(rng.IntN(32))
	case 'q':
		return Shift([]int{0, 8, 16}[rng.IntN(3)])
	case 'm':
		return Imm([]int64{0xFF00FF, 0xFF << 8, -256, 0x3FC, 0x0F0F0F0F0F0F0F0F, 1, 0xFFFF00000000FF}[rng.IntN(7)])
	case 's':
		return Scalar{num, e}
	case 't':
		return Scalar{num, (e + 1) % 4}
	case 'x':
		return X(num % 31)
	case 'y':
		return W(num % 31)
	case 'C':
		return Cond(rng.IntN(14))
	case 'T':
		return Regs(vec(B, false), 1+rng.IntN(4))
	case 'R':
		return Regs(vec(e, half), 1+rng.IntN(4))
	case 'B':
		return Regs(vec(e, half), 1)
	case 'r':
		return List{First: vec(e, false), Count: 1, Lane: rng.IntN(16 / e.Bytes())}
	}
	m := Mem{Base: Reg(num), Offset: 8 * rng.IntN(8)}
	switch rng.IntN(6) {
	case 0:
		m.Offset = 0
	case 1:
		m.Mode = PostIndex
		m.Offset = 16 * (1 + rng.IntN(4))
	case 2:
		m.Mode = PreIndex
		m.Offset = -m.Offset
	case 3:
		m.Offset, m.HasIndex, m.Index = 0, true, X(rng.IntN(31))
		m.Shift = rng.IntN(2) * int(e)
	case 4:
		m.Offset = -8 * (1 + rng.IntN(8))
	}
	return m
}

// operands returns the operands of a pattern.
func operands(rng *rand.Rand, pattern string, e Elem, half bool) (args []Arg) {
	if pattern == "E" {
		return nil
	}
	for _, letter := range pattern {
		args = append(args, sample(rng, letter, e, half))
	}
	return args
}

// draw returns operands that the row accepts, with their code; ok is false if 20 attempts find none.
func draw(rng *rand.Rand, r *row, pattern string, e Elem, half bool) (args []Arg, word uint32, ok bool) {
	for range 20 {
		args = operands(rng, pattern, e, half)
		if word, ok = r.encode(&Assembler{}, r, args); ok {
			return args, word, true
		}
	}
	return nil, 0, false
}

// forms returns instructions of all mnemonics with all kinds of operands that the assembler accepts, with their bytes.
func forms(t *testing.T) (texts, codes []string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	found := map[string]bool{}
	for _, table := range tables {
		for i := range table {
			r := &table[i]
			if branches[r.name] {
				continue
			}
			accepted := 0
			for _, pattern := range patterns {
				for e := B; e <= Q; e++ {
					for _, half := range []bool{false, true} {
						args, word, ok := draw(rng, r, pattern, e, half)
						if !ok {
							continue
						}
						accepted++
						if text := formatInstruction(r.name, args); !found[text] {
							found[text] = true
							texts = append(texts, text)
							codes = append(codes, hex.EncodeToString(binary.LittleEndian.AppendUint32(nil, word)))
						}
					}
				}
			}
			assert.True(t, accepted > 0 || r.name == "ldr" && r.code == 0x18000000, "%s %#x", r.name, r.code)
		}
	}
	return texts, codes
}

// branches are the mnemonics with a label or the address of a constant, which TestBranches covers.
var branches = map[string]bool{"b": true, "b.eq": true, "b.ne": true, "b.hs": true, "b.lo": true, "b.mi": true,
	"b.pl": true, "b.hi": true, "b.ls": true, "b.ge": true, "b.lt": true, "b.gt": true, "b.le": true, "cbz": true,
	"cbnz": true, "tbz": true, "tbnz": true, "adr": true}

// TestForms compares the bytes of all forms with those of llvm-mc.
func TestForms(t *testing.T) {
	texts, codes := forms(t)
	const file = "testdata/forms.txt"
	if *update {
		require.NoError(t, os.WriteFile(file, assembled(t, texts), 0o644))
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	want := map[string]string{}
	for l := range strings.Lines(string(data)) {
		code, text, _ := strings.Cut(strings.TrimSpace(l), " ")
		want[text] = code
	}
	require.Len(t, want, len(texts))
	for i, text := range texts {
		require.Equal(t, want[strings.ReplaceAll(text, "\t", " ")], codes[i], text)
	}
}

// assembled returns the lines of testdata/forms.txt.
func assembled(t *testing.T, texts []string) []byte {
	t.Helper()
	command := exec.Command("llvm-mc", "-triple=aarch64", "-show-encoding",
		"-mattr=+v8.6a,+fullfp16,+fp16fml,+bf16,+i8mm,+dotprod")
	command.Stdin = strings.NewReader(strings.Join(texts, "\n") + "\n")
	var errors bytes.Buffer
	command.Stderr = &errors
	out, err := command.Output()
	require.NoError(t, err, errors.String())
	var lines []string
	for l := range strings.Lines(string(out)) {
		if _, code, ok := strings.Cut(l, "encoding: ["); ok {
			code = strings.NewReplacer("0x", "", ",", "", "]", "", "\n", "").Replace(code)
			lines = append(lines, code)
		}
	}
	require.Len(t, lines, len(texts))
	var b bytes.Buffer
	for i, text := range texts {
		fmt.Fprintln(&b, lines[i], strings.ReplaceAll(text, "\t", " "))
	}
	return b.Bytes()
}

// TestBranches checks branches forwards and backwards, and the addresses of constants, against bytes of llvm-mc.
func TestBranches(t *testing.T) {
	a := Assembler{WithListing: true}
	top, end := a.NewLabel(), a.NewLabel()
	a.Emit("cbz", X(1), end)
	a.Bind(top)
	a.Emit("ldr", Scalar{3, Q}, a.Constant(bytes.Repeat([]byte{7}, 16)))
	a.Emit("ldr", Scalar{4, S}, a.Constant([]byte{1, 2, 3, 4}))
	a.Emit("adr", X(5), a.Constant([]byte{1, 2, 3, 4}))
	a.Emit("tbnz", X(2), Imm(33), top)
	for _, c := range []string{"eq", "ne", "hs", "lo", "mi", "pl", "hi", "ls", "ge", "lt", "gt", "le"} {
		a.Emit("b."+c, top)
	}
	a.Emit("tbz", W(2), Imm(3), end)
	a.Emit("cbnz", W(9), top)
	a.Emit("b", end)
	a.Bind(end)
	a.Emit("ret")
	code, err := a.Finish()
	require.NoError(t, err)
	var words []string
	for i := 0; i < len(code); i += 4 {
		words = append(words, fmt.Sprintf("%08x", binary.LittleEndian.Uint32(code[i:])))
	}
	assert.Equal(t, strings.Fields("b4000281 9c0002e3 1c000344 10000325 b70fffa2 54ffff80 "+
		"54ffff61 54ffff42 54ffff23 54ffff04 "+
		"54fffee5 54fffec8 54fffea9 54fffe8a 54fffe6b 54fffe4c 54fffe2d 36180062 35fffde9 14000001 "+
		"d65f03c0 00000000 00000000 00000000 07070707 07070707 07070707 07070707 04030201"), words)
	assert.Contains(t, a.Listing(), "L0:\n\tldr\tq3, constants+0\n")
}

// TestMistakes checks that the first error is returned, with the instruction.
func TestMistakes(t *testing.T) {
	far := func(a *Assembler) {
		l := a.NewLabel()
		a.Bind(l)
		for range 1 << 14 {
			a.Emit("nop")
		}
		a.Emit("tbz", X(1), Imm(0), l)
	}
	unbound := func(a *Assembler) { a.Emit("b", a.NewLabel()) }
	for want, write := range map[string]func(a *Assembler){
		"asm: fadd\tv1.4s, v2.2d, v3.4s: no form of the instruction accepts these operands": func(a *Assembler) {
			a.Emit("fadd", V(1, S), V(2, D), V(3, S))
			a.Emit("nonsense")
		},
		"asm: nonsense: the assembler does not know the instruction":          func(a *Assembler) { a.Emit("nonsense") },
		"asm: L0: the label is not bound":                                     unbound,
		"asm: L3:: NewLabel did not return the label":                         func(a *Assembler) { a.Bind(3) },
		"asm: .byte\t#0: a constant must have 1 to 4096 bytes":                func(a *Assembler) { a.Constant(nil) },
		"asm: .balign\t#3: the alignment must be a power of two from 4 to 64": func(a *Assembler) { a.Align(3) },
		"asm: the code is too long: a branch or load cannot reach its target": far,
		"asm: ldrsb\tx33, [x1]: no form of the instruction accepts these operands": func(a *Assembler) {
			a.Emit("ldrsb", X(33), Mem{Base: X(1)})
		},
		"asm: ldr\tx33, constants+0: no form of the instruction accepts these operands": func(a *Assembler) {
			a.Emit("ldr", X(33), a.Constant(make([]byte, 8)))
		},
	} {
		var a Assembler
		write(&a)
		_, err := a.Finish()
		assert.EqualError(t, err, want)
	}
}
