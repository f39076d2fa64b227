package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/graphrun/graphrun/internal/sorted"
)

// Coordinates and distances in this file are in SVG units. Numbers without a name were chosen by eye. The CSS classes
// c0, c1, ... are colors.

// maxLabel is the maximum number of characters of a label.
const maxLabel = 34

// Intervals shows a value for each row as a point, with its confidence interval as a line:
//
//	   propagate |--o--| 1.2 ms
//	channels_last       |----o----| 1.9 ms
//	               1        2        ms
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

// draw returns the chart as an SVG element.
func (c *Intervals) draw() string {
	const rowHeight, top = 26, 24
	labelWidth, textWidth := 0.0, 0.0
	values := []float64{c.Reference} // newScale ignores NaN
	for _, row := range c.Rows {
		labelWidth = max(labelWidth, float64(utf8.RuneCountInString(shorten(row.Label, maxLabel)))*charWidth)
		textWidth = max(textWidth, float64(utf8.RuneCountInString(row.Text))*charWidth)
		values = append(values, row.Value, row.Low, row.High)
	}
	x := newScale(c.Axis, labelWidth+14, chartWidth-textWidth-18, values...)
	bottom := float64(top + rowHeight*len(c.Rows))
	picture := &drawing{}
	picture.drawXAxis(&x, top, bottom)
	if pointX, ok := x.coordinate(c.Reference); ok {
		picture.add(`<g class="c1"><line class="guide" stroke-dasharray="5 4" x1="%.1f" x2="%.1f" y1="%d" y2="%.1f"/></g>`,
			pointX, pointX, top-4, bottom)
		picture.add(`<text text-anchor="middle" x="%.1f" y="14">%s</text>`, pointX, Escape(c.ReferenceName))
	}
	for i, row := range c.Rows {
		y := top + rowHeight*(float64(i)+0.5)
		picture.add(`<text text-anchor="end" x="%.1f" y="%.1f">%s<title>%s</title></text>`, labelWidth+6, y+4,
			Escape(shorten(row.Label, maxLabel)), Escape(row.Label))
		picture.drawInterval(&row, &x, y)
	}
	return picture.svg(bottom+44, c.Axis.Title)
}

// drawInterval draws the value, the interval and the text of a row whose middle is at y.
func (d *drawing) drawInterval(row *Interval, x *scale, y float64) {
	pointX, ok := x.coordinate(row.Value)
	if !ok {
		return
	}
	d.add(`<g class="c0"><title>%s</title>`, Escape(row.Label+": "+row.Text))
	low, knownLow := x.coordinate(row.Low)
	high, knownHigh := x.coordinate(row.High)
	if knownLow && knownHigh {
		// a vertical bar at the low end, a line to the high end, and a vertical bar there
		d.add(`<path class="guide" d="M%.1f %.1fv10m0-5H%.1fm0-5v10"/>`, low, y-5, high)
	}
	d.add(`<circle class="shape" cx="%.1f" cy="%.1f" r="4.5"/></g>`, pointX, y)
	if knownHigh {
		pointX = max(pointX, high)
	}
	d.add(`<text x="%.1f" y="%.1f">%s</text>`, pointX+10, y+4, Escape(row.Text))
}

// Scatter shows points and lines on two axes.
type Scatter struct {
	X, Y   Axis
	Points []Point
	Lines  []Line
	Groups []string // names of the groups for the legend, indexed by [Point.Group]
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

// The area between the axes of a chart with two axes.
const (
	plotLeft, plotTop     = 76, 28
	plotRight, plotBottom = chartWidth - 16, chartHeight - 46
)

// draw returns the chart as an SVG element. The labels of lines and the names of points are drawn last, so that no
// point covers them.
func (c *Scatter) draw() string {
	var xs, ys []float64
	for _, point := range c.Points {
		xs, ys = append(xs, point.X), append(ys, point.Y)
	}
	for _, line := range c.Lines {
		for _, point := range line.Points {
			xs, ys = append(xs, point[0]), append(ys, point[1])
		}
	}
	x, y := newScale(c.X, plotLeft, plotRight, xs...), newScale(c.Y, plotBottom, plotTop, ys...)
	picture := &drawing{}
	picture.drawXAxis(&x, plotTop, plotBottom)
	picture.drawYAxis(&y, plotLeft, plotRight)
	labels := ""
	for _, line := range c.Lines {
		labels += picture.drawLine(&line, &x, &y)
	}
	drawnPoints := picture.drawPoints(c.Points, &x, &y)
	picture.add("%s", labels)
	var takenPositions [][2]float64 // positions of points and of the characters of names
	for _, point := range drawnPoints {
		takenPositions = append(takenPositions, [2]float64{point.X, point.Y})
	}
	for _, point := range drawnPoints {
		if point.Name != "" {
			takenPositions = picture.drawPointName(&point, takenPositions)
		}
	}
	return picture.svg(chartHeight+picture.drawLegend(c.Groups), c.Y.Title+" by "+c.X.Title)
}

// drawLine draws a polyline. It returns the text element of the line's label, which is near the first point. The caller
// draws the label after the points.
func (d *drawing) drawLine(line *Line, x, y *scale) (label string) {
	path, command := "", "M"
	for _, point := range line.Points {
		pointX, okX := x.coordinate(point[0])
		pointY, okY := y.coordinate(point[1])
		if !okX || !okY {
			continue
		}
		if path == "" { // the first point
			label = fmt.Sprintf(`<text x="%.1f" y="%.1f">%s</text>`, pointX+8, min(pointY+14, plotBottom+2), Escape(line.Label))
		}
		path += command + coordinates(pointX, pointY)
		command = "L"
	}
	d.add(`<g class="c1"><path class="guide" stroke-dasharray="6 4" d="%s"/></g>`, path)
	return label
}

// drawPoints draws the marks of points in the order of their groups. It returns the drawn points, with their
// coordinates in the picture.
func (d *drawing) drawPoints(points []Point, x, y *scale) (drawn []Point) {
	points = slices.Clone(points)
	sorted.Func(points, func(a, b Point) int { return cmp.Compare(a.Group, b.Group) })
	for _, point := range points {
		pointX, okX := x.coordinate(point.X)
		pointY, okY := y.coordinate(point.Y)
		if !okX || !okY {
			continue
		}
		d.add(`<g class="c%d"><title>%s</title>%s</g>`, point.Group%colors, Escape(point.Label),
			markPath(point.Group, pointX, pointY))
		point.X, point.Y = pointX, pointY
		drawn = append(drawn, point)
	}
	return drawn
}

// drawPointName draws the name of a point next to it, slightly lower or higher if necessary. It omits a name that would
// hide one of the taken positions or the labels of the y axis. It returns the taken positions, including the name's.
func (d *drawing) drawPointName(point *Point, takenPositions [][2]float64) [][2]float64 {
	width := charWidth * float64(utf8.RuneCountInString(point.Name))
	leftEdges := []float64{point.X + 8, point.X - 8 - width}
	if point.X > (plotLeft+plotRight)/2 {
		slices.Reverse(leftEdges)
	}
	for _, y := range []float64{point.Y, point.Y + 6, point.Y - 6} {
		for _, left := range leftEdges {
			right := left + width
			hidesPosition := func(taken [2]float64) bool {
				return taken[0] > left-5 && taken[0] < right+5 && math.Abs(taken[1]-y) < 11
			}
			if left < plotLeft || right > chartWidth || slices.ContainsFunc(takenPositions, hidesPosition) {
				continue
			}
			d.add(`<text x="%.1f" y="%.1f">%s</text>`, left, y+4, Escape(point.Name))
			for offset := 0.0; offset <= width; offset += charWidth {
				takenPositions = append(takenPositions, [2]float64{left + offset, y})
			}
			return takenPositions
		}
	}
	return takenPositions
}

// drawLegend draws the names of groups below a chart and returns the height that it needs.
func (d *drawing) drawLegend(groups []string) float64 {
	if len(groups) < 2 {
		return 0
	}
	const lineHeight = 24
	x, height := float64(plotLeft), float64(lineHeight)
	for i, name := range groups {
		name = shorten(name, maxLabel)
		width := 34 + 1.1*charWidth*float64(utf8.RuneCountInString(name))
		if x > plotLeft && x+width > chartWidth {
			x, height = plotLeft, height+lineHeight
		}
		y := chartHeight + height - lineHeight + 8
		d.add(`<g class="c%d">%s</g>`, i%colors, markPath(i, x, y))
		d.add(`<text x="%.1f" y="%.1f">%s</text>`, x+10, y+4, Escape(name))
		x += width
	}
	return height
}

// StepFunction shows a value over time as a step function.
type StepFunction struct {
	X, Y   Axis
	Points [][2]float64 // each change: its time and the new value, in order of time
}

// draw returns the chart as an SVG element.
func (c *StepFunction) draw() string {
	var xs, ys []float64
	for _, change := range c.Points {
		xs, ys = append(xs, change[0]), append(ys, change[1])
	}
	x, y := newScale(c.X, plotLeft, plotRight, xs...), newScale(c.Y, plotBottom, plotTop, ys...)
	picture := &drawing{}
	picture.drawXAxis(&x, plotTop, plotBottom)
	picture.drawYAxis(&y, plotLeft, plotRight)
	// The path goes horizontally to the time of each change, then vertically to the new value. It encloses the area
	// below the function.
	path, lastY := "", float64(plotBottom)
	for _, change := range c.Points {
		changeX, okX := x.coordinate(change[0])
		changeY, okY := y.coordinate(change[1])
		if !okX || !okY {
			continue
		}
		if path == "" {
			path = "M" + coordinates(changeX, plotBottom)
		} else {
			path += "L" + coordinates(changeX, lastY)
		}
		path += "L" + coordinates(changeX, changeY)
		lastY = changeY
	}
	if path != "" {
		end, _ := x.coordinate(slices.Max(xs))
		path += "L" + coordinates(end, plotBottom) + "Z"
	}
	picture.add(`<g class="c0"><path class="area" d="%s"/></g>`, path)
	return picture.svg(chartHeight, c.Y.Title+" by "+c.X.Title)
}

// Missing returns NaN, which stands for a missing number. Charts do not draw NaN.
func Missing() float64 { return math.NaN() }
