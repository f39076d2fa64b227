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
	t.Logf("this process: %v", Describe()) // make avx2 and make nounit look for it
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

// TestMultipliesMatrices leaves out the matrix unit from outside, in a process of its own.
func TestMultipliesMatrices(t *testing.T) {
	if os.Getenv("PRINT_ISA") != "" {
		fmt.Printf("matrices=%v\n", MultipliesMatrices())
		return
	}
	t.Logf("matrices=%v", MultipliesMatrices())
	if MultipliesMatrices() && Instructions() < AVX512 {
		t.Error("a matrix unit without vectors of AVX-512")
	}
	for _, debug := range []string{"cpu.amxint8=off", "cpu.amxtile=off", "cpu.avx512f=off"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMultipliesMatrices$")
		cmd.Env = append(os.Environ(), "PRINT_ISA=1", "GODEBUG="+os.Getenv("GODEBUG")+","+debug)
		if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), "matrices=false\n") {
			t.Errorf("GODEBUG=%s: %q, %v", debug, out, err)
		}
	}
}
