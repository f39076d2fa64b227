package passes_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
)

var update = flag.Bool("update", false, "write the graphs after each pass into testdata")

// TestTexts tests passes by text. A file testdata/PASS.txt has cases of this form:
//
//	-- a permute that permutes nothing --
//	x: float32[2, 3] = input
//	p: = permute(x, dims=[0, 1])
//	output p
//	-- want --
//	x: float32[2, 3] = input
//	output p = x
//	# p: it views all of x as it is
//
// The graph before the pass is a text that graph.Parse reads; the graph after it is followed by what the pass recorded:
// removed and replaced nodes with the reasons. A pass that needs no layouts runs alone after infer, other passes run
// after all passes before them, under the strategy that the name of the case begins with (greedy: ...), or propagate.
// With -update, go test writes what follows "want".
func TestTexts(t *testing.T) {
	for _, pass := range passes.Passes() {
		t.Run(pass.Name, func(t *testing.T) {
			path := filepath.Join("testdata", pass.Name+".txt")
			data, err := os.ReadFile(path)
			require.NoError(t, err, "each pass has a file")
			sections := strings.Split("\n"+string(data), "\n-- ")
			require.Empty(t, strings.TrimSpace(sections[0]), "a file begins with a case")
			require.Positive(t, len(sections)-1)
			require.Zero(t, (len(sections)-1)%2, "each case has a want")
			var after strings.Builder
			for i := 1; i < len(sections); i += 2 {
				name, before, found := strings.Cut(sections[i], " --\n")
				require.True(t, found, sections[i])
				want, isWant := strings.CutPrefix(sections[i+1], "want --")
				require.True(t, isWant, "%s: a case has a want", name)
				t.Run(name, func(t *testing.T) {
					have := textAfter(t, pass, name, before)
					fmt.Fprintf(&after, "-- %s --\n%s\n-- want --\n%s\n", name, strings.Trim(before, "\n"), have)
					if !*update {
						require.Equal(t, strings.TrimSpace(want), have)
					}
				})
			}
			if *update && !t.Failed() {
				require.NoError(t, os.WriteFile(path, []byte(after.String()), 0o600))
			}
		})
	}
}

// formOf matches the form of a packed constant, which depends on the processor.
var formOf = regexp.MustCompile(`in the form "[^"]*"`)

// textAfter returns the text of a graph after a pass, and the records of the pass as comments.
func textAfter(t *testing.T, pass passes.Pass, name, text string) string {
	g, err := graph.Parse(text, kernels.Lookup)
	require.NoError(t, err)
	strategy := layout.Propagate
	if named, _, found := strings.Cut(name, ": "); found {
		strategy, err = layout.Named(named)
		require.NoError(t, err)
	}
	var after strings.Builder
	elided, decomposed := 0, 0
	count := passes.Pass{Name: "count", Run: func(p *passes.Plan) error {
		elided, decomposed = len(p.Elided), len(p.Decomposed)
		return nil
	}}
	probe := passes.Pass{Name: "probe", Run: func(p *passes.Plan) error {
		err := p.Graph.WriteText(&after, "")
		for _, e := range p.Elided[elided:] {
			fmt.Fprintf(&after, "# %s: %s\n", e.Node, e.Why)
		}
		for _, d := range p.Decomposed[decomposed:] {
			fmt.Fprintf(&after, "# %s became %s: %s\n", d.Node, strings.Join(d.Into, ", "), cmp.Or(d.Why, "it consists of other ops"))
		}
		if summary := p.Passes[len(p.Passes)-2].Did; summary != "" {
			fmt.Fprintf(&after, "# %s\n", summary)
		}
		return err
	}}
	all := passes.Passes()
	at := slices.IndexFunc(all, func(p passes.Pass) bool { return p.Name == pass.Name })
	first := slices.IndexFunc(all, func(p passes.Pass) bool { return p.Name == "layout" })
	list := slices.Concat(all[:at], []passes.Pass{count, pass, probe}, all[at+1:])
	if at < first {
		list = []passes.Pass{count, pass, probe, all[first]}
		if at > 0 {
			list = slices.Insert(list, 0, all[0])
		}
	}
	_, err = passes.Run(g, passes.Options{Strategy: strategy, Check: true, Passes: list})
	require.NoError(t, err)
	return strings.TrimSpace(formOf.ReplaceAllString(after.String(), "in a form of the processor"))
}
