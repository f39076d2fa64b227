package pricing

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/internal/machine"
)

// TestShippedProfiles checks that all shipped profiles price the same kernels.
func TestShippedProfiles(t *testing.T) {
	for _, set := range []machine.Features{machine.Portable, machine.AVX2, machine.AVX512, machine.NEON} {
		p := shippedProfiles[set.Name()]()
		if p.Instructions != set.Name() || p.Measured != "" || p.Estimated != (set == machine.NEON) {
			t.Errorf("%v: %s, measured %q, estimated %v", set, p.Instructions, p.Measured, p.Estimated)
		}
		for name := range shippedProfiles["avx512"]().Kernels {
			if _, ok := p.Kernels[name]; !ok {
				t.Errorf("%v prices no %s", set, name)
			}
		}
	}
	p := DefaultProfile()
	p.Kernels["gemm.f32"]++
	p.Memory.Dense[0].PS++
	if p.Shipped() || !DefaultProfile().Shipped() {
		t.Error("a changed copy is the default, or the default is not")
	}
}

// TestProfileFile writes a profile and reads it again.
func TestProfileFile(t *testing.T) {
	p := DefaultProfile()
	p.CPU, p.Measured, p.StepPS = "a processor", "2026-01-02T03:04:05Z", 12.5
	delete(p.Kernels, "gemm.f32")
	text, err := p.JSON()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "p.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	q, err := ReadProfile(path)
	if err != nil {
		t.Fatal(err)
	}
	if q.Kernels["gemm.f32"] != SharedDefaultProfile().Kernels["gemm.f32"] {
		t.Errorf("a kernel that the file does not name costs %v", q.Kernels["gemm.f32"])
	}
	p.Complete()
	if p.Digest() != q.Digest() || len(p.Digest()) != 64 || q.WithConstants(1e9).Digest() != p.Digest() {
		t.Errorf("digests %s and %s", p.Digest(), q.Digest())
	}
}

// TestHostileProfiles checks that the error for an invalid file names the place.
func TestHostileProfiles(t *testing.T) {
	good, _ := DefaultProfile().JSON()
	change := func(from, to string) string {
		if !strings.Contains(string(good), from) {
			t.Fatalf("no %s in a profile", from)
		}
		return strings.Replace(string(good), from, to, 1)
	}
	for text, says := range map[string]string{
		"":                                     "not a machine profile",
		`{"version": }`:                        "not a machine profile: invalid JSON at byte 12: invalid character",
		"[]":                                   "not a machine profile: want an object",
		`{"version": 2}`:                       "memory.dense",
		change(`"version": 2`, `"version": 1`): "version 1",
		`{"memory": {"dense": [{"ps": "x"}]}}`: "not a machine profile: /memory/dense/0/ps: the value has the wrong type",
		change(`"step_ps": `, `"step_ps": -`):  "step_ps",
		change(`"cpu"`, `"gpu"`):               "not a machine profile: unknown key /gpu",
		change(`"gemm.f32": `, `"gemm.f32": 1e300, "x": `): "gemm.f32",
		change(`"bytes": `, `"bytes": -`):                  "memory.dense[0]",
		change(`"ps": `, `"ps": -`):                        "memory.dense[0]",
		strings.Repeat(" ", maxProfileBytes+1):             "bytes",
	} {
		if _, err := ParseProfile([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: %v, want %s", text, err, says)
		}
	}
	if _, err := ReadProfile(t.TempDir()); err == nil {
		t.Error("a folder is a profile")
	}
}

// TestPrices checks that a price is the start of steps plus the longer one of memory access and arithmetic.
func TestPrices(t *testing.T) {
	p := &Profile{StepPS: 100, Kernels: map[string]float64{"k": 10},
		Memory: Rates{Dense: Curve{{Bytes: 100, PS: 1}, {Bytes: 10000, PS: 3}}, DenseConstants: Curve{{Bytes: 10, PS: 1},
			{Bytes: 1000, PS: 5}}, Tiled: Curve{{Bytes: 1, PS: 7}}}}
	var w Work
	w.StartedSteps, w.Footprint, w.Bytes[Dense] = 1, 1000, 50
	for _, c := range []struct {
		change func(w *Work)
		want   int64
	}{
		{func(*Work) {}, 200},
		{func(w *Work) { w.AddUnits("k", 5) }, 200},
		{func(w *Work) { w.AddUnits("k", 15) }, 250},
		{func(w *Work) { w.Bytes[DenseConstants] = 10 }, 250},
		{func(w *Work) { w.Bytes[Tiled] = 10 }, 270},
		{func(w *Work) { w.Footprint = 1e9 }, 250},
		{func(w *Work) { w.StartedSteps = math.Inf(1) }, maxPS},
		{func(w *Work) { w.StartedSteps = math.NaN() }, 0},
		{func(w *Work) { *w = w.Minus(*w); w.StartedSteps = -5 }, 0},
	} {
		v := w
		c.change(&v)
		if got := p.PricePS(v); got != c.want {
			t.Errorf("%+v: %d, want %d", v, got, c.want)
		}
	}
	w.Footprint, w.Bytes = 20, [numAccesses]float64{DenseConstants: 10}
	if a, b := p.PricePS(w), p.WithConstants(1000).PricePS(w); a >= b {
		t.Errorf("%d, and %d where all constants are many", a, b)
	}
}

// ScaleCopies changes only the prices of copies, and does not change its receiver.
func TestScaleCopies(t *testing.T) {
	for _, name := range ShippedProfiles() {
		p := ShippedProfile(name)
		before := p.Digest()
		q := p.ScaleCopies(10)
		copied, dense := Work{Footprint: 1 << 20}, Work{Footprint: 1 << 20}
		copied.Bytes[Copied], dense.Bytes[Dense] = 1<<20, 1<<20
		copied.AddUnits("copy.row", 1e6)
		if a, b := p.PriceNS(copied), q.PriceNS(copied); math.Abs(b-10*a) > 1e-6*b {
			t.Errorf("%s: a copy costs %g, not 10 times %g", name, b, a)
		}
		if a, b := p.PriceNS(dense), q.PriceNS(dense); a != b {
			t.Errorf("%s: other access costs %g, not %g", name, b, a)
		}
		if p.Digest() != before || p.ScaleCopies(1).Digest() != before {
			t.Errorf("%s: the profile has changed", name)
		}
	}
	if ShippedProfile("none") != nil {
		t.Error("there is a profile of that name")
	}
}
