package command

import (
	"fmt"
	"maps"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/report"
)

// PrintNotes prints the assumed sizes and the warnings of a graph. Warnings without a place in the file are prefixed by
// source, the path of the file.
func PrintNotes(cmd *cobra.Command, source string, g *graph.Graph) {
	assumed := g.Assumed()
	for _, name := range sorted.Keys(assumed) {
		spelled := name
		if b, ok := g.Symbols[name]; ok && b.NameInFile != "" {
			spelled = b.NameInFile
		}
		term.PrintNote(cmd, "%q is not given: %d is assumed; say --dim %s", spelled, assumed[name], dimExample(spelled))
	}
	PrintWarnings(cmd, source, g)
}

// PrintWarnings prints the warnings of a graph. source is as for [PrintNotes].
func PrintWarnings(cmd *cobra.Command, source string, g *graph.Graph) {
	for _, e := range g.Warnings() {
		marked := *e
		marked.Err = fmt.Errorf("warning: %w", e.Err)
		term.PrintError(cmd, program.WithFile(source, &marked))
	}
}

// dimExample returns a value of --dim for a symbol, in quotes if a shell needs them.
func dimExample(symbol string) string {
	for _, r := range symbol {
		if r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return fmt.Sprintf("'%s=SIZE'", symbol)
		}
	}
	return symbol + "=SIZE"
}

// AddNotes adds warnings and assumed sizes to sum.
func AddNotes(sum *report.Notes, added report.Notes) {
	sum.Warnings = append(sum.Warnings, added.Warnings...)
	if sum.Assumed == nil && len(added.Assumed) > 0 {
		sum.Assumed = map[string]int{}
	}
	maps.Copy(sum.Assumed, added.Assumed)
}
