package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFilesInPlainWords(t *testing.T) {
	dir := t.TempDir()
	_, missing := os.Open(filepath.Join(dir, "none.json"))
	_, folder := os.ReadFile(dir)
	_, link := filepath.EvalSymlinks(filepath.Join(dir, "none"))
	odd := errors.New("odd")
	for _, c := range []struct {
		path string
		err  error
		want string
		is   error
	}{
		{"none.json", missing, "none.json: there is no such file", fs.ErrNotExist},
		{"", missing, filepath.Join(dir, "none.json") + ": there is no such file", fs.ErrNotExist},
		{"here", folder, "here: it is a folder, not a file", nil},
		{"w.npy", link, "w.npy: there is no such file", fs.ErrNotExist},
		{"f", odd, "odd", odd},
		{"f", &fs.PathError{Op: "read", Path: "g", Err: odd}, "f: odd", odd},
	} {
		got := Reword(c.path, c.err)
		if got.Error() != c.want || c.is != nil && !errors.Is(got, c.is) {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
	if Reword("x", nil) != nil {
		t.Error("nil is an error")
	}
}

func TestKinds(t *testing.T) {
	for data, want := range map[string]string{"PK\x03\x04..": "zip archive",
		"version https://git-lfs.github.com/spec/v1": "git lfs pull",
		"\x1f\x8b\x08": "gzip", "": "", "\x08\x07\x12": ""} {
		if got := Kind([]byte(data)); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q: got %q, want %q", data, got, want)
		}
	}
}
