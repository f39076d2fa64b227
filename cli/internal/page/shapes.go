package page

import "fmt"

// markPaths has an SVG path for the points of each group of a [Scatter], relative to the point. The shapes
// distinguish groups without color.
var markPaths = [...]string{
	"m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z", // circle
	"m-4 -4h8v8h-8z",               // square
	"m0 -5.2l5 9h-10z",             // triangle
	"m0 -5.8l5 5.8l-5 5.8l-5-5.8z", // diamond
	"m0 5.2l5 -9h-10z",             // triangle on its point
	"m-1.6 -5h3.2v3.4h3.4v3.2h-3.4v3.4h-3.2v-3.4h-3.4v-3.2h3.4z",                                              // plus
	"m-5 -2.7l2.3 -2.3l2.7 2.7l2.7-2.7l2.3 2.3l-2.7 2.7l2.7 2.7l-2.3 2.3l-2.7-2.7l-2.7 2.7l-2.3-2.3l2.7-2.7z", // cross
	"m-5.5 -2h11v4h-11z", // bar
}

// colors is the number of CSS classes c0, c1, ... of page.html.
const colors = 4

// markPath returns the SVG element of a point of a group at (x, y).
func markPath(group int, x, y float64) string {
	return fmt.Sprintf(`<path class="shape" d="M%s%s"/>`, coordinates(x, y), markPaths[group%len(markPaths)])
}

// coordinates formats a point for the path of an SVG element.
func coordinates(x, y float64) string { return fmt.Sprintf("%.1f %.1f", x, y) }

// shorten cuts a text to n characters, with an ellipsis in place of the middle: names differ mostly at their ends.
func shorten(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	head := (n - 1) / 3 // characters before the ellipsis
	return string(runes[:head]) + "…" + string(runes[len(runes)-(n-1-head):])
}
