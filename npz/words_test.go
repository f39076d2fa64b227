package npz

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

// TestFilesThatCannotBeRead has every message that a library or the system begins.
func TestFilesThatCannotBeRead(t *testing.T) {
	var b bytes.Buffer
	if err := WriteNPZ(&b, []Entry{{"a", tensor.Zeros(tensor.Float32, 100)}}); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1 // among the data, which the checksum covers
	for want, data := range map[string][]byte{
		"it is not an .npz archive, or only the beginning of one":      []byte("no archive"),
		"it is not an .npz archive, or only the beginning of one\x00":  whole[:len(whole)-30],
		`entry "a": its data are damaged: the checksum does not agree`: flipped,
	} {
		path := filepath.Join(t.TempDir(), "x.npz")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadFile(path)
		if want := path + ": " + string(bytes.TrimSuffix([]byte(want), []byte{0})); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	dir := t.TempDir()
	for path, want := range map[string]string{filepath.Join(dir, "none.npz"): "there is no such file", dir: "not a regular file"} {
		if _, err := Open(path); err == nil || err.Error() != path+": "+want {
			t.Errorf("got %v, want %s: %s", err, path, want)
		}
	}
	if _, err := ReadNPYFile(filepath.Join(dir, "none.npy")); err == nil || err.Error() != filepath.Join(dir, "none.npy")+": there is no such file" {
		t.Error(err)
	}
	if _, err := ReadNPYFile(dir); err == nil || err.Error() != dir+": it is a folder, not a file" {
		t.Error(err)
	}
}
