package view

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/graphdraw"
)

// Sizes of boxes in pixels. Text is monospaced, so its width is known without fonts. Numbers without a name in this
// file are pixels, too, and were chosen by eye.
const (
	columnWidth = 7.23 // width of a character of font size 12
	headWidth   = 7.83 // width of a character of font size 13
	lineHeight  = 16.0
	boxPadding  = 9.0
	boxColumns  = 40  // the maximum number of characters in a line of a box
	maxLines    = 4   // the maximum number of lines of a text in a box; longer texts are cut
	barHeight   = 6.0 // height of the bar that shows a step's share of the time, with the space above the bar
)

// layoutColors are the colors of layouts. If a picture has more layouts than colors, colors are repeated with other
// dash patterns. Readers with red-green blindness can distinguish consecutive colors.
var layoutColors = []string{"#3b7dd8", "#e08214", "#1f9e77", "#7a8794", "#a05fc4", "#d6488d", "#17a2b8", "#94851c"}

// usualLayouts have the same colors in all pictures: the first of layoutColors. Other layouts get the next colors in
// order.
var usualLayouts = []string{"row-major", "channels-last", "row-major and channels-last", notDense}

// layoutDashes are the dash patterns of layouts, one for each color, so that the first layouts can be distinguished
// without colors.
var layoutDashes = []string{"none", "8 3", "2 3", "9 3 2 3", "16 4", "9 3 2 3 2 3", "4 8", "2 3 2 8"}

const svgStyle = `svg{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.page{fill:#fff}text{fill:#24292f}.title{font-size:16px;font-weight:bold}.head{font-size:13px;font-weight:bold}
.dim{fill:#57606a}.box{stroke-width:1.2;fill:#fff;stroke:#8c959f}
.input .box{fill:#ddeafa;stroke:#3b7dd8}.output .box{fill:#dff3e2;stroke:#2f8f46}.constant .box{fill:#eee}
.view .box{fill:#f6f8fa;stroke-dasharray:2 3}.copy .box{fill:#ffebe6;stroke:#cf222e;stroke-width:2;stroke-dasharray:6 3}
.copy .head{fill:#cf222e}.bar{fill:#d0d7de}.part{fill:#57606a}.part.measured{fill:#bf5700}
.group .box{fill:#fff8e1;stroke:#9a6700}.frame .box{fill:none;stroke:#9a6700;stroke-dasharray:8 3}
.mark{font-weight:bold}.flag{fill:#24292f}
.net{fill:none;stroke-width:1.8;stroke:#8c959f}.tip{fill:#8c959f}
`

// svgWriter writes a scene as SVG: the title, the remarks and the legend, and below them the drawings of all open
// groups, each inside the frame of its group.
type svgWriter struct {
	bytes.Buffer
	*scene
	top   float64 // y of the top of the drawing, below title and legend
	width float64 // width of the page
}

// svg returns the drawing of all open groups.
func (s *scene) svg() []byte {
	w := svgWriter{scene: s}
	drawing := s.levels[s.root]
	size := s.orientBox(graphdraw.Box{Width: drawing.Width, Height: drawing.Height})
	const narrowest = 760 // pixels: room for the title and the legend of a small drawing
	w.width = max(narrowest, size.Width)
	head := w.layOutHeader()
	width, height := formatTenth(w.width), formatTenth(w.top+size.Height)
	fmt.Fprintf(&w, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" role="img">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&w, "<title>%s</title>\n<style>\n%s%s", escapeXML(s.title), svgStyle, s.layoutStyle())
	fmt.Fprintf(&w, "</style>\n<rect class=\"page\" width=\"%s\" height=\"%s\"/>\n<g id=\"head\">\n%s</g>\n", width,
		height, head)
	fmt.Fprintf(&w, "<g transform=\"translate(%s %s)\">\n", formatTenth((w.width-size.Width)/2), formatTenth(w.top))
	w.writeGroup(s.root, graphdraw.Point{})
	w.WriteString("</g>\n</svg>\n")
	return w.Bytes()
}

// layoutStyle returns the style of the lines and boxes of each layout.
func (p *picture) layoutStyle() string {
	var b strings.Builder
	for i := range p.legend {
		color, dash := p.colorOf(i)
		fmt.Fprintf(&b, ".l%d{stroke:%s;stroke-dasharray:%s}.f%d{fill:%s}\n", i, color, dash, i, color)
	}
	return b.String()
}

// colorOf returns the color and the dashes of a layout of the legend.
func (p *picture) colorOf(layout int) (color, dash string) {
	// index numbers the layouts: first usualLayouts, then the other layouts in the order of the legend.
	index := slices.Index(usualLayouts, p.legend[layout].name)
	if index < 0 {
		index = len(usualLayouts)
		for _, l := range p.legend[:layout] {
			if !slices.Contains(usualLayouts, l.name) {
				index++
			}
		}
	}
	repetition := index / len(layoutColors) // each repetition of the colors shifts the dash patterns by one
	return layoutColors[index%len(layoutColors)], layoutDashes[(index+repetition)%len(layoutDashes)]
}

// layOutHeader returns the title, the remarks and the legend as SVG. It sets w.top to the y coordinate below the
// legend.
func (w *svgWriter) layOutHeader() string {
	const left, right = 20.0, 20.0
	var b strings.Builder
	y := 30.0
	columns := int((w.width - left - right) / columnWidth)
	title := term.CutMiddle(format.Printable(w.title), columns*3/4)
	fmt.Fprintf(&b, `<text class="title" x="%g" y="%g">%s</text>`+"\n", left, y, escapeXML(title))
	for _, remark := range w.remarks {
		for _, line := range strings.Split(format.Wrap(format.Printable(remark), columns), "\n") {
			y += lineHeight + 2
			fmt.Fprintf(&b, `<text x="%g" y="%g">%s</text>`+"\n", left, y, escapeXML(line))
		}
	}
	x := left
	y += lineHeight + 6
	for _, entry := range w.legendEntries() {
		width := columnWidth*float64(term.Width(entry.text)) + 50 // 32 for the mark, 18 between entries
		if x > left && x+width > w.width-right {
			x, y = left, y+lineHeight+4
		}
		b.WriteString(entry.mark(x, y-4))
		fmt.Fprintf(&b, `<text class="dim" x="%g" y="%g">%s</text>`+"\n", x+32, y, escapeXML(entry.text))
		x += width
	}
	w.top = y + 12
	return b.String()
}

// legendEntry is a mark of the legend and its meaning.
type legendEntry struct {
	text string
	mark func(x, y float64) string // returns the mark as SVG; y is the middle of the mark
}

// legendEntries returns the entries of the legend: the layouts, and the kinds of boxes that the picture has.
func (s *scene) legendEntries() []legendEntry {
	var entries []legendEntry
	for i, layout := range s.legend {
		text := fmt.Sprintf("%s (%s)", layout.name, format.Count(layout.count, "value"))
		entries = append(entries, legendEntry{text, func(x, y float64) string {
			return fmt.Sprintf(`<path class="net l%d" d="M%g %gh26"/>`, i, x, y)
		}})
	}
	hasKind := map[boxKind]bool{}
	for _, text := range s.texts {
		hasKind[text.kind] = true
	}
	for _, meaning := range []struct {
		kind boxKind
		text string
	}{{inputBox, "input"}, {outputBox, "output"}, {constantBox, "constant"}, {viewBox, "view: nothing runs"},
		{copyBox, "copy that was inserted"}, {groupBox, "group of steps"}} {
		if !hasKind[meaning.kind] {
			continue
		}
		entries = append(entries, legendEntry{meaning.text, func(x, y float64) string {
			return fmt.Sprintf(`<g class="%s"><rect class="box" x="%g" y="%g" width="26" height="12" rx="3"/></g>`,
				meaning.kind, x, y-6)
		}})
	}
	return entries
}

// writeGroup draws the items of an open group and the lines between the items. origin is the upper left corner of the
// group's drawing.
func (w *svgWriter) writeGroup(it *item, origin graphdraw.Point) {
	drawing := w.levels[it]
	for i := range drawing.lines {
		w.writeLine(it, drawing, i, origin)
	}
	for i, child := range it.items {
		corner := addPoints(drawing.Corners[i], origin)
		if !child.isOpen {
			w.writeBox(w.texts[child], corner)
			continue
		}
		// A group in this group: its frame and label, then its own drawing, centered in the frame.
		inner, size := w.levels[child], w.orientBox(drawing.sizes[i])
		w.writeFrame(w.texts[child].frameLabel, corner, size)
		innerSize := w.orientBox(graphdraw.Box{Width: inner.Width, Height: inner.Height})
		shift := w.orientPoint(graphdraw.Point{X: (size.Width - innerSize.Width) / 2, Y: frameHead})
		innerOrigin := addPoints(corner, shift)
		w.connectPorts(it, i, origin, innerOrigin)
		w.writeGroup(child, innerOrigin)
	}
}

// writeLine draws line i of a drawing, with an arrowhead at each reader. origin is the upper left corner of the
// drawing. The ends of a line are indices: first the items of the group, then its ports, at which lines from outside
// the group continue.
func (w *svgWriter) writeLine(it *item, drawing *level, i int, origin graphdraw.Point) {
	line := &drawing.lines[i]
	fmt.Fprintf(w, `<g class="value"><title>%s</title><path class="%s" d="`, escapeXML(w.lineTip(line)),
		lineClass("net", "l", line.layout))
	last := graphdraw.Point{X: -1} // end of the previous segment; at first no point, because x is not negative
	for _, segment := range drawing.Nets[i] {
		from, to := addPoints(segment.From, origin), addPoints(segment.To, origin)
		if segment.From != last {
			w.WriteString(w.point("M", from))
		}
		if from.X == to.X {
			w.WriteString(w.point("L", to))
		} else {
			w.WriteString(w.curve(from, to))
		}
		last = segment.To
	}
	w.WriteString(`"/>`)
	for k, to := range line.to {
		if to >= len(it.items) || it.items[to].isOpen {
			continue // a port, or an open group, inside which the line continues: there is no reader here
		}
		// The tip is a triangle with its point at the reader.
		x, y := drawing.Routes[i].ArriveX[k]+origin.X, drawing.Corners[to].Y+origin.Y
		fmt.Fprintf(w, `<path class="%s" d="%s%s%sz"/>`, lineClass("tip", "f", line.layout),
			w.point("M", graphdraw.Point{X: x, Y: y}), w.point("L", graphdraw.Point{X: x - 4, Y: y - 7}),
			w.point("L", graphdraw.Point{X: x + 4, Y: y - 7}))
	}
	w.WriteString("</g>\n")
}

// lineTip returns the tooltip of a line.
func (s *scene) lineTip(l *line) string {
	var texts []string
	for _, index := range l.values {
		var readers []string
		for _, to := range s.values[index].to {
			readers = append(readers, s.boxes[to].details[0].Text)
		}
		texts = append(texts, s.values[index].tip+"\nread by "+format.JoinFirst(readers))
	}
	const maxValues = 4
	if len(texts) > maxValues {
		texts = append(texts[:maxValues], fmt.Sprintf("and %d more values", len(texts)-maxValues))
	}
	return strings.Join(texts, "\n")
}

// lineClass returns the CSS classes of a line: the parameter class and, unless layout is -1, the class of the layout.
// The class of a layout is a letter (l for strokes, f for fills) and the index of the layout, such as l2.
func lineClass(class, letter string, layout int) string {
	if layout < 0 {
		return class
	}
	return fmt.Sprintf("%s %s%d", class, letter, layout)
}

// writeBox draws a box, or a folded group. corner is its upper left corner.
func (w *svgWriter) writeBox(text *svgBox, corner graphdraw.Point) {
	oriented := w.orientPoint(corner)
	fmt.Fprintf(w, `<g class="node %s" transform="translate(%s %s)">`, text.kind, formatTenth(oriented.X),
		formatTenth(oriented.Y))
	if tip := text.tooltip(); tip != "" {
		fmt.Fprintf(w, "<title>%s</title>", escapeXML(tip))
	}
	w.WriteString(text.markup() + "</g>\n")
}

// writeFrame draws the frame of an open group. corner is its upper left corner.
func (w *svgWriter) writeFrame(label string, corner graphdraw.Point, size graphdraw.Box) {
	oriented := w.orientPoint(corner)
	fmt.Fprintf(w, `<g class="frame" transform="translate(%s %s)"><rect class="box" width="%s" height="%s" rx="6"/>`+
		`<text class="head" x="10" y="18">%s</text></g>`+"\n", formatTenth(oriented.X), formatTenth(oriented.Y),
		formatTenth(size.Width), formatTenth(size.Height), escapeXML(label))
}

// connectPorts connects the ports of an open group, item i of the group `it`, with the lines around item i. origin and
// innerOrigin are the upper left corners of the drawings of `it` and of item i.
func (w *svgWriter) connectPorts(it *item, i int, origin, innerOrigin graphdraw.Point) {
	child := it.items[i]
	outer, inner := w.levels[it], w.levels[child]
	itemTop := origin.Y + outer.Corners[i].Y
	itemBottom := itemTop + outer.sizes[i].Height
	for k, port := range inner.ports {
		// A port is a box at the border of the group's own drawing. The curve begins or ends at the middle of the port's
		// upper edge.
		corner, line, route := inner.Corners[len(child.items)+k], &outer.lines[port.line], outer.Routes[port.line]
		atPort := graphdraw.Point{X: innerOrigin.X + corner.X + portWidth/2, Y: innerOrigin.Y + corner.Y}
		var from, to graphdraw.Point
		if port.out { // from the port to the point where the outer line leaves item i
			from, to = atPort, graphdraw.Point{X: origin.X + route.LeaveX, Y: itemBottom}
		} else { // from the point where the outer line arrives at item i to the port
			arriveX := route.ArriveX[slices.Index(line.to, i)]
			from, to = graphdraw.Point{X: origin.X + arriveX, Y: itemTop}, atPort
		}
		fmt.Fprintf(w, `<path class="%s" d="%s%s"/>`+"\n", lineClass("net", "l", line.layout), w.point("M", from),
			w.curve(from, to))
	}
}

// addPoints returns the sum of two points.
func addPoints(a, b graphdraw.Point) graphdraw.Point {
	return graphdraw.Point{X: a.X + b.X, Y: a.Y + b.Y}
}

// orientPoint swaps x and y if the picture is horizontal.
func (s *scene) orientPoint(p graphdraw.Point) graphdraw.Point {
	if s.horizontal {
		p.X, p.Y = p.Y, p.X
	}
	return p
}

// curve returns the path command of a cubic curve. The tangents at both ends have the direction of the picture
// (vertical or horizontal): the control points are halfway along this direction.
func (s *scene) curve(from, to graphdraw.Point) string {
	halfHeight := (to.Y - from.Y) / 2 // Y is the direction of the picture before orientPoint
	command := []string{"C"}
	for _, p := range []graphdraw.Point{{X: from.X, Y: from.Y + halfHeight}, {X: to.X, Y: to.Y - halfHeight}, to} {
		p = s.orientPoint(p)
		command = append(command, formatTenth(p.X), formatTenth(p.Y))
	}
	return strings.Join(command, " ")
}

// point returns a path command with a point.
func (s *scene) point(command string, p graphdraw.Point) string {
	p = s.orientPoint(p)
	return command + formatTenth(p.X) + " " + formatTenth(p.Y)
}

// escapeXML escapes a text for XML. It replaces control characters by Go escapes, and other characters that XML does
// not allow by the replacement character.
func escapeXML(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = format.Printable(line)
	}
	return html.EscapeString(replaceInvalid.Replace(strings.ToValidUTF8(strings.Join(lines, "\n"), "\ufffd")))
}

// replaceInvalid replaces the noncharacters that XML does not allow.
var replaceInvalid = strings.NewReplacer("\ufffe", "\ufffd", "\uffff", "\ufffd")

// formatTenth formats a coordinate, rounded to tenths.
func formatTenth(x float64) string { return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64) }
