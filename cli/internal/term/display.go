// Package term prints tables, messages and colors in a form that suits the terminal or file.
package term

import (
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8/cwriter"
)

// Display is what the place that is printed to can show.
type Display struct {
	width int  // columns; 0: as many as there are to print
	color bool // understands colours
}

// ProseWidth is how wide running text is printed: lines that are longer are hard to read.
func (d Display) ProseWidth() int {
	const most = 88
	if d.width > 0 {
		return min(most, d.width)
	}
	return most
}

// displayOf asks about w. Only a terminal has a width: what goes into a pipe or a file is
// whole. COLUMNS overrides what a terminal says of itself.
func displayOf(cmd *cobra.Command, w io.Writer) Display {
	d := Display{color: colored(ColorMode(cmd), w)}
	if !IsTerminal(w) {
		return d
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		d.width = n
	} else if n, _, err := cwriter.GetSize(int(w.(*os.File).Fd())); err == nil && n > 0 {
		d.width = n
	}
	return d
}

// Output is the display that results go to.
func Output(cmd *cobra.Command) Display { return displayOf(cmd, cmd.OutOrStdout()) }

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && cwriter.IsTerminal(int(f.Fd()))
}

// The values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

// ColorModes lists the values of --color.
var ColorModes = []string{colorAuto, colorAlways, colorNever}

// ColorMode is the value of --color, as far as the command line could be read.
func ColorMode(cmd *cobra.Command) string {
	if f := cmd.Root().PersistentFlags().Lookup("color"); f != nil {
		return f.Value.String()
	}
	return colorAuto
}

// colored decides about colours. With NO_COLOR (https://no-color.org: not empty) there are none,
// whatever the command line says.
func colored(mode string, w io.Writer) bool {
	switch {
	case os.Getenv("NO_COLOR") != "" || mode == colorNever:
		return false
	case mode == colorAlways:
		return true
	}
	return os.Getenv("TERM") != "dumb" && IsTerminal(w)
}

// style is a way to print, as the number of ECMA-48's SGR sequence.
type style string

const (
	Strong  style = "1"    // headings
	alarm   style = "1;31" // errors
	caution style = "1;33" // notes
)

// Paint prints s in a style, where the display has any.
func (d Display) Paint(how style, s string) string {
	if !d.color || s == "" {
		return s
	}
	return "\x1b[" + string(how) + "m" + s + "\x1b[0m"
}
