package onnx

import (
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// maxSteps bounds the steps that a recurrent network is written out to.
const maxSteps = 1 << 13

// recurrent is what RNN, LSTM and GRU have in common: a layer that is written out step by
// step.
type recurrent struct {
	*node
	gates           int // each of hidden rows in the weights
	hidden          int
	steps, batch    int
	x, w, r, b, p   *val // p: peepholes of an LSTM
	lens, h, c      *val // lengths of sequences, initial states
	batchFirst      bool
	clip            float64
	forward, revers bool
	acts            []func(*val) *val // of all directions
	d               tensor.DType
}

// layer reads the operands and attributes.
func (n *node) layer(gates int, acts []string) *recurrent {
	l := &recurrent{node: n, gates: gates, x: n.x(0), w: n.x(1), r: n.x(2), b: n.opt(3), lens: n.opt(4), h: n.opt(5),
		batchFirst: n.flag("layout", false), clip: n.float("clip", 0)}
	l.d = l.x.dtype()
	switch dir := n.text("direction", "forward"); dir {
	case "forward":
		l.forward = true
	case "reverse":
		l.revers = true
	case "bidirectional":
		l.forward, l.revers = true, true
	default:
		n.failf("direction %q is not served", dir)
	}
	if l.batchFirst {
		l.x = n.op("transpose", graph.Attrs{"dim0": 0, "dim1": 1}, l.x)
		if l.h != nil {
			l.h = n.op("transpose", graph.Attrs{"dim0": 0, "dim1": 1}, l.h)
		}
	}
	s, ws, rs := n.shape(l.x), n.shape(l.w), n.shape(l.r)
	if len(s) != 3 || len(ws) != 3 || len(rs) != 3 || ws[0] != l.directions() || rs[2]*gates != rs[1] || ws[1] != rs[1] || rs[0] != ws[0] {
		n.failf("operand %s and weights %s and %s do not fit together", tensor.ListString(s), tensor.ListString(ws), tensor.ListString(rs))
	}
	l.steps, l.batch, l.hidden = s[0], s[1], rs[2]
	if l.steps > maxSteps {
		n.failf("%d steps are too many to be written out: %d are served", l.steps, maxSteps)
	}
	l.activations(acts)
	return l
}

func (l *recurrent) directions() int {
	if l.forward && l.revers {
		return 2
	}
	return 1
}

// activations reads the functions of all directions. Their parameters stand in two lists
// that each function takes its own from, in order.
func (l *recurrent) activations(def []string) {
	var names []string
	if a := l.attrs["activations"]; a != nil {
		for _, s := range a.Strings {
			names = append(names, string(s))
		}
	}
	if len(names) == 0 {
		for range l.directions() {
			names = append(names, def...)
		}
	}
	if len(names) != len(def)*l.directions() {
		l.failf("%d activations, want %d", len(names), len(def)*l.directions())
	}
	alphas, _ := l.floats("activation_alpha")
	betas, _ := l.floats("activation_beta")
	take := func(list *[]float64, def float64) float64 {
		if len(*list) == 0 {
			return def
		}
		v := (*list)[0]
		*list = (*list)[1:]
		return v
	}
	for _, name := range names {
		l.acts = append(l.acts, l.activation(strings.ToLower(name), func(def float64) float64 { return take(&alphas, def) },
			func(def float64) float64 { return take(&betas, def) }))
	}
}

func (l *recurrent) activation(name string, alpha, beta func(def float64) float64) func(*val) *val {
	simple := map[string]string{"relu": "relu", "tanh": "tanh", "sigmoid": "sigmoid"}
	if op, ok := simple[name]; ok {
		return func(x *val) *val { return l.op(op, nil, x) }
	}
	switch name {
	case "affine":
		a, b := alpha(1), beta(0)
		return func(x *val) *val { return l.op("add", nil, l.op("mul", nil, x, a), b) }
	case "leakyrelu":
		a := alpha(0.01)
		return func(x *val) *val { return l.op("leaky_relu", graph.Attrs{"negative_slope": a}, x) }
	case "thresholdedrelu":
		a := alpha(1)
		return func(x *val) *val { return l.op("threshold", graph.Attrs{"threshold": a, "value": 0}, x) }
	case "scaledtanh":
		a, b := alpha(1), beta(1)
		return func(x *val) *val { return l.op("mul", nil, l.op("tanh", nil, l.op("mul", nil, x, b)), a) }
	case "hardsigmoid":
		a, b := alpha(0.2), beta(0.5)
		return func(x *val) *val {
			return l.op("clamp", graph.Attrs{"min": 0.0, "max": 1.0}, l.op("add", nil, l.op("mul", nil, x, a), b))
		}
	case "elu":
		a := alpha(1)
		return func(x *val) *val { return l.op("elu", graph.Attrs{"alpha": a}, x) }
	case "softsign":
		return func(x *val) *val { return l.op("div", nil, x, l.op("add", nil, l.op("abs", nil, x), 1.0)) }
	case "softplus":
		return func(x *val) *val { return l.op("softplus", graph.Attrs{"threshold": 40}, x) }
	}
	l.failf("activation %q is not served", name)
	return nil
}

// act applies the k-th activation of a direction, after clipping.
func (l *recurrent) act(dir, k int, x *val) *val {
	if l.clip > 0 {
		x = l.op("clamp", graph.Attrs{"min": -l.clip, "max": l.clip}, x)
	}
	return l.acts[dir*len(l.acts)/l.directions()+k](x)
}

// state is what a step hands on; c only in an LSTM.
type state struct{ h, c *val }

// weights of one direction.
type direction struct {
	index        int
	xw           *val // the operand's part of all gates, [steps, batch, gates*hidden]
	r, rb        *val
	pi, po, pf   *val
	step         func(dir *direction, xw *val, s state) state
	gateW, gateB []*val // of R by gate, for a GRU that resets first
}

// run writes the layer out and returns Y, Y_h and Y_c.
func (l *recurrent) run(step func(dir *direction, xw *val, s state) state) []*val {
	var ys, hs, cs []any
	for i := range l.directions() {
		dir := l.direction(i)
		dir.step = step
		y, last := l.sweep(dir, l.revers && (i == 1 || !l.forward))
		ys, hs = append(ys, y), append(hs, last.h)
		if last.c != nil {
			cs = append(cs, last.c)
		}
	}
	y := l.op("stack", graph.Attrs{"dim": 1}, ys...) // [steps, directions, batch, hidden]
	h := l.op("stack", graph.Attrs{"dim": 0}, hs...)
	out := []*val{y, h}
	if cs != nil {
		out = append(out, l.op("stack", graph.Attrs{"dim": 0}, cs...))
	}
	if l.batchFirst {
		out[0] = l.op("permute", graph.Attrs{"dims": []int{2, 0, 1, 3}}, y)
		for i := range out[1:] {
			out[1+i] = l.op("transpose", graph.Attrs{"dim0": 0, "dim1": 1}, out[1+i])
		}
	}
	return out
}

// direction selects the weights of a direction and multiplies the whole operand by them.
func (l *recurrent) direction(i int) *direction {
	at := func(x *val, index int) *val {
		if x == nil {
			return nil
		}
		return l.op("select", graph.Attrs{"dim": 0, "index": index}, x)
	}
	d := &direction{index: i, r: at(l.r, i)}
	var wb *val
	rows := l.gates * l.hidden
	if b := at(l.b, i); b != nil {
		parts := l.ops("split_with_sizes", graph.Attrs{"split_sizes": []int{rows, rows}, "dim": 0}, b)
		wb, d.rb = parts[0], parts[1]
	}
	d.xw = l.op("linear", nil, l.x, at(l.w, i), wb)
	if p := at(l.p, i); p != nil {
		h := l.hidden
		parts := l.ops("split_with_sizes", graph.Attrs{"split_sizes": []int{h, h, h}, "dim": 0}, p)
		d.pi, d.po, d.pf = parts[0], parts[1], parts[2]
	}
	return d
}

// sweep runs one direction over all steps. Where a sequence has ended the state stays and
// the output is 0.
func (l *recurrent) sweep(dir *direction, backwards bool) (*val, state) {
	zeros := l.op("full", graph.Attrs{"size": []int{l.batch, l.hidden}, "fill_value": 0, "dtype": l.d})
	first := func(x *val) *val {
		if x == nil {
			return zeros
		}
		return l.op("select", graph.Attrs{"dim": 0, "index": dir.index}, x)
	}
	s := state{h: first(l.h)}
	if l.gates == 4 {
		s.c = first(l.c)
	}
	var lens *val
	if l.lens != nil {
		lens = l.op("unsqueeze", graph.Attrs{"dim": 1}, l.lens)
	}
	ys := make([]any, l.steps)
	for i := range l.steps {
		t := i
		if backwards {
			t = l.steps - 1 - i
		}
		next := dir.step(dir, l.op("select", graph.Attrs{"dim": 0, "index": t}, dir.xw), s)
		y := next.h
		if lens != nil {
			alive := l.op("gt", nil, lens, t)
			y = l.op("where", nil, alive, next.h, zeros)
			next.h = l.op("where", nil, alive, next.h, s.h)
			if s.c != nil {
				next.c = l.op("where", nil, alive, next.c, s.c)
			}
		}
		ys[t], s = y, next
	}
	if l.steps == 0 {
		return l.op("full", graph.Attrs{"size": []int{0, l.batch, l.hidden}, "fill_value": 0, "dtype": l.d}), s
	}
	return l.op("stack", graph.Attrs{"dim": 0}, ys...), s
}

// parts cuts the gates apart.
func (l *recurrent) parts(x *val) []*val {
	sizes := make([]int, l.gates)
	for i := range sizes {
		sizes[i] = l.hidden
	}
	return l.ops("split_with_sizes", graph.Attrs{"split_sizes": sizes, "dim": -1}, x)
}

func (l *recurrent) add(x, y *val) *val { return l.op("add", nil, x, y) }
func (l *recurrent) mul(x, y *val) *val { return l.op("mul", nil, x, y) }

func rnn(n *node) []*val {
	l := n.layer(1, []string{"Tanh"})
	return l.run(func(dir *direction, xw *val, s state) state {
		return state{h: l.act(dir.index, 0, l.add(xw, l.op("linear", nil, s.h, dir.r, dir.rb)))}
	})
}

func lstm(n *node) []*val {
	l := n.layer(4, []string{"Sigmoid", "Tanh", "Tanh"})
	l.c, l.p = n.opt(6), n.opt(7)
	if l.batchFirst && l.c != nil {
		l.c = n.op("transpose", graph.Attrs{"dim0": 0, "dim1": 1}, l.c)
	}
	coupled := n.flag("input_forget", false)
	return l.run(func(dir *direction, xw *val, s state) state {
		g := l.parts(l.add(xw, l.op("linear", nil, s.h, dir.r, dir.rb)))
		i, o, f, c := g[0], g[1], g[2], g[3]
		if dir.pi != nil {
			i, f = l.add(i, l.mul(dir.pi, s.c)), l.add(f, l.mul(dir.pf, s.c))
		}
		i, f = l.act(dir.index, 0, i), l.act(dir.index, 0, f)
		if coupled {
			f = n.op("rsub", nil, i, 1.0)
		}
		c = l.add(l.mul(f, s.c), l.mul(i, l.act(dir.index, 1, c)))
		if dir.po != nil {
			o = l.add(o, l.mul(dir.po, c))
		}
		return state{h: l.mul(l.act(dir.index, 0, o), l.act(dir.index, 2, c)), c: c}
	})
}

func gru(n *node) []*val {
	l := n.layer(3, []string{"Sigmoid", "Tanh"})
	late := n.flag("linear_before_reset", false)
	return l.run(func(dir *direction, xw *val, s state) state {
		x := l.parts(xw)
		var z, r, h *val
		if late {
			g := l.parts(n.op("linear", nil, s.h, dir.r, dir.rb))
			z, r = l.act(dir.index, 0, l.add(x[0], g[0])), l.act(dir.index, 0, l.add(x[1], g[1]))
			h = l.act(dir.index, 1, l.add(x[2], l.mul(r, g[2])))
		} else {
			l.splitGates(dir)
			gate := func(k int, h *val) *val { return l.add(x[k], n.op("linear", nil, h, dir.gateW[k], dir.gateB[k])) }
			z, r = l.act(dir.index, 0, gate(0, s.h)), l.act(dir.index, 0, gate(1, s.h))
			h = l.act(dir.index, 1, gate(2, l.mul(r, s.h)))
		}
		return state{h: l.add(h, l.mul(z, n.op("sub", nil, s.h, h)))}
	})
}

// splitGates cuts R and its bias by gate, once a direction.
func (l *recurrent) splitGates(dir *direction) {
	if dir.gateW != nil {
		return
	}
	sizes := []int{l.hidden, l.hidden, l.hidden}
	dir.gateW = l.ops("split_with_sizes", graph.Attrs{"split_sizes": sizes, "dim": 0}, dir.r)
	dir.gateB = make([]*val, 3)
	if dir.rb != nil {
		dir.gateB = l.ops("split_with_sizes", graph.Attrs{"split_sizes": sizes, "dim": 0}, dir.rb)
	}
}
