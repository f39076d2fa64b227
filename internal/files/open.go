// Package files opens files with errors in plain words: the path, and what is the matter,
// without the name of the system's call.
package files

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/graphrun/graphrun/internal/words"
)

// Open opens a file for reading. A folder is refused.
func Open(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, Plain(path, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = Plain(path, err)
	case info.IsDir():
		err = fmt.Errorf("%s: this is a folder, not a file", path)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// OpenRegular is Open for what is read here and there, which pipes and devices do not
// allow.
func OpenRegular(path string) (*os.File, fs.FileInfo, error) {
	f, info, err := Open(path)
	if err == nil && !info.Mode().IsRegular() {
		f.Close()
		return nil, nil, fmt.Errorf("%s: not a regular file", path)
	}
	return f, info, err
}

// Plain is an error about the file at path in plain words: see [words.InFile].
func Plain(path string, err error) error { return words.InFile(path, err) }
