package machine

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// printed returns the output of a test of this package in a process whose GODEBUG removes features. There the test
// prints a line.
func printed(t *testing.T, test, debug string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), "PRINT_FEATURES=1", "GODEBUG="+os.Getenv("GODEBUG")+","+debug)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestInstructions removes vector instructions by GODEBUG.
func TestInstructions(t *testing.T) {
	if os.Getenv("PRINT_FEATURES") != "" {
		fmt.Printf("name=%s\n", HostFeatures().Name())
		return
	}
	t.Logf("this process: %v", Describe()) // make avx2 and make nounit search the output for it
	for _, tc := range []struct {
		debug   string
		removed Features
	}{{"", 0}, {"cpu.avx512f=off", Vector512}, {"cpu.avx2=off", AVX512}} {
		want := "name=" + (HostFeatures() &^ tc.removed).Name() + "\n"
		if out := printed(t, "TestInstructions", tc.debug); !strings.Contains(out, want) {
			t.Errorf("GODEBUG=%s: %q, want %q", tc.debug, out, want)
		}
	}
}

// TestDotBytes removes the dot products of bytes by GODEBUG.
func TestDotBytes(t *testing.T) {
	line := fmt.Sprintf("dots=%v,%v\n", HostFeatures().Has(DotBytes256), HostFeatures().Has(DotBytes512))
	if os.Getenv("PRINT_FEATURES") != "" {
		os.Stdout.WriteString(line)
		return
	}
	t.Log(line)
	if Portable.HasByteDot() || HostFeatures().Has(DotBytes512) && !HostFeatures().Has(Vector512) {
		t.Error("a dot product without its vectors")
	}
	out := printed(t, "TestDotBytes", "cpu.avxvnni=off,cpu.avx512vnni=off")
	if !strings.Contains(out, "dots=false,false\n") {
		t.Errorf("%q", out)
	}
}

// TestMatrixUnit removes the matrix unit by GODEBUG.
func TestMatrixUnit(t *testing.T) {
	unit := HostWithUnit().Has(MatrixUnit)
	line := fmt.Sprintf("unit=%v\n", unit)
	if os.Getenv("PRINT_FEATURES") != "" {
		os.Stdout.WriteString(line)
		return
	}
	t.Log(line)
	if unit && !HostFeatures().Has(Vector512) {
		t.Error("a matrix unit without vectors of AVX-512")
	}
	for _, debug := range []string{"cpu.amxint8=off", "cpu.amxtile=off", "cpu.avx512f=off"} {
		if out := printed(t, "TestMatrixUnit", debug); !strings.Contains(out, "unit=false\n") {
			t.Errorf("GODEBUG=%s: %q", debug, out)
		}
	}
}

// TestFeatures checks the names and properties of sets of features.
func TestFeatures(t *testing.T) {
	wide := AVX512 | DotBytes256
	for _, tc := range []struct {
		set           Features
		name, text    string
		dots, narrows bool
	}{
		{Portable, "portable", "portable", false, false},
		{Vector256 | FMA, "portable", "portable", false, false}, // there is no code without Float16
		{AVX2, "avx2", "avx2", false, false},
		{AVX2 | DotBytes256, "avx2", "avx2+dotbytes256", true, true},
		{AVX512, "avx512", "avx512", false, false},
		{wide, "avx512", "avx512+dotbytes256", false, true},
		{NEON, "arm64", "arm64", false, false},
		{NEON | DotBytes128, "arm64", "arm64+dotprod", true, true},
		{wide | DotBytes512 | MatrixUnit, "avx512", "avx512+dotbytes256+dotbytes512+matrix", true, true},
	} {
		if tc.set.Name() != tc.name || tc.set.String() != tc.text || tc.set.HasByteDot() != tc.dots {
			t.Errorf("%s, %v: dots bytes %v", tc.set.Name(), tc.set, tc.set.HasByteDot())
		}
		if narrow := tc.set.Vectors256(); narrow.Has(Vector512) || narrow.HasByteDot() != tc.narrows || !tc.set.Has(narrow) {
			t.Errorf("%v with 256-bit vectors: %v", tc.set, narrow)
		}
	}
}

// TestTarget checks all combinations of an instruction set and a feature as targets.
func TestTarget(t *testing.T) {
	for _, x := range namedFeatures {
		for name, set := range map[string]Features{"avx2": AVX2, "avx512": AVX512, "arm64": NEON} {
			target := name + "-" + x.name
			got, err, errRun := parseTarget(target)
			belongs := (set | x.requires).Name() == name
			switch {
			case !belongs && (err == nil || !strings.Contains(err.Error(), "has no feature")):
				t.Errorf("%s: %v, %v", target, got, err)
			case belongs && err == nil && got != set|x.requires|x.feature:
				t.Errorf("%s: %v", target, got)
			case belongs && err != nil && (got != Portable || !strings.Contains(err.Error(), "this processor has")):
				t.Errorf("%s: %v, %v", target, got, err)
			case belongs && (err == nil) != (set.Has(AVX2) && detected.Has(AVX2) || set.Has(NEON) && detected.Has(NEON)):
				t.Errorf("%s: %v for a processor with %v", target, err, detected)
			case belongs && err == nil && x.feature != MatrixUnit &&
				(errRun == nil) != detected.Has(set|x.requires|x.feature):
				t.Errorf("%s can be run: %v; a processor with %v", target, errRun, detected)
			}
		}
	}
	for _, target := range []string{"neon", "arm64-", "arm64-sve", "avx2-dotbytes512", "-", "portable-dotprod"} {
		got, err, _ := parseTarget(target)
		if err == nil || got != Portable || !strings.Contains(err.Error(), targetVariable) {
			t.Errorf("%s: %v, %v", target, got, err)
		}
	}
	if got, err, errRun := parseTarget("portable"); got != Portable || err != nil || errRun != nil {
		t.Error(got, err, errRun)
	}
	if got, err, errRun := parseTarget(""); got&^MatrixUnit != detected || err != nil || errRun != nil {
		t.Error(got, err, errRun)
	}
}
