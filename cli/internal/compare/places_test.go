package compare

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/devices"
	"github.com/graphrun/graphrun/internal/gpu/backend"
	"github.com/graphrun/graphrun/internal/gpu/software"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
)

// TestPlaces compares a plan on the host with a plan on a device, whose work is free. All outputs have the steps on the
// device and the transfers.
func TestPlaces(t *testing.T) {
	devices.Register("software", func() (graph.Device, error) { return backend.New(software.Open()), nil })
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	prices, err := pricing.DefaultProfile().WithDevice("software", pricing.DeviceRates{}).JSON()
	require.NoError(t, err)
	costs := write("costs.json", prices)
	model := write("g.json", []byte(`{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 6]}],
		"nodes": [{"name": "y", "op": "softmax", "inputs": ["x"], "attrs": {"dim": 1}}], "outputs": ["y"]}`))
	table, page := filepath.Join(dir, "o.csv"), filepath.Join(dir, "o.html")
	compare := func(args ...string) string {
		ext := &command.Extensions{}
		require.NoError(t, ext.Complete())
		cmd := Command(ext)
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetErr(&strings.Builder{})
		cmd.SetArgs(append([]string{model, "--costs", costs, "--runs", "2", "--threads", "1", "--strategies",
			"propagate,optimal"}, args...))
		require.NoError(t, cmd.ExecuteContext(t.Context()))
		return out.String()
	}
	for _, format := range [][]string{{}, {"--markdown"}} {
		text := compare(append([]string{"--device", "software"}, format...)...)
		for _, head := range []string{"on software", "uploads", "downloads"} {
			assert.Contains(t, text, head)
		}
	}
	var doc Document
	text := compare("--device", "software", "--json", "--csv", table, "--report", page)
	require.NoError(t, json.Unmarshal([]byte(text), &doc))
	require.Len(t, doc.Strategies, 2)
	assert.Equal(t, &report.Places{Device: "software"}, doc.Strategies[0].Places)
	assert.Equal(t, &report.Places{Device: "software", Steps: 1, Uploads: 1, Downloads: 1,
		TransferredBytes: 2 * 4 * 4 * 6}, doc.Strategies[1].Places)
	rows, err := os.ReadFile(table)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(rows)), "\n")
	require.Len(t, lines, 5)
	for i, end := range []string{",device,device_steps,uploads,downloads,transferred_bytes", ",software,0,0,0,0", "",
		",software,1,1,1,192"} {
		assert.True(t, strings.HasSuffix(lines[i], end), lines[i])
	}
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(html), "0 inserted copies, no step on software")
	assert.Contains(t, string(html), "2 inserted copies, 1 step on software, 1 upload, 1 download")
	assert.NotContains(t, compare("--json"), "places")
}

// TestNoValuesWithoutRuns: nothing is said of values if the measurement ended before the first run.
func TestNoValuesWithoutRuns(t *testing.T) {
	c := comparison{rows: make([]Row, 2)}
	assert.False(t, c.haveEqualValues())
	c.rows[0].Runs = 1
	assert.True(t, c.haveEqualValues())
	c.Differences = []string{"y"}
	assert.False(t, c.haveEqualValues())
}
