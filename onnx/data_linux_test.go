package onnx

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestExternalDataIsNoPipe checks that external data in a pipe is rejected. Opening a pipe without a writer blocks.
func TestExternalDataIsNoPipe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	result := make(chan error, 1)
	go func() {
		_, err := loadFrom(t, dir, externalModel("pipe", "0", "8"))
		result <- err
	}()
	select {
	case err := <-result:
		require.ErrorContains(t, err, "pipe: not a regular file")
	case <-time.After(time.Minute):
		t.Fatal("Open waits for a writer of the pipe")
	}
}

// TestExternalDataInACircle checks the error for a cycle of links.
func TestExternalDataInACircle(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink("loop.bin", filepath.Join(dir, "loop.bin")))
	_, err := loadFrom(t, dir, externalModel("loop.bin", "0", "8"))
	require.ErrorContains(t, err, "loop.bin: its symbolic links form a cycle")
}
