package inference

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/batching"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// Batching says which elements run as one batch.
type Batching string

const (
	// BatchExact joins elements whose results have the same bits in the batch as alone.
	BatchExact Batching = "exact"
	// BatchFast joins elements if the rows of the model are independent. The last bits of a result then depend on the
	// size of its batch.
	BatchFast Batching = "fast"
	// BatchOff joins no elements.
	BatchOff Batching = "off"
)

// Options are the options of a transform. They are sent to the workers as JSON.
type Options struct {
	// Model is the path of a model (.onnx or .json), which every worker must be able to read. A path with a scheme, such
	// as gs://bucket/model.onnx, is read with Beam's file system of that scheme, which the program must import.
	Model string
	// Sizes are sizes of symbols: see graphrun.Loader.
	Sizes map[string]int `json:",omitempty"`
	// Exact excludes implementations that compute by another formula than the op's definition: see graphrun.Options.
	Exact bool
	// Threads is the maximum number of threads of one run; 0 is GOMAXPROCS.
	Threads int
	// Batching says which elements run as one batch; "" is BatchExact.
	Batching Batching
	// MaxRows is the maximum number of rows of a batch; 0 is 64. A single element may have more rows.
	MaxRows int
}

// complete replaces zero options by their defaults, and returns an error for invalid options.
func (o *Options) complete() error {
	if o.Batching == "" {
		o.Batching = BatchExact
	}
	if o.MaxRows == 0 {
		o.MaxRows = 64
	}
	switch {
	case o.Model == "":
		return errors.New("Options.Model is empty")
	case o.Batching != BatchExact && o.Batching != BatchFast && o.Batching != BatchOff:
		return fmt.Errorf("Options.Batching is %q: want exact, fast or off", o.Batching)
	case o.MaxRows < 0 || o.Threads < 0:
		return errors.New("Options.MaxRows and Options.Threads must not be negative")
	}
	return nil
}

// model is a loaded model, which all instances of the transform with the same options share ([acquire]). It processes
// elements in two steps: [model.inputs] checks and converts the tensors of each element, and [model.run] runs a batch
// of elements and returns their outputs.
type model struct {
	graph     *graph.Graph
	program   *graphrun.Program
	batchAxis *batching.Axis // nil if elements are not joined
	slots     chan struct{}  // holds one token for each active run
}

// modelEntry is an entry of models: a model that is loaded, or that is being loaded.
type modelEntry struct {
	users int // instances of the transform that use it
	once  sync.Once
	model *model
	err   error
}

var (
	modelsLock sync.Mutex
	models     = map[string]*modelEntry{} // the key is the JSON of Options
)

// acquire returns the model of a key, and loads it if no instance uses it. release must be called after success.
func acquire(ctx context.Context, key string, options Options) (*model, error) {
	modelsLock.Lock()
	entry := models[key]
	if entry == nil {
		entry = &modelEntry{}
		models[key] = entry
	}
	entry.users++
	modelsLock.Unlock()
	// Without cancellation: the model is used after the Beam bundle of ctx has ended.
	entry.once.Do(func() { entry.model, entry.err = load(context.WithoutCancel(ctx), options) })
	if entry.err != nil {
		releaseEntry(key, entry)
	}
	return entry.model, entry.err
}

// release ends the use of the model of a key. The last user drops it.
func release(key string) { releaseEntry(key, nil) }

// releaseEntry ends one use of an entry; nil stands for the present entry of key. It deletes the entry if it has no
// users left. It also deletes an entry whose load failed, so that the next acquire tries again. A new entry that has
// already replaced the failed entry stays.
func releaseEntry(key string, entry *modelEntry) {
	modelsLock.Lock()
	defer modelsLock.Unlock()
	if entry == nil {
		entry = models[key]
	}
	entry.users--
	if models[key] == entry && (entry.users == 0 || entry.err != nil) {
		delete(models, key)
	}
}

// load loads and compiles a model, and finds the batch axis along which elements can be joined.
func load(ctx context.Context, options Options) (*model, error) {
	start := time.Now()
	if err := options.complete(); err != nil {
		return nil, err
	}
	source, err := loadGraph(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("the model cannot be loaded: %w", err)
	}
	threads := options.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	// Active runs together use at most GOMAXPROCS threads. Only a single run may use more.
	loaded := &model{graph: source, slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/threads))}
	reasonNotJoined, err := loaded.compile(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", options.Model, err)
	}
	if reasonNotJoined != nil {
		log.Infof(ctx, "%s: elements are not joined: %v", options.Model, reasonNotJoined)
	}
	modelsLoaded.Inc(ctx, 1)
	loadTime.Update(ctx, time.Since(start).Milliseconds())
	return loaded, nil
}

// loadGraph reads a model. A path with a scheme is read with one of Beam's file systems.
func loadGraph(ctx context.Context, options Options) (*graph.Graph, error) {
	loader, name := graphrun.Loader{Sizes: options.Sizes}, options.Model
	if strings.Contains(options.Model, "://") {
		loader.FS, name = beamFS{ctx, options.Model[:strings.LastIndexByte(options.Model, '/')]}, path.Base(options.Model)
	}
	return loader.Load(ctx, name)
}

// typicalRows is the batch size for which a model is planned if batching is exact. A smaller Options.MaxRows replaces
// it. An element joins a batch only if the batch and the element alone have the same plan.
const typicalRows = 8

// compile sets m.program and m.batchAxis. If the axis is nil, compile returns the reason.
func (m *model) compile(ctx context.Context, options Options) (reasonNotJoined, err error) {
	compileOptions := graphrun.Options{Exact: options.Exact, Threads: options.Threads}
	exact := options.Batching == BatchExact
	var batchSymbol string
	reasonNotJoined = errors.New("batching is off")
	if options.Batching != BatchOff {
		batchSymbol, reasonNotJoined = batching.Symbol(m.graph, compileOptions.Sizes)
		if batchSymbol != "" && exact {
			rows := m.graph.Symbols[batchSymbol].Clamp(min(typicalRows, options.MaxRows))
			compileOptions.Hints = []map[string]int{{batchSymbol: rows}}
		}
	}
	if m.program, err = graphrun.Compile(ctx, m.graph, compileOptions); err != nil {
		return nil, err
	}
	if batchSymbol != "" {
		m.batchAxis, reasonNotJoined = batching.Prove(ctx, m.program.Internal(), m.graph, batchSymbol,
			options.MaxRows, exact)
	}
	return reasonNotJoined, nil
}

// inputs returns the tensors of an element by the name of the input, contiguous and with the declared dtypes. Strings
// are replaced by the integers that stand for them ([graph.Labels]). If the model has one input, its tensor may have
// the name "".
func (m *model) inputs(e Element) (in map[string]*tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	given := e.Tensors
	if t := given[""]; t != nil && len(given) == 1 && len(m.graph.Inputs) == 1 {
		given = map[string]*tensor.Tensor{m.graph.Inputs[0].Name: t}
	}
	in = make(map[string]*tensor.Tensor, len(given))
	for _, v := range m.graph.Inputs {
		t := given[v.Name]
		if t == nil && v.Default != nil {
			continue
		}
		if t == nil {
			return nil, fmt.Errorf("input %q is missing", v.Name)
		}
		if in[v.Name], err = m.input(v, t); err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
	}
	for name := range given {
		if in[name] == nil {
			return nil, fmt.Errorf("the model has no input %q", name)
		}
	}
	return in, nil
}

// input converts the tensor t of an element to the dtype of input v: strings to integers, and uint16 to bfloat16. The
// result is contiguous.
func (m *model) input(v *graph.Value, t *tensor.Tensor) (*tensor.Tensor, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	if labels := m.graph.Labels[v.Name]; labels.IsText() && t.DType != v.Meta.DType {
		list, err := npz.Strings(t)
		if err != nil {
			return nil, err
		}
		return labels.Encode(list, t.Shape[:t.Rank()-1]...)
	}
	if t.DType == tensor.Uint16 && v.Meta.DType == tensor.BFloat16 { // numpy has no bfloat16
		var err error
		if t, err = t.View(t.Meta.WithDType(tensor.BFloat16)); err != nil {
			return nil, err
		}
	}
	if t.DType != v.Meta.DType {
		return nil, fmt.Errorf("the dtype is %v, want %v", t.DType, v.Meta.DType)
	}
	return t.Contiguous(), nil
}

// run runs the program once for a batch. runs has the inputs of each element. It returns the outputs of each element.
func (m *model) run(ctx context.Context, runs []*batching.Run) (out []map[string]*tensor.Tensor, err error) {
	m.slots <- struct{}{}
	defer func() {
		<-m.slots
		if r := recover(); r != nil {
			log.Errorf(ctx, "a run panicked: %v\n%s", r, debug.Stack())
			err = fmt.Errorf("the run failed by an internal error: %v", r)
		}
	}()
	in, err := batching.Join(runs)
	if err != nil {
		return nil, err
	}
	joined, err := m.program.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	out = m.batchAxis.Split(joined, runs)
	for _, elementOutputs := range out {
		if err := m.decodeStrings(elementOutputs); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// decodeStrings replaces the integers that stand for strings by the strings, in the map out.
func (m *model) decodeStrings(out map[string]*tensor.Tensor) error {
	for name, t := range out {
		labels := m.graph.Labels[name]
		if !labels.IsText() {
			continue
		}
		list, err := labels.Decode(t)
		if err != nil {
			return fmt.Errorf("output %q: %w", name, err)
		}
		var encoded bytes.Buffer
		if err := npz.WriteStrings(&encoded, list, t.Shape); err != nil {
			return fmt.Errorf("output %q: %w", name, err)
		}
		if out[name], err = npz.ReadNPY(&encoded, int64(encoded.Len())); err != nil {
			return fmt.Errorf("output %q: %w", name, err)
		}
	}
	return nil
}

// beamFS is a directory of one of Beam's file systems.
type beamFS struct {
	ctx context.Context
	dir string
}

// Open reads a file into memory.
func (b beamFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	data, err := readFile(b.ctx, b.dir+"/"+name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return memoryFile{bytes.NewReader(data), name}, nil
}

// memoryFile is an open file whose contents are in memory. It is its own fs.FileInfo.
type memoryFile struct {
	*bytes.Reader
	name string
}

func (f memoryFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f memoryFile) Close() error               { return nil }
func (f memoryFile) Name() string               { return path.Base(f.name) }
func (f memoryFile) Mode() fs.FileMode          { return 0o444 }
func (f memoryFile) ModTime() time.Time         { return time.Time{} }
func (f memoryFile) IsDir() bool                { return false }
func (f memoryFile) Sys() any                   { return nil }
