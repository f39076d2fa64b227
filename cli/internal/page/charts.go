package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/graphrun/graphrun/internal/sorted"
)

// Intervals shows a value for each row as a point, with its confidence interval as a line.
type Intervals struct {
	Axis Axis
	Rows []Interval
	// Reference is drawn as a dashed line with the label ReferenceName, so that rows can be compared with it. NaN means
	// no reference.
	Reference     float64
	ReferenceName string
}

// Interval is a row of [Intervals]. Low and High are NaN if the interval is unknown.
type Interval struct {
	Label            string
	Value, Low, High float64
	Text             string // the value with its unit, drawn right of the interval
}

func (c *Intervals) draw() string {
	const rowHeight, top = 26, 24
	left, right := 0.0, 0.0
	values := []float64{c.Reference}
	for _, r := range c.Rows {
		left = max(left, float64(utf8.RuneCountInString(shorten(r.Label, maxLabel)))*charWidth)
		right = max(right, float64(utf8.RuneCountInString(r.Text))*charWidth)
		values = append(values, r.Value, r.Low, r.High)
	}
	x := newScale(c.Axis, left+14, chartWidth-right-18, values...)
	bottom := float64(top + rowHeight*len(c.Rows))
	d := &drawing{}
	d.xAxis(&x, top, bottom)
	if pointX, ok := x.coordinate(c.Reference); ok {
		d.add(`<g class="c1"><line class="guide" stroke-dasharray="5 4" x1="%.1f" x2="%.1f" y1="%d" y2="%.1f"/></g>`, pointX,
			pointX, top-4, bottom)
		d.add(`<text text-anchor="middle" x="%.1f" y="14">%s</text>`, pointX, Escape(c.ReferenceName))
	}
	for i, r := range c.Rows {
		y := top + rowHeight*(float64(i)+0.5)
		d.add(`<text text-anchor="end" x="%.1f" y="%.1f">%s<title>%s</title></text>`, left+6, y+4,
			Escape(shorten(r.Label, maxLabel)), Escape(r.Label))
		pointX, ok := x.coordinate(r.Value)
		if !ok {
			continue
		}
		d.add(`<g class="c0"><title>%s</title>`, Escape(r.Label+": "+r.Text))
		low, knownLow := x.coordinate(r.Low)
		high, knownHigh := x.coordinate(r.High)
		if knownLow && knownHigh {
			// a vertical bar at the low end, a line to the high end, and a vertical bar there
			d.add(`<path class="guide" d="M%.1f %.1fv10m0-5H%.1fm0-5v10"/>`, low, y-5, high)
		}
		d.add(`<circle class="shape" cx="%.1f" cy="%.1f" r="4.5"/></g>`, pointX, y)
		if knownHigh {
			pointX = max(pointX, high)
		}
		d.add(`<text x="%.1f" y="%.1f">%s</text>`, pointX+10, y+4, Escape(r.Text))
	}
	return d.picture(bottom+44, c.Axis.Title)
}

// Scatter shows points and lines on two axes.
type Scatter struct {
	X, Y   Axis
	Points []Point
	Lines  []Line
	Groups []string // the names of [Point.Group], for the legend
}

// Point is a point of a [Scatter].
type Point struct {
	X, Y  float64
	Group int    // the group determines the shape and the color
	Label string // a description, shown when the pointer is above the point
	Name  string // drawn next to the point if there is room; empty for none
}

// Line is a polyline of a [Scatter] through Points. Its segments are straight on the screen, also on logarithmic axes.
type Line struct {
	Label  string
	Points [][2]float64
}

// Margins of charts with two axes.
const (
	plotLeft, plotTop     = 76, 28
	plotRight, plotBottom = chartWidth - 16, chartHeight - 46
	maxLabel              = 34 // characters of the label of a row
)

func (c *Scatter) draw() string {
	var xs, ys []float64
	for _, p := range c.Points {
		xs, ys = append(xs, p.X), append(ys, p.Y)
	}
	for _, l := range c.Lines {
		for _, p := range l.Points {
			xs, ys = append(xs, p[0]), append(ys, p[1])
		}
	}
	x, y := newScale(c.X, plotLeft, plotRight, xs...), newScale(c.Y, plotBottom, plotTop, ys...)
	d := &drawing{}
	d.xAxis(&x, plotTop, plotBottom)
	d.yAxis(&y, plotLeft, plotRight)
	labels := ""
	for _, l := range c.Lines {
		labels += d.line(&l, &x, &y)
	}
	points := slices.Clone(c.Points)
	sorted.Func(points, func(a, b Point) int { return cmp.Compare(a.Group, b.Group) })
	var taken [][2]float64 // positions of points and of the characters of names
	var drawn []Point      // the points, with their coordinates in the picture
	for _, p := range points {
		px, okX := x.coordinate(p.X)
		py, okY := y.coordinate(p.Y)
		if !okX || !okY {
			continue
		}
		d.add(`<g class="c%d"><title>%s</title>%s</g>`, p.Group%len(markPaths), Escape(p.Label), markPath(p.Group, px, py))
		taken = append(taken, [2]float64{px, py})
		p.X, p.Y = px, py
		drawn = append(drawn, p)
	}
	d.add("%s", labels)
	for _, p := range drawn {
		if p.Name != "" {
			taken = d.pointName(&p, taken)
		}
	}
	return d.picture(chartHeight+d.legend(c.Groups), c.Y.Title+" by "+c.X.Title)
}

// pointName draws the name of a point next to it, slightly lower or higher if necessary. The name is omitted if it
// would hide one of the taken positions or the labels of the y axis. The result is the taken positions, including the
// name's.
func (d *drawing) pointName(p *Point, taken [][2]float64) [][2]float64 {
	width := charWidth * float64(utf8.RuneCountInString(p.Name))
	sides := []float64{p.X + 8, p.X - 8 - width}
	if p.X > (plotLeft+plotRight)/2 {
		slices.Reverse(sides)
	}
	for _, y := range []float64{p.Y, p.Y + 6, p.Y - 6} {
		for _, left := range sides {
			if left < plotLeft || left+width > chartWidth || slices.ContainsFunc(taken, func(position [2]float64) bool {
				return position[0] > left-5 && position[0] < left+width+5 && math.Abs(position[1]-y) < 11
			}) {
				continue
			}
			d.add(`<text x="%.1f" y="%.1f">%s</text>`, left, y+4, Escape(p.Name))
			for offset := 0.0; offset <= width; offset += charWidth {
				taken = append(taken, [2]float64{left + offset, y})
			}
			return taken
		}
	}
	return taken
}

// line draws a polyline, and returns its label, to be drawn at its first point above the points of the chart.
func (d *drawing) line(l *Line, x, y *scale) (label string) {
	path, command := "", "M"
	for _, p := range l.Points {
		px, okX := x.coordinate(p[0])
		py, okY := y.coordinate(p[1])
		if !okX || !okY {
			continue
		}
		if path == "" {
			label = fmt.Sprintf(`<text x="%.1f" y="%.1f">%s</text>`, px+8, min(py+14, plotBottom+2), Escape(l.Label))
		}
		path += command + coordinates(px, py)
		command = "L"
	}
	d.add(`<g class="c1"><path class="guide" stroke-dasharray="6 4" d="%s"/></g>`, path)
	return label
}

// legend draws the names of groups below a chart and returns the height that it needs.
func (d *drawing) legend(groups []string) float64 {
	if len(groups) < 2 {
		return 0
	}
	x := float64(plotLeft)
	for i, name := range groups {
		d.add(`<g class="c%d">%s</g>`, i%len(markPaths), markPath(i, x, chartHeight+8))
		name = shorten(name, maxLabel)
		d.add(`<text x="%.1f" y="%d">%s</text>`, x+10, chartHeight+12, Escape(name))
		x += 34 + 1.1*charWidth*float64(utf8.RuneCountInString(name))
	}
	return 24
}

// StepFunction shows a value over time as a step function.
type StepFunction struct {
	X, Y   Axis
	Points [][2]float64 // each change: its time and the new value, in order of time
}

func (c *StepFunction) draw() string {
	var xs, ys []float64
	for _, p := range c.Points {
		xs, ys = append(xs, p[0]), append(ys, p[1])
	}
	x, y := newScale(c.X, plotLeft, plotRight, xs...), newScale(c.Y, plotBottom, plotTop, ys...)
	d := &drawing{}
	d.xAxis(&x, plotTop, plotBottom)
	d.yAxis(&y, plotLeft, plotRight)
	// The path goes horizontally to the time of each change, then vertically to the new value. It encloses the area
	// below the function.
	path, lastY := "", float64(plotBottom)
	for _, p := range c.Points {
		px, okX := x.coordinate(p[0])
		py, okY := y.coordinate(p[1])
		if !okX || !okY {
			continue
		}
		if path == "" {
			path = "M" + coordinates(px, plotBottom)
		} else {
			path += "L" + coordinates(px, lastY)
		}
		path += "L" + coordinates(px, py)
		lastY = py
	}
	if path != "" {
		end, _ := x.coordinate(slices.Max(xs))
		path += "L" + coordinates(end, plotBottom) + "Z"
	}
	d.add(`<g class="c0"><path class="area" d="%s"/></g>`, path)
	return d.picture(chartHeight, c.Y.Title+" by "+c.X.Title)
}

// Missing returns NaN, which stands for a missing number. Charts do not draw NaN.
func Missing() float64 { return math.NaN() }
