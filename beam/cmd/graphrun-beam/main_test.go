package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// double doubles a vector of three numbers.
const double = `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [3]}],
	"nodes": [{"name": "y", "op": "mul", "inputs": ["x", 2]}], "outputs": ["y"]}`

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	os.Exit(m.Run())
}

// call runs the command with flags NAME, VALUE and so on.
func call(t *testing.T, flags ...string) (code int, stdout, stderr string) {
	t.Helper()
	for i := 0; i < len(flags); i += 2 {
		require.NoError(t, flag.Set(flags[i], flags[i+1]))
	}
	var out, err bytes.Buffer
	code = run(t.Context(), &out, &err)
	return code, out.String(), err.String()
}

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	in, out, list := filepath.Join(dir, "in"), filepath.Join(dir, "out"), filepath.Join(dir, "failures.txt")
	require.NoError(t, os.Mkdir(in, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m.json"), []byte(double), 0o666))
	write := func(name string, data ...float32) {
		x := tensor.Must(tensor.FromSlice(data, len(data)))
		require.NoError(t, npz.WriteFile(filepath.Join(in, name), []npz.Entry{{Name: "x", Tensor: x}}))
	}
	write("a.npz", 1, 2, 3)
	write("b.npz", 4, 5, 6)

	code, _, stderr := call(t)
	assert.Equal(t, 2, code)
	assert.Contains(t, stderr, "--model, --inputs and --outputs are required")
	code, _, stderr = call(t, "model", filepath.Join(dir, "m.json"), "inputs", filepath.Join(in, "*.txt"), "outputs", out)
	assert.Equal(t, 2, code)
	assert.Contains(t, stderr, "no file matches")

	code, stdout, stderr := call(t, "inputs", filepath.Join(in, "*"))
	assert.Equal(t, 0, code, stderr)
	assert.Equal(t, "done 2, failed 0\n", stdout)
	b, err := npz.ReadFile(filepath.Join(out, "b.npz"))
	require.NoError(t, err)
	assert.Equal(t, 12.0, b["y"].At(2).Float())

	write("c.npz", 1, 2)
	code, _, stderr = call(t)
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, `element "c": input "x"`)
	code, stdout, stderr = call(t, "failures", list)
	assert.Equal(t, 1, code, stderr)
	assert.Equal(t, "done 2, failed 1\n", stdout)
	text, err := os.ReadFile(list)
	require.NoError(t, err)
	assert.Contains(t, string(text), `c: input "x"`)

	write("a.npy", 1)
	code, _, stderr = call(t)
	assert.Equal(t, 2, code)
	assert.Contains(t, stderr, "would both be written to a.npz")
}
