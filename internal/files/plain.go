package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/graphrun/graphrun/internal/printable"
)

// fileError is an error of a file. Its text is for users, without the name of a system call.
type fileError struct {
	path, text string
	err        error // the system's error, or nil
}

// Error returns "PATH: text".
func (e *fileError) Error() string {
	if e.path == "" {
		return e.text
	}
	return printable.Text(e.path) + ": " + e.text
}

// Unwrap returns the system's error, for errors.Is.
func (e *fileError) Unwrap() error { return e.err }

// systemTexts maps errors of the operating system to texts for users.
var systemTexts = []struct {
	cause error
	text  string
}{
	{fs.ErrNotExist, "there is no such file"},
	{fs.ErrPermission, "it may not be opened: permission is denied"},
	{fs.ErrExist, "it already exists"},
	{syscall.EISDIR, "it is a folder, not a file"},
	{syscall.ENOTDIR, "a part of the path is a file, not a folder"},
	{syscall.ENOSPC, "the disk is full"},
	{syscall.EROFS, "it is on a file system that cannot be written"},
	{syscall.EMFILE, "too many files are open"},
	{syscall.ELOOP, "its symbolic links form a cycle"},
	{syscall.ENAMETOOLONG, "its name is too long"},
	{syscall.EIO, "the disk could not be read"},
}

// Reword rewords an error of the operating system for users. errors.Is still finds the cause. path is the name by which
// the user named the file. If path is empty, the path in the error is used. Reword returns nil and all other errors
// unchanged.
func Reword(path string, err error) error {
	var pathErr *fs.PathError
	var reworded *fileError
	if err == nil {
		return nil
	}
	if errors.As(err, &reworded) && path != "" {
		return &fileError{path, reworded.text, reworded.err}
	}
	if errors.As(err, &pathErr) {
		if path == "" {
			path = pathErr.Path
		}
	} else if path == "" {
		return err
	}
	for _, known := range systemTexts {
		if errors.Is(err, known.cause) {
			return &fileError{path, known.text, err}
		}
	}
	if pathErr != nil {
		return &fileError{path, pathErr.Err.Error(), err}
	}
	return err
}

// WithPath prefixes an error from reading a file with the file's path. [Reword] rewords errors of the operating system.
func WithPath(path string, err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return Reword(path, err)
	}
	return fmt.Errorf("%s: %w", printable.Text(path), err)
}

// kindsByPrefix maps the first bytes of a file to a text about the kind of file, for messages.
var kindsByPrefix = []struct{ prefix, text string }{
	{"version https://git-lfs", "it is a pointer of Git LFS: git lfs pull fetches the file itself"},
	{"PK\x03\x04", "it is a zip archive, as .npz files and PyTorch's .pt files are"},
	{"\x1f\x8b", "it is compressed by gzip: unpack it first"},
	{"\x93NUMPY", "it is an .npy array"},
	{"\x89HDF", "it is an HDF5 file"},
	{"\x80\x02", "it is a Python pickle"},
	{"\x80\x04", "it is a Python pickle"},
	{"\x7fELF", "it is a program"},
	{"<!DOCTYPE", "it is an HTML page"},
	{"<html", "it is an HTML page"},
	{"{", "it starts as a JSON file does"},
}

// Kind returns a text for messages about a file of the wrong kind. The text describes the kind, which the first bytes
// determine. It is empty for an unknown kind.
func Kind(data []byte) string {
	for _, kind := range kindsByPrefix {
		if bytes.HasPrefix(data, []byte(kind.prefix)) {
			return kind.text
		}
	}
	return ""
}
