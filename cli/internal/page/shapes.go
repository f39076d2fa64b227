package page

import "fmt"

// markPaths has the SVG path of the mark of each group, relative to the center of the mark. Shapes distinguish groups
// without color.
var markPaths = [...]string{
	"m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z", // circle
	"m-4 -4h8v8h-8z",               // square
	"m0 -5.2l5 9h-10z",             // triangle
	"m0 -5.8l5 5.8l-5 5.8l-5-5.8z", // diamond
}

// markPath returns the mark of a group with its center at (x, y).
func markPath(group int, x, y float64) string {
	return fmt.Sprintf(`<path class="shape" d="M%s%s"/>`, coordinates(x, y), markPaths[group%len(markPaths)])
}

// coordinates formats a point for the path of an SVG element.
func coordinates(x, y float64) string { return fmt.Sprintf("%.1f %.1f", x, y) }

// shorten cuts a text to n characters. It removes the middle, because names differ mostly at their ends.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	head := (n - 1) / 3
	return string(r[:head]) + "…" + string(r[len(r)-(n-1-head):])
}
