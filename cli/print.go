package cli

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"

	"github.com/graphrun/graphrun/internal/machine"
)

// ints prints sizes or strides in one word: [2,3]. Words keep columns apart for awk.
func ints(v []int) string {
	return strings.ReplaceAll(fmt.Sprint(v), " ", ",")
}

// printable writes control characters out: names come from files, and must neither break a
// table nor speak to the terminal.
func printable(s string) string {
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

// count prints a number of things: "1 step", "2 steps".
func count(n int, thing string) string { return countIrregular(n, thing, thing+"s") }

func countIrregular(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// byteSize prints a number of bytes in the largest binary unit that leaves it over 1.
func byteSize(n int) string { return machine.Bytes(n) }

// nanoseconds prints a time in the unit that suits it: "812.3µs".
func nanoseconds(ns float64) string {
	x, unit := ns, 0
	for ; x >= 1000 && unit < 3; unit++ {
		x /= 1000
	}
	return fmt.Sprintf("%.4g%s", x, [...]string{"ns", "µs", "ms", "s"}[unit])
}

// wrapped breaks the lines of a text at blanks, at most width columns wide where words allow.
func wrapped(text string, width int) string {
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
