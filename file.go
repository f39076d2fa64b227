package graphrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/printable"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/onnx"
)

// File is a graph file or an ONNX model that was read but not yet converted to a graph. Its inputs are available before
// all sizes are known.
type File struct {
	// Loader is the Loader that opened the file. Its Sizes and Shapes may be set until Graph is called.
	Loader    Loader
	path      string
	signature *graph.Graph // the graph of the file or, for a model, a graph with only the inputs
	model     *onnx.Model  // nil for a graph file
	ignored   graph.Errors // mistakes outside of nodes, which KeepGoing ignores
	rows      *rowCount    // the requested number of rows; nil if it does not change
}

// Open reads a graph file or an ONNX model: see [Loader.Load].
func (l Loader) Open(ctx context.Context, name string) (*File, error) {
	switch {
	case ctx == nil:
		return nil, program.ErrNoContext
	case l.FS != nil:
		r, err := files.OpenFS(l.FS, name)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return l.read(ctx, r.Reader(), name, path.Dir(name))
	}
	data, isPipe, err := files.ReadPipe(ctx, name) // reads only a named pipe
	switch {
	case interrupt.Err(ctx) != nil:
		return nil, readingError(name, interrupt.Err(ctx))
	case err != nil:
		return nil, err
	case isPipe:
		return l.read(ctx, bytes.NewReader(data), name, filepath.Dir(name))
	}
	r, _, err := files.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return l.read(ctx, r, name, filepath.Dir(name))
}

// read reads the file with the given name from r. Folder dir of the file system has the files of its constants. An
// empty dir means that constants have no files.
func (l Loader) read(ctx context.Context, r io.Reader, name, dir string) (*File, error) {
	if l.Lookup == nil {
		l.Lookup = kernels.Lookup
	}
	f := &File{Loader: l, path: name}
	contents, err := files.Contents(ctx, r)
	switch {
	case err != nil:
		err = files.WithPath(name, err)
	case isModel(name, contents):
		err = f.openModel(ctx, contents, dir)
	case len(l.Declared) > 0:
		err = fmt.Errorf("%s: the shape of input %q is in the file: only those of ONNX models can be declared",
			printable.Text(name), sorted.Keys(l.Declared)[0])
	case len(l.Constants) > 0:
		err = fmt.Errorf("%s: input %q cannot be a constant: only inputs of ONNX models can",
			printable.Text(name), sorted.Keys(l.Constants)[0])
	default:
		err = f.parse(ctx, contents, dir)
	}
	if ended := interrupt.Err(ctx); ended != nil {
		return nil, readingError(name, ended)
	}
	if err != nil {
		return nil, err
	}
	if err := f.extractRowCount(); err != nil {
		return nil, program.WithFile(name, err)
	}
	return f, nil
}

// readingError returns the error of a context that ended while the file was read.
func readingError(name string, ended error) error {
	return fmt.Errorf("%s: the file was not read completely: %w", name, ended)
}

// isModel reports whether a file is an ONNX model, not a graph file. The extension decides. For other extensions, the
// first byte decides: in a model it is the tag of a protobuf field.
func isModel(name string, r io.ReaderAt) bool {
	switch strings.ToLower(path.Ext(filepath.ToSlash(name))) {
	case ".onnx":
		return true
	case ".json", ".txt":
		return false
	}
	var first [1]byte
	if n, _ := r.ReadAt(first[:], 0); n == 0 {
		return false // the file is unreadable: parsing reports the error
	}
	return first[0] < ' ' && !strings.ContainsRune("\t\r\n", rune(first[0]))
}

// openModel reads an ONNX model without converting it.
func (f *File) openModel(ctx context.Context, r io.Reader, dir string) (err error) {
	options := onnx.ReadOptions{FS: f.Loader.FS, Dir: dir}
	if cache := f.Loader.Cache.Internal(); cache != nil {
		options.Storage = cache.ShareRange
	}
	if f.model, err = onnx.ReadWith(ctx, r, options); err != nil {
		return program.WithFile(f.path, err)
	}
	for _, name := range sorted.Keys(f.Loader.Declared) {
		if err := f.model.Declare(name, f.Loader.Declared[name]...); err != nil {
			return program.WithFile(f.path, err)
		}
	}
	for _, name := range sorted.Keys(f.Loader.Constants) {
		if err := f.model.Fix(name, f.Loader.Constants[name]); err != nil {
			return program.WithFile(f.path, err)
		}
	}
	if f.signature, err = f.model.Signature(); err != nil {
		return program.WithFile(f.path, err)
	}
	// Replaces the model's own names of dimensions (dim_params) by symbols.
	if f.Loader.Sizes, err = f.model.Sizes(f.Loader.Sizes); err != nil {
		return program.WithFile(f.path, err)
	}
	return nil
}

// parse reads a graph file, or the text of a graph in a file NAME.txt, without inferring it.
func (f *File) parse(ctx context.Context, r io.Reader, dir string) (err error) {
	if strings.EqualFold(path.Ext(filepath.ToSlash(f.path)), ".txt") {
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
			return f.parseJSON(ctx, bytes.NewReader(text), dir)
		}
		f.signature, err = graph.Parse(string(text), f.Loader.Lookup)
		var mistake *graph.Error
		if errors.As(err, &mistake) {
			mistake.File = f.path
		}
		return err
	}
	return f.parseJSON(ctx, r, dir)
}

func (f *File) parseJSON(ctx context.Context, r io.Reader, dir string) (err error) {
	options := graphfile.Options{Context: ctx, Name: f.path, FS: f.Loader.FS, Dir: dir}
	if f.Loader.KeepGoing {
		f.signature, f.ignored, err = graphfile.ParseSome(r, f.Loader.Lookup, options)
	} else {
		f.signature, err = graphfile.Parse(r, f.Loader.Lookup, options)
	}
	return err
}

// IsModel reports whether the file is an ONNX model rather than a graph file.
func (f *File) IsModel() bool { return f != nil && f.model != nil }

// Inputs returns the inputs, with symbols for unknown sizes ([graph.Value.Dims]). Inputs of unknown rank are
// [graph.Value.Dynamic].
func (f *File) Inputs() []*graph.Value {
	if f == nil || f.signature == nil {
		return nil
	}
	if f.rows != nil {
		return f.rows.withRows(f.signature.Inputs)
	}
	return slices.Clone(f.signature.Inputs)
}

// CheckRows returns an error if [Loader.Sizes] changes the number of rows of a file whose sizes are numbers, but the
// rows depend on each other. An input with another shape than [File.Inputs] states is then not the cause. Like Graph,
// which returns this error too, it may be called once.
func (f *File) CheckRows(ctx context.Context) error {
	if f == nil || f.rows == nil {
		return nil
	}
	_, err := f.Graph(ctx)
	return err
}

// Symbols returns the bounds of each symbol.
func (f *File) Symbols() map[string]graph.Bounds {
	if f == nil || f.signature == nil {
		return nil
	}
	return maps.Clone(f.signature.Symbols)
}

// Graph returns the graph for [Loader.Sizes] and [Loader.Shapes], before inference. Call [Infer] next, or
// [graph.Graph.InferAll] to continue past mistakes. Graph may be called once. With [Loader.KeepGoing] it may return
// both a graph and an error. If ctx ends, Graph stops (see [Load]), and may be called again.
func (f *File) Graph(ctx context.Context) (*graph.Graph, error) {
	if ctx == nil {
		return nil, program.ErrNoContext
	}
	if f == nil || f.signature == nil {
		return nil, errors.New("the File was not made by Loader.Open")
	}
	sizes, err := f.sizes()
	if err != nil {
		return nil, program.WithFile(f.path, err)
	}
	g := f.signature
	if f.model != nil {
		g, err = f.convert(ctx, sizes)
	} else {
		err = g.BindWithoutInference(sizes)
	}
	if err == nil && f.rows != nil {
		g, err = f.rows.resize(ctx, g)
	}
	if ended := interrupt.Err(ctx); ended != nil {
		return nil, fmt.Errorf("%s: the model was not converted completely: %w", f.path, ended)
	}
	switch {
	case err != nil:
		return nil, program.WithFile(f.path, err)
	case len(f.ignored) > 0:
		return g, f.ignored
	}
	return g, nil
}

// convert converts an ONNX model to a graph.
func (f *File) convert(ctx context.Context, sizes map[string]int) (g *graph.Graph, err error) {
	o := f.options()
	o.Context, o.Dims = ctx, sizes
	if f.Loader.KeepGoing {
		g, f.ignored, err = f.model.GraphSome(o)
		return g, err
	}
	return f.model.Graph(o)
}

// sizes returns the sizes of symbols that [Loader.Sizes] has, or that follow from [Loader.Shapes].
func (f *File) sizes() (map[string]int, error) {
	if f.model != nil { // as in openModel: the caller may have set Loader.Sizes since
		sizes, err := f.model.Sizes(f.Loader.Sizes)
		if err != nil {
			return nil, err
		}
		f.Loader.Sizes = sizes
	}
	symbols := f.signature.Symbols
	for _, name := range sorted.Keys(f.Loader.Sizes) {
		if _, ok := symbols[name]; !ok {
			return nil, program.UnknownSymbol(name, f.signature)
		}
	}
	if f.model == nil { // for a model, the conversion checks the names: its signature lacks inputs of unknown rank
		for _, name := range sorted.Keys(f.Loader.Shapes) {
			if v := f.signature.Value(name); v == nil || !slices.Contains(f.signature.Inputs, v) {
				return nil, fmt.Errorf("a shape is given for %q, but the file has no such input%s", name,
					suggest.DidYouMean(suggest.Nearest(name, inputNames(f.signature))))
			}
		}
	}
	shapeOf := func(name string) ([]int, bool) { s, ok := f.Loader.Shapes[name]; return s, ok }
	return program.SizesOf(f.signature.Inputs, shapeOf, f.Loader.Sizes, symbols)
}

// inputNames iterates over the names of the inputs.
func inputNames(g *graph.Graph) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, v := range g.Inputs {
			if !yield(v.Name) {
				return
			}
		}
	}
}

// MissingOperators lists the operators of an ONNX model that cannot be imported. It returns nil for a graph file.
func (f *File) MissingOperators() ([]onnx.MissingOperator, error) {
	if !f.IsModel() {
		return nil, nil
	}
	missing, err := f.model.MissingOperators(f.options())
	if err != nil {
		return nil, program.WithFile(f.path, err)
	}
	return missing, nil
}

// options returns the options for the conversion of a model.
func (f *File) options() onnx.Options {
	l := f.Loader
	return onnx.Options{Shapes: l.Shapes, Lookup: l.Lookup, Operators: l.Operators, Replaced: l.Replaced,
		UnavailableInputs: l.UnavailableInputs}
}
