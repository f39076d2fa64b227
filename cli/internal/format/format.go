// Package format prints numbers, sizes and names for readers.
package format

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"

	"github.com/graphrun/graphrun/internal/machine"
)

// Ints prints sizes or strides in one word: [2,3]. Words keep columns apart for awk.
func Ints(v []int) string {
	return strings.ReplaceAll(fmt.Sprint(v), " ", ",")
}

// Printable writes control characters out: names come from files, and must neither break a
// table nor speak to the terminal.
func Printable(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Count prints a number of things: "1 step", "2 steps".
func Count(n int, thing string) string { return CountIrregular(n, thing, thing+"s") }

func CountIrregular(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Bytes prints a number of bytes in the largest binary unit that leaves it over 1.
func Bytes(n int) string { return machine.Bytes(n) }

// Nanoseconds prints a time in the unit that suits it: "812.3µs".
func Nanoseconds(ns float64) string {
	x, unit := ns, 0
	for ; x >= 1000 && unit < 3; unit++ {
		x /= 1000
	}
	return fmt.Sprintf("%.4g%s", x, [...]string{"ns", "µs", "ms", "s"}[unit])
}

// Wrap breaks the lines of a text at blanks, at most width columns wide where words allow.
func Wrap(text string, width int) string {
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		at := 0
		var b strings.Builder
		for _, word := range strings.Fields(line) {
			n := runewidth.StringWidth(word)
			switch {
			case at == 0:
			case at+1+n > width:
				b.WriteByte('\n')
				at = 0
			default:
				b.WriteByte(' ')
				at++
			}
			b.WriteString(word)
			at += n
		}
		lines = append(lines, b.String())
	}
	return strings.Join(lines, "\n")
}

// Difference is what the second number is more than the first, and in percent of it.
func Difference(x, y float64, format func(float64) string) string {
	switch {
	case x == y:
		return "0"
	case y < x:
		return fmt.Sprintf("-%s (%+.1f%%)", format(x-y), 100*(y/x-1))
	case x == 0:
		return "+" + format(y)
	}
	return fmt.Sprintf("+%s (%+.1f%%)", format(y-x), 100*(y/x-1))
}

// Sizes lists sizes by symbol.
func Sizes(sizes map[string]int) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		list = append(list, fmt.Sprintf("%s=%d", name, sizes[name]))
	}
	return strings.Join(list, ", ")
}

func Percent(x float64) string { return fmt.Sprintf("%.1f%%", 100*x) }

func Strings[T fmt.Stringer](list []T) []string {
	var out []string
	for _, x := range list {
		out = append(out, x.String())
	}
	return out
}
