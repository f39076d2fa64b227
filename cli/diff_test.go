package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/report"
)

type diffDoc struct {
	toldDoc
	Version int              `json:"version"`
	Files   []string         `json:"files"`
	Sizes   []map[string]int `json:"sizes"`
	experiment.Difference
}

func TestDiff(t *testing.T) {
	path := models + "/residual.json"
	text := succeed(t, "diff", path, "--json", "--no-fusion", "--pin", "conv1=contiguous")
	valid(t, "diff", text)
	doc := decode[diffDoc](t, text)
	if doc.Same || doc.First.Strategy != "optimal" || doc.Second.Strategy != "optimal" || doc.DeltaNS <= 0 ||
		!slices.Equal(doc.Files, []string{"residual.json", "residual.json"}) {
		t.Errorf("%+v", doc)
	}
	i := slices.IndexFunc(doc.OnlySecond, func(c report.Copy) bool {
		return c.Value == "conv1.unpinned" && strings.Contains(c.Why, "; `conv1` is pinned to (N,C,H,W); ")
	})
	if i < 0 || len(doc.OnlyFirst) != 0 || len(doc.Steps) != 2 || doc.Steps[0].What != "copy" {
		t.Errorf("copies %+v, steps %+v", doc.OnlySecond, doc.Steps)
	}
	out := succeed(t, "diff", path, "--no-fusion", "--pin", "conv1=contiguous")
	for _, want := range []string{"optimal pinned", "Values with different layouts\n", "channels-last", "row-major",
		"Copies that only optimal pinned makes\n",
		"; `conv1` is pinned to (N,C,H,W); ", "Steps that differ\n", "estimated cost"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestSizeZero does not divide a cost by size 0.
func TestSizeZero(t *testing.T) {
	path := write(t, "empty.json", `{"version": 1, "symbols": {"N": {"min": 0, "max": 9}},
 "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 8]}],
 "nodes": [{"name": "y", "op": "relu", "inputs": ["x"]}], "outputs": ["y"]}`)
	out := succeed(t, "diff", path, "--dim", "N=0,4")
	assert.Regexp(t, `\ncost / N +- +\S+s *\n`, out)
	assert.NotContains(t, out, "cost/N")
	assert.Regexp(t, `\n0 to 4 .* - to \S+s `, succeed(t, "plan", path, "--sweep", "N=0..4"))
}

// TestDiffSummary wants the differences in the first sentence.
func TestDiffSummary(t *testing.T) {
	path := models + "/residual.json"
	for args, want := range map[string]string{
		"--strategies propagate,optimal": `^optimal costs \S+s \(\d+\.\d%\) less than propagate: 1 value has another ` +
			`layout, 0 steps have other implementations, 1 step differs in its cost alone, 1 copy fewer\n\ntotal `,
		"--strategies optimal,propagate":     `^propagate costs \S+s \(\d+\.\d%\) more than optimal: `,
		"--no-fusion --pin conv1=contiguous": `^optimal pinned costs \S+s \(\d+\.\d%\) more than optimal: .* 1 copy more\n`,
		"--slack 50%":                        `^.*optimal.*\n\ntotal +optimal +optimal --slack 50% `,
		"--dim N=1 --dim N=16": `^N=1 costs \S+s, and N=16 costs \S+s: \d+\.\d+ times as much; cost/N is \S+s instead of \S+s: ` +
			`[-+]\S+s \([-+]\d+\.\d%\) N=16 costs \S+s \(\d+\.\d%\) more than N=1: 0 values have other layouts, 2 steps have ` +
			`other implementations, 0 copies more\n`,
	} {
		out := succeed(t, append([]string{"diff", path}, strings.Fields(args)...)...)
		first, rest, _ := strings.Cut(out, "\n\n")
		if got := strings.ReplaceAll(first, "\n", " ") + "\n\n" + rest; !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s: got\n%s", args, got)
		}
	}
}

// TestDiffWays checks the two plans that are compared: two strategies, two files, pins, or the defaults.
func TestDiffWays(t *testing.T) {
	a, b := write(t, "a.json", small), write(t, "b.json", strings.ReplaceAll(small, `"relu"`, `"sigmoid"`))
	for _, c := range []struct {
		args          string
		first, second string
	}{
		{a, "optimal", "channels_last"},
		{a + " --strategies contiguous,propagate", "contiguous", "propagate"},
		{a + " --strategies contiguous --pin y=contiguous", "contiguous", "contiguous"},
		{a + " " + b, "optimal", "optimal"},
		{a + " " + b + " --strategies contiguous", "contiguous", "contiguous"},
		{a + " " + b + " --strategies contiguous,channels_last", "contiguous", "channels_last"},
	} {
		doc := decode[diffDoc](t, succeed(t, append([]string{"diff", "--json"}, strings.Fields(c.args)...)...))
		if doc.First.Strategy != c.first || doc.Second.Strategy != c.second {
			t.Errorf("%s: %s and %s", c.args, doc.First.Strategy, doc.Second.Strategy)
		}
	}
	if out := succeed(t, "diff", a, a); !strings.HasPrefix(out, "the plans are the same: ") {
		t.Errorf("got\n%s", out)
	}
	renamed := write(t, "c.json", strings.NewReplacer(`"y"`, `"other"`).Replace(small))
	if doc := decode[diffDoc](t, succeed(t, "diff", a, renamed, "--json")); !doc.Same {
		t.Errorf("another name is told as a difference: %+v", doc)
	}
	for args, want := range map[string]string{
		"":                               "diff wants one graph file or two, got 0 arguments",
		a + " --strategies contiguous":   "want a second strategy, a second file, --pin, --slack or a second size",
		a + " --strategies propagate,no": `unknown strategy "no"`,
		a + " --strategies propagate,contiguous,channels_last": "want two at most",
		a + " --pin q=contiguous":                              "--pin q=contiguous",
		a + " none.json":                                       "there is no such file",
	} {
		if r := call(t, append([]string{"diff"}, strings.Fields(args)...)...); r.code != exit.CodeUsage ||
			!strings.Contains(r.errors, want) {
			t.Errorf("%s: exit %d, %q", args, r.code, r.errors)
		}
	}
	if r := call(t, "diff", write(t, "d.json", dynamic)); r.code != exit.CodeFailed ||
		!strings.Contains(r.errors, "shapes depend on data") {
		t.Errorf("exit %d, %q", r.code, r.errors)
	}
}
