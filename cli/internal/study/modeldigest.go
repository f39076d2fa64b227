package study

import (
	"bytes"
	"context"
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

// digestOfModel returns the digest of a model. This is the sha256 of its file or, if the model has weights in other
// files, the sha256 of the names and digests of all its files. If the model cannot be loaded, it returns the sha256 of
// its file, and the tasks of the model fail later.
func digestOfModel(ext *command.Extensions, path string) (string, error) {
	digest, mayHaveOtherFiles, err := digestOfFile(path)
	if err != nil || !mayHaveOtherFiles {
		return digest, err
	}
	// Loading records the files that are opened.
	opened, name := files.Record(os.DirFS(filepath.Dir(path))), filepath.Base(path)
	if _, err = (graphrun.Loader{FS: opened, Lookup: ext.Lookup, Operators: ext.Operators}).Load(context.Background(), name); err != nil {
		return digest, nil
	}
	return opened.Digest(name)
}

// digestOfFile returns the sha256 of a file in hexadecimal digits. mayHaveOtherFiles reports whether the file may refer
// to other files. An ONNX model refers to another file by an entry with the key "location".
func digestOfFile(path string) (digest string, mayHaveOtherFiles bool, err error) {
	f, _, err := files.OpenRegular(path)
	if err != nil {
		return "", false, exit.UsageError(err)
	}
	defer f.Close()
	hash, locationFinder := sha256.New(), &textFinder{text: []byte("location")}
	if _, err := io.Copy(io.MultiWriter(hash, locationFinder), f); err != nil {
		return "", false, err
	}
	return hex.EncodeToString(hash.Sum(nil)), locationFinder.found || !strings.EqualFold(filepath.Ext(path), ".onnx"), nil
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
		border := append(f.tail, b[:min(len(b), len(f.text))]...) // has a text that is divided between two writes
		f.found = bytes.Contains(b, f.text) || bytes.Contains(border, f.text)
		last := border
		if len(b) >= len(f.text) {
			last = b
		}
		f.tail = bytes.Clone(last[max(0, len(last)-len(f.text)+1):]) // at most len(f.text)-1 bytes
	}
	return len(b), nil
}
