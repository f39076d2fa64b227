package apifuzz

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"reflect"
	"strings"
	"testing/fstest"
	"unsafe"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/contiguity"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/onnx"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/safetensors"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// makers has a function for each type that returns an argument. Arguments of other types are made from their parts.
var makers = map[reflect.Type]func(w *world) any{
	reflect.TypeFor[int]():     func(w *world) any { return w.int() },
	reflect.TypeFor[int64]():   func(w *world) any { return int64(w.int()) },
	reflect.TypeFor[uintptr](): func(w *world) any { return uintptr(0) },
	reflect.TypeFor[float64](): func(w *world) any {
		return pick(w, []float64{0, 1, -1, 0.5, math.NaN(), math.Inf(-1), 1e300})
	},
	reflect.TypeFor[complex128](): func(w *world) any { return pick(w, []complex128{0, 1, 2i, complex(math.NaN(), 1)}) },
	reflect.TypeFor[[]int]():      func(w *world) any { return w.ints() },
	reflect.TypeFor[string]():     func(w *world) any { return pick(w, words) },
	reflect.TypeFor[[]byte](): func(w *world) any {
		return pick(w, [][]byte{nil, {}, []byte("{}"), safeBytes(), modelBytes(), make([]byte, 100)})
	},
	reflect.TypeFor[tensor.DType]():        func(w *world) any { return w.dtype() },
	reflect.TypeFor[tensor.MemoryFormat](): func(w *world) any { return tensor.MemoryFormat(w.rng.IntN(8)) },
	reflect.TypeFor[tensor.Meta]():         func(w *world) any { return w.meta() },
	reflect.TypeFor[*tensor.Pool]():        func(w *world) any { return new(tensor.Pool) },
	reflect.TypeFor[sym.Int]():             func(w *world) any { return w.size() },
	reflect.TypeFor[sym.Bool]():            func(w *world) any { return w.size().Lt(w.size()) },
	reflect.TypeFor[*sym.Evaluator](): func(w *world) any {
		size := w.size()
		e, err := sym.NewEvaluator([]string{"M", "N"}, []sym.Int{size}, []sym.Bool{size.Lt(w.size())})
		if err != nil {
			panic(err)
		}
		return e
	},
	reflect.TypeFor[contiguity.Predicate](): func(w *world) any {
		return pick(w, append([]contiguity.Predicate{{}}, contiguity.Predicates...))
	},
	reflect.TypeFor[contiguity.Claim](): func(w *world) any { return claimOf(w) },
	reflect.TypeFor[*contiguity.ClaimReport](): func(w *world) any {
		p, err := contiguity.ProveClaim(claimOf(w), w.rng.IntN(3))
		if err != nil {
			return &contiguity.ClaimReport{}
		}
		return p
	},
	reflect.TypeFor[*contiguity.Report](): func(w *world) any {
		p, err := contiguity.Prove(contiguity.Predicates[0], w.rng.IntN(4))
		if err != nil {
			panic(err)
		}
		return p
	},
	reflect.TypeFor[tensor.Type]():    func(w *world) any { return w.typ() },
	reflect.TypeFor[tensor.Order]():   func(w *world) any { return pick(w, orders) },
	reflect.TypeFor[tensor.Scalar]():  func(w *world) any { return pick(w, scalars) },
	reflect.TypeFor[*tensor.Tensor](): func(w *world) any { return w.tensor() },
	reflect.TypeFor[*tensor.Storage](): func(w *world) any {
		return pick(w, []*tensor.Storage{nil, {}, tensor.NewStorage(24), tensor.StorageOf(make([]byte, 7))})
	},
	reflect.TypeFor[*graph.Graph](): func(w *world) any { return w.graph() },
	reflect.TypeFor[*graph.Value](): func(w *world) any { return w.value() },
	reflect.TypeFor[*graph.Node]():  func(w *world) any { return w.node() },
	reflect.TypeFor[*graph.Parts](): func(w *world) any { return pick(w, []*graph.Parts{nil, new(graph.Parts)}) },
	reflect.TypeFor[*graph.Op]():    func(w *world) any { return pick(w, append(kernels.All(), nil, new(graph.Op))) },
	reflect.TypeFor[*graph.Schema](): func(w *world) any {
		return pick(w, append(kernels.All(), &graph.Op{Semantics: graph.Semantics{Schema: new(graph.Schema)}})).Schema
	},
	reflect.TypeFor[*graph.Kernel](): func(w *world) any {
		return &graph.Kernel{Scratch: w.rng.IntN(99), WorkerScratch: w.rng.IntN(99)}
	},
	reflect.TypeFor[*graph.Mem]():   func(w *world) any { return new(graph.Mem) },
	reflect.TypeFor[*graph.Call]():  func(w *world) any { return w.call() },
	reflect.TypeFor[graph.Places](): func(w *world) any { return pick(w, []graph.Places{nil, nowhere{}}) },
	reflect.TypeFor[*graph.Draft](): func(w *world) any { return w.draft() },
	reflect.TypeFor[graph.Dim](): func(w *world) any {
		return pick(w, []graph.Dim{{}, {Size: w.rng.IntN(9)}, {Symbol: "N"}, {Expr: "N*2 - 7"}, {Expr: "8//(N-2"}})
	},
	reflect.TypeFor[*graph.Symbolic](): func(w *world) any {
		s, err := symbolic().Symbolic(nil)
		if err != nil {
			panic(err)
		}
		return pick(w, []*graph.Symbolic{s, {}})
	},
	reflect.TypeFor[*graph.NodeAttrs](): func(w *world) any {
		return w.draft().Attributes(pick(w, kernels.All()), w.attrs())
	},
	reflect.TypeFor[graph.Attrs](): func(w *world) any { return w.attrs() },
	reflect.TypeFor[*graph.Impl](): func(w *world) any {
		return pick(w, []*graph.Impl{new(graph.Impl), &kernels.Lookup("conv2d").Impls[0], &kernels.Lookup("add").Impls[0]})
	},
	reflect.TypeFor[graph.Walk](): func(w *world) any {
		return graph.Walk{LoopOrder: pick(w, orders), ResultOrders: []tensor.Order{pick(w, orders)}}
	},
	reflect.TypeFor[*graph.Segment](): func(w *world) any { return w.segment() },
	reflect.TypeFor[pricing.Work]():   func(w *world) any { return pricing.Work{StartedSteps: 1} },
	reflect.TypeFor[graph.Pin](): func(w *world) any {
		return graph.Pin{Format: tensor.MemoryFormat(w.rng.IntN(8)), Order: pick(w, orders), Impl: pick(w, words)}
	},
	reflect.TypeFor[*passes.Plan](): func(w *world) any {
		p, err := passes.Run(small(), passes.Options{})
		if err != nil {
			panic(err)
		}
		return p
	},
	reflect.TypeFor[graph.Lookup](): func(w *world) any {
		return pick(w, []graph.Lookup{kernels.Lookup, kernels.Lookup, nil, noOps, looseOps})
	},
	reflect.TypeFor[*graph.Pointwise](): func(w *world) any {
		return pick(w, []*graph.Pointwise{kernels.Lookup("add").Pointwise, new(graph.Pointwise)})
	},
	reflect.TypeFor[*layout.Problem]():         func(w *world) any { return w.problem() },
	reflect.TypeFor[*layout.Model]():           func(w *world) any { return w.layoutModel() },
	reflect.TypeFor[wcsp.Solver]():             func(w *world) any { return pick(w, []wcsp.Solver{nil, wcsp.Exact}) },
	reflect.TypeFor[*experiment.Certificate](): func(w *world) any { return w.certificate() },
	reflect.TypeFor[*layout.Copy]():            func(w *world) any { return w.layoutCopy() },
	reflect.TypeFor[*pricing.Profile](): func(w *world) any {
		return pick(w, []*pricing.Profile{nil, pricing.DefaultProfile(), {}})
	},
	reflect.TypeFor[*wcsp.Problem]():     func(w *world) any { return w.constraints() },
	reflect.TypeFor[*wcsp.Solution]():    func(w *world) any { return w.solution() },
	reflect.TypeFor[*exec.Program]():     func(w *world) any { return w.program() },
	reflect.TypeFor[*exec.Session]():     func(w *world) any { return w.program().NewSession() },
	reflect.TypeFor[*npz.Archive]():      func(w *world) any { return archive() },
	reflect.TypeFor[*safetensors.File](): func(w *world) any { return w.file() },
	reflect.TypeFor[*graphrun.Program](): func(w *world) any { return w.compiled() },
	reflect.TypeFor[experiment.Options](): func(w *world) any {
		return experiment.Options{Runs: w.rng.IntN(4) - 1, Seed: w.rng.Uint64(),
			BoundNS: pick(w, []*float64{nil, new(0.0), new(math.NaN())})}
	},
	reflect.TypeFor[*graphrun.File](): func(w *world) any { return w.opened() },
	reflect.TypeFor[*onnx.Model]():    func(w *world) any { return model() },
	reflect.TypeFor[iter.Operand]():   func(w *world) any { return w.operand() },
	reflect.TypeFor[iter.Config]():    func(w *world) any { return w.config() },
	reflect.TypeFor[*iter.Iterator](): func(w *world) any { return w.iterator() },
	reflect.TypeFor[rule.Config]():    func(w *world) any { return w.config().Config },
	reflect.TypeFor[*rule.Resolved](): func(w *world) any { return w.iterator().Rule.Operand(0) },
	reflect.TypeFor[*iter.Rule]():     func(w *world) any { return &w.iterator().Rule },
	reflect.TypeFor[iter.Kernel]():    func(w *world) any { return pick(w, loops) },
	reflect.TypeFor[*iter.Table]():    func(w *world) any { return pick(w, []*iter.Table{nil, table}) },
	reflect.TypeFor[iter.Kernels]():   func(w *world) any { return pick(w, []iter.Kernels{nil, loops[1], table}) },
	reflect.TypeFor[*iter.Fold]():     func(w *world) any { return fold() },
	reflect.TypeFor[*iter.Reducer]():  func(w *world) any { return reducer() },
	reflect.TypeFor[any]():            func(w *world) any { return w.any() },
	reflect.TypeFor[error]():          func(w *world) any { return pick(w, []error{nil, errTest}) },
	reflect.TypeFor[unsafe.Pointer](): func(w *world) any { return unsafe.Pointer(nil) },
	reflect.TypeFor[context.Context](): func(w *world) any {
		return pick(w, []context.Context{nil, context.Background(), cancelled()})
	},
	reflect.TypeFor[fs.FS](): func(w *world) any { return pick(w, []fs.FS{nil, fstest.MapFS{"x": {}}}) },
	reflect.TypeFor[io.Reader](): func(w *world) any {
		return pick(w, []io.Reader{nil, strings.NewReader(""), strings.NewReader(graphFile), failing{}})
	},
	reflect.TypeFor[io.Writer](): func(w *world) any { return pick(w, []io.Writer{nil, io.Discard, failing{}}) },
	reflect.TypeFor[io.ReaderAt](): func(w *world) any {
		return pick(w, []io.ReaderAt{nil, bytes.NewReader(nil), failing{}})
	},
	reflect.TypeFor[graph.Runtime](): func(w *world) any { return pick(w, []graph.Runtime{nil, graph.Reference{}}) },
}

// loops are kernels with one and two operands, and an invalid one.
var loops = []iter.Kernel{{}, iter.Map1(func(a float32) float32 {
	return -a
}), iter.Map2(func(a, b float32) float32 { return a + b }),
	iter.Slice1(func(dst []int64, a []int64) { copy(dst, a) })}

var table = iter.NewTable("test", loops[1], loops[3])

var (
	errTest = errors.New("a test's error")
	words   = []string{"", "x", "y", "s", "relu", "add", "float32", "channels_last", "no/such/file", ".", "N", "propagate",
		"a\x00b", "input"}
	orders  = []tensor.Order{"", tensor.RowMajorOrder(2), tensor.RowMajorOrder(4), "\x01\x00", "\x00\x02\x03\x01"}
	scalars = []tensor.Scalar{{}, tensor.IntScalar(2), tensor.FloatScalar(0.5), tensor.BoolScalar(true),
		tensor.ComplexScalar(1i)}
)

const graphFile = `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3]}], "nodes": [{"name": "y", "op": "relu", "inputs": ["x"]}], "outputs": ["y"]}`

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func noOps(string) *graph.Op { return nil }

func looseOps(name string) *graph.Op { return &graph.Op{Semantics: graph.Semantics{Name: name}} }

// failing is a reader and writer that always returns an error.
type failing struct{}

func (failing) Read([]byte) (int, error)          { return 0, errTest }
func (failing) Write([]byte) (int, error)         { return 0, errTest }
func (failing) ReadAt([]byte, int64) (int, error) { return 0, errTest }

// nowhere returns no places.
type nowhere struct{}

func (nowhere) Node(int, string) (graph.Place, bool) { return graph.Place{}, false }
func (nowhere) Value(int) (graph.Place, bool)        { return graph.Place{}, false }
func (nowhere) Output(string) (graph.Place, bool)    { return graph.Place{}, false }

// draft returns a draft with an input and an incomplete node.
func (w *world) draft() *graph.Draft {
	d := graph.NewDraft(kernels.Lookup, w.rng.IntN(8), nowhere{})
	if _, err := d.Input("x", graph.Decl{DType: tensor.Float32, Dims: []graph.Dim{{Size: 2}, {Size: 3}}}); err != nil {
		panic(err)
	}
	d.Node("y", nil)
	return d
}

// problem returns the layout problem of a random graph.
func (w *world) problem() *layout.Problem {
	g := w.graph()
	if g == nil || g.Err() != nil {
		g = graph.New("empty", kernels.Lookup)
	}
	return layout.NewProblem(g, nil)
}

func (w *world) layoutModel() *layout.Model {
	m, err := layout.NewModel(w.problem())
	if err != nil || w.rng.IntN(8) == 0 {
		return new(layout.Model)
	}
	if w.rng.IntN(8) == 0 {
		m.WCSP = w.constraints()
	}
	return m
}

func (w *world) certificate() *experiment.Certificate {
	p, err := graphrun.Compile(context.Background(), small(), graphrun.Options{Strategy: graphrun.Optimal})
	if err != nil {
		panic(err)
	}
	c, err := experiment.Certify(p)
	if err != nil {
		panic(err)
	}
	switch w.rng.IntN(6) {
	case 0:
		return pick(w, []*experiment.Certificate{nil, new(experiment.Certificate)})
	case 1:
		c.Problem = w.constraints()
	case 2:
		c.Solution = w.solution()
	case 3:
		c.Options.Sizes = map[string]int{pick(w, words): w.int()}
	case 4:
		c.Options.Pins = []experiment.CertifiedPin{{Name: pick(w, words), Pin: pick(w, words)}}
	}
	return c
}

func (w *world) layoutCopy() *layout.Copy {
	c := &layout.Copy{Value: w.value(), Order: pick(w, orders)}
	if c.Value == nil {
		c.Value = &graph.Value{}
	}
	return c
}

// size returns a number, or sometimes a symbol.
func (w *world) size() sym.Int {
	if w.env == nil {
		w.env = sym.NewEnv()
	}
	if w.rng.IntN(3) > 0 {
		return sym.Of(w.int())
	}
	s, err := w.env.Symbol(pick(w, []string{"M", "N"}), 0, math.MaxInt, 3)
	if err != nil {
		panic(err)
	}
	return s
}

// typ returns a random type, sometimes with symbols.
func (w *world) typ() tensor.Type {
	t := w.meta().Type()
	for d := range t.Shape {
		if w.rng.IntN(6) == 0 {
			t.Shape[d] = w.size()
		}
	}
	return t
}

func fold() *iter.Fold {
	return iter.FoldOf(float32(0), func(a, x float32, _ int) float32 {
		return a + x
	}, func(a, b float32) float32 { return a + b },
		func(a float32) float32 { return a })
}

func reducer() *iter.Reducer {
	x := tensor.Zeros(tensor.Float32, 2, 3)
	out := iter.ReduceOutput(tensor.New(tensor.Float32, 2), []bool{false, true}, false)
	it, err := iter.Reduction(iter.OperandOfMeta(out), iter.OperandOfTensor(x)).Build()
	if err != nil {
		panic(err)
	}
	r, err := it.Reducer(fold())
	if err != nil {
		panic(err)
	}
	return r
}

// any returns a valid or invalid operand or attribute.
func (w *world) any() any {
	switch w.rng.IntN(12) {
	case 0:
		return pick(w, []any{nil, true, "x", int32(3), uint8(1), struct{}{}, []string{"a"}, map[string]any{}, make(chan int),
			(*int)(nil)})
	case 1:
		return w.int()
	case 2:
		return w.ints()
	case 3:
		return pick(w, []any{0.5, math.NaN(), w.dtype(), tensor.MemoryFormat(w.rng.IntN(8)), "Infinity", []any{1.5, nil},
			[]bool{true}, []float64{1}})
	case 4:
		return graph.ValueRef{Value: w.value()}
	case 5:
		return w.graph()
	}
	return w.value()
}

// attrs returns attributes of a random op.
func (w *world) attrs() graph.Attrs {
	if w.rng.IntN(4) == 0 {
		return nil
	}
	op := pick(w, kernels.All())
	return w.attrsOf(op)
}

// attrsOf returns attributes of an op, mostly with the right types.
func (w *world) attrsOf(op *graph.Op) graph.Attrs {
	a := graph.Attrs{}
	for _, f := range op.Schema.Fields {
		if !f.Required && w.rng.IntN(3) > 0 {
			continue
		}
		if w.rng.IntN(12) == 0 {
			a[f.Name] = w.any()
			continue
		}
		a[f.Name] = w.attr(f)
	}
	return a
}

func (w *world) attr(f graph.Field) any {
	if len(f.OneOf) > 0 {
		return pick(w, f.OneOf)
	}
	switch strings.TrimSuffix(f.Type, "?") {
	case "int":
		return w.int()
	case "bool":
		return w.rng.IntN(2) == 0
	case "float", "number":
		return pick(w, []any{0.5, 2, -1.0, math.NaN(), 1e300, 0, math.Inf(1)})
	case "dtype":
		return w.dtype()
	case "memory_format":
		return tensor.MemoryFormat(w.rng.IntN(8))
	case "string":
		return pick(w, words)
	case "bool[]":
		return []bool{true, false}[:w.rng.IntN(3)]
	case "float[]":
		return []float64{0.5, 2, -1, math.NaN()}[:w.rng.IntN(5)]
	case "graph":
		return w.graph()
	}
	return w.ints()
}

// call returns the call of a random node, or an invalid call.
func (w *world) call() *graph.Call {
	switch w.rng.IntN(4) {
	case 0:
		return new(graph.Call)
	case 1:
		return nil
	}
	n := w.node()
	if n == nil {
		return nil
	}
	return n.Call()
}

// argument returns a random argument of any type. depth limits the nesting.
func (w *world) argument(t reflect.Type, depth int) reflect.Value {
	if f := makers[t]; f != nil {
		v := reflect.New(t).Elem()
		if x := reflect.ValueOf(f(w)); x.IsValid() {
			v.Set(x)
		}
		return v
	}
	v := reflect.New(t).Elem()
	if depth == 0 {
		return v
	}
	switch t.Kind() {
	case reflect.Bool:
		v.SetBool(w.rng.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(w.int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(w.int()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(pick(w, []float64{0, 1, -2.5, math.NaN(), math.Inf(1)}))
	case reflect.Complex64, reflect.Complex128:
		v.SetComplex(2i)
	case reflect.Pointer:
		if w.rng.IntN(4) > 0 {
			p := reflect.New(t.Elem())
			p.Elem().Set(w.argument(t.Elem(), depth-1))
			v.Set(p)
		}
	case reflect.Slice:
		if w.rng.IntN(4) > 0 {
			v.Set(reflect.MakeSlice(t, w.rng.IntN(4), 4))
			for i := range v.Len() {
				v.Index(i).Set(w.argument(t.Elem(), depth-1))
			}
		}
	case reflect.Map:
		w.fillMap(v, depth)
	case reflect.Struct:
		for i := range v.NumField() {
			if t.Field(i).IsExported() && w.rng.IntN(5) > 0 {
				v.Field(i).Set(w.argument(t.Field(i).Type, depth-1))
			}
		}
	case reflect.Func:
		if w.rng.IntN(4) > 0 {
			called := 0
			v.Set(reflect.MakeFunc(t, func([]reflect.Value) []reflect.Value {
				// A function that is called for each element of a huge value would run for long. A caller would end the
				// calls in this way.
				if called++; called > enough {
					panic("tensor: the test has seen enough")
				}
				return zeros(t)
			}))
		}
	}
	return v
}

func (w *world) fillMap(v reflect.Value, depth int) {
	if w.rng.IntN(4) == 0 {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for range w.rng.IntN(4) {
		v.SetMapIndex(w.argument(v.Type().Key(), depth-1), w.argument(v.Type().Elem(), depth-1))
	}
}
