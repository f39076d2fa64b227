package cli

import (
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/plan"
)

type sizesDoc struct {
	Version int `json:"version"`
	plan.SizesDocument
}

// TestPlansOfSizes checks the ranges of sizes with equal plans: they are adjacent, and each change is listed.
func TestPlansOfSizes(t *testing.T) {
	path := models + "/mlp.json"
	text := succeed(t, "plan", path, "--sweep", "N=1..64", "--json")
	valid(t, "sweep", text)
	doc := decode[sizesDoc](t, text)
	if doc.Symbol != "N" || doc.Strategy != "optimal" || !doc.Complete || doc.Plans < 7 || len(doc.Ranges) < 2 {
		t.Fatalf("%+v", doc)
	}
	next := 1
	for i, r := range doc.Ranges {
		if r.From != next || r.CostNS <= 0 || r.CostToNS < r.CostNS || (i > 0) != (len(r.Changes) > 0) {
			t.Errorf("%+v", r)
		}
		next = r.To + 1
	}
	if next != 65 {
		t.Errorf("the ranges end at %d", next-1)
	}
	out := succeed(t, "plan", path, "--sweep", "N=1..64")
	for _, want := range []string{"from N=1 to N=64 the plan of strategy optimal changes at N=", "\nat N=",
		"cost/N", "From N=", "implementation"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for args, want := range map[string]string{
		"--sweep N":                      "as in N=1..256",
		"--sweep N=4..1":                 "as in N=1..256",
		"--sweep N=1":                    "as in N=1..256",
		"--sweep M=1..4":                 `no symbolic dimension "M"`,
		"--sweep N=1023..1025":           "--sweep N=1023..1025: the bounds of N are 1..1024",
		"--sweep N=1..4 --code y":        "--sweep and --code exclude each other",
		"--sweep N=1..4 --dim N=4,8":     "--sweep: --dim accepts one size for a symbol",
		"--sweep N=1..4 --dim N=3":       "--sweep N=1..4 and --dim N=3 give sizes of the same symbol",
		"--sweep N=1..4 --strategy none": "unknown strategy",
	} {
		if r := call(t, append([]string{"plan", path}, strings.Fields(args)...)...); r.code != exit.CodeUsage ||
			!strings.Contains(r.errors, want) {
			t.Errorf("%s: exit %d, %q", args, r.code, r.errors)
		}
	}
}

// TestDiffOfSizes checks the comparison of two sizes of one graph.
func TestDiffOfSizes(t *testing.T) {
	path := models + "/mlp.json"
	text := succeed(t, "diff", path, "--dim", "N=1", "--dim", "N=64", "--json")
	valid(t, "diff", text)
	doc := decode[diffDoc](t, text)
	if len(doc.Sizes) != 2 || doc.Sizes[0]["N"] != 1 || doc.Sizes[1]["N"] != 64 || doc.Same || doc.DeltaNS <= 0 {
		t.Errorf("%+v", doc)
	}
	for _, s := range doc.Steps {
		if s.What == "layout" {
			t.Errorf("a difference in cost alone: %+v", s)
		}
	}
	if out := succeed(t, "diff", path, "--dim", "N=1", "--dim", "N=64"); !strings.Contains(out, "cost / N") ||
		!strings.HasPrefix(out, "N=1 costs ") {
		t.Error(out)
	}
	same := decode[diffDoc](t, succeed(t, "diff", path, "--dim", "N=64", "--dim", "N=64", "--json"))
	if !same.Same || same.DeltaNS != 0 {
		t.Errorf("%+v", same)
	}
	for args, want := range map[string]string{
		path + " --dim N=1 --dim N=2 --dim N=3":    "three sizes of N",
		path + " " + path + " --dim N=1 --dim N=2": "want one file, or one size",
		path + " --dim N=1 --dim N=x":              "want a symbol and its size",
		path + " --dim M=1 --dim M=2":              `no symbolic dimension "M"`,
	} {
		if r := call(t, append([]string{"diff"}, strings.Fields(args)...)...); r.code != exit.CodeUsage ||
			!strings.Contains(r.errors, want) {
			t.Errorf("%s: exit %d, %q", args, r.code, r.errors)
		}
	}
}

// fixedBatch is a graph for one row. NODE is the op of its last node.
const fixedBatch = `{
  "version": 1,
  "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 2, 3]}],
  "nodes": [
    {"name": "flat", "op": "reshape", "inputs": ["x"], "attrs": {"shape": [1, 6]}},
    {"name": "y", "op": NODE}
  ],
  "outputs": ["y"]
}`

// TestRowsOfFixedFile changes the number of rows of a file whose sizes are numbers, in every command with sizes.
func TestRowsOfFixedFile(t *testing.T) {
	path := write(t, "fixed.json", strings.Replace(fixedBatch, "NODE", `"relu", "inputs": ["flat"]`, 1))
	for _, args := range []string{"infer --dim N=4", "infer --dim x.0=4", "plan --dim N=4", "run --dim N=4",
		"bench --dim N=4 --runs 1", "plan --sweep N=1..8", "diff --dim N=1 --dim N=4", "diff --dim N=1,4",
		"explain y --dim N=4"} {
		words := strings.Fields(args)
		command := append([]string{words[0], path}, words[1:]...)
		if out := succeed(t, command...); strings.Contains(out, "[1,6]") {
			t.Errorf("%s: %s", args, out)
		}
	}
	if out := succeed(t, "run", path, "--dim", "N=4"); !strings.Contains(out, "[4,6]") {
		t.Error(out)
	}
	text := succeed(t, "compare", path, "--dim", "N=1,4", "--runs", "1", "--strategies", "propagate", "--json")
	if !strings.Contains(text, `"dims": {"N": 4}`) {
		t.Error(text)
	}
	depends := write(t, "depends.json", strings.Replace(fixedBatch, "NODE",
		`"softmax", "inputs": ["flat"], "attrs": {"dim": 0}`, 1))
	for args, want := range map[string]string{
		"infer " + depends + " --dim N=4": `depends.json:6:5: node "y" (softmax): N=4: the rows are not independent`,
		"infer " + path + " --dim x.7=4":  `no symbolic dimension "x.7"`,
		"infer " + path + " --dim M=4":    "all its sizes are numbers; to set the number of rows, use --dim N=4",
		"plan " + path + " --dim N=0": "N=0: the number of rows must be at least 1 (the file has no symbol N, so N " +
			"sets a number of rows)",
		"plan " + path + " --dim N=1,64":   "several sizes require a symbolic dimension, but all sizes in the file are ",
		"plan " + path + " --sweep M=1..4": `--sweep M=1..4: ` + path + ` has no symbolic dimension "M"`,
		"diff " + path + " --dim N=1,4,8":  "--dim gives three sizes of N",
	} {
		if r := call(t, strings.Fields(args)...); r.code != exit.CodeUsage || !strings.Contains(r.errors, want) {
			t.Errorf("%s: exit %d, %q", args, r.code, r.errors)
		}
	}
}
