package study

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/sorted"
)

// digestOfModel returns the digest of a model: the sha256 of its file or, if the model has weights in other files, the
// sha256 of the names and digests of all its files. A model that cannot be loaded has the digest of its file, because
// its task fails.
func digestOfModel(ext *command.Extensions, path string) (string, error) {
	digest, external, err := digestOfFile(path)
	if err != nil || !external {
		return digest, err
	}
	folder := filepath.Dir(path)
	opened := openedFiles{os.DirFS(folder), map[string]bool{}}
	_, err = graphrun.Loader{FS: opened, Lookup: ext.Lookup, Operators: ext.Operators}.Load(filepath.Base(path))
	delete(opened.names, filepath.Base(path))
	if err != nil || len(opened.names) == 0 {
		return digest, nil
	}
	h := sha256.New()
	fmt.Fprintln(h, digest)
	for _, name := range sorted.Keys(opened.names) {
		if digest, _, err = digestOfFile(filepath.Join(folder, filepath.FromSlash(name))); err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q %s\n", name, digest)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// openedFiles is a file system that records the names of opened files.
type openedFiles struct {
	fs.FS
	names map[string]bool
}

// Open opens and records a file.
func (o openedFiles) Open(name string) (fs.File, error) {
	f, err := o.FS.Open(name)
	if err == nil {
		o.names[name] = true
	}
	return f, err
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
		end := append(f.tail, b[:min(len(b), len(f.text))]...) // across the boundary of two writes
		f.found = bytes.Contains(b, f.text) || bytes.Contains(end, f.text)
		if len(b) >= len(f.text) {
			end = b
		}
		f.tail = bytes.Clone(end[max(0, len(end)-len(f.text)+1):])
	}
	return len(b), nil
}
