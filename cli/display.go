package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8/cwriter"
)

// display is what the place that is printed to can show.
type display struct {
	width int  // columns; 0: as many as there are to print
	color bool // understands colours
}

// proseWidth is how wide running text is printed: lines that are longer are hard to read.
func (d display) proseWidth() int {
	const most = 88
	if d.width > 0 {
		return min(most, d.width)
	}
	return most
}

// displayOf asks about w. Only a terminal has a width: what goes into a pipe or a file is
// whole. COLUMNS overrides what a terminal says of itself.
func displayOf(cmd *cobra.Command, w io.Writer) display {
	d := display{color: colored(colorMode(cmd), w)}
	if !isTerminal(w) {
		return d
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		d.width = n
	} else if n, _, err := cwriter.GetSize(int(w.(*os.File).Fd())); err == nil && n > 0 {
		d.width = n
	}
	return d
}

// shown is the display that results go to.
func shown(cmd *cobra.Command) display { return displayOf(cmd, cmd.OutOrStdout()) }

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && cwriter.IsTerminal(int(f.Fd()))
}

// The values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

func colorFlag(root *cobra.Command) {
	root.PersistentFlags().String("color", colorAuto,
		"use colours `WHEN`: auto (on terminals), always, never; with NO_COLOR set there are none")
	completeFrom(root, "color", []string{colorAuto, colorAlways, colorNever})
}

// colorMode is the value of --color, as far as the command line could be read.
func colorMode(cmd *cobra.Command) string {
	if f := cmd.Root().PersistentFlags().Lookup("color"); f != nil {
		return f.Value.String()
	}
	return colorAuto
}

func checkColor(cmd *cobra.Command) error {
	switch mode := colorMode(cmd); mode {
	case colorAuto, colorAlways, colorNever:
		return nil
	default:
		return wrongf("--color %s: want auto, always or never", mode)
	}
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
	return os.Getenv("TERM") != "dumb" && isTerminal(w)
}

// style is a way to print, as the number of ECMA-48's SGR sequence.
type style string

const (
	strong  style = "1"    // headings
	alarm   style = "1;31" // errors
	caution style = "1;33" // notes
)

// paint prints s in a style, where the display has any.
func (d display) paint(how style, s string) string {
	if !d.color || s == "" {
		return s
	}
	return "\x1b[" + string(how) + "m" + s + "\x1b[0m"
}

// note prints a remark beside the results.
func note(cmd *cobra.Command, format string, args ...any) {
	w := cmd.ErrOrStderr()
	text := printable(fmt.Sprintf(format, args...))
	fmt.Fprintf(w, "graphrun: %s %s\n", displayOf(cmd, w).paint(caution, "note:"), text)
}
