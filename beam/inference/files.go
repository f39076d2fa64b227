package inference

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/google/uuid"

	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[listFn]())
	beam.RegisterDoFn(reflect.TypeFor[readFn]())
	beam.RegisterDoFn(reflect.TypeFor[writeFn]())
	beam.RegisterDoFn(reflect.TypeFor[writeFailuresFn]())
}

// ReadFiles reads the .npz and .npy files that match a pattern of one of Beam's file systems, such as "inputs/*.npz" or
// "gs://bucket/inputs/*". An element has the base name of its file without extension. The tensor of a .npy file has the
// name "". A file that cannot be read fails its bundle.
func ReadFiles(s beam.Scope, pattern string) beam.PCollection {
	const try = false
	elements, _ := addReading(s, pattern, try)
	return elements
}

// TryReadFiles is [ReadFiles], but returns files with invalid contents as failures. A file that cannot be opened or
// read still fails its bundle.
func TryReadFiles(s beam.Scope, pattern string) (elements, failures beam.PCollection) {
	const try = true
	return addReading(s, pattern, try)
}

// addReading adds the transforms of [ReadFiles] or, if try is set, of [TryReadFiles].
func addReading(s beam.Scope, pattern string, try bool) (elements, failures beam.PCollection) {
	s = s.Scope("inference.ReadFiles")
	filesystem.ValidateScheme(pattern)
	paths := beam.ParDo(s, &listFn{}, beam.Create(s, pattern))
	// The runner distributes the paths to all workers.
	return beam.ParDo2(s, &readFn{try}, beam.Reshuffle(s, paths))
}

// listFn emits the paths of the files that match a pattern. It returns an error if there are none. Package fileio has
// a transform that also reads sizes and times, but its compilation takes 30 seconds.
type listFn struct{}

func (*listFn) ProcessElement(ctx context.Context, pattern string, emit func(string)) error {
	files, err := filesystem.New(ctx, pattern)
	if err != nil {
		return err
	}
	defer files.Close()
	paths, err := files.List(ctx, pattern)
	if err != nil {
		return fmt.Errorf("%s: %w", pattern, err)
	}
	if len(paths) == 0 {
		return fmt.Errorf("no file matches %q", pattern)
	}
	for _, path := range paths {
		emit(path)
	}
	return nil
}

// ElementName returns the name of the element that [ReadFiles] reads from a file.
func ElementName(file string) string {
	base := path.Base(strings.ReplaceAll(file, "\\", "/"))
	return strings.TrimSuffix(base, path.Ext(base))
}

// readFn reads files.
type readFn struct{ Try bool }

func (f *readFn) ProcessElement(ctx context.Context, file string, emit func(Element), fail func(Failure)) error {
	data, err := readFile(ctx, file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	tensors, err := parse(file, data)
	switch {
	case err == nil:
		emit(Element{ElementName(file), tensors})
	case f.Try:
		elementsFailed.Inc(ctx, 1)
		fail(Failure{ElementName(file), err.Error()})
	default:
		return err
	}
	return nil
}

// readFile reads a file of one of Beam's file systems.
func readFile(ctx context.Context, path string) ([]byte, error) {
	files, err := filesystem.New(ctx, path)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	f, err := files.OpenRead(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// parse returns the arrays of a .npz or .npy file.
func parse(file string, data []byte) (map[string]*tensor.Tensor, error) {
	switch strings.ToLower(path.Ext(file)) {
	case ".npy":
		array, err := npz.ReadNPY(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return map[string]*tensor.Tensor{"": array}, nil
	case ".npz":
		archive, err := npz.NewArchive(file, bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return nil, err
		}
		tensors := map[string]*tensor.Tensor{}
		for _, name := range archive.Names() {
			if tensors[name], err = archive.Read(name); err != nil {
				return nil, err
			}
		}
		return tensors, nil
	}
	return nil, fmt.Errorf("%s: want a .npz or .npy file", file)
}

// WriteFiles writes each element to the file DIR/NAME.npz, and returns the paths as a PCollection of strings. Readers
// never see a partial file, if the file system can rename files, or writes files atomically as object stores do.
// Element names must be unique, and must be valid file names.
func WriteFiles(s beam.Scope, dir string, elements beam.PCollection) beam.PCollection {
	s = s.Scope("inference.WriteFiles")
	filesystem.ValidateScheme(dir)
	return beam.ParDo(s, &writeFn{dir}, elements)
}

// writeFn writes elements.
type writeFn struct{ Dir string }

func (f *writeFn) ProcessElement(ctx context.Context, element Element) (string, error) {
	if element.Name == "" || strings.HasPrefix(element.Name, ".") || strings.ContainsAny(element.Name, "/\\") {
		return "", fmt.Errorf("element %q: the name is not the name of a file", element.Name)
	}
	var data bytes.Buffer
	if err := npz.WriteNPZ(&data, npz.EntriesOf(element.Tensors)); err != nil {
		return "", fmt.Errorf("element %q: %w", element.Name, err)
	}
	file := strings.TrimSuffix(f.Dir, "/") + "/" + element.Name + ".npz"
	if err := writeFile(ctx, file, data.Bytes()); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return file, nil
}

// WriteFailures writes a bounded PCollection of failures to a file, each as a line "NAME: ERROR", in any order. It
// holds the text in memory. It writes no file if there are no failures.
func WriteFailures(s beam.Scope, file string, failures beam.PCollection) {
	s = s.Scope("inference.WriteFailures")
	filesystem.ValidateScheme(file)
	// A group with one key and one window is processed by one call.
	global := beam.WindowInto(s, window.NewGlobalWindows(), failures)
	beam.ParDo0(s, &writeFailuresFn{file}, beam.GroupByKey(s, beam.AddFixedKey(s, global)))
}

// writeFailuresFn writes a group of failures.
type writeFailuresFn struct{ File string }

func (f *writeFailuresFn) ProcessElement(ctx context.Context, _ int, next func(*Failure) bool) error {
	var lines bytes.Buffer
	for failure := (Failure{}); next(&failure); {
		fmt.Fprintf(&lines, "%s: %s\n", failure.Name, strings.ReplaceAll(failure.Error, "\n", " "))
	}
	files, err := filesystem.New(ctx, f.File)
	if err != nil {
		return err
	}
	defer files.Close()
	if err := writeTo(ctx, files, f.File, lines.Bytes()); err != nil {
		return fmt.Errorf("%s: %w", f.File, err)
	}
	return nil
}

// writeFile writes a file. A runner may try the same element several times at once. Each attempt therefore writes to a
// temporary file of its own.
func writeFile(ctx context.Context, file string, data []byte) (err error) {
	files, err := filesystem.New(ctx, file)
	if err != nil {
		return err
	}
	defer files.Close()
	renamer, ok := files.(filesystem.Renamer)
	if !ok || strings.Contains(file, "://") { // object stores write whole objects, and renaming would copy one
		return writeTo(ctx, files, file, data)
	}
	dir, base := path.Split(file)
	temporary := dir + "." + base + "." + uuid.NewString()
	if err = writeTo(ctx, files, temporary, data); err == nil {
		err = renamer.Rename(ctx, temporary, file)
	}
	if remover, ok := files.(filesystem.Remover); ok && err != nil {
		_ = remover.Remove(ctx, temporary)
	}
	return err
}

// writeTo writes data to a file of a file system.
func writeTo(ctx context.Context, files filesystem.Interface, file string, data []byte) error {
	w, err := files.OpenWrite(ctx, file)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, bytes.NewReader(data))
	return errors.Join(err, w.Close())
}
