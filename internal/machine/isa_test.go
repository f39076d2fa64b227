package machine

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestInstructions lowers the level from outside, in a process of its own.
func TestInstructions(t *testing.T) {
	if os.Getenv("PRINT_ISA") != "" {
		os.Stdout.WriteString("isa=" + Instructions().String() + "\n")
		return
	}
	t.Logf("this process: %v", Instructions()) // make avx2 looks for it
	for _, tc := range []struct {
		debug string
		most  ISA
	}{{"", AVX512}, {"cpu.avx512f=off", AVX2}, {"cpu.avx2=off", Portable}} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestInstructions$")
		cmd.Env = append(os.Environ(), "PRINT_ISA=1", "GODEBUG="+os.Getenv("GODEBUG")+","+tc.debug)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if want := "isa=" + min(Instructions(), tc.most).String() + "\n"; !strings.Contains(string(out), want) {
			t.Errorf("GODEBUG=%s: %q, want %q", tc.debug, out, want)
		}
	}
}

// TestMultipliesBytes leaves out the instructions for products of bytes from outside, in a process of its own.
func TestMultipliesBytes(t *testing.T) {
	print := func() string {
		return fmt.Sprintf("bytes=%v,%v\n", AVX2.MultipliesBytes(), AVX512.MultipliesBytes())
	}
	if os.Getenv("PRINT_ISA") != "" {
		os.Stdout.WriteString(print())
		return
	}
	t.Log(print())
	if Portable.MultipliesBytes() || AVX512.MultipliesBytes() && Instructions() < AVX512 {
		t.Error("vectors that are not used multiply bytes")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestMultipliesBytes$")
	cmd.Env = append(os.Environ(), "PRINT_ISA=1", "GODEBUG="+os.Getenv("GODEBUG")+",cpu.avxvnni=off,cpu.avx512vnni=off")
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), "bytes=false,false\n") {
		t.Errorf("%q, %v", out, err)
	}
}
