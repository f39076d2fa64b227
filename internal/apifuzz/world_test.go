package apifuzz

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/safetensors"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// world has the objects from which the arguments of one call are chosen, so that they fit together: the values of one
// graph, and tensors that share memory.
type world struct {
	rng     *rand.Rand
	tensors []*tensor.Tensor
	graphs  []*graph.Graph
	env     *sym.Env // of symbols
}

func newWorld(rng *rand.Rand) *world { return &world{rng: rng} }

func pick[T any](w *world, from []T) T { return from[w.rng.IntN(len(from))] }

// Sizes that are too large for the memory.
const far, farther, farthest = min(1<<40, math.MaxInt), min(1<<43, math.MaxInt), min(1<<62, math.MaxInt)

// sizes are the integers of arguments. A tensor of such a size takes little memory or is rejected.
var sizes = []int{0, 1, 2, 3, 4, 5, 7, -1, -2, -3, 64, farther, farthest, math.MaxInt, math.MinInt}

func (w *world) int() int {
	if w.rng.IntN(2) == 0 {
		return w.rng.IntN(4)
	}
	return pick(w, sizes)
}

var shapes = [][]int{nil, {}, {2, 3}, {3, 2}, {2, 3}, {1}, {0}, {0, 3}, {4}, {1, 2, 3, 4}, {2, 3, 1, 1}, {-1}, {-1, 3},
	{2, -5}, {6}, {1, 6},
	{farther}, {far, far}, {math.MaxInt, math.MaxInt}, {math.MinInt}, {farthest, 0}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
	{0, 1}, {1, 0}}

func (w *world) ints() []int {
	if w.rng.IntN(4) > 0 {
		return append([]int(nil), pick(w, shapes)...)
	}
	list := make([]int, w.rng.IntN(5))
	for i := range list {
		list[i] = w.int()
	}
	return list
}

func (w *world) dtype() tensor.DType {
	if w.rng.IntN(8) == 0 {
		return tensor.DType(w.rng.IntN(256))
	}
	return tensor.DTypes()[w.rng.IntN(len(tensor.DTypes()))]
}

func (w *world) meta() tensor.Meta {
	switch w.rng.IntN(6) {
	case 0: // any fields
		return tensor.Meta{DType: w.dtype(), Shape: w.ints(), Strides: w.ints(), Offset: w.int()}
	case 1: // row-major, any shape
		return tensor.New(w.dtype(), w.ints()...)
	case 2: // any strides
		m := tensor.New(w.dtype(), w.ints()...)
		for i := range m.Strides {
			m.Strides[i] = w.int()
		}
		return m
	}
	if t := w.tensor(); t != nil {
		return t.Meta
	}
	return tensor.Meta{}
}

// tensor returns one of a few tensors. Most of them share memory.
func (w *world) tensor() *tensor.Tensor {
	if w.tensors == nil {
		w.tensors = makeTensors()
	}
	return pick(w, w.tensors)
}

func makeTensors() []*tensor.Tensor {
	data := make([]float32, 24)
	for i := range data {
		data[i] = float32(i) - 3
	}
	x := tensor.Must(tensor.FromSlice(data[:6], 2, 3))
	all := tensor.Must(tensor.FromSlice(data, 24))
	at := func(offset int, shape, strides []int) *tensor.Tensor {
		return tensor.Must(all.View(tensor.Meta{DType: tensor.Float32, Shape: shape, Strides: strides, Offset: offset}))
	}
	outside, broken := tensor.Zeros(tensor.Float32, 2, 3), tensor.Zeros(tensor.Float32, 2, 3)
	outside.Shape, outside.Offset = []int{200, 3}, 7
	broken.Strides = []int{1}
	ids := tensor.Must(tensor.FromSlice([]int64{0, 1, 1, 0}, 4))
	wide := tensor.Must(tensor.Zeros(tensor.Float32, 1).Expanded([]int{1 << 18}))
	return []*tensor.Tensor{nil, x, x, at(0, []int{2, 3}, []int{1, 2}), at(1, []int{2, 3}, []int{3, 1}),
		at(0, []int{2, 3}, []int{0, 1}),
		at(0, []int{1, 2, 3, 4}, []int{24, 1, 8, 2}), at(5, nil, nil), ids, tensor.Zeros(tensor.Int64),
		tensor.Zeros(tensor.Float32, 0, 3),
		tensor.Zeros(tensor.Bool, 2, 3), tensor.Zeros(tensor.Float64, 3), tensor.Zeros(tensor.Complex64, 2, 3),
		tensor.Zeros(tensor.Float16, 2, 3), new(tensor.Tensor), outside, broken, wide}
}

// graph returns one of a few graphs, some of them with errors.
func (w *world) graph() *graph.Graph {
	if w.graphs == nil {
		g := small()
		w.graphs = []*graph.Graph{g, g, rich(), rich(), small(), nil, new(graph.Graph), graph.New("", nil),
			graph.New("empty", kernels.Lookup), dynamic(), mistaken(), symbolic()}
	}
	return pick(w, w.graphs)
}

func small() *graph.Graph {
	g := graph.New("small", kernels.Lookup)
	x, y := g.Input("x", tensor.Float32, 2, 3), g.InputFormat("y", tensor.Float32, tensor.ChannelsLast, 1, 2, 3, 4)
	c := g.Constant("c", tensor.Must(tensor.FromSlice([]float32{1, 2, 3}, 3)))
	s := op.Add(x, c).Named("s")
	op.Permute(s, []int{1, 0}).Named("p")
	return g.Output("out", op.Relu(s).Named("r")).OutputFormat("image", op.Neg(y), tensor.Contiguous)
}

// rich returns a graph with values of many shapes and dtypes as operands.
func rich() *graph.Graph {
	g := graph.New("rich", kernels.Lookup)
	for i, shape := range [][]int{nil, {0}, {1}, {4}, {2, 3}, {3, 2}, {3, 3}, {0, 3}, {2, 3, 4}, {1, 2, 4, 4},
		{1, 2, 3, 4, 4}} {
		g.Input(fmt.Sprint("f", i), tensor.Float32, shape...)
	}
	for _, d := range tensor.DTypes() {
		g.Input(d.String(), d, 2, 3)
	}
	g.Input("ids", tensor.Int64, 4)
	g.Constant("zero", tensor.Zeros(tensor.Int64))
	g.Constant("shape", tensor.Must(tensor.FromSlice([]int64{3, 2}, 2)))
	return g.Output("out", g.Value("f4"))
}

func dynamic() *graph.Graph {
	g := graph.New("dynamic", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 2, 3)
	return g.Output("out", op.Neg(op.Nonzero(op.Relu(x).Named("r"))))
}

func (w *world) segment() *graph.Segment {
	all := append(dynamic().Segments(), graph.Segment{},
		graph.Segment{Nodes: []*graph.Node{nil, {}}, In: []*graph.Value{nil}})
	return &all[w.rng.IntN(len(all))]
}

func mistaken() *graph.Graph {
	g := graph.New("mistaken", kernels.Lookup)
	return g.Output("out", op.Add(g.Input("x", tensor.Float32, -2), 1))
}

func symbolic() *graph.Graph {
	g := graph.New("symbolic", kernels.Lookup)
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 3})
	return g.Output("out", op.Relu(x))
}

// value returns a value of a random graph, or a value without a graph.
func (w *world) value() *graph.Value {
	switch w.rng.IntN(8) {
	case 0:
		return nil
	case 1:
		return &graph.Value{Name: "loose", Meta: w.meta()}
	}
	var all []*graph.Value
	if g := w.graph(); g != nil {
		g.Values(func(v *graph.Value) { all = append(all, v) })
	}
	if len(all) == 0 {
		return nil
	}
	return pick(w, all)
}

func (w *world) node() *graph.Node {
	if w.rng.IntN(8) == 0 {
		return new(graph.Node)
	}
	g := w.graph()
	if g == nil || len(g.Nodes) == 0 {
		return nil
	}
	return pick(w, g.Nodes)
}

func (w *world) operand() iter.Operand {
	switch w.rng.IntN(6) {
	case 0:
		return iter.UndefinedOutput()
	case 1:
		return iter.NumberOperand(tensor.FloatScalar(2))
	case 2:
		return iter.OperandOfMeta(w.meta())
	case 3:
		return iter.Operand{}
	}
	if t := w.tensor(); t.Check() == nil && t.Numel() < 1000 {
		return iter.OperandOfTensor(t)
	}
	return iter.UndefinedOutputOf(w.dtype())
}

// iterator returns a valid iteration.
func (w *world) iterator() *iter.Iterator {
	for range 10 {
		if it, err := w.config().Build(); err == nil && it.Numel() < 1000 {
			return it
		}
	}
	x := tensor.Zeros(tensor.Float32, 2, 3)
	it, err := iter.Unary(iter.UndefinedOutput(), iter.OperandOfTensor(x)).Build()
	if err != nil {
		panic(err)
	}
	return it
}

func (w *world) config() iter.Config {
	a, b, c := w.operand(), w.operand(), w.operand()
	switch w.rng.IntN(6) {
	case 0:
		return iter.Unary(a, b)
	case 1:
		return iter.Binary(a, b, c)
	case 2:
		return iter.Reduction(a, b)
	case 3:
		return iter.Copy(a, b)
	case 4:
		return iter.New()
	}
	return iter.New().Output(a).Inputs(b, c).PromoteInputsToCommonDType(true)
}

func (w *world) program() *exec.Program {
	plan, err := passes.Run(small(), passes.Options{})
	if err != nil {
		panic(err)
	}
	p, err := exec.Compile(plan.Graph, exec.Options{Threads: 1 + w.rng.IntN(2)})
	if err != nil {
		panic(err)
	}
	return p
}

// archive returns an npz file with two arrays.
func archive() *npz.Archive {
	var b bytes.Buffer
	err := npz.WriteNPZ(&b, []npz.Entry{{Name: "x", Tensor: tensor.Zeros(tensor.Float32, 2, 3)},
		{Name: "y", Tensor: tensor.Zeros(tensor.Int64)}})
	if err != nil {
		panic(err)
	}
	a, err := npz.NewArchive("x.npz", bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		panic(err)
	}
	return a
}

func safeBytes() []byte {
	var b bytes.Buffer
	if err := safetensors.Write(&b, []safetensors.Entry{{Name: "x", Tensor: tensor.Zeros(tensor.Float32, 2, 3)}},
		nil); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func (w *world) file() *safetensors.File {
	f, err := safetensors.Parse(safeBytes())
	if err != nil {
		panic(err)
	}
	return f
}

// constraints returns a constraint problem, sometimes an invalid one.
func (w *world) constraints() *wcsp.Problem {
	p := &wcsp.Problem{Variables: []wcsp.Variable{{Labels: words[:2]}, {Labels: words[:3]}},
		Factors: []wcsp.Factor{{Scope: []int{0, 1}, Costs: []int64{1, 2, 3, wcsp.Forbidden, 0, 1}},
			{Scope: []int{1}, Costs: []int64{0, 4, 5}}}}
	switch w.rng.IntN(6) {
	case 0:
		return nil
	case 1:
		return new(wcsp.Problem)
	case 2:
		p.Factors[w.rng.IntN(2)].Scope = w.ints()
	case 3:
		p.Factors[0].Costs[w.rng.IntN(6)] = int64(w.int())
	}
	return p
}

// solution returns the solution of a constraint problem, sometimes with changes.
func (w *world) solution() *wcsp.Solution {
	s, err := wcsp.Exact.Solve(w.constraints(), wcsp.Options{Proof: true})
	if err != nil {
		return pick(w, []*wcsp.Solution{nil, {Proof: new(wcsp.Proof)}})
	}
	switch n := &s.Proof.Root; w.rng.IntN(5) {
	case 0:
		n.Steps = nil
	case 1:
		n.Parts = []wcsp.Node{*n, {}}
	case 2:
		n.Variable, n.Branches = w.int(), []wcsp.Branch{{Label: w.int()}, {Node: *n}}
	case 3:
		s.Labels = w.ints()
	}
	return s
}
