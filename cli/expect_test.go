package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
)

// TestExpect compares inference with PyTorch 1.13: scripts/from_torch.py wrote these files from the modules of the same
// names in scripts/torch_modules.py, block with --channels-last.
func TestExpect(t *testing.T) {
	for name, want := range map[string]string{"block": "30 of 30", "views": "59 of 59", "numbers": "85 of 85"} {
		path := filepath.Join("testdata", "torch", name)
		r := call(t, "infer", path+".json", "--expect", path+".strides.json")
		if r.code != exit.CodeDone || r.out != want+" values as PyTorch\n" {
			t.Errorf("%s: exit %d, %s%s", name, r.code, r.out, r.errors)
		}
	}
}

// TestExpectDifference changes one property of a value in the file: the error names the node, both properties, and the
// rule of the layout.
func TestExpectDifference(t *testing.T) {
	const add = `"name": "add", "aten": "aten.add.Tensor", "dtype": "float32", "shape": [2, 8, 8, 8], ` +
		`"strides": [512, 1, 64, 8], "offset": 0, "alias_of": null`
	text, err := os.ReadFile(filepath.Join("testdata", "torch", "block.strides.json"))
	if err != nil {
		t.Fatal(err)
	}
	graph := filepath.Join("testdata", "torch", "block.json")
	for _, c := range []struct{ from, to, want string }{
		{"[512, 1, 64, 8]", "[512, 64, 8, 1]", `shape [2,8,8,8], strides [512,1,64,8], in PyTorch [512,64,8,1]`},
		{"[2, 8, 8, 8]", "[2, 8, 4, 16]", `shape [2,8,8,8], in PyTorch [2,8,4,16]`},
		{"float32", "float64", `dtype float32, in PyTorch float64`},
		{`"offset": 0`, `"offset": 2`, `offset 0, in PyTorch 2`},
		{`null`, `"act.relu"`, `shares storage with none, in PyTorch "act.relu"`},
	} {
		changed := strings.Replace(string(text), add, strings.Replace(add, c.from, c.to, 1), 1)
		r := call(t, "infer", graph, "--expect", write(t, "e.json", changed))
		want := graph + `:25:3: node "add" (add): ` + c.want + "\n" +
			`by the rule "permutation": nothing was sorted: fast set-up channels_last: all operands ` +
			"have one shape and are channels-last, and so is the result\n"
		if r.code != exit.CodeFailed || r.out != "29 of 30 values as PyTorch\n" || r.errors != want {
			t.Errorf("%s: exit %d, %s%s\nwant %s", c.to, r.code, r.out, r.errors, want)
		}
	}
}

// TestExpectBroken checks the messages for files that do not describe the values of the graph.
func TestExpectBroken(t *testing.T) {
	const x = `{"name": "x", "dtype": "float32", "shape": [2, 3, 4, 5], "strides": [60, 1, 15, 3], "offset": 0}`
	graph := write(t, "g.json", small)
	for _, c := range []struct{ text, want string }{
		{``, "the file is empty"},
		{`[]`, "line 1, column 1: found a list, want an object"},
		{`{"version": 2}`, "version 2: want 1"},
		{`{"version": 1, "values": []}`, "values: the list is empty"},
		{`{"version": 1, "values": [` + strings.Replace(x, `60`, `"60"`, 1) + `]}`,
			"line 1, column 99: values.strides: found a string, want a whole number"},
		{`{"version": 1, "values": [` + strings.Replace(x, `"offset"`, `"ofset"`, 1) + `]}`,
			`line 1, column 111: unknown key "ofset"`},
		{`{"version": 1, "values": [` + strings.Replace(x, `"x"`, `"z"`, 1) + `]}`,
			`values[0]: the graph has no value "z"`},
		{`{"version": 1, "values": [` + strings.Replace(x, `float32`, `float`, 1) + `]}`,
			`values[0]: "x": unknown dtype "float"`},
		{`{"version": 1, "values": [` + strings.Replace(x, `"strides": [60, 1, 15, 3], `, ``, 1) + `]}`,
			`values[0]: "x": shape and strides are required`},
		{`{"version": 1, "values": [` + strings.Replace(x, `, 5]`, `]`, 1) + `]}`,
			`values[0]: "x": 3 sizes and 4 strides`},
		{`{"version": 1, "values": [` + x + `, ` + x + `]}`, `values[1]: there are two values "x"`},
	} {
		path := write(t, "e.json", c.text)
		r := call(t, "infer", graph, "--expect", path)
		if r.code != exit.CodeUsage || !strings.HasPrefix(r.errors, "graphrun: "+path+": "+c.want) || r.out != "" {
			t.Errorf("%s: exit %d, %s%s\nwant %s", c.text, r.code, r.out, r.errors, c.want)
		}
	}
}
