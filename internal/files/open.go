// Package files opens files. Errors name the path and the cause, without the name of a system call.
package files

import (
	"io/fs"
	"os"
	"syscall"
)

// Open opens a regular file for reading, or a pipe, which can be read once. Folders and devices are refused.
func Open(path string) (*os.File, fs.FileInfo, error) { return open(path, fs.ModeNamedPipe) }

// OpenRegular opens a regular file for reading. Another kind of file is refused before it is opened: opening a pipe
// waits for a writer.
func OpenRegular(path string) (*os.File, fs.FileInfo, error) { return open(path, 0) }

// open opens a file that is regular or of an accepted type. The file is examined before it is opened, and again
// afterwards, since the path may have changed between.
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
