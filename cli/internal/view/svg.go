package view

import (
	"bytes"
	"fmt"
	"html"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/graphdraw"
)

// Sizes of boxes in pixels. Text is monospaced, so its width is known without fonts.
const (
	columnWidth = 7.23 // width of a character of font size 12
	headWidth   = 7.83 // width of a character of font size 13
	lineHeight  = 16.0
	boxPadding  = 9.0
	boxColumns  = 40 // the most characters in a line of a box
	mostLines   = 4  // the most lines of a head or a reason in a box
)

// layoutColors are the colors of layouts. If there are more layouts than colors, the colors are used again with other
// dashes. Readers with red-green blindness can distinguish consecutive colors.
var layoutColors = []string{"#3b7dd8", "#e08214", "#1f9e77", "#7a8794", "#a05fc4", "#d6488d", "#17a2b8", "#94851c"}

// usualLayouts have the same colors in all pictures; other layouts take the next colors in order.
var usualLayouts = []string{"row-major", "channels-last", "row-major and channels-last", partLayout}

// layoutDashes are the dash patterns: the first one for the first use of every color, the second one for the second
// use, and so on.
var layoutDashes = []string{"none", "7 3", "2 3", "9 3 2 3"}

// svgStyle is the style sheet.
const svgStyle = `svg{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.page{fill:#fff}text{fill:#24292f}.title{font-size:16px;font-weight:bold}.head{font-size:13px;font-weight:bold}
.dim{fill:#57606a}.box{stroke-width:1.2;fill:#fff;stroke:#8c959f}
.input .box{fill:#ddeafa;stroke:#3b7dd8}.output .box{fill:#dff3e2;stroke:#2f8f46}.constant .box{fill:#eee}
.view .box{fill:#f6f8fa;stroke-dasharray:2 3}.copy .box{fill:#ffebe6;stroke:#cf222e;stroke-width:2;stroke-dasharray:6 3}
.copy .head{fill:#cf222e}.bar{fill:#d0d7de}.part{fill:#57606a}
.net{fill:none;stroke-width:1.8;stroke:#8c959f}.tip{fill:#8c959f}
`

// svgBox is a box with its lines of text.
type svgBox struct {
	*pictureBox
	heads, lines []string
	size         graphdraw.Box
}

// boxed breaks the text of a box into lines.
func boxed(b *pictureBox) svgBox {
	s := svgBox{pictureBox: b, heads: boxLines(format.Printable(b.head))}
	for _, line := range b.lines {
		s.lines = append(s.lines, term.CutMiddle(format.Printable(line), boxColumns))
	}
	if b.why != "" {
		s.lines = append(s.lines, boxLines(format.Printable(b.why))...)
	}
	width := 0.0
	for _, line := range s.heads {
		width = max(width, headWidth*float64(term.Width(line)))
	}
	for _, line := range s.lines {
		width = max(width, columnWidth*float64(term.Width(line)))
	}
	s.size = graphdraw.Box{Width: max(60, width+2*boxPadding+4),
		Height: lineHeight*float64(len(s.heads)+len(s.lines)) + boxPadding}
	if b.bar > 0 {
		s.size.Height += 6
	}
	return s
}

// boxLines breaks a text into lines and cuts it to the size of a box.
func boxLines(text string) []string {
	lines := strings.Split(format.Wrap(text, boxColumns), "\n")
	if len(lines) > mostLines {
		lines = lines[:mostLines]
		lines[mostLines-1] = term.CutEnd(lines[mostLines-1]+" "+term.Ellipsis, boxColumns)
	}
	for i, line := range lines {
		lines[i] = term.CutMiddle(line, boxColumns)
	}
	return lines
}

// escaped escapes a text for XML. Characters that XML does not allow are printed as escapes or replaced.
func escaped(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = format.Printable(line)
	}
	return html.EscapeString(notXML.Replace(strings.ToValidUTF8(strings.Join(lines, "\n"), "\ufffd")))
}

// notXML replaces characters that XML does not allow, other than control characters.
var notXML = strings.NewReplacer("\ufffe", "\ufffd", "\uffff", "\ufffd")

// svgWriter writes a picture as SVG.
type svgWriter struct {
	bytes.Buffer
	*picture
	boxes   []svgBox
	drawing *graphdraw.Drawing
	top     float64 // of the drawing, below title and legend
	width   float64
}

// svg returns the drawing. It fails if the graph is too large.
func (p *picture) svg() ([]byte, error) {
	w := svgWriter{picture: p}
	sizes := make([]graphdraw.Box, len(p.boxes))
	for i := range p.boxes {
		w.boxes = append(w.boxes, boxed(&p.boxes[i]))
		sizes[i] = w.boxes[i].size
	}
	nets := make([]graphdraw.Net, len(p.nets))
	for i, n := range p.nets {
		nets[i] = graphdraw.Net{From: n.from, To: n.to}
	}
	var err error
	if w.drawing, err = graphdraw.Draw(sizes, nets); err != nil {
		return nil, err
	}
	const narrowest = 760
	w.width = max(narrowest, w.drawing.Width)
	head := w.header()
	height := w.top + w.drawing.Height
	fmt.Fprintf(&w, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %g %g" role="img">`+"\n",
		w.width, height, w.width, height)
	fmt.Fprintf(&w, "<title>%s</title>\n<style>\n%s", escaped(p.title), svgStyle)
	for i := range p.legend {
		color, dash := p.colorOf(i)
		fmt.Fprintf(&w, ".l%d{stroke:%s;stroke-dasharray:%s}.f%d{fill:%s}\n", i, color, dash, i, color)
	}
	fmt.Fprintf(&w, "</style>\n"+
		"<rect class=\"page\" width=\"%g\" height=\"%g\"/>\n<g id=\"head\">\n%s</g>\n", w.width, height, head)
	fmt.Fprintf(&w, "<g transform=\"translate(%g %g)\">\n", (w.width-w.drawing.Width)/2, w.top)
	for i := range p.nets {
		w.net(i)
	}
	for i := range w.boxes {
		w.box(i)
	}
	w.WriteString("</g>\n</svg>\n")
	return w.Bytes(), nil
}

// colorOf returns color and dashes of a layout of the legend.
func (p *picture) colorOf(layout int) (color, dash string) {
	at := slices.Index(usualLayouts, p.legend[layout].name)
	if at < 0 {
		at = len(usualLayouts)
		for _, l := range p.legend[:layout] {
			if !slices.Contains(usualLayouts, l.name) {
				at++
			}
		}
	}
	return layoutColors[at%len(layoutColors)], layoutDashes[at/len(layoutColors)%len(layoutDashes)]
}

// header writes title, remarks and legend, and sets the top of the drawing.
func (w *svgWriter) header() string {
	const left, right = 20.0, 20.0
	var b strings.Builder
	y := 30.0
	columns := int((w.width - left - right) / columnWidth)
	fmt.Fprintf(&b, `<text class="title" x="%g" y="%g">%s</text>`+"\n", left, y, escaped(term.CutMiddle(format.Printable(w.title),
		columns*3/4)))
	for _, remark := range w.remarks {
		for _, line := range strings.Split(format.Wrap(format.Printable(remark), columns), "\n") {
			y += lineHeight + 2
			fmt.Fprintf(&b, `<text x="%g" y="%g">%s</text>`+"\n", left, y, escaped(line))
		}
	}
	x := left
	y += lineHeight + 6
	item := func(text string, mark func(x, y float64)) {
		width := columnWidth*float64(term.Width(text)) + 50
		if x > left && x+width > w.width-right {
			x, y = left, y+lineHeight+4
		}
		mark(x, y-4)
		fmt.Fprintf(&b, `<text class="dim" x="%g" y="%g">%s</text>`+"\n", x+32, y, escaped(text))
		x += width
	}
	for i, l := range w.legend {
		item(fmt.Sprintf("%s (%s)", l.name, format.Count(l.count, "value")), func(x, y float64) {
			fmt.Fprintf(&b, `<path class="net l%d" d="M%g %gh26"/>`, i, x, y)
		})
	}
	kinds := map[boxKind]bool{}
	for i := range w.boxes {
		kinds[w.boxes[i].kind] = true
	}
	for _, k := range []struct {
		kind boxKind
		text string
	}{{inputBox, "input"}, {outputBox, "output"}, {constantBox, "constant"}, {viewBox, "view: nothing runs"},
		{copyBox, "copy that was inserted"}} {
		if kinds[k.kind] {
			item(k.text, func(x, y float64) {
				fmt.Fprintf(&b, `<g class="%s"><rect class="box" x="%g" y="%g" width="26" height="12" rx="3"/></g>`, k.kind, x, y-6)
			})
		}
	}
	w.top = y + 12
	return b.String()
}

// net draws a value as a path of lines and curves, with an arrowhead at each reader.
func (w *svgWriter) net(i int) {
	n := &w.nets[i]
	class := "net"
	if n.layout >= 0 {
		class = fmt.Sprintf("net l%d", n.layout)
	}
	fmt.Fprintf(w, `<g class="value" data-from="%d" data-to="%s"><title>%s</title><path class="%s" d="`, n.from,
		strings.Trim(format.Ints(n.to), "[]"), escaped(w.netTip(i)), class)
	at := graphdraw.Point{X: -1}
	for _, s := range w.drawing.Nets[i] {
		if s.From != at {
			fmt.Fprintf(w, "M%g %g", s.From.X, s.From.Y)
		}
		switch half := (s.To.Y - s.From.Y) / 2; {
		case s.From.X == s.To.X:
			fmt.Fprintf(w, "V%g", s.To.Y)
		default:
			fmt.Fprintf(w, "C%g %g %g %g %g %g", s.From.X, s.From.Y+half, s.To.X, s.To.Y-half, s.To.X, s.To.Y)
		}
		at = s.To
	}
	w.WriteString(`"/>`)
	fill := "tip"
	if n.layout >= 0 {
		fill = fmt.Sprintf("tip f%d", n.layout)
	}
	for _, end := range w.ends(i) {
		fmt.Fprintf(w, `<path class="%s" d="M%g %gl-4 -7h8z"/>`, fill, end.X, end.Y)
	}
	w.WriteString("</g>\n")
}

// ends returns the points where the lines of a net reach boxes.
func (w *svgWriter) ends(i int) []graphdraw.Point {
	goesOn := map[graphdraw.Point]bool{}
	for _, s := range w.drawing.Nets[i] {
		goesOn[s.From] = true
	}
	var list []graphdraw.Point
	for _, s := range w.drawing.Nets[i] {
		if !goesOn[s.To] {
			list = append(list, s.To)
		}
	}
	return list
}

// netTip returns the tooltip of a value.
func (w *svgWriter) netTip(i int) string {
	var readers []string
	for _, to := range w.nets[i].to {
		readers = append(readers, w.boxes[to].facts[0].Text)
	}
	return w.nets[i].tip + "\nread by " + format.Few(readers)
}

// box draws a box with its details as a tooltip.
func (w *svgWriter) box(i int) {
	b, at := &w.boxes[i], w.drawing.Corners[i]
	var tip strings.Builder
	for k, f := range b.facts {
		if k > 0 {
			tip.WriteByte('\n')
		}
		fmt.Fprintf(&tip, "%s: %s", f.Name, f.Text)
	}
	fmt.Fprintf(w, `<g class="node %s" id="n%d" transform="translate(%g %g)"><title>%s</title>`, b.kind, i, at.X, at.Y,
		escaped(tip.String()))
	round := 4
	if b.kind == inputBox || b.kind == outputBox {
		round = 12
	}
	fmt.Fprintf(w, `<rect class="box" width="%g" height="%g" rx="%d"/>`, b.size.Width, b.size.Height, round)
	if b.layout >= 0 && round == 4 {
		fmt.Fprintf(w, `<rect class="f%d" x="0" y="3" width="4" height="%g"/>`, b.layout, b.size.Height-6)
	}
	y := 2.0
	text := func(class, line string) {
		y += lineHeight
		fmt.Fprintf(w, `<text%s x="%g" y="%g">%s</text>`, class, boxPadding+2, y, escaped(line))
	}
	for _, line := range b.heads {
		text(` class="head"`, line)
	}
	for _, line := range b.lines {
		text(` class="dim"`, line)
	}
	if b.bar > 0 {
		whole := b.size.Width - 2*boxPadding - 2
		fmt.Fprintf(w, `<rect class="bar" x="%g" y="%g" width="%g" height="4"/><rect class="part" x="%g" y="%g" width="%.1f" `+
			`height="4"/>`, boxPadding+2, y+6, whole, boxPadding+2, y+6, b.bar*whole)
	}
	w.WriteString("</g>\n")
}
