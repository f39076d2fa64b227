// Package files opens files and says in plain words what is the matter with one: the path,
// and the cause without the name of the system's call.
package files

import (
	"fmt"
	"io/fs"
	"os"
)

// Open opens a file for reading. A folder is refused.
func Open(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, InFile(path, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = InFile(path, err)
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
