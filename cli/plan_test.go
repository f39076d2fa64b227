package cli

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/bench"
	"github.com/graphrun/graphrun/cli/internal/compare"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/plan"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
)

type planJSON struct {
	Regret   any            `json:"regret"`
	Solution *plan.Solution `json:"solution"`
	toldDoc
	Version   int                      `json:"version"`
	Strategy  string                   `json:"strategy"`
	Exact     bool                     `json:"exact"`
	Optimal   bool                     `json:"optimal"`
	CostNS    float64                  `json:"cost_ns"`
	Copies    []report.Copy            `json:"copies"`
	Elided    []report.Elision         `json:"elided"`
	Passes    []report.Pass            `json:"passes"`
	Folded    []report.Folding         `json:"folded"`
	Packed    []report.Packing         `json:"packed"`
	InRuns    []report.RunPacking      `json:"packed_in_runs"`
	Parts     []report.Decomposition   `json:"decomposed"`
	Unfused   []report.Unfused         `json:"unfused"`
	NoCode    string                   `json:"no_machine_code"`
	Code      *inspect.StepCode        `json:"code"`
	Steps     []report.Step            `json:"steps"`
	Constants float64                  `json:"constants_bytes"`
	Moved     int                      `json:"moved_bytes"`
	PeakBytes int                      `json:"peak_bytes"`
	Rejected  []plan.RejectedPlan      `json:"rejected"`
	Within    *plan.WithinMemory       `json:"within_memory"`
	Memory    report.Memory            `json:"memory"`
	Dims      map[string]int           `json:"dims"`
	PlanMS    float64                  `json:"plan_ms"`
	Profile   report.Profile           `json:"profile"`
	Bound     *float64                 `json:"lower_bound_ns"`
	Fewest    *report.FewestCopies     `json:"fewest_copies"`
	Advice    *layout.Advice           `json:"advice"`
	Best      []experiment.Choice      `json:"best"`
	TimedOut  bool                     `json:"best_timed_out"`
	Wanted    int                      `json:"best_wanted"`
	Sensitive *layout.Sensitivity      `json:"sensitivity"`
	Prices    []pricing.LabelPrice     `json:"prices"`
	Measured  *plan.MeasuredPlan       `json:"measured"`
	Classes   []inspect.Specialization `json:"classes"`
	ForAll    []inspect.Proof          `json:"for_all"`
}

type timesDoc struct {
	StrategyIs string `json:"strategy"`
	experiment.Spread
	report.Costs
	Samples []float64 `json:"samples_ns"`
}

type benchDoc struct {
	toldDoc
	timesDoc
	Version     int  `json:"version"`
	Interrupted bool `json:"interrupted"`
	Threads     int  `json:"threads"`
	Piecewise   bool `json:"piecewise"`

	Dims     map[string]int   `json:"dims"`
	Call     string           `json:"call"`
	Released bench.CallReport `json:"released"`
	Into     bench.CallReport `json:"into"`
	Noise    string           `json:"noise"`
}

type compareDoc struct {
	toldDoc
	Version     int           `json:"version"`
	Interrupted bool          `json:"interrupted"`
	Equal       bool          `json:"equal"`
	Differences []string      `json:"differences"`
	Strategies  []compare.Row `json:"strategies"`

	Verdict  *experiment.Ranking `json:"verdict"`
	Verdicts []compare.Verdict   `json:"verdicts"`
}

// oneLoop is a single pointwise step with a known walk.
const oneLoop = `{"version": 1,
 "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 64, 5, 4]}],
 "nodes": [{"name": "c", "op": "clone", "inputs": ["x"], "attrs": {"memory_format": "channels_last"}}],
 "outputs": ["c"]}`

func TestPlanJSON(t *testing.T) {
	out := succeed(t, "plan", "--json", write(t, "g.json", small))
	doc := decode[planJSON](t, out)
	if doc.Strategy != "optimal" || !doc.Optimal || doc.PeakBytes <= 0 || len(doc.Steps) < 2 {
		t.Errorf("%+v", doc)
	}
	for _, key := range []string{"strategy", "optimal", "cost_ns", "copies", "elided", "steps", "peak_bytes", "plan_ms"} {
		var keys map[string]json.RawMessage
		if err := json.Unmarshal([]byte(out), &keys); err != nil || keys[key] == nil || string(keys[key]) == "null" {
			t.Errorf("%v: no %q", err, key)
		}
	}
	i := slices.IndexFunc(doc.Steps, func(s report.Step) bool { return slices.Contains(s.Ops, "y") })
	if i < 0 {
		t.Fatalf("no step runs y: %+v", doc.Steps)
	}
	y := doc.Steps[i]
	if y.Loop == nil || len(y.Loop.Strides) != 3 || !slices.Equal(y.Strides, []int{60, 1, 15, 3}) {
		t.Errorf("%+v", y)
	}
}

func TestPlanLoop(t *testing.T) {
	doc := decode[planJSON](t, succeed(t, "plan", "--json", write(t, "g.json", oneLoop)))
	if len(doc.Steps) != 1 {
		t.Fatalf("%+v", doc.Steps)
	}
	if s := doc.Steps[0]; s.Loop != nil && (!slices.Equal(s.Loop.Shape, []int{64, 20}) ||
		!slices.Equal(s.Loop.Strides[0], []int{4, 256}) || !slices.Equal(s.Loop.Strides[1], []int{80, 4})) {
		t.Errorf("%+v", s.Loop)
	}
}

// The plan shows the replacements of composite nodes, and packed constants with their readers.
func TestPlanShowsPartsAndPackings(t *testing.T) {
	path := write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [30, 40]}],
 "constants": [{"name": "w", "dtype": "float32", "shape": [40, 50], "data": [`+strings.Repeat("0.5, ", 1999)+`0.5]}],
 "nodes": [{"name": "y", "op": "matmul", "inputs": ["x", "w"]}, {"name": "t", "op": "trace", "inputs": ["y"]}],
 "outputs": ["y", "t"]}`)
	doc := decode[planJSON](t, succeed(t, "plan", "--json", path))
	if len(doc.Parts) != 1 || doc.Parts[0].Node != "t" || !slices.Equal(doc.Parts[0].Into, []string{"t.diagonal", "t"}) {
		t.Errorf("decomposed %+v", doc.Parts)
	}
	if len(doc.Packed) != 1 || doc.Packed[0].Original != "w" || !slices.Equal(doc.Packed[0].Readers, []string{"y"}) ||
		doc.Packed[0].Bytes != doc.Memory.Packed || doc.Memory.Constants != 0 {
		t.Errorf("packed %+v, memory %+v", doc.Packed, doc.Memory)
	}
	out := succeed(t, "plan", path)
	for _, want := range []string{"Composite nodes", "t.diagonal, t",
		"\n1 weight packed, 10 KiB; --json lists them\n", "panels of"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestPlanReading checks that the text of a plan has the passes and the memory before the steps, one row for the folded
// nodes of an op, and a line if no change by the caller reduces the cost.
func TestPlanReading(t *testing.T) {
	out := succeed(t, "plan", models+"/residual.json", "--dim", "N=1", "--pin", "conv2=contiguous")
	at := 0
	for _, want := range []string{"reduces the cost by 0.1% or more (", "\nInserted copies\n", "\nconv2 before its pin ",
		"`conv2` before its pin (", "\nPasses\n", "\nMemory of a run\n", "\nall but inputs ", "\nSteps\n",
		" weights packed, "} {
		i := strings.Index(out[at:], want)
		if i < 0 {
			t.Fatalf("no %q from %d on in\n%s", want, at, out)
		}
		at += i
	}
	path := write(t, "folded.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],
 "constants": [{"name": "c", "dtype": "float32", "shape": [4], "data": [1, 2, 3, 4]}],
 "nodes": [{"name": "h", "op": "neg", "inputs": ["c"]}, {"name": "k", "op": "neg", "inputs": ["h"]},
           {"name": "y", "op": "add", "inputs": ["x", "k"]}], "outputs": ["y"]}`)
	if out := succeed(t, "plan", path); !strings.Contains(out, "neg  2      32 bytes  h, k ") {
		t.Error(out)
	}
}

// TestPlanOriginals checks that the memory names the weights that only their packed form reads.
func TestPlanOriginals(t *testing.T) {
	path := models + "/residual.json"
	memory := decode[planJSON](t, succeed(t, "plan", "--json", path, "--dim", "N=1")).Memory
	text := "of the constants are original weights that no run reads"
	if out := succeed(t, "plan", path, "--dim", "N=1"); strings.Contains(out, text) != (memory.Originals > 0) ||
		memory.Originals > memory.Constants {
		t.Errorf("%+v\n%s", memory, out)
	}
	exact := decode[planJSON](t, succeed(t, "plan", "--json", path, "--dim", "N=1", "--exact")).Memory
	if exact.Originals != 0 {
		t.Errorf("%+v", exact)
	}
}

// The plan shows every pass and its effect; the cost is that of the remaining steps.
func TestPlanShowsThePasses(t *testing.T) {
	path := write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],
 "constants": [{"name": "c", "dtype": "float32", "shape": [4], "data": [1, 2, 3, 4]}],
 "nodes": [{"name": "h", "op": "neg", "inputs": ["c"]}, {"name": "y", "op": "add", "inputs": ["x", "h"]}],
 "outputs": ["y"]}`)
	doc := decode[planJSON](t, succeed(t, "plan", "--json", path))
	if len(doc.Folded) != 1 || doc.Folded[0] != (report.Folding{Node: "h", Op: "neg", Bytes: 16}) {
		t.Errorf("folded %+v", doc.Folded)
	}
	i := slices.IndexFunc(doc.Passes, func(p report.Pass) bool { return p.Pass == "fold" })
	if i < 0 || doc.Passes[i].Did != "1 node folded into 16 bytes of constants" || doc.Passes[i].Nodes != 1 {
		t.Errorf("passes %+v", doc.Passes)
	}
	i = slices.IndexFunc(doc.Passes, func(p report.Pass) bool { return p.Pass == "layout" })
	if i < 0 || doc.Passes[i].Did != "1 layout and 1 implementation chosen, 0 copies inserted" {
		t.Errorf("passes %+v", doc.Passes)
	}
	if len(doc.Steps) != 1 || doc.CostNS != doc.Steps[0].CostNS {
		t.Errorf("the plan costs %v, its steps are %+v", doc.CostNS, doc.Steps)
	}
	out := succeed(t, "plan", path)
	for _, want := range []string{"Folded nodes", "it depends on constants alone", "Passes"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestPlanText(t *testing.T) {
	path := write(t, "g.json",
		strings.Replace(small, `["y",`, `[{"value": "y", "name": "y", "memory_format": "contiguous"},`, 1))
	out := succeed(t, "plan", path)
	for _, want := range []string{"strategy optimal", "Inserted copies", "Steps", "[60,1,15,3]  [60,20,5,1]"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if dump := succeed(t, "plan", path, "--dump", "--check"); !strings.Contains(dump, "after layout") {
		t.Errorf("no dump in\n%s", dump)
	}
	r := call(t, "plan", path, "--dump", "--json")
	if !json.Valid([]byte(r.out)) || !strings.Contains(r.errors, "after layout") {
		t.Errorf("--dump --json: stdout\n%s\nstderr\n%s", r.out, r.errors)
	}
}

// What --check could not compare is said on stderr, once, and is in the JSON document.
func TestPlanSaysWhatWentUnchecked(t *testing.T) {
	path := write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 1048576]}],
		"nodes": [{"name": "y", "op": "relu", "inputs": ["x"]}], "outputs": ["y"]}`)
	r := call(t, "plan", path, "--check", "--json")
	want := "--check: the values of output \"y\" were not checked: the graph is too large"
	if strings.Count(r.errors, want) != 1 || strings.Count(r.errors, "\n") != 1 {
		t.Errorf("stderr:\n%s", r.errors)
	}
	var doc struct{ Unchecked []report.Unchecked }
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || len(doc.Unchecked) != 1 ||
		!slices.Equal(doc.Unchecked[0].Outputs, []string{"y"}) {
		t.Errorf("%v, %+v", err, doc)
	}
	r = call(t, "plan", write(t, "s.json", small), "--check", "--json")
	if r.complaints() != "" || !strings.Contains(r.out, `"unchecked": []`) {
		t.Errorf("stderr:\n%s\nstdout:\n%s", r.errors, r.out)
	}
}

func TestBench(t *testing.T) {
	path := write(t, "g.json", small)
	doc := decode[benchDoc](t, succeed(t, "bench", path, "--runs", "5", "--threads", "1", "--json"))
	if doc.Runs != 5 || len(doc.Samples) != 5 || doc.Threads != 1 || *doc.Min <= 0 || *doc.Min > *doc.Median ||
		*doc.Median > *doc.Max {
		t.Errorf("%+v", doc)
	}
	if out := succeed(t, "bench", path, "--runs", "2"); !strings.HasPrefix(out, "A run of ") ||
		strings.Count(out, "\noptimal ") != 3 {
		t.Errorf("got\n%s", out)
	}
	// The tensor for RunInto cannot be laid out as an output that repeats elements.
	expanded := write(t, "expanded.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [3, 1]}],
		"nodes": [{"name": "y", "op": "expand", "inputs": ["x"], "attrs": {"size": [3, 8]}}], "outputs": ["y"]}`)
	if doc := decode[benchDoc](t, succeed(t, "bench", expanded, "--runs", "2", "--json")); doc.Runs != 2 {
		t.Errorf("%+v", doc)
	}
}

func TestCompare(t *testing.T) {
	path, page := write(t, "g.json", small), filepath.Join(t.TempDir(), "out.html")
	doc := decode[compareDoc](t, succeed(t, "compare", path, "--runs", "2", "--json", "--strategies",
		"contiguous,propagate"))
	if !doc.Equal || len(doc.Strategies) != 2 || doc.Strategies[0].Name != "contiguous" || doc.Strategies[0].Runs !=
		2 || len(doc.Strategies[1].Samples) != 2 {
		t.Errorf("%+v", doc)
	}
	out := succeed(t, "compare", path, "--runs", "2", "--report", page)
	if !strings.Contains(out, "all strategies give equal values") {
		t.Errorf("got\n%s", out)
	}
	html, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(html), ">channels_last<") {
		t.Errorf("%v\n%s", err, html)
	}
}

// TestPlanPrices plans at prices at which the chosen implementation of a convolution costs too much, with a proof.
func TestPlanPrices(t *testing.T) {
	file := models + "/residual.json"
	output := succeed(t, "plan", file, "--measure", "--json")
	var measured pricing.Prices
	require.NoError(t, json.Unmarshal([]byte(output), &measured))
	implOf := func(doc planJSON, name string) string {
		for _, s := range doc.Steps {
			if s.Name == name {
				return s.Impl
			}
		}
		return ""
	}
	before := decode[planJSON](t, output)
	for _, price := range measured.Prices {
		if price.Node == "conv2" {
			require.Equal(t, implOf(before, "conv2"), price.Implementation)
			price.MeasuredNS, price.LowNS, price.HighNS = 1000*price.PredictedNS, 0, 0
			measured.AddPrice(price)
		}
	}
	text, err := json.Marshal(measured)
	require.NoError(t, err)
	path, certificate := write(t, "prices.json", string(text)), filepath.Join(t.TempDir(), "c.json")
	after := decode[planJSON](t, succeed(t, "plan", file, "--prices", path, "--certificate", certificate, "--json"))
	require.NotEqual(t, implOf(before, "conv2"), implOf(after, "conv2"))
	require.Contains(t, succeed(t, "verify", file, certificate), " at 3 measured prices and the rates of the profile, and no")
	require.Contains(t, succeed(t, "plan", file, "--prices", path), " and 3 measured prices")
	sum := 0.0
	for _, s := range after.Steps {
		sum += s.CostNS
	}
	require.InEpsilon(t, sum, after.CostNS, 1e-6)
	require.Contains(t, succeed(t, "compare", file, "--prices", path, "--runs", "2", "--strategies", "optimal"), "optimal")
	r := call(t, "plan", file, "--prices", write(t, "bad.json", `{"version": 1}`))
	require.Equal(t, exit.CodeUsage, r.code)
	require.Contains(t, r.errors, `bad.json: the file has no "prices": plan --measure --json and tune write them`)
}

// TestPlanMeasure holds what was measured to the steps, and the sums to theirs.
func TestPlanMeasure(t *testing.T) {
	doc := decode[planJSON](t, succeed(t, "plan", models+"/residual.json", "--measure", "--json"))
	if doc.Measured == nil {
		t.Fatal("nothing was measured")
	}
	measured, predicted := 0.0, 0.0
	for _, s := range doc.Steps {
		if s.MeasuredNS == nil || *s.MeasuredNS <= 0 {
			t.Fatalf("step %s was not measured", s.Name)
		}
		measured += *s.MeasuredNS
		predicted += s.CostNS
	}
	m := doc.Measured
	if m.Runs < 10 || math.Abs(m.MeasuredNS-measured) > 1 || math.Abs(m.PredictedNS-predicted) > 1 ||
		m.MedianError > m.P90Error {
		t.Errorf("%+v, steps take %v and %v were estimated", m, measured, predicted)
	}
}
