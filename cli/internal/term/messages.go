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

// PrintError prints an error to stderr. A message that starts with a place FILE:LINE:COL is printed as it is, so that
// editors recognize the place. Other messages are printed after the name of the program.
func PrintError(cmd *cobra.Command, err error) {
	w := cmd.ErrOrStderr()
	display := DisplayOf(cmd, w)
	text := strings.TrimSuffix(exit.Message(err), "\n")
	var located *graph.Error
	if !errors.As(err, &located) || located.File == "" || placeLength(text, format.Printable(located.File)) == 0 {
		fmt.Fprintln(w, display.Paint(errorStyle, "graphrun:")+" "+text)
		return
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := placeLength(line, format.Printable(located.File)); n > 0 {
			line = display.Paint(errorStyle, line[:n]) + line[n:]
		}
		fmt.Fprintln(w, line)
	}
}

// placeLength returns the length of the place FILE:LINE:COL: at the start of a line; 0 for none.
func placeLength(line, file string) int {
	afterFile, ok := strings.CutPrefix(line, file+":")
	if !ok {
		return 0
	}
	afterFile = strings.TrimLeft(afterFile, "0123456789:")
	return len(line) - len(afterFile)
}

// PrintNote prints a remark on stderr.
func PrintNote(cmd *cobra.Command, message string, args ...any) {
	w := cmd.ErrOrStderr()
	text := format.Printable(fmt.Sprintf(message, args...))
	fmt.Fprintf(w, "graphrun: %s %s\n", DisplayOf(cmd, w).Paint(noteStyle, "note:"), text)
}
