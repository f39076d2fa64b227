package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
)

// TestViewFolds checks the groups that are drawn, and the options that open them.
func TestViewFolds(t *testing.T) {
	path := blockModel(t)
	heads := func(args ...string) string {
		return strings.Join(textsOf(t, viewed(t, ".svg", path, append(args, "--as-written")...))["text"], "\n")
	}
	folded := heads("--depth", "0")
	assert.Contains(t, folded, "net\n57 boxes\n")
	assert.NotContains(t, folded, "layer1")
	assert.Contains(t, heads("--depth", "1"), "layer0\n19 boxes\n")
	two := heads("--depth", "2")
	assert.Contains(t, two, "layer1.0\n7 boxes\n")
	assert.Contains(t, two, "layer1.1 to layer1.3 × 3\n3 equal blocks, 12 boxes\n")
	one := heads("--open", "net/layer1")
	assert.Contains(t, one, "layer1.1 to layer1.3 × 3\n")
	assert.Contains(t, one, "down\nrelu\nfloat32 [2,3]", "names are relative to the group around them")
	assert.Contains(t, one, "layer2\n19 boxes\n")
	assert.NotContains(t, heads("--open", "all"), "boxes\n", "no group is folded")
	assert.Contains(t, heads("--depth", "1", "--direction", "horizontal"), "19 boxes")

	for ext, marks := range map[string][]string{
		".dot":  {`label="net"`, `subgraph cluster1`, `layer0\n19 boxes`},
		".html": {`"label":"layer1.1 to layer1.3 × 3"`},
	} {
		text := viewed(t, ext, path, "--as-written", "--depth", "1")
		for _, mark := range marks {
			assert.Contains(t, text, mark)
		}
	}
	whole := viewed(t, ".dot", path, "--as-written", "--open", "all")
	assert.Contains(t, whole, "/net/layer1/layer1.2/neg_1", "the dot of the whole graph")
	for _, c := range [][]string{
		{"--open", "nothing", "--open nothing: the picture has no such group; want all or one of net"},
		{"--around", "nothing", "--around nothing: no box of the picture has this value"},
		{"--around", "/net/layer1/layer1.2/negg_1", "this value; did you mean /net/layer1/layer1.2/neg_1?"},
		{"--hops", "3", "--hops has no effect without --around"},
		{"--hops=-1", "--around", "x", "--hops -1: want at least 0"},
		{"--depth=-2", "--depth -2: want at least 0"},
		{"--direction", "up", "--direction up: want vertical or horizontal"},
	} {
		last := len(c) - 1
		args := append([]string{"view", path, "--as-written", "-o", filepath.Join(t.TempDir(), "x.svg")}, c[:last]...)
		r := call(t, args...)
		assert.Equal(t, exit.CodeUsage, r.code, c)
		assert.Contains(t, r.errors, c[last])
	}
}

func TestViewAround(t *testing.T) {
	path := blockModel(t)
	scope := "/net/layer1/layer1.2/"
	part := textsOf(t, viewed(t, ".svg", path, "--as-written", "--around", scope+"neg_1", "--hops", "1"))["text"]
	for _, name := range []string{scope + "exp_0", scope + "neg_1", scope + "sigmoid_2", "… 1 operand", "… 1 reader"} {
		assert.Contains(t, part, name)
	}
	assert.NotContains(t, part, scope+"sum")
	wide := textsOf(t, viewed(t, ".svg", path, "--as-written", "--around", scope+"neg_1", "--hops", "2"))["text"]
	assert.Contains(t, wide, scope+"sum")
	assert.Contains(t, viewed(t, ".dot", path, "--as-written", "--around", scope+"neg_1"), "… 2 readers")
}

// TestViewPair compares the marks of two plans with the output of diff.
func TestViewPair(t *testing.T) {
	const first, second = "contiguous", "channels_last"
	args := []string{"--strategies", first + "," + second, "--dim", "N=2"}
	var d struct {
		Values []struct{ Value string }
		Only   []any `json:"copies_only_first"`
	}
	text := succeed(t, append([]string{"diff", residual, "--json"}, args...)...)
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	require.NotEmpty(t, d.Values)
	require.NotEmpty(t, d.Only)
	doc := viewed(t, ".svg", residual, args...)
	texts := textsOf(t, doc)["text"]
	counts := map[string]int{}
	for _, line := range texts {
		kind, _, _ := strings.Cut(line, ",")
		counts[kind]++
	}
	assert.Equal(t, 2*len(d.Values), counts["≠ layout"], texts)
	assert.Contains(t, texts, "+ only here: not in "+second)
	assert.Contains(t, texts, first)
	assert.Contains(t, texts, second)
	assert.Positive(t, counts["≠ implementation"])
	assert.Positive(t, strings.Count(doc, `class="flag"`), "differences have a shape, too")

	same := textsOf(t, viewed(t, ".svg", residual, "--strategies", "propagate,propagate"))
	assert.Contains(t, same["text"], "the plans of propagate and propagate are equal")
	assert.NotContains(t, same["class"], "mark")
	for _, wrong := range [][]string{{"--strategies", "propagate"},
		{"--strategies", "propagate,optimal", "--strategy", "push"},
		{"--strategies", "propagate,nothing"}} {
		r := call(t, append([]string{"view", residual, "-o", filepath.Join(t.TempDir(), "x.svg")}, wrong...)...)
		assert.Equal(t, exit.CodeUsage, r.code)
		assert.Contains(t, r.errors, "strateg")
	}
	page := viewed(t, ".html", residual, args...)
	for _, want := range []string{`"peer":`, `"marks":["≠ implementation, channels_last: `, "Under strategy channels_last"} {
		assert.Contains(t, page, want)
	}
}

// TestViewTimes draws measured times beside predicted ones.
func TestViewTimes(t *testing.T) {
	plan := decode[planJSON](t, succeed(t, "plan", residual, "--strategy", "propagate", "--dim", "N=2", "--json"))
	step := plan.Steps[0]
	bench := write(t, "bench.json", fmt.Sprintf(
		`{"strategy": "propagate", "dims": {"N": 2}, "steps": 4, "by_step": [{"name": %q, "time_ns": %g}, {"name": "none", "time_ns": 1}]}`,
		step.Name, 2*step.CostNS))
	measured := write(t, "plan.json", fmt.Sprintf(
		`{"strategy": "propagate", "dims": {"N": 2}, "steps": [{"name": %q, "measured_ns": %g}]}`, step.Name, 2*step.CostNS))
	for _, times := range []string{bench, measured} {
		args := []string{"--strategy", "propagate", "--dim", "N=2", "--profile", times}
		texts := textsOf(t, viewed(t, ".svg", residual, args...))["text"]
		assert.Contains(t, texts, "measured "+format.Nanoseconds(2*step.CostNS)+", 2.00 × predicted")
		assert.Contains(t, strings.Join(texts, " "), "in 1 of 4 steps")
		assert.Contains(t, viewed(t, ".html", residual, args...), `"name":"measured"`)
	}
	for _, c := range [][]string{
		{bench, "propagate,optimal", "", "--profile has the times of one plan"},
		{bench, "", "contiguous", "measured with strategy propagate, but the plan has strategy contiguous"},
		{write(t, "none.json", "{}"), "", "propagate", "the file has no step times"},
		{write(t, "other.json", `{"strategy": "propagate", "dims": {"N": 2}, "by_step": [{"name": "x", "time_ns": 1}]}`),
			"", "propagate", "has no time for any of the plan's 4 steps"},
		{write(t, "text.json", "PK"), "", "propagate",
			"not the output of bench --profile --json or of plan --measure --json: the text is not JSON"},
		{write(t, "list.json", "[]"), "", "propagate", "line 1, column 1: found a list, want an object"},
		{write(t, "sizes.json", `{"strategy": "propagate", "dims": {"N": 4}, "by_step": [{"name": "conv1", "time_ns": 1}]}`),
			"", "propagate", "was measured with N=4, but the plan has N=2: add --dim N=4"},
		{write(t, "fixed.json", `{"strategy": "propagate", "dims": {}, "by_step": [{"name": "conv1", "time_ns": 1}]}`), "",
			"propagate",
			"was measured with no symbolic sizes, but the plan has N=2: omit --dim"},
		{"missing.json", "", "propagate", "missing.json"},
	} {
		args := []string{"view", residual, "-o", filepath.Join(t.TempDir(), "x.svg"), "--profile", c[0]}
		if c[1] != "" {
			args = append(args, "--strategies", c[1])
		}
		if c[2] != "" {
			args = append(args, "--strategy", c[2])
		}
		r := call(t, args...)
		assert.Equal(t, exit.CodeUsage, r.code)
		assert.Contains(t, r.errors, c[3])
	}
}
