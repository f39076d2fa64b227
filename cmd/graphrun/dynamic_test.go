package main

import (
	"strings"
	"testing"
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
		`{"name": "places", "op": "nonzero", "dtype": "int64", "shape": null, "strides": null, "offset": null, "flags": [], "alias_of": null, "dynamic": true}`,
		`{"name": "next", "op": "add", "dtype": null, "shape": null, "strides": null, "offset": null, "flags": [], "alias_of": null, "dynamic": true}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	doc := decode[inferDoc](t, text)
	if len(doc.Values) != 4 || doc.Values[1].Dynamic || !doc.Values[2].Dynamic || doc.Values[3].Shape != nil {
		t.Errorf("%+v", doc)
	}
	if table := succeed(t, "infer", path); !strings.Contains(table, "places    nonzero  int64    ?      ?        ?\n") ||
		!strings.Contains(table, "next      add      ?        ?      ?        ?\n") {
		t.Errorf("got\n%s", table)
	}
}

func TestRunDynamic(t *testing.T) {
	path := write(t, "g.json", dynamic)
	if out := succeed(t, "run", path); !strings.HasPrefix(out, "next  int64  [") {
		t.Errorf("got %s", out)
	}
	doc := decode[benchDoc](t, succeed(t, "bench", path, "--runs", "3", "--json"))
	if doc.Runs != 3 || !doc.Piecewise || doc.Median <= 0 {
		t.Errorf("%+v", doc)
	}
	if out := succeed(t, "bench", path, "--runs", "3"); strings.Count(out, "\n") != 2 {
		t.Errorf("got %s", out)
	}
	for _, name := range []string{"plan", "compare"} {
		r := call(t, name, path)
		if r.code != exitFailed || r.out != "" || !strings.Contains(r.errors, path+": ") || !strings.Contains(r.errors, "depend on data") {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", name, r.code, r.out, r.errors)
		}
	}
}

// TestInferEveryRefusal has two mistakes that do not depend on one another, and a node that
// depends on one.
func TestInferEveryRefusal(t *testing.T) {
	path := write(t, "g.json", strings.Replace(broken, `    {"name": "fine"`, `    {"name": "flat", "op": "view", "inputs": ["a"], "attrs": {"size": [4]}},
    {"name": "fine"`, 1))
	for _, command := range []string{"infer", "run", "plan"} {
		r := call(t, command, path)
		lines := strings.Split(strings.TrimSpace(r.errors), "\n")
		if r.code != exitWrong || len(lines) != 2 || !strings.HasPrefix(lines[0], path+":8:63: node \"flat\" (view): ") ||
			lines[1] != path+`:10:5: node "sum" (add): `+sizeMismatch {
			t.Errorf("%s: exit %d, stderr\n%s", command, r.code, r.errors)
		}
	}
	doc := decode[inferDoc](t, call(t, "infer", "--json", path).out)
	if len(doc.Values) != 0 || len(doc.Errors) != 2 {
		t.Errorf("%+v", doc)
	}
}
