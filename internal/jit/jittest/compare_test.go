//go:build linux || darwin

package jittest

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit/vector"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// binaryLoop returns a loop with one operation on two operands.
func binaryLoop(t *testing.T, o expr.Op, d tensor.DType, folds bool) *expr.Loop {
	b := expr.NewBuilder(d, d)
	v := b.Emit(o, b.Load(0), b.Load(1))
	c, err := b.Build(b.Real(v))
	if err != nil {
		t.Fatal(err)
	}
	l := &expr.Loop{Code: c, Uniform: []bool{false, false}}
	if folds {
		l.Folds = []expr.Fold{{Op: expr.Max, Value: c.Out[0].Re}}
	}
	return l
}

// TestComparisonDetects compares the code of one operation with the interpreter of another: every part of Check must
// fail.
func TestComparisonDetects(t *testing.T) {
	cpu := InstructionSets(t, machine.Portable)[0]
	b := NewComparison(t)
	for _, folds := range []bool{false, true} {
		for _, d := range []tensor.DType{tensor.Int8, tensor.Float32, tensor.Int64} {
			right, wrong := binaryLoop(t, expr.Max, d, folds), binaryLoop(t, expr.Min, d, folds)
			if err := b.Check(right, cpu); err != nil {
				t.Fatal(err)
			}
			for name, part := range map[string]func() error{"values": b.checkEdgeCases, "addresses": b.checkAddresses,
				"shared": b.checkSharedMemory, "long": func() error { return b.checkLongRows(cpu) }} {
				if err := part(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if err := b.interpretLoop(wrong); err != nil {
					t.Fatal(err)
				}
				if part() == nil {
					t.Errorf("%s of %v, folds %v: the code of max passes for that of min", name, d, folds)
				}
				if err := b.interpretLoop(right); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	calls := expr.NewBuilder(tensor.Float32)
	inGo := &expr.Func{Name: "lgamma", ArgCount: 1, F: func(x, _, _ float64) float64 { y, _ := math.Lgamma(x); return y }}
	c, err := calls.Build(calls.Real(calls.Call(inGo, tensor.Float32, calls.Load(0))))
	if err != nil {
		t.Fatal(err)
	}
	l := &expr.Loop{Code: c, Uniform: []bool{false}}
	if _, err := vector.Compile(l, cpu, vector.Options{}); err == nil {
		t.Error("no error for an unsupported function")
	}
}

// TestGuardedDies accesses a byte before and after guarded memory, in separate processes.
func TestGuardedDies(t *testing.T) {
	if where := os.Getenv("TOUCH"); where != "" {
		m := Guarded(t, 100)
		at := -1
		if where == "behind" {
			at = len(m)
		}
		m[0], m[len(m)-1] = 1, 1
		*(*byte)(unsafe.Add(unsafe.Pointer(&m[0]), at)) = 1
		return
	}
	for _, where := range []string{"before", "behind"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestGuardedDies$")
		cmd.Env = append(os.Environ(), "TOUCH="+where)
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.ENOEXEC) {
			t.Skip("an emulator does not execute programs of its processor")
		}
		if err == nil || !strings.Contains(string(out), "fault") {
			t.Errorf("%s: %v\n%s", where, err, out)
		}
	}
}

// TestCheckRules checks code that violates the rules.
func TestCheckRules(t *testing.T) {
	const end, endARM64 = "\tVZEROUPPER\n\tRET\n", "\tret\n"
	if err := CheckRules(machine.AVX2, "\tMOVQ\tAX, CX\n"+end+"DATA const<>+0(SB)/4, $0\n"); err != nil {
		t.Error(err)
	}
	valid := "\tb.eq\tL1\nL1:\n\tadd\tx19, x2, #18\n" + endARM64 + "constants:\n\t.word\t0x0\n"
	if err := CheckRules(machine.NEON, valid); err != nil {
		t.Error(err)
	}
	for _, code := range []string{"\tbl\tL1\n" + endARM64, "\tblr\tx1\n" + endARM64, "\tldr\tx1, [sp]\n" + endARM64,
		"\tmov\tx18, x1\n" + endARM64, "\tadd\tw28, w1, #4\n" + endARM64, "\tmov\tx30, x1\n" + endARM64,
		"\tret\n" + endARM64, "\tnop\n"} {
		if CheckRules(machine.NEON, code) == nil {
			t.Errorf("no error for %s", code)
		}
	}
	for _, code := range []string{"\tCALL\tAX\n" + end, "\tMOVQ\tAX, SP\n" + end, "\tADDQ\t8(BP)(AX*4), CX\n" + end,
		"\tVLDMXCSR\t(AX)\n" + end, "\tRET\n" + end, "\tRET\n"} {
		if CheckRules(machine.AVX2, code) == nil {
			t.Errorf("no error for %s", code)
		}
	}
}
