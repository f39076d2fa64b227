package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.WriteFile(there, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	for path, want := range map[string]string{
		there:   "",
		dir:     dir + ": this is a folder, not a file",
		missing: missing + ": there is no such file",
	} {
		f, info, err := OpenRegular(path)
		if err == nil {
			if info.Size() != 1 || want != "" {
				t.Errorf("%s: opened", path)
			}
			f.Close()
		} else if err.Error() != want {
			t.Errorf("%s: %q, want %q", path, err, want)
		}
	}
	if _, _, err := Open(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
	if _, _, err := OpenRegular(os.DevNull); err == nil {
		t.Error("a device was opened")
	}
}
