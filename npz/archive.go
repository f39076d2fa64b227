// Package npz reads and writes numpy's .npy and .npz files.
//
// [Open] opens an .npz file, which is a zip archive of .npy arrays. The arrays are stored or deflated. [Archive.Meta]
// reads the header of one array, and [Archive.Read] reads the array. [ReadFile] reads all arrays of an .npz file.
// [ReadNPY] and [ReadNPYFile] read a single .npy array. [WriteNPZ] and [WriteNPY] write archives and arrays.
//
// Files are not trusted. Sizes in headers are compared with the size of the entry before memory is allocated, and the
// size of the file bounds the allocated memory.
package npz

import (
	"archive/zip"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// maxRatio is the greatest compression ratio of deflate, according to the documentation of zlib.
const maxRatio = 1032

// Archive is an open .npz file. Methods other than Close may be called concurrently.
type Archive struct {
	path    string
	file    *os.File
	names   []string             // the keys of the arrays in the order of the archive: entry names without ".npy"
	entries map[string]*zip.File // by key
}

// Open opens the .npz file at path and reads its directory. The errors name the file.
func Open(path string) (*Archive, error) {
	f, info, err := files.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	a, err := NewArchive(path, f, info.Size())
	if err != nil {
		f.Close()
		return nil, err
	}
	a.file = f
	return a, nil
}

// NewArchive reads the directory of an .npz archive of size bytes. name identifies the file in errors. source must stay
// readable while the archive is in use. NewArchive rejects overlapping entries, because with overlaps a small file
// could contain many large arrays.
func NewArchive(name string, source io.ReaderAt, size int64) (*Archive, error) {
	if source == nil {
		return nil, fmt.Errorf("%s: the reader is nil", name)
	}
	directory, err := zip.NewReader(source, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, notArchiveError(source, size, err))
	}
	archive := &Archive{path: name, entries: make(map[string]*zip.File, len(directory.File))}
	spans := make([]span, 0, len(directory.File))
	for _, entry := range directory.File {
		if strings.HasSuffix(entry.Name, "/") {
			continue // a directory entry
		}
		key := strings.TrimSuffix(entry.Name, ".npy")
		if archive.entries[key] != nil {
			return nil, fmt.Errorf("%s: duplicate entry %q", name, key)
		}
		entrySpan, err := spanOf(entry, key, size)
		if err != nil {
			return nil, fmt.Errorf("%s: entry %q: %w", name, key, err)
		}
		spans = append(spans, entrySpan)
		archive.entries[key] = entry
		archive.names = append(archive.names, key)
	}
	if err := checkOverlap(spans); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return archive, nil
}

// span is the range of the bytes of an entry in the file.
type span struct {
	start, end int64
	key        string // of the entry
}

// spanOf returns the span of an entry, or an error if it exceeds the size of the file.
func spanOf(entry *zip.File, key string, fileSize int64) (span, error) {
	start, err := entry.DataOffset()
	if err != nil {
		return span{}, offsetError(err)
	}
	if entry.CompressedSize64 > uint64(fileSize) || start > fileSize-int64(entry.CompressedSize64) {
		return span{}, fmt.Errorf("%d bytes at %d reach past the end of the file", entry.CompressedSize64, start)
	}
	return span{start, start + int64(entry.CompressedSize64), key}, nil
}

// checkOverlap returns an error if an entry starts before the end of the previous entry. It sorts the spans.
func checkOverlap(spans []span) error {
	sorted.Func(spans, func(x, y span) int { return int(x.start - y.start) })
	for i := 1; i < len(spans); i++ {
		if spans[i].start < spans[i-1].end {
			return fmt.Errorf("entries %q and %q overlap", spans[i-1].key, spans[i].key)
		}
	}
	return nil
}

// Names returns the keys in the order of the archive, without ".npy", in a fresh slice.
func (a *Archive) Names() []string { return slices.Clone(a.names) }

// Read reads one array into fresh storage, as [ReadNPY] does, and verifies the checksum of the entry. The errors name
// file and entry.
func (a *Archive) Read(name string) (*tensor.Tensor, error) { return a.read(name, nil) }

// ReadAs reads one array, which must have the dtype and shape of want. If the array has another dtype or shape, ReadAs
// returns an error and reads no data. ReadAs allocates all memory first. If memory is short, it returns a
// [tensor.MemoryError] and reads no data.
func (a *Archive) ReadAs(name string, want tensor.Meta) (*tensor.Tensor, error) {
	return a.read(name, &want)
}

func (a *Archive) read(name string, want *tensor.Meta) (*tensor.Tensor, error) {
	entry, content, err := a.open(name)
	var t *tensor.Tensor
	if err == nil {
		defer content.Close()
		// The uncompressed size is only declared in the directory of the archive. Only the compressed bytes certainly
		// exist.
		t, err = readNPY(content, int64(entry.UncompressedSize64), int64(entry.CompressedSize64), want)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: entry %q: %w", a.path, name, rewordError(err))
	}
	return t, nil
}

// Meta returns dtype, shape and strides of one array. It reads and inflates only the array's header. The size that
// follows from the header must match the size of the entry in the archive's directory. The errors name file and entry.
func (a *Archive) Meta(name string) (tensor.Meta, error) {
	entry, content, err := a.open(name)
	var meta tensor.Meta
	if err == nil {
		defer content.Close()
		meta, _, err = readMeta(content, int64(entry.UncompressedSize64))
	}
	if err != nil {
		return meta, fmt.Errorf("%s: entry %q: %w", a.path, name, rewordError(err))
	}
	return meta, nil
}

// open checks the sizes of an entry in the directory, and opens the entry for reading.
func (a *Archive) open(name string) (*zip.File, io.ReadCloser, error) {
	entry := a.entries[name]
	if entry == nil {
		return nil, nil, errors.New("no such entry: " + files.KeysMessage(a.names))
	}
	const encrypted = 1
	if entry.Flags&encrypted != 0 {
		return nil, nil, errors.New("encrypted")
	}
	uncompressed, compressed := entry.UncompressedSize64, entry.CompressedSize64
	if entry.Method == zip.Store && uncompressed != compressed || uncompressed/maxRatio > compressed {
		return nil, nil, fmt.Errorf("claims %d bytes of data in %d compressed bytes", uncompressed, compressed)
	}
	content, err := entry.Open()
	return entry, content, rewordError(err)
}

// notArchiveError returns an error that names the kind of a file that is not a zip archive.
func notArchiveError(r io.ReaderAt, size int64, err error) error {
	var start [8]byte
	n, _ := r.ReadAt(start[:], 0)
	switch text := string(start[:n]); {
	case size == 0:
		return errors.New("the file is empty")
	case strings.HasPrefix(text, magic):
		return errors.New("this is a single .npy array, not an .npz archive")
	case strings.HasPrefix(text, "PK\x03\x04"):
		return errors.New("the .npz archive is truncated or damaged: its directory is missing")
	case errors.Is(err, zip.ErrFormat):
		return errors.New("not an .npz archive")
	}
	return rewordError(err)
}

// rewordError rewords errors of the zip and flate packages.
func rewordError(err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, zip.ErrChecksum):
		return errors.New("the data are damaged: their checksum differs from the archive's")
	case errors.Is(err, zip.ErrFormat), errors.As(err, &corrupt):
		return errors.New("the archive is damaged")
	case errors.Is(err, zip.ErrAlgorithm):
		return errors.New("unsupported compression method: want stored or deflated")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("truncated: the data end early")
	}
	return err
}

// offsetError rewords the error of [zip.File.DataOffset]. It returns an error of the operating system unchanged. Any
// other error means that the archive is damaged. For example, an offset in the directory is before the start of the
// file.
func offsetError(err error) error {
	var system syscall.Errno
	if reworded := rewordError(err); reworded != err || errors.As(err, &system) {
		return reworded
	}
	return errors.New("the archive is damaged")
}

// Close closes the file. Tensors that were read remain valid.
func (a *Archive) Close() error {
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// ReadFile reads all arrays of the .npz file at path, by key.
func ReadFile(path string) (map[string]*tensor.Tensor, error) {
	archive, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	out := make(map[string]*tensor.Tensor, len(archive.names))
	for _, name := range archive.names {
		if out[name], err = archive.Read(name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Entry is one array of an archive to be written. Name is its key, without ".npy".
type Entry struct {
	Name   string
	Tensor *tensor.Tensor
	// Strings, if not nil, replaces the elements of Tensor by strings, in row-major order. They are written in the
	// format of [WriteStrings].
	Strings []string
	// EachString, if not nil, replaces the elements of Tensor by strings, too: it calls visit with each string, in row-major
	// order, until visit returns an error. It is called more than once.
	EachString func(visit func(s string) error) error
}

// EntriesOf returns the arrays of a map sorted by name.
func EntriesOf(tensors map[string]*tensor.Tensor) []Entry {
	out := make([]Entry, 0, len(tensors))
	for name, t := range tensors {
		out = append(out, Entry{Name: name, Tensor: t})
	}
	sorted.Func(out, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// WriteNPZ writes the arrays in the given order, without compression, like numpy's savez. [WriteNPY] defines the format
// of an array. The same entries always give the same bytes. Names must be unique and not empty.
func WriteNPZ(w io.Writer, entries []Entry) error {
	if w == nil {
		return errors.New("the writer is nil")
	}
	archive := zip.NewWriter(w)
	usedNames := make(map[string]bool, len(entries))
	for _, entry := range entries {
		if entry.Name == "" || strings.HasSuffix(entry.Name, "/") {
			return fmt.Errorf("entry %q: invalid name", entry.Name)
		}
		if usedNames[entry.Name] {
			return fmt.Errorf("duplicate entry %q", entry.Name)
		}
		usedNames[entry.Name] = true
		file, err := archive.CreateHeader(&zip.FileHeader{Name: entry.Name + ".npy", Method: zip.Store})
		switch {
		case err != nil:
		case entry.EachString != nil:
			err = writeStrings(file, entry.Tensor.Shape, entry.EachString)
		case entry.Strings != nil:
			err = WriteStrings(file, entry.Strings, entry.Tensor.Shape)
		default:
			err = WriteNPY(file, entry.Tensor)
		}
		if err != nil {
			return fmt.Errorf("entry %q: %w", entry.Name, err)
		}
	}
	return archive.Close()
}

// WriteFile writes the arrays to the .npz file at path, as [WriteNPZ] does. It replaces an existing file. After an
// error, the file may be incomplete. The errors name the file.
func WriteFile(path string, entries []Entry) error {
	f, err := os.Create(path)
	if err != nil {
		return files.WithPath(path, err)
	}
	err = WriteNPZ(f, entries)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
