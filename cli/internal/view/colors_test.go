package view

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/graphrun/graphrun/graph"
)

// TestLayoutColors checks that a layout has the same colour in pictures that have others, and each one of its own. The
// dash patterns alone distinguish as many layouts as there are colors.
func TestLayoutColors(t *testing.T) {
	p := &picture{}
	seen := map[string]bool{}
	for i := range 3 * len(layoutColors) {
		p.legend = append(p.legend, pictureLayout{name: fmt.Sprintf("order %d", i)})
	}
	p.legend = append(p.legend, pictureLayout{name: "channels-last"}, pictureLayout{name: "row-major"})
	for i := range p.legend {
		color, dash := p.colorOf(i)
		assert.False(t, seen[color+dash], p.legend[i].name)
		seen[color+dash] = true
	}
	first, dashes := &picture{}, map[string]bool{}
	for _, name := range usualLayouts {
		first.legend = append(first.legend, pictureLayout{name: name})
	}
	first.legend = append(first.legend, p.legend[:len(layoutColors)-len(usualLayouts)]...)
	for i := range first.legend {
		_, dash := first.colorOf(i)
		assert.False(t, dashes[dash], "dash pattern %s", dash)
		dashes[dash] = true
	}
	alone := &picture{legend: p.legend[len(p.legend)-1:]}
	color, _ := alone.colorOf(0)
	all, _ := p.colorOf(len(p.legend) - 1)
	assert.Equal(t, all, color)
	assert.Equal(t, "conv2d", opsOf(&graph.Node{Op: &graph.Op{Semantics: graph.Semantics{Name: "conv2d"}}}))
}
