package term

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/graph"
)

// PrintError prints an error. Those that start with a place in a file stand alone, so that
// editors find them; others are preceded by the program's name.
func PrintError(cmd *cobra.Command, err error) {
	w := cmd.ErrOrStderr()
	d := displayOf(cmd, w)
	text := strings.TrimSuffix(exit.Plain(err), "\n")
	var one *graph.Error
	if !errors.As(err, &one) || one.File == "" || placeLength(text, one.File) == 0 {
		fmt.Fprintln(w, d.Paint(alarm, "graphrun:")+" "+text)
		return
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := placeLength(line, one.File); n > 0 {
			line = d.Paint(alarm, line[:n]) + line[n:]
		}
		fmt.Fprintln(w, line)
	}
}

// placeLength is the length of the place FILE:LINE:COL: that a line starts with.
func placeLength(line, file string) int {
	rest, ok := strings.CutPrefix(line, file+":")
	if !ok {
		return 0
	}
	rest = strings.TrimLeft(rest, "0123456789:")
	return len(line) - len(rest)
}

// Note prints a remark beside the results.
func Note(cmd *cobra.Command, message string, args ...any) {
	w := cmd.ErrOrStderr()
	text := format.Printable(fmt.Sprintf(message, args...))
	fmt.Fprintf(w, "graphrun: %s %s\n", displayOf(cmd, w).Paint(caution, "note:"), text)
}
