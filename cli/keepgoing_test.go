package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/run"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// troubled has a node for every stage at which one may fail, and outputs that are fine.
const troubled = `{"version": 1,
 "inputs": [{"name": "x", "dtype": "float32", "shape": [4]}, {"name": "i", "dtype": "int64", "shape": [2]}],
 "constants": [{"name": "k", "dtype": "float32", "shape": [2], "file": "nowhere.npy"}],
 "nodes": [{"name": "fine", "op": "neg", "inputs": ["x"]},
  {"name": "load", "op": "add", "inputs": ["x", "k"]},
  {"name": "unknown", "op": "nosuch", "inputs": ["x"]},
  {"name": "infer", "op": "add", "inputs": ["x", "i"]},
  {"name": "memory", "op": "repeat", "inputs": ["x"], "attrs": {"repeats": [1000000000000]}},
  {"name": "run", "op": "gather", "inputs": ["x", "i"], "attrs": {"dim": 0}},
  {"name": "after", "op": "relu", "inputs": ["run"]},
  {"name": "more", "op": "relu", "inputs": ["after"]},
  {"name": "tied", "op": "add", "inputs": ["fine", 1]}%s],
 "outputs": ["fine", "load", "unknown", "infer", "memory", "after", "more", "tied"%s]}`

// runOmissions is the document of run --json.
type runOmissions struct {
	Version int             `json:"version"`
	Outputs []run.OutputDoc `json:"outputs"`
	Errors  []struct {
		Node, Op, Message, File string
		Line, Col               int
	} `json:"errors"`
	LeftOut []run.LeftOutDoc `json:"left_out"`
	Assumed map[string]int   `json:"assumed"`
}

func TestKeepGoingPastEveryStage(t *testing.T) {
	index, err := tensor.FromSlice([]int64{1, 9}, 2)
	if err != nil {
		t.Fatal(err)
	}
	in := saved(t, map[string]*tensor.Tensor{"x": counted(tensor.Float32, 4), "i": index})
	for name, c := range map[string]struct {
		nodes, outputs string
		made           []string
	}{
		"static":    {"", "", []string{"fine", "tied"}},
		"piecewise": {`, {"name": "places", "op": "nonzero", "inputs": ["fine"]}, {"name": "moved", "op": "add", "inputs": ["places", 1]}`, `, "moved"`, []string{"fine", "tied", "moved"}},
	} {
		text := strings.Replace(strings.Replace(troubled, "%s", c.nodes, 1), "%s", c.outputs, 1)
		path := write(t, "g.json", text)
		for _, threads := range []string{"1", "3"} {
			out := filepath.Join(t.TempDir(), "out.npz")
			r := call(t, "run", path, "--inputs", in, "--keep-going", "--outputs", out, "--json", "--threads", threads)
			got, err := npz.ReadFile(out)
			if r.code != exit.CodeFailed || err != nil || len(got) != len(c.made) {
				t.Errorf("%s: exit %d, %d arrays, %v\n%s", name, r.code, len(got), err, r.errors)
			}
			for _, o := range c.made {
				if got[o] == nil {
					t.Errorf("%s: %s is missing", name, o)
				}
			}
			doc := decode[runOmissions](t, r.out)
			why := map[string]string{}
			for _, e := range doc.Errors {
				if e.Line == 0 || e.Message == "" {
					t.Errorf("%s: %+v", name, e)
				}
				why[e.Node] = e.Message
			}
			for node, want := range map[string]string{"": "nowhere.npy", "load": `depends on constant "k"`,
				"unknown": `there is no op "nosuch"`,
				"infer":   "The size of tensor a", "memory": "of memory are needed", "run": "index 9 is out of bounds"} {
				if !strings.Contains(why[node], want) || !strings.Contains(r.errors, want) {
					t.Errorf("%s: node %q: %q, want %q\n%s", name, node, why[node], want, r.errors)
				}
			}
			if len(doc.Errors) != 6 || len(doc.LeftOut) != 6 || len(doc.Outputs) != len(c.made) {
				t.Errorf("%s: %+v", name, doc)
			}
			for _, o := range []string{"after", "more"} {
				if want := `graphrun: output "` + o + `" is left out: it depends on node "run"` +
					"\n"; !strings.Contains(r.errors, want) {
					t.Errorf("%s: no %q in\n%s", name, want, r.errors)
				}
			}
		}
		if r := call(t, "run", path, "--inputs", in); r.code != exit.CodeUsage || r.out != "" {
			t.Errorf("%s without --keep-going: exit %d, %s", name, r.code, r.out)
		}
	}
}

// Nodes fail by the hundred; each stage is gone through once.
func TestKeepGoingPastMany(t *testing.T) {
	var nodes, outputs []string
	for i := range 600 {
		name := "n" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26)
		op := []string{
			`"op": "gather", "inputs": ["x", "i"], "attrs": {"dim": 0}`,
			`"op": "add", "inputs": ["x", "i"]`,
			`"op": "neg", "inputs": ["x"]`}[i%3]
		nodes = append(nodes, `{"name": "`+name+`", `+op+`}`)
		outputs = append(outputs, `"`+name+`"`)
	}
	path := write(t, "g.json", `{"version": 1,
 "inputs": [{"name": "x", "dtype": "float32", "shape": [4]}, {"name": "i", "dtype": "int64", "shape": [2]}],
 "nodes": [`+strings.Join(nodes, ",\n")+`], "outputs": [`+strings.Join(outputs, ", ")+`]}`)
	index, err := tensor.FromSlice([]int64{1, -9}, 2)
	if err != nil {
		t.Fatal(err)
	}
	r := call(t, "run", path, "--inputs", saved(t, map[string]*tensor.Tensor{"x": counted(tensor.Float32, 4), "i": index}),
		"--keep-going")
	if r.code != exit.CodeFailed || strings.Count(r.out, "\n") != 200 || strings.Count(r.errors, "is left out") != 400 {
		t.Errorf("exit %d, %d outputs, %d left out", r.code, strings.Count(r.out, "\n"),
			strings.Count(r.errors, "is left out"))
	}
}

func TestKeepGoingWithNothingToLeaveOut(t *testing.T) {
	path := write(t, "g.json", small)
	if a, b := succeed(t, "run", path), succeed(t, "run", path, "--keep-going"); a != b {
		t.Errorf("got\n%s\nwant\n%s", b, a)
	}
	if err := os.WriteFile(path, []byte(small[:100]), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := call(t, "run", path, "--keep-going"); r.code != exit.CodeUsage {
		t.Errorf("a torn file: exit %d", r.code)
	}
}
