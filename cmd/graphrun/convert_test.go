package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/safetensors"
	"github.com/graphrun/graphrun/tensor"
)

// weighted has constants of all sorts: small, large, strided, of a dtype that safetensors
// lacks, and in a file.
const weighted = `{"version": 1, "symbols": {"N": {"max": 8}},
 "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 100]}],
 "constants": [{"name": "fc.weight", "dtype": "float32", "shape": [5, 100], "file": "w.npz", "key": "w"},
               {"name": "fc.bias", "dtype": "float32", "shape": [5], "data": [0.1, 0.2, 0.3, 1e-45, -0.0]},
               {"name": "wide", "dtype": "complex128", "shape": [70], "file": "w.npz", "key": "z"},
               {"name": "half", "dtype": "bfloat16", "shape": [65], "file": "w.npz", "key": "b"},
               {"name": "turned", "dtype": "int16", "shape": [9, 10], "strides": [1, 9], "file": "w.npz", "key": "t"}],
 "nodes": [{"name": "y", "op": "linear", "inputs": ["x", "fc.weight", "fc.bias"]},
           {"name": "z", "op": "mul", "inputs": ["wide", 2]},
           {"name": "h", "op": "exp", "inputs": ["half"]},
           {"name": "t", "op": "add", "inputs": ["turned", 1]}],
 "outputs": ["y", "z", "h", "t"]}
`

func TestConvert(t *testing.T) {
	from := write(t, "from.json", weighted)
	weights := map[string]*tensor.Tensor{"w": counted(tensor.Float32, 5, 100), "z": counted(tensor.Complex128, 70),
		"b": counted(tensor.Uint16, 65), "t": counted(tensor.Int16, 9, 10)}
	if err := npz.WriteFile(filepath.Join(filepath.Dir(from), "w.npz"), npz.EntriesOf(weights)); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "to.json")
	out := succeed(t, "convert", from, to)
	if want := to + ": 4 nodes, 5 constants; " + strings.TrimSuffix(to, "json") + "safetensors: 3 tensors, 2.256 KiB\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	f, err := safetensors.Open(strings.TrimSuffix(to, "json") + "safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fc.weight", "half", "turned"} {
		if _, err := f.Tensor(name); err != nil {
			t.Error(err)
		}
	}
	text := read(t, to)
	for _, want := range []string{`"shape": ["N", 100]`, `"symbols": {`, `"file": "to.safetensors", "key": "fc.weight"}`,
		`"data": [0.1, 0.2, 0.3, 1e-45, -0]`, `"shape": [9, 10], "strides": [1, 9], "file"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	sameBits(t, from, to)
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(to), "*")); len(left) != 2 {
		t.Errorf("left are %v", left)
	}
	convertAgain(t, from, to)
}

// convertAgain converts in place, where nothing changes, and to where the weights of the
// source would be lost.
func convertAgain(t *testing.T, from, to string) {
	side := strings.TrimSuffix(to, "json") + "safetensors"
	text, weights := read(t, to), read(t, side)
	succeed(t, "convert", to, to)
	if !bytes.Equal(read(t, to), text) || !bytes.Equal(read(t, side), weights) {
		t.Errorf("in place, got\n%s", read(t, to))
	}
	near := filepath.Join(filepath.Dir(to), "near.json")
	succeed(t, "convert", to, near)
	if !bytes.Equal(read(t, near), text) {
		t.Errorf("beside it, got\n%s", read(t, near))
	}
	grown := strings.Replace(string(text), `"name": "fc.weight"`, `"name": "more", "dtype": "int8", "shape": [65], "data": [`+strings.Repeat("1, ", 64)+`1]},
  {"name": "fc.weight"`, 1)
	if err := os.WriteFile(near, []byte(grown), 0o644); err != nil {
		t.Fatal(err)
	}
	r := call(t, "convert", near, to)
	if r.code != exitFailed || !strings.Contains(r.errors, `constants were read from "to.safetensors"`) || !bytes.Equal(read(t, side), weights) {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
	sameBits(t, from, to)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sameBits runs two graphs and compares the files of their outputs.
func sameBits(t *testing.T, a, b string) {
	t.Helper()
	dir := t.TempDir()
	for _, c := range []struct{ graph, out string }{{a, "a.npz"}, {b, "b.npz"}} {
		succeed(t, "run", c.graph, "--seed", "7", "--outputs", filepath.Join(dir, c.out))
	}
	if !bytes.Equal(read(t, filepath.Join(dir, "a.npz")), read(t, filepath.Join(dir, "b.npz"))) {
		t.Errorf("%s and %s give different bits", a, b)
	}
}

// TestConvertExamples converts every example and compares the runs.
func TestConvertExamples(t *testing.T) {
	files, err := filepath.Glob(models + "/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		to := filepath.Join(t.TempDir(), "to.json")
		succeed(t, "convert", file, to)
		sameBits(t, file, to)
	}
}

// TestConvertModels converts some of the ONNX cases, where they are there, and compares the
// runs: a network, loops, shapes that are computed.
func TestConvertModels(t *testing.T) {
	const cases = "../../../shared/onnx-tests/cases/"
	if _, err := os.Stat(cases); err != nil {
		t.Skip("there are no ONNX cases")
	}
	files, err := filepath.Glob(cases + "pytorch-operator/*/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	loops, err := filepath.Glob(cases + "node/test_*loop*/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, loops...) {
		dir, in := t.TempDir(), filepath.Join(filepath.Dir(file), "inputs.npz")
		a, b, to := filepath.Join(dir, "a.npz"), filepath.Join(dir, "b.npz"), filepath.Join(dir, "m.json")
		succeed(t, "run", file, "--inputs", in, "--outputs", a)
		succeed(t, "convert", file, to)
		succeed(t, "run", to, "--inputs", in, "--outputs", b)
		if !bytes.Equal(read(t, a), read(t, b)) {
			t.Errorf("%s: converted, it gives different bits", file)
		}
	}
}
