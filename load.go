package graphrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/words"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/onnx"
)

// Load reads a graph file or an ONNX model, and infers it. Sizes that are symbols in it stay symbols.
// [Loader] is for what needs more than a path.
func Load(path string) (*graph.Graph, error) { return Loader{}.Load(path) }

// LoadContext is [Load] that ends when the context does: the error is then [context.Cause], with the place at which it
// ended.
func LoadContext(ctx context.Context, path string) (*graph.Graph, error) {
	return Loader{}.LoadContext(ctx, path)
}

// Loader says how graphs are loaded. The zero Loader is what [Load] uses.
type Loader struct {
	// Sizes are those of symbols; a model's may be called as it calls them, see [onnx.Model.Symbol]. In the graph
	// of an ONNX model they are then plain numbers, so that what computes with them is computed once, when it is
	// loaded.
	Sizes map[string]int
	// Shapes are those of inputs, by name, from which the symbols in them take their sizes. An input
	// of an ONNX model that has no rank needs one.
	Shapes map[string][]int
	// Lookup finds ops; nil finds those of package kernels. See [Lookup].
	Lookup graph.Lookup
	// Operators are operators of ONNX models beside those that package onnx knows, and Replaced stand
	// in place of some that it knows.
	Operators, Replaced onnx.Operators
	// KeepGoing goes on past nodes that are wrong and constants that cannot be read. Inference refuses
	// those nodes and what depends on them, so that [Options.KeepGoing] leaves them out. Where there are
	// mistakes of anything but nodes, the error is a [graph.Errors] of these beside the graph.
	KeepGoing bool
	// Lost are inputs that cannot be had, by name, and why. With KeepGoing a model is read without them
	// and what depends on them. [graph.Graph.DropValues] takes them out of any graph.
	Lost map[string]error
}

// Load reads a graph file or an ONNX model, and infers it. Which of them a file is, is told by its
// name, .json or .onnx, else by its first bytes. The files of its constants are in its folder.
//
// The error is a [graph.Errors] where there are several mistakes, each with its place in the file.
func (l Loader) Load(path string) (*graph.Graph, error) {
	return l.LoadContext(context.Background(), path)
}

// LoadContext is [Loader.Load] that ends when the context does: see [LoadContext].
func (l Loader) LoadContext(ctx context.Context, path string) (*graph.Graph, error) {
	f, err := l.OpenContext(ctx, path)
	if err != nil {
		return nil, err
	}
	g, err := f.GraphContext(ctx)
	switch {
	case g == nil:
		return nil, err
	case l.KeepGoing:
		g.SetContext(ctx)
		g.InferAll() // whoever runs the graph is told what is refused
		g.SetContext(context.Background())
		if ended := ends.Err(ctx); ended != nil {
			return nil, fmt.Errorf("%s: inferring types: %w", path, ended)
		}
		return g, err
	}
	if err := inferUnder(ctx, g); err != nil {
		if ends.Err(ctx) != nil {
			err = inFile(path, err)
		}
		return nil, err
	}
	return g, nil
}

// File is a graph file or a model that was read, whose sizes are still open: for who must see its
// inputs before sizes are known.
type File struct {
	// Loader is that which opened the file. Sizes and Shapes may be set until Graph is
	// called.
	Loader    Loader
	path      string
	signature *graph.Graph // at least the inputs
	model     *onnx.Model  // nil for a graph file
	missing   graph.Errors // what was read past
}

// Open reads a graph file or an ONNX model.
func (l Loader) Open(path string) (*File, error) { return l.OpenContext(context.Background(), path) }

// OpenContext is [Loader.Open] that ends when the context does: see [LoadContext].
func (l Loader) OpenContext(ctx context.Context, path string) (*File, error) {
	if ctx == nil {
		return nil, errNoContext
	}
	if l.Lookup == nil {
		l.Lookup = kernels.Lookup
	}
	f := &File{Loader: l, path: path}
	model, err := isModel(path)
	switch {
	case err != nil:
	case model:
		err = f.openModel(ctx)
	default:
		err = f.parse(ctx)
	}
	if ended := ends.Err(ctx); ended != nil {
		return nil, fmt.Errorf("%s: reading it: %w", path, ended)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// isModel tells an ONNX model from a graph file: by its name, else by its first byte, which in a model
// is the tag of a field. What can be read only once is a graph file.
func isModel(path string) (bool, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".onnx":
		return true, nil
	case ".json":
		return false, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return false, nil // opening a pipe and closing it would end its writer
	}
	r, _, err := files.Open(path)
	if err != nil {
		return false, err
	}
	defer r.Close()
	var first [1]byte
	if _, err := io.ReadFull(r, first[:]); err != nil {
		return false, nil // who reads it will tell
	}
	return first[0] < ' ' && !strings.ContainsRune("\t\r\n", rune(first[0])), nil
}

func (f *File) openModel(ctx context.Context) (err error) {
	if f.model, err = onnx.OpenContext(ctx, f.path); err != nil {
		return err
	}
	if f.signature, err = f.model.Signature(); err != nil {
		return inFile(f.path, err)
	}
	if f.Loader.Sizes, err = f.model.Sizes(f.Loader.Sizes); err != nil {
		return inFile(f.path, err)
	}
	return nil
}

// parse reads a graph file without inferring it.
func (f *File) parse(ctx context.Context) error {
	data, pipe, err := files.ReadPipe(ctx, f.path)
	if err != nil {
		return err
	}
	var r io.Reader = bytes.NewReader(data)
	if !pipe {
		file, _, err := files.Open(f.path)
		if err != nil {
			return err
		}
		defer file.Close()
		r = file
	}
	o := graphfile.Options{Context: ctx, Name: f.path, Dir: filepath.Dir(f.path)}
	if f.Loader.KeepGoing {
		f.signature, f.missing, err = graphfile.ParseSome(r, f.Loader.Lookup, o)
	} else {
		f.signature, err = graphfile.Parse(r, f.Loader.Lookup, o)
	}
	return err
}

// IsModel reports whether the file is an ONNX model rather than a graph file.
func (f *File) IsModel() bool { return f != nil && f.model != nil }

// Inputs returns the inputs, with symbols where sizes are open ([graph.Value.Dims]). Those of a model
// that have no rank are left out.
func (f *File) Inputs() []*graph.Value {
	if f == nil || f.signature == nil {
		return nil
	}
	return slices.Clone(f.signature.Inputs)
}

// Symbols returns the bounds of the sizes that are open.
func (f *File) Symbols() map[string]graph.Bounds {
	if f == nil || f.signature == nil {
		return nil
	}
	return maps.Clone(f.signature.Symbols)
}

// Graph returns the graph, with sizes as the Loader's fields tell them now. It is yet to be inferred:
// by [Infer], or by [graph.Graph.InferAll], which goes on past mistakes. It is to be called once. With
// [Loader.KeepGoing] an error may come beside the graph.
func (f *File) Graph() (*graph.Graph, error) { return f.GraphContext(context.Background()) }

// GraphContext is [File.Graph] that ends when the context does: see [LoadContext]. After that it may be called again.
func (f *File) GraphContext(ctx context.Context) (*graph.Graph, error) {
	if ctx == nil {
		return nil, errNoContext
	}
	if f == nil || f.signature == nil {
		return nil, errors.New("no file was opened: Loader.Open opens one")
	}
	sizes, err := f.sizes()
	if err != nil {
		return nil, inFile(f.path, err)
	}
	g := f.signature
	if f.model != nil {
		g, err = f.convert(ctx, sizes)
	} else {
		err = g.BindOnly(sizes)
	}
	if ended := ends.Err(ctx); ended != nil {
		return nil, fmt.Errorf("%s: converting it: %w", f.path, ended)
	}
	switch {
	case err != nil:
		return nil, inFile(f.path, err)
	case len(f.missing) > 0:
		return g, f.missing
	}
	return g, nil
}

// convert converts a model.
func (f *File) convert(ctx context.Context, sizes map[string]int) (g *graph.Graph, err error) {
	l := f.Loader
	o := onnx.Options{Context: ctx, Dims: sizes, Shapes: l.Shapes, Lookup: l.Lookup, Operators: l.Operators,
		Replaced: l.Replaced, Lost: l.Lost}
	if l.KeepGoing {
		g, f.missing, err = f.model.GraphSome(o)
		return g, err
	}
	return f.model.Graph(o)
}

// sizes are those of symbols that are given, by name or by the shapes of inputs.
func (f *File) sizes() (map[string]int, error) {
	if f.model != nil {
		sizes, err := f.model.Sizes(f.Loader.Sizes)
		if err != nil {
			return nil, err
		}
		f.Loader.Sizes = sizes
	}
	symbols := f.signature.Symbols
	for _, name := range slices.Sorted(maps.Keys(f.Loader.Sizes)) {
		if _, ok := symbols[name]; !ok {
			return nil, noSymbol(name, f.signature)
		}
	}
	if f.model == nil {
		for _, name := range slices.Sorted(maps.Keys(f.Loader.Shapes)) {
			if v := f.signature.Value(name); v == nil || !slices.Contains(f.signature.Inputs, v) {
				return nil, fmt.Errorf("a shape is given for %q: there is no such input%s", name,
					words.DidYouMean(words.Nearest(name, names(f.signature.Inputs))))
			}
		}
	}
	shapeOf := func(name string) ([]int, bool) { s, ok := f.Loader.Shapes[name]; return s, ok }
	return sizesOf(f.signature.Inputs, shapeOf, f.Loader.Sizes, symbols)
}

// noSymbol is the error of a size for what is no symbol.
func noSymbol(name string, g *graph.Graph) error {
	hint := words.DidYouMean(words.Nearest(name, maps.Keys(g.Symbols)))
	switch {
	case len(g.Symbols) == 0:
		hint = ": all its sizes are numbers"
	case hint == "":
		var all []string
		for _, symbol := range slices.Sorted(maps.Keys(g.Symbols)) {
			all = append(all, g.SymbolText(symbol))
		}
		hint = "; it has " + strings.Join(all, ", ")
	}
	return fmt.Errorf("there is no symbolic dimension %q%s", name, hint)
}

// sizesNamed returns sizes by the symbols of a graph, by whichever of their names they are given.
func sizesNamed(g *graph.Graph, sizes map[string]int) (map[string]int, error) {
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		if _, ok := g.SymbolNamed(name); !ok {
			return nil, noSymbol(name, g)
		}
	}
	return g.SizesNamed(sizes)
}

// sizesOf returns given sizes of symbols and those that follow from shapes of inputs. What is given
// stays: whoever compares the shape tells where it does not agree.
func sizesOf(inputs []*graph.Value, shapeOf func(name string) ([]int, bool),
	given map[string]int, bounds map[string]graph.Bounds) (map[string]int, error) {
	sizes, from := maps.Clone(given), map[string]string{}
	if sizes == nil {
		sizes = map[string]int{}
	}
	for _, v := range inputs {
		shape, ok := shapeOf(v.Name)
		if !ok || len(shape) != len(v.Dims) {
			continue
		}
		for i, d := range v.Dims {
			if d.Symbol == "" {
				continue
			}
			n, known := sizes[d.Symbol]
			if !known {
				sizes[d.Symbol], from[d.Symbol] = shape[i], v.Name
			} else if n != shape[i] && from[d.Symbol] != "" {
				return nil, fmt.Errorf("%s is %d in input %q, but %d in input %q", d.Symbol, n, from[d.Symbol], shape[i], v.Name)
			}
		}
	}
	return sizes, solve(inputs, shapeOf, sizes, bounds)
}

func names(values []*graph.Value) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, v := range values {
			if !yield(v.Name) {
				return
			}
		}
	}
}

// inferUnder is [Infer] that ends with a context.
func inferUnder(ctx context.Context, g *graph.Graph) error {
	g.SetContext(ctx)
	defer g.SetContext(context.Background())
	err := Infer(g)
	if ended := ends.Err(ctx); ended != nil {
		return fmt.Errorf("inferring types: %w", ended)
	}
	return err
}

// Infer infers a graph. Where nodes are refused, the error is a [graph.Errors] of all that are for a
// reason of their own, in the order of the file.
func Infer(g *graph.Graph) error {
	if g == nil {
		return errors.New("there is no graph to infer: it is nil")
	}
	if refused := g.InferAll(); len(refused) > 0 {
		return g.RootErrors(refused)
	}
	if errs := g.PinErrors(nil); len(errs) > 0 {
		return errs
	}
	return nil
}

// inFile puts a file's name before an error that has no place in it.
func inFile(path string, err error) error {
	var one *graph.Error
	if errors.As(err, &one) && one.File != "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
