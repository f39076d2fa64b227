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
	for _, want := range []string{"ranges of N with equal plans", "cost/N", "From N=", "implementation"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	doc = decode[sizesDoc](t, succeed(t, "plan", path, "--sweep", "N=1023..1025", "--json"))
	if last := doc.Ranges[len(doc.Ranges)-1]; last.From != 1025 || !strings.Contains(last.Rejected, "N") {
		t.Errorf("%+v", doc.Ranges)
	}
	for args, want := range map[string]string{
		"--sweep N":                      "as in N=1..256",
		"--sweep N=4..1":                 "as in N=1..256",
		"--sweep N=1":                    "as in N=1..256",
		"--sweep M=1..4":                 `no symbolic dimension "M"`,
		"--sweep N=1..4 --code y":        "--sweep and --code exclude each other",
		"--sweep N=1..4 --dim N=4,8":     "want one size for each other symbol",
		"--sweep N=1..4 --strategy none": "unknown strategy",
	} {
		if r := call(t, append([]string{"plan", path}, strings.Fields(args)...)...); r.code != exit.CodeWrong ||
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
	if out := succeed(t, "diff", path, "--dim", "N=1", "--dim", "N=64"); !strings.Contains(out, "cost for each N") ||
		!strings.Contains(out, "N=64") {
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
		if r := call(t, append([]string{"diff"}, strings.Fields(args)...)...); r.code != exit.CodeWrong ||
			!strings.Contains(r.errors, want) {
			t.Errorf("%s: exit %d, %q", args, r.code, r.errors)
		}
	}
}
