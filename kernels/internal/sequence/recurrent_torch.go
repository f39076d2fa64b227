package sequence

import (
	"errors"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type recurrentAttrs struct {
	HasBiases     bool    `attr:"has_biases" default:"true" doc:"the operands have biases"`
	NumLayers     int     `attr:"num_layers" default:"1" doc:"number of layers; each layer reads the results of the layer before it"`
	Dropout       float64 `attr:"dropout" default:"0" doc:"fraction of the results of a layer that training drops"`
	Train         bool    `attr:"train" default:"false" doc:"training mode; supported only if dropout is 0"`
	Bidirectional bool    `attr:"bidirectional" default:"false" doc:"run sequences in both directions"`
	BatchFirst    bool    `attr:"batch_first" default:"false" doc:"sequences are [n, t, i], not [t, n, i]"`
}

// LSTM, GRU, RNNTanh and RNNRelu are recurrent layers with the operands and gates of PyTorch's ops. recurrent_onnx.go
// has ONNX's layers.
var (
	LSTM = recurrentOp("lstm", cellLSTM, "Tanh", "Runs sequences through layers of LSTM cells. Operands are input "+
		"[t, n, i], h0 and c0 [l*d, n, h], and for each layer and direction w_ih [4h, i], w_hh [4h, h] (gates i, f, g, o), "+
		"b_ih and b_hh [4h]")
	GRU = recurrentOp("gru", cellGRU, "Tanh", "Runs sequences through layers of GRU cells. Operands are input [t, "+
		"n, i], h0 [l*d, n, h], and for each layer and direction w_ih [3h, i], w_hh [3h, h] (gates r, z, n), b_ih "+
		"and b_hh [3h]")
	RNNTanh = recurrentOp("rnn_tanh", cellRNN, "Tanh", "Runs sequences through layers of simple recurrent cells. "+
		"Operands are input [t, n, i], h0 [l*d, n, h], and for each layer and direction w_ih [h, i], w_hh [h, h], b_ih "+
		"and b_hh [h]")
	RNNRelu = recurrentOp("rnn_relu", cellRNN, "Relu", "Runs sequences through layers of simple recurrent cells with "+
		"the activation function relu. Operands are input [t, n, i], h0 [l*d, n, h], and for each layer and direction "+
		"w_ih [h, i], w_hh [h, h], b_ih and b_hh [h]")
)

// torchCell is one of PyTorch's recurrent ops.
type torchCell struct {
	name       string
	kind       cellKind
	activation string // activation function of the state
}

// recurrentOp defines an op of recurrent layers. kind is the kind of their cells, and activation the activation
// function of the state.
func recurrentOp(name string, kind cellKind, activation, doc string) *graph.Op {
	o := torchCell{name, kind, activation}
	outputs := []string{"output", "h_n"}
	if kind == cellLSTM {
		outputs = append(outputs, "c_n")
	}
	f := func(shape ...int) tensor.Meta { return tensor.New(tensor.Float32, shape...) }
	example := func(layers, dirs int, biases bool) []tensor.Meta {
		in := []tensor.Meta{f(3, 2, 4)}
		for range outputs[1:] {
			in = append(in, f(layers*dirs, 2, 5))
		}
		rows := 5 * kind.gates()
		for l := range layers * dirs {
			inputs := 4
			if l >= dirs {
				inputs = 5 * dirs
			}
			if in = append(in, f(rows, inputs), f(rows, 5)); biases {
				in = append(in, f(rows), f(rows))
			}
		}
		return in
	}
	return kit.Define[recurrentAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc + ". The results are output [t, n, d*h] and the last states.", Outputs: outputs,
			Params: []graph.Param{{Name: "operands", Variadic: true}},
			Infer:  o.infer,
			Ref:    o.ref,
			Examples: []graph.Example{
				{In: example(1, 1, true)},
				{In: example(2, 2, false), Attrs: graph.Attrs{"has_biases": false, "num_layers": 2, "bidirectional": true}},
			},
		},
		Facts: graph.Facts{
			Parallel:          o.loops,
			FixedLayoutReason: "each step writes the states of a whole batch in order", FlopKernel: recurrentFlop,
			Flops: func(c *graph.Call) float64 {
				x, n := c.Meta(0), 0
				for i := o.firstWeight(); i < len(c.In); i++ {
					n += c.Meta(i).Numel()
				}
				return 2 * float64(x.Shape[0]*x.Shape[1]) * float64(n)
			},
		},
		Lowerings: graph.Lowerings{Impls: recurrentImpls(o.compile, o.pack)},
	})
}

// firstWeight returns the index of the first parameter among the operands. The operands before it are the input and the
// states.
func (o torchCell) firstWeight() int { return cells[o.kind].results }

// paramsPerLayer returns the number of parameters, weights and biases, of a layer in one direction.
func (a *recurrentAttrs) paramsPerLayer() int {
	if a.HasBiases {
		return 4
	}
	return 2
}

// dirs returns the number of directions.
func (a *recurrentAttrs) dirs() int {
	if a.Bidirectional {
		return 2
	}
	return 1
}

// layer returns layer i of a call without the buffers of its operands.
func (o torchCell) layer(c *graph.Call, i int) *recurrentLayer {
	a, x := kit.Attrs[recurrentAttrs](c), c.Meta(0)
	l := &recurrentLayer{kind: o.kind, dirs: a.dirs(), steps: x.Shape[0], batch: x.Shape[1], inputs: x.Shape[2],
		hidden:       c.Meta(1).Shape[2],
		integerDType: x.DType, resetAfter: true, backward: [2]bool{false, true},
		order: cells[o.kind].torchOrder}
	if i > 0 {
		l.inputs = l.dirs * l.hidden
	}
	width := l.dirs * l.hidden
	l.xStep, l.xBatch, l.yStep, l.yBatch, l.yDir = l.batch, 1, l.batch*width, width, l.hidden
	if a.BatchFirst {
		l.steps, l.batch = l.batch, l.steps
		l.xStep, l.xBatch, l.yStep, l.yBatch = 1, l.steps, width, l.steps*width
	}
	l.stateDir, l.stateBatch = l.batch*l.hidden, l.hidden
	for dir := range l.dirs {
		for i, name := range cells[o.kind].activations {
			l.activations[dir][i] = activation{name: name}
		}
		if o.kind == cellRNN {
			l.activations[dir][0].name = o.activation
		}
	}
	return l
}

func (o torchCell) infer(c *graph.Call) ([]graph.Result, error) {
	a, x := kit.Attrs[recurrentAttrs](c), c.Type(0)
	if len(c.In) != o.firstWeight()+a.NumLayers*a.dirs()*a.paramsPerLayer() || a.NumLayers < 1 {
		return nil, errors.New("got an incorrect number of RNN parameters")
	}
	if x.Rank() != 3 || c.Type(1).Rank() != 3 {
		return nil, fmt.Errorf("%s: Expected input and states to be 3D, got %dD and %dD instead", o.name, x.Rank(),
			c.Type(1).Rank())
	}
	if a.Train && a.Dropout != 0 {
		return nil, fmt.Errorf("%s: dropout is not supported in training", o.name)
	}
	steps, batch, hidden := x.Shape[0], x.Shape[1], c.Type(1).Shape[2]
	if a.BatchFirst {
		steps, batch = batch, steps
	}
	state := []sym.Int{sym.Of(a.NumLayers * a.dirs()), batch, hidden}
	for i := range c.In[1:] {
		if t := c.Type(i + 1); t.DType != x.DType {
			return nil, fmt.Errorf("expected scalar type %s but found %s", x.DType.TorchName(), t.DType.TorchName())
		}
	}
	for i := 1; i < o.firstWeight(); i++ {
		if t := c.Type(i); !tensor.SameSizes(t.Shape, state) {
			return nil, fmt.Errorf("Expected hidden[%d] size (%v, %v, %v), got %s", i-1, state[0], state[1], state[2],
				tensor.Sizes(t.Shape))
		}
	}
	if kit.SizeIs(steps, 0) {
		return nil, errors.New("Expected sequence length to be larger than 0 in RNN")
	}
	if err := o.checkWeights(c, a, steps.Mul(batch)); err != nil {
		return nil, err
	}
	d, err := o.dtype(a, x.DType, steps)
	if err != nil {
		return nil, err
	}
	// PyTorch transposes the result if the batch comes first.
	out := tensor.NewType(d, steps, batch, hidden.Mul(sym.Of(a.dirs())))
	if a.BatchFirst {
		if out, err = out.Transpose(0, 1); err != nil {
			return nil, err
		}
	}
	res := c.One(out)
	for range o.firstWeight() - 1 {
		res = append(res, graph.Result{Type: tensor.NewType(d, state...), Alias: graph.Fresh})
	}
	return res, nil
}

// dtype returns the dtype of the results, or PyTorch's error for a dtype that the op does not support. LSTM and GRU
// cells reject integers, because a sigmoid of integers cannot be stored as an integer. A tanh of integers is float32,
// so only one step of one layer is possible: the next step would multiply float32 by integers. A relu keeps the dtype
// and does not exist for complex numbers.
func (o torchCell) dtype(a *recurrentAttrs, d tensor.DType, steps sym.Int) (tensor.DType, error) {
	switch {
	case d == tensor.Bool:
		return d, kit.NotImplementedBy("addmm_impl_cpu_", d)
	case d.IsComplex() && o.activation == "Relu":
		return d, errors.New("clamp is not supported for complex types")
	case d.IsFloat() || d.IsComplex() || o.activation == "Relu":
		return d, nil
	case o.kind != cellRNN:
		return d, fmt.Errorf("result type Float can't be cast to the desired output type %s", d.TorchName())
	case a.NumLayers > 1 || steps.Gt(sym.Of(1)).Holds():
		return d, errors.New("mat1 and mat2 must have the same dtype")
	}
	return tensor.Float32, nil
}

// cellDType returns the dtype in which a layer with operands of dtype d computes.
func cellDType(d tensor.DType) tensor.DType {
	if d.IsComplex() {
		return tensor.Complex128
	}
	return kit.LoopDType(d)
}

// checkWeights checks the shapes of the parameters. items is the number of vectors in the input.
func (o torchCell) checkWeights(c *graph.Call, a *recurrentAttrs, items sym.Int) error {
	hidden := c.Type(1).Shape[2]
	rows, at := hidden.Mul(sym.Of(o.kind.gates())), o.firstWeight()
	for i := range a.NumLayers * a.dirs() {
		inputs := c.Type(0).Shape[2]
		if i >= a.dirs() {
			inputs = hidden.Mul(sym.Of(a.dirs()))
		}
		for k, want := range [][]sym.Int{{rows, inputs}, {rows, hidden}, {rows}, {rows}}[:a.paramsPerLayer()] {
			t := c.Type(at)
			switch {
			case tensor.SameSizes(t.Shape, want):
			case t.Rank() == 2 && k == 0 && t.Shape[1].Ne(inputs).Holds():
				return fmt.Errorf("mat1 and mat2 shapes cannot be multiplied (%vx%v and %vx%v)", items, inputs, t.Shape[1],
					t.Shape[0])
			default:
				return fmt.Errorf("%s: expected parameter %d to have size %s, got %s", o.name, at-o.firstWeight(),
					tensor.Sizes(want),
					tensor.Sizes(t.Shape))
			}
			at++
		}
	}
	return nil
}

func (o torchCell) compile(c *graph.Call) (*graph.Kernel, error) {
	a := kit.Attrs[recurrentAttrs](c)
	first := o.layer(c, 0)
	if first.batch*first.hidden == 0 {
		return &graph.Kernel{}, nil
	}
	d := cellDType(c.Meta(0).DType)
	x := copies.NewKernelBuilder(c)
	var operands, results []kit.Buffer
	for i := range c.In {
		operands = append(operands, x.Dense(x.In(i), d))
	}
	resultIsTanh := o.activation == "Tanh" && d == tensor.Int64 // the layer then computes integers
	for i, m := range c.Out {
		if resultIsTanh {
			results = append(results, x.Temp(d, m.Shape...))
		} else {
			results = append(results, x.Result(i, d))
		}
	}
	y, from, last := results[0], operands[0], results[1:]
	for i := range a.NumLayers {
		l := o.layer(c, i)
		part := func(s kit.Buffer) kit.Buffer {
			m := tensor.New(d, l.dirs, l.batch, l.hidden)
			m.Offset = i * m.Numel()
			return s.View(m)
		}
		l.x, l.y = from, y
		if i+1 < a.NumLayers {
			l.y = x.Temp(d, y.Meta.Shape...)
		}
		from = l.y
		l.h0, l.hn = part(operands[1]), part(last[0])
		if o.kind == cellLSTM {
			l.c0, l.cn = part(operands[2]), part(last[1])
		}
		for dir := range l.dirs {
			p := operands[o.firstWeight()+(i*l.dirs+dir)*a.paramsPerLayer():]
			if l.w[dir], l.r[dir] = p[0], p[1]; a.HasBiases {
				l.inBias[dir], l.stateBias[dir] = p[2], p[3]
			}
		}
		if err := l.addPhases(x, d); err != nil {
			return nil, err
		}
	}
	for i, sums := range results {
		if resultIsTanh {
			x.AddCall(pointwise.Tanh, nil, []kit.Buffer{x.Result(i, tensor.Float32)}, sums)
		}
	}
	return x.Kernel()
}

// pack is [graph.Impl.Pack] of PyTorch's ops. The weights of each layer and direction are separate operands.
func (o torchCell) pack(c *graph.Call, i int) (graph.Packing, bool) {
	a, k := kit.Attrs[recurrentAttrs](c), i-o.firstWeight()
	if k < 0 || k%a.paramsPerLayer() > 1 {
		return graph.Packing{}, false
	}
	d := cellDType(c.Meta(0).DType)
	m := copies.InDType(c, d).Meta(i)
	l := o.layer(c, k/a.paramsPerLayer()/a.dirs())
	return l.packing(d, k%a.paramsPerLayer() == 1, 1, 0, m.Strides[0], m.Strides[1])
}

// ref is the reference of PyTorch's recurrent ops. It computes layer by layer.
func (o torchCell) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	switch cellDType(c.Type(0).DType) {
	case tensor.Complex128:
		return torchReference[complex128](o, c, in)
	case tensor.Int64:
		return torchReference[int64](o, c, in)
	}
	return torchReference[float64](o, c, in)
}

// torchReference computes the reference with numbers of type T.
func torchReference[T kit.WidestNumber](o torchCell, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	res, err := o.infer(c)
	if err != nil {
		return nil, err
	}
	a := kit.Attrs[recurrentAttrs](c)
	all, results := make([][]T, len(in)), make([][]T, len(res))
	for i, t := range in {
		all[i] = widestElements[T](t)
	}
	for i, r := range res {
		results[i] = make([]T, tensor.Numel(r.Meta().Shape))
	}
	x := all[0]
	for i := range a.NumLayers {
		l := o.layer(c, i)
		part := func(states []T) []T { return equalPart(states, i, a.NumLayers) }
		r := &cellReference[T]{recurrentLayer: l, x: x, y: make([]T, len(results[0])), h0: part(all[1]), hn: part(results[1])}
		if o.kind == cellLSTM {
			r.c0, r.cn = part(all[2]), part(results[2])
		}
		for dir := range l.dirs {
			p := all[o.firstWeight()+(i*l.dirs+dir)*a.paramsPerLayer():]
			if r.w[dir], r.r[dir] = p[0], p[1]; a.HasBiases {
				r.inBias[dir], r.stateBias[dir] = p[2], p[3]
			}
		}
		r.run()
		x = r.y
	}
	results[0] = x
	out := make([]*tensor.Tensor, len(res))
	for i, r := range res {
		if sums, ok := any(results[i]).([]int64); ok && r.Meta().DType == tensor.Float32 { // a tanh of integers
			out[i] = resultTensor(tanhs(sums), r)
		} else {
			out[i] = resultTensor(results[i], r)
		}
	}
	return out, nil
}

// tanhs returns the hyperbolic tangents of integers.
func tanhs(list []int64) []float64 {
	out := make([]float64, len(list))
	for i, v := range list {
		out[i] = math.Tanh(float64(v))
	}
	return out
}

// loops returns the loop over the batch.
func (o torchCell) loops(c *graph.Call) []graph.Parallel {
	p := kit.LoopOver(c, 0, 1, 1)
	if kit.Attrs[recurrentAttrs](c).BatchFirst {
		p.In[0], p.Out[0] = 0, 0
	}
	for i := 1; i < o.firstWeight(); i++ {
		p.In[i] = 1
	}
	return []graph.Parallel{p}
}
