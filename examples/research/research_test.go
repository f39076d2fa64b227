package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
)

// asCommand is the environment variable under which the test binary is the program: see TestCommands.
const asCommand = "RESEARCH_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main() // exits
	}
	os.Exit(m.Run())
}

// TestCommands runs commands of the program: each uses the strategy, the op, the pass, the implementation and the
// price.
func TestCommands(t *testing.T) {
	dir := t.TempDir()
	file, page := filepath.Join(dir, "block.onnx"), filepath.Join(dir, "out.html")
	run := func(line string) string {
		command := exec.Command(os.Args[0], strings.Fields(line)...)
		command.Env = append(os.Environ(), asCommand+"=1", "XDG_CACHE_HOME="+dir)
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s\n%s", line, out)
		return string(out)
	}
	run("export " + file)
	for _, c := range []struct {
		line  string
		wants []string
	}{
		{"plan " + file + " --strategy descent", []string{"descent", "channel_norm", "tiles", "score_pool is class_pool"}},
		{"plan " + file + " --check --pin small=impl:tiles", []string{"tiles", "optimal"}},
		{"plan " + file + " --k-best 3", []string{"Cheapest plans"}},
		{"run " + file + " --strategy descent", []string{"class", "score"}},
		{"infer " + file, []string{"channel_norm"}},
		{"explain " + file + " small", []string{"tiles"}},
		{"compare " + file + " --strategies descent,optimal --runs 2 --report " + page, []string{"descent"}},
		{"diff " + file + " --strategies propagate,descent", []string{"descent"}},
		{"bench " + file + " --runs 2 --profile", []string{"channel_norm"}},
		{"view " + file + " -o " + page, nil},
		{"check " + file, nil},
		{"ops avg_pool2d", []string{"tiles   Adds the rows of tiles"}},
		{"ops channel_norm", []string{"pixels"}},
	} {
		out := run(c.line)
		for _, want := range c.wants {
			assert.Contains(t, out, want, c.line)
		}
	}
}

// TestPrice: the price of depthwise_nhwc is that of this program, not that of graphrun.
func TestPrice(t *testing.T) {
	list, err := ops()
	require.NoError(t, err)
	var costs []float64
	for _, added := range [][]*graph.Op{list, list[:2]} { // with slowWindows and without
		lookup, err := graphrun.Lookup(added...)
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "block.onnx")
		require.NoError(t, export(path))
		g, err := graphrun.Loader{Lookup: lookup, Operators: operators}.Load(t.Context(), path)
		require.NoError(t, err)
		p, err := graphrun.Compile(t.Context(), g, graphrun.Options{Costs: phone,
			Pins: map[string]graph.Pin{"depthwise": {Impl: "depthwise_nhwc"}}})
		require.NoError(t, err)
		costs = append(costs, p.Report().CostNS)
	}
	assert.Greater(t, costs[0], costs[1])
}

func Example() {
	demonstrate()
	// Output:
	// a custom norm, priced by a custom cost profile:
	// propagate: implementation of the norm: planes, of the pooling: tiles, the photo is copied: false
	// channels_last: implementation of the norm: pixels, of the pooling: pixels, the photo is copied: true
	// optimal: implementation of the norm: pixels, of the pooling: tiles, the photo is copied: false
	// descent: implementation of the norm: pixels, of the pooling: tiles, the photo is copied: false
	// descent is cheaper than propagate: true
	// no strategy is cheaper than optimal: true
	// all strategies give the same values: true
	// pass cse (computes each common subexpression once): score_pool is class_pool, score_flat is class_flat
	// outputs not checked after every pass: 0
	// class: 10 elements agree with the references: true
	// score: 10 elements agree with the references: true
}
