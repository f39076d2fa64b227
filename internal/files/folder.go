package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

// Folder is the folder of a graph's data files, on disk or in an [fs.FS]. Files outside the folder are rejected. The
// zero Folder has no files.
type Folder struct {
	fsys  fs.FS  // nil for a folder on disk
	dir   string // empty for no folder
	owner string // names the graph in errors, such as "the model"
}

// FolderOf returns the folder dir of a file system, or the folder dir on disk if fsys is nil. If dir is empty, the
// Folder has no files. Errors call the folder "the folder of OWNER". An owner is, for example, "the model".
func FolderOf(fsys fs.FS, dir, owner string) Folder { return Folder{fsys, dir, owner} }

// OnDisk returns the path of a folder on disk. It returns false for any other folder.
func (f Folder) OnDisk() (string, bool) { return f.dir, f.fsys == nil && f.dir != "" }

// Path returns the path of a file, for [Folder.Open]. name is the path of the file in the folder, with elements
// separated by slashes. Path rejects a name that leaves the folder by "..". On disk, it also resolves symbolic links,
// and rejects links that leave the folder.
func (f Folder) Path(name string) (string, error) {
	outside := fmt.Errorf("file %q is outside the folder of %s", name, f.owner)
	local := filepath.FromSlash(name)
	switch {
	case f.dir == "":
		return "", fmt.Errorf("file %q cannot be opened: %s was loaded without a folder of files", name, f.owner)
	case !filepath.IsLocal(local):
		return "", outside
	case f.fsys != nil:
		return path.Join(f.dir, name), nil
	}
	root, resolved, err := f.resolve(name, local)
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(root, resolved); err != nil || !filepath.IsLocal(rel) {
		return "", outside
	}
	return resolved, nil
}

// resolve returns the absolute paths of a folder on disk, and of the file at dir/local, without symbolic links. name is
// the file's name in errors.
func (f Folder) resolve(name, local string) (root, resolved string, err error) {
	if root, err = filepath.EvalSymlinks(f.dir); err != nil {
		return "", "", Reword(name, err)
	}
	resolved = filepath.Join(root, local)
	if _, err := os.Stat(resolved); errors.Is(err, syscall.ELOOP) { // EvalSymlinks does not return ELOOP
		return "", "", Reword(name, err)
	}
	if resolved, err = filepath.EvalSymlinks(resolved); err != nil {
		return "", "", Reword(name, err)
	}
	if root, err = filepath.Abs(root); err != nil {
		return "", "", err
	}
	resolved, err = filepath.Abs(resolved)
	return root, resolved, err
}

// Open opens a regular file. path is a result of [Folder.Path]. The errors name the path.
func (f Folder) Open(path string) (File, error) {
	if f.fsys == nil {
		file, info, err := OpenRegular(path)
		if err != nil {
			return File{}, err
		}
		return File{file, info.Size(), file}, nil
	}
	return OpenFS(f.fsys, path)
}

// File is an open file of known size.
type File struct {
	io.ReaderAt
	Size   int64
	closer io.Closer
}

// Close closes the file.
func (f File) Close() error { return f.closer.Close() }

// Reader returns a reader of the whole file.
func (f File) Reader() *io.SectionReader { return io.NewSectionReader(f, 0, f.Size) }

// OpenFS opens a regular file of a file system. A file without [io.ReaderAt] is read into memory. The errors name the
// file.
func OpenFS(fsys fs.FS, name string) (_ File, err error) {
	if !fs.ValidPath(name) {
		return File{}, fmt.Errorf("%s: not a path of a file system: want elements separated by slashes, without a "+
			"leading slash, \".\" and \"..\"", name)
	}
	file, err := fsys.Open(name)
	if err != nil {
		return File{}, WithPath(name, err)
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	info, err := file.Stat()
	switch {
	case err != nil:
		return File{}, WithPath(name, err)
	case info.IsDir():
		return File{}, &fileError{name, "this is a folder, not a file", syscall.EISDIR}
	case !info.Mode().IsRegular():
		return File{}, &fileError{name, "not a regular file", nil}
	}
	if readerAt, ok := file.(io.ReaderAt); ok {
		return File{readerAt, info.Size(), file}, nil
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return File{}, WithPath(name, err)
	}
	return File{bytes.NewReader(data), int64(len(data)), file}, nil
}

// Contents makes the unread part of a reader available for random access. If the reader cannot seek, its data are read
// into memory. If ctx ends first, Contents returns the cause of ctx. A nil ctx never ends.
func Contents(ctx context.Context, r io.Reader) (*io.SectionReader, error) {
	if seeker, ok := r.(interface {
		io.ReaderAt
		io.Seeker
	}); ok {
		if start, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			end, err := seeker.Seek(0, io.SeekEnd)
			if err == nil {
				return io.NewSectionReader(seeker, start, end-start), nil
			}
		}
	}
	if ctx == nil {
		ctx = context.Background()
	}
	data, err := io.ReadAll(contextReader{ctx, r})
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))), nil
}
