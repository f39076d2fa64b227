// Package files opens the files that users name: regular files, pipes, and files within the folder of a model
// ([Folder]). Paths cannot leave this folder. The package decodes JSON, and computes digests of all files that a load
// has read ([Recorder]). Errors name the path and the cause, without the name of a system call or of a Go type.
package files

import (
	"io/fs"
	"os"
	"syscall"
)

// Open opens a regular file or a pipe for reading. It rejects folders and devices. A pipe can be read once.
func Open(path string) (*os.File, fs.FileInfo, error) { return open(path, fs.ModeNamedPipe) }

// OpenRegular opens a regular file for reading. It rejects a pipe without opening it, because opening a pipe waits for
// a writer.
func OpenRegular(path string) (*os.File, fs.FileInfo, error) { return open(path, 0) }

// open opens a file that is regular or of an accepted type. It checks the type before and after opening, because the
// file at the path may be replaced in between.
func open(path string, accepted fs.FileMode) (*os.File, fs.FileInfo, error) {
	check := func(info fs.FileInfo, err error) error {
		switch {
		case err != nil:
			return WithPath(path, err)
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
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, WithPath(path, err)
	}
	info, err := file.Stat()
	if err := check(info, err); err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}
