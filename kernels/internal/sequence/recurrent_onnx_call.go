package sequence

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// The operands of ONNX's recurrent ops. Only an LSTM has the last two.
const (
	onnxX = iota
	onnxW
	onnxR
	onnxB
	onnxLengths
	onnxH0
	onnxC0
	onnxPeepholes
	onnxOperandCount
)

type onnxCellAttrs struct {
	HiddenSize  sym.Int   `attr:"hidden_size" default:"0" doc:"size of the state; 0: the last size of R"`
	Direction   string    `attr:"direction" default:"forward" oneof:"forward|reverse|bidirectional" doc:"order of the steps"`
	Activations []string  `attr:"activations" default:"" doc:"functions f, g and h of the gates, for each direction; none: Sigmoid and Tanh"`
	Alpha       []float64 `attr:"activation_alpha" default:"" doc:"parameter alpha of each function that has it, in order"`
	Beta        []float64 `attr:"activation_beta" default:"" doc:"parameter beta of each function that has it, in order"`
	Clip        float64   `attr:"clip" default:"0" doc:"bound of the arguments of the functions; 0: none"`
	Layout      int       `attr:"layout" default:"0" doc:"1: the first dimension is the batch"`
	ResetAfter  int       `attr:"linear_before_reset" default:"0" doc:"GRU: the reset gate applies after the product with the state"`
	InputForget int       `attr:"input_forget" default:"0" doc:"LSTM: the forget gate is 1 minus the input gate"`
}

// onnxCell is one of ONNX's recurrent ops.
type onnxCell struct {
	name string
	kind cellKind
}

// shape returns the layer of a call without the buffers of its operands and without its activation functions.
func (o onnxCell) shape(c *graph.Call) *recurrentLayer {
	a, x, r := kit.Attrs[onnxCellAttrs](c), c.Meta(onnxX), c.Meta(onnxR)
	l := &recurrentLayer{kind: o.kind, dirs: a.dirs(), hidden: r.Shape[2], inputs: x.Shape[2], steps: x.Shape[0],
		batch: x.Shape[1],
		order: [4]int{0, 1, 2, 3}, resetAfter: a.ResetAfter != 0, coupledGates: a.InputForget != 0, clip: a.Clip,
		backward: [2]bool{a.Direction == "reverse", true}}
	l.xStep, l.xBatch = l.batch, 1
	h := l.hidden
	if a.Layout != 0 {
		l.steps, l.batch = l.batch, l.steps
		l.xStep, l.xBatch = 1, l.steps
		l.yBatch, l.yStep, l.yDir = l.steps*l.dirs*h, l.dirs*h, h
		l.stateBatch, l.stateDir = l.dirs*h, h
		return l
	}
	l.yStep, l.yDir, l.yBatch = l.dirs*l.batch*h, l.batch*h, h
	l.stateDir, l.stateBatch = l.batch*h, h
	return l
}

// dirs returns the number of directions.
func (a *onnxCellAttrs) dirs() int {
	if a.Direction == "bidirectional" {
		return 2
	}
	return 1
}

func (o onnxCell) infer(c *graph.Call) ([]graph.Result, error) {
	x, w, r := c.Type(onnxX), c.Type(onnxW), c.Type(onnxR)
	if x.Rank() != 3 || w.Rank() != 3 || r.Rank() != 3 {
		return nil, fmt.Errorf("%s: X, W and R must have 3 dimensions, but got %d, %d and %d", o.name, x.Rank(),
			w.Rank(), r.Rank())
	}
	if !x.DType.IsFloat() {
		return nil, kit.NotImplemented(o.name, x.DType)
	}
	a := kit.Attrs[onnxCellAttrs](c)
	inputs, hidden := x.Shape[2], r.Shape[2]
	if !kit.SizeIs(a.HiddenSize, 0) && a.HiddenSize.Ne(hidden).Holds() {
		return nil, fmt.Errorf("%s: hidden_size is %v, but R has shape %s", o.name, a.HiddenSize, tensor.Sizes(r.Shape))
	}
	steps, batch, dirs := x.Shape[0], x.Shape[1], sym.Of(a.dirs())
	state, y := []sym.Int{dirs, batch, hidden}, []sym.Int{steps, dirs, batch, hidden}
	if a.Layout != 0 {
		steps, batch = batch, steps
		state, y = []sym.Int{batch, dirs, hidden}, []sym.Int{batch, steps, dirs, hidden}
	}
	rows := hidden.Mul(sym.Of(o.kind.gates()))
	biases, peepholes := rows.Mul(sym.Of(2)), hidden.Mul(sym.Of(3))
	for i, want := range [onnxOperandCount][]sym.Int{nil, {dirs, rows, inputs}, {dirs, rows, hidden}, {dirs, biases},
		{batch}, state, state, {dirs, peepholes}} {
		if want == nil || !c.Has(i) {
			continue
		}
		d := x.DType
		if i == onnxLengths {
			d = tensor.Int32
		}
		names := []string{"X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"}
		if t := c.Type(i); !tensor.SameSizes(t.Shape, want) || t.DType != d {
			return nil, fmt.Errorf("%s: expected %s to be %v %s, but got %v %s", o.name, names[i], d, tensor.Sizes(want),
				t.DType, tensor.Sizes(t.Shape))
		}
	}
	if err := o.activations(a, &recurrentLayer{dirs: a.dirs()}); err != nil {
		return nil, err
	}
	res := c.One(tensor.NewType(x.DType, y...))
	for range cells[o.kind].results - 1 {
		res = append(res, graph.Result{Type: tensor.NewType(x.DType, state...), Alias: graph.Fresh})
	}
	return res, nil
}

// activations sets the activation functions of layer l.
func (o onnxCell) activations(a *onnxCellAttrs, l *recurrentLayer) error {
	standard := cells[o.kind].activations
	names, alpha, beta := a.Activations, a.Alpha, a.Beta
	if len(names) == 0 {
		for range l.dirs {
			names = append(names, standard...)
		}
	}
	if len(names) != l.dirs*len(standard) {
		return fmt.Errorf("%s: expected %d activations, but got %d", o.name, l.dirs*len(standard), len(names))
	}
	for i, name := range names {
		f, ok := activationsByName[strings.ToLower(name)]
		if !ok {
			return fmt.Errorf("%s: unknown activation %q", o.name, name)
		}
		act := activation{name, f.alpha, f.beta}
		if f.params > 0 && len(alpha) > 0 {
			act.alpha, alpha = alpha[0], alpha[1:]
		}
		if f.params > 1 && len(beta) > 0 {
			act.beta, beta = beta[0], beta[1:]
		}
		l.activations[i/len(standard)][i%len(standard)] = act
	}
	return nil
}

func (o onnxCell) compile(c *graph.Call) (*graph.Kernel, error) {
	l := o.shape(c)
	if err := o.activations(kit.Attrs[onnxCellAttrs](c), l); err != nil {
		return nil, err
	}
	if l.batch*l.hidden == 0 {
		return &graph.Kernel{}, nil
	}
	d := c.Meta(0).DType.OpMath()
	x := copies.NewKernelBuilder(c)
	operands := x.Operands(d)
	for len(operands) < onnxOperandCount {
		operands = append(operands, kit.Buffer{})
	}
	rows := l.hidden * o.kind.gates()
	part := func(i, dir, per, at int, shape ...int) kit.Buffer {
		s := operands[i]
		if !s.IsGiven() {
			return s
		}
		if s.Packed { // directions are contiguous
			return s.Shifted(dir*c.In[i].Value.Meta.Bytes()/l.dirs, s.Meta)
		}
		return s.View(tensor.Meta{DType: d, Shape: shape, Strides: tensor.ContiguousStrides(shape), Offset: dir*per + at})
	}
	l.x, l.lengths, l.h0, l.c0 = operands[onnxX], operands[onnxLengths], operands[onnxH0], operands[onnxC0]
	for dir := range l.dirs {
		l.w[dir] = part(onnxW, dir, rows*l.inputs, 0, rows, l.inputs)
		l.r[dir] = part(onnxR, dir, rows*l.hidden, 0, rows, l.hidden)
		l.inBias[dir], l.stateBias[dir] = part(onnxB, dir, 2*rows, 0, rows), part(onnxB, dir, 2*rows, rows, rows)
		l.peepholes[dir] = part(onnxPeepholes, dir, 3*l.hidden, 0, 3*l.hidden)
	}
	l.y, l.hn = x.Result(0, d), x.Result(1, d)
	if o.kind == cellLSTM {
		l.cn = x.Result(2, d)
	}
	if err := l.addPhases(x, d); err != nil {
		return nil, err
	}
	return x.Kernel()
}

// addPhases adds the phases of the layer to x. d is the dtype of its computation.
func (l *recurrentLayer) addPhases(x *copies.KernelBuilder, d tensor.DType) error {
	switch d {
	case tensor.Complex128:
		return addByDefinition[complex128](x, l)
	case tensor.Int64:
		return addByDefinition[int64](x, l)
	}
	return addRecurrent(x, l, d)
}
