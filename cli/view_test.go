package cli

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/pricing"
)

const residual = "../examples/models/residual.json"

// viewed is what view writes.
func viewed(t *testing.T, ext, path string, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "x"+ext)
	succeed(t, append([]string{"view", path, "-o", out}, args...)...)
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	return string(text)
}

// textsOf are the texts of a document that is well-formed XML, by element.
func textsOf(t *testing.T, doc string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	var open []string
	for d := xml.NewDecoder(strings.NewReader(doc)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		switch x := token.(type) {
		case xml.StartElement:
			open = append(open, x.Name.Local)
			if class := x.Attr; len(class) > 0 && class[0].Name.Local == "class" {
				found["class"] = append(found["class"], class[0].Value)
			}
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				at := open[len(open)-1]
				found[at] = append(found[at], string(x))
			}
		}
	}
}

func TestViewDOT(t *testing.T) {
	for _, extra := range [][]string{nil, {"--as-written"}, {"--strategy", "contiguous"}} {
		text := viewed(t, ".dot", write(t, "g.json", small), extra...)
		if !strings.Contains(text, "digraph") || !strings.Contains(text, "->") {
			t.Errorf("%v:\n%s", extra, text)
		}
	}
}

func TestViewSVG(t *testing.T) {
	written := textsOf(t, viewed(t, ".svg", residual, "--as-written"))
	assert.Contains(t, written["text"], "as written: 7 nodes, 5 constants")
	for _, name := range []string{"image", "tidy", "shortcut", "y", "pinned to contiguous", "for N=2 (assumed)"} {
		assert.Contains(t, written["text"], name)
	}
	for _, name := range []string{"w1", "scale"} {
		assert.NotContains(t, written["text"], name, "constants are told by their readers")
		assert.Contains(t, strings.Join(written["title"], "\n"), "constant: "+name+": float32 [8,")
	}
	doc := viewed(t, ".svg", residual, "--strategy", "channels_last", "--dim", "N=3")
	assert.Equal(t, doc, viewed(t, ".svg", residual, "--strategy", "channels_last", "--dim", "N=3"))
	planned := textsOf(t, doc)
	for _, line := range []string{"conv2d + relu", "mul + add + relu", "copy of act2", "to row-major",
		"float32 [3,8,16,16]", "`conv2` is stored; `y` is pinned to", "for N=3"} {
		assert.Contains(t, planned["text"], line)
	}
	assert.Contains(t, planned["class"], "node copy")
	assert.NotContains(t, written["class"], "node copy")
	r := decode[planJSON](t, succeed(t, "plan", residual, "--strategy", "channels_last", "--dim", "N=3", "--json"))
	require.Len(t, r.Copies, 1)
	assert.Contains(t, strings.Join(planned["text"], " "), r.Copies[0].Why, "the reason is whole and ends with the remedy")
	for _, s := range r.Steps {
		price := s.Impl + " · " + format.Nanoseconds(s.CostNS) + " (" + format.Percent(s.CostNS/r.CostNS) + ")"
		assert.Contains(t, planned["text"], price)
	}
	for _, want := range []string{"by [2048,1,128,8], channels-last, 24 KiB\nread by act1", "act2.contiguous: float32 " +
		"[3,8,16,16] by [2048,256,16,1], row-major, 24 KiB\nread by y"} {
		assert.Contains(t, strings.Join(planned["title"], "\n--\n"), want)
	}
}

// TestViewOptions checks the effect of the options on the drawing.
func TestViewOptions(t *testing.T) {
	drawn := func(args ...string) string {
		return strings.Join(textsOf(t, viewed(t, ".svg", residual, args...))["text"], "\n")
	}
	plain := drawn("--strategy", "propagate")
	assert.Contains(t, drawn("--strategy", "propagate", "--pin", "conv2=impl:nchw"), "nchw")
	assert.NotContains(t, plain, "nchw")
	assert.Contains(t, drawn("--as-written", "--pin", "act1=contiguous"), "pinned to contiguous\nfloat32")
	assert.NotContains(t, drawn("--strategy", "propagate", "--no-fusion"), " + ")
	assert.Contains(t, drawn("--strategy", "optimal"), "proved: least cost among the forms considered")
	slow := pricing.DefaultProfile()
	slow.StepPS = 1e9
	text, err := slow.JSON()
	require.NoError(t, err)
	assert.Contains(t, drawn("--strategy", "propagate", "--costs", write(t, "slow.json", string(text))), "ms (25.0%)")
}

// hostile has a name in each place where a name may be, and texts that are no names to XML and HTML.
func hostile(t *testing.T) (path string, names []string) {
	names = []string{`</title><script>alert("1")</script>`, `a&b<c>"d'`, "]]>\x01\x1b[31m", "<!--", `</script><img src=x>`,
		"\u202e\ufffeend"}
	quoted := make([]any, len(names))
	for i, name := range names {
		text, err := json.Marshal(name)
		require.NoError(t, err)
		quoted[i] = string(text)
	}
	return write(t, "g.json", fmt.Sprintf(`{"version": 1, "name": %[1]s,
 "inputs": [{"name": %[2]s, "dtype": "float32", "shape": [2, 3, 4, 5], "memory_format": "channels_last"}],
 "constants": [{"name": %[3]s, "dtype": "float32", "shape": [2], "data": [1, 2]}],
 "nodes": [{"name": %[4]s, "op": "relu", "inputs": [%[2]s]}, {"name": %[5]s, "op": "exp", "inputs": [%[4]s]}],
 "outputs": [{"value": %[5]s, "name": %[6]s, "memory_format": "contiguous"}, %[3]s]}`, quoted...)), names
}

func TestViewHostileNames(t *testing.T) {
	path, names := hostile(t)
	for _, strategy := range [][]string{{"--as-written"}, {"--strategy", "optimal"}} {
		doc := viewed(t, ".svg", path, strategy...)
		assert.NotContains(t, doc, "<script")
		found := strings.Join(textsOf(t, doc)["title"], "\n") // fails unless it is well-formed
		for _, name := range names[1:] {
			assert.Contains(t, found, strings.ReplaceAll(format.Printable(name), "\ufffe", "\ufffd"))
		}
		page := viewed(t, ".html", path, strategy...)
		assert.Equal(t, 1, strings.Count(page, "<script"), "one script, which is ours")
		assert.Equal(t, 1, strings.Count(page, "</script"))
		assert.NotContains(t, page, "<img")
		assert.NotContains(t, page, "\x01")
		var d any
		require.NoError(t, json.Unmarshal(pageJSON(t, page), &d))
		all := fmt.Sprint(d)
		for _, name := range names[1:] {
			assert.Contains(t, all, format.Printable(name))
		}
	}
}

// pageJSON is what a page's script is given.
func pageJSON(t *testing.T, page string) []byte {
	t.Helper()
	_, rest, found := strings.Cut(page, "const data = ")
	require.True(t, found)
	text, _, found := strings.Cut(rest, ";\n")
	require.True(t, found)
	return []byte(text)
}

func TestViewHTML(t *testing.T) {
	page := viewed(t, ".html", residual, "--strategy", "channels_last", "--dim", "N=2")
	assert.Equal(t, page, viewed(t, ".html", residual, "--strategy", "channels_last", "--dim", "N=2"))
	for _, at := range regexp.MustCompile(`(?i)(https?:|url\(|@import|src=|href=)\S*`).FindAllString(page, -1) {
		assert.Equal(t, `http://www.w3.org/2000/svg"`, strings.TrimRight(at, ";,>"), "nothing is loaded")
	}
	var d struct {
		Boxes []struct {
			Facts   []struct{ Text string }
			Explain []string
			SVG     string
		}
		Groups []struct{ Items []int }
	}
	require.NoError(t, json.Unmarshal(pageJSON(t, page), &d))
	require.Len(t, d.Groups, 1, "a small graph has no groups")
	assert.Len(t, d.Groups[0].Items, len(d.Boxes), "every box is drawn")
	for _, b := range d.Boxes {
		assert.NotEmpty(t, textsOf(t, "<g>"+b.SVG+"</g>")["text"])
	}
	explained := map[string]string{}
	for _, b := range d.Boxes {
		explained[b.Facts[0].Text] = strings.Join(b.Explain, "\n\n")
	}
	for box, value := range map[string]string{"act1": "conv1", "act2": "joined", "image": "image",
		"act2.contiguous": "act2"} {
		want := succeed(t, "explain", residual, value, "--strategy", "channels_last", "--dim", "N=2")
		assert.Contains(t, explained[box], strings.TrimSpace(want), box)
	}
	written := viewed(t, ".html", residual, "--as-written")
	assert.Contains(t, written, "the dimensions are sorted by the operands")
	assert.NotContains(t, written, "Under strategy", "the graph as written runs under none")
}

// TestViewDefault draws the plan that plan shows, and the drawing says how to see the graph as written.
func TestViewDefault(t *testing.T) {
	planned := decode[planJSON](t, succeed(t, "plan", residual, "--json"))
	texts := strings.Join(textsOf(t, viewed(t, ".svg", residual))["text"], "\n")
	assert.Contains(t, texts, "strategy "+planned.Strategy+": "+format.Count(len(planned.Steps), "step"))
	assert.Contains(t, texts, "estimated cost "+format.Nanoseconds(planned.CostNS))
	assert.Contains(t, texts, "--as-written draws the graph of the file")
	page := viewed(t, ".html", residual)
	assert.Contains(t, page, "--as-written draws the graph of the file")
	assert.NotContains(t, viewed(t, ".html", residual, "--strategy", "optimal"), "--as-written", "the reader knows")
	for _, flag := range []string{"--strategy=optimal", "--strategies=optimal,greedy", "--exact", "--no-fusion"} {
		r := call(t, "view", residual, "-o", filepath.Join(t.TempDir(), "x.svg"), "--as-written", flag)
		assert.Equal(t, exit.CodeUsage, r.code)
		name, _, _ := strings.Cut(flag, "=")
		assert.Contains(t, r.errors, name+" concerns plans, but --as-written")
	}
}

// TestViewUnplanned draws a graph whose shapes depend on data, as it is written.
func TestViewUnplanned(t *testing.T) {
	path := write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],
 "nodes": [{"name": "at", "op": "nonzero", "inputs": ["x"]}, {"name": "y", "op": "neg", "inputs": ["at"]}],
 "outputs": ["y"]}`)
	for _, ext := range []string{".svg", ".html"} {
		text := viewed(t, ext, path)
		assert.Contains(t, text, "int64, shape depends on data")
		assert.Contains(t, text, "graphrun plan shows the parts")
		r := call(t, "view", path, "-o", filepath.Join(t.TempDir(), "x"+ext), "--strategy", "optimal")
		assert.Equal(t, exit.CodeFailed, r.code)
		assert.Contains(t, r.errors, "graphrun plan shows")
	}
	empty := write(t, "none.json", `{"version": 1, "inputs": [], "nodes": [], "outputs": []}`)
	out := filepath.Join(t.TempDir(), "x.svg")
	assert.Equal(t, exit.CodeDone, call(t, "view", empty, "--as-written", "-o", out).code)
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Contains(t, textsOf(t, string(text))["text"], "as written: 0 nodes, 0 constants")
}

// TestViewDense draws a graph with long lines, whose number per drawing is bounded by groups.
func TestViewDense(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(`{"version": 1, "inputs": [{"name": "n0", "dtype": "float32", "shape": [1]}], "nodes": [`)
	const n = 3000 // each is read by the next, and by the last
	all := []string{}
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, `{"name": "n%d", "op": "relu", "inputs": ["n%d"]},`, i, i-1)
		all = append(all, fmt.Sprintf(`"n%d"`, i))
	}
	fmt.Fprintf(&b, `{"name": "y", "op": "cat", "inputs": [%s]}], "outputs": ["y"]}`, strings.Join(all, ","))
	path := write(t, "g.json", b.String())
	assert.Contains(t, textsOf(t, viewed(t, ".svg", path, "--as-written"))["text"], "2998 equal blocks, 2998 boxes")
	assert.NotEmpty(t, viewed(t, ".svg", path, "--as-written", "--open", "all"))
	assert.NotEmpty(t, viewed(t, ".html", path, "--as-written"))
	assert.NotEmpty(t, viewed(t, ".svg", path, "--as-written", "--around", "n7"))
}
