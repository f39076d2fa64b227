package graphfile_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

const dtypeList = "bool, uint8, int8, int16, int32, int64, uint16, uint32, uint64, float16, bfloat16, float32, " +
	"float64, complex64, complex128"

const image = `{"name": "x", "dtype": "float32", "shape": [1, 2, 5, 5]}, {"name": "w", "dtype": "float32", "shape": [3, 2, 3, 3]}`

// conv is a file whose only node, on line 4, is a convolution with attributes that start in
// column 62.
func conv(attrs string) string {
	return file(image, "", `{"name": "y", "op": "conv2d", "inputs": ["x", "w"], "attrs": {`+attrs+`}}`, `"y"`)
}

func sizes(shape string) string {
	return input(`{"name": "x", "dtype": "float32", "shape": ` + shape + `}`)
}

// messages are files with one mistake each, and the complete error text. The ops are those of the catalogue.
var messages = []struct{ text, want string }{
	// Ops.
	{node(`{"name": "y", "op": "rlu", "inputs": ["x"]}`),
		`4:11: node "y" (rlu): there is no op "rlu"; did you mean relu?`},
	{node(`{"name": "y", "op": "ReLU", "inputs": ["x"]}`),
		`4:11: node "y" (ReLU): there is no op "ReLU"; did you mean relu?`},
	{node(`{"name": "y", "op": "aten::relu", "inputs": ["x"]}`),
		`4:11: node "y" (aten::relu): there is no op "aten::relu"; did you mean relu?`},
	{node(`{"name": "y", "op": "Conv", "inputs": ["x"]}`),
		`4:11: node "y" (Conv): there is no op "Conv"; did you mean conv2d?`},
	{node(`{"name": "y", "op": "multiply", "inputs": ["x"]}`),
		`4:11: node "y" (multiply): there is no op "multiply"; did you mean mul?`},
	{node(`{"name": "y", "op": "astype", "inputs": ["x"]}`),
		`4:11: node "y" (astype): there is no op "astype"; did you mean to?`},
	{node(`{"name": "y", "op": "qwertyuiop", "inputs": ["x"]}`),
		`4:11: node "y" (qwertyuiop): there is no op "qwertyuiop"`},

	// Names.
	{file(`{"name": "c", "dtype": "bool", "shape": []}`, "", `{"name": "y", "op": "relu", "inputs": ["cc"]}`, `"y"`),
		`4:50: node "y" (relu): there is no value "cc"; did you mean "c"?`},
	{file(`{"name": "hidden", "dtype": "bool", "shape": []}`, "", "", `"hiden"`),
		`5:13: output "hiden": there is no value "hiden"; did you mean "hidden"?`},
	{node(`{"name": "y", "op": "reshape", "inputs": ["x"], "attrs": {"shape": {"value": "xx"}}}`),
		`4:69: node "y" (reshape): attribute "shape": there is no value "xx"; did you mean "x"?`},
	{node(`{"name": "y", "op": "relu", "input": ["x"]}`),
		`4:39: node "y" (relu): unknown key "input": want one of name, op, inputs, attrs, outputs, memory_format, order, impl, device; did you mean inputs?`},
	{node(`{"name": "y", "op": "relu", "inputs": ["3.5"]}`),
		`4:50: node "y" (relu): there is no value "3.5"; a number needs no quotes: 3.5`},

	// Attributes, which have places of their own.
	{conv(`"stride": 1, "paddin": 1`),
		`4:86: node "y" (conv2d): unknown attribute "paddin": the op has stride, padding, dilation, groups; did you mean padding?`},
	{conv(`"padding": "1"`), `4:73: node "y" (conv2d): attribute "padding": want an integer, a list of integers, same or valid, got "1"; did you mean 1?`},
	{conv(`"padding": "SAME"`),
		`4:73: node "y" (conv2d): attribute "padding": want an integer, a list of integers, same or valid, got "SAME"; did you mean same?`},
	{conv(`"stride": 1.5`), `4:73: node "y" (conv2d): attribute "stride": want an integer or a list of integers, got 1.5`},
	{conv(`"stride": [1, 1, 1]`),
		`4:73: node "y" (conv2d): expected stride to be a single integer value or a list of 2 values to match the convolution dimensions, but got stride=[1, 1, 1]`},
	{node(`{"name": "y", "op": "softmax", "inputs": ["x"], "attrs": {"dim": "1"}}`),
		`4:69: node "y" (softmax): attribute "dim": want an integer, got "1"; did you mean 1?`},
	{node(`{"name": "y", "op": "softmax", "inputs": ["x"], "attrs": {"dim": 7}}`),
		`4:69: node "y" (softmax): Dimension out of range (expected to be in range of [-2, 1], but got 7)`},
	{node(`{"name": "y", "op": "softmax", "inputs": ["x"], "attrs": {"dim": "N*2"}}`),
		`4:69: node "y" (softmax): attribute "dim": expression "N*2", column 1: there is no symbol "N"`},
	{node(`{"name": "y", "op": "to", "inputs": ["x"], "attrs": {"dtype": "half"}}`),
		`4:64: node "y" (to): attribute "dtype": unknown dtype "half": want one of ` + dtypeList + `; did you mean float16?`},
	{node(`{"name": "y", "op": "sum", "inputs": ["x"], "attrs": {"keepdim": 1}}`),
		`4:65: node "y" (sum): attribute "keepdim": want true or false, got 1`},
	{node(`{"name": "y", "op": "clamp", "inputs": ["x"], "attrs": {"min": "np.inf"}}`),
		`4:67: node "y" (clamp): attribute "min": want a number or null, got "np.inf"; did you mean "Infinity"?`},
	{node(`{"name": "y", "op": "pad", "inputs": ["x"], "attrs": {"pad": [1, 1], "mode": "refelct"}}`),
		`4:80: node "y" (pad): Unrecognized padding mode refelct`},
	{node(`{"name": "y", "op": "add", "inputs": ["x", 1], "attrs": {"alpha": 1e999}}`),
		`4:77: node "y" (add): 1e999 is too large for a 64-bit float`},

	// Numbers without a JSON literal.
	{node(`{"name": "y", "op": "add", "inputs": ["x", "-inf"]}`),
		`4:54: node "y" (add): there is no value "-inf"; did you mean the number "-Infinity"?`},
	{node(`{"name": "y", "op": "add", "inputs": ["x", "inf"]}`),
		`4:54: node "y" (add): there is no value "inf"; did you mean the number "Infinity"?`},
	{node(`{"name": "y", "op": "add", "inputs": ["x", "nan"]}`),
		`4:54: node "y" (add): there is no value "nan"; did you mean the number "NaN"?`},
	{node(`{"name": "y", "op": "add", "inputs": ["x", -Infinity]}`),
		`4:54: invalid JSON: JSON has no -Infinity: write "-Infinity", in quotes`},
	{node(`{"name": "y", "op": "add", "inputs": ["x", nan]}`), `4:54: invalid JSON: JSON has no nan: write "NaN", in quotes`},
	{constant(`{"name": "k", "dtype": "float32", "shape": [1], "data": [Infinity]}`),
		`3:72: invalid JSON: JSON has no Infinity: write "Infinity", in quotes`},

	{constant(`{"name": "k", "dtype": "int8", "shape": [1], "data": ["-Infinity"]}`),
		`3:69: constant "k": data: "-Infinity" does not fit int8`},

	// Dtypes, sizes and formats of inputs and constants.
	{input(`{"name": "x", "dtype": "f32", "shape": []}`), `2:35: input "x": unknown dtype "f32": want one of ` +
		dtypeList + `; did you mean float32?`},
	{input(`{"name": "x", "dtype": "torch.float32", "shape": []}`),
		`2:35: input "x": unknown dtype "torch.float32": want one of ` + dtypeList + `; did you mean float32?`},
	{constant(`{"name": "k", "dtype": "half", "shape": [], "data": 1}`),
		`3:38: constant "k": unknown dtype "half": want one of ` + dtypeList + `; did you mean float16?`},
	{input(`{"name": "x", "dtype": "bool", "shape": [2], "memory_format": "NHWC"}`),
		`2:74: input "x": unknown memory format "NHWC": want contiguous, channels_last, channels_last_3d or preserve; did you mean channels_last?`},
	{sizes(`[4294967296, 4294967296, 4294967296, 4294967296]`),
		`2:12: input "x": shape [4294967296, 4294967296, 4294967296, 4294967296] has too many elements: at most 35184372088832 of dtype float32 fit into 2^47 bytes`},
	{sizes(`["2", 3]`), `2:56: input "x": want an integer, a symbol or an expression, got "2"; did you mean 2?`},
	{sizes(`["N*2", 3]`), `2:56: input "x": shape: expression "N*2", column 1: there is no symbol "N"`},
	{sizes(`[3, "Max(1, N)"]`),
		`2:59: input "x": shape: expression "Max(1, N)", column 8: there is no symbol "N"`},

	// Results.
	{node(`{"name": "y", "op": "topk", "inputs": ["x"], "attrs": {"k": 1}}`),
		`4:11: node "y" (topk): makes 2 values: name them under "outputs": values, indices`},
	{node(`{"name": "y", "op": "topk", "inputs": ["x"], "attrs": {"k": 1}, "outputs": ["a", "b", "c"]}`),
		`4:11: node "y" (topk): makes 2 values: name them under "outputs": values, indices`},
	{node(`{"name": "n", "op": "nonzero", "inputs": ["x"]}, {"name": "y", "op": "sort", "inputs": ["n"]}`),
		`4:60: node "y" (sort): makes 2 values: name them under "outputs": values, indices`},
	{node(`{"name": "y", "op": "chunk", "inputs": ["x"], "attrs": {"chunks": 2}}`),
		`4:11: node "y" (chunk): makes 2 values: name them under "outputs"`},
	{node(`{"name": "y", "op": "relu", "inputs": ["x"], "outputs": ["a", "b"]}`),
		`4:11: node "y" (relu): makes one value, "outputs" names 2`},

	// Files.
	{constant(`{"name": "k", "dtype": "int8", "shape": [2], "file": "none.npy"}`),
		`3:15: constant "k": none.npy: there is no such file`},
}

// syntaxMessages are files that are not JSON.
var syntaxMessages = []struct{ text, want string }{
	{"", "1:1: the file is empty"},
	{"\xef\xbb\xbf{}", "1:1: the file starts with a byte-order mark: save it as UTF-8 without one"},
	{"\xff\xfe{\x00", "1:1: the file is UTF-16: save it as UTF-8"},
	{"PK\x03\x04", "1:1: this is not a graph file: it is a zip archive, as .npz files and PyTorch's .pt files are"},
	{"\x08\x07", "1:1: the file is binary, not a graph file: the name of an ONNX model must end in .onnx"},
	{"version https://git-lfs.github.com/spec/v1", "1:1: this is not a graph file: it is a pointer of Git LFS: git lfs " +
		"pull fetches the file itself"},
	{"// graph\n{}", "1:1: invalid JSON: JSON has no comments: remove it"},
	{"{\"version\": 1, // one\n}", "1:16: invalid JSON: JSON has no comments: remove it"},
	{"{\"version\": /* one */ 1}", "1:13: invalid JSON: JSON has no comments: remove it"},
	{"{\n# graph\n\"version\": 1}", "2:1: invalid JSON: JSON has no comments: remove it"},
	{`{"version": NaN}`, `1:13: invalid JSON: JSON has no NaN: write "NaN", in quotes`},
	{`{"version": -Infinity}`, `1:13: invalid JSON: JSON has no -Infinity: write "-Infinity", in quotes`},
	{`{"version": -inf}`, `1:13: invalid JSON: JSON has no -inf: write "-Infinity", in quotes`},
	{`{"version": True}`, "1:13: invalid JSON: JSON has true, not True"},
	{`{"version": False}`, "1:13: invalid JSON: JSON has false, not False"},
	{`{"version": None}`, "1:13: invalid JSON: JSON has null, not None"},
	{`{"version": 1,}`, "1:14: invalid JSON: there is a comma after the last member: remove it"},
	{"{\"version\": 1, \"inputs\": [1, 2,\n]}", "1:31: invalid JSON: there is a comma after the last member: remove it"},
	{`{'version': 1}`, `1:2: invalid JSON: a key needs double quotes, "..."`},
	{`{"version": 'one'}`, `1:13: invalid JSON: a string needs double quotes, "..."`},
	{`{“version”: 1}`, `1:2: invalid JSON: want a key in double quotes`},
	{`{version: 1}`, `1:2: invalid JSON: a key needs double quotes: "version"`},
	{"{\"version\": \xff}", "1:13: invalid JSON: the file is not UTF-8 text: byte 0xff"},
	{`{"version": relu}`, "1:13: invalid JSON: want a value, got relu: a string needs double quotes"},
	{"{\"version\": 1\n \"inputs\": []}", "2:2: invalid JSON: a comma is missing before this"},
	{`{"version": [1 2]}`, "1:16: invalid JSON: a comma is missing before this"},
	{`{"version": 1; "inputs": []}`, "1:14: invalid JSON: a comma separates members, not a semicolon"},
	{`{"version" 1}`, `1:12: invalid JSON: a colon is missing after the key "version"`},
	{`{"version" = 1}`, "1:12: invalid JSON: a colon follows a key, not ="},
	{`{"version": }`, `1:13: invalid JSON: the key "version" has no value`},
	{`{"version": [1, , 2]}`, "1:17: invalid JSON: a value is missing before this comma"},
	{`{"version": [1: 2]}`, "1:15: invalid JSON: unexpected colon in a list: only objects, {...}, have keys"},
	{`{"version": [1 = 2]}`, "1:16: invalid JSON: want a comma or ], got ="},
	{`{"version": 1 "a" = 2}`, "1:15: invalid JSON: a comma is missing before this"},
	{"{\"version\": 1,\n \"name\": \"residual", "2:10: invalid JSON: the file ends in the string that starts here"},
	{"{\"name\": \"residual,\n \"version\": 1}",
		"1:10: invalid JSON: the string that starts here is not closed on its line"},
	{"{\"version\": 1,\n \"inputs\": [{\"name\": \"x\"}", "2:26: invalid JSON: the file ends early: " +
		"the list that starts at line 2, " +
		"column 12 is not closed"},
	{`{"version": 1`, "1:14: invalid JSON: the file ends early: the object that starts at line 1, column 1 is not closed"},
	{`{"version": [1}`, "1:15: invalid JSON: got }, but the list that starts at line 1, column 13 ends with ]"},
	{"{\"version\": 1,\n\"version\": 1}",
		`2:1: invalid JSON: the key "version" occurs twice in one object, first at line 1, column 2`},
	{`{"version": .5}`, "1:13: invalid JSON: a digit must be before the point of a number: 0.5, not .5"},
	{`{"version": 1.}`, "1:13: invalid JSON: a digit must be after the point of a number: 1.0, not 1."},
	{`{"version": +1}`, "1:13: invalid JSON: a number has no plus sign in JSON"},
	{`{"version": 01}`, "1:13: invalid JSON: 01 starts with a zero: JSON's numbers do not"},
	{`{"version": 0x10}`, "1:13: invalid JSON: 0x10 is not a JSON number: write 12, -0.5 or 1e-05"},
	{`{"version": 1_000}`, "1:13: invalid JSON: 1_000 is not a JSON number: write 12, -0.5 or 1e-05"},
	{`{"name": "a\qb"}`, `1:12: invalid JSON: JSON does not know \q: a backslash itself is written \\`},
	{"{\"name\": \"a\tb\"}", `1:12: invalid JSON: a control character is in a string: write it as \u0009`},
	{"{\"name\": \"\xe4\"}", "1:11: invalid JSON: the file is not UTF-8 text: byte 0xe4"},
	{"{\"version\": 1}}", `1:15: unexpected text after the end of the graph`},
}

func TestMessages(t *testing.T) {
	open := func(string, string) (tensor.Meta, graphfile.ReadConst, error) {
		return tensor.Meta{}, nil, errors.New("not opened")
	}
	for _, m := range messages {
		_, err := graphfile.Read(strings.NewReader(m.text), kernels.Lookup,
			graphfile.Options{Name: "g.json", Dir: t.TempDir(), Open: open})
		if want := "g.json:" + m.want; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s\n%s", err, want, m.text)
		}
	}
	for _, m := range syntaxMessages {
		_, err := graphfile.Read(strings.NewReader(m.text), kernels.Lookup, graphfile.Options{Name: "g.json", Open: open})
		if err == nil {
			t.Errorf("%s: loaded", m.text)
			continue
		}
		// Mistakes before the syntax error are reported first.
		lines := strings.Split(err.Error(), "\n")
		if want := "g.json:" + m.want; lines[len(lines)-1] != want {
			t.Errorf("got  %v\nwant %s\n%s", err, want, m.text)
		}
	}
}

func TestInfinitiesAreNumbers(t *testing.T) {
	g, err := graphfile.Read(strings.NewReader(file(x+`, {"name": "Infinity", "dtype": "float32", "shape": [3]}`,
		`{"name": "k", "dtype": "float32", "shape": [4], "data": ["Infinity", "-Infinity", "NaN", "-inf"]}`,
		`{"name": "a", "op": "add", "inputs": ["x", "-Infinity"]}, {"name": "b", "op": "add", "inputs": ["x", "NaN"]},
		{"name": "c", "op": "add", "inputs": ["x", "Infinity"]},
		{"name": "d", "op": "clamp", "inputs": ["x"], "attrs": {"min": "-Infinity", "max": "Infinity"}}`, `"a"`)),
		kernels.Lookup, graphfile.Options{Name: "g.json"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"-Inf", "NaN"} {
		if a := g.Nodes[i].In[1]; a.Kind != graph.NumberArg || a.Number.String() != want {
			t.Errorf("%s: operand is %+v, want %s", g.Nodes[i].Name, a, want)
		}
	}
	if g.Nodes[2].In[1].Value != g.Value("Infinity") {
		t.Error("a value's name is before the number")
	}
	g.Nodes[2].In[1] = g.Nodes[0].In[1]
	g.Nodes[2].In[1].Number = tensor.FloatScalar(math.Inf(1))
	var saved strings.Builder
	if err := graphfile.Save(&saved, g); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`["x", "-Infinity"]`, `["x", "NaN"]`, `["x", {"number": "Infinity"}]`} {
		if !strings.Contains(saved.String(), want) {
			t.Errorf("want %s in\n%s", want, &saved)
		}
	}
	if _, err := graphfile.Read(strings.NewReader(saved.String()), kernels.Lookup,
		graphfile.Options{Name: "g.json"}); err != nil {
		t.Error(err)
	}
}
