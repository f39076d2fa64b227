package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/exit"

	"github.com/graphrun/graphrun/internal/environment"
)

// result is what a command line left.
type result struct {
	code        int
	out, errors string
	disturbed   []string // notes of disturbed measurements, which errors does not have: they depend on the machine
}

// call runs a command line in this process.
func call(t *testing.T, args ...string) result {
	t.Helper()
	return callIn(t, t.Context(), extend(t), args...)
}

func callIn(t *testing.T, ctx context.Context, ext *command.Extensions, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := execute(ctx, ext, args, &out, &errs)
	return resultOf(code, out.String(), errs.String())
}

// resultOf separates notes of disturbed measurements from other messages.
func resultOf(code int, out, messages string) result {
	r := result{code: code, out: out}
	for line := range strings.Lines(messages) {
		if strings.Contains(line, ": disturbed measurement: ") {
			r.disturbed = append(r.disturbed, line)
		} else {
			r.errors += line
		}
	}
	return r
}

// complaints is what stderr holds besides notes.
func (r result) complaints() string {
	var b strings.Builder
	for line := range strings.Lines(r.errors) {
		if !strings.HasPrefix(line, "graphrun: note: ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// succeed is call for what must succeed without a complaint on stderr.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	r := call(t, args...)
	if r.code != exit.CodeDone || r.complaints() != "" {
		t.Fatalf("graphrun %s: exit %d, stderr:\n%s", strings.Join(args, " "), r.code, r.errors)
	}
	return r.out
}

// extend returns the extensions that options add.
func extend(t *testing.T, options ...Option) *command.Extensions {
	t.Helper()
	e, err := extensionsOf(options)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// write puts a file into a fresh folder and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// toldDoc is what every document may have.
type toldDoc struct {
	Assumed  map[string]int
	Warnings []map[string]any
}

// decodeTold reads that part of a document.
func decodeTold(t *testing.T, text string) (doc toldDoc) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return doc
}

// decode reads a JSON document strictly: a key that T lacks is an error.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return v
}

// transposing is a graph whose result has the layout of its first operand, or of the second if N is 1.
const transposing = `{
  "version": 1,
  "symbols": {"N": {"min": 1, "max": 64}},
  "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 3]}, {"name": "y", "dtype": "float32", "shape": [3, "N"]}],
  "nodes": [
    {"name": "t", "op": "permute", "inputs": ["y"], "attrs": {"dims": [1, 0]}},
    {"name": "z", "op": "add", "inputs": ["t", "x"]}
  ],
  "outputs": ["z"]
}
`

// small has a channels-last input with a symbolic size, a strided one, and a view.
const small = `{
  "version": 1,
  "name": "small",
  "symbols": {"N": {"min": 1, "max": 64}},
  "inputs": [
    {"name": "x", "dtype": "float32", "shape": ["N", 3, 4, 5], "memory_format": "channels_last"},
    {"name": "b", "dtype": "float32", "shape": [3, 4, 5]},
    {"name": "i", "dtype": "int32", "shape": [2, 3], "strides": [1, 2], "offset": 4}
  ],
  "nodes": [
    {"name": "y", "op": "add", "inputs": ["x", "b"]},
    {"name": "p", "op": "permute", "inputs": ["y"], "attrs": {"dims": [0, 2, 3, 1]}},
    {"name": "j", "op": "mul", "inputs": ["i", 2]}
  ],
  "outputs": ["y", {"value": "p", "name": "nhwc"}, "j"]
}
`

// broken has a node that PyTorch rejects and a node that depends on it.
const broken = `{
  "version": 1,
  "inputs": [
    {"name": "a", "dtype": "float32", "shape": [2, 3]},
    {"name": "b", "dtype": "float32", "shape": [2, 4]}
  ],
  "nodes": [
    {"name": "fine", "op": "add", "inputs": ["a", 1]},
    {"name": "sum", "op": "add", "inputs": ["a", "b"]},
    {"name": "after", "op": "exp", "inputs": ["sum"]}
  ],
  "outputs": ["fine", "after"]
}
`

const sizeMismatch = "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"

func TestExitCodes(t *testing.T) {
	good, bad := write(t, "good.json", small), write(t, "bad.json", broken)
	missing := filepath.Join(t.TempDir(), "missing.json")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"infer " + good, 0, ""},
		{"run " + good, 0, ""},
		{"", 0, ""},
		{"--help", 0, ""},
		{"infer " + bad, 2, sizeMismatch},
		{"infer --keep-going " + bad, 1, sizeMismatch},
		{"run " + bad, 2, sizeMismatch},
		{"run --keep-going " + bad, 1, sizeMismatch},
		{"plan " + bad, 2, sizeMismatch},
		{"bench " + bad, 2, sizeMismatch},
		{"compare " + bad, 2, sizeMismatch},
		{"view " + bad + " -o x.dot", 2, sizeMismatch},
		{"infer " + missing, 2, "no such file"},
		{"infer model.onnx", 2, "no such file"},
		{"infer", 2, "wants one graph file"},
		{"infer a b", 2, "wants one graph file"},
		{"infr " + good, 2, "did you mean infer?"},
		{"nonsense", 2, `unknown command "nonsense"`},
		{"help infr", 2, "did you mean infer?"},
		{"help infer", 0, ""},
		{"help infer more", 2, `got "more" too`},
		{"completion bsh", 2, "did you mean bash?"},
		{"infer --jsn " + good, 2, "did you mean --json?"},
		{"run --seed x " + good, 2, "--seed x: want a whole number that is not negative"},
		{"run --seed -1 " + good, 2, "--seed -1: want a whole number that is not negative"},
		{"run --seed 99999999999999999999 " + good, 2, "the number is out of range"},
		{"bench --runs 1e3 " + good, 2, "--runs 1e3: want a whole number"},
		{"run --json=maybe " + good, 2, "--json maybe: want true or false"},
		{"run " + good + " --dim", 2, "--dim: a value is missing"},
		{"run --color pink " + good, 2, "--color pink: want auto, always or never"},
		{"run --strategy fast " + good, 2, "want one of propagate, contiguous, channels_last"},
		{"run --strategy channel_last " + good, 2, "did you mean channels_last?"},
		{"run --dim N=8 --dim N=9 " + good, 2, "--dim gives N twice: 8 and 9"},
		{"infer --dim n=8 " + good, 2, `no symbolic dimension "n"; did you mean N?`},
		{"infer --dim Batch=8 " + good, 2, `no symbolic dimension "Batch"; it has N`},
		{"infer --dim M=8 " + bad, 2, "all its sizes are numbers"},
		{"run --threads -1 " + good, 2, "--threads"},
		{"run --dim N " + good, 2, "as in N=8"},
		{"run --dim N=65 " + good, 2, "outside its bounds"},
		{"run --dim M=1 " + good, 2, `no symbolic dimension "M"`},
		{"run --input q=x.npy " + good, 2, `no input "q"`},
		{"run --input x " + good, 2, "NAME=FILE.npy"},
		{"run --inputs missing.npz " + good, 2, "no such file"},
		{"run --outputs out.txt " + good, 2, ".npz"},
		{"run --outputs /nonexistent/out.npz " + good, 2, "the folder /nonexistent does not exist"},
		{"run --input x=a.npy --input x=b.npy " + good, 2, "--input gives x twice"},
		{"run --input xx=a.npy " + good, 2, `no input "xx"; did you mean x?`},
		{"bench --inputs missing.npz " + good, 2, "missing.npz: there is no such file"},
		{"compare --input x=missing.npy " + good, 2, "missing.npy: there is no such file"},
		{"compare --report /nonexistent/out.html " + good, 2, "the folder /nonexistent does not exist"},
		{"view -o /nonexistent/out.dot " + good, 2, "the folder /nonexistent does not exist"},
		{"bench --runs 0 " + good, 2, "at least 1"},
		{"compare --strategies propagate,propagate " + good, 2, "twice"},
		{"convert " + good, 2, "got 1 argument\nUsage: graphrun convert IN OUT"},
		{"convert " + good + " x.safetensors", 2, "OUT.json"},
		{"convert " + good + " x.onnx", 2, "convert cannot write ONNX models"},
		{"convert " + good + " x", 2, "such as OUT.json"},
		{"convert --dim N=2 " + good + " x.json", 2, ".onnx models only"},
		{"convert " + bad + " x.json", 2, sizeMismatch},
		{"convert " + missing + " x.json", 2, "no such file"},
		{"convert " + good + " /nonexistent/x.json", 2, "the folder /nonexistent does not exist"},
		{"schema", 0, ""},
		{"schema infer", 0, ""},
		{"schema plam", 2, "did you mean plan?"},
		{"schema plan run", 2, "one command at most"},
		{"view " + good, 2, "-o OUT.svg, OUT.html or OUT.dot"},
		{"view -o x.png " + good, 2, "-o x.png: the extension of the file must be .svg, .html or .dot"},
		{"view -o x.svg --as-written --exact " + good, 2, "concerns plans, but --as-written"},
		{"view -o x.svg --as-written --costs x.json " + good, 2, "concerns plans, but --as-written"},
		{"view -o x.svg --strategy fast " + good, 2, "fast"},
		{"view -o x.svg --pin nothing=contiguous " + good, 2, "nothing"},
		{"ops nosuch_operation", 2, "there is no op"},
		{"ops ad", 2, "did you mean add?"},
		{"version", 0, ""},
		{"version x", 2, "no arguments"},
	} {
		r := call(t, strings.Fields(c.args)...)
		if r.code != c.code || !strings.Contains(r.errors, c.says) || c.code == 0 && r.complaints() != "" {
			t.Errorf("graphrun %s: exit %d, want %d, and %q in\n%s", c.args, r.code, c.code, c.says, r.errors)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := callIn(t, ctx, extend(t), "run", write(t, "g.json", small))
	if r.code != 130 || r.errors != "graphrun: interrupted\n" {
		t.Errorf("exit %d, stderr %q", r.code, r.errors)
	}
}

func TestErrorPlaces(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"refused", broken, `:9:5: node "sum" (add): ` + sizeMismatch},
		{"syntax", "{\n \"version\": 1,\n \"inputs\": [}\n", ":3:"},
		{"unknown key", strings.Replace(small, `"name": "small"`, `"nmae": "small"`, 1), `:3:3: unknown key "nmae"`},
		{"unknown op", strings.Replace(small, `"mul"`, `"mull"`, 1), `node "j" (mull): there is no op "mull"`},
		{"unknown value", strings.Replace(small, `["i", 2]`, `["k", 2]`, 1), `:13:43: node "j" (mul): there is no value "k"`},
		{"cycle", strings.Replace(small, `["x", "b"]`, `["p", "b"]`, 1), "y -> p -> y"},
		{"attribute", strings.Replace(small, `"dims"`, `"dim"`, 1), `:12:63: node "p" (permute): unknown attribute "dim"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, "g.json", c.text)
			for _, extra := range [][]string{nil, {"--json"}} {
				r := call(t, append([]string{"infer", path}, extra...)...)
				if r.code != exit.CodeUsage || !strings.HasPrefix(r.errors, path+":") || !strings.Contains(r.errors, c.want) {
					t.Errorf("exit %d, want %q in\n%s", r.code, c.want, r.errors)
				}
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, cmd := range newRoot(extend(t)).Commands() {
		name := cmd.Name()
		out := succeed(t, name, "--help")
		if name != "version" && !strings.Contains(out, "Examples:") {
			t.Errorf("graphrun %s --help has no example", name)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := succeed(t, "completion", shell); !strings.Contains(out, "graphrun") {
			t.Errorf("no completion for %s", shell)
		}
	}
	for args, want := range map[string]string{
		"run --strategy chan": "channels_last",
		"run x":               "json",
		"ops conv2":           "conv2d",
		"ops add conv2":       "conv2d",
		"ops --kind v":        "view",
		"ops --dtype bfl":     "bfloat16",
		"--color a":           "always",
		"bench --inputs x":    "npz",
		"pl":                  "plan",
		"schema be":           "bench",
	} {
		out := call(t, append([]string{"__complete"}, strings.Fields(args)...)...).out
		if !strings.Contains(out, want) {
			t.Errorf("completing %q: no %q in\n%s", args, want, out)
		}
	}
}

func TestVersion(t *testing.T) {
	out := succeed(t, "version")
	if !strings.HasPrefix(out, "graphrun ") || strings.Count(out, "\n") != 2 ||
		!strings.Contains(out, "\n"+environment.Code()+"\n") ||
		!strings.Contains(out, runtime.Version()) ||
		!strings.Contains(out, "revision") {
		t.Errorf("got %q", out)
	}
	if flag := succeed(t, "--version"); flag != out {
		t.Errorf("--version prints %q, version %q", flag, out)
	}
}

func TestOps(t *testing.T) {
	list := succeed(t, "ops")
	for _, want := range []string{"\nadd ", "follows", "(self, other, alpha=1)"} {
		if !strings.Contains(list, want) {
			t.Errorf("no %q in\n%s", want, list)
		}
	}
	page := succeed(t, "ops", "add")
	for _, want := range []string{"add(self, other, alpha=1)\n", "Layout: follows", "tensor or number", "alpha",
		"default 1"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}
