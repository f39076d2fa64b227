// Package term prints tables and messages that fit the terminal or file.
package term

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/graphrun/graphrun/cli/internal/format"
)

// Display describes the terminal or file that output goes to.
type Display struct {
	width int  // number of columns; 0 means unlimited
	color bool // whether to print colors
}

// ProseWidth returns the width for running text: the width of the display, but at most 88 columns.
func (d Display) ProseWidth() int {
	const maxProse = 88
	if d.width > 0 {
		return min(maxProse, d.width)
	}
	return maxProse
}

// WriteSentences prints the main results of a command as sentences, each on its own line, and then an empty line.
// Empty sentences are skipped.
func (d Display) WriteSentences(w io.Writer, sentences ...string) {
	for _, s := range sentences {
		if s != "" {
			fmt.Fprintln(w, format.Wrap(format.Printable(s), d.ProseWidth()))
		}
	}
	fmt.Fprintln(w)
}

// CutLine cuts the end of a line so that the cursor stays on the line.
func (d Display) CutLine(line string) string {
	if d.width > 0 {
		return CutEnd(line, d.width-1)
	}
	return line
}

// DisplayOf describes w, an output of cmd. Pipes and files have unlimited width. The environment variable COLUMNS
// overrides the width of a terminal.
func DisplayOf(cmd *cobra.Command, w io.Writer) Display {
	display := Display{color: colored(ColorMode(cmd), w)}
	if !IsTerminal(w) {
		return display
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		display.width = n
	} else if n, _, err := term.GetSize(int(Unescaped(w).(*os.File).Fd())); err == nil && n > 0 {
		display.width = n
	}
	return display
}

// StdoutDisplay describes the standard output of a command.
func StdoutDisplay(cmd *cobra.Command) Display { return DisplayOf(cmd, cmd.OutOrStdout()) }

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := Unescaped(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// The values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

// ColorModes lists the values of --color.
var ColorModes = []string{colorAuto, colorAlways, colorNever}

// ColorMode returns the value of --color, or its default if the command line is invalid.
func ColorMode(cmd *cobra.Command) string {
	if f := cmd.Root().PersistentFlags().Lookup("color"); f != nil {
		return f.Value.String()
	}
	return colorAuto
}

// colored reports whether to print colors. NO_COLOR (https://no-color.org) takes precedence over --color.
func colored(mode string, w io.Writer) bool {
	switch {
	case os.Getenv("NO_COLOR") != "" || mode == colorNever:
		return false
	case mode == colorAlways:
		return true
	}
	return os.Getenv("TERM") != "dumb" && IsTerminal(w)
}

// style is the parameter of an ECMA-48 SGR sequence (ESC [ style m), which sets colors and weight of text.
type style string

const (
	Strong     style = "1"    // headings
	errorStyle style = "1;31" // errors
	noteStyle  style = "1;33" // notes
)

// Paint returns text of one line in a style, if the display supports colors. The text must be printed to an [Output].
func (d Display) Paint(textStyle style, text string) string {
	text = format.Printable(text) // a heading may have names
	if !d.color || text == "" {
		return text
	}
	return string(styleMark) + string(textStyle) + "m" + text + string(styleMark) + "0m"
}
