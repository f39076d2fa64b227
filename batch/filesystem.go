package batch

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// fileSystem has the operations that write results. Tests use another fileSystem that injects errors.
type fileSystem interface {
	// create creates a new file.
	create(path string) (outputFile, error)
	// openAppend opens a file at its end, and creates it if it does not exist.
	openAppend(path string) (outputFile, error)
	rename(from, to string) error
	// remove removes a file, if it exists.
	remove(path string) error
	makeDirectory(path string) error
	// syncDirectory makes created, renamed and removed entries of a directory durable.
	syncDirectory(path string) error
}

// outputFile is a file that is written. Sync makes its contents durable.
type outputFile interface {
	io.WriteCloser
	Sync() error
}

// disk is the file system of the operating system.
type disk struct{}

func (disk) create(path string) (outputFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

func (disk) openAppend(path string) (outputFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
}

func (disk) rename(from, to string) error { return os.Rename(from, to) }

func (disk) remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (disk) makeDirectory(path string) error {
	err := os.Mkdir(path, 0o777)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// syncDirectory makes the names of the files in a directory durable, if the system supports this.
func (disk) syncDirectory(path string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced
	}
	d, err := os.Open(path)
	if errors.Is(err, os.ErrPermission) {
		return nil // the directory may be written but not read, so it cannot be opened and synced
	}
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		return nil // some network file systems cannot sync directories
	}
	return err
}

// filesIn returns the paths of the entries of a directory.
func filesIn(dir string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	return paths, err
}
