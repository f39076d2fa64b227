package onnx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/tensor"
)

// Model is an ONNX model before its conversion. It is not safe for concurrent use.
type Model struct{ model *convert.Model }

// Options configure a conversion. Symbols whose sizes are given in Dims or Shapes become numbers in the graph.
type Options struct {
	// Dims gives sizes of symbols, by their names or by the model's dim_params: see [Model.Symbol].
	Dims map[string]int
	// Shapes gives shapes of inputs by name. An input of unknown rank requires a shape.
	Shapes map[string][]int

	// Lookup finds ops by name. Nil means kernels.Lookup.
	Lookup graph.Lookup
	// Operators are converters of custom operators. A converter takes precedence over a function of the model with the
	// same name. It is an error to list an operator that already has a converter.
	Operators Operators
	// Replaced are converters that replace standard converters. It is an error to list an operator without a standard
	// converter.
	Replaced Operators

	// UnavailableInputs has the reasons why inputs are not available, by input. [Model.GraphSome] omits the nodes that
	// use these inputs. [Model.Graph] ignores UnavailableInputs.
	UnavailableInputs map[string]error

	// Context, if not nil, cancels the conversion. The error of a cancelled conversion is the context's cause.
	Context context.Context
}

// context returns Context, or the background if there is none.
func (o Options) context() context.Context {
	if o.Context == nil {
		return context.Background()
	}
	return o.Context
}

// Load reads a model and converts it to a graph. With the zero Options, symbols of the model stay symbolic, and the ops
// are the ops of package kernels.
func Load(path string, o Options) (*graph.Graph, error) {
	m, err := Open(o.context(), path)
	if err != nil {
		return nil, err
	}
	return m.Graph(o)
}

// Open reads a model file with GOMAXPROCS workers. External data must be in the file's folder. All weights are read
// into memory, so the file may change afterwards. If ctx ends, the error is its cause.
func Open(ctx context.Context, path string) (*Model, error) {
	data, isPipe, err := files.ReadPipe(ctx, path) // the content of a pipe, which cannot be read at offsets
	if err != nil {
		return nil, err
	}
	var src io.Reader = bytes.NewReader(data)
	if !isPipe {
		f, _, err := files.OpenRegular(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		src = f
	}
	var osFiles fs.FS // nil: the operating system
	m, err := Read(ctx, src, osFiles, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Parse reads a model from memory and keeps no reference to data. External data is in folder dir. If dir is empty, a
// model with external data is rejected.
func Parse(data []byte, dir string) (*Model, error) {
	return Read(context.Background(), bytes.NewReader(data), nil, dir)
}

// ReadOptions are the options of [ReadWith].
type ReadOptions struct {
	// FS and Dir are the folder of external data: see [Read].
	FS  fs.FS
	Dir string
	// Storage, if set, returns the data of a large weight: n bytes of src that begin at offset. It is called from
	// several goroutines. The data must not be written.
	Storage func(src io.ReaderAt, offset int64, n int) (*tensor.Storage, error)
}

// Read reads a model from a reader. External data is in folder dir of the file system fsys, or of the operating system
// if fsys is nil. The folder "." is the root of fsys. If dir is empty, a model with external data is rejected. A reader
// with [io.ReaderAt] and [io.Seeker] is not copied into memory. When ctx ends, the error is its cause.
func Read(ctx context.Context, r io.Reader, fsys fs.FS, dir string) (*Model, error) {
	return ReadWith(ctx, r, ReadOptions{FS: fsys, Dir: dir})
}

// ReadWith is [Read] with options.
func ReadWith(ctx context.Context, r io.Reader, o ReadOptions) (*Model, error) {
	if r == nil {
		return nil, errors.New("the reader is nil")
	}
	contents, err := files.Contents(ctx, r)
	if err != nil {
		return nil, err
	}
	folder := files.FolderOf(o.FS, o.Dir, "the model")
	file, err := modelfile.Read(ctx, contents, int(contents.Size()), folder, o.Storage)
	if err != nil {
		return nil, err
	}
	return &Model{convert.NewModel(file)}, nil
}

// checkOpened returns an error if the model was not made by [Open], [Read] or [Parse].
func (m *Model) checkOpened() error {
	if m == nil || m.model == nil {
		return errors.New("the model is empty: Open, Read or Parse returns a model")
	}
	return nil
}

// Declare declares the shape of an input whose rank the model does not declare. A size is a number, a symbol or an
// expression. For an input of declared rank, Declare replaces the sizes that are not numbers.
func (m *Model) Declare(input string, dims ...graph.Dim) error {
	if err := m.checkOpened(); err != nil {
		return err
	}
	return m.model.Declare(input, dims)
}

// Fix makes an input a constant, all of whose elements are the value. A size that the model does not declare as a
// number is 1. If an If depends on the input, as on use_cache_branch in a decoder that optimum has merged from two,
// only the branch that is taken is converted.
func (m *Model) Fix(input string, value tensor.Scalar) error {
	if err := m.checkOpened(); err != nil {
		return err
	}
	return m.model.Fix(input, value)
}

// Signature returns a graph with the model's inputs and no nodes. It omits unsupported inputs, which [Model.Graph]
// rejects. Inputs of unknown rank are [graph.Value.Dynamic]: Model.Graph needs their shapes.
func (m *Model) Signature() (*graph.Graph, error) {
	if err := m.checkOpened(); err != nil {
		return nil, err
	}
	return m.model.Signature(), nil
}

// Symbol returns the symbol of the graph for a dim_param such as "batch-size", or for a generated name such as x_dim0.
// Any other name is returned unchanged.
func (m *Model) Symbol(name string) string {
	if m == nil || m.model == nil {
		return name
	}
	return m.model.Symbol(name)
}

// Sizes returns a new map from symbols to sizes. The keys of `given` are symbols or dim_params: see [Model.Symbol]. It
// is an error to give a size both for a symbol and for its dim_param.
func (m *Model) Sizes(given map[string]int) (map[string]int, error) {
	if m == nil {
		m = &Model{}
	}
	return m.model.Sizes(given)
}

// Graph converts the model. The graph is valid for all sizes of the symbols.
func (m *Model) Graph(o Options) (*graph.Graph, error) {
	const skipErrors = false
	conversion, err := m.convert(o, skipErrors)
	if err != nil {
		return nil, err
	}
	return conversion.Graph, nil
}

// LoadSome loads a model as [Load] does, but skips mistakes: see [Model.GraphSome].
func LoadSome(path string, o Options) (*graph.Graph, graph.Errors, error) {
	m, err := Open(o.context(), path)
	if err != nil {
		return nil, nil, err
	}
	return m.GraphSome(o)
}

// GraphSome converts the model as [Model.Graph] does, but skips mistakes. For a node that cannot be converted, or that
// reads an unavailable value, the graph has a node with the same name and operator. Inference ([graph.Graph.InferAll])
// rejects this node. Unavailable initializers, inputs and outputs are not in the graph; the second result has their
// errors. The last result is an error if no part of the model can be converted.
func (m *Model) GraphSome(o Options) (*graph.Graph, graph.Errors, error) {
	const skipErrors = true
	conversion, err := m.convert(o, skipErrors)
	if err != nil {
		return nil, nil, err
	}
	return conversion.Graph, conversion.Skipped, nil
}

// ErrUnavailableOperand matches ([errors.Is]) the error of a node that reads an unavailable value. The value has an
// error of its own.
var ErrUnavailableOperand = convert.ErrUnavailableOperand

// convert converts the model. If skipErrors is true, it skips mistakes.
func (m *Model) convert(o Options, skipErrors bool) (*convert.Conversion, error) {
	if err := m.checkOpened(); err != nil {
		return nil, err
	}
	full, err := o.complete()
	if err != nil {
		return nil, err
	}
	full.SkipErrors = skipErrors
	return m.model.Convert(full)
}
