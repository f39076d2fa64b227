package outfile

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWriteWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.txt")
	says := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, _ = io.WriteString(w, text)
			return err
		}
	}
	if err := Write(t.Context(), path, says("first", nil)); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "first", 1)
	if err := os.Chmod(path, 0o604); err != nil {
		t.Fatal(err)
	}
	err := Write(t.Context(), path, says(strings.Repeat("half", 1<<16), errors.New("the disk is full")))
	if err == nil || err.Error() != path+": the disk is full" {
		t.Errorf("got %v", err)
	}
	holds(t, path, "first", 1)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Write(ended, path, says("late", nil)); err == nil {
		t.Error("it is written after the end")
	}
	holds(t, path, "first", 1)
	link := filepath.Join(t.TempDir(), "link.txt")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := Write(t.Context(), link, says("second", nil)); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "second", 1)
	st, err := os.Lstat(link)
	if err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v: the link is gone", err)
	}
	if st, err = os.Stat(path); err != nil || st.Mode().Perm() != 0o604 {
		t.Errorf("%v: rights are %v", err, st.Mode())
	}
	if err := Write(t.Context(), os.DevNull, says("nothing", nil)); err != nil {
		t.Error(err)
	}
}

// holds checks what files a folder has, and what one of them says.
func holds(t *testing.T, path, text string, files int) {
	t.Helper()
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	got, err := os.ReadFile(path)
	if err != nil || string(got) != text || len(left) != files {
		t.Errorf("%s holds %q, %v, want %q; there are %v", path, got, err, text, left)
	}
}
