package graphrun

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/onnx"
	"github.com/graphrun/graphrun/tensor"
)

// Load reads a graph file (.json) or an ONNX model (.onnx) and infers its types. Symbolic sizes stay symbols. [Loader]
// has more choices, such as file systems, readers and sizes.
//
// If ctx ends, Load stops. The error then names the interrupted stage and wraps [context.Cause].
func Load(ctx context.Context, path string) (*graph.Graph, error) {
	return Loader{}.Load(ctx, path)
}

// Loader has options for loading graphs. [Load] uses the zero Loader.
type Loader struct {
	// FS is the file system to read from. If it is nil, files of the operating system are read. With an FS, paths have
	// the syntax of [fs.FS] ("models/net.onnx"), and no file outside of the FS is read:
	//
	//	//go:embed models
	//	var embedded embed.FS
	//	g, err := graphrun.Loader{FS: embedded}.Load(ctx, "models/net.onnx")
	FS fs.FS
	// Sizes are the sizes of symbols, by symbol. In a graph whose sizes are numbers, a key INPUT.DIM such as "x.0"
	// changes the number of rows, which are the slices of dimension DIM of the input. In a file without symbols, the
	// key N changes dimension 0 of all inputs. Such a change requires that rows are independent ([batch.Follow]).
	// Otherwise the error names the node that prevents the change.
	//
	// For an ONNX model, the keys may also be the names of dimensions in the model ([onnx.Model.Symbol]). The graph of
	// an ONNX model has the given sizes as numbers, so that computations of shapes are folded at load time.
	Sizes map[string]int
	// Shapes are shapes of inputs, by name of the input. They determine the sizes of the symbols in the declared
	// shapes. An input of unknown rank in an ONNX model requires a shape.
	Shapes map[string][]int
	// Declared declares the shapes of inputs of an ONNX model, by name of the input, in which sizes may be symbols: see
	// [onnx.Model.Declare].
	Declared map[string][]graph.Dim
	// Constants are inputs of an ONNX model that are constants, by name: see [onnx.Model.Fix]. For example, the value true
	// of use_cache_branch selects a branch of a merged decoder.
	Constants map[string]tensor.Scalar
	// Lookup finds ops. If it is nil, the ops are those of package kernels. See [Lookup].
	Lookup graph.Lookup
	// Operators adds converters of ONNX operators that package onnx does not have. Replaced replaces converters of
	// package onnx.
	Operators, Replaced onnx.Operators
	// KeepGoing means that loading continues after invalid nodes and unreadable constants. Inference rejects these nodes
	// and their dependents. A run with [Options.KeepGoing] omits them. Mistakes outside of nodes are returned as a
	// [graph.Errors] together with the graph.
	KeepGoing bool
	// Cache, if set, stores the large weights of ONNX models. A later load maps these weights into memory, so that
	// processes share the memory. Options.Cache should be the same cache. See [OpenCache].
	Cache *Cache
	// UnavailableInputs maps the name of each unavailable input to the reason. With KeepGoing, a model is read without
	// these inputs and their dependents. Without KeepGoing, UnavailableInputs is ignored. [graph.Graph.DropValues]
	// removes such inputs from a graph.
	UnavailableInputs map[string]error
}

// Load reads a graph file or an ONNX model and infers its types. The extension, .json, .onnx or .txt (the text of
// [graph.Parse]), determines the format of the file. For other extensions, the first byte of the file determines the
// format. Files of constants must be in the file's folder.
//
// If there are several mistakes, Load returns a [graph.Errors]. Each error has a position in the file. If ctx ends, Load
// stops: see the function [Load].
func (l Loader) Load(ctx context.Context, path string) (*graph.Graph, error) {
	f, err := l.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	return f.load(ctx)
}

// Read reads a graph file or an ONNX model from a reader, as [Loader.Load] does from the file with the given name.
// Files of constants are in the folder of name in [Loader.FS]. Without an FS, they are rejected. Read does not copy the
// contents of a reader that implements [io.ReaderAt] and [io.Seeker], such as a [bytes.Reader].
func (l Loader) Read(ctx context.Context, r io.Reader, name string) (*graph.Graph, error) {
	if ctx == nil {
		return nil, program.ErrNoContext
	}
	if r == nil {
		return nil, fmt.Errorf("%s: the reader is nil", name)
	}
	dir := ""
	if l.FS != nil {
		dir = path.Dir(name)
	}
	f, err := l.read(ctx, r, name, dir)
	if err != nil {
		return nil, err
	}
	return f.load(ctx)
}

// load converts the file to a graph and infers its types.
func (f *File) load(ctx context.Context) (*graph.Graph, error) {
	g, err := f.Graph(ctx)
	switch {
	case g == nil:
		return nil, err
	case f.Loader.KeepGoing:
		g.SetContext(ctx)
		g.InferAll() // running the graph reports rejected nodes
		g.SetContext(context.Background())
		if ended := interrupt.Err(ctx); ended != nil {
			return nil, fmt.Errorf("%s: the types were not inferred completely: %w", f.path, ended)
		}
		return g, err
	}
	if err := program.Infer(ctx, g); err != nil {
		if interrupt.Err(ctx) != nil {
			err = program.WithFile(f.path, err)
		}
		return nil, err
	}
	return g, nil
}

// Infer infers the types of a graph. If Infer rejects nodes, it returns a [graph.Errors] with the mistakes in the order
// of the file. Nodes that are rejected only because an operand was rejected have no error. If ctx ends, Infer stops.
func Infer(ctx context.Context, g *graph.Graph) error { return program.Infer(ctx, g) }
