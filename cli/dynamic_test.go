package cli

import (
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
)

// dynamic has values whose shapes depend on data: the places of positive elements.
const dynamic = `{
  "version": 1,
  "name": "dynamic",
  "inputs": [{"name": "x", "dtype": "float32", "shape": [3, 4]}],
  "nodes": [
    {"name": "positive", "op": "gt", "inputs": ["x", 0]},
    {"name": "places", "op": "nonzero", "inputs": ["positive"]},
    {"name": "next", "op": "add", "inputs": ["places", 1]}
  ],
  "outputs": ["next"]
}
`

func TestInferDynamic(t *testing.T) {
	path := write(t, "g.json", dynamic)
	text := succeed(t, "infer", "--json", path)
	for _, want := range []string{
		`{"name": "places", "op": "nonzero", "dtype": "int64", "shape": ["u0", 2], "strides": [1, "u0"], "offset": 0, "flags": ["non_overlapping_and_dense"], "alias_of": null, "conditions": {"contiguous": "Eq(u0, 0) | Eq(u0, 1)"}, "dynamic": true, "segment": 1}`,
		`{"name": "next", "op": "add", "dtype": "int64", "shape": ["u0", 2], "strides": ["Where(Lt(u0, 1), 2, 1)", "Where(Lt(u0, 1), 1, u0)"], "offset": 0, "flags": ["non_overlapping_and_dense"], "alias_of": null, "conditions": {`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if table := succeed(t, "infer", path); !strings.Contains(table, "places    nonzero  int64    [u0,2]  [1,u0] ") ||
		!strings.Contains(table, "next      add      int64    [u0,2]  [Where(Lt(u0, 1), 2, 1),Where(Lt(u0, 1), 1, u0)]") {
		t.Errorf("got\n%s", table)
	}
}

func TestRunDynamic(t *testing.T) {
	path := write(t, "g.json", dynamic)
	if out := succeed(t, "run", path); !strings.HasPrefix(out, "next  int64  [") {
		t.Errorf("got %s", out)
	}
	doc := decode[benchDoc](t, succeed(t, "bench", path, "--runs", "3", "--json"))
	if doc.Runs != 3 || !doc.Piecewise || *doc.Median <= 0 || doc.Call != "Run" || doc.Released.Runs != 3 ||
		doc.Into.Runs != 3 || *doc.Into.Median <= 0 || len(doc.Into.Samples) != 3 {
		t.Errorf("%+v", doc)
	}
	if out := succeed(t, "bench", path, "--runs", "3"); !strings.HasPrefix(out, "A run of ") ||
		strings.Count(out, "\noptimal ") != 3 {
		t.Errorf("got %s", out)
	}
	r := call(t, "compare", path)
	if r.code != exit.CodeFailed || r.out != "" ||
		!strings.Contains(r.errors, path+`:7:5: node "places" (nonzero): shapes depend on data`) {
		t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.errors)
	}
}

// TestPlanDynamic wants every segment, and the plan of the one whose shapes are known ahead.
func TestPlanDynamic(t *testing.T) {
	path := write(t, "g.json", dynamic)
	text := succeed(t, "plan", "--json", "--check", path)
	for _, want := range []string{`"steps": [
  {"name": "positive", "ops": ["positive"], `,
		`{"segment": 0, "nodes": ["positive"], "planned": true, "decides_shapes": false, "after": [], "inputs": [{"name": "x", "dtype": "float32", "shape": [3, 4]}], "awaits": [], "outputs": [{"name": "positive", "dtype": "bool", "shape": [3, 4]}]}`,
		`{"segment": 1, "nodes": ["places"], "planned": false, "decides_shapes": true, "after": [0], `,
		`"awaits": [], "outputs": [{"name": "next", "dtype": "int64", "shape": ["u0", 2]}]}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if out := succeed(t, "plan", path); !strings.Contains(out, "2        next      in a run  [1]    places     next "+
		"int64[u0,2]\n") {
		t.Errorf("got\n%s", out)
	}
	none := write(t, "none.json", strings.Replace(dynamic, `{"name": "positive", "op": "gt", "inputs": ["x", 0]},`, "", 1))
	none = write(t, "none.json", strings.Replace(string(read(t, none)), `["positive"]`, `["x"]`, 1))
	if text := succeed(t, "plan", "--json", none); !strings.Contains(text, `"steps": [],`) {
		t.Errorf("got\n%s", text)
	}
}

// TestInferEveryRefusal has two mistakes that do not depend on one another, and a node that
// depends on one.
func TestInferEveryRefusal(t *testing.T) {
	path := write(t, "g.json", strings.Replace(broken, `    {"name": "fine"`,
		`    {"name": "flat", "op": "view", "inputs": ["a"], "attrs": {"size": [4]}},
    {"name": "fine"`, 1))
	for _, command := range []string{"infer", "run", "plan"} {
		r := call(t, command, path)
		lines := strings.Split(strings.TrimSpace(r.errors), "\n")
		if r.code != exit.CodeUsage || len(lines) != 2 || !strings.HasPrefix(lines[0],
			path+":8:63: node \"flat\" (view): ") ||
			lines[1] != path+`:10:5: node "sum" (add): `+sizeMismatch {
			t.Errorf("%s: exit %d, stderr\n%s", command, r.code, r.errors)
		}
	}
	doc := decode[inferDoc](t, call(t, "infer", "--json", path).out)
	if len(doc.Values) != 0 || len(doc.Errors) != 2 {
		t.Errorf("%+v", doc)
	}
}
