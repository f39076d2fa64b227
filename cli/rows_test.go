package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/devices"
	"github.com/graphrun/graphrun/internal/gpu/backend"
	"github.com/graphrun/graphrun/internal/gpu/device"
	"github.com/graphrun/graphrun/internal/gpu/software"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// TestReasonsOfRows: --dim says why the number of rows of a graph cannot change, with and without arrays for the inputs.
func TestReasonsOfRows(t *testing.T) {
	arrays := filepath.Join(t.TempDir(), "in.npz")
	require.NoError(t, npz.WriteFile(arrays, []npz.Entry{{Name: "x", Tensor: tensor.Zeros(tensor.Float32, 3, 3)},
		{Name: "w", Tensor: tensor.Zeros(tensor.Float32, 5, 3)}}))
	for _, c := range []struct{ layout, inputs, node, want string }{
		{``, ``, `"op": "cumsum", "inputs": ["x"], "attrs": {"dim": 0}`, "the rows are not independent: it combines rows"},
		{`, "strides": [6, 2]`, ``, `"op": "relu", "inputs": ["x"]`, "must be dense, but its strides are [6, 2]\n"},
		{`, "offset": 4`, ``, `"op": "relu", "inputs": ["x"]`, "must begin at the start of its storage, but its offset is 4\n"},
		{``, `, {"name": "w", "dtype": "float32", "shape": [5, 3]}`, `"op": "linear", "inputs": ["x", "w"]`,
			`input "x" has 2 rows, and "w" has 5; give the input and the dimension of the rows, as in x.0=3`},
	} {
		path := write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3]`+c.layout+
			`}`+c.inputs+`], "nodes": [{"name": "y", `+c.node+`}], "outputs": ["y"]}`)
		for _, flags := range [][]string{nil, {"--inputs", arrays}} {
			r := call(t, append([]string{"run", path, "--dim", "N=3"}, flags...)...)
			assert.Equal(t, exit.CodeUsage, r.code)
			assert.Contains(t, r.errors, "N=3: ")
			assert.Contains(t, r.errors, c.want, "%v", flags)
		}
	}
}

// smallDevice is a device with 64 KiB of memory.
type smallDevice struct{ device.Device }

func (s smallDevice) Info() device.Info {
	info := s.Device.Info()
	info.Memory = 64 << 10
	return info
}

// TestPlansOfDevices: a plan for a device that exceeds its memory is an error in all commands that plan, as in a run.
func TestPlansOfDevices(t *testing.T) {
	devices.Register("small", func() (graph.Device, error) { return backend.New(smallDevice{software.Open()}), nil })
	prices, err := pricing.DefaultProfile().WithDevice("software", pricing.DeviceRates{}).JSON()
	require.NoError(t, err)
	costs := write(t, "costs.json", string(prices))
	for rows, code := range map[string]int{"1": exit.CodeDone, "8": exit.CodeFailed} {
		path := write(t, "g.json", strings.ReplaceAll(`{"version": 1, "inputs": [{"name": "x", "dtype": "float32",
			"shape": [ROWS, 4096]}], "nodes": [{"name": "y", "op": "relu", "inputs": ["x"]}], "outputs": ["y"]}`, "ROWS", rows))
		for _, args := range [][]string{{"run", path}, {"plan", path}, {"plan", path, "--json"}, {"explain", path, "y"},
			{"view", path, "-o", filepath.Join(t.TempDir(), "o.svg"), "--strategy", "optimal"}} {
			r := call(t, append(args, "--device", "small", "--costs", costs, "--pin", "y=device:software")...)
			assert.Equal(t, code, r.code, "%v: %s", args, r.errors)
			if code != exit.CodeDone {
				assert.Contains(t, r.errors, "the memory of the device interpreter (software, other) is 64 KiB", "%v", args)
			}
		}
	}
}
