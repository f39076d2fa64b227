package files

import (
	"path/filepath"
	"syscall"
	"testing"
)

// Opening a pipe waits for a writer, so a pipe must be rejected before it is opened.
func TestOpenRegularRefusesPipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenRegular(path); err == nil || err.Error() != path+": not a regular file" {
		t.Errorf("got %v", err)
	}
	if _, _, err := Open("/dev/zero"); err == nil || err.Error() != "/dev/zero: not a regular file" {
		t.Errorf("got %v", err)
	}
}
