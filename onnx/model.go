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
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/internal/files"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// maxOpset is the newest operator set that is supported.
const maxOpset = 24

// Model is an ONNX model that was read but not converted yet.
type Model struct {
	ctx       context.Context // of the conversion at hand; nil: none
	proto     *pb.ModelProto
	name      string
	folder    files.Folder // of external data
	functions map[functionKey]*pb.FunctionProto
	files     map[string]string                   // of external data, by location: paths
	raw       map[*pb.TensorProto]*tensor.Storage // of initializers, which are not in their messages
	weights   map[*pb.TensorProto]*tensor.Tensor
	symbols   map[string]string // of dim_params that are no names of symbols: see dimnames.go
}

// functionKey identifies a function of a model.
type functionKey struct{ domain, name, overload string }

// Options say what is known of a graph's inputs before it runs. What they fix is fixed for
// good in the graph.
type Options struct {
	// Dims are sizes of symbols, by their names or by the dim_params of the model: see [Model.Symbol].
	Dims map[string]int
	// Shapes are the shapes of inputs by name. An input of unknown rank needs one.
	Shapes map[string][]int

	// Lookup finds the ops that operators become; nil finds those of package kernels.
	Lookup graph.Lookup
	// Operators are operators of one's own: those that nobody knows yet. They come before functions
	// of the model that have the same name. One that is known already is refused.
	Operators Operators
	// Replaced are converters that take the place of those for operators that are known. One that is
	// not known is refused.
	Replaced Operators

	// Lost are inputs that cannot be had, by name, and why: [Model.GraphSome] leaves out what
	// depends on them. [Model.Graph] does not ask.
	Lost map[string]error

	// Context ends the conversion when it ends: the error has its cause. Nil: none.
	Context context.Context

	some  bool                   // go on past what is wrong, see some.go
	table map[operator]converter // all of them: see [Options.complete]
}

// Load reads a model and converts it to a graph. With the zero Options its symbols stay symbols, and
// the ops are those of package kernels.
func Load(path string, o Options) (*graph.Graph, error) {
	m, err := Open(path)
	if err != nil {
		return nil, err
	}
	return m.Graph(o)
}

// Open reads a model. External data is looked for in the model's folder only. Weights are read at once, with as many
// workers as GOMAXPROCS says: what becomes of the file afterwards does not matter.
func Open(path string) (*Model, error) { return OpenContext(context.Background(), path) }

// OpenContext is [Open] that ends when the context does: the error then has its cause.
func OpenContext(ctx context.Context, path string) (*Model, error) {
	data, pipe, err := files.ReadPipe(ctx, path)
	if err != nil {
		return nil, err
	}
	var from io.Reader = bytes.NewReader(data)
	if !pipe {
		f, _, err := files.OpenRegular(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	m, err := Read(ctx, from, nil, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Parse reads a model from memory and keeps no reference to it. External data is in folder dir; with an empty dir it is
// rejected.
func Parse(data []byte, dir string) (*Model, error) {
	return Read(context.Background(), bytes.NewReader(data), nil, dir)
}

// Read reads a model from a reader, until the context ends. External data is in folder dir of a file system ("." is its
// root; nil is the operating system); with an empty dir it is rejected. A reader with [io.ReaderAt] and [io.Seeker] is
// read in place.
func Read(ctx context.Context, r io.Reader, fsys fs.FS, dir string) (*Model, error) {
	if r == nil {
		return nil, errors.New("the reader is nil")
	}
	from, err := files.Contents(ctx, r)
	if err != nil {
		return nil, err
	}
	return parse(ctx, from, int(from.Size()), folderOf(fsys, dir))
}

func folderOf(fsys fs.FS, dir string) files.Folder { return files.FolderOf(fsys, dir, "the model") }

// parse reads a model of size bytes.
func parse(ctx context.Context, from io.ReaderAt, size int, folder files.Folder) (*Model, error) {
	if size == 0 {
		return nil, errors.New("not an ONNX model: the file is empty")
	}
	p, raw, err := readModel(ctx, from, size)
	if err != nil {
		return nil, err
	}
	if p.Graph == nil {
		return nil, errors.New("not an ONNX model: it has no graph")
	}
	m := &Model{proto: p, name: p.Graph.Name, folder: folder, functions: map[functionKey]*pb.FunctionProto{},
		files: map[string]string{}, raw: raw, weights: map[*pb.TensorProto]*tensor.Tensor{},
		symbols: map[string]string{}}
	for _, f := range p.Functions {
		m.functions[functionKey{domainOf(f.Domain), f.Name, f.Overload}] = f
	}
	m.nameSymbols()
	return m, nil
}

// opened refuses a model that [Open] or [Parse] did not make.
func (m *Model) opened() error {
	if m == nil || m.proto == nil {
		return errors.New("the model is empty: Open or Parse reads one")
	}
	return nil
}

// notModel says of bytes that protobuf refuses what they are; nil where it does not refuse them.
func notModel(data []byte, err error) error {
	if err == nil {
		return nil
	}
	if kind := files.Kind(data); kind != "" {
		return errors.New("not an ONNX model: " + kind)
	}
	return errors.New("not an ONNX model: the file is truncated, or has another format")
}

// domainOf gives the default domain its one name.
func domainOf(d string) string {
	if d == "ai.onnx" {
		return ""
	}
	return d
}

// opsetsOf returns the operator-set version of each domain.
func opsetsOf(imports []*pb.OperatorSetIdProto) (map[string]int, error) {
	sets := map[string]int{}
	for _, i := range imports {
		d := domainOf(i.GetDomain())
		if d == "" && (i.Version < 1 || i.Version > maxOpset) {
			return nil, fmt.Errorf("operator set %d is not supported: want 1 to %d", i.Version, maxOpset)
		}
		sets[d] = int(i.Version)
	}
	return sets, nil
}

// Signature returns a graph that has the model's inputs and nothing else. Inputs of unknown
// rank are left out, and those that are not supported: the conversion tells.
func (m *Model) Signature() (*graph.Graph, error) {
	if err := m.opened(); err != nil {
		return nil, err
	}
	im := m.importer(Options{})
	im.g.Symbols = map[string]graph.Bounds{}
	weights := map[string]bool{}
	for _, t := range m.proto.Graph.Initializer {
		weights[t.Name] = true
	}
	for _, in := range m.proto.Graph.Input {
		if weights[in.Name] || in.GetType().GetTensorType() != nil && in.GetType().GetTensorType().Shape == nil {
			continue
		}
		_, _ = im.input(in)
		_ = im.g.TakeErr()
	}
	return im.g, nil
}

// Graph converts the model. Whatever depends on sizes that are not given is an expression in the graph, or
// computed by it: nothing is decided for sizes that nobody gave.
func (m *Model) Graph(o Options) (*graph.Graph, error) {
	o.some = false
	r, err := m.read(o)
	if err != nil {
		return nil, err
	}
	return r.g, nil
}

// reading is a graph as it was read.
type reading struct {
	g       *graph.Graph
	missing graph.Errors // what was read past: see some.go
	lost    int          // how much that is, nodes among it
}

// read converts the model, built for the first sizes of its symbols that suit it; where it goes on past
// what is wrong, for those by which it loses the least.
func (m *Model) read(o Options) (_ *reading, err error) {
	defer tensor.CatchMemory(&err)
	if err := m.opened(); err != nil {
		return nil, err
	}
	defer ends.Catch(&err)
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
	if !o.some {
		if err := m.checkSupported(sets, o); err != nil {
			return nil, err
		}
	}
	var best *reading
	var first error
	for _, h := range hints {
		ends.Look(o.Context)
		im := m.importer(o)
		if err := im.bindHints(h.first, h.step); err != nil {
			return nil, err
		}
		symbols := len(im.g.Symbols)
		r, err := im.reading(&frame{opsets: sets, unroll: maxUnrolled, some: o.some})
		switch {
		case err != nil && first == nil:
			first = err
		case err == nil && (best == nil || r.lost < best.lost):
			best = r
		}
		if symbols == 0 || best != nil && best.lost == 0 {
			break
		}
	}
	switch {
	case best == nil:
		return nil, first
	case ends.Err(o.Context) != nil:
		return nil, ends.Err(o.Context)
	case o.some:
		defer best.g.SetContext(context.Background())
		return best, rebindSome(best.g, best.g.Bound())
	}
	defer best.g.SetContext(context.Background())
	return best, rebind(best.g, best.g.Bound())
}

// importer returns what converts the model's main graph.
func (m *Model) importer(o Options) *importer {
	g := graph.New(m.name, o.Lookup)
	g.SetContext(o.Context)
	return &importer{model: m, opts: o, g: g, named: map[*graph.Value]bool{},
		env: sym.NewEnv(), symbols: map[string]sym.Int{}, hints: map[string]int{}, limits: map[string]int{},
		unknowns: new(int), texts: map[string]bool{}, used: map[string]bool{}, carriers: map[string]*val{},
		shapes: map[*graph.Value][]sym.Int{}, read: map[*graph.Value]*val{}}
}

// reading converts the model's graph.
func (im *importer) reading(f *frame) (*reading, error) {
	g, err := im.convert(f)
	for name, most := range im.limits {
		b := im.g.Symbols[name]
		b.Max = most
		im.g.Symbols[name] = b
	}
	return &reading{g: g, missing: im.missing, lost: len(im.missing) + im.refused}, err
}

// rebind gives symbols the sizes that they have in any graph until somebody binds them, or
// those that the graph was built for if it does not take these.
func rebind(g *graph.Graph, sizes map[string]int) error {
	if len(g.Symbols) == 0 || g.Bind(nil) == nil {
		return nil
	}
	err := g.Bind(sizes)
	for name, n := range sizes {
		g.Assume(name, n) // nobody gave them
	}
	return err
}
