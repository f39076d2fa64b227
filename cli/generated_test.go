package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/tensor"
)

// lookedUp makes a graph in which integers from input ids end as indices, after nodes.
func lookedUp(nodes, op, operands, attrs string) string {
	return fmt.Sprintf(`{"version": 1,
 "inputs": [{"name": "ids", "dtype": "int64", "shape": [4, 25]}, {"name": "narrow", "dtype": "int32", "shape": [100]}],
 "constants": [{"name": "table", "dtype": "float32", "shape": [3, 2], "data": [1, 2, 3, 4, 5, 6]},
               {"name": "one", "dtype": "int64", "shape": [], "data": 1}],
 "nodes": [%s {"name": "y", "op": %q, "inputs": [%s], "attrs": {%s}}],
 "outputs": ["y"]}`, nodes, op, operands, attrs)
}

// TestMadeUpIndices runs graphs whose made-up integers are indices into tables of three rows.
func TestMadeUpIndices(t *testing.T) {
	for name, text := range map[string]string{
		"straight": lookedUp("", "embedding", `"table", "ids"`, ""),
		"int32":    lookedUp("", "embedding", `"table", "narrow"`, ""),
		"a view": lookedUp(`{"name": "f", "op": "flatten", "inputs": ["ids"]},`, "index_select", `"table", "f"`,
			`"dim": 0`),
		"the other": lookedUp(`{"name": "f", "op": "flatten", "inputs": ["ids"]},`, "index_select", `"table", "f"`,
			`"dim": 1`),
		"a cast": lookedUp(`{"name": "f", "op": "to", "inputs": ["narrow"], "attrs": {"dtype": "int64"}},`, "embedding",
			`"table", "f"`, ""),
		"from one":   lookedUp(`{"name": "f", "op": "sub", "inputs": ["ids", "one"]},`, "embedding", `"table", "f"`, ""),
		"arithmetic": lookedUp(`{"name": "a", "op": "mul", "inputs": ["ids", 2]}, {"name": "f", "op": "sub", "inputs": ["a", 4]},`, "embedding", `"table", "f"`, ""),
		"wrapped": lookedUp(`{"name": "less", "op": "lt", "inputs": ["ids", 0]}, {"name": "more", "op": "add", "inputs": ["ids", 3]},
			{"name": "f", "op": "where", "inputs": ["less", "more", "ids"]},`, "embedding", `"table", "f"`, ""),
		"one hot": lookedUp("", "one_hot", `"ids"`, `"num_classes": 3`),
		"take":    lookedUp("", "take", `"table", "ids"`, ""),
		"twice": lookedUp(`{"name": "z", "op": "take", "inputs": ["table", "ids"]}, {"name": "s", "op": "slice", "inputs": ["ids"],
			"attrs": {"dim": 1, "start": 0, "end": 2}},`, "embedding", `"table", "s"`, ""),
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "g.json", text)
			for _, seed := range []string{"0", "1", "2"} {
				for _, command := range [][]string{{"run", path}, {"bench", path, "--runs", "1"},
					{"compare", path, "--runs", "1"}} {
					r := call(t, append(command, "--seed", seed)...)
					if want := "graphrun: note: generated from seed " + seed + ": inputs ids, narrow\n"; r.code != exit.CodeDone ||
						r.errors != want {
						t.Errorf("%v: exit %d, stderr %q, want %q", command[0], r.code, r.errors, want)
					}
				}
			}
		})
	}
}

// TestMadeUpBlame runs graphs that made-up values do not suit, and whose own do.
func TestMadeUpBlame(t *testing.T) {
	path := write(t, "g.json", divided)
	for _, command := range [][]string{{"run", path}, {"bench", path, "--runs", "1"}, {"compare", path, "--runs", "1"}} {
		r := call(t, command...)
		if r.code != exit.CodeFailed ||
			!strings.Contains(r.errors, "\n"+path+":2:12: node \"q\" (floor_divide): ZeroDivisionError") ||
			!strings.Contains(r.errors, "input d were generated (integers from 0 to 9") ||
			!strings.Contains(r.errors, "--inputs") {
			t.Errorf("%s: exit %d, stderr %q", command[0], r.code, r.errors)
		}
		given := counted(tensor.Int64, 200)
		given.SetFlat(0, tensor.IntScalar(5))
		r = call(t, append(command, "--inputs", saved(t, map[string]*tensor.Tensor{"d": given}))...)
		if r.code != exit.CodeDone || r.errors != "" {
			t.Errorf("%s of given values: exit %d, stderr %q", command[0], r.code, r.errors)
		}
		given.SetFlat(7, tensor.IntScalar(0))
		r = call(t, append(command, "--inputs", saved(t, map[string]*tensor.Tensor{"d": given}))...)
		if r.code != exit.CodeFailed || strings.Contains(r.errors, "generated") {
			t.Errorf("%s of a zero: exit %d, stderr %q", command[0], r.code, r.errors)
		}
	}
}

// TestTimedInputs gives bench and compare files as run takes them.
func TestTimedInputs(t *testing.T) {
	path := write(t, "g.json", small)
	x, b, i := counted(tensor.Float32, 3, 3, 4, 5), counted(tensor.Float32, 3, 4, 5), counted(tensor.Int32, 2, 3)
	for _, command := range []string{"bench", "compare"} {
		args := []string{command, path, "--runs", "1", "--inputs"}
		r := call(t, append(args, saved(t, map[string]*tensor.Tensor{"x": x, "b": b, "i": i}))...)
		if r.code != exit.CodeDone || r.errors != "" {
			t.Errorf("%s: exit %d, %s", command, r.code, r.errors)
		}
		r = call(t, append(args, saved(t, map[string]*tensor.Tensor{"x": x, "b": b}))...)
		if r.code != exit.CodeUsage || !strings.Contains(r.errors, `input "i" is missing`) {
			t.Errorf("%s without i: exit %d, %s", command, r.code, r.errors)
		}
		r = call(t, append(args, saved(t, map[string]*tensor.Tensor{"x": b, "b": b, "i": i}))...)
		if r.code != exit.CodeUsage || !strings.Contains(r.errors, `input "x": the file holds float32[3, 4, 5]`) {
			t.Errorf("%s of another shape: exit %d, %s", command, r.code, r.errors)
		}
		r = call(t, append(args, saved(t, map[string]*tensor.Tensor{"x": x}), "--seed", "3")...)
		if r.code != exit.CodeDone || r.errors != "graphrun: note: generated from seed 3: inputs b, i\n" {
			t.Errorf("%s with a seed: exit %d, %s", command, r.code, r.errors)
		}
	}
}

// TestNaNOfGeneratedInputs: a negative variance is generated, and the note says why the output is NaN.
func TestNaNOfGeneratedInputs(t *testing.T) {
	path := write(t, "norm.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3, 4, 4]},
 {"name": "mean", "dtype": "float32", "shape": [3]}, {"name": "variance", "dtype": "float32", "shape": [3]}],
 "nodes": [{"name": "y", "op": "batch_norm", "inputs": ["x", null, null, "mean", "variance"]}], "outputs": ["y"]}`)
	const note = "output y has NaN: the generated real numbers are from -1 to 1"
	if r := call(t, "run", path); r.code != exit.CodeDone || !strings.Contains(r.errors, note) {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
	in := map[string]*tensor.Tensor{"x": counted(tensor.Float32, 2, 3, 4, 4), "mean": counted(tensor.Float32, 3),
		"variance": counted(tensor.Float32, 3)}
	if r := call(t, "run", path, "--inputs", saved(t, in)); r.code != exit.CodeDone || r.errors != "" {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
}
