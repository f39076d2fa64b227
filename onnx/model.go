package onnx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/interrupt"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// maxOpset is the newest supported operator set.
const maxOpset = 28

// Model is an ONNX model before its conversion. It is not safe for concurrent use.
type Model struct {
	ctx       context.Context // the context of the current conversion; may be nil
	proto     *pb.ModelProto
	name      string
	folder    files.Folder // the folder of external data
	functions map[functionKey]*pb.FunctionProto
	files     map[string]string                   // the path of each file of external data, by its location in the model
	storage   storageFunc                         // see [ReadOptions.Storage]
	raw       map[*pb.TensorProto]*tensor.Storage // the raw data of initializers, which their messages lack
	weights   map[*pb.TensorProto]*tensor.Tensor  // decoded tensors
	texts     texts                               // the strings of the model
	symbols   map[string]string                   // the symbol of each dim_param that is no identifier; see dimnames.go
}

// functionKey identifies a function of a model.
type functionKey struct{ domain, name, overload string }

// Options configure a conversion. Sizes given in the options become numbers in the graph.
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

	// UnavailableInputs has the reasons why inputs are not available, by input. [Model.GraphSome] omits the nodes that use
	// these inputs. [Model.Graph] ignores UnavailableInputs.
	UnavailableInputs map[string]error

	// Context, if not nil, cancels the conversion. The error of a cancelled conversion is the context's cause.
	Context context.Context

	skipErrors bool                   // whether mistakes are skipped: see skipped.go
	table      map[operator]converter // all converters, set by [Options.complete]
}

// Load reads a model and converts it to a graph. With the zero Options, symbols of the model stay symbolic, and the ops
// are the ops of package kernels.
func Load(path string, o Options) (*graph.Graph, error) {
	m, err := Open(path)
	if err != nil {
		return nil, err
	}
	return m.Graph(o)
}

// Open reads a model file with GOMAXPROCS workers. External data must be in the file's folder. All weights are read
// into memory, so the file may change afterwards.
func Open(path string) (*Model, error) { return OpenContext(context.Background(), path) }

// OpenContext is [Open] with a context. When the context ends, the error is its cause.
func OpenContext(ctx context.Context, path string) (*Model, error) {
	data, pipe, err := files.ReadPipe(ctx, path)
	if err != nil {
		return nil, err
	}
	var src io.Reader = bytes.NewReader(data)
	if !pipe {
		f, _, err := files.OpenRegular(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		src = f
	}
	m, err := Read(ctx, src, nil, filepath.Dir(path))
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

// minStorage is the minimum size in bytes of a large weight: see [ReadOptions.Storage].
const minStorage = 16 << 10

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
	return parse(ctx, contents, int(contents.Size()), folderOf(o.FS, o.Dir), o.Storage)
}

func folderOf(fsys fs.FS, dir string) files.Folder { return files.FolderOf(fsys, dir, "the model") }

// parse reads a model of size bytes. folder has the external data. storage is [ReadOptions.Storage].
func parse(ctx context.Context, src io.ReaderAt, size int, folder files.Folder, storage storageFunc) (*Model, error) {
	if size == 0 {
		return nil, errors.New("not an ONNX model: the file is empty")
	}
	proto, raw, err := readModel(ctx, src, size, storage)
	if err != nil {
		return nil, err
	}
	if proto.Graph == nil {
		return nil, errors.New("not an ONNX model: it has no graph")
	}
	model := &Model{proto: proto, name: proto.Graph.Name, folder: folder,
		functions: map[functionKey]*pb.FunctionProto{},
		files:     map[string]string{}, raw: raw, storage: storage, weights: map[*pb.TensorProto]*tensor.Tensor{},
		symbols: map[string]string{}}
	for _, f := range proto.Functions {
		model.functions[functionKey{domainOf(f.Domain), f.Name, f.Overload}] = f
	}
	model.nameSymbols()
	return model, nil
}

// checkOpened returns an error if the model was not made by [Open], [Read] or [Parse].
func (m *Model) checkOpened() error {
	if m == nil || m.proto == nil {
		return errors.New("the model is empty: Open, Read or Parse returns a model")
	}
	return nil
}

// notModel replaces protobuf's error by an error that names the kind of the file.
func notModel(data []byte, err error) error {
	if err == nil {
		return nil
	}
	if kind := files.Kind(data); kind != "" {
		return errors.New("not an ONNX model: " + kind)
	}
	return errors.New("not an ONNX model: the file is truncated, or has another format")
}

// domainOf returns the canonical name of a domain. The default domain has the names "" and "ai.onnx"; "" is canonical.
func domainOf(d string) string {
	if d == "ai.onnx" {
		return ""
	}
	return d
}

// opsetsOf returns the operator-set version of each domain.
func opsetsOf(imports []*pb.OperatorSetIDProto) (map[string]int, error) {
	sets := map[string]int{}
	for _, i := range imports {
		d := domainOf(i.Domain)
		if d == "" && (i.Version < 1 || i.Version > maxOpset) {
			return nil, fmt.Errorf("operator set %d is not supported: want 1 to %d", i.Version, maxOpset)
		}
		sets[d] = int(i.Version)
	}
	return sets, nil
}

// Signature returns a graph with the model's inputs and no nodes. It omits inputs of unknown rank and unsupported
// inputs, which [Model.Graph] rejects.
func (m *Model) Signature() (*graph.Graph, error) {
	if err := m.checkOpened(); err != nil {
		return nil, err
	}
	im := m.importer(Options{})
	im.graph.Symbols = map[string]graph.Bounds{}
	weights := map[string]bool{}
	for _, proto := range m.proto.Graph.Initializer {
		weights[proto.Name] = true
	}
	for _, in := range m.proto.Graph.Input {
		if weights[in.Name] || in.TensorType() != nil && in.TensorType().Shape == nil {
			continue
		}
		_, _ = im.addModelInput(in)
		_ = im.graph.TakeErr()
	}
	return im.graph, nil
}

// Graph converts the model. The graph is valid for all sizes of the symbols.
func (m *Model) Graph(o Options) (*graph.Graph, error) {
	o.skipErrors = false
	r, err := m.tryHints(o)
	if err != nil {
		return nil, err
	}
	return r.graph, nil
}

// conversion is the result of a conversion.
type conversion struct {
	graph      *graph.Graph
	skipped    graph.Errors // skipped mistakes: see skipped.go
	errorCount int          // number of skipped mistakes, rejected nodes included
}

// tryHints converts the model. It tries several sets of example sizes of the symbols ([hints]) until a conversion
// succeeds. If mistakes are skipped, it returns the conversion with the fewest mistakes.
func (m *Model) tryHints(o Options) (_ *conversion, err error) {
	defer tensor.CatchMemory(&err)
	if err := m.checkOpened(); err != nil {
		return nil, err
	}
	defer interrupt.Catch(&err)
	m.ctx = o.Context
	defer func() { m.ctx = nil }()
	if err := o.complete(); err != nil {
		return nil, err
	}
	if o.Dims, err = m.Sizes(o.Dims); err != nil {
		return nil, err
	}
	sets, err := opsetsOf(m.proto.OpsetImport)
	if err != nil {
		return nil, err
	}
	if _, ok := sets[""]; !ok {
		sets[""] = 1 // models older than operator sets
	}
	if !o.skipErrors {
		if err := m.checkSupported(o); err != nil {
			return nil, err
		}
	}
	var best *conversion
	var first error
	for _, h := range hints {
		interrupt.Check(o.Context)
		attempt := m.importer(o)
		if err := attempt.bindHints(h.first, h.step); err != nil {
			return nil, err
		}
		symbols := len(attempt.graph.Symbols)
		result, err := attempt.convertAtHints(&frame{opsets: sets, unrollBudget: maxUnrolled,
			skipErrors: o.skipErrors})
		switch {
		case err != nil && first == nil:
			first = err
		case err == nil && (best == nil || result.errorCount < best.errorCount):
			best = result
		}
		if symbols == 0 || best != nil && best.errorCount == 0 {
			break
		}
	}
	switch {
	case best == nil:
		return nil, first
	case interrupt.Err(o.Context) != nil:
		return nil, interrupt.Err(o.Context)
	case o.skipErrors:
		defer best.graph.SetContext(context.Background())
		return best, rebindSome(best.graph, best.graph.Bound())
	}
	defer best.graph.SetContext(context.Background())
	return best, rebind(best.graph, best.graph.Bound())
}

// importer returns an importer for the model's main graph.
func (m *Model) importer(o Options) *importer {
	g := graph.New(m.name, o.Lookup)
	g.SetContext(o.Context)
	return &importer{model: m, opts: o, graph: g, hasModelName: map[*graph.Value]bool{},
		env: sym.NewEnv(), symbols: map[string]sym.Int{}, hints: map[string]int{}, limits: map[string]int{},
		unknownCount: new(int), expressionTexts: map[string]bool{}, usedSymbols: map[string]bool{},
		symbolInputs: map[string]*val{}, shapes: map[*graph.Value][]sym.Int{}, referenced: map[*graph.Value]*val{}}
}

// convertAtHints converts the model's graph at the hints of the importer.
func (im *importer) convertAtHints(f *frame) (*conversion, error) {
	g, err := im.convert(f)
	for name, limit := range im.limits {
		b := im.graph.Symbols[name]
		b.Max = limit
		im.graph.Symbols[name] = b
	}
	return &conversion{graph: g, skipped: im.skipped, errorCount: len(im.skipped) + im.rejectedCount}, err
}

// rebind gives symbols their default sizes, which apply until a caller binds the symbols. If the graph rejects the
// defaults, the sizes for which the graph was built become the defaults.
func rebind(g *graph.Graph, sizes map[string]int) error {
	if len(g.Symbols) == 0 || g.Bind(nil) == nil {
		return nil
	}
	err := g.Bind(sizes)
	for name, n := range sizes {
		g.Assume(name, n) // default sizes, which a caller may replace
	}
	return err
}

// checkSupported returns one error that lists all operators of the model without a converter.
func (m *Model) checkSupported(o Options) error {
	var list []string
	for _, op := range m.missingOperators(o) {
		list = append(list, fmt.Sprintf("%s (%d%s)", operator{op.Domain, op.Name}, len(op.Nodes),
			suggest.DidYouMean(op.Suggestion)))
	}
	if list == nil {
		return nil
	}
	return fmt.Errorf("the model needs operators that are not supported: %s", strings.Join(list, ", "))
}
