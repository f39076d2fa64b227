package cli

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/sections"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/devices"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/pricing"
)

// TestCosts uses the profile of a file, the stored one of this machine, and the default.
func TestCosts(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	graph := write(t, "g.json", small)
	usual := decode[planJSON](t, succeed(t, "plan", graph, "--json"))
	if !usual.Profile.Default || usual.Profile.Digest != pricing.SharedDefaultProfile().Digest() {
		t.Errorf("%+v", usual.Profile)
	}
	p := pricing.DefaultProfile()
	p.StepPS, p.Measured = 1e9, "2026-01-02T03:04:05Z"
	text, err := p.JSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range []bool{false, true} {
		args := []string{"plan", graph, "--json"}
		if kept {
			path, err := pricing.ProfilePath()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		} else {
			args = append(args, "--costs", write(t, "costs.json", string(text)))
		}
		doc := decode[planJSON](t, succeed(t, args...))
		if doc.Profile.Default || doc.Profile.Digest != p.Digest() || doc.CostNS < 1e6 {
			t.Errorf("kept %v: %+v, %v ns", kept, doc.Profile, doc.CostNS)
		}
	}
	if out := succeed(t, "plan", graph); !strings.Contains(out,
		"measured 2026-01-02 ("+p.Digest()[:sections.ShortDigest]+")") {
		t.Errorf("the plan does not say by what it is priced:\n%s", out)
	}
}

// TestHostileCosts rejects a file that is no profile, and ignores an invalid stored one.
func TestHostileCosts(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	graph, bad := write(t, "g.json", small), write(t, "costs.json", `{"version": 2, "step_ps": -4}`)
	for _, command := range []string{"plan", "run", "bench", "explain", "compare", "view"} {
		args := []string{command, graph, "--costs", bad}
		if command == "explain" {
			args = append(args, "y")
		}
		if command == "view" {
			args = append(args, "--strategy", "optimal", "-o", filepath.Join(t.TempDir(), "x.svg"))
		}
		r := call(t, args...)
		if r.code != exit.CodeUsage || !strings.Contains(r.errors, bad+": step_ps") {
			t.Errorf("%s: exit %d, %s", command, r.code, r.errors)
		}
	}
	path, err := pricing.ProfilePath()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	aside := "graphrun: note: the profile of this machine is ignored: " + path
	if r := call(t, "plan", graph); r.code != exit.CodeDone || !strings.HasPrefix(r.errors, aside) ||
		!strings.Contains(r.out, "the default profile") {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
}

// TestCalibrate measures roughly, and keeps what it found.
func TestCalibrate(t *testing.T) {
	if !testsize.All() {
		t.Skip("it takes seconds")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	calibrateMaxBytes = 2 << 20
	defer func() { calibrateMaxBytes = 0 }()
	out := filepath.Join(t.TempDir(), "p.json")
	r := call(t, "calibrate", "--rounds", "1", "--each", "100us", "--out", out)
	if r.code != exit.CodeFailed || !strings.Contains(r.errors, "rates are uncertain") || !strings.Contains(r.out, "Uncertain") {
		t.Errorf("exit %d, %s, after a single round", r.code, r.errors)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("uncertain rates were written")
	}
	text := succeed(t, "calibrate", "--rounds", "1", "--each", "100us", "--json", "--out", out, "--force")
	valid(t, "calibrate", text)
	doc := decode[struct {
		Version int `json:"version"`
		calibrateReport
	}](t, text)
	p, err := pricing.ReadProfile(out)
	if err != nil {
		t.Fatal(err)
	}
	if doc.File != out || p.Digest() != doc.Digest || p.Measured == "" || p.StepPS <= 0 {
		t.Errorf("%s, digests %s and %s", doc.File, p.Digest(), doc.Digest)
	}
	if doc.Rounds != 1 || len(doc.Rates) < 100 || doc.Rates[0].Certain || doc.Rates[0].PS != doc.Rates[0].Measured {
		t.Errorf("%d rounds, %d rates, %+v", doc.Rounds, len(doc.Rates), doc.Rates[:1])
	}
}

// TestCalibrateDevice rejects unknown devices, names the reasons if auto finds no device, and keeps the prices of
// other devices.
func TestCalibrateDevice(t *testing.T) {
	r := call(t, "calibrate", "--device", "abacus", "--out", filepath.Join(t.TempDir(), "p.json"))
	if r.code != exit.CodeUsage || !strings.Contains(r.errors, `--device abacus: there is no device "abacus"`) {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
	var notes strings.Builder
	cmd := calibrateCommand()
	cmd.SetErr(&notes)
	for name, want := range map[string]string{devices.Auto: "note: --device auto: only the host is measured: " +
		"this program has no drivers of devices", graph.HostDevice: ""} {
		notes.Reset()
		if d, err := openMeasured(cmd, name); d != nil || err != nil || !strings.Contains(notes.String(), want) ||
			(want == "") != (notes.Len() == 0) {
			t.Errorf("%s: %v, %v, %q", name, d, err, notes.String())
		}
	}
	stored := pricing.DefaultProfile().WithDevice("a", pricing.DeviceRates{Device: "old", StepPS: 1}).
		WithDevice("b", pricing.DeviceRates{Device: "kept", StepPS: 2})
	text, err := stored.JSON()
	if err != nil {
		t.Fatal(err)
	}
	fresh := pricing.DeviceRates{Device: "new", StepPS: 3}
	path := write(t, "costs.json", string(text))
	for _, p := range []*pricing.Profile{pricing.DefaultProfile(), pricing.DefaultProfile().WithDevice("a", fresh)} {
		want := maps.Clone(stored.Devices)
		maps.Copy(want, p.Devices)
		if keepDevices(path, p); !maps.Equal(p.Devices, want) {
			t.Errorf("%v, want %v", p.Devices, want)
		}
	}
	plain := pricing.DefaultProfile().WithDevice("a", fresh)
	if text, err = pricing.DefaultProfile().JSON(); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{write(t, "plain.json", string(text)), filepath.Join(t.TempDir(), "none.json")} {
		if keepDevices(other, plain); len(plain.Devices) != 1 || plain.Devices["a"] != fresh {
			t.Errorf("%s: %v", other, plain.Devices)
		}
	}
}
