package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/graphdraw"
)

// svgBox is a box whose text is broken into lines and cut to the width of a box.
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
		created.lines = append(created.lines, boxLines(format.Printable(content.why))...)
	}
	width := 0.0
	for _, line := range created.heads {
		width = max(width, headWidth*float64(term.Width(line)))
	}
	for _, line := range slices.Concat(created.lines, created.marks) {
		width = max(width, columnWidth*float64(term.Width(line)))
	}
	created.size = graphdraw.Box{Width: max(60, width+2*boxPadding+4),
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
	lines := strings.Split(format.Wrap(text, boxColumns), "\n")
	if len(lines) > maxLines {
		lines = lines[:maxLines]
		lines[maxLines-1] = term.CutEnd(lines[maxLines-1]+" "+term.Ellipsis, boxColumns)
	}
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
	radius := 4 // of the corners
	if isTerminal {
		radius = 12
	}
	width, height := formatTenth(b.size.Width), formatTenth(b.size.Height)
	if b.kind == groupBox { // a stack of boxes
		fmt.Fprintf(&w, `<path class="box" d="M5 0v-4h%sv%sh-5"/>`, width, height)
	}
	fmt.Fprintf(&w, `<rect class="box" width="%s" height="%s" rx="%d"/>`, width, height, radius)
	if b.layout >= 0 && !isTerminal { // a strip at the left edge in the color of the layout
		fmt.Fprintf(&w, `<rect class="f%d" x="0" y="3" width="4" height="%s"/>`, b.layout, formatTenth(b.size.Height-6))
	}
	y := 2.0
	text := func(class, line string) {
		y += lineHeight
		fmt.Fprintf(&w, `<text%s x="%g" y="%s">%s</text>`, class, boxPadding+2, formatTenth(y), escapeXML(line))
	}
	for _, line := range b.heads {
		text(` class="head"`, line)
	}
	for _, line := range b.lines {
		text(` class="dim"`, line)
	}
	for _, line := range b.marks {
		text(` class="mark"`, line)
	}
	if len(b.marks) > 0 { // a triangle in the upper right corner
		fmt.Fprintf(&w, `<path class="flag" d="M%s 0h-14l14 14z"/>`, width)
	}
	bar := func(class string, share float64) {
		fullWidth := b.size.Width - 2*boxPadding - 2
		fmt.Fprintf(&w, `<rect class="bar" x="%g" y="%s" width="%s" height="4"/><rect class="%s" x="%g" y="%s" width="%s" `+
			`height="4"/>`, boxPadding+2, formatTenth(y+barHeight), formatTenth(fullWidth), class, boxPadding+2,
			formatTenth(y+barHeight), formatTenth(share*fullWidth))
		y += barHeight
	}
	if b.predictedBar > 0 {
		bar("part", b.predictedBar)
	}
	if b.measured > 0 {
		bar("part measured", b.measuredBar)
	}
	return w.String()
}
