package cli

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
)

// TestPlanProblem solves the written problem outside of plan (by strategy optimal here) and applies the solution.
func TestPlanProblem(t *testing.T) {
	file := write(t, "tall.json", tallWith("1", "0"))
	problem := filepath.Join(t.TempDir(), "problem.json")
	succeed(t, "plan", file, "--problem", problem) // whatever the strategy is
	text, err := os.ReadFile(problem)
	if err != nil {
		t.Fatal(err)
	}
	valid(t, "problem", string(text))
	var p struct {
		Variables []struct {
			Name   string
			Labels []string
		}
	}
	if err := json.Unmarshal(text, &p); err != nil || len(p.Variables) == 0 {
		t.Fatalf("%v in %s", err, text)
	}
	cert, err := os.ReadFile(certified(t, file))
	if err != nil {
		t.Fatal(err)
	}
	var c struct{ Solution json.RawMessage }
	var s struct{ Labels []int }
	if err := json.Unmarshal(cert, &c); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(c.Solution, &s); err != nil {
		t.Fatal(err)
	}
	valid(t, "solution", string(c.Solution))
	names := map[string]string{}
	for i, v := range p.Variables {
		names[v.Name] = v.Labels[s.Labels[i]]
	}
	byName, err := json.Marshal(map[string]any{"labels": names})
	if err != nil {
		t.Fatal(err)
	}
	best := decode[planJSON](t, succeed(t, "plan", file, "--strategy", "optimal", "--json"))
	for _, solution := range []string{string(c.Solution), string(byName)} {
		path := write(t, "solution.json", solution)
		out := succeed(t, "plan", file, "--solution", path, "--json")
		doc := decode[planJSON](t, out)
		valid(t, "plan", out)
		proved := solution[:9] != `{"labels"`
		if doc.Strategy != "given" || !doc.Optimal || doc.Bound == nil || *doc.Bound != *best.Bound ||
			len(doc.Steps) != len(best.Steps) || doc.Solution.HasProof != proved || *doc.Solution.Gap != 0 {
			t.Errorf("%s", out)
		}
		again := filepath.Join(t.TempDir(), "cert.json")
		succeed(t, "plan", file, "--solution", path, "--certificate", again)
		succeed(t, "verify", file, again)
	}
	worse := false // whether a changed label gave a feasible solution of greater cost
	for i := 0; i < len(p.Variables) && !worse; i++ {
		for label := 0; label < len(p.Variables[i].Labels) && !worse; label++ {
			changed := slices.Clone(s.Labels)
			changed[i] = label
			text, err := json.Marshal(map[string]any{"labels": changed})
			if err != nil {
				t.Fatal(err)
			}
			path := write(t, "changed.json", string(text))
			r := call(t, "plan", file, "--solution", path, "--json")
			if r.code != exit.CodeDone {
				continue // infeasible
			}
			doc := decode[planJSON](t, r.out)
			if want := doc.CostNS / *best.Bound - 1; math.Abs(*doc.Solution.Gap-want) > 1e-9 || doc.Solution.HasProof {
				t.Errorf("%+v, want the gap %g", doc.Solution, want)
			}
			worse = *doc.Solution.Gap > 0 && !doc.Optimal
		}
	}
	if !worse {
		t.Error("no solution with a gap")
	}
	out := succeed(t, "plan", file, "--solution", write(t, "names.json", string(byName)))
	if !strings.Contains(strings.Join(strings.Fields(out), " "),
		"names.json has no proof; the bound is that of strategy optimal") {
		t.Errorf("%s", out)
	}
	cfn := filepath.Join(t.TempDir(), "problem.cfn")
	succeed(t, "plan", file, "--problem", cfn)
	if text, err := os.ReadFile(cfn); err != nil || !strings.HasPrefix(string(text), `{"problem":{"name":"p",`) ||
		!json.Valid(text) {
		t.Errorf("%v, %s", err, text)
	}
	for text, want := range map[string]string{
		`{"labels": [0]}`: "1 labels, but ", `{"labels": {}}`: `variable 0 ("value x")`, `{"labels": "x"}`: "not a solution",
		"": "not a solution",
	} {
		path := write(t, "solution.json", text)
		if r := call(t, "plan", file, "--solution", path); r.code != exit.CodeUsage || !strings.Contains(r.errors, want) ||
			!strings.Contains(r.errors, path) {
			t.Errorf("%s: exit %d, %s", text, r.code, r.errors)
		}
	}
}

// TestPlanStudies prints what a caller could change, the cheapest plans and where others win.
func TestPlanStudies(t *testing.T) {
	file := write(t, "tall.json", tallWith("1", "0"))
	flags := []string{"plan", file, "--strategy", "optimal", "--k-best", "4", "--sensitivity", "--pin", "a=channels_last",
		"--pin", "a=impl:nhwc"}
	out := succeed(t, append(flags, "--json")...)
	valid(t, "plan", out)
	doc := decode[planJSON](t, out)
	if len(doc.Best) != 4 || doc.TimedOut || doc.Wanted != 4 ||
		doc.Best[0].MoreNS != 0 || doc.Best[0].CostNS != doc.CostNS || doc.Best[1].MoreNS < 0 {
		t.Errorf("%+v", doc.Best)
	}
	if doc.Sensitive == nil || doc.Sensitive.CopiedBytes == 0 {
		t.Errorf("%+v", doc.Sensitive)
	}
	if doc.Advice == nil || len(doc.Advice.Hints) == 0 || doc.Advice.Hints[0].Name != "x" || !doc.Advice.Hints[0].Input ||
		doc.Advice.Hints[0].Order != "channels_last" {
		t.Fatalf("%+v", doc.Advice)
	}
	// As the hint says, it costs what the hint says.
	better := write(t, "better.json", strings.Replace(tallWith("1", "0"), `48, 48]`,
		`48, 48], "memory_format": "channels_last"`, 1))
	if other := decode[planJSON](t, succeed(t, "plan", better, "--strategy", "optimal", "--json", "--pin",
		"a=channels_last", "--pin", "a=impl:nhwc")); math.Abs(other.CostNS-(doc.CostNS-doc.Advice.Hints[0].SavedNS)) > 0.001 {
		t.Errorf("%g, not %g less %g", other.CostNS, doc.CostNS, doc.Advice.Hints[0].SavedNS)
	}
	text := unwrapped(succeed(t, flags...))
	for _, want := range []string{"proved: least cost among the forms considered", "pass x in channels_last: saves ",
		"the copy of x to channels_last is removed",
		"the cheapest plan is the same for copies that are up to 1024 times slower or faster",
		"Cheapest plans"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if doc := decode[planJSON](t, succeed(t, "plan", file, "--json",
		"--strategy", "greedy")); doc.Advice != nil || doc.Bound != nil {
		t.Errorf("of another strategy: %+v", doc)
	}
	line := write(t, "line.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [400]}],
 "nodes": [{"name": "y", "op": "tanh", "inputs": ["x"]}], "outputs": ["y"]}`)
	if text := succeed(t, "plan", line, "--sensitivity", "--k-best", "9"); !strings.Contains(text,
		"the cheapest plan is the same for copies") {
		t.Error(text)
	}
}

// TestPlanStudiesRefuse has calls that cannot be.
func TestPlanStudiesRefuse(t *testing.T) {
	file := write(t, "g.json", small)
	for _, args := range [][]string{{"--k-best", "0"}, {"--k-best", "-3"}, {"--solver-time-limit", "-1s"},
		{"--solver-time-limit", "soon"},
		{"--certificate", filepath.Join(t.TempDir(), "c"), "--strategy", "push"},
		{"--certificate", t.TempDir(), "--strategy", "optimal"},
		{"--solution", file + ".none"}, {"--problem", "p.html"}, {"--passes", "p.json"},
		{"--solution", file, "--strategy", "optimal"}, {"--problem", filepath.Join(t.TempDir(), "none", "p.json")}} {
		if r := call(t, append([]string{"plan", file}, args...)...); r.code != exit.CodeUsage || r.out != "" {
			t.Errorf("%v: exit %d, %s", args, r.code, r.errors)
		}
	}
	graph := write(t, "dynamic.json", dynamic)
	for _, args := range [][]string{{"--k-best", "2"}, {"--sensitivity"},
		{"--problem", filepath.Join(t.TempDir(), "p.json")},
		{"--strategy", "optimal", "--certificate", filepath.Join(t.TempDir(), "c")}} {
		r := call(t, append([]string{"plan", graph}, args...)...)
		if r.code != exit.CodeFailed || !strings.Contains(r.errors, "shapes depend on data") {
			t.Errorf("%v: exit %d, %s", args, r.code, r.errors)
		}
	}
	succeed(t, "plan", graph, "--strategy", "optimal") // results that were not requested are absent
}

// TestSolverTimeLimit plans without a search; plans that need none are still proved.
func TestSolverTimeLimit(t *testing.T) {
	file := write(t, "g.json", small)
	path := filepath.Join(t.TempDir(), "plan.cert.json")
	out := unwrapped(succeed(t, "plan", file, "--solver-time-limit", "0s", "--certificate", path))
	if !strings.Contains(out, "proved: least cost among the forms considered") {
		t.Error(out)
	}
	if out := succeed(t, "verify", file, path); !strings.Contains(out, "the proof is right") {
		t.Error(out)
	}
	succeed(t, "compare", file, "--runs", "1", "--solver-time-limit", "0s")
	for _, args := range [][]string{{"compare", file}, {"explain", file, "y"}} {
		if r := call(t, append(args, "--solver-time-limit", "-1ms")...); r.code != exit.CodeUsage ||
			!strings.Contains(r.errors, "--solver-time-limit -1ms: want at least 0s") {
			t.Errorf("%v: exit %d, %s", args, r.code, r.errors)
		}
	}
}
