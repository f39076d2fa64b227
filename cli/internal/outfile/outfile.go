// Package outfile writes the files that flags of commands name. [Write] is atomic: it replaces a file as a whole or not
// at all.
package outfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/files"
)

// CheckWritable returns an error if the file at path, the value of a flag, cannot be written. If extensions such as
// .html are given, the path must have one of them. An empty path is accepted. Commands call CheckWritable before they
// compute the content of the file.
func CheckWritable(flag, path string, extensions ...string) error {
	if path == "" {
		return nil
	}
	if len(extensions) > 0 && !slices.Contains(extensions, filepath.Ext(path)) {
		return exit.UsageErrorf("%s %s: the file must have the extension %s", flag, path, strings.Join(extensions, " or "))
	}
	if err := tryWriting(path); err != nil {
		return exit.UsageErrorf("%s %s: %w", flag, path, err)
	}
	return nil
}

// tryWriting returns an error if the file at path cannot be written. It changes no existing file, and leaves no new
// file.
func tryWriting(path string) error {
	path = followLink(path)
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return errors.New("the path is a folder, not a file")
	case err == nil && !info.Mode().IsRegular():
		return nil // a pipe or a device: opening it may block
	case err == nil:
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return Cause(err)
		}
		return f.Close()
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the folder %s does not exist", dir)
	} else if err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	f, err := createInFolderOf(path)
	if err != nil {
		return Cause(err)
	}
	f.Close()
	return os.Remove(f.Name())
}

// Cause removes the path and the system call from an error of the operating system.
func Cause(err error) error {
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	switch {
	case errors.As(err, &linkErr): // os.Rename returns this type
		return Cause(&fs.PathError{Path: linkErr.New, Err: linkErr.Err})
	case !errors.As(err, &pathErr):
		return err
	case errors.Is(err, fs.ErrNotExist): // callers know that the folder exists, but it accepts no new file, as in /proc
		return errors.New("no file can be created in this folder")
	}
	return errors.New(strings.TrimPrefix(files.Reword("", pathErr).Error(), pathErr.Path+": "))
}

// followLink follows a symbolic link to a file that does not exist yet. It returns other paths unchanged.
func followLink(path string) string {
	for range 40 { // Linux also follows at most 40 links
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return path
}

// createInFolderOf creates a file in the folder of path. The name of the file is path with a random suffix.
func createInFolderOf(path string) (*os.File, error) {
	const maxTries = 100
	for try := 1; ; try++ {
		name := fmt.Sprintf("%s.%08x", path, rand.Uint32())
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) || try == maxTries {
			return f, err
		}
	}
}

// Write writes the file at path. writeContent writes its content. After an error, or if ctx ends, an existing file is
// unchanged. Links are followed. Pipes, devices, and files in folders without write permission are written in place,
// and may then be incomplete after an error.
func Write(ctx context.Context, path string, writeContent func(io.Writer) error) error {
	err := replaceFile(ctx, path, writeContent)
	if err == nil || ctx.Err() != nil {
		return exit.InterruptErrorOr(ctx, err)
	}
	return fmt.Errorf("%s: %w", path, Cause(err))
}

// replaceFile writes a temporary file in the same folder and renames it to path. If that is not possible, it writes the
// file at path in place.
func replaceFile(ctx context.Context, path string, writeContent func(io.Writer) error) error {
	path = followLink(path) // only links to missing files; EvalSymlinks follows other links
	old, err := os.Stat(path)
	if err == nil && !old.Mode().IsRegular() {
		return writeInPlace(ctx, path, writeContent)
	}
	target := path
	if err == nil {
		if target, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	f, err := createInFolderOf(target)
	if errors.Is(err, fs.ErrPermission) && old != nil {
		return writeInPlace(ctx, path, writeContent)
	}
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // removes the temporary file after an error; after the rename, it no longer exists
	err = writeAndClose(ctx, f, writeContent)
	if err == nil && old != nil {
		err = os.Chmod(f.Name(), old.Mode().Perm())
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), target)
}

// writeInPlace overwrites the file at path.
func writeInPlace(ctx context.Context, path string, writeContent func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	return writeAndClose(ctx, f, writeContent)
}

// writeAndClose writes f through a buffer, and closes f. It fails after ctx has ended.
func writeAndClose(ctx context.Context, f *os.File, writeContent func(io.Writer) error) error {
	w := bufio.NewWriterSize(Until(ctx, f), 1<<16)
	err := writeContent(w)
	if err == nil {
		err = w.Flush()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// Until returns a writer that writes to dst until ctx ends, and then fails with the cause of ctx.
func Until(ctx context.Context, dst io.Writer) io.Writer { return contextWriter{ctx, dst} }

// contextWriter is the writer of [Until].
type contextWriter struct {
	ctx context.Context
	dst io.Writer
}

// Write writes b unless the context has ended.
func (c contextWriter) Write(b []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.dst.Write(b)
}
