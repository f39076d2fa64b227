package page

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// wellFormed parses a picture as XML and returns its texts, titles included.
func wellFormed(t *testing.T, svg string) (texts []string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		require.NoError(t, err, svg)
		if s, ok := token.(xml.CharData); ok && strings.TrimSpace(string(s)) != "" {
			texts = append(texts, string(s))
		}
	}
}

func TestPageIsSelfContained(t *testing.T) {
	hostile := `<script>alert("x")</script>`
	p := Page{Title: hostile, Summary: []string{hostile}, Warnings: []string{"load 5.1"},
		About: []Fact{{"Model", hostile}},
		Sections: []Section{
			{Title: "Times", Note: hostile, Chart: &Intervals{Rows: []Interval{{hostile, 1, 0.5, 2, hostile}}},
				Data: &Table{Name: "times", Heads: []string{"a,b"}, Rows: [][]string{{hostile}}}},
			{Title: "Steps", Table: &Table{Name: "steps", Heads: []string{"n"}, Right: []bool{true}, Rows: [][]string{{"7"}}}},
		}}
	var b strings.Builder
	require.NoError(t, p.Write(&b))
	got := b.String()
	assert.NotContains(t, got, "<script")
	assert.NotContains(t, got, "://") // nothing is loaded
	assert.Contains(t, got, "Warning: load 5.1")
	assert.Contains(t, got, `<td class="right" title="7">7`)
	assert.Contains(t, got, `href="data:text/csv;base64,`)
	assert.Equal(t, "\"a,b\"\n\"<script>alert(\"\"x\"\")</script>\"\n", p.Sections[0].Data.csv())
	assert.Equal(t, "{{B}}: <&gt;", FillTemplate("{{A}}: {{B}}", "A", "{{B}}", "B", "<"+Escape(">")))
	assert.Same(t, p.Sections[1].Table, p.Sections[1].CSVTable())
}

func TestManyRowsAreLeftOut(t *testing.T) {
	p := Page{Sections: []Section{{Title: "Times", Chart: &StepFunction{},
		Data: &Table{Name: "times", Heads: []string{"ns"}, Rows: slices.Repeat([][]string{{"a row"}}, maxRows+1)}}}}
	var b strings.Builder
	require.NoError(t, p.Write(&b))
	assert.Contains(t, b.String(), "20001 rows")
	assert.NotContains(t, b.String(), "a row")
}

func TestIntervals(t *testing.T) {
	c := &Intervals{Axis: Axis{Title: "time"}, Reference: 3, ReferenceName: "bound",
		Rows: []Interval{{"a & b", 4, 3.5, 5, "4 ms"}, {"unknown interval", 2, Missing(), Missing(), "2 ms"},
			{"unknown value", Missing(), Missing(), Missing(), "none"}}}
	texts := wellFormed(t, c.draw())
	for _, want := range []string{"a & b", "4 ms", "2 ms", "bound", "time", "unknown value"} {
		assert.Contains(t, texts, want)
	}
	assert.NotContains(t, texts, "none")
}

func TestScatterLeavesOutWhatHasNoLogarithm(t *testing.T) {
	c := &Scatter{X: Axis{Log: true}, Y: Axis{Log: true}, Groups: []string{"conv", "other"},
		Points: []Point{{X: 1, Y: 10, Label: "drawn"}, {X: 0, Y: 10, Label: "zero"},
			{X: 1, Y: math.Inf(1), Label: "infinite"}, {X: 1000, Y: 1, Group: 1, Label: "second", Name: "far"},
			{X: 1001, Y: 1, Group: 1, Label: "third", Name: "overlaps"}},
		Lines: []Line{{Label: "roof", Points: [][2]float64{{1, 1}, {100, 100}}}}}
	texts := wellFormed(t, c.draw())
	for _, want := range []string{"drawn", "second", "third", "far", "roof", "conv", "other"} {
		assert.Contains(t, texts, want)
	}
	for _, left := range []string{"zero", "infinite", "overlaps"} {
		assert.NotContains(t, texts, left)
	}
	assert.NotContains(t, (&Scatter{X: Axis{Log: true}}).draw(), "NaN")
}

func TestStepsAreConstantBetweenChanges(t *testing.T) {
	svg := (&StepFunction{Points: [][2]float64{{0, 1}, {5, 3}, {10, 0}}}).draw()
	wellFormed(t, svg)
	_, path, _ := strings.Cut(svg, `class="area" d="`)
	path, _, _ = strings.Cut(path, `"`)
	var heights []string
	for p := range strings.SplitSeq(strings.TrimSuffix(path[1:], "Z"), "L") {
		_, y, _ := strings.Cut(p, " ")
		heights = append(heights, y)
	}
	// From the axis up, along 1, up to 3, along 3, down to 0, and along the axis.
	require.Len(t, heights, 7)
	assert.Equal(t, heights[1], heights[2])
	assert.Equal(t, heights[3], heights[4])
	assert.NotEqual(t, heights[1], heights[3])
	assert.NotContains(t, (&StepFunction{}).draw(), "NaN")
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		axis   Axis
		values []float64
		n      int
		want   []float64
	}{
		{Axis{}, []float64{0, 10}, 5, []float64{0, 2.5, 5, 7.5, 10}},
		{Axis{}, []float64{3, 42}, 5, []float64{0, 10, 20, 30, 40}},
		{Axis{Unit: 1024}, []float64{4096}, 4, []float64{0, 2048, 4096}},
		{Axis{Log: true}, []float64{1, 1e6}, 7, []float64{1, 10, 100, 1000, 1e4, 1e5, 1e6}},
		{Axis{Log: true}, []float64{1, 50}, 6, []float64{1, 2, 5, 10, 20, 50}},
		{Axis{}, nil, 5, []float64{0, 0.25, 0.5, 0.75, 1}},
	} {
		t.Run(fmt.Sprint(c.values), func(t *testing.T) {
			s := newScale(c.axis, 0, 100, c.values...)
			assert.InDeltaSlice(t, c.want, s.ticks(c.n), 1e-9)
			for _, v := range c.values {
				at, ok := s.coordinate(v)
				assert.True(t, ok && at >= 0 && at <= 100, "%v at %v", v, at)
			}
		})
	}
}

func TestShorten(t *testing.T) {
	assert.Equal(t, "abc", shorten("abc", 3))
	assert.Equal(t, "/l…conv2", shorten("/layer1/layer1.0/conv2", 8)) // the end distinguishes
}

// A name is beside its point where it hides no other point, or nowhere.
func TestNamesHideNoPoint(t *testing.T) {
	near := func(names ...string) string {
		c := &Scatter{}
		for i, name := range names {
			c.Points = append(c.Points, Point{X: 500 + 20*float64(i), Y: 1, Name: name})
		}
		c.Points = append(c.Points, Point{X: 1000, Y: 1})
		return c.draw()
	}
	assert.Contains(t, near("alone"), ">alone</text>")
	assert.Contains(t, near("", "right"), ">right</text>")
	assert.NotContains(t, near("", "hidden", ""), ">hidden</text>")

	// At the left edge, both names are right of their points, one lower than the other.
	points := []Point{{X: 2, Y: 50, Name: "upper"}, {X: 0, Y: 47, Name: "lower"}, {X: 100, Y: 100}}
	stacked := (&Scatter{Points: points}).draw()
	assert.Contains(t, stacked, ">upper</text>")
	assert.Contains(t, stacked, ">lower</text>")
	names := regexp.MustCompile(`x="([\d.]+)" y="[\d.]+">(?:upper|lower)<`)
	for _, match := range names.FindAllStringSubmatch(stacked, -1) {
		x, err := strconv.ParseFloat(match[1], 64)
		require.NoError(t, err)
		assert.Greater(t, x, float64(plotLeft))
	}
}

// The marks of groups differ in shape, so that they can be told apart without color. A long legend has several lines.
func TestMarks(t *testing.T) {
	seen := map[string]bool{}
	for _, path := range markPaths {
		assert.False(t, seen[path], path)
		seen[path] = true
	}
	c := &Scatter{Groups: slices.Repeat([]string{"a group with a long name"}, 5)}
	lines := map[string]bool{}
	for _, match := range regexp.MustCompile(`x="([\d.]+)" y="([\d.]+)">a group`).FindAllStringSubmatch(c.draw(), -1) {
		x, err := strconv.ParseFloat(match[1], 64)
		require.NoError(t, err)
		assert.Less(t, x, float64(chartWidth))
		lines[match[2]] = true
	}
	assert.Len(t, lines, 2)
}
