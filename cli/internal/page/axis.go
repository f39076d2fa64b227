package page

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Axis describes the horizontal or vertical axis of a chart.
type Axis struct {
	Title  string
	Format func(float64) string // formats a value with its unit; nil formats the number alone
	Log    bool                 // the axis is logarithmic; zero and negative values are not drawn
	Unit   float64              // the distance of grid lines is Unit times a round number, see roundUp; 0 means 1
}

// format returns a value as text.
func (a *Axis) format(number float64) string {
	if a.Format == nil {
		return fmt.Sprintf("%.4g", number)
	}
	return a.Format(number)
}

// Chart sizes in SVG units. The page scales charts to the width of a column. Numbers without a name in this file, such
// as the distance of a label from its axis, were chosen by eye.
const (
	chartWidth  = 720
	chartHeight = 380
	charWidth   = 6.6 // the average width of a character in a font of size 12
)

// scale maps the values of an axis to coordinates of the picture.
type scale struct {
	axis      Axis
	low, high float64 // least and greatest value, with the margin; logarithms to base 10 if axis.Log
	from, to  float64 // coordinates of low and high
}

// newScale returns a scale that contains the given values, except values that cannot be drawn: see project. A
// logarithmic scale has a margin of 4% at both ends. A linear scale contains 0. If its greatest value is positive, it
// has a margin above this value. from and to are the coordinates of the ends.
func newScale(axis Axis, from, to float64, values ...float64) scale {
	created := scale{axis, math.Inf(1), math.Inf(-1), from, to}
	if !axis.Log {
		created.low, created.high = 0, 0
	}
	for _, v := range values {
		if v, ok := created.project(v); ok {
			created.low, created.high = min(created.low, v), max(created.high, v)
		}
	}
	switch {
	case math.IsInf(created.low, 0): // no value can be drawn
		created.low, created.high = 0, 1
	case created.low == created.high:
		created.high++
	}
	if margin := 0.04 * (created.high - created.low); axis.Log {
		created.low, created.high = created.low-margin, created.high+margin
	} else if created.high > 0 {
		created.high += margin
	}
	return created
}

// project returns the value, or its logarithm on a logarithmic axis. It returns false if the value cannot be drawn.
func (s *scale) project(number float64) (float64, bool) {
	if s.axis.Log {
		number = math.Log10(number)
	}
	return number, !math.IsNaN(number) && !math.IsInf(number, 0)
}

// coordinate returns the coordinate of a value, and false if it cannot be drawn.
func (s *scale) coordinate(v float64) (float64, bool) {
	v, ok := s.project(v)
	return s.from + (v-s.low)/(s.high-s.low)*(s.to-s.from), ok
}

// ticks returns about n values at which grid lines are drawn. They are values of the axis, not logarithms.
func (s *scale) ticks(n int) []float64 {
	if s.axis.Log && s.high-s.low >= 1 { // at least one decade; a shorter axis has evenly spaced values
		return s.decades(n)
	}
	low, high := s.low, s.high
	if s.axis.Log {
		low, high = math.Pow(10, low), math.Pow(10, high)
	}
	unit := cmp.Or(s.axis.Unit, 1)
	// Lines are at 0, step, 2*step and so on. step is unit times a round number: the least number (see roundUp) that
	// gives at most about n lines.
	step := unit * roundUp((high-low)/unit/float64(n))
	var list []float64
	for i := math.Ceil(low / step); i*step <= high; i++ {
		list = append(list, i*step)
	}
	return list
}

// decades returns the powers of 10 in a logarithmic scale. If there are more than n, it returns only every k-th power.
// If there are fewer than n/2, it adds 2 and 5 times each power.
func (s *scale) decades(n int) []float64 {
	var list []float64
	factors := []float64{1}
	if s.high-s.low < float64(n)/2 {
		factors = []float64{1, 2, 5}
	}
	every := max(1, math.Ceil((s.high-s.low)/float64(n)))
	for exponent := math.Floor(s.low); exponent <= s.high; exponent += every {
		for _, factor := range factors {
			v := factor * math.Pow(10, exponent)
			if logarithm := math.Log10(v); logarithm >= s.low && logarithm <= s.high {
				list = append(list, v)
			}
		}
	}
	return list
}

// roundUp returns the least round number that is at least v, up to rounding errors. A round number is 1, 2, 2.5 or 5
// times a power of 10. It returns 1 if v is not positive and finite.
func roundUp(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 2.5, 5} {
		if f*power >= v*(1-1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// drawing collects the elements of an SVG picture.
type drawing struct{ strings.Builder }

// add writes an element. The caller must escape string arguments with [Escape].
// It is not inlined, to save compile time: it has many callers, none of them hot.
//
//go:noinline
func (d *drawing) add(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

// svg returns the elements as an SVG of the given height.
func (d *drawing) svg(height float64, title string) string {
	return fmt.Sprintf(`<svg viewBox="0 0 %d %.0f" role="img" aria-label="%s">`+"\n%s</svg>", chartWidth, height,
		Escape(title), d.String())
}

// drawXAxis draws grid lines for x from top to bottom, and their labels below the lines.
func (d *drawing) drawXAxis(x *scale, top, bottom float64) {
	labelEnd := math.Inf(-1) // x after the last label; a label that would overlap it is omitted
	for _, v := range x.ticks(7) {
		lineX, _ := x.coordinate(v)
		d.add(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, lineX, lineX, top, bottom)
		label := x.axis.format(v)
		if halfWidth := charWidth * float64(utf8.RuneCountInString(label)) / 2; lineX-halfWidth > labelEnd {
			d.add(`<text class="dim" text-anchor="middle" x="%.1f" y="%.1f">%s</text>`, lineX, bottom+16, Escape(label))
			labelEnd = lineX + halfWidth + charWidth
		}
	}
	d.add(`<text text-anchor="middle" x="%.1f" y="%.1f">%s</text>`, (x.from+x.to)/2, bottom+36, Escape(x.axis.Title))
}

// drawYAxis draws grid lines for y from left to right, and their labels left of the lines.
func (d *drawing) drawYAxis(y *scale, left, right float64) {
	for _, v := range y.ticks(6) {
		lineY, _ := y.coordinate(v)
		d.add(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, left, right, lineY, lineY)
		d.add(`<text class="dim" text-anchor="end" x="%.1f" y="%.1f">%s</text>`, left-6, lineY+4, Escape(y.axis.format(v)))
	}
	d.add(`<text x="4" y="14">%s</text>`, Escape(y.axis.Title))
}
