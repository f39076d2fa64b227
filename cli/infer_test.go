package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/infer"
)

type inferDoc struct {
	toldDoc
	Version int          `json:"version"`
	Values  []inferValue `json:"values"`
	Errors  []inferError `json:"errors"`
}

type inferValue struct {
	Name    string   `json:"name"`
	Op      string   `json:"op"`
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Strides []int    `json:"strides"`
	Offset  int      `json:"offset"`
	Flags   []string `json:"flags"`
	AliasOf *string  `json:"alias_of"`
	Dynamic bool     `json:"dynamic"`
}

type inferError struct {
	Node    string `json:"node"`
	Op      string `json:"op"`
	Message string `json:"message"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	Col     int    `json:"col"`
}

func TestInferJSON(t *testing.T) {
	const want = `{"version": 1,
 "values": [
  {"name": "x", "op": "input", "dtype": "float32", "shape": ["N", 3, 4, 5], "strides": [60, 1, 15, 3], "offset": 0, "flags": ["channels_last", "non_overlapping_and_dense"], "alias_of": null},
  {"name": "b", "op": "input", "dtype": "float32", "shape": [3, 4, 5], "strides": [20, 5, 1], "offset": 0, "flags": ["contiguous", "non_overlapping_and_dense"], "alias_of": null},
  {"name": "i", "op": "input", "dtype": "int32", "shape": [2, 3], "strides": [1, 2], "offset": 4, "flags": ["non_overlapping_and_dense"], "alias_of": null},
  {"name": "y", "op": "add", "dtype": "float32", "shape": ["N", 3, 4, 5], "strides": [60, 1, 15, 3], "offset": 0, "flags": ["channels_last", "non_overlapping_and_dense"], "alias_of": null},
  {"name": "p", "op": "permute", "dtype": "float32", "shape": ["N", 4, 5, 3], "strides": [60, 15, 3, 1], "offset": 0, "flags": ["contiguous", "non_overlapping_and_dense"], "alias_of": "y"},
  {"name": "j", "op": "mul", "dtype": "int32", "shape": [2, 3], "strides": [1, 2], "offset": 0, "flags": ["non_overlapping_and_dense"], "alias_of": null}],
 "errors": [],
 "guards": [],
 "assumed": {"N": 2}}
`
	got := succeed(t, "infer", "--json", write(t, "g.json", small))
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	valid(t, "infer", got)
	doc := decode[inferDoc](t, succeed(t, "infer", "--json", "--dim", "N=7", write(t, "g.json", small)))
	if !slices.Equal(doc.Values[3].Shape, []int{7, 3, 4, 5}) {
		t.Errorf("N=7 gives %v", doc.Values[3].Shape)
	}
}

// TestInferGuards shows what the strides of a result hang on.
func TestInferGuards(t *testing.T) {
	path := write(t, "g.json", transposing)
	got := succeed(t, "infer", path)
	for _, want := range []string{"[N,3]  [1,N]", "\nholds while Ne(N, 1), required by z (add)\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	const guards = "\"guards\": [\n  {\"condition\": \"Ne(N, 1)\", \"node\": \"z\", \"op\": \"add\"}]"
	if got := succeed(t, "infer", "--json", path); !strings.Contains(got, guards) {
		t.Errorf("lacks %s:\n%s", guards, got)
	}
}

func TestInferBroken(t *testing.T) {
	path := write(t, "g.json", broken)
	sum := inferError{"sum", "add", sizeMismatch, path, 9, 5}
	after := inferError{"after", "exp", `depends on "sum", which was rejected`, path, 10, 5}

	r := call(t, "infer", "--json", path)
	doc := decode[inferDoc](t, r.out)
	if r.code != exit.CodeUsage || len(doc.Values) != 0 || !slices.Equal(doc.Errors, []inferError{sum}) {
		t.Errorf("exit %d, %+v", r.code, doc)
	}
	if want := fmt.Sprintf("%s:9:5: node \"sum\" (add): %s\n", path, sizeMismatch); r.errors != want {
		t.Errorf("stderr %q, want %q", r.errors, want)
	}

	r = call(t, "infer", "--json", "--keep-going", path)
	doc = decode[inferDoc](t, r.out)
	if r.code != exit.CodeFailed || !slices.Equal(doc.Errors, []inferError{sum, after}) {
		t.Errorf("exit %d, %+v", r.code, doc)
	}
	var names []string
	for _, v := range doc.Values {
		names = append(names, v.Name)
	}
	if !slices.Equal(names, []string{"a", "b", "fine"}) {
		t.Errorf("values %v", names)
	}
}

func TestInferMissing(t *testing.T) {
	r := call(t, "infer", "--json", "missing.json")
	doc := decode[inferDoc](t, r.out)
	if r.code != exit.CodeUsage || len(doc.Errors) != 1 ||
		doc.Errors[0].Message != "missing.json: there is no such file" ||
		r.errors != "graphrun: missing.json: there is no such file\n" {
		t.Errorf("exit %d, %+v, %s", r.code, doc, r.errors)
	}
}

func TestInferTable(t *testing.T) {
	const want = `name  op       dtype    shape      strides      offset  flags                                    alias of
x     input    float32  [N,3,4,5]  [60,1,15,3]  0       channels_last non_overlapping_and_dense
b     input    float32  [3,4,5]    [20,5,1]     0       contiguous non_overlapping_and_dense
i     input    int32    [2,3]      [1,2]        4       non_overlapping_and_dense
y     add      float32  [N,3,4,5]  [60,1,15,3]  0       channels_last non_overlapping_and_dense
p     permute  float32  [N,4,5,3]  [60,15,3,1]  0       contiguous non_overlapping_and_dense     y
j     mul      int32    [2,3]      [1,2]        0       non_overlapping_and_dense
`
	if got := succeed(t, "infer", write(t, "g.json", small)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// unknownSizes is a graph whose strides, conditions and guards depend on sizes.
const unknownSizes = `{"version": 1, "symbols": {"N": {"min": 1}, "K": {"min": 2}, "H": {"min": 2, "max": 64}},
"inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 3, "H", "H*2 - 1"], "memory_format": "channels_last"},
 {"name": "k", "dtype": "int64", "shape": [6, "K"]}],
"nodes": [{"name": "c", "op": "contiguous", "inputs": ["x"]},
 {"name": "r", "op": "gather_nd", "inputs": ["x", "k"]},
 {"name": "f", "op": "reshape", "inputs": ["c"], "attrs": {"shape": ["N*3", -1]}}],
"outputs": ["c", "r", "f"]}`

func TestInferOfUnknownSizes(t *testing.T) {
	path := write(t, "g.json", unknownSizes)
	got := succeed(t, "infer", path, "--json")
	valid(t, "infer", got)
	for _, want := range []string{
		`"name": "x", "op": "input", "dtype": "float32", "shape": ["N", 3, "H", "2*H - 1"], "strides": ["6*H**2 - 3*H", 1, ` +
			`"6*H - 3", 3], "offset": 0, "flags": ["channels_last", "non_overlapping_and_dense"], "alias_of": null}`,
		`"name": "r", "op": "gather_nd", "dtype": "float32", "shape": [6, "H", "2*H - 1"]`,
		`"name": "f", "op": "reshape", "dtype": "float32", "shape": ["3*N", "2*H**2 - H"]`,
		`{"condition": "Eq(K, 2)", "node": "r", "op": "gather_nd", "binds": {"K": 2}}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
	if text := succeed(t, "infer", path); !strings.Contains(text, "required by r (gather_nd) and binds K=2\n") {
		t.Error(text)
	}
}

// TestInferOfClasses goes both ways where what contiguous makes depends on whether a size is 1.
func TestInferOfClasses(t *testing.T) {
	path := write(t, "g.json", `{"version": 1, "symbols": {"N": {"min": 1}},
"inputs": [{"name": "x", "dtype": "float32", "shape": [2, "N", 3], "strides": ["3*N", 1, "N"]}],
"nodes": [{"name": "c", "op": "contiguous", "inputs": ["x"]}], "outputs": ["c"]}`)
	for flag, want := range map[string]string{
		"--json":    `{"condition": "Ne(N, 1)", "node": "c", "op": "contiguous"}`,
		"--classes": "holds while Ne(N, 1): else a value has another dtype or alias there\n",
	} {
		if text := succeed(t, "infer", path, flag); !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
}

// TestInferOfManyClasses ends at the limit of classes, which it reports.
func TestInferOfManyClasses(t *testing.T) {
	path := write(t, "g.json", `{"version": 1,
"inputs": [{"name": "x", "dtype": "float32", "shape": ["N", "C", "H", "W"], "memory_format": "channels_last"},
 {"name": "b", "dtype": "float32", "shape": [1, "C", 1, 1]},
 {"name": "c", "dtype": "float32", "shape": ["A", "B", "D", "E"]}],
"nodes": [{"name": "y", "op": "add", "inputs": ["x", "b"]}, {"name": "z", "op": "add", "inputs": ["y", "c"]}],
"outputs": ["z"]}`)
	r := call(t, "infer", path, "--classes")
	if r.code != exit.CodeDone || !strings.Contains(r.errors, "more than 16 classes of sizes") ||
		!strings.Contains(r.out, "holds while ") {
		t.Errorf("exit %d, stderr:\n%s\n%s", r.code, r.errors, r.out)
	}
}

// manyGuards is a graph whose guards all come from sizes 0 and 1.
const manyGuards = `{"version": 1, "symbols": {"M": {"hint": 3}, "K": {"max": 1}},
"inputs": [{"name": "x", "dtype": "float32", "shape": ["N", "C", "H", "W"]},
 {"name": "b", "dtype": "float32", "shape": ["C", 1, 1]}, {"name": "m", "dtype": "float32", "shape": ["M", "K"]}],
"nodes": [{"name": "l", "op": "contiguous", "inputs": ["x"], "memory_format": "channels_last"},
 {"name": "y", "op": "add", "inputs": ["l", "b"]}, {"name": "r", "op": "relu", "inputs": ["y"]},
 {"name": "n", "op": "neg", "inputs": ["m"]}],
"outputs": ["r", "n"]}`

// TestInferFewerGuards raises the minimums that the note names, which the guards rest on.
func TestInferFewerGuards(t *testing.T) {
	type doc struct {
		Guards []infer.GuardDoc      `json:"guards"`
		Fewer  *infer.RaisedMinimums `json:"fewer_guards"`
	}
	text := succeed(t, "infer", "--json", write(t, "g.json", manyGuards))
	valid(t, "infer", text)
	decoded := func(text string) (d doc) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	before := decoded(text)
	f := before.Fewer
	if f == nil || f.Guards != len(before.Guards) || f.Removed < 1 || slices.Contains(f.Symbols, "M") {
		t.Fatalf("%+v", before)
	}
	raised := strings.Replace(manyGuards, `"symbols": {`, `"symbols": {"`+strings.Join(f.Symbols, `": {"min": 2}, "`)+
		`": {"min": 2}, `, 1)
	after := decoded(succeed(t, "infer", "--json", write(t, "h.json", raised)))
	if len(after.Guards) != f.Guards-f.Removed || after.Fewer != nil {
		t.Errorf("%+v leaves %+v", f, after)
	}
	r := call(t, "infer", write(t, "g.json", transposing))
	if want := "graphrun: note: with \"N\": {\"min\": 2}, 1 of 1 guard disappears\n"; r.errors != want {
		t.Errorf("got %s, want %s", r.errors, want)
	}
}
