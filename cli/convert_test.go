package cli

import (
	"archive/zip"
	"bytes"
	"math/cmplx"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
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
               {"name": "transposed", "dtype": "int16", "shape": [9, 10], "strides": [1, 9], "file": "w.npz", "key": "t"}],
 "nodes": [{"name": "y", "op": "linear", "inputs": ["x", "fc.weight", "fc.bias"]},
           {"name": "z", "op": "mul", "inputs": ["wide", 2]},
           {"name": "h", "op": "exp", "inputs": ["half"]},
           {"name": "t", "op": "add", "inputs": ["transposed", 1]}],
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
	if want := to + ": 4 nodes, 5 constants; " + strings.TrimSuffix(to, "json") +
		"safetensors: 3 tensors, 2.256 KiB\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	f, err := safetensors.Open(strings.TrimSuffix(to, "json") + "safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fc.weight", "half", "transposed"} {
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
	grown := strings.Replace(string(text), `"name": "fc.weight"`,
		`"name": "more", "dtype": "int8", "shape": [65], "data": [`+strings.Repeat("1, ", 64)+`1]},
  {"name": "fc.weight"`, 1)
	if err := os.WriteFile(near, []byte(grown), 0o644); err != nil {
		t.Fatal(err)
	}
	r := call(t, "convert", near, to)
	if r.code != exit.CodeFailed || !strings.Contains(r.errors, `cannot write the side file "to.safetensors"`) ||
		!bytes.Equal(read(t, side), weights) {
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

// modelsOf unpacks the models of one family of onnx's vectors, with inputs.npz beside each.
func modelsOf(t *testing.T, family string) []string {
	t.Helper()
	z, err := zip.OpenReader("../onnx/testdata/" + family + ".zip")
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	cases := t.TempDir()
	if err := os.CopyFS(cases, z); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(cases + "/*/model.onnx")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d models of %s, %v", len(files), family, err)
	}
	return files
}

// TestConvertModels converts models of onnx's own vectors, networks, loops and branches, and
// compares the runs. Where sizes stay open, the graph computes with them what the import of
// the model folds, and is run in pieces: sums may round otherwise.
func TestConvertModels(t *testing.T) {
	for family, off := range map[string]float64{"control": 0, "texts": 1e-6} {
		for _, file := range modelsOf(t, family) {
			dir, in := t.TempDir(), filepath.Join(filepath.Dir(file), "inputs.npz")
			a, b, to := filepath.Join(dir, "a.npz"), filepath.Join(dir, "b.npz"), filepath.Join(dir, "m.json")
			succeed(t, "run", file, "--inputs", in, "--outputs", a)
			succeed(t, "convert", file, to)
			succeed(t, "run", to, "--inputs", in, "--outputs", b)
			if d := furthest(t, a, b); d > off {
				t.Errorf("%s: converted, its outputs are %g of the largest off", file, d)
			}
		}
	}
}

// furthest is the largest difference of two files of outputs, each relative to the largest
// magnitude of its output. NaN and NaN are the same.
func furthest(t *testing.T, a, b string) (worst float64) {
	t.Helper()
	x, err := npz.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := npz.ReadFile(b)
	if err != nil || len(x) != len(y) || len(x) == 0 {
		t.Fatalf("%d and %d outputs, %v", len(x), len(y), err)
	}
	for name, v := range x {
		w, ok := y[name]
		if !ok || v.DType != w.DType || !slices.Equal(v.Shape, w.Shape) {
			t.Fatalf("output %s: %v", name, w)
		}
		var scale, off float64
		line := tensor.New(v.DType, v.Numel())
		v, w = tensor.Must(v.Contiguous().View(line)), tensor.Must(w.Contiguous().View(line))
		for i := range v.Numel() {
			p, q := v.At(i).Complex(), w.At(i).Complex()
			if p == q || cmplx.IsNaN(p) && cmplx.IsNaN(q) {
				scale = max(scale, cmplx.Abs(p))
				continue
			}
			scale, off = max(scale, cmplx.Abs(p)), max(off, cmplx.Abs(p-q))
		}
		if off > 0 {
			worst = max(worst, off/scale)
		}
	}
	return worst
}
