package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/exit"
)

// weighty has a weight of 64 KiB, from a file.
func weighty(t *testing.T) string {
	t.Helper()
	path := write(t, "weighty.json", `{"version": 1, "symbols": {"N": {}},
		"inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 128]}],
		"constants": [{"name": "w", "dtype": "float32", "shape": [128, 128], "file": "w.npy"}],
		"nodes": [{"name": "y", "op": "linear", "inputs": ["x", "w"]}], "outputs": ["y"]}`)
	header := "{'descr': '<f4', 'fortran_order': False, 'shape': (128, 128), }"
	data := "\x93NUMPY\x01\x00v\x00" + header + strings.Repeat(" ", 117-len(header)) + "\n" +
		strings.Repeat("\x00\x00\x80\x3f", 128*128)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "w.npy"), []byte(data), 0o600))
	return path
}

func TestCacheFlag(t *testing.T) {
	path, dir := weighty(t), filepath.Join(t.TempDir(), "cache")
	want := call(t, "run", path, "--dim", "N=4")
	require.Equal(t, 0, want.code, want.errors)
	for range 2 {
		assert.Equal(t, want, call(t, "run", path, "--dim", "N=4", "--cache", dir))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.entry"))
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(files), 3, "the weight, its packed form and the plan")
	assert.Equal(t, 0, call(t, "bench", path, "--dim", "N=4", "--runs", "1", "--cache", dir).code)

	r := call(t, "run", path, "--dim", "N=4", "--cache", path)
	assert.Equal(t, 0, r.code)
	assert.Equal(t, want.out, r.out)
	assert.Equal(t, 1, strings.Count(r.errors, "nothing more is stored"), r.errors)

	assert.Equal(t, exit.CodeUsage, call(t, "run", path, "--cache-size", "5").code)
	assert.Equal(t, exit.CodeUsage, call(t, "run", path, "--cache", dir, "--cache-size", "0").code)
}

func TestCacheOfBatch(t *testing.T) {
	path, dir := weighty(t), t.TempDir()
	row := strings.Repeat("1,", 127) + "1\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.csv"), []byte(row), 0o600))
	var outputs [][]byte
	cache := filepath.Join(dir, "cache")
	for i, flags := range [][]string{nil, {"--cache", cache}, {"--cache", cache}} {
		out := filepath.Join(dir, fmt.Sprint("out", i))
		r := call(t, append([]string{"batch", path, "--inputs", filepath.Join(dir, "*.csv"), "--outputs", out}, flags...)...)
		require.Equal(t, 0, r.code, r.errors)
		data, err := os.ReadFile(filepath.Join(out, "a.npz"))
		require.NoError(t, err)
		outputs = append(outputs, data)
	}
	assert.Equal(t, outputs[0], outputs[1])
	assert.Equal(t, outputs[0], outputs[2])
	files, err := filepath.Glob(filepath.Join(cache, "*.entry"))
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(files), 3, "the weight, its packed form and the plan")
	r := call(t, "batch", path, "--inputs", "*.csv", "--outputs", dir, "--cache-size", "5")
	assert.Equal(t, exit.CodeUsage, r.code)
}

// TestCacheOfProcesses starts processes that write the same entries at the same time.
func TestCacheOfProcesses(t *testing.T) {
	path, dir := weighty(t), filepath.Join(t.TempDir(), "cache")
	want := call(t, "run", path, "--dim", "N=4")
	var list []*exec.Cmd
	var outs [4]strings.Builder
	for i := range outs {
		p := process(t, "run", path, "--dim", "N=4", "--cache", dir)
		p.Stdout = &outs[i]
		require.NoError(t, p.Start())
		list = append(list, p)
	}
	for i, p := range list {
		require.NoError(t, p.Wait())
		assert.Equal(t, want.out, outs[i].String())
	}
	unfinished, err := filepath.Glob(filepath.Join(dir, "*.temp"))
	require.NoError(t, err)
	assert.Empty(t, unfinished)
}

// TestCacheOnFullDisk limits the size of files, so that writes fail as on a full disk.
func TestCacheOnFullDisk(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell to set limits with")
	}
	path, dir := weighty(t), filepath.Join(t.TempDir(), "cache")
	p := process(t, "run", path, "--dim", "N=4", "--cache", dir)
	p.Args = append([]string{"sh", "-c", `ulimit -f 8 && exec "$0" "$@"`, p.Path}, p.Args[1:]...)
	p.Path = sh
	text, err := p.CombinedOutput()
	require.NoError(t, err, "%s", text)
	assert.Contains(t, string(text), "nothing more is stored")
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	assert.Empty(t, files, fmt.Sprint("the failed file is removed: ", files))
}
