package onnx

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/tensor"
)

// fuzzWorld has what models are drawn from: calls by fuzzCalls (fuzzcalls_test.go), and the conformance vectors, which
// have every operator.
type fuzzWorld struct {
	operators []convert.Operator
	calls     map[convert.Operator][]fuzzCall
	fragments map[convert.Operator][]*fuzzFragment
	texts     map[string][]string // the strings that an attribute has in some vector, by operator and attribute
}

// fuzzFragment is the model of a vector, with its inputs.
type fuzzFragment struct {
	name string
	fuzzModel
}

func newFuzzWorld(t testing.TB) *fuzzWorld {
	t.Helper()
	w := &fuzzWorld{calls: parsedFuzzCalls(t), fragments: map[convert.Operator][]*fuzzFragment{},
		texts: map[string][]string{}}
	for _, domain := range sorted.Keys(domains) {
		for _, name := range sorted.Keys(domains[domain]) {
			w.operators = append(w.operators, convert.Operator{Domain: domain, Name: name})
		}
	}
	for op := range w.calls {
		require.Contains(t, w.operators, op)
	}
	for _, v := range vectors(t) {
		f := fragmentOf(t, v)
		if f == nil {
			continue
		}
		found := map[convert.Operator]bool{}
		noteOperators(&pb.GraphProto{Node: f.nodes}, found)
		for op := range found {
			w.fragments[op] = append(w.fragments[op], f)
		}
		for _, n := range f.nodes {
			for _, a := range n.Attribute {
				if key := n.OpType + "." + a.Name; a.Type == pb.AttributeString && !slices.Contains(w.texts[key], string(a.S)) {
					w.texts[key] = append(w.texts[key], string(a.S))
				}
			}
		}
	}
	for op, list := range w.fragments { // small ones, so that most nodes are of the operator
		slices.SortStableFunc(list, func(a, b *fuzzFragment) int { return cmp.Compare(len(a.nodes), len(b.nodes)) })
		w.fragments[op] = list[:min(len(list), 8)]
	}
	return w
}

// fragmentOf returns the model of a vector, or nil if the model is large or has inputs that are strings.
func fragmentOf(t testing.TB, v vector) *fuzzFragment {
	t.Helper()
	var m pb.ModelProto
	require.NoError(t, pb.Unmarshal(v.model, &m), v.name)
	f := &fuzzFragment{name: v.name, fuzzModel: fuzzModel{others: map[string]int64{}, nodes: m.Graph.Node}}
	for _, set := range m.OpsetImport {
		if convert.CanonicalDomain(set.Domain) == "" {
			f.opset = set.Version
		} else {
			f.others[set.Domain] = set.Version
		}
	}
	for _, w := range m.Graph.Initializer {
		in := &fuzzInput{name: w.Name, constant: true}
		if _, err := modelfile.DTypeOf(w.DataType); err != nil {
			in.weight = w
		} else {
			var err error
			in.data, err = decodedWeight(w)
			require.NoError(t, err, v.name)
		}
		f.inputs = append(f.inputs, in)
	}
	for _, declared := range m.Graph.Input {
		if declared.TensorType() == nil {
			f.inputs = append(f.inputs, &fuzzInput{name: declared.Name, declared: declared})
			continue
		}
		x := v.in[declared.Name]
		if d, err := modelfile.DTypeOf(declared.TensorType().ElemType); x != nil && err == nil && d != x.DType {
			x = tensor.Must(x.View(x.Meta.WithDType(d)))
		}
		f.inputs = append(f.inputs, &fuzzInput{name: declared.Name, data: x})
	}
	for _, name := range sorted.Keys(v.in) {
		if strings.Contains(name, ".") {
			f.inputs = append(f.inputs, &fuzzInput{name: name, data: v.in[name], part: true})
		}
	}
	for _, in := range f.inputs {
		isMissing := in.data == nil && in.weight == nil && in.declared == nil
		if v.texts[in.name] || isMissing || in.data != nil && in.data.Numel() > 4096 {
			return nil
		}
	}
	for _, o := range m.Graph.Output {
		f.results = append(f.results, o.Name)
	}
	if len(f.nodes) > 16 {
		return nil
	}
	return f
}

// fuzzDrawer draws numbers from bytes, and then from a generator that the bytes seed.
type fuzzDrawer struct {
	*fuzzWorld
	data []byte
	rng  *rand.Rand
	m    *fuzzModel
	next int // the number of names
}

func (d *fuzzDrawer) n(n int) int {
	if len(d.data) > 0 && n > 0 && n <= 256 {
		b := d.data[0]
		d.data = d.data[1:]
		return int(b) % n
	}
	return d.rng.IntN(max(n, 1))
}

func (d *fuzzDrawer) oneOf(n int) bool { return d.n(n) == n-1 }

func pick[T any](d *fuzzDrawer, list []T) T { return list[d.n(len(list))] }

func (d *fuzzDrawer) name(prefix string) string {
	d.next++
	return prefix + strconv.Itoa(d.next)
}

var fuzzSizes = []int{0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5}

func (d *fuzzDrawer) size() int { return pick(d, fuzzSizes) }

var (
	fuzzFloats = []tensor.DType{tensor.Float32, tensor.Float32, tensor.Float32, tensor.Float16, tensor.BFloat16,
		tensor.Float64}
	fuzzSigned   = []tensor.DType{tensor.Int64, tensor.Int32, tensor.Int8, tensor.Int16}
	fuzzNatural  = []tensor.DType{tensor.Uint8, tensor.Uint64, tensor.Uint32, tensor.Uint16}
	fuzzIntegers = slices.Concat(fuzzSigned, fuzzNatural)
	fuzzNumbers  = slices.Concat(fuzzFloats, fuzzFloats, fuzzIntegers)
	fuzzClasses  = map[byte][]tensor.DType{'F': fuzzFloats, 'I': fuzzSigned, 'U': fuzzNatural, 'X': fuzzIntegers,
		'N': fuzzNumbers, 'S': slices.Concat(fuzzFloats, fuzzSigned), 'B': {tensor.Bool}, 'L': {tensor.Int64},
		'K': {tensor.Int64, tensor.Int32}, 'A': append(fuzzNumbers, tensor.Bool), 'f': {tensor.Float32},
		'Q': {tensor.Uint8, tensor.Int8}}
)

// special are numbers at the limits of a dtype.
func special(d tensor.DType) []tensor.Scalar {
	if d.IsFloat() {
		var list []tensor.Scalar
		for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 65504, -65504,
			3.4028234663852886e38,
			6e-8, 1.4e-45, 0.5, 1.5, 2.5, -0.5, 1e-4, 255.5, 2147483648} {
			list = append(list, tensor.FloatScalar(x))
		}
		return list
	}
	var list []tensor.Scalar
	bits := 8 * d.Size()
	if d.IsSigned() {
		for _, x := range []int64{math.MinInt64 >> (64 - bits), math.MaxInt64 >> (64 - bits), 0, -1, 1} {
			list = append(list, tensor.IntScalar(x))
		}
		return list
	}
	top := ^uint64(0) >> (64 - bits)
	for _, x := range []uint64{0, 1, top, top >> 1, top>>1 + 1} {
		list = append(list, tensor.IntScalar(int64(x)))
	}
	return list
}

// numbers returns a tensor of small numbers, or sometimes of special ones. Most floats are multiples of 1/4, so that
// sums are exact in any order.
func (d *fuzzDrawer) numbers(dtype tensor.DType, shape ...int) *tensor.Tensor {
	x := tensor.Zeros(dtype, shape...)
	mode := d.n(10)
	for i := range x.Numel() {
		switch {
		case dtype == tensor.Bool:
			x.SetFlat(i, tensor.BoolScalar(d.rng.IntN(2) == 0))
		case dtype.IsComplex():
			x.SetFlat(i, tensor.ComplexScalar(complex(float64(d.rng.IntN(9)-4), float64(d.rng.IntN(9)-4))))
		case mode == 9 && d.rng.IntN(2) == 0:
			list := special(dtype)
			x.SetFlat(i, list[d.rng.IntN(len(list))])
		case dtype.IsFloat() && mode >= 7:
			x.SetFlat(i, tensor.FloatScalar(d.rng.NormFloat64()))
		case dtype.IsFloat():
			x.SetFlat(i, tensor.FloatScalar(float64(d.rng.IntN(33)-16)/4))
		case dtype.IsSigned():
			x.SetFlat(i, tensor.IntScalar(int64(d.rng.IntN(11)-5)))
		default:
			x.SetFlat(i, tensor.IntScalar(int64(d.rng.IntN(9))))
		}
	}
	return x
}

// input adds an initializer or an input, and returns the name of its value, which may be computed from it.
func (d *fuzzDrawer) input(x *tensor.Tensor) string {
	in := &fuzzInput{name: d.name("x"), data: x, constant: d.n(3) == 0}
	d.m.inputs = append(d.m.inputs, in)
	d.m.known[in.name] = x
	if !d.oneOf(16) {
		return in.name
	}
	out := d.name("i")
	d.m.nodes = append(d.m.nodes, node1("Identity", names(in.name), names(out)))
	d.m.known[out] = x
	return out
}

// draw returns the model for the bytes.
func (w *fuzzWorld) draw(data []byte) *fuzzModel {
	h := fnv.New64a()
	_, _ = h.Write(data)
	seed := h.Sum64()
	d := &fuzzDrawer{fuzzWorld: w, data: data, rng: rand.New(rand.NewPCG(seed, 0))}
	opsets := []int64{7, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 23, 28}
	d.m = &fuzzModel{seed: seed, opset: pick(d, opsets), others: map[string]int64{}, known: map[string]*tensor.Tensor{}}
	op := pick(d, w.operators)
	for k := range 1 + d.n(5) {
		if k > 0 {
			op = pick(d, w.operators)
			if d.n(3) > 0 { // operators with calls take operands of earlier nodes
				op = pick(d, sortedCalls)
			}
		}
		before, known := *d.m, d.m.known
		d.m.known = map[string]*tensor.Tensor{}
		for name, x := range known {
			d.m.known[name] = x
		}
		if calls := w.calls[op]; len(calls) > 0 && d.n(4) > 0 {
			d.call(op, pick(d, calls))
		} else if list := w.fragments[op]; len(list) > 0 {
			if f := pick(d, list); k == 0 {
				d.m.opset = f.opset
				d.fragment(f)
			} else {
				d.fragment(f)
			}
		} else {
			continue
		}
		// A refused node is dropped, or is the last one.
		err := d.m.evaluate()
		if panicked := (*fuzzPanic)(nil); errors.As(err, &panicked) || err != nil && d.oneOf(5) {
			break
		} else if err != nil {
			*d.m = before
			d.m.known = known
		}
	}
	if len(d.m.nodes) == 0 { // the first node was refused: another is the whole model
		d.call(convert.Operator{Name: "Identity"}, pick(d, w.calls[convert.Operator{Name: "Identity"}]))
		_ = d.m.evaluate()
	}
	used := map[string]bool{}
	for _, n := range d.m.nodes {
		noteNames(n, used)
	}
	for _, name := range d.m.results {
		if !used[name] || d.oneOf(4) {
			d.m.outputs = append(d.m.outputs, name)
		}
	}
	if len(d.m.outputs) == 0 {
		d.m.outputs = slices.Clone(d.m.results)
	}
	return d.m
}

// fragment adds a changed fragment.
func (d *fuzzDrawer) fragment(f *fuzzFragment) {
	prefix := d.name("f") + "."
	for domain, version := range f.others {
		if d.m.others[domain] == 0 {
			d.m.addDomain(domain, version)
		}
	}
	inputs := make([]*fuzzInput, len(f.inputs))
	for i, in := range f.inputs {
		c := *in
		inputs[i] = &c
	}
	var copied pb.ModelProto
	if err := pb.Unmarshal(pb.Marshal(&pb.ModelProto{Graph: &pb.GraphProto{Node: f.nodes}}), &copied); err != nil {
		panic(err)
	}
	nodes := copied.Graph.Node
	for range d.n(4) {
		d.change(inputs, nodes)
	}
	renamed := map[string]string{}
	for _, in := range inputs {
		switch {
		case in.weight != nil:
			w := *in.weight
			w.Name = prefix + in.name
			in.weight, in.name = &w, w.Name
		case in.declared != nil:
			c := *in.declared
			c.Name = prefix + in.name
			in.declared, in.name = &c, c.Name
		case in.part:
			in.name = prefix + in.name
		default:
			if name := d.equalValue(in.data); name != "" { // an operand that an earlier node has computed
				renamed[in.name] = name
				continue
			}
			in.name = prefix + in.name
			if d.oneOf(4) {
				in.constant = !in.constant
			}
		}
		d.m.inputs = append(d.m.inputs, in)
		if in.data != nil && !in.part {
			d.m.known[in.name] = in.data
		}
	}
	rename(nodes, prefix, renamed)
	d.m.nodes = append(slices.Clip(d.m.nodes), nodes...)
	for _, name := range f.results {
		d.m.results = append(slices.Clip(d.m.results), prefix+name)
	}
}

// equalValue sometimes returns a value with the type of x, if there is one. Integers may be parameters.
func (d *fuzzDrawer) equalValue(x *tensor.Tensor) string {
	if x.DType.IsIntegral(true) || d.oneOf(4) {
		return ""
	}
	for _, name := range sorted.Keys(d.m.known) {
		if k := d.m.known[name]; k.DType == x.DType && slices.Equal(k.Shape, x.Shape) {
			return name
		}
	}
	return ""
}

// rename adds a prefix to the names of values, except those that are given another name.
func rename(nodes []*pb.NodeProto, prefix string, renamed map[string]string) {
	change := func(list []string) {
		for i, name := range list {
			if other, ok := renamed[name]; ok {
				list[i] = other
			} else if name != "" {
				list[i] = prefix + name
			}
		}
	}
	for _, n := range nodes {
		change(n.Input)
		change(n.Output)
		n.Name = ""
		for _, a := range n.Attribute {
			if a.G == nil {
				continue
			}
			rename(a.G.Node, prefix, renamed)
			for _, list := range [][]*pb.ValueInfoProto{a.G.Input, a.G.Output, a.G.ValueInfo} {
				for _, v := range list {
					v.Name = prefix + v.Name
				}
			}
			for _, w := range a.G.Initializer {
				w.Name = prefix + w.Name
			}
		}
	}
}

// change changes sizes, dtypes, attributes, elements or operands of a fragment.
func (d *fuzzDrawer) change(inputs []*fuzzInput, nodes []*pb.NodeProto) {
	var tensors []*fuzzInput
	for _, in := range inputs {
		if in.data != nil && !in.part {
			tensors = append(tensors, in)
		}
	}
	hasLoop := slices.ContainsFunc(nodes, func(n *pb.NodeProto) bool { return n.OpType == "Loop" })
	n := pick(d, nodes)
	switch kind := d.n(6); {
	case kind <= 1 && len(tensors) > 0: // all sizes that are equal
		x := pick(d, tensors).data
		if x.Rank() == 0 {
			return
		}
		from, to := pick(d, x.Shape), d.size()
		for _, in := range tensors {
			in.data = resizedTo(in.data, from, to)
		}
		if d.oneOf(2) {
			for _, a := range n.Attribute {
				if a.Type == pb.AttributeInt && a.I == int64(from) {
					a.I = int64(to)
				}
			}
		}
	case kind == 2 && len(tensors) > 0: // all tensors of a dtype
		from := pick(d, tensors).data.DType
		class := fuzzFloats
		if from.IsIntegral(true) {
			class = fuzzIntegers
		}
		to := pick(d, class)
		for _, in := range tensors {
			if in.data.DType == from {
				in.data = in.data.CopyTo(tensor.New(to, in.data.Shape...))
			}
		}
	case kind == 3 && len(n.Attribute) > 0:
		if i := d.n(len(n.Attribute)); d.oneOf(4) {
			n.Attribute = slices.Delete(n.Attribute, i, i+1)
		} else {
			d.changeAttribute(n, n.Attribute[i])
		}
	case kind == 4 && len(tensors) > 0: // elements
		in := pick(d, tensors)
		x := in.data.CopyTo(tensor.New(in.data.DType, in.data.Shape...))
		if x.DType.IsFloat() {
			x = d.numbers(x.DType, x.Shape...)
		} else if x.Numel() > 0 && x.DType.IsIntegral(false) && !hasLoop { // which may be a number of iterations
			x.SetFlat(d.n(x.Numel()), pick(d, append(special(x.DType), tensor.IntScalar(2), tensor.IntScalar(3))))
		}
		in.data = x
	case kind == 5 && len(n.Input) > 1: // an operand is absent, or another
		if i := 1 + d.n(len(n.Input)-1); d.oneOf(2) {
			n.Input[i] = pick(d, n.Input)
		} else if n.Input[i] = ""; i == len(n.Input)-1 {
			n.Input = n.Input[:i]
		}
	}
}

// resizedTo replaces the sizes `from` of a tensor by `to`. Elements are repeated or omitted.
func resizedTo(x *tensor.Tensor, from, to int) *tensor.Tensor {
	for axis, n := range x.Shape {
		if n != from || from == 0 {
			continue
		}
		shape := slices.Clone(x.Shape)
		shape[axis] = to
		y := tensor.Zeros(x.DType, shape...)
		for i := range to {
			copyRow(y, x, axis, i, i%from)
		}
		x = y
	}
	return x
}

func copyRow(y, x *tensor.Tensor, axis, to, from int) {
	row := func(t *tensor.Tensor, at int) *tensor.Tensor {
		m := t.Meta
		m.Shape = slices.Clone(m.Shape)
		m.Shape[axis] = 1
		m.Offset += at * m.Strides[axis]
		return tensor.Must(t.View(m))
	}
	tensor.CopyElements(row(y, to), row(x, from))
}

// changeAttribute sets an attribute to a number at its limits, or near the old number.
func (d *fuzzDrawer) changeAttribute(n *pb.NodeProto, a *pb.AttributeProto) {
	integer := func(old int64) int64 {
		return pick(d, []int64{0, 1, -1, 2, 3, old + 1, old - 1, -old, 1 << 31, 1 << 40, math.MaxInt64, math.MinInt64})
	}
	float := func(old float32) float32 {
		return float32(pick(d, []float64{0, 1, -1, 0.5, float64(old) * 2, math.NaN(), math.Inf(1), math.Inf(-1),
			math.MaxFloat32, 1e-37}))
	}
	switch a.Type {
	case pb.AttributeInt:
		a.I = integer(a.I)
	case pb.AttributeFloat:
		if a.F = float(a.F); a.Name == "epsilon" && a.F < 0 { // near a variance, it makes rounding errors large
			a.F = -a.F
		}
	case pb.AttributeInts:
		if a.Ints = slices.Clone(a.Ints); len(a.Ints) == 0 || d.oneOf(6) {
			a.Ints = append(a.Ints, integer(0))
		} else if i := d.n(len(a.Ints)); d.oneOf(6) {
			a.Ints = slices.Delete(a.Ints, i, i+1)
		} else {
			a.Ints[i] = integer(a.Ints[i])
		}
	case pb.AttributeFloats:
		if len(a.Floats) > 0 {
			a.Floats = slices.Clone(a.Floats)
			i := d.n(len(a.Floats))
			a.Floats[i] = float(a.Floats[i])
		}
	case pb.AttributeString:
		a.S = []byte(pick(d, append([]string{"other"}, d.texts[n.OpType+"."+a.Name]...)))
	}
}

// decodedWeight decodes an initializer.
func decodedWeight(w *pb.TensorProto) (*tensor.Tensor, error) {
	g := &pb.GraphProto{Initializer: []*pb.TensorProto{w}, Output: infos(&pb.ValueInfoProto{Name: w.Name})}
	converted, err := toGraph(model(13, g), Options{})
	if err != nil {
		return nil, err
	}
	x := converted.Outputs[0].Value.Data()
	if x == nil {
		return nil, fmt.Errorf("%s is no constant", w.Name)
	}
	return x, nil
}
