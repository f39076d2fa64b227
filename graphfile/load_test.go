package graphfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/tensor"
)

const contract = `{
  "version": 1,
  "name": "residual",
  "symbols":   {"N": {"min": 1, "max": 64, "hint": 2}},
  "inputs":    [{"name": "x", "dtype": "float32", "shape": ["N", 64, 5, 5], "memory_format": "channels_last"},
                {"name": "bias", "dtype": "float32", "shape": [64, 1, 1]},
                {"name": "odd", "dtype": "int32", "shape": [2, 3], "strides": [1, 2], "offset": 4}],
  "constants": [{"name": "w", "dtype": "float32", "shape": [64, 64, 3, 3], "file": "weights.safetensors", "key": "conv1.weight"},
                {"name": "k", "dtype": "float32", "shape": [2, 2], "data": [[1, 2], [3, 4]]}],
  "nodes":     [{"name": "halves", "op": "chunk", "inputs": ["scaled"], "attrs": {"chunks": 2, "dim": 1}, "outputs": ["lo", "hi"]},
                {"name": "conv1", "op": "conv2d", "inputs": ["x", "w"], "attrs": {"stride": [1, 1], "padding": 1}},
                {"name": "shifted", "op": "add", "inputs": ["conv1", "bias"], "attrs": {"alpha": 2}},
                {"name": "scaled", "op": "mul", "inputs": ["shifted", 0.5], "memory_format": "channels_last"}],
  "outputs":   ["lo", {"value": "hi", "name": "high", "memory_format": "contiguous"}]
}
`

// weights writes an empty weights file and returns its folder, and an OpenConst with made-up data.
func weights(t testing.TB) (dir string, open graphfile.OpenConst) {
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "weights.safetensors"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, func(path, key string) (tensor.Meta, graphfile.ReadConst, error) {
		if filepath.Base(path) != "weights.safetensors" || key != "conv1.weight" {
			return tensor.Meta{}, nil, fmt.Errorf("no %q in %s", key, path)
		}
		return graphfile.Held(tensor.Zeros(tensor.Float32, 64, 64, 3, 3))
	}
}

func TestLoadTheContractsExample(t *testing.T) {
	dir, open := weights(t)
	g, err := graphfile.Read(strings.NewReader(contract), lookup, graphfile.Options{Name: "g.json", Dir: dir, Open: open})
	if err != nil {
		t.Fatal(err)
	}
	if err := graph.Verify(g, graph.Sorted|graph.Typed); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"x":       "float32[2,64,5,5]@(1600,1,320,64)",
		"odd":     "int32[2,3]@(1,2)+4",
		"conv1":   "float32[2,64,5,5]@(1600,1,320,64)",
		"shifted": "float32[2,64,5,5]@(1600,1,320,64)",
		"lo":      "float32[2,32,5,5]@(1600,1,320,64)",
		"hi":      "float32[2,32,5,5]@(1600,1,320,64)+32",
	} {
		if got := g.Value(name).Meta.String(); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if g.Value("hi").Alias != g.Value("scaled") {
		t.Error("hi does not share the storage of scaled")
	}
	if o := g.Outputs[1]; o.Name != "high" || o.Value != g.Value("hi") || o.Pin.Format != tensor.Contiguous {
		t.Errorf("output is %+v", o)
	}
}

// file makes a graph file of single lines: inputs, constants, nodes, outputs.
func file(inputs, constants, nodes, outputs string) string {
	return "{\"version\": 1,\n\"inputs\": [" + inputs + "],\n\"constants\": [" + constants + "],\n\"nodes\": [" + nodes +
		"],\n\"outputs\": [" + outputs + "]}"
}

const x = `{"name": "x", "dtype": "float32", "shape": [2, 3]}`

func node(text string) string { return file(x, "", text, `"x"`) }

func input(text string) string { return file(text, "", "", "") }

func constant(text string) string { return file(x, text, "", `"x"`) }

var mistakes = []struct{ name, text, want string }{
	{"empty", "", "g.json:1:1: the file is empty"},
	{"not an object", "[1]", "g.json:1:1: want an object, got a list"},
	{"syntax", "{\n  \"version\" 1}", `g.json:2:13: invalid JSON: a colon is missing after the key "version"`},
	{"ends early", `{"version": 1, "nodes": [`, "g.json:1:26: invalid JSON: the file ends early: the list that starts at line 1, " +
		"column 25 is not closed"},
	{"list ends early", `{"version": 1, "inputs": [}`, "g.json:1:27: invalid JSON: got }, but the list that starts at line 1, column " +
		"26 ends with ]"},
	{"text after the end", "{}\n x", "g.json:2:2: unexpected text after the end"},
	{"double key", `{"version": 1, "version": 1}`,
		`g.json:1:16: invalid JSON: the key "version" occurs twice in one object, first at line 1, column 2`},
	{"version", `{"version": 2, "inputs": [], "nodes": [], "outputs": []}`,
		"g.json:1:2: version 2 is not supported: want 1"},
	{"version is text", `{"version": "1", "inputs": [], "nodes": [], "outputs": []}`,
		"g.json:1:2: \"version\" must be the integer 1"},
	{"missing", `{"version": 1, "inputs": [], "outputs": []}`, `g.json:1:1: "nodes" is missing`},
	{"unknown key", `{"version": 1, "inputs": [], "nodes": [], "outputs": [], "more": 1}`,
		`g.json:1:58: unknown key "more": want one of version, name`},
	{"nodes is no list", `{"version": 1, "inputs": [], "nodes": 3, "outputs": []}`,
		`g.json:1:39: want a list, got a number`},
	{"name is no text", `{"version": 1, "name": 3, "inputs": [], "nodes": [], "outputs": []}`,
		`g.json:1:24: want a string, got a number`},

	{"symbol bounds", `{"version": 1, "symbols": {"N": {"min": 5, "max": 2}}, "inputs": [], "nodes": [], "outputs": []}`,
		`g.json:1:28: symbol "N": want 0 <= min <= max, got min 5 and max 2`},
	{"symbol hint above", `{"version": 1, "symbols": {"N": {"hint": 65, "min": 5, "max": 64}}, "inputs": []}`,
		`g.json:1:34: symbol "N": the hint is 65: want a size within min 5 and max 64`},
	{"symbol hint below", `{"version": 1, "symbols": {"N": {"min": 5, "hint": 4}}, "inputs": []}`,
		`g.json:1:44: symbol "N": the hint is 4: want a size within min 5 and max none`},
	{"symbol hint 0", `{"version": 1, "symbols": {"N": {"hint": 0, "min": 1}}, "inputs": []}`,
		`g.json:1:34: symbol "N": the hint is 0: want a size within min 1 and max none`},
	{"symbol key", `{"version": 1, "symbols": {"N": {"least": 5}}, "inputs": [], "nodes": [], "outputs": []}`,
		`g.json:1:34: unknown key "least"`},
	{"symbol size", `{"version": 1, "symbols": {"N": {"min": 1.5}}, "inputs": [], "nodes": [], "outputs": []}`,
		`g.json:1:41: want an integer, got 1.5`},

	{"input without name", input(`{"dtype": "float32", "shape": []}`), `g.json:2:12: input "": "name" is missing`},
	{"input without dtype", input(`{"name": "x", "shape": []}`), `g.json:2:12: input "x": "dtype" is missing`},
	{"input without shape", input(`{"name": "x", "dtype": "float32"}`), `g.json:2:12: input "x": "shape" is missing`},
	{"input dtype", input(`{"name": "x", "dtype": "float31", "shape": []}`),
		`g.json:2:35: input "x": unknown dtype "float31": want one of bool, uint8, `},
	{"input key", input(`{"name": "x", "dtype": "bool", "shape": [], "data": 1}`),
		`g.json:2:56: input "x": unknown key "data": want one of name, dtype`},
	{"input is text", input(`"x"`), `g.json:2:12: input "": want an object, got a string`},
	{"negative size", input(`{"name": "x", "dtype": "bool", "shape": [2, -3]}`),
		`g.json:2:56: input "x": negative size -3`},
	{"size is a list", input(`{"name": "x", "dtype": "bool", "shape": [2, []]}`),
		`g.json:2:56: input "x": want an integer, a symbol or an expression, got a list`},
	{"size is true", input(`{"name": "x", "dtype": "bool", "shape": [true]}`),
		`g.json:2:53: input "x": want an integer, a symbol or an expression, got true`},
	{"huge", input(`{"name": "x", "dtype": "bool", "shape": [4611686018427387904, 4]}`),
		`g.json:2:12: input "x": shape [4611686018427387904, 4] has too many elements: at most 140737488355328 of dtype bool fit into 2^47 bytes`},
	{"beyond int", input(`{"name": "x", "dtype": "bool", "shape": [9223372036854775808]}`),
		`g.json:2:53: input "x": want an integer, got 9223372036854775808`},
	{"too few strides", input(`{"name": "x", "dtype": "bool", "shape": [2, 3], "strides": [1]}`),
		`g.json:2:12: input "x": mismatch in length of strides and shape`},
	{"negative stride", input(`{"name": "x", "dtype": "bool", "shape": [2], "strides": [-1]}`),
		`negative stride -1 of dimension 0`},
	{"negative offset", input(`{"name": "x", "dtype": "bool", "shape": [2], "offset": -1}`),
		`g.json:2:12: input "x": negative offset -1`},
	{"format", input(`{"name": "x", "dtype": "bool", "shape": [2], "memory_format": "nhwc"}`),
		`g.json:2:74: input "x": unknown memory format "nhwc"`},
	{"format preserve", input(`{"name": "x", "dtype": "bool", "shape": [2], "memory_format": "preserve"}`),
		`memory format "preserve" is not allowed here`},
	{"format of rank", input(`{"name": "x", "dtype": "bool", "shape": [2], "memory_format": "channels_last"}`),
		`g.json:2:12: input "x": required rank 4 tensor to use channels_last format`},
	{"strides and format", input(
		`{"name": "x", "dtype": "bool", "shape": [2], "strides": [1], "memory_format": "contiguous"}`),
		`"strides" and "memory_format" cannot both be given`},
	{"strides and symbols", input(`{"name": "x", "dtype": "bool", "shape": ["N"], "strides": ["M"]}`),
		`g.json:2:71: input "x": strides: expression "M", column 1: there is no symbol "M"`},
	{"two inputs", input(x + ",\n" + x), `g.json:3:1: input "x": two values are named "x"`},

	{"constant without data", constant(`{"name": "k", "dtype": "bool", "shape": []}`),
		`g.json:3:15: constant "k": want either "data" or "file"`},
	{"constant with both", constant(`{"name": "k", "dtype": "bool", "shape": [], "data": 1, "file": "x.npy"}`),
		`want either "data" or "file"`},
	{"symbolic constant", constant(`{"name": "k", "dtype": "bool", "shape": ["N"], "data": [1]}`),
		`g.json:3:56: constant "k": a constant's shape cannot be symbolic`},
	{"constant dtype", constant(`{"name": "k", "dtype": "boolean", "shape": [], "data": 1}`), `unknown dtype "boolean"`},
	{"too few numbers", constant(`{"name": "k", "dtype": "int8", "shape": [3], "data": [1, 2]}`),
		`g.json:3:68: constant "k": data holds 2 numbers, shape [3] wants 3`},
	{"too many numbers", constant(`{"name": "k", "dtype": "int8", "shape": [1], "data": [1, 2, 3, 4, 5]}`),
		`data holds more than 2 numbers`},
	{"ragged", constant(`{"name": "k", "dtype": "int8", "shape": [2, 2], "data": [[1], [2, 3, 4]]}`),
		`a list holds 1 members, where shape [2, 2] wants 2`},
	{"mixed", constant(`{"name": "k", "dtype": "int8", "shape": [3], "data": [1, [2, 3]]}`),
		`lists and numbers are mixed`},
	{"text among data", constant(`{"name": "k", "dtype": "float32", "shape": [2], "data": [1, "two"]}`),
		`g.json:3:75: constant "k": data: want numbers, got "two"`},
	{"object among data", constant(`{"name": "k", "dtype": "float32", "shape": [2], "data": [1, {}]}`),
		`g.json:3:75: constant "k": data: want numbers, got an object`},
	{"does not fit", constant(`{"name": "k", "dtype": "uint8", "shape": [2], "data": [1, 256]}`),
		`g.json:3:73: constant "k": data: 256 does not fit uint8`},
	{"negative unsigned", constant(`{"name": "k", "dtype": "uint32", "shape": [1], "data": [-1]}`),
		`data: -1 does not fit uint32`},
	{"fraction", constant(`{"name": "k", "dtype": "int64", "shape": [1], "data": [1.5]}`), `data: 1.5 does not fit int64`},
	{"large float", constant(`{"name": "k", "dtype": "float32", "shape": [1], "data": [1e39]}`),
		`data: 1e39 is too large for float32`},
	{"spread", constant(`{"name": "k", "dtype": "int8", "shape": [2], "strides": [1000000], "data": [1, 2]}`),
		`2 elements need a storage of 1000001 elements; the limit is 4224`},
	{"parent", constant(`{"name": "k", "dtype": "int8", "shape": [2], "file": "../k.npy"}`),
		`g.json:3:15: constant "k": file "../k.npy" is outside the folder of the graph file`},
	{"absolute", constant(`{"name": "k", "dtype": "int8", "shape": [2], "file": "/etc/passwd"}`),
		`file "/etc/passwd" is outside the folder`},
	{"no such file", constant(`{"name": "k", "dtype": "int8", "shape": [2], "file": "none.npy"}`),
		`g.json:3:15: constant "k": none.npy: there is no such file`},
	{"constant like input", constant(`{"name": "x", "dtype": "int8", "shape": [], "data": 2}`),
		`g.json:3:15: constant "x": two values are named "x"`},

	{"node without name", node(`{"op": "relu", "inputs": ["x"]}`), `g.json:4:11: a node needs a name`},
	{"node without op", node(`{"name": "y", "inputs": ["x"]}`), `g.json:4:11: node "y": "op" is missing`},
	{"node is a list", node(`[]`), `g.json:4:11: want an object, got a list`},
	{"node key", node(`{"name": "y", "op": "relu", "input": ["x"]}`),
		`g.json:4:39: node "y" (relu): unknown key "input": want one of name, op, inputs`},
	{"op", node(`{"name": "y", "op": "rely", "inputs": ["x"]}`), `g.json:4:11: node "y" (rely): there is no op "rely"`},
	{"op is a number", node(`{"op": 3, "name": "y", "inputs": ["x"]}`),
		`g.json:4:18: node "y": want a string, got a number`},
	{"inputs is text", node(`{"name": "y", "op": "relu", "inputs": "x"}`),
		`g.json:4:49: node "y" (relu): want a list, got a string`},
	{"value", node(`{"name": "y", "op": "add", "inputs": ["x", "z"]}`),
		`g.json:4:54: node "y" (add): there is no value "z"`},
	{"operand is a list", node(`{"name": "y", "op": "add", "inputs": ["x", [1]]}`),
		`g.json:4:54: node "y" (add): an input must be a value's name, a number or null`},
	{"operand missing", node(`{"name": "y", "op": "add", "inputs": ["x"]}`),
		`g.json:4:11: node "y" (add): operand "other" is missing`},
	{"operand null", node(`{"name": "y", "op": "add", "inputs": [null, "x"]}`), `operand "self" is missing`},
	{"too many operands", node(`{"name": "y", "op": "relu", "inputs": ["x", "x"]}`),
		`g.json:4:11: node "y" (relu): takes at most 1 operand, got 2`},
	{"operand is a number", node(`{"name": "y", "op": "relu", "inputs": [2]}`),
		`operand "self" must be a tensor, not a number`},
	{"number too large", node(`{"name": "y", "op": "add", "inputs": ["x", 1e999]}`),
		`g.json:4:54: node "y" (add): 1e999 is too large for a 64-bit float`},
	{"integer too large", node(`{"name": "y", "op": "add", "inputs": ["x", 9223372036854775808]}`),
		`9223372036854775808 is no 64-bit integer`},
	{"empty list", node(`{"name": "y", "op": "cat", "inputs": []}`), `expected a non-empty list of tensors`},
	{"number in list", node(`{"name": "y", "op": "cat", "inputs": ["x", 1]}`), `operand 1 of the list must be a tensor`},
	{"attrs is a list", node(`{"name": "y", "op": "relu", "inputs": ["x"], "attrs": []}`),
		`g.json:4:65: node "y" (relu): want an object, got a list`},
	{"attribute", node(`{"name": "y", "op": "relu", "inputs": ["x"], "attrs": {"slope": 1}}`),
		`g.json:4:66: node "y" (relu): unknown attribute "slope": the op has none`},
	{"attribute suggested", node(`{"name": "y", "op": "add", "inputs": ["x", 1], "attrs": {"beta": 1}}`),
		`unknown attribute "beta": the op has alpha`},
	{"attribute missing", node(`{"name": "y", "op": "permute", "inputs": ["x"]}`), `attribute "dims" (int[]) is missing`},
	{"attribute value", node(`{"name": "y", "op": "add", "inputs": ["x", 1], "attrs": {"alpha": "two"}}`),
		`g.json:4:68: node "y" (add): attribute "alpha": want a number, got "two"`},
	{"attribute beyond", node(`{"name": "y", "op": "add", "inputs": ["x", 1], "attrs": {"alpha": 1e999}}`),
		`1e999 is too large`},
	{"attribute twice", node(`{"name": "y", "op": "add", "inputs": ["x", 1], "attrs": {"alpha": 1, "alpha": 1}}`),
		`g.json:4:80: invalid JSON: the key "alpha" occurs twice in one object, first at line 4, column 68`},
	{"inference", node(`{"name": "y", "op": "permute", "inputs": ["x"], "attrs": {"dims": [0]}}`),
		`g.json:4:69: node "y" (permute): `},
	{"outputs of node", node(`{"name": "y", "op": "chunk", "inputs": ["x"], "attrs": {"chunks": 2}}`),
		`g.json:4:11: node "y" (chunk): makes 2 values: name them under "outputs"`},
	{"empty outputs", node(`{"name": "y", "op": "relu", "inputs": ["x"], "outputs": []}`),
		`g.json:4:11: node "y" (relu): "outputs" is empty`},
	{"same outputs", node(`{"name": "y", "op": "chunk", "inputs": ["x"], "attrs": {"chunks": 2}, "outputs": ["a", "a"]}`),
		`node "y" (chunk): two values are named "a"`},
	{"pin", node(`{"name": "y", "op": "relu", "inputs": ["x"], "memory_format": "channels_last"}`),
		`required rank 4 tensor to use channels_last format`},
	{"two nodes", node(`{"name": "y", "op": "relu", "inputs": ["x"]},` + "\n" +
		`{"name": "y", "op": "relu", "inputs": ["x"]}`), `g.json:5:1: node "y" (relu): two nodes are named "y"`},
	{"node like input", node(`{"name": "x", "op": "relu", "inputs": ["x"]}`),
		`g.json:4:11: node "x" (relu): two values are named "x"`},

	{"output", file(x, "", "", `"x", "y"`), `g.json:5:18: output "y": there is no value "y"`},
	{"output twice", file(x, "", "", `"x", {"value": "x"}`), `g.json:5:18: two outputs are named "x"`},
	{"output without value", file(x, "", "", `{"name": "y"}`), `g.json:5:13: "value" is missing`},
	{"output key", file(x, "", "", `{"value": "x", "format": "contiguous"}`), `g.json:5:28: unknown key "format"`},
	{"output is a number", file(x, "", "", `3`), `g.json:5:13: want a value's name or an object, got a number`},

	{"self-cycle", node(`{"name": "y", "op": "add", "inputs": ["y", "x"]}`),
		`g.json:4:11: node "y" (add): the graph has a cycle: y -> y`},
	{"cycle", node(`{"name": "a", "op": "add", "inputs": ["c", "x"]},` + "\n" +
		`{"name": "b", "op": "relu", "inputs": ["a"]},` + "\n" + `{"name": "c", "op": "relu", "inputs": ["b"]}`),
		`g.json:4:11: node "a" (add): the graph has a cycle: a -> b -> c -> a`},
}

func TestMistakesHavePlaces(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			open := func(string, string) (tensor.Meta, graphfile.ReadConst, error) {
				return tensor.Meta{}, nil, errors.New("not opened")
			}
			_, err := graphfile.Read(strings.NewReader(m.text), lookup,
				graphfile.Options{Name: "g.json", Dir: t.TempDir(), Open: open})
			if err == nil {
				t.Fatal("loaded")
			}
			if !strings.Contains(err.Error(), m.want) {
				t.Errorf("got  %v\nwant %s", err, m.want)
			}
			checkPlaces(t, err)
		})
	}
}

// checkPlaces demands that every mistake of a file has its place.
func checkPlaces(t *testing.T, err error) {
	t.Helper()
	var list graph.Errors
	if !errors.As(err, &list) {
		t.Fatalf("%T is no graph.Errors: %v", err, err)
	}
	for i, e := range list {
		if e.File != "g.json" || e.Line < 1 || e.Col < 1 {
			t.Errorf("no place: %v", e)
		}
		if i > 0 && (e.Line < list[i-1].Line || e.Line == list[i-1].Line && e.Col < list[i-1].Col) {
			t.Errorf("%v\nstands after\n%v", e, list[i-1])
		}
	}
}

func TestAllMistakesAreCollected(t *testing.T) {
	text := `{"version": 1, "name": 5,
"inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3]},
  {"name": "a", "dtype": "float", "shape": [2]}],
"nodes": [
  {"name": "n1", "op": "nope", "inputs": ["x"]},
  {"name": "n2", "op": "relu", "inputs": ["y"]},
  {"name": "n3", "op": "relu", "inputs": ["n1"], "attrs": {"z": 1}},
  {"name": 4, "op": "relu", "inputs": ["n1"]}],
"outputs": ["n4", {"values": "x"}]}`
	_, err := load(text)
	want := `g.json:1:24: want a string, got a number
g.json:3:26: input "a": unknown dtype "float": want one of bool, uint8, int8, int16, int32, int64, uint16, uint32, uint64, float16, bfloat16, float32, float64, complex64, complex128; did you mean float32?
g.json:5:3: node "n1" (nope): there is no op "nope"
g.json:6:43: node "n2" (relu): there is no value "y"
g.json:7:60: node "n3" (relu): unknown attribute "z": the op has none
g.json:8:12: node (relu): want a string, got a number
g.json:9:13: output "n4": there is no value "n4"; did you mean "n1"?
g.json:9:20: unknown key "values": want one of value, name, dtype, memory_format, order; did you mean value?`
	want = strings.Replace(want, "node (relu): ", "", 1)
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestRefusedNodesAreAllTold(t *testing.T) {
	_, err := load(node(`{"name": "a", "op": "permute", "inputs": ["x"], "attrs": {"dims": [0]}},
{"name": "b", "op": "relu", "inputs": ["a"]},
{"name": "c", "op": "expand", "inputs": ["x"], "attrs": {"size": [5, 5]}}`))
	var list graph.Errors
	if !errors.As(err, &list) || len(list) != 2 || list[0].Node != "a" || list[1].Node != "c" || list[1].Line != 6 {
		t.Errorf("got %v", err)
	}
}

func TestFilesStayInTheFolder(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "graph")
	must(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(outer, "secret.npy"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "sub", "k.npy"), nil, 0o644))
	must(t, os.Symlink(filepath.Join(outer, "secret.npy"), filepath.Join(dir, "link.npy")))
	must(t, os.Symlink("..", filepath.Join(dir, "up")))
	must(t, os.Symlink(filepath.Join("sub", "k.npy"), filepath.Join(dir, "fine.npy")))
	open := func(string, string) (tensor.Meta, graphfile.ReadConst, error) {
		return graphfile.Held(tensor.Zeros(tensor.Int8, 2))
	}
	for name, ok := range map[string]bool{"sub/k.npy": true, "fine.npy": true, "sub/../sub/k.npy": true, "link.npy": false,
		"up/secret.npy": false, "sub/../../secret.npy": false, "../graph/sub/k.npy": false} {
		text := constant(fmt.Sprintf(`{"name": "k", "dtype": "int8", "shape": [2], "file": %q}`, name))
		_, err := graphfile.Read(strings.NewReader(text), lookup, graphfile.Options{Name: "g.json", Dir: dir, Open: open})
		if ok != (err == nil) || !ok && !strings.Contains(err.Error(), "outside the folder") {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Chdir(dir)
	text := constant(`{"name": "k", "dtype": "int8", "shape": [2], "file": "link.npy"}`)
	if _, err := graphfile.Read(strings.NewReader(text), lookup,
		graphfile.Options{Name: "g.json", Dir: ".", Open: open}); err == nil {
		t.Error("a link leads out of the working directory")
	}
	text = constant(`{"name": "k", "dtype": "int8", "shape": [2], "file": "fine.npy"}`)
	if _, err := graphfile.Read(strings.NewReader(text), lookup,
		graphfile.Options{Name: "g.json", Dir: ".", Open: open}); err != nil {
		t.Error(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestConstantsFromFiles(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "k.npy"), nil, 0o644))
	base := tensor.Zeros(tensor.Uint16, 4, 4)
	for i := range 16 {
		base.SetFlat(i, tensor.IntScalar(int64(i)))
	}
	m, err := base.Meta.Transpose(0, 1)
	must(t, err)
	if m, err = m.Narrow(0, 1, 2); err != nil {
		t.Fatal(err)
	}
	reads := 0
	open := func(string, string) (tensor.Meta, graphfile.ReadConst, error) {
		return m, func() (*tensor.Tensor, error) { reads++; return base.View(m) }, nil
	}
	for dtype, want := range map[string]string{"uint16": "", "bfloat16": "", "float16": "the file holds uint16[2, 4], " +
		"the graph says float16[2, 4]"} {
		text := constant(fmt.Sprintf(`{"name": "k", "dtype": %q, "shape": [2, 4], "file": "k.npy"}`, dtype))
		g, err := graphfile.Read(strings.NewReader(text), lookup, graphfile.Options{Name: "g.json", Dir: dir, Open: open})
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", dtype, err)
			}
			continue
		}
		must(t, err)
		// A constant is row-major unless the graph declares a layout, whatever the layout in the file.
		if k := g.Value("k"); !k.Meta.SameLayout(tensor.New(k.Meta.DType, 2, 4)) || k.Meta.Offset != 0 {
			t.Errorf("%s: %v", dtype, k.Meta)
		}
		if dtype == "uint16" {
			if got := g.Value("k").Const.At(1, 2).Int(); got != 10 {
				t.Errorf("element [1, 2] is %d, want 10", got)
			}
		}
	}
	if reads != 2 {
		t.Errorf("data were read %d times: what differs from the graph must not be", reads)
	}
}

func TestNumbersKeepTheirKind(t *testing.T) {
	g := mustLoad(t, node(`{"name": "a", "op": "add", "inputs": ["x", 2]}, {"name": "b", "op": "add", "inputs": ["x", 2.0]},
{"name": "c", "op": "add", "inputs": ["x", 2e0]}, {"name": "d", "op": "add", "inputs": ["x", true]},
{"name": "e", "op": "mul", "inputs": ["x", {"number": "-Infinity"}]}, {"name": "f", "op": "mul", "inputs": ["x", {"number": [1, 2]}]}`))
	for i, want := range []tensor.DType{tensor.Int64, tensor.Float64, tensor.Float64, tensor.Bool, tensor.Float64,
		tensor.Complex128} {
		if got := g.Nodes[i].In[1].Number.DType(); got != want {
			t.Errorf("node %d: %v, want %v", i, got, want)
		}
	}
}
