package cli

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/run"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// twoSided has outputs behind x alone, behind y, behind both, and y itself.
const twoSided = `{"version": 1,
 "inputs": [{"name": "x", "dtype": "float32", "shape": [2]},
  {"name": "y", "dtype": "float32", "shape": [2]}],
 "nodes": [{"name": "nx", "op": "neg", "inputs": ["x"]},
  {"name": "ny", "op": "neg", "inputs": ["y"]},
  {"name": "sum", "op": "add", "inputs": ["nx", "ny"]}%s],
 "outputs": ["sum", "nx", "y", "ny"%s]}`

// damagedArchive holds x, and a y whose bytes do not match its checksum.
func damagedArchive(t *testing.T) string {
	t.Helper()
	const odd = 12345.678
	y, err := tensor.FromSlice([]float32{odd, 1}, 2)
	if err != nil {
		t.Fatal(err)
	}
	path := saved(t, map[string]*tensor.Tensor{"x": counted(tensor.Float32, 2), "y": y})
	data := read(t, path)
	at := bytes.Index(data, binary.LittleEndian.AppendUint32(nil, math.Float32bits(odd)))
	if at < 0 {
		t.Fatal("the archive does not store its arrays")
	}
	data[at]++
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func npyFile(t *testing.T, v *tensor.Tensor) string {
	t.Helper()
	var b bytes.Buffer
	if err := npz.WriteNPY(&b, v); err != nil {
		t.Fatal(err)
	}
	return write(t, "v.npy", b.String())
}

func TestKeepGoingPastInputs(t *testing.T) {
	x := counted(tensor.Float32, 2)
	both := func(y *tensor.Tensor) []string {
		return []string{"--inputs", saved(t, map[string]*tensor.Tensor{"x": x, "y": y})}
	}
	xFile := npyFile(t, x)
	torn := write(t, "torn.npy", string(read(t, xFile)[:60]))
	short := write(t, "short.npy", string(read(t, xFile)[:len(read(t, xFile))-1]))
	junk := write(t, "junk.npz", "no archive")
	dynamic := `, {"name": "places", "op": "nonzero", "inputs": ["nx"]}`
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--inputs", saved(t, map[string]*tensor.Tensor{"x": x, "why": x})}, "it is missing ("},
		{both(counted(tensor.Int32, 2)), "the file holds int32[2], the graph wants float32[2]"},
		{both(counted(tensor.Float32, 3)), "the file holds float32[3], the graph wants float32[2]"},
		{[]string{"--inputs", damagedArchive(t)}, "damaged"},
		{[]string{"--input", "x=" + xFile, "--input", "y=nowhere.npy"}, "nowhere.npy"},
		{[]string{"--input", "x=" + xFile, "--input", "y=" + torn}, torn},
		{[]string{"--input", "x=" + xFile, "--input", "y=" + short}, short},
		{[]string{"--input", "x=" + xFile, "--inputs", "nowhere.npz"}, "nowhere.npz"},
		{[]string{"--input", "x=" + xFile, "--inputs", junk, "--seed", "3"}, junk},
	} {
		for _, more := range [][2]string{{"", ""}, {dynamic, `, "places"`}} {
			path := write(t, "g.json", strings.Replace(strings.Replace(twoSided, "%s", more[0], 1), "%s", more[1], 1))
			out := filepath.Join(t.TempDir(), "out.npz")
			args := append([]string{"run", path, "--outputs", out, "--json"}, c.args...)
			r := call(t, append(args, "--keep-going")...)
			doc := decode[runOmissions](t, r.out)
			got, err := npz.ReadFile(out)
			if r.code != exit.CodeFailed || err != nil || got["nx"] == nil || len(got) != len(doc.Outputs) ||
				len(doc.LeftOut) != 3 {
				t.Errorf("%v: exit %d, %v, %v\n%s%s", c.args, r.code, err, got, r.out, r.errors)
				continue
			}
			if want := (run.LeftOutDoc{Output: "ny", Node: "ny"}); doc.LeftOut[2] != want || doc.LeftOut[0].Node != "ny" ||
				doc.LeftOut[1].Output != "y" {
				t.Errorf("%v: left out %v", c.args, doc.LeftOut)
			}
			if len(doc.Errors) != 3 || doc.Errors[0].Line != 3 || !strings.HasPrefix(doc.Errors[0].Message, `input "y": `) ||
				!strings.Contains(doc.Errors[0].Message, c.want) || doc.Errors[1].Node != "ny" ||
				doc.Errors[1].Message != `depends on input "y", which cannot be read` {
				t.Errorf("%v: errors %v", c.args, doc.Errors)
			}
			if !strings.Contains(r.errors, `input "y": `) {
				t.Errorf("%v: %s", c.args, r.errors)
			}
			valid(t, "run", r.out)
			if r := call(t, args...); r.code != exit.CodeUsage || r.out != "" {
				t.Errorf("%v without --keep-going: exit %d, %s", c.args, r.code, r.out)
			}
		}
	}
}

// Sizes that only an unreadable file determines are not guessed.
func TestKeepGoingPastSymbols(t *testing.T) {
	path := write(t, "g.json", `{"version": 1, "symbols": {"N": {"max": 8}},
 "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 2]}, {"name": "y", "dtype": "float32", "shape": ["N"]},
  {"name": "z", "dtype": "float32", "shape": ["M"]}],
 "nodes": [{"name": "nx", "op": "neg", "inputs": ["x"]}, {"name": "ny", "op": "neg", "inputs": ["y"]},
  {"name": "nz", "op": "neg", "inputs": ["z"]}, {"name": "full", "op": "full", "attrs": {"size": ["N"], "fill_value": 1}}],
 "outputs": ["nx", "ny", "nz", "full"]}`)
	one := func(shape ...int) string { return npyFile(t, counted(tensor.Float32, shape...)) }
	for _, c := range []struct {
		args, made string
		wants      []string
	}{
		{"--input x=nowhere.npy --seed 1", "nz",
			[]string{`input "y": its size N is unknown`, `attribute "size": the size N is not known`}},
		{"--input x=nowhere.npy --seed 1 --dim N=3", "ny nz full", []string{`input "x": `}},
		{"--input x=nowhere.npy --seed 1 --input y=" + one(4), "ny nz full", []string{`input "x": `}},
		{"--input x=" + one(3, 2) + " --input y=" + one(4) + " --input z=" + one(1), "nx nz full",
			[]string{`input "y": N is 4 here, but 3 in input "x"`}},
		{"--input x=" + one(3, 5) + " --input y=" + one(4) + " --input z=" + one(1), "ny nz full",
			[]string{`input "x": the file holds float32[3, 5], the graph wants float32[N, 2]`}},
		{"--input x=" + one(9, 2) + " --input y=" + one(4) + " --input z=" + one(1), "ny nz full",
			[]string{`input "x": N=9 is outside its bounds: min 0, max 8`}},
		{"--input x=" + one(4, 2) + " --dim N=3 --seed 1", "ny nz full",
			[]string{`input "x": the file holds float32[4, 2], the graph wants float32[3, 2]`}},
	} {
		args := append([]string{"run", path}, strings.Fields(c.args)...)
		r := call(t, append(args, "--keep-going")...)
		var made []string
		for line := range strings.Lines(r.out) {
			made = append(made, strings.Fields(line)[0])
		}
		if got := strings.Join(made, " "); r.code != exit.CodeFailed || got != c.made {
			t.Errorf("%s: exit %d, made %q, want %q\n%s", c.args, r.code, got, c.made, r.errors)
		}
		for _, want := range c.wants {
			if !strings.Contains(r.errors, want) {
				t.Errorf("%s: no %q in\n%s", c.args, want, r.errors)
			}
		}
		if strings.Contains(r.errors, `"N" is not given`) {
			t.Errorf("%s: N was guessed\n%s", c.args, r.errors)
		}
		if r := call(t, args...); r.code != exit.CodeUsage {
			t.Errorf("%s without --keep-going: exit %d", c.args, r.code)
		}
	}
}

// Inputs that exceed the memory are dropped, unused ones first.
func TestKeepGoingPastLargeInputs(t *testing.T) {
	underLimit(t)
	path := write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "uint8", "shape": [1000000]},
  {"name": "idle", "dtype": "uint8", "shape": [2000000000]}, {"name": "huge", "dtype": "uint8", "shape": [1000000000000]}],
 "nodes": [{"name": "a", "op": "amax", "inputs": ["x"]}, {"name": "b", "op": "amax", "inputs": ["huge"]}], "outputs": ["a", "b"]}`)
	r := limited(t, sixGB, "run", "--keep-going", path)
	if r.code != exit.CodeFailed || !strings.HasPrefix(r.out, "a ") ||
		!strings.Contains(r.errors, "output \"b\" is left out\n") ||
		!strings.Contains(r.errors, `input "huge": a run needs`) {
		t.Errorf("exit %d\n%s%.2000s", r.code, r.out, r.errors)
	}
}

// Damaged weights, also as outputs, and pins of removed nodes do not affect the other outputs.
func TestKeepGoingPastWeights(t *testing.T) {
	const text = `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
 "constants": [{"name": "k", "dtype": "float32", "shape": [2], "file": "FILE", "key": "k"}],
 "nodes": [{"name": "sum", "op": "add", "inputs": ["x", "k"]}, {"name": "nx", "op": "neg", "inputs": ["x"]}],
 "outputs": ["sum", "k", "nx"]}`
	for file, data := range map[string]string{
		"none.npz": "", "none.safetensors": "", "junk.npz": "junk", "junk.safetensors": "junk and more junk",
		"other.safetensors": "\x3c\x00\x00\x00\x00\x00\x00\x00" +
			`{"q":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}      ` + "12345678",
	} {
		path := write(t, "g.json", strings.Replace(text, "FILE", file, 1))
		if data != "" {
			if err := os.WriteFile(filepath.Join(filepath.Dir(path), file), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := call(t, "run", path, "--keep-going", "--json", "--pin", "sum=contiguous")
		doc := decode[runOmissions](t, r.out)
		if r.code != exit.CodeFailed || len(doc.Outputs) != 1 || doc.Outputs[0].Name != "nx" || len(doc.LeftOut) != 2 ||
			doc.LeftOut[1].Output != "k" || !strings.Contains(doc.Errors[0].Message, file) {
			t.Errorf("%s: exit %d\n%s%s", file, r.code, r.out, r.errors)
		}
		r = call(t, "infer", path, "--keep-going")
		if r.code != exit.CodeFailed || !strings.Contains(r.out, "\nnx ") || !strings.Contains(r.errors, file) ||
			strings.Contains(r.out, "\nsum ") {
			t.Errorf("infer %s: exit %d\n%s%s", file, r.code, r.out, r.errors)
		}
		if r := call(t, "run", path, "--keep-going", "--pin", "some=contiguous"); r.code != exit.CodeUsage {
			t.Errorf("a pin of nothing: exit %d", r.code)
		}
	}
}

// infer reports mistakes in the order of the file, and outputs that cannot be laid out as they are pinned.
func TestInferKeepsGoingInOrder(t *testing.T) {
	path := write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3]}],
 "constants": [{"name": "k", "dtype": "float32", "shape": [3], "file": "none.npy"}],
 "nodes": [{"name": "a", "op": "add", "inputs": ["x", "k"]}, {"name": "b", "op": "neg", "inputs": ["x"]}],
 "outputs": ["a", "k",
  {"value": "b", "memory_format": "channels_last"},
  "b"]}`)
	r := call(t, "infer", path, "--keep-going")
	want := []string{`:2:16: constant "k": none.npy`, `:3:12: node "a" (add): depends on constant "k"`,
		`:4:19: output "k": depends on constant "k"`, `:5:3: output "b": pin b=channels_last: required rank 4`,
		`:6:3: duplicate output "b"`}
	told := strings.Split(strings.TrimSpace(r.errors), "\n")
	if r.code != exit.CodeFailed || len(told) != len(want) || !strings.Contains(r.out, "neg") {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.errors)
	}
	for i, w := range want {
		if !strings.HasPrefix(told[i], path+w) {
			t.Errorf("%s: want %s", told[i], w)
		}
	}
}

// What begins with a flag begins with the program's name, though it tells a place of the file too.
func TestPinOfNoImplementation(t *testing.T) {
	path := write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3]}],
"nodes": [{"name": "y", "op": "relu", "inputs": ["x"]}], "outputs": ["y"]}`)
	r := call(t, "run", path, "--pin", "y=impl:winograd")
	if r.code != exit.CodeUsage || !strings.HasPrefix(r.errors, "graphrun: --pin y=impl:winograd: "+path+":2:11: ") {
		t.Errorf("exit %d, %q", r.code, r.errors)
	}
}
