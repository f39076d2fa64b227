package serve

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// TestDataOutsideTheFolder: a model cannot read a data file that a symbolic link has outside its folder.
func TestDataOutsideTheFolder(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "w.npy")
	var data bytes.Buffer
	require.NoError(t, npz.WriteNPY(&data, tensor.Zeros(tensor.Float32, 2)))
	require.NoError(t, os.WriteFile(outside, data.Bytes(), 0o666))
	path := writeModel(t, filepath.Join(t.TempDir(), "m.json"), `{"version": 1, "inputs": [{"name": "x", "dtype":
		"float32", "shape": [2]}], "constants": [{"name": "w", "dtype": "float32", "shape": [2], "file": "w.npy"}],
		"nodes": [{"name": "y", "op": "add", "inputs": ["x", "w"]}], "outputs": ["y"]}`)
	link := filepath.Join(filepath.Dir(path), "w.npy")
	if err := os.Symlink(outside, link); err != nil {
		t.Skip(err)
	}
	_, err := Open(t.Context(), []string{path}, Options{Log: quiet()})
	require.ErrorContains(t, err, "outside the folder")
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Rename(outside, link))
	open(t, Options{}, path)
}

// TestReloadWithDuplicates: a second path of a version is logged once, its predecessor continues, and other models are
// reloaded.
func TestReloadWithDuplicates(t *testing.T) {
	var log bytes.Buffer
	dir := t.TempDir()
	writeModel(t, filepath.Join(dir, "m.json"), affine)
	s := open(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, dir)
	writeModel(t, filepath.Join(dir, "m", "model.json"), mixing)
	writeModel(t, filepath.Join(dir, "n.json"), affine)
	for range 4 {
		require.NoError(t, s.Reload(t.Context()))
	}
	assert.Equal(t, 1, strings.Count(log.String(), "are both model"))
	body, header := binaryRequest([]float32{1, 2, 3}, 1, 3)
	for _, model := range []string{"m", "n"} {
		w := call(s, "POST", "/v2/models/"+model+"/infer", body, header...)
		assert.Equal(t, []float32{3, 5, 7}, floatsOf(t, w))
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "m.json")))
	for range 2 {
		require.NoError(t, s.Reload(t.Context()))
	}
	w := call(s, "POST", "/v2/models/m/infer", body, header...)
	assert.Equal(t, []float32{0, 0, 0}, floatsOf(t, w))
}
