package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/experiment"
)

// certified plans a file and returns the certificate's path.
func certified(t *testing.T, file string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plan.cert.json")
	succeed(t, append([]string{"plan", file, "--strategy", "optimal", "--certificate", path}, flags...)...)
	return path
}

// tall convolves an image that comes row-major, with w's last weight and padding to be filled in.
const tall = `{"version": 1, "symbols": {"N": {"min": 1, "max": 8}},
 "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 32, 48, 48]}],
 "constants": [{"name": "w", "dtype": "float32", "shape": [32, 32, 1, 1], "data": [WEIGHTS]}],
 "nodes": [{"name": "a", "op": "conv2d", "inputs": ["x", "w"], "attrs": {"padding": [PADDING, PADDING]}},
           {"name": "b", "op": "relu", "inputs": ["a"]},
           {"name": "c", "op": "conv2d", "inputs": ["b", "w"]}],
 "outputs": [{"value": "c", "name": "y", "memory_format": "channels_last"}]}`

func tallWith(last, padding string) string {
	text := strings.Replace(tall, "WEIGHTS", strings.Repeat("0.5, ", 32*32-1)+last, 1)
	return strings.ReplaceAll(text, "PADDING", padding)
}

// TestVerifyExamples accepts the certificates of all examples, with sizes and pins that are not asked for again.
func TestVerifyExamples(t *testing.T) {
	files, err := filepath.Glob(models + "/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range append(files, write(t, "small.json", small)) {
		path := certified(t, file)
		out := succeed(t, "verify", file, path)
		if !strings.HasPrefix(out, "the certificate holds: the plan costs ") ||
			!strings.Contains(out, "\noptimal: cost = bound = ") || !strings.Contains(out, "the proof is right") {
			t.Errorf("%s: %s", file, out)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		valid(t, "certificate", string(text))
	}
	file := write(t, "tall.json", tallWith("1", "0"))
	path := certified(t, file, "--dim", "N=5", "--pin", "a=channels_last", "--pin", "b=order:0,1,2,3", "--no-fusion")
	v := decode[struct {
		toldDoc
		experiment.Verdict
		Version int `json:"version"`
	}](t, succeed(t, "verify", file, path, "--json"))
	plan := decode[planJSON](t, succeed(t, "plan", file, "--strategy", "optimal", "--dim", "N=5", "--pin",
		"a=channels_last", "--pin", "b=order:0,1,2,3", "--no-fusion", "--json"))
	if !v.Optimal || v.CostNS != plan.CostNS || plan.Bound == nil || *plan.Bound != v.BoundNS || !plan.Optimal {
		t.Errorf("%+v, %+v", v, plan)
	}
	valid(t, "verify", succeed(t, "verify", file, path, "--json"))
}

// TestVerifySizes accepts certificates of files that were read with sizes and with other numbers of rows.
func TestVerifySizes(t *testing.T) {
	fixed := write(t, "fixed.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3]}],
 "nodes": [{"name": "y", "op": "relu", "inputs": ["x"]}], "outputs": ["y"]}`)
	for _, c := range []struct {
		file, dim, want string
	}{
		{batched(t), "", " with batch_size=2,"},
		{batched(t), "batch-size=5", " with batch-size=5,"},
		{models + "/residual.json", "N=5", " with N=5,"},
		{fixed, "", " strategy optimal"},
		{fixed, "N=7", " with N=7,"},
	} {
		var flags []string
		if c.dim != "" {
			flags = []string{"--dim", c.dim}
		}
		path := certified(t, c.file, flags...)
		if out := succeed(t, "verify", c.file, path); !strings.Contains(out, c.want) {
			t.Errorf("%s %s: %s", c.file, c.dim, out)
		}
		valid(t, "verify", succeed(t, "verify", c.file, path, "--json"))
		if c.dim != "" {
			r := call(t, "verify", models+"/mlp.json", path)
			if r.code != exit.CodeFailed || !strings.Contains(r.errors, "the graph differs from the certified graph") {
				t.Errorf("%s, exit %d: %s", c.dim, r.code, r.errors)
			}
		}
	}
}

// TestVerifyRefuses has certificates that do not hold, each with its reason.
func TestVerifyRefuses(t *testing.T) {
	file := write(t, "tall.json", tallWith("1", "0"))
	path := certified(t, file, "--pin", "a=channels_last", "--pin", "a=impl:nhwc")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(c *experiment.Certificate)) string {
		c := new(experiment.Certificate)
		if err := json.Unmarshal(text, c); err != nil {
			t.Fatal(err)
		}
		f(c)
		changed, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return write(t, "c.json", string(changed))
	}
	for name, test := range map[string]struct{ file, certificate, want string }{
		"weight":    {write(t, "g.json", tallWith("2", "0")), path, "the graph differs from the certified graph"},
		"attribute": {write(t, "g.json", tallWith("1", "1")), path, "the graph differs from the certified graph"},
		"symbols":   {models + "/residual.json", path, "the graph differs from the certified graph"},
		"cost": {file, change(func(c *experiment.Certificate) {
			c.Solution.Cost -= 1000
		}), "but its labels cost"},
		"cost and bound": {file, change(func(c *experiment.Certificate) {
			c.Solution.Cost -= 1000
			c.Solution.Bound -= 1000
		}), "but its labels cost"},
		"bound": {file, change(func(c *experiment.Certificate) { c.Solution.Bound-- }), "the proof gives"},
		"copy":  {file, change(func(c *experiment.Certificate) { withoutCopy(t, c) }), "but its labels cost"},
		"problem": {file, change(func(c *experiment.Certificate) {
			c.Problem.Factors[len(c.Problem.Factors)-1].Costs[0]++
		}), "differs from the problem of the graph: factor"},
		"variable": {file, change(func(c *experiment.Certificate) { c.Problem.Variables[0].Name = "z" }), "variable 0"},
		"profile":  {file, change(func(c *experiment.Certificate) { c.Profile = nil }), "the profile"},
		"prices": {file, change(func(c *experiment.Certificate) { dearer(t, c) }),
			"differs from the problem of the graph: factor"},
		"digest": {file, change(func(c *experiment.Certificate) { c.ProfileDigest = c.OptionsDigest }),
			"the digest of the profile is"},
		"options": {file, change(func(c *experiment.Certificate) { c.Options.NoFusion = true }),
			"the digest of the options is"},
		"size": {file, change(func(c *experiment.Certificate) { c.Options.Sizes["N"]++ }),
			"the digest of the options is"},
		"two sizes": {file, change(func(c *experiment.Certificate) {
			c.Graph.Sizes = map[string]int{"N": c.Options.Sizes["N"] + 1}
		}), "the certificate contradicts itself: graph.sizes has N=3, and options.sizes has N=2"},
		"proof":    {file, change(func(c *experiment.Certificate) { c.Solution.Proof.Root.Steps[0].Variable++ }), "verify: "},
		"no proof": {file, change(func(c *experiment.Certificate) { c.Solution.Proof = nil }), "no proof"},
	} {
		r := call(t, "verify", test.file, test.certificate)
		code := exit.CodeFailed
		if name == "profile" || name == "no proof" { // these are no certificates
			code = exit.CodeUsage
		}
		if r.code != code || r.out != "" || !strings.Contains(r.errors, test.want) {
			t.Errorf("%s: exit %d, %s", name, r.code, r.errors)
		}
	}
	for name, text := range map[string]string{"empty": "", "cut": string(text[:len(text)/2]), "graph": small,
		"more": string(text) + "1", "version": strings.Replace(string(text), `"version":1`, `"version":2`, 1)} {
		if r := call(t, "verify", file, write(t, "c.json", text)); r.code != exit.CodeUsage || !strings.Contains(r.errors,
			"not a certificate") {
			t.Errorf("%s: exit %d, %s", name, r.code, r.errors)
		}
	}
	if r := call(t, "verify", file, t.TempDir()); r.code != exit.CodeUsage {
		t.Errorf("a folder: %d", r.code)
	}
	if r := call(t, "verify", file); r.code != exit.CodeUsage {
		t.Errorf("no certificate: %d", r.code)
	}
}

// dearer has another price of a step in the profile, and the digest of that.
func dearer(t *testing.T, c *experiment.Certificate) {
	t.Helper()
	text, err := json.Marshal(c.Profile)
	if err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile(`"(StepNS|step_ps)":[0-9]`).ReplaceAll(text, []byte("${0}7"))
	if err := json.Unmarshal(changed, c.Profile); err != nil || bytes.Equal(text, changed) {
		t.Fatal(err, string(text))
	}
	c.ProfileDigest = c.Profile.Digest()
}

// withoutCopy gives the first variable with a label that is another set of layouts that label.
func withoutCopy(t *testing.T, c *experiment.Certificate) {
	t.Helper()
	for v, x := range c.Problem.Variables {
		if was := c.Solution.Labels[v]; x.Name == "value x" && strings.Contains(x.Labels[was], "channels_last") {
			c.Solution.Labels[v] = (was + 1) % len(x.Labels)
			return
		}
	}
	t.Fatal("no set of layouts has a copy")
}
