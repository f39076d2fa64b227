package study

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/files"
)

// digestOfModel returns the digest of a model: the sha256 of its file or, if the model has weights in other files,
// the sha256 of the names and digests of all its files. The digest of a model that cannot be loaded is the digest of
// its file; the tasks of such a model fail later.
func digestOfModel(ext *command.Extensions, path string) (string, error) {
	digest, external, err := digestOfFile(path)
	if err != nil || !external {
		return digest, err
	}
	opened, name := files.Record(os.DirFS(filepath.Dir(path))), filepath.Base(path)
	if _, err = (graphrun.Loader{FS: opened, Lookup: ext.Lookup, Operators: ext.Operators}).Load(name); err != nil {
		return digest, nil
	}
	return opened.Digest(name)
}

// digestOfFile returns the sha256 of a file in hexadecimal digits. external reports whether the file may refer to other
// files. An ONNX model refers to another file by an entry with the key "location".
func digestOfFile(path string) (digest string, external bool, err error) {
	f, _, err := files.OpenRegular(path)
	if err != nil {
		return "", false, exit.UsageError(err)
	}
	defer f.Close()
	h, key := sha256.New(), &textFinder{text: []byte("location")}
	if _, err := io.Copy(io.MultiWriter(h, key), f); err != nil {
		return "", false, err
	}
	return hex.EncodeToString(h.Sum(nil)), key.found || !strings.EqualFold(filepath.Ext(path), ".onnx"), nil
}

// textFinder is a writer that looks for a text.
type textFinder struct {
	text  []byte
	tail  []byte // the end of the bytes written so far, shorter than text
	found bool
}

// Write looks for the text in the bytes written so far and b.
func (f *textFinder) Write(b []byte) (int, error) {
	if !f.found {
		end := append(f.tail, b[:min(len(b), len(f.text))]...) // finds a text that is divided between two writes
		f.found = bytes.Contains(b, f.text) || bytes.Contains(end, f.text)
		if len(b) >= len(f.text) {
			end = b
		}
		f.tail = bytes.Clone(end[max(0, len(end)-len(f.text)+1):])
	}
	return len(b), nil
}
