package words

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"relu", "relu6", "add", "adaptive_avg_pool2d", "padding", "stride", "x", "c", "to"}
	for name, want := range map[string]string{
		"rlu": "relu", "ReLU": "relu", "relu7": "relu", "sad": "", "dad": "add", "paddin": "padding", "padidng": "padding",
		"adaptive_avgpool": "adaptive_avg_pool2d", "cc": "c", "z": "", "qq": "", "strides": "stride", "scaffold": "", "": "", "ot": "to",
	} {
		if got := Nearest(name, slices.Values(names)); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "", 2}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"relu", "rlu", 1}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestManyNamesAreNotCompared(t *testing.T) {
	seen := 0
	Nearest("name", func(yield func(string) bool) {
		for yield("other") {
			seen++
		}
	})
	if seen != maxNames {
		t.Errorf("%d names were compared", seen)
	}
}

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
		got := OfFile(c.path, c.err)
		if got.Error() != c.want || c.is != nil && !errors.Is(got, c.is) {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
	if OfFile("x", nil) != nil {
		t.Error("nil is an error")
	}
}

func TestKinds(t *testing.T) {
	for data, want := range map[string]string{"PK\x03\x04..": "zip archive", "version https://git-lfs.github.com/spec/v1": "git lfs pull",
		"\x1f\x8b\x08": "gzip", "": "", "\x08\x07\x12": ""} {
		if got := Kind([]byte(data)); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q: got %q, want %q", data, got, want)
		}
	}
}
