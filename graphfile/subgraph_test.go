package graphfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/tensor"
)

// nested has a graph as an attribute, which has one itself.
const nested = `{
  "version": 1,
  "inputs": [
    {"name": "x", "dtype": "float32", "shape": [2, 3]}
  ],
  "nodes": [
    {"name": "outer", "op": "call", "inputs": ["x"], "attrs": {"body": {
      "version": 1,
      "symbols": {
        "N": {}
      },
      "inputs": [
        {"name": "x", "dtype": "int8", "shape": ["N"]}
      ],
      "constants": [
        {"name": "k", "dtype": "int8", "shape": [3], "data": [1, 2, 3]}
      ],
      "nodes": [
        {"name": "outer", "op": "call", "inputs": [], "attrs": {"body": {
          "version": 1,
          "inputs": [],
          "constants": [
            {"name": "k", "dtype": "float64", "shape": [], "data": 1}
          ],
          "nodes": [
            {"name": "r", "op": "relu", "inputs": ["k"]}
          ],
          "outputs": [
            "r"
          ]
        }}}
      ],
      "outputs": [
        "outer"
      ]
    }, "int": 2}}
  ],
  "outputs": [
    "outer"
  ]
}
`

func TestSubgraphs(t *testing.T) {
	g := mustLoad(t, nested)
	if m := g.Value("outer").Meta; m.DType != tensor.Float64 || m.Rank() != 0 {
		t.Errorf("got %v", m)
	}
	if got := save(t, g); got != nested {
		t.Errorf("got\n%s", got)
	}
	if got := save(t, g.Clone()); got != nested {
		t.Errorf("a clone gives\n%s", got)
	}
}

func TestSubgraphConstants(t *testing.T) {
	var keys []string
	write := func(path string, names []string, data []*tensor.Tensor) error {
		keys = names
		return os.WriteFile(path, nil, 0o644)
	}
	path := filepath.Join(t.TempDir(), "g.json")
	must(t, graphfile.SaveFile(path, mustLoad(t, nested), graphfile.SideFile("w.npz", func(*graph.Value) bool {
		return true
	}, write)))
	if fmt.Sprint(keys) != "[outer.body.k outer.body.outer.body.k]" {
		t.Errorf("got %v", keys)
	}
}

func TestSubgraphMistakes(t *testing.T) {
	deep := `{"version": 1, "inputs": [], "nodes": [], "outputs": []}`
	for range 70 {
		deep = `{"version": 1, "inputs": [], "nodes": [{"name": "a", "op": "call", "inputs": [], "attrs": {"body": ` + deep +
			`}}], "outputs": []}`
	}
	for _, c := range []struct{ from, to, want string }{
		{`["k"]}
`, `["l"]}
`, `g.json:26:52: node "r" (relu): there is no value "l"`},
		{`["k"]}
`, `["k", "k"]}
`, `g.json:26:13: node "r" (relu): takes at most 1 operand, got 2`},
		{`"int8", "shape": ["N"]`, `"int9", "shape": ["N"]`, `g.json:13:32: input "x": `},
		{`          "version": 1,
`, ``, `g.json:19:73: "version" is missing`},
		{`"body": {
      "version": 1,`, `"body": {
      "vision": 1,`, `g.json:8:7: unknown key "vision"`},
		{`["x"], "attrs": {"body"`, `["x"], "attrs": {"bod"`, `unknown attribute "bod"`},
		{nested, nested[:200], "g.json:"},
		{nested, `{"version": 1, "inputs": [], "nodes": [{"name": "a", "op": "call", "inputs": [], "attrs": {"body": null}}], "outputs": []}`, "want an object, got null"},
		{nested, `{"version": 1, "inputs": [], "nodes": [{"name": "a", "op": "call", "inputs": [], "attrs": {"body": {"value": "x"}}}], "outputs": []}`, `unknown key "value"`},
		{nested, deep, "more than 64 deep"},
	} {
		text := strings.Replace(nested, c.from, c.to, 1)
		_, err := graphfile.Read(strings.NewReader(text), lookup, graphfile.Options{Name: "g.json", Dir: "."})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}
