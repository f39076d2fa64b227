package onnx

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/halftest"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// This file draws ONNX models (fuzzdraw_test.go) and compares each model, in several forms, with graph.Evaluate.

// fuzzInput is an initializer or an input of a drawn model.
type fuzzInput struct {
	name     string
	data     *tensor.Tensor     // nil if weight or declared is set
	weight   *pb.TensorProto    // an initializer whose elements have no dtype, such as strings
	declared *pb.ValueInfoProto // an input that is no tensor, such as a map
	part     bool               // part of an input that is no tensor: the keys or values of a map
	constant bool
}

// fuzzModel is a drawn model.
type fuzzModel struct {
	seed    uint64 // chooses the forms
	opset   int64
	others  map[string]int64 // operator sets of other domains
	inputs  []*fuzzInput
	nodes   []*pb.NodeProto // sorted
	results []string        // values that can be outputs
	outputs []string
	known   map[string]*tensor.Tensor // inputs, and results by the reference
}

// fuzzForm is one of the forms of a model that must have equal results. The zero fuzzForm is the model as drawn.
type fuzzForm struct {
	openSizes    bool // sizes of inputs are symbols, which are bound by the run
	allConstant  bool // all inputs are initializers
	noConstant   bool // all initializers are inputs
	shuffled     bool // the nodes are not sorted
	branches     bool // the nodes are in both branches of an If
	wholeResults bool // all results are outputs
}

// fuzzForms are the forms besides the zero form.
var fuzzForms = []fuzzForm{{openSizes: true}, {allConstant: true}, {noConstant: true},
	{noConstant: true, openSizes: true}, {shuffled: true}, {branches: true}, {branches: true, openSizes: true}}

func (in *fuzzInput) isConstant(f fuzzForm) bool {
	if in.data == nil || in.part {
		return in.weight != nil
	}
	return (in.constant || f.allConstant) && !f.noConstant
}

// proto returns the model in a form.
func (m *fuzzModel) proto(f fuzzForm) *pb.ModelProto {
	g := &pb.GraphProto{Name: "drawn", Node: m.nodes}
	rng := rand.New(rand.NewPCG(m.seed, 1))
	shared := rng.IntN(4) > 0 // equal sizes have the same symbol
	for _, in := range m.inputs {
		switch {
		case in.part:
		case in.declared != nil:
			g.Input = append(g.Input, in.declared)
		case in.weight != nil:
			g.Initializer = append(g.Initializer, in.weight)
		case in.isConstant(f):
			g.Initializer = append(g.Initializer, fuzzWeight(in.name, in.data))
		default:
			dims := make([]any, in.data.Rank())
			for i, n := range in.data.Shape {
				dims[i] = n
				// The last size of indices and of parameters may be a number of dimensions.
				mayBeRank := i == len(dims)-1 && in.data.DType.IsIntegral(false)
				if f.openSizes && !mayBeRank && rng.IntN(4) > 0 {
					if dims[i] = fmt.Sprint("size", n); !shared {
						dims[i] = fmt.Sprint(in.name, "_", i)
					}
				}
			}
			g.Input = append(g.Input, info(in.name, elementType(in.data.DType), dims...))
		}
	}
	outputs := m.outputs
	if f.wholeResults {
		outputs = m.results
	}
	for _, name := range outputs {
		g.Output = append(g.Output, &pb.ValueInfoProto{Name: name})
	}
	if f.shuffled {
		g.Node = slices.Clone(m.nodes)
		rng.Shuffle(len(g.Node), func(i, j int) { g.Node[i], g.Node[j] = g.Node[j], g.Node[i] })
	}
	if f.branches {
		body := func() *pb.GraphProto { return &pb.GraphProto{Name: "branch", Node: m.nodes, Output: g.Output} }
		names := []string{}
		var outer []*pb.ValueInfoProto
		for _, o := range g.Output {
			names = append(names, "if."+o.Name)
			outer = append(outer, &pb.ValueInfoProto{Name: "if." + o.Name})
		}
		g.Input = append(g.Input, info("condition", pb.Bool))
		g.Node = []*pb.NodeProto{node1("If", []string{"condition"}, names, attrGraph("then_branch", body()),
			attrGraph("else_branch", body()))}
		g.Output = outer
	}
	p := &pb.ModelProto{IrVersion: 8, Graph: g, OpsetImport: []*pb.OperatorSetIDProto{{Version: m.opset}}}
	for _, domain := range sorted.Keys(m.others) {
		p.OpsetImport = append(p.OpsetImport, &pb.OperatorSetIDProto{Domain: domain, Version: m.others[domain]})
	}
	return p
}

// elementType is the inverse of modelfile.DTypeOf.
func elementType(d tensor.DType) pb.DataType {
	for t := pb.Float; t <= pb.BFloat16; t++ {
		if known, err := modelfile.DTypeOf(int32(t)); err == nil && known == d {
			return t
		}
	}
	panic(fmt.Sprint("no element type for ", d))
}

func fuzzWeight(name string, x *tensor.Tensor) *pb.TensorProto {
	dims := make([]int64, x.Rank())
	for i, n := range x.Shape {
		dims[i] = int64(n)
	}
	c := x.CopyTo(tensor.New(x.DType, x.Shape...))
	return &pb.TensorProto{Name: name, DataType: int32(elementType(x.DType)), Dims: dims,
		RawData: c.Storage().Bytes()[:c.Meta.Bytes()]}
}

// given returns the inputs of a run.
func (m *fuzzModel) given(f fuzzForm) map[string]*tensor.Tensor {
	in := map[string]*tensor.Tensor{}
	for _, x := range m.inputs {
		if x.data != nil && !x.isConstant(f) {
			in[x.name] = x.data
		}
	}
	if f.branches {
		in["condition"] = tensor.BoolScalar(m.seed%2 == 0).Tensor(tensor.Bool)
	}
	return in
}

// fuzzPanic is the error of a conversion that panics.
type fuzzPanic struct{ text string }

func (p *fuzzPanic) Error() string { return p.text }

const fuzzTimeout = 60 * time.Second

// load converts the model in a form. Sizes that are not symbols in the form are fixed.
func (m *fuzzModel) load(f fuzzForm) (_ *graph.Graph, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &fuzzPanic{fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	parsed, err := Parse(pb.Marshal(m.proto(f)), "")
	if err != nil {
		return nil, fmt.Errorf("written and not read: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), fuzzTimeout)
	defer cancel()
	shapes := map[string][]int{}
	for _, in := range m.inputs {
		if in.part {
			shapes[in.name] = in.data.Shape
		}
	}
	g, err := parsed.Graph(Options{Context: ctx, Shapes: shapes})
	if err != nil && ctx.Err() != nil {
		panic("loading does not end")
	}
	return g, err
}

// mostEvaluated is the number of elements, of all values of a model, up to which the reference evaluates it.
const mostEvaluated = 1 << 19

// evaluate computes all results by the reference, as the drawing of further nodes needs them.
func (m *fuzzModel) evaluate() error {
	f := fuzzForm{wholeResults: true}
	g, err := m.load(f)
	if err != nil {
		return err
	}
	elements := 0
	g.Values(func(v *graph.Value) {
		if !v.Dynamic {
			elements += min(v.Meta.Numel(), mostEvaluated)
		}
	})
	if elements > mostEvaluated {
		return errors.New("the reference would take long")
	}
	known, err := graph.Evaluate(g, m.given(f))
	if err != nil {
		return err
	}
	m.known = known
	for _, in := range m.inputs {
		if in.data != nil && !in.part {
			m.known[in.name] = in.data
		}
	}
	return nil
}

// fuzzOutcome is what check finds.
type fuzzOutcome struct {
	fault    string
	refused  error   // why the model as drawn is refused
	failed   bool    // the model is accepted, and the reference refuses the inputs
	forms    int     // forms that were compared
	declined []error // why forms are refused, by index of fuzzForms; nil if they are not
}

// check compares all forms of the model with the reference.
func (m *fuzzModel) check() (o fuzzOutcome) {
	defer func() {
		if p := recover(); p != nil {
			o.fault = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	var g *graph.Graph
	if g, o.refused = m.load(fuzzForm{}); o.refused != nil {
		o.fault = unplaced(o.refused)
		return o
	}
	in := m.given(fuzzForm{})
	want, refused := graph.Evaluate(g, in)
	if no := (graph.NoReference{}); errors.As(refused, &no) || isMemory(refused) {
		o.refused = refused
		return o
	}
	o.failed = refused != nil
	other := layout.All()[m.seed%uint64(len(layout.All()))]
	noise := m.noise(g)
	var first map[string]*tensor.Tensor
	for _, options := range []program.Options{{Threads: 1}, {Threads: 3}, {Threads: 1, Strategy: other}} {
		name := fmt.Sprintf("%d workers", options.Threads)
		if options.Strategy != nil {
			name = fmt.Sprint("strategy ", other)
		}
		got, fault := m.run(g, in, options, want, refused, noise)
		switch {
		case fault != "":
			o.fault = name + ": " + fault
			return o
		case first == nil:
			first = got
		case options.Strategy == nil:
			if err := sameBits(got, first); err != nil {
				o.fault = fmt.Sprintf("%s: other bits than with 1: %v", name, err)
				return o
			}
		}
	}
	if o.fault = checkTypes(g, first); o.fault != "" {
		return o
	}
	o.declined = make([]error, len(fuzzForms))
	for i, f := range fuzzForms {
		if f.shuffled && !convertsAnyOrder() || f.openSizes && m.squeezesAll() || f.noConstant && m.needsConstants() {
			continue
		}
		name := fmt.Sprintf("form %+v: ", f)
		formed, err := m.load(f)
		if o.declined[i] = err; err != nil {
			if o.fault = unplaced(err); o.fault == "" && f.shuffled {
				o.fault = "refused: " + err.Error()
			}
			if o.fault != "" {
				o.fault = name + o.fault
				return o
			}
			continue
		}
		o.forms++
		got, fault := m.run(formed, m.given(f), program.Options{Threads: 2}, recoded(want, g, formed), refused, noise)
		if fault == "" {
			fault = checkTypes(formed, got)
		}
		for _, out := range formed.Outputs {
			keys, want := formed.Labels[out.Name].Keys(), g.Labels[strings.TrimPrefix(out.Name, "if.")].Keys()
			if fault == "" && !slices.Equal(keys, want) {
				fault = fmt.Sprintf("labels: output %s has the keys %v, want %v", out.Name, keys, want)
			}
		}
		if fault != "" {
			o.fault = name + fault
			return o
		}
	}
	return o
}

// recoded returns results of g with the codes that strings have in another graph, whose nodes may be in another order.
func recoded(results map[string]*tensor.Tensor, g, other *graph.Graph) map[string]*tensor.Tensor {
	recoded := maps.Clone(results)
	for _, out := range other.Outputs {
		name := strings.TrimPrefix(out.Name, "if.")
		list, err := g.Labels[name].Decode(results[name])
		if err != nil || len(g.Labels[name].Texts.List()) == 0 {
			continue
		}
		if x, err := other.Labels[out.Name].Encode(list, results[name].Shape...); err == nil {
			recoded[name] = x
		}
	}
	return recoded
}

// squeezesAll reports whether a Squeeze has no axes. The rank of its result is that for open sizes other than 1; later
// nodes that depend on the rank fail for 1.
func (m *fuzzModel) squeezesAll() bool {
	var squeezes func(n *pb.NodeProto) bool
	squeezes = func(n *pb.NodeProto) bool {
		hasAxes := len(n.Input) > 1 && m.opset >= 13
		for _, a := range n.Attribute {
			if hasAxes = hasAxes || a.Name == "axes"; a.G != nil && slices.ContainsFunc(a.G.Node, squeezes) {
				return true
			}
		}
		return n.OpType == "Squeeze" && !hasAxes
	}
	return slices.ContainsFunc(m.nodes, squeezes)
}

// needsConstants reports whether a Squeeze lists an axis twice: axes that are known only in a run are counted, so that
// the number of dimensions does not depend on data. GroupQueryAttention reads no positions of an empty cache if it has
// room for all keys, which a constant operand tells.
func (m *fuzzModel) needsConstants() bool {
	return slices.ContainsFunc(m.nodes, func(n *pb.NodeProto) bool {
		if n.OpType == "GroupQueryAttention" {
			return true
		}
		if n.OpType != "Squeeze" || len(n.Input) < 2 || m.known[n.Input[0]] == nil || m.known[n.Input[1]] == nil {
			return false
		}
		rank, axes := float64(m.known[n.Input[0]].Rank()), halftest.Float64s(m.known[n.Input[1]])
		for i, axis := range axes {
			for _, other := range axes[:i] {
				if axis == other || math.Abs(axis-other) == rank {
					return true
				}
			}
		}
		return false
	})
}

// noise returns the noise of the model whose graph is g. Without constants, nothing is computed while it is loaded.
func (m *fuzzModel) noise(g *graph.Graph) *fuzzNoise {
	n := &fuzzNoise{g: g, in: m.given(fuzzForm{}), random: m.isRandom()}
	form := fuzzForm{noConstant: true}
	if computed, err := m.load(form); err == nil {
		n.g, n.in = computed, m.given(form)
	}
	return n
}

// isRandom reports whether results depend on random numbers.
func (m *fuzzModel) isRandom() bool {
	return slices.ContainsFunc(m.nodes, func(n *pb.NodeProto) bool {
		return strings.HasPrefix(n.OpType, "Random") ||
			slices.Contains([]string{"Bernoulli", "Multinomial", "Dropout"}, n.OpType)
	})
}

// convertsAnyOrder reports whether nodes may be in any order.
func convertsAnyOrder() bool {
	g := &pb.GraphProto{Node: []*pb.NodeProto{node1("Neg", names("b"), names("y")), node1("Neg", names("a"), names("b"))},
		Input: infos(info("a", tFloat, 1)), Output: infos(info("y", tFloat, 1))}
	_, err := toGraph(model(13, g), Options{})
	return err == nil
}

// unplaced describes a refusal that does not name its place, or that blames graphrun.
func unplaced(err error) string {
	var one *graph.Error
	var list graph.Errors
	text := err.Error()
	if p := (*fuzzPanic)(nil); errors.As(err, &p) {
		return text
	}
	isPlaced := errors.As(err, &one) || errors.As(err, &list) || strings.HasPrefix(text, "node ") ||
		strings.HasPrefix(text, "initializer ") || strings.HasPrefix(text, "input ") || strings.HasPrefix(text, "output ")
	for _, word := range []string{"internal error", "runtime error", "nil pointer", "%!", "goroutine"} {
		if strings.Contains(text, word) {
			return "a refusal blames graphrun: " + text
		}
	}
	if !isPlaced {
		return "a refusal without a place: " + text
	}
	return ""
}

// run runs a graph and compares the outputs with the reference's.
func (m *fuzzModel) run(g *graph.Graph, in map[string]*tensor.Tensor, options program.Options,
	want map[string]*tensor.Tensor, refused error, noise *fuzzNoise) (map[string]*tensor.Tensor, string) {
	ctx, cancel := context.WithTimeout(context.Background(), fuzzTimeout)
	defer cancel()
	options.SolveLimit, options.MemoryLimit = -1, 1<<30
	p, err := program.New(g, options)
	var got map[string]*tensor.Tensor
	if err == nil {
		got, err = p.Run(ctx, in)
	}
	switch {
	case ctx.Err() != nil:
		return nil, "it does not end"
	case isMemory(err):
		return want, ""
	case err != nil && strings.Contains(err.Error(), " cannot be run: "):
		return want, "" // the refusal of a branch, for sizes or dtypes that are constant in the model as drawn
	case err != nil && refused == nil:
		return nil, "the reference evaluates, the run fails: " + err.Error()
	case err == nil && refused != nil:
		return nil, "the run succeeds, the reference fails: " + refused.Error()
	case err != nil:
		return nil, unplaced(err)
	}
	for _, name := range sorted.Keys(got) {
		if fault := noise.compare(strings.TrimPrefix(name, "if."), got[name], want); fault != "" {
			return nil, fmt.Sprintf("wrong: output %s: %s", name, fault)
		}
	}
	return got, ""
}

// isMemory reports whether an error is a lack of memory, which depends on the machine.
func isMemory(err error) bool {
	var storage *tensor.MemoryError
	var run *exec.MemoryError
	return errors.As(err, &storage) || errors.As(err, &run)
}

// checkTypes compares outputs with the inferred types.
func checkTypes(g *graph.Graph, got map[string]*tensor.Tensor) string {
	for _, o := range g.Outputs {
		x, v := got[o.Name], o.Value
		switch {
		case x == nil || len(g.Symbols) > 0:
		case v.Dynamic && v.Meta.DType != tensor.Invalid && v.Meta.DType != x.DType,
			!v.Dynamic && (v.Meta.DType != x.DType || !slices.Equal(v.Meta.Shape, x.Shape) || !x.SameAddresses(v.Meta)):
			return fmt.Sprintf("types: output %s is %v, inferred %v", o.Name, x.Meta, v.Meta)
		}
	}
	return ""
}

func sameBits(got, want map[string]*tensor.Tensor) error {
	for name, w := range want {
		if err := compareElements(got[name], w, func(_ int, a, b complex128) bool { return false }); err != nil {
			return fmt.Errorf("output %s: %w", name, err)
		}
	}
	return nil
}

// compareElements returns an error for the first element that differs and that isNear does not accept.
func compareElements(got, want *tensor.Tensor, isNear func(i int, got, want complex128) bool) error {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("it is %v%v, want %v%v", got.DType, got.Shape, want.DType, want.Shape)
	}
	a, b := elementsOf(got), elementsOf(want)
	for i := range a {
		if !sameNumber(a[i], b[i]) && !isNear(i, a[i].Complex(), b[i].Complex()) {
			return fmt.Errorf("element %d is %v, want %v", i, a[i], b[i])
		}
	}
	return nil
}

func sameNumber(a, b tensor.Scalar) bool {
	if a.Complex() == b.Complex() && a.Int() == b.Int() {
		return true
	}
	isNaN := func(c complex128) bool { return c != c }
	return isNaN(a.Complex()) && isNaN(b.Complex())
}

func elementsOf(x *tensor.Tensor) []tensor.Scalar {
	list := make([]tensor.Scalar, 0, x.Numel())
	index := make([]int, x.Rank())
	for range x.Numel() {
		list = append(list, x.At(index...))
		for i := len(index) - 1; i >= 0; i-- {
			if index[i]++; index[i] < x.Shape[i] {
				break
			}
			index[i] = 0
		}
	}
	return list
}

// fuzzNoise evaluates a graph with rounding errors in the results of sums and products. A difference as large as that
// of another order of summation is no fault.
type fuzzNoise struct {
	g                    *graph.Graph
	in                   map[string]*tensor.Tensor
	runs                 []map[string]*tensor.Tensor
	random               bool // results are random
	reordered, overflows bool // sums with infinities, which may be those of float32
	overflowed           bool // a sum overflows; its order decides the sign, of which later nodes may make numbers
	inexact              bool // the graph has an op whose kernels may round otherwise than the reference
}

// fuzzExact has pointwise ops that are rounded once, or not at all.
var fuzzExact = func() map[string]bool {
	exact := map[string]bool{}
	for _, name := range strings.Fields("add sub mul div neg abs floor ceil round trunc sign relu maximum minimum where " +
		"clamp sqrt reciprocal eq ne lt le gt ge logical_and logical_or logical_xor logical_not bitwise_and bitwise_or " +
		"bitwise_xor bitwise_not isnan isinf to clone contiguous") {
		exact[name] = true
	}
	return exact
}()

// fuzzPrecision is the unit of the last place of 1, and for 16-bit floats a greater error: products are computed in
// float32.
var fuzzPrecision = map[tensor.DType]float64{tensor.Float16: 1e-3, tensor.BFloat16: 8e-3, tensor.Float32: 2e-7,
	tensor.Float64: 3e-16, tensor.Complex64: 2e-7, tensor.Complex128: 3e-16}

func (n *fuzzNoise) evaluate() {
	if n.runs != nil {
		return
	}
	n.runs = []map[string]*tensor.Tensor{}
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 2))
		g := n.g.Clone()
		for _, node := range g.Nodes {
			op := *node.Op
			if fuzzExact[op.Name] || op.Kind == graph.View || op.SelectsElements || op.Fills || op.Ref == nil {
				continue
			}
			n.inexact = true
			// Transforms, eliminations, products of sums, and products with padding have other products with infinities
			// and NaN.
			n.reordered = n.reordered || strings.Contains(op.Name, "ft") || strings.Contains(op.Name, "det") ||
				strings.Contains(op.Name, "conv") || op.Name == "einsum"
			ref := op.Ref
			op.Ref = func(call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				out, err := ref(call, in)
				for i, x := range out {
					if x != nil && fuzzPrecision[x.DType] > 0 {
						size := termSize(op, in, x)
						n.overflows = n.overflows || size > 1e37
						n.overflowed = n.overflowed || size > 1e37 && slices.ContainsFunc(elementsOf(x), func(e tensor.Scalar) bool {
							return !(cmplx.Abs(e.Complex()) < 1e36)
						})
						out[i] = disturbed(rng, x, min(size, 1e38), seed == 0)
					}
				}
				return out, err
			}
			node.Op = &op
		}
		out, err := graph.Evaluate(g, n.in)
		if err != nil {
			out = nil
		}
		n.runs = append(n.runs, out)
	}
}

// disturbed returns x with errors relative to scale, or to the elements if they are greater. If flush is set, elements
// that the errors may cancel are 0.
func disturbed(rng *rand.Rand, x *tensor.Tensor, scale float64, flush bool) *tensor.Tensor {
	y := tensor.Zeros(x.DType, x.Shape...)
	for i, e := range elementsOf(x) {
		c := e.Complex()
		noise := fuzzPrecision[x.DType] * (2*rng.Float64() - 1)
		if flush && cmplx.Abs(c) < fuzzPrecision[x.DType]*scale {
			c = 0
		} else {
			c += complex(noise*max(scale, cmplx.Abs(c)), 0)
		}
		if !x.DType.IsComplex() {
			y.SetFlat(i, tensor.FloatScalar(real(c)))
		} else {
			y.SetFlat(i, tensor.ComplexScalar(c))
		}
	}
	return y
}

// termSize estimates the terms of the sums in a result y: the product of the largest operands.
func termSize(op graph.Op, in []*tensor.Tensor, y *tensor.Tensor) float64 {
	if op.Pointwise != nil && !strings.Contains(op.Name, "gelu") { // gelu cancels
		return 0
	}
	size := 1.0
	for _, x := range in {
		if x != nil && (x.DType.IsFloat() || x.DType.IsComplex()) {
			size *= max(1, largestFinite(x))
		}
	}
	return max(size, largestFinite(y))
}

func largestFinite(x *tensor.Tensor) float64 {
	most := 0.0
	for _, e := range elementsOf(x) {
		if a := cmplx.Abs(e.Complex()); a-a == 0 {
			most = max(most, a)
		}
	}
	return most
}

// compare compares an output with the reference's.
func (n *fuzzNoise) compare(name string, got *tensor.Tensor, wants map[string]*tensor.Tensor) string {
	want := wants[name]
	switch {
	case got == nil || want == nil:
		return "it is missing"
	case n.random:
		if got.DType != want.DType || got.Rank() != want.Rank() {
			return fmt.Sprintf("it is %v, want %v", got.Meta, want.Meta)
		}
		return ""
	}
	exact := func(int, complex128, complex128) bool { return false }
	err := compareElements(got, want, exact)
	if err == nil {
		return ""
	}
	n.evaluate()
	if !n.inexact {
		return err.Error()
	}
	for _, other := range n.runs { // control flow or data-dependent sizes that rounding errors change
		if other == nil || !slices.Equal(other[name].Shape, want.Shape) {
			return ""
		}
	}
	var noisy [][]tensor.Scalar
	for _, other := range n.runs {
		noisy = append(noisy, elementsOf(other[name]))
	}
	largest := largestFinite(want)
	err = compareElements(got, want, func(i int, a, b complex128) bool {
		isNumber := want.DType.IsFloat() || want.DType.IsComplex()
		if isFinite := cmplx.Abs(a+b)-cmplx.Abs(a+b) == 0; !(isFinite && isNumber) && (n.reordered || n.overflows) {
			return true
		}
		if n.overflowed {
			return true
		}
		spread := 0.0
		for _, list := range noisy {
			c := list[i].Complex()
			if cmplx.Abs(a-c) <= 1e-5*cmplx.Abs(c) || sameNumber(list[i], tensor.ComplexScalar(a)) || c != c && a != a {
				return true
			}
			if (c == c) != (b == b) { // as the logarithm of a sum near 0
				return true
			}
			d := math.Hypot(real(c-b), imag(c-b))
			if !isNumber && d > 0 {
				return true
			}
			if !(d-d == 0) {
				continue
			}
			spread = max(spread, d)
		}
		d := math.Hypot(real(a-b), imag(a-b))
		return spread > cmplx.Abs(b) || d <= 16*spread+8*fuzzPrecision[want.DType]*largest && fuzzPrecision[want.DType] > 0
	})
	if err != nil {
		return err.Error()
	}
	return ""
}

// text describes the model for a report.
func (m *fuzzModel) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, operator set %d %v\n", m.seed, m.opset, m.others)
	for _, in := range m.inputs {
		switch {
		case in.data == nil:
			fmt.Fprintf(&b, "  %s = weight or map\n", in.name)
		default:
			kind := "input"
			if in.constant {
				kind = "constant"
			}
			list := elementsOf(in.data)
			tail := ""
			if len(list) > 40 {
				list, tail = list[:40], "..."
			}
			fmt.Fprintf(&b, "  %s = %s %v %v %v%s\n", in.name, kind, in.data.DType, in.data.Shape, list, tail)
		}
	}
	return b.String() + nodesText(m.nodes) + "  outputs " + strings.Join(m.outputs, ", ") + "\n"
}

func nodesText(nodes []*pb.NodeProto) string {
	var b strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&b, "  %s = %s %s(%s)", strings.Join(n.Output, ", "), n.Domain, n.OpType, strings.Join(n.Input, ", "))
		for _, a := range n.Attribute {
			fmt.Fprintf(&b, " %s=%s", a.Name, attributeText(a))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func attributeText(a *pb.AttributeProto) string {
	switch a.Type {
	case pb.AttributeFloat:
		return fmt.Sprintf("%vf", a.F)
	case pb.AttributeInt:
		return fmt.Sprint(a.I)
	case pb.AttributeString:
		return fmt.Sprintf("%q", a.S)
	case pb.AttributeFloats:
		return fmt.Sprint(a.Floats)
	case pb.AttributeInts:
		return fmt.Sprint(a.Ints)
	case pb.AttributeStrings:
		return fmt.Sprintf("%q", a.Strings)
	case pb.AttributeTensor:
		return fmt.Sprintf("tensor of %v%v", pb.DataType(a.T.DataType), a.T.Dims)
	}
	if a.G == nil {
		return "..."
	}
	text := "{\n"
	for _, in := range a.G.Input {
		text += "  input " + in.Name + "\n"
	}
	for _, w := range a.G.Initializer {
		text += fmt.Sprintf("  %s = %v%v\n", w.Name, pb.DataType(w.DataType), w.Dims)
	}
	text += nodesText(a.G.Node) + "  outputs"
	for _, o := range a.G.Output {
		text += " " + o.Name
	}
	return text + "}"
}

// kindOf is the beginning of a fault, which a smaller model must have too.
func kindOf(fault string) string {
	list := strings.SplitN(fault, ":", 3)
	return strings.Join(list[:min(2, len(list))], ":")
}

// shrunk returns a smaller model with the same kind of fault.
func (m *fuzzModel) shrunk(kind string) *fuzzModel {
	_ = m.evaluate() // without values, no operand is replaced
	hasFault := func(c *fuzzModel) bool { c.prune(); return len(c.nodes) > 0 && kindOf(c.check().fault) == kind }
	for changed := true; changed; {
		changed = false
		for _, c := range m.smaller() {
			if hasFault(c) {
				m, changed = c, true
				break
			}
		}
	}
	return m
}

// smaller returns models with one output, or with a computed operand replaced by an input.
func (m *fuzzModel) smaller() (list []*fuzzModel) {
	add := func(change func(c *fuzzModel)) {
		c := *m
		c.inputs, c.nodes, c.outputs = slices.Clone(m.inputs), slices.Clone(m.nodes), slices.Clone(m.outputs)
		change(&c)
		list = append(list, &c)
	}
	if len(m.outputs) > 1 {
		for _, name := range m.outputs {
			add(func(c *fuzzModel) { c.outputs = []string{name} })
		}
	}
	for _, n := range m.nodes {
		for _, name := range n.Output {
			if x := m.known[name]; x != nil && !slices.Contains(m.outputs, name) {
				add(func(c *fuzzModel) {
					c.nodes = slices.DeleteFunc(c.nodes, func(o *pb.NodeProto) bool { return o == n })
					for _, other := range n.Output {
						if y := m.known[other]; y != nil {
							c.inputs = append(c.inputs, &fuzzInput{name: other, data: y})
						}
					}
				})
			}
			if slices.Contains(m.results, name) && !slices.Contains(m.outputs, name) {
				add(func(c *fuzzModel) { c.outputs = []string{name} })
			}
		}
	}
	return list
}

// prune removes nodes and inputs that no output needs.
func (m *fuzzModel) prune() {
	needed := map[string]bool{}
	for _, name := range m.outputs {
		needed[name] = true
	}
	var nodes []*pb.NodeProto
	for _, n := range slices.Backward(m.nodes) {
		if slices.ContainsFunc(n.Output, func(o string) bool { return needed[o] }) {
			nodes = append(nodes, n)
			noteNames(n, needed)
		}
	}
	slices.Reverse(nodes)
	m.nodes = nodes
	m.results = slices.Clone(m.outputs)
	m.inputs = slices.DeleteFunc(slices.Clone(m.inputs), func(in *fuzzInput) bool {
		return !in.part && in.declared == nil && !needed[in.name]
	})
}

// noteNames adds the operands of a node and of the nodes in its graphs.
func noteNames(n *pb.NodeProto, needed map[string]bool) {
	for _, name := range n.Input {
		needed[name] = true
	}
	for _, a := range n.Attribute {
		if a.G != nil {
			for _, o := range a.G.Output {
				needed[o.Name] = true
			}
			for _, inner := range a.G.Node {
				noteNames(inner, needed)
			}
		}
	}
}

// fuzzTotals counts what was drawn.
type fuzzTotals struct {
	cases, accepted, refused, failed, nodes, forms int
	seen                                           map[convert.Operator]int // accepted models by operator
	declined                                       map[string]int           // refused forms
	faults                                         []string
}

// try draws and checks one model.
func (s *fuzzTotals) try(t testing.TB, w *fuzzWorld, data []byte) {
	m := w.draw(data)
	stop := time.AfterFunc(5*fuzzTimeout, func() { panic("a model does not end:\n" + m.text()) })
	defer stop.Stop()
	o := m.check()
	s.cases++
	s.forms += o.forms
	switch {
	case o.fault != "":
		kind := kindOf(o.fault)
		small := m.shrunk(kind)
		if again := small.check().fault; again != "" {
			o.fault = again
		} else {
			small = m
		}
		s.faults = append(s.faults, o.fault)
		t.Errorf("data %x: %s\n%s", data, o.fault, small.text())
	case o.refused != nil:
		s.refused++
		return
	case o.failed:
		s.failed++
		return
	default:
		s.accepted++
		s.nodes += len(m.nodes)
	}
	found := map[convert.Operator]bool{}
	noteOperators(&pb.GraphProto{Node: m.nodes}, found)
	for op := range found {
		s.seen[op]++
	}
	for i, err := range o.declined {
		if f := fuzzForms[i]; err != nil && len(m.nodes) == 1 && !f.openSizes {
			s.declined[fmt.Sprintf("%s %+v: %v", m.nodes[0].OpType, f, err)]++
		}
	}
}

// TestModels checks some drawn models, or as many as GRAPHRUN_FUZZ_TIME permits. GRAPHRUN_FUZZ_SEED selects others, and
// GRAPHRUN_FUZZ_DATA is the data of one model, as a fault prints them.
func TestModels(t *testing.T) {
	w := newFuzzWorld(t)
	count, end := uint64(testsize.Of(150, 4000)), time.Time{}
	if text := os.Getenv("GRAPHRUN_FUZZ_TIME"); text != "" {
		d, err := time.ParseDuration(text)
		require.NoError(t, err)
		count, end = math.MaxUint64, time.Now().Add(d)
	}
	base := uint64(0)
	if text := os.Getenv("GRAPHRUN_FUZZ_SEED"); text != "" {
		_, err := fmt.Sscan(text, &base)
		require.NoError(t, err)
	}
	s := newFuzzTotals()
	if data, err := hex.DecodeString(os.Getenv("GRAPHRUN_FUZZ_DATA")); err != nil || len(data) > 0 {
		require.NoError(t, err)
		s.try(t, w, data)
		return
	}
	for i := uint64(0); i < count && (end.IsZero() || time.Now().Before(end)); i++ {
		s.try(t, w, binary.LittleEndian.AppendUint64(nil, rand.NewPCG(base, i).Uint64()))
	}
	s.report(t, w, count > 3000)
}

func newFuzzTotals() *fuzzTotals {
	return &fuzzTotals{seen: map[convert.Operator]int{}, declined: map[string]int{}}
}

// report prints the totals. If all operators must be covered, those that no accepted model has are an error.
func (s *fuzzTotals) report(t testing.TB, w *fuzzWorld, all bool) {
	var never []string
	for _, op := range w.operators {
		if s.seen[op] == 0 {
			never = append(never, op.String())
		}
	}
	t.Logf("%d models: %d accepted (%d nodes, %d other forms compared), %d refused at load, %d at run, %d faults; "+
		"%d of %d operators accepted, the others: %v", s.cases, s.accepted, s.nodes, s.forms, s.refused, s.failed,
		len(s.faults), len(w.operators)-len(never), len(w.operators), never)
	if all && s.cases > 3000 && len(never) > 0 {
		t.Errorf("no accepted model has the operators %v", never)
	}
	if testing.Verbose() {
		for _, key := range sorted.Keys(s.declined) {
			t.Logf("refused form: %d of %s", s.declined[key], key)
		}
	}
}

// FuzzModels draws models from bytes.
func FuzzModels(f *testing.F) {
	w := newFuzzWorld(f)
	for i := range uint64(16) {
		f.Add(binary.LittleEndian.AppendUint64(nil, rand.NewPCG(0, i).Uint64()))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		newFuzzTotals().try(t, w, data)
	})
}
