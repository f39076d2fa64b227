package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/graphdraw"
)

// svgBox is a box whose text is broken into lines and cut to the width of a box:
//
//	+--------------------+
//	| conv2d            \|  heads; the corner is marked if there are marks
//	| layer1.0.conv1     |  lines
//	| slower than before |  marks
//	| ====------         |  bar of the predicted time
//	| ======----         |  bar of the measured time
//	+--------------------+
//
// Numbers without a name in this file are pixels, chosen by eye.
type svgBox struct {
	*pictureBox
	heads, lines []string // the lines of pictureBox.head, and of name, pictureBox.lines and why
	marks        []string // the lines of pictureBox.marks
	size         graphdraw.Box
	frameLabel   string // the label of a group when it is open
}

// newSVGBox breaks the text of a box into lines. name is the displayed name, on its own line unless it equals the head.
func newSVGBox(content *pictureBox, name string) *svgBox {
	created := &svgBox{pictureBox: content, heads: boxLines(format.Printable(content.head))}
	if content.kind != copyBox && name != content.head && name != "" {
		created.lines = append(created.lines, name)
	}
	for _, line := range content.lines {
		created.lines = append(created.lines, term.CutMiddle(format.Printable(line), boxColumns))
	}
	for _, m := range content.marks {
		created.marks = append(created.marks, boxLines(format.Printable(m))...)
	}
	if content.why != "" {
		created.lines = append(created.lines, wrapped(format.Printable(content.why))...) // whole: it ends with the remedy
	}
	width := 0.0
	for _, line := range created.heads {
		width = max(width, headWidth*float64(term.Width(line)))
	}
	for _, line := range slices.Concat(created.lines, created.marks) {
		width = max(width, columnWidth*float64(term.Width(line)))
	}
	const minWidth, stripWidth = 60, 4 // the strip at the left edge has the color of the layout
	created.size = graphdraw.Box{Width: max(minWidth, width+2*boxPadding+stripWidth),
		Height: lineHeight*float64(len(created.heads)+len(created.lines)+len(created.marks)) + boxPadding}
	if content.predictedBar > 0 {
		created.size.Height += barHeight
	}
	if content.measured > 0 {
		created.size.Height += barHeight
	}
	return created
}

// boxLines breaks a text into lines and cuts it to the size of a box.
func boxLines(text string) []string {
	lines := wrapped(text)
	if len(lines) > maxLines {
		lines = lines[:maxLines]
		lines[maxLines-1] = term.CutEnd(lines[maxLines-1]+" "+term.Ellipsis, boxColumns)
	}
	return lines
}

// wrapped breaks a text into lines of the width of a box. Only words that are wider are cut.
func wrapped(text string) []string {
	lines := strings.Split(format.Wrap(text, boxColumns), "\n")
	for i, line := range lines {
		lines[i] = term.CutMiddle(line, boxColumns)
	}
	return lines
}

// tooltip returns the text of a box's tooltip, which lists the details of the box.
func (b *pictureBox) tooltip() string {
	lines := make([]string, len(b.details))
	for i, f := range b.details {
		lines[i] = f.Name + ": " + f.Text
	}
	return strings.Join(lines, "\n")
}

// markup returns the box as SVG, with its upper left corner at the origin.
func (b *svgBox) markup() string {
	var w strings.Builder
	isTerminal := b.kind == inputBox || b.kind == outputBox
	radius := 4 // radius of the corners
	if isTerminal {
		radius = 12
	}
	width, height := formatTenth(b.size.Width), formatTenth(b.size.Height)
	if b.kind == groupBox { // a second box behind the first
		fmt.Fprintf(&w, `<path class="box" d="M5 0v-4h%sv%sh-5"/>`, width, height)
	}
	fmt.Fprintf(&w, `<rect class="box" width="%s" height="%s" rx="%d"/>`, width, height, radius)
	if b.layout >= 0 && !isTerminal { // a strip at the left edge in the color of the layout
		fmt.Fprintf(&w, `<rect class="f%d" x="0" y="3" width="4" height="%s"/>`, b.layout, formatTenth(b.size.Height-6))
	}
	y := b.writeText(&w)
	if len(b.marks) > 0 { // a triangle in the upper right corner
		fmt.Fprintf(&w, `<path class="flag" d="M%s 0h-14l14 14z"/>`, width)
	}
	if b.predictedBar > 0 {
		y += barHeight
		b.writeBar(&w, "part", y, b.predictedBar)
	}
	if b.measured > 0 {
		y += barHeight
		b.writeBar(&w, "part measured", y, b.measuredBar)
	}
	return w.String()
}

// writeText writes the lines of text from top to bottom. It returns the y coordinate of the last line.
func (b *svgBox) writeText(w *strings.Builder) (y float64) {
	y = 2
	text := func(class string, lines []string) {
		for _, line := range lines {
			y += lineHeight
			fmt.Fprintf(w, `<text class="%s" x="%g" y="%s">%s</text>`, class, boxPadding+2, formatTenth(y), escapeXML(line))
		}
	}
	text("head", b.heads)
	text("dim", b.lines)
	text("mark", b.marks)
	return y
}

// writeBar writes a bar at height y. Its filled part, a share from 0 to 1, has the style of class.
func (b *svgBox) writeBar(w *strings.Builder, class string, y, share float64) {
	fullWidth := b.size.Width - 2*boxPadding - 2
	bar := func(class string, width float64) {
		fmt.Fprintf(w, `<rect class="%s" x="%g" y="%s" width="%s" height="4"/>`, class, boxPadding+2, formatTenth(y),
			formatTenth(width))
	}
	bar("bar", fullWidth)
	bar(class, share*fullWidth)
}
