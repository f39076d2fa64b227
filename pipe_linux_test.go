package graphrun_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
)

// A pipe is opened once, and waiting for its writer ends with the context.
func TestLoadFromPipes(t *testing.T) {
	for _, name := range []string{"pipe", "pipe.json", "pipe.onnx"} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, syscall.Mkfifo(path, 0o600))
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		_, err := graphrun.Load(ctx, path)
		assert.ErrorIs(t, err, context.Canceled, name)
		assert.ErrorContains(t, err, path+": the file was not read completely: ", name)
	}
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	wrote := make(chan error, 1)
	go func() {
		wrote <- os.WriteFile(path, []byte(`{"version": 1, "inputs": [], "nodes": [], "outputs": []}`), 0)
	}()
	_, err := graphrun.Load(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, <-wrote)
}
