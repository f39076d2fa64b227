package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// explainJSON is what the tests read of the document.
type explainJSON struct {
	Breaks string
	Value  *struct {
		Name    string
		Strides []int
	}
	Layout struct {
		Rule string
		Sort []struct {
			Faster, Slower int
			Exchanged      bool
			By, Why        string
		}
		Order []int
	}
	Run struct {
		What, Step, Impl string
		With, Readers    []string
		Strides          []int
	}
	Copies  []struct{ Value, Why string }
	Unfused []struct{ Node, Reader, Why string }
}

// mixed has a value of every rule: images in two formats that meet, a view, an op with a rule of its own, and nodes
// that share a loop, or do not.
const mixed = `{"version": 1, "inputs": [
  {"name": "image", "dtype": "float32", "shape": [2, 3, 4, 5], "memory_format": "channels_last"},
  {"name": "plane", "dtype": "float32", "shape": [2, 3, 4, 5]}, {"name": "row", "dtype": "float32", "shape": [5]}],
 "nodes": [{"name": "first", "op": "add", "inputs": ["image", "plane"]},
  {"name": "second", "op": "mul", "inputs": ["first", "row"]},
  {"name": "transposed", "op": "permute", "inputs": ["second"], "attrs": {"dims": [0, 2, 3, 1]}},
  {"name": "pooled", "op": "max_pool2d", "inputs": ["second"], "attrs": {"kernel_size": 2}},
  {"name": "small", "op": "mul", "inputs": ["row", 2]}, {"name": "spread", "op": "add", "inputs": ["small", "second"]}],
 "outputs": ["transposed", "pooled", "spread"]}`

// explanation is the document of a call.
func explanation(t *testing.T, args ...string) (r explainJSON) {
	t.Helper()
	if err := json.Unmarshal([]byte(succeed(t, append([]string{"explain", "--json"}, args...)...)), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestExplain(t *testing.T) {
	path := write(t, "g.json", mixed)
	of := func(name string, flags ...string) explainJSON {
		return explanation(t, append([]string{path, name}, flags...)...)
	}
	first := of("first")
	if first.Layout.Rule != "permutation" || !slices.Equal(first.Layout.Order, []int{0, 2, 3, 1}) ||
		!slices.Equal(first.Value.Strides, []int{60, 1, 15, 3}) {
		t.Errorf("first: %+v", first)
	}
	// The image, which comes first, decides: its channels are fastest.
	exchanged := 0
	for _, c := range first.Layout.Sort {
		if c.By != "image" {
			t.Errorf("decided by %q: %+v", c.By, c)
		}
		if c.Exchanged && c.Slower == 1 && strings.HasPrefix(c.Why, "strides ") {
			exchanged++
		}
	}
	if exchanged != 2 {
		t.Errorf("%d exchanges in %+v", exchanged, first.Layout.Sort)
	}
	if first.Run.Step == "" || !slices.Contains(first.Run.With, "second") || len(first.Run.Strides) > 0 ||
		!strings.Contains(first.Run.What, "never stored") || !slices.Contains(first.Run.Readers, "second") {
		t.Errorf("first runs as %+v", first.Run)
	}
	if r := of("transposed"); r.Layout.Rule != "view" || !strings.Contains(r.Run.What, "view of second") {
		t.Errorf("transposed: %+v", r)
	}
	if r := of("pooled"); r.Layout.Rule != "op" || r.Run.Impl == "" {
		t.Errorf("pooled: %+v", r)
	}
	if r := explanation(t, models+"/residual.json", "image", "--strategy", "contiguous"); r.Layout.Rule != "graph" ||
		len(r.Copies) != 1 || r.Copies[0].Value != "image" || r.Copies[0].Why == "" {
		t.Errorf("image: %+v", r)
	}
	r := of("small")
	if len(r.Unfused) != 1 || r.Unfused[0].Reader != "spread" ||
		r.Unfused[0].Why != "small iterates over [5], spread over [2, 3, 4, 5]" {
		t.Errorf("small: %+v", r.Unfused)
	}
	if r := of("small", "--no-fusion"); len(r.Unfused) != 0 {
		t.Errorf("nothing is fused, unfused: %+v", r.Unfused)
	}
	text := succeed(t, "explain", path, "first")
	for _, want := range []string{"first: add, float32 [2,3,4,5] by [60,1,15,3], channels_last", "decided by", "exchanged",
		"the slowest first: [0,2,3,1]", "never stored", "read by second"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestExplainFirstBreak(t *testing.T) {
	path := write(t, "g.json", mixed)
	r := explanation(t, path, "--first-break", "channels_last")
	if r.Breaks != "channels_last" || r.Value == nil || r.Value.Name != "transposed" {
		t.Errorf("%+v", r)
	}
	if r := explanation(t, path, "--first-break", "channels_last_3d"); r.Value != nil {
		t.Errorf("%+v", r.Value)
	}
	for format, want := range map[string]string{"contiguous": "first is the first value that loses contiguous\n",
		"channels_last_3d": "no value loses channels_last_3d"} {
		if out := succeed(t, "explain", path, "--first-break", format); !strings.HasPrefix(out, want) {
			t.Errorf("%s: %s", format, out)
		}
	}
}

// Folded constants, unneeded nodes and data-dependent shapes are the explanation.
func TestExplainWhatDoesNotRun(t *testing.T) {
	path := write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [3]}],
 "constants": [{"name": "c", "dtype": "float32", "shape": [3], "data": [1, 2, 3]}],
 "nodes": [{"name": "twice", "op": "mul", "inputs": ["c", 2]}, {"name": "y", "op": "add", "inputs": ["x", "twice"]},
  {"name": "unused", "op": "exp", "inputs": ["x"]}, {"name": "same", "op": "contiguous", "inputs": ["y"]},
  {"name": "z", "op": "exp", "inputs": ["same"]}], "outputs": ["z"]}`)
	for name, want := range map[string]string{"twice": "depends on constants alone", "unused": "no output depends on it",
		"same": "does not run", "c": "a constant", "x": "an input"} {
		if out := succeed(t, "explain", path, name); !strings.Contains(out, want) {
			t.Errorf("%s: no %q in\n%s", name, want, out)
		}
	}
	path = write(t, "d.json", dynamic)
	if out := succeed(t, "explain", path, "places"); !strings.Contains(out, "depends on data") {
		t.Errorf("places: %s", out)
	}
}

func TestExplainRefuses(t *testing.T) {
	path := write(t, "g.json", small)
	for args, want := range map[string]string{
		"explain " + path:                                      "wants a graph file and the name of a value",
		"explain " + path + " nothing":                         path + `: there is no value "nothing"`,
		"explain " + path + " x --first-break contiguous":      "wants one graph file",
		"explain " + path + " --first-break preserve":          `--first-break "preserve": want one of`,
		"explain " + path + " --first-break chanels_last":      "did you mean channels_last?",
		"explain " + path + " x --strategy fast":               "strategy",
		"explain missing.json --first-break contiguous --json": "missing.json",
	} {
		if r := call(t, strings.Fields(args)...); r.code != 2 || !strings.Contains(r.errors, want) {
			t.Errorf("%s: exit %d: %s", args, r.code, r.errors)
		}
	}
}

// A copy that the cheapest plan has no need of is said to be so, and no line is left empty.
func TestExplainNeedlessCopy(t *testing.T) {
	out := succeed(t, "explain", "../examples/models/residual.json", "y", "--dim", "N=2",
		"--strategy", "propagate")
	_, tail, found := strings.Cut(out, "\nThe copy of act2 into [2048,256,16,1]\n")
	if !found || !strings.Contains(tail, "the same cost: one of the cheapest plans has no such copy\n") {
		t.Fatalf("%s", out)
	}
	for line := range strings.Lines(tail) {
		if strings.TrimSpace(line) == "" {
			t.Errorf("an empty line in\n%s", tail)
		}
	}
}

// TestExplainUnknownSizes explains values whose strides are expressions, and with sizes in their place.
func TestExplainUnknownSizes(t *testing.T) {
	path := write(t, "g.json", manyGuards)
	document := succeed(t, "explain", "--json", path, "y")
	valid(t, "explain", document)
	for _, want := range []string{`"strides": ["C*H*W", 1, "C*W", "C"]`, `{"name": "l", "strides": ["C*H*W", 1, "C*W", "C"]}`,
		`"why": "strides C*W and 1"`, `{"condition": "Eq(C, 0) | Eq(C*W, 0)`, `"assumed": {"C": 2`} {
		if !strings.Contains(document, want) {
			t.Errorf("%s is not in\n%s", want, document)
		}
	}
	if strings.Contains(document, `"node": "r"`) {
		t.Errorf("a guard is that of a node that y does not depend on:\n%s", document)
	}
	text := succeed(t, "explain", path, "y")
	for _, want := range []string{"[N,C,H,W] by [C*H*W,1,C*W,C], channels_last", "\nholds while ",
		"for C=2, H=2, K=1, M=3, N=2, W=2\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	dims := []string{"--dim", "N=2", "--dim", "C=3", "--dim", "H=4", "--dim", "W=5", "--dim", "M=1", "--dim", "K=1"}
	document = succeed(t, append([]string{"explain", "--json", path, "y"}, dims...)...)
	if !strings.Contains(document, `"strides": [60, 1, 15, 3]`) || strings.Contains(document, `"guards"`) {
		t.Error(document)
	}
}

func TestExplainFirstBreakOfUnknownSizes(t *testing.T) {
	path := write(t, "g.json", `{"version": 1, "symbols": {"N": {"min": 2}},
"inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 3, 4, "W"], "memory_format": "channels_last"}],
"nodes": [{"name": "a", "op": "neg", "inputs": ["x"]},
 {"name": "b", "op": "contiguous", "inputs": ["a"], "attrs": {"memory_format": "contiguous"}}], "outputs": ["b"]}`)
	document := succeed(t, "explain", "--json", path, "--first-break", "channels_last")
	valid(t, "explain", document)
	for _, want := range []string{`"breaks": "channels_last"`, `"name": "b"`, `"strides": ["12*W", "4*W", "W", 1]`} {
		if !strings.Contains(document, want) {
			t.Errorf("%s is not in\n%s", want, document)
		}
	}
}
