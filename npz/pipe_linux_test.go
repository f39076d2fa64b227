package npz

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestPipesAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(path string) error { _, err := Open(path); return err }
	npy := func(path string) error { _, err := ReadNPYFile(path); return err }
	meta := func(path string) error { _, err := NPYFileMeta(path); return err }
	for _, read := range []func(string) error{open, npy, meta} {
		if err := read(path); err == nil || !strings.HasSuffix(err.Error(), "not a regular file") {
			t.Errorf("got %v", err)
		}
	}
}
