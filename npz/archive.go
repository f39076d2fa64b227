// Package npz reads and writes numpy's .npy and .npz files.
//
// An .npz file is a zip archive of .npy arrays, stored or deflated. Files are not
// trusted: what a header claims is checked against the size of its entry before memory
// is taken, and the memory that a file can claim is bounded by the data it holds.
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
	"github.com/graphrun/graphrun/tensor"
)

// maxRatio bounds how many bytes deflate makes of one: 258 from two bits, and zlib's
// documentation gives 1032 for the whole.
const maxRatio = 1032

// Archive is an open .npz file. Its methods, except Close, may be called from several
// goroutines at once.
type Archive struct {
	path    string
	file    *os.File
	names   []string
	entries map[string]*zip.File
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

// NewArchive reads the directory of an .npz archive of size bytes; name stands for the
// file in errors. r must stay readable while the archive is in use. Entries that overlap
// are refused: few bytes could otherwise stand for many arrays.
func NewArchive(name string, r io.ReaderAt, size int64) (*Archive, error) {
	if r == nil {
		return nil, fmt.Errorf("%s: there is nothing to read: the reader is nil", name)
	}
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, notArchive(r, size, err))
	}
	a := &Archive{path: name, entries: make(map[string]*zip.File, len(z.File))}
	type span struct {
		start, end int64
		name       string
	}
	spans := make([]span, 0, len(z.File))
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/") {
			continue // a directory holds no array
		}
		key := strings.TrimSuffix(f.Name, ".npy")
		if a.entries[key] != nil {
			return nil, fmt.Errorf("%s: entry %q is there twice", name, key)
		}
		start, err := f.DataOffset()
		if err != nil {
			return nil, fmt.Errorf("%s: entry %q: %w", name, key, misplaced(err))
		}
		if f.CompressedSize64 > uint64(size) || start > size-int64(f.CompressedSize64) {
			return nil, fmt.Errorf("%s: entry %q: %d bytes at %d reach past the end of the file", name, key,
				f.CompressedSize64, start)
		}
		spans = append(spans, span{start, start + int64(f.CompressedSize64), key})
		a.entries[key] = f
		a.names = append(a.names, key)
	}
	slices.SortFunc(spans, func(x, y span) int { return int(x.start - y.start) })
	for i := 1; i < len(spans); i++ {
		if spans[i].start < spans[i-1].end {
			return nil, fmt.Errorf("%s: entries %q and %q overlap", name, spans[i-1].name, spans[i].name)
		}
	}
	return a, nil
}

// Names returns the keys in the order of the archive, without ".npy". The slice is fresh.
func (a *Archive) Names() []string { return slices.Clone(a.names) }

// Read reads one array into fresh storage: see [ReadNPY]. It also checks the sum that
// the archive keeps of the entry's bytes. The errors name file and entry.
func (a *Archive) Read(name string) (*tensor.Tensor, error) { return a.read(name, nil) }

// ReadAs is Read for a caller who knows from elsewhere which dtype and shape the array
// must have: another is an error, found before any of the data are read or inflated. What
// is wanted can be trusted, so its memory is taken at once, and if the process may not have
// that much ([tensor.MemoryError]), nothing is read.
func (a *Archive) ReadAs(name string, want tensor.Meta) (*tensor.Tensor, error) {
	return a.read(name, &want)
}

func (a *Archive) read(name string, want *tensor.Meta) (*tensor.Tensor, error) {
	f, r, err := a.open(name)
	var t *tensor.Tensor
	if err == nil {
		defer r.Close()
		t, err = readNPY(r, int64(f.UncompressedSize64), int64(f.CompressedSize64), want)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: entry %q: %w", a.path, name, plain(err))
	}
	return t, nil
}

// Meta returns dtype, shape and strides of one array. It reads, and inflates, no more than
// the array's header, which must account for the size that the archive claims for the
// entry. The errors name file and entry.
func (a *Archive) Meta(name string) (tensor.Meta, error) {
	f, r, err := a.open(name)
	var m tensor.Meta
	if err == nil {
		defer r.Close()
		m, _, err = readMeta(r, int64(f.UncompressedSize64))
	}
	if err != nil {
		return m, fmt.Errorf("%s: entry %q: %w", a.path, name, plain(err))
	}
	return m, nil
}

// open opens an entry for reading, if what the archive says of it can be.
func (a *Archive) open(name string) (*zip.File, io.ReadCloser, error) {
	f := a.entries[name]
	if f == nil {
		return nil, nil, errors.New("no such entry: " + files.Keys(a.names))
	}
	const encrypted = 1
	if f.Flags&encrypted != 0 {
		return nil, nil, errors.New("encrypted")
	}
	packed := f.CompressedSize64
	if f.Method == zip.Store && f.UncompressedSize64 != packed || f.UncompressedSize64/maxRatio > packed {
		return nil, nil, fmt.Errorf("claims to hold %d bytes in %d", f.UncompressedSize64, packed)
	}
	r, err := f.Open()
	return f, r, plain(err)
}

// notArchive says what a file is that is no zip archive.
func notArchive(r io.ReaderAt, size int64, err error) error {
	var start [8]byte
	n, _ := r.ReadAt(start[:], 0)
	switch b := string(start[:n]); {
	case size == 0:
		return errors.New("the file is empty")
	case strings.HasPrefix(b, magic):
		return errors.New("this is a single .npy array, not an .npz archive")
	case strings.HasPrefix(b, "PK\x03\x04"):
		return errors.New("the .npz archive is cut short or damaged: its directory is missing")
	case errors.Is(err, zip.ErrFormat):
		return errors.New("not an .npz archive")
	}
	return plain(err)
}

// plain puts errors of reading an archive into words of ours.
func plain(err error) error {
	var bad flate.CorruptInputError
	switch {
	case errors.Is(err, zip.ErrChecksum):
		return errors.New("the data are damaged: their checksum differs from the archive's")
	case errors.Is(err, zip.ErrFormat), errors.As(err, &bad):
		return errors.New("the archive is damaged")
	case errors.Is(err, zip.ErrAlgorithm):
		return errors.New("compressed in a way that .npz files do not use: want stored or deflated")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("truncated: the data end early")
	}
	return err
}

// misplaced says why the place of an entry could not be read. What the system did not
// refuse is damage: the directory may name a place before the start of the file.
func misplaced(err error) error {
	var system syscall.Errno
	if told := plain(err); told != err || errors.As(err, &system) {
		return told
	}
	return errors.New("the archive is damaged")
}

// Close closes the file. Tensors that were read stay valid.
func (a *Archive) Close() error {
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// ReadFile reads all arrays of the .npz file at path by their keys.
func ReadFile(path string) (map[string]*tensor.Tensor, error) {
	a, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	out := make(map[string]*tensor.Tensor, len(a.names))
	for _, n := range a.names {
		if out[n], err = a.Read(n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Entry is one array of an archive to be written. Name is its key, without ".npy".
type Entry struct {
	Name   string
	Tensor *tensor.Tensor
}

// EntriesOf returns the arrays of a map sorted by name.
func EntriesOf(m map[string]*tensor.Tensor) []Entry {
	out := make([]Entry, 0, len(m))
	for n, t := range m {
		out = append(out, Entry{n, t})
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// WriteNPZ writes the arrays in the given order, stored without compression as numpy's
// savez does: see [WriteNPY]. The same entries always give the same bytes. Names must
// differ from each other and not be empty.
func WriteNPZ(w io.Writer, entries []Entry) error {
	if w == nil {
		return errors.New("there is nowhere to write: the writer is nil")
	}
	z := zip.NewWriter(w)
	seen := make(map[string]bool, len(entries))
	for _, e := range entries {
		if e.Name == "" || strings.HasSuffix(e.Name, "/") {
			return fmt.Errorf("entry %q: not a name", e.Name)
		}
		if seen[e.Name] {
			return fmt.Errorf("entry %q is there twice", e.Name)
		}
		seen[e.Name] = true
		f, err := z.CreateHeader(&zip.FileHeader{Name: e.Name + ".npy", Method: zip.Store})
		if err == nil {
			err = WriteNPY(f, e.Tensor)
		}
		if err != nil {
			return fmt.Errorf("entry %q: %w", e.Name, err)
		}
	}
	return z.Close()
}

// WriteFile writes the arrays to the .npz file at path, which it replaces: see
// [WriteNPZ]. After an error the file may be there in part. The errors name the file.
func WriteFile(path string, entries []Entry) error {
	f, err := os.Create(path)
	if err != nil {
		return files.InFile(path, err)
	}
	err = WriteNPZ(f, entries)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
