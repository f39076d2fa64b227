// Package format formats values for text output.
package format

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/printable"
)

// Ints formats sizes or strides without blanks, so that awk sees one column: [2,3].
func Ints(v []int) string {
	return strings.ReplaceAll(fmt.Sprint(v), " ", ",")
}

// Printable escapes what must not reach a terminal: see [printable.Text].
func Printable(text string) string { return printable.Text(text) }

// The functions with go:noinline have many callers, none of them hot. Inlining them would cost compile time.

// Count formats a number of things: "1 step", "2 steps".
//
//go:noinline
func Count(n int, thing string) string { return CountIrregular(n, thing, thing+"s") }

// CountIrregular is [Count] with an irregular plural: "1 copy", "2 copies".
//
//go:noinline
func CountIrregular(count int, one, many string) string {
	if count == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", count, many)
}

// Bytes formats a number of bytes in the largest binary unit that does not exceed it.
//
//go:noinline
func Bytes(n int) string { return machine.Bytes(n) }

// Nanoseconds formats a time: "812.3µs".
//
//go:noinline
func Nanoseconds(ns float64) string { return machine.Nanoseconds(ns) }

// maxDigits is the maximum number of significant digits by which numbers are distinguished: finer differences are
// rounding errors.
const maxDigits = 10

// DistinctNanoseconds formats times with at least 4 significant digits, and more if different times would look equal.
func DistinctNanoseconds(times []float64) []string {
	for digits := 4; ; digits++ {
		texts, distinct := make([]string, len(times)), true
		timeOf := map[string]float64{} // a time with the text
		for i, ns := range times {
			texts[i] = machine.NanosecondsTo(ns, digits)
			if other, ok := timeOf[texts[i]]; ok && other != ns {
				distinct = false
			}
			timeOf[texts[i]] = ns
		}
		if distinct || digits == maxDigits {
			return texts
		}
	}
}

// DistinctPair formats x and other with at least 4 significant digits, and more if different numbers would look equal.
func DistinctPair(x, other float64) (string, string) {
	for digits := 4; ; digits++ {
		a, b := strconv.FormatFloat(x, 'g', digits, 64), strconv.FormatFloat(other, 'g', digits, 64)
		if a != b || x == other || digits == maxDigits {
			return a, b
		}
	}
}

// Wrap breaks the lines of a text at blanks. A line has at most width columns unless a word is wider.
func Wrap(text string, width int) string {
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		column := 0
		var out strings.Builder
		for _, word := range strings.Fields(line) {
			wordWidth := runewidth.StringWidth(word)
			switch {
			case column == 0: // the first word of a line
			case column+1+wordWidth > width:
				out.WriteByte('\n')
				column = 0
			default:
				out.WriteByte(' ')
				column++
			}
			out.WriteString(word)
			column += wordWidth
		}
		lines = append(lines, out.String())
	}
	return strings.Join(lines, "\n")
}

// Difference formats y minus x, and the difference as a percentage of x.
func Difference(x, y float64, format func(float64) string) string {
	switch {
	case x == y:
		return "0"
	case y < x:
		return fmt.Sprintf("-%s (%+.1f%%)", format(x-y), 100*(y/x-1))
	case x == 0: // there is no percentage of 0
		return "+" + format(y)
	}
	return fmt.Sprintf("+%s (%+.1f%%)", format(y-x), 100*(y/x-1))
}

// Decimal formats a number for programs, without an exponent. It returns "" for nil.
func Decimal(number *float64) string {
	if number == nil {
		return ""
	}
	return strconv.FormatFloat(*number, 'f', -1, 64)
}

// PerSize formats a cost in nanoseconds divided by a size. For size 0 it returns "-".
func PerSize(ns float64, size int) string {
	if size == 0 {
		return "-"
	}
	return Nanoseconds(ns / float64(size))
}

// Percent formats a share as a percentage.
func Percent(x float64) string { return fmt.Sprintf("%.1f%%", 100*x) }

// Strings returns the String of each item.
func Strings[T fmt.Stringer](list []T) []string {
	var out []string
	for _, x := range list {
		out = append(out, x.String())
	}
	return out
}

// JoinFirst joins items by commas. Of more than five items it lists the first four, and the number of further items.
func JoinFirst(list []string) string {
	const listed = 4
	if more := len(list) - listed; more > 1 { // "and 1 more" would not be shorter than the item
		return fmt.Sprintf("%s and %d more", strings.Join(list[:listed], ", "), more)
	}
	return strings.Join(list, ", ")
}
