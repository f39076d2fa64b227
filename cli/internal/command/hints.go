package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/printable"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
)

// maxHints is the maximum number of combinations of sizes (hints) in one command. A plan is made for each combination.
const maxHints = 16

// HintFlag adds --dim for commands that can plan a graph for several sizes.
func HintFlag(cmd *cobra.Command, dims *[]string) {
	cmd.Flags().StringArrayVar(dims, "dim", nil, "size of a symbolic dimension: `N=8` fixes it; N=1,64 "+
		"makes a plan for each size, and any other size uses the nearest plan (repeatable); "+NoSymbolsHelp)
}

// SplitHints separates the values of --dim. fixed are the values with one size. hints are the combinations of the sizes
// in the other values: N=1,64 and M=2,3 give four combinations.
func SplitHints(dims []string) (fixed []string, hints []map[string]int, err error) {
	var withSeveralSizes []string
	for _, dim := range dims {
		if strings.Contains(dim, ",") {
			withSeveralSizes = append(withSeveralSizes, dim)
		} else {
			fixed = append(fixed, dim)
		}
	}
	if withSeveralSizes == nil {
		return fixed, nil, nil
	}

	combinations, err := Combinations(withSeveralSizes)
	if err != nil {
		return nil, nil, err
	}
	if len(combinations) > maxHints {
		return nil, nil, exit.UsageErrorf("--dim gives %d combinations of sizes; the maximum is %d", len(combinations),
			maxHints)
	}
	for _, combination := range combinations {
		hint, err := ParseDims(combination)
		if err != nil {
			return nil, nil, err
		}
		hints = append(hints, hint)
	}

	// A symbol must not have a fixed size and other sizes.
	fixedSizes, err := ParseDims(fixed)
	if err != nil {
		return nil, nil, err
	}
	for name, n := range hints[0] { // all hints have the same symbols
		if other, exists := fixedSizes[name]; exists {
			return nil, nil, exit.UsageErrorf("--dim gives %s twice: %d and %d", name, other, n)
		}
	}
	return fixed, hints, nil
}

// NoteUnplanned prints the sizes of --dim for which planning failed, with the reasons.
func NoteUnplanned(cmd *cobra.Command, path string, compiled *graphrun.Program) {
	for _, refused := range compiled.Internal().RefusedHints() {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: there is no plan for %s: %s\n", printable.Text(path),
			program.SizesText(refused.Sizes), printable.Text(refused.Why))
	}
}

// BindHints binds each symbol with an assumed size to its size in the first hint. A size is assumed if none was given
// when the graph was loaded. Symbols that the hint lacks keep their assumed sizes. The caller must infer the graph
// again.
func BindHints(path string, g *graph.Graph, hints []map[string]int) error {
	if len(hints) == 0 {
		return nil
	}
	if len(g.Symbols) == 0 {
		return exit.UsageErrorf("%s: --dim: several sizes require a symbolic dimension, but all sizes in the file are "+
			"numbers. Give one number of rows (--dim N=64). The commands plan --sweep N=1..64, compare and diff accept "+
			"several numbers of rows", path)
	}
	if err := checkDims(path, hints[0], g.Symbols); err != nil {
		return err
	}
	first, err := g.SizesBySymbol(hints[0])
	if err != nil {
		return exit.UsageErrorf("%s: --dim: %w", path, err)
	}
	// The sizes to bind: a symbol with an assumed size gets its size in the hint. Other symbols keep their bound sizes.
	assumed, bound, sizes := g.Assumed(), g.BoundSizes(), map[string]int{}
	for name := range g.Symbols {
		size, isKnown := bound[name]
		if _, isAssumed := assumed[name]; isAssumed {
			size, isKnown = first[name]
		}
		if isKnown {
			sizes[name] = size
		}
	}
	if err := g.BindWithoutInference(sizes); err != nil {
		return exit.UsageErrorf("%s: --dim: %w", path, err)
	}
	for _, name := range sorted.Keys(assumed) { // assumed again, because binding fixes all sizes
		if _, isBound := sizes[name]; !isBound {
			g.Assume(name, assumed[name])
		}
	}
	return nil
}
