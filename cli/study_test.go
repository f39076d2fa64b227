package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/pricing"
)

// studyJSON has the parts of a study's document that are tested.
type studyJSON struct {
	Interrupted bool
	Missing     []string
	Failures    []struct{ Task, Message string }
	Summaries   []struct {
		Condition, Strategy string
		Threads, Graphs     int
		MeanGap             float64  `json:"mean_gap"`
		OptimalOn           int      `json:"optimal_on"`
		MeanRatio           *float64 `json:"mean_time_ratio"`
	}
	Results []struct {
		Digest string
		Task   struct {
			Model, Condition string
			Dims             map[string]int
			Threads          int
		}
		Bound     float64 `json:"lower_bound_ns"`
		Optimal   bool
		Certified bool
		Plans     []struct {
			Strategy, Plan string
			Cost           float64 `json:"cost_ns"`
			Gap            float64
			Samples        []float64 `json:"samples_ns"`
		}
	}
}

// studied writes a study of two examples.
func studied(t *testing.T, conditions string) string {
	t.Helper()
	return write(t, "study.json", `{"version": 1, "name": "small", "strategies": ["propagate", "channels_last", "optimal"],
 "runs": 3, "models": [{"file": "residual.json", "dims": [{"N": 1}, {"N": 2}]}, {"name": "second", "file": "attention.json"}],
 "conditions": [`+conditions+`]}`)
}

const twoConditions = `{"name": "usual"}, {"name": "dear copies", "profile": "avx2", "copies": 10}`

// studyDocument reads the parts of a study's document.
func studyDocument(t *testing.T, text string) (d studyJSON) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
	return d
}

// studyOf runs a study of the examples.
func studyOf(t *testing.T, file string, args ...string) studyJSON {
	t.Helper()
	out := succeed(t, append([]string{"study", file, "--models", models, "--json"}, args...)...)
	valid(t, "study", out)
	return studyDocument(t, out)
}

// TestStudy compares a study with the output of plan.
func TestStudy(t *testing.T) {
	file := studied(t, twoConditions)
	d := studyOf(t, file)
	if len(d.Results) != 6 || len(d.Missing) != 0 || len(d.Summaries) != 6 || d.Interrupted {
		t.Fatalf("%+v", d)
	}
	for _, r := range d.Results {
		if !r.Optimal || !r.Certified || len(r.Plans) != 3 || r.Plans[2].Gap != 0 || r.Plans[2].Cost != r.Bound {
			t.Errorf("%+v", r)
		}
		for _, p := range r.Plans {
			if p.Gap < 0 || math.Abs(p.Cost/r.Bound-1-p.Gap) > 1e-9 {
				t.Errorf("%s: %+v", r.Task.Model, p)
			}
		}
	}
	usual := d.Results[2]
	if usual.Task.Dims["N"] != 2 || usual.Task.Condition != "usual" {
		t.Fatalf("%+v", usual.Task)
	}
	plan := decode[planJSON](t, succeed(t, "plan", models+"/residual.json", "--dim", "N=2", "--json", "--strategy",
		"propagate"))
	if plan.CostNS != usual.Plans[0].Cost {
		t.Errorf("propagate costs %g; plan prints %g", usual.Plans[0].Cost, plan.CostNS)
	}
	out := succeed(t, "study", file, "--models", models, "--resume", "--markdown", "--csv", file+".csv")
	for _, want := range []string{"2 networks (3 graphs with sizes)", "| dear copies |", "| residual N=2 |",
		"**Geometric mean of the gap, %**"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	text, err := os.ReadFile(file + ".csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 1+6*3 || rows[0][1] != "dim_N" {
		t.Errorf("%v: %v", err, rows)
	}
}

// TestStudyResumes removes one result and damages others. Only these are made again, and shards add up to the whole.
func TestStudyResumes(t *testing.T) {
	file := studied(t, twoConditions)
	whole := studyOf(t, file)
	folder := strings.TrimSuffix(file, ".json") + ".results"
	texts := map[string]string{}
	for _, r := range whole.Results {
		text, err := os.ReadFile(filepath.Join(folder, r.Digest+".json"))
		if err != nil {
			t.Fatal(err)
		}
		texts[r.Digest] = string(text)
	}
	names := slices.Sorted(maps.Keys(texts))
	if len(names) != 6 {
		t.Fatalf("the results are %v", names)
	}
	path := func(i int) string { return filepath.Join(folder, names[i]+".json") }
	if err := os.Remove(path(0)); err != nil {
		t.Fatal(err)
	}
	damage := map[int]string{1: texts[names[1]][:100], 2: strings.Replace(texts[names[2]], `"copies": `, `"copies": 7`, 1),
		3: texts[names[4]]}
	for i, text := range damage {
		if err := os.WriteFile(path(i), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	again := studyOf(t, file, "--resume")
	if len(again.Results) != 6 {
		t.Fatalf("%+v", again.Missing)
	}
	for i, name := range names {
		text, err := os.ReadFile(path(i))
		if err != nil {
			t.Fatal(err)
		}
		if kept := string(text) == texts[name]; kept != (i >= 4) {
			t.Errorf("result %d is kept: %v", i, kept)
		}
	}
	other := filepath.Join(t.TempDir(), "parts")
	half := studyOf(t, file, "--results", other, "--shard", "1/2")
	if len(half.Results) != 3 || len(half.Missing) != 3 {
		t.Errorf("%d results and %d missing ones in a half", len(half.Results), len(half.Missing))
	}
	both := studyOf(t, file, "--results", other, "--shard", "2/2", "--resume")
	if fmt.Sprint(both.Summaries) != fmt.Sprint(whole.Summaries) {
		t.Errorf("the shards give %+v, the whole %+v", both.Summaries, whole.Summaries)
	}
}

// TestStudyInterrupted ends a study before its first task.
func TestStudyInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := callIn(t, ctx, extend(t), "study", studied(t, twoConditions), "--models", models, "--json")
	if d := studyDocument(t, r.out); r.code == exit.CodeDone || !d.Interrupted || len(d.Missing) != 6 {
		t.Errorf("exit %d, %+v", r.code, d)
	}
}

// TestStudyMeasures measures plans; strategies with the same plan share the times.
func TestStudyMeasures(t *testing.T) {
	d := studyOf(t, studied(t, `{"name": "usual", "threads": [1, 2]}`))
	if len(d.Results) != 6 || len(d.Summaries) != 6 {
		t.Fatalf("%+v", d)
	}
	shared := 0
	for _, r := range d.Results {
		for i, p := range r.Plans {
			if len(p.Samples) != 3 {
				t.Errorf("%+v", p)
			}
			for _, q := range r.Plans[:i] {
				if equal := slices.Equal(p.Samples, q.Samples); equal != (p.Plan == q.Plan) {
					t.Errorf("%s and %s share their times: %v", p.Strategy, q.Strategy, equal)
				} else if equal {
					shared++
				}
			}
		}
	}
	if shared == 0 || d.Summaries[0].MeanRatio == nil || *d.Summaries[0].MeanRatio < 1 {
		t.Errorf("%d plans share their times; %+v", shared, d.Summaries[0])
	}
	out := succeed(t, "study", studied(t, `{"name": "usual", "threads": [1]}`), "--models", models)
	if !strings.Contains(out, "Median times, ms: usual, 1 thread") || !strings.Contains(out, "whose times differ") {
		t.Error(out)
	}
}

// TestStudyOfEqualLayouts plans a convolution of row-major images, and one of channels-last images. They cost the same
// only if the prices of layouts are set equal.
func TestStudyOfEqualLayouts(t *testing.T) {
	folder := t.TempDir()
	for _, format := range []string{"contiguous", "channels_last"} {
		text := strings.Replace(`{"version": 1,
 "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 32, 20, 20], "memory_format": "FORMAT"},
            {"name": "w", "dtype": "float32", "shape": [48, 32, 3, 3], "memory_format": "FORMAT"}],
 "nodes": [{"name": "a", "op": "conv2d", "inputs": ["x", "w"]}, {"name": "y", "op": "relu", "inputs": ["a"]},
           {"name": "z", "op": "max_pool2d", "inputs": ["y"], "attrs": {"kernel_size": [2, 2]}}],
 "outputs": ["z"]}`, "FORMAT", format, 2)
		if err := os.WriteFile(filepath.Join(folder, format+".json"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	file := write(t, "study.json", `{"version": 1, "name": "layouts", "models": [{"file": "contiguous.json"},
 {"file": "channels_last.json"}], "conditions": [{"name": "usual"}, {"name": "equal", "equal_layouts": true}]}`)
	d := studyDocument(t, succeed(t, "study", file, "--models", folder, "--json"))
	if len(d.Results) != 4 {
		t.Fatalf("%+v", d)
	}
	rows, last := d.Results[:2], d.Results[2:]
	if rows[0].Bound <= last[0].Bound {
		t.Errorf("row-major images cost %g, channels-last ones %g", rows[0].Bound, last[0].Bound)
	}
	if rows[1].Bound != last[1].Bound || last[1].Bound > last[0].Bound || !rows[1].Certified {
		t.Errorf("with equal prices row-major images cost %g, channels-last ones %g; before %g", rows[1].Bound,
			last[1].Bound, last[0].Bound)
	}
}

// TestStudyProblems writes problems twice, and compares digests and optima.
func TestStudyProblems(t *testing.T) {
	file := studied(t, twoConditions)
	var sums []string
	for range 2 {
		folder := filepath.Join(t.TempDir(), "problems")
		out := succeed(t, "study", file, "--models", models, "--problems", folder)
		if lines := strings.Split(out, "\n"); len(lines) != 1+6+1 || lines[0] != "problem,solve_ms" {
			t.Error(out)
		}
		text, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, string(text))
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if len(lines) != 6*3 {
			t.Errorf("%d files", len(lines))
		}
		for _, line := range lines {
			want, name, _ := strings.Cut(line, "  ")
			sum := sha256.Sum256(unpacked(t, filepath.Join(folder, name)))
			if got := hex.EncodeToString(sum[:]); got != want {
				t.Errorf("%s: %s, not %s", name, got, want)
			}
		}
		optima, err := os.ReadFile(filepath.Join(folder, "optima.csv"))
		if err != nil || !strings.Contains(string(optima), "\nresidual-N=2-dear-copies,") {
			t.Errorf("%v: %s", err, optima)
		}
	}
	if sums[0] != sums[1] {
		t.Error("the problems differ")
	}
}

// TestStudyProblemsOfTarget writes the problems of a machine with AVX-512, on any machine with AVX2, and compares their
// digests with those in testdata. On a machine without AVX-512, plans for it cannot be run.
func TestStudyProblemsOfTarget(t *testing.T) {
	if !machine.HostFeatures().Has(machine.AVX2) {
		t.Skip("this processor makes no plans for AVX-512")
	}
	env := []string{"GRAPHRUN_TARGET=avx512-dotbytes512", "GRAPHRUN_JIT=on"}
	file := write(t, "study.json", `{"version": 1, "name": "targets", "models": [{"file": "residual.json",
 "dims": [{"N": 1}, {"N": 8}]}, {"file": "attention.json"}, {"file": "mlp.json"}, {"file": "pointwise.json"}],
 "conditions": [{"name": "avx512", "profile": "avx512"}, {"name": "portable", "profile": "portable"}]}`)
	folder := filepath.Join(t.TempDir(), "problems")
	if r := piped(t, env, "study", file, "--models", models, "--problems", folder); r.code != exit.CodeDone {
		t.Fatalf("exit %d: %s", r.code, r.errors)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "problems.sha256"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS"))
	if err != nil || string(got) != string(want) {
		t.Errorf("%v: digests\n%s", err, got)
	}
	if machine.HostFeatures().Has(machine.AVX512 | machine.DotBytes512) {
		return
	}
	const message = "can make plans for the target"
	mlp, cache, outputs := filepath.Join(models, "mlp.json"), t.TempDir(), filepath.Join(t.TempDir(), "outputs")
	for _, args := range [][]string{{"run", mlp, "--dim", "N=2", "--cache", cache},
		{"serve", mlp, "--listen", "127.0.0.1:0"}, {"batch", mlp, "--inputs", file, "--outputs", outputs}} {
		if r := piped(t, env, args...); r.code == exit.CodeDone || !strings.Contains(r.errors, message) {
			t.Errorf("%v: exit %d: %s", args, r.code, r.errors)
		}
	}
	if _, err := os.Stat(outputs); !os.IsNotExist(err) {
		t.Errorf("batch wrote to %s", outputs)
	}
	// The digests of entries include the description of the code, which differs from that of a machine with AVX-512.
	if r := piped(t, env, "version"); !strings.Contains(r.out, message) {
		t.Errorf("version: %s", r.out)
	}
}

// unpacked returns the content of a file that may be compressed.
func unpacked(t *testing.T, path string) []byte {
	t.Helper()
	if text, err := os.ReadFile(path); err == nil {
		return text
	}
	f, err := os.Open(path + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestStudyWithoutSomeModels continues without the models that are missing. With the models, --resume completes it.
func TestStudyWithoutSomeModels(t *testing.T) {
	folder := t.TempDir()
	place := func(name string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(sized), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	place("b.json")
	file := write(t, "study.json", `{"version": 1, "name": "parts", "strategies": ["propagate", "optimal"],
 "models": [{"file": "a.json"}, {"file": "b.json"}, {"file": "c.json"}], "conditions": [`+twoConditions+`]}`)
	args := []string{"study", file, "--models", folder, "--resume", "--json"}
	r := call(t, args...)
	d := studyDocument(t, r.out)
	want := fmt.Sprintf(`4 tasks failed; --resume makes the missing results
  a, usual and 1 other task: %s: there is no such file
  c, usual and 1 other task: %s: there is no such file`, filepath.Join(folder, "a.json"), filepath.Join(folder, "c.json"))
	if r.code != exit.CodeFailed || len(d.Results) != 2 || len(d.Missing) != 4 || len(d.Failures) != 4 ||
		!strings.Contains(r.errors, want) {
		t.Errorf("exit %d, %d results, missing %v: %s", r.code, len(d.Results), d.Missing, r.errors)
	}
	problems := filepath.Join(t.TempDir(), "problems")
	if r := call(t, append(args[:4:4], "--problems", problems)...); r.code != exit.CodeUsage ||
		!strings.Contains(r.errors, "a.json: there is no such file") {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
	place("a.json")
	place("c.json")
	if d := studyDocument(t, succeed(t, args...)); len(d.Results) != 6 || len(d.Missing) != 0 {
		t.Errorf("%d results, missing %v", len(d.Results), d.Missing)
	}
}

// TestBadStudies rejects files and flags, and names the place.
func TestBadStudies(t *testing.T) {
	const head, models1 = `{"version": 1, "name": "x", `, `"models": [{"file": "residual.json"}], `
	const one = `"conditions": [{"name": "a"}]}`
	profiles := strings.Join(pricing.ShippedProfiles(), ", ")
	for text, want := range map[string]string{
		"":                                   "the file is empty",
		`{"version": 2}`:                     "version 2: want 1",
		head + `"modules": []}`:              "modules",
		head + `"models": [], ` + one:        "models: the list is empty",
		head + models1 + `"conditions": []}`: "conditions: the list is empty",
		head + `"models": [{"file": "../x.onnx"}], ` + one:                                       `models[0]: file: "../x.onnx"`,
		head + `"models": [{"file": "a/model.onnx"}, {"file": "b/a.json"}], ` + one:              `two models are named "a"`,
		head + `"models": [{"file": "x.onnx", "dims": [{"N": -1}]}], ` + one:                     "models[0]: dims[0]: N: -1",
		head + `"strategies": ["optimum"], ` + models1 + one:                                     `did you mean optimal`,
		head + `"strategies": ["push", "push"], ` + models1 + one:                                "listed twice",
		head + `"runs": -1, ` + models1 + one:                                                    "runs: -1: want a positive number (0 means the default, 20)",
		head + `"solver_time_limit": "1", ` + models1 + one:                                      "solver_time_limit",
		head + models1 + `"conditions": [{"profile": "avx2"}]}`:                                  "conditions[0]: name",
		head + models1 + `"conditions": [{"name": "a"}, {"name": "a"}]}`:                         "two conditions",
		head + models1 + `"conditions": [{"name": "a", "copies": -1}]}`:                          "copies: -1: want a positive number (0 means the default, 1)",
		head + models1 + `"conditions": [{"name": "a", "copies": 1e30}]}`:                        "want 0 to 1e+12",
		head + models1 + `"conditions": [{"name": "a", "threads": [0]}]}`:                        "threads[0]: 0",
		head + models1 + `"conditions": [{"name": "a", "profile": "/x.json"}]}`:                  "want one of " + profiles,
		head + models1 + `"conditions": [{"name": "a", "profile": "none.json"}]}`:                `"none.json": there is no such file: want ` + profiles + `, or a file in the folder`,
		head + models1 + `"conditions": [{"name": "a", "threads": [1], "equal_layouts": true}]}`: "cannot be measured",
		head + `"models": [{"file": "none.onnx"}], ` + one:                                       "none.onnx",
	} {
		file := write(t, "study.json", text)
		if r := call(t, "study", file, "--models", models); r.code != exit.CodeUsage || !strings.Contains(r.errors, want) {
			t.Errorf("%s: exit %d, %s", text, r.code, r.errors)
		}
	}
	file := studied(t, twoConditions)
	for _, args := range [][]string{{"--shard", "3/2"}, {"--shard", "0/2"}, {"--shard", "1"}, {"--shard", "1/2x"},
		{"--json", "--markdown"}, {"--problems", "p", "--resume"}, {"more.json"}} {
		if r := call(t, append([]string{"study", file}, args...)...); r.code != exit.CodeUsage {
			t.Errorf("%v: exit %d, %s", args, r.code, r.errors)
		}
	}
	if r := call(t, "study", write(t, "model.onnx", "model")); r.code != exit.CodeUsage ||
		!strings.Contains(r.errors, "the file is a model, but study needs a study file, such as STUDY.json") {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
	// A task that fails does not end the study.
	bad := write(t, "study.json", head+`"models": [{"file": "residual.json", "dims": [{"M": 1}, {"N": 2}]}], `+one)
	r := call(t, "study", bad, "--models", models, "--json")
	if d := studyDocument(t, r.out); r.code != exit.CodeFailed || len(d.Results) != 1 || len(d.Failures) != 1 ||
		!strings.Contains(d.Failures[0].Message, `no symbolic dimension "M"`) {
		t.Errorf("exit %d, %+v", r.code, d)
	}
	// If all tasks fail, there is nothing to count.
	bad = write(t, "study.json", head+`"models": [{"file": "residual.json", "dims": [{"M": 1}]}], `+one)
	if r := call(t, "study", bad, "--models", models); r.code != exit.CodeFailed || r.out != "x: no results of 1 task\n" {
		t.Errorf("exit %d, %s", r.code, r.out)
	}
}
