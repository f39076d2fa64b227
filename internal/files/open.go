// Package files opens files. Errors name the path and the cause, without the name of a system call.
package files

import (
	"io/fs"
	"os"
	"syscall"
)

// Open opens a regular file or a pipe for reading. Folders and devices are rejected. A pipe can be read once.
func Open(path string) (*os.File, fs.FileInfo, error) { return open(path, fs.ModeNamedPipe) }

// OpenRegular opens a regular file for reading. Other kinds of files are rejected before they are opened,
// because opening a pipe waits for a writer.
func OpenRegular(path string) (*os.File, fs.FileInfo, error) { return open(path, 0) }

// open opens a file that is regular or of an accepted type. The type is checked before opening, and again
// after it, because the path may have changed in between.
func open(path string, accepted fs.FileMode) (*os.File, fs.FileInfo, error) {
	check := func(info fs.FileInfo, err error) error {
		switch {
		case err != nil:
			return InFile(path, err)
		case info.IsDir():
			return &fileError{path, "this is a folder, not a file", syscall.EISDIR}
		case info.Mode().Type()&^accepted != 0:
			return &fileError{path, "not a regular file", nil}
		}
		return nil
	}
	if err := check(os.Stat(path)); err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, InFile(path, err)
	}
	info, err := f.Stat()
	if err := check(info, err); err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}
