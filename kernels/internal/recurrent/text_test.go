package recurrent_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// textCell is a layer as ONNX's text defines it, for one direction and one sequence, with float64 vectors and matrices.
type textCell struct {
	kind                            string
	w, r                            [][]float64
	wb, rb, p                       []float64
	f                               []func(float64) float64
	clip                            float64
	linearBeforeReset, coupledGates bool
}

// textFunction returns an activation of the text, with alpha and beta.
func textFunction(name string, a, b float64) func(float64) float64 {
	return map[string]func(float64) float64{
		"Relu":     func(x float64) float64 { return max(0, x) },
		"Tanh":     math.Tanh,
		"Sigmoid":  func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
		"Affine":   func(x float64) float64 { return a*x + b },
		"Softsign": func(x float64) float64 { return x / (1 + math.Abs(x)) },
		"Softplus": func(x float64) float64 { return math.Log1p(math.Exp(-math.Abs(x))) + max(0, x) },
		"LeakyRelu": func(x float64) float64 {
			if x < 0 {
				return a * x
			}
			return x
		},
		"ThresholdedRelu": func(x float64) float64 {
			if x > a {
				return x
			}
			return 0
		},
		"ScaledTanh":  func(x float64) float64 { return a * math.Tanh(b*x) },
		"HardSigmoid": func(x float64) float64 { return min(max(a*x+b, 0), 1) },
		"Elu": func(x float64) float64 {
			if x < 0 {
				return a * (math.Exp(x) - 1)
			}
			return x
		},
	}[name]
}

// product is m times v from row first on, n rows of it.
func product(m [][]float64, first, n int, v []float64) []float64 {
	out := make([]float64, n)
	for i, row := range m[first : first+n] {
		for k, x := range v {
			out[i] += row[k] * x
		}
	}
	return out
}

// act is function i of bounded arguments.
func (c *textCell) act(i int, v []float64) []float64 {
	out := make([]float64, len(v))
	for k, x := range v {
		if c.clip > 0 {
			x = min(max(x, -c.clip), c.clip)
		}
		out[k] = c.f[i](x)
	}
	return out
}

// step is one of a layer of so many elements.
func (c *textCell) step(x, h, cell []float64) (newH, newC []float64) {
	n := len(h)
	sum := func(gate int, state []float64, scale, peep, of []float64) []float64 {
		out, s := product(c.w, gate*n, n, x), product(c.r, gate*n, n, state)
		for k := range out {
			s[k] += c.rb[gate*n+k]
			if scale != nil {
				s[k] *= scale[k]
			}
			out[k] += s[k] + c.wb[gate*n+k]
			if peep != nil {
				out[k] += peep[k] * of[k]
			}
		}
		return out
	}
	newH, newC = make([]float64, n), make([]float64, n)
	switch c.kind {
	case "onnx_rnn":
		return c.act(0, sum(0, h, nil, nil, nil)), newC
	case "onnx_gru":
		z, r := c.act(0, sum(0, h, nil, nil, nil)), c.act(0, sum(1, h, nil, nil, nil))
		state, scale := make([]float64, n), []float64(nil)
		for k := range h {
			state[k] = r[k] * h[k]
		}
		if c.linearBeforeReset {
			state, scale = h, r
		}
		for k, v := range c.act(1, sum(2, state, scale, nil, nil)) {
			newH[k] = (1-z[k])*v + z[k]*h[k]
		}
		return newH, newC
	}
	peep := func(i int) []float64 {
		if c.p == nil {
			return nil
		}
		return c.p[i*n : (i+1)*n]
	}
	i, f := c.act(0, sum(0, h, nil, peep(0), cell)), c.act(0, sum(2, h, nil, peep(2), cell))
	for k, v := range c.act(1, sum(3, h, nil, nil, nil)) {
		if c.coupledGates {
			f[k] = 1 - i[k]
		}
		newC[k] = f[k]*cell[k] + i[k]*v
	}
	for k, o := range c.act(0, sum(1, h, nil, peep(1), newC)) {
		newH[k] = o * c.f[2](newC[k])
	}
	return newH, newC
}

// textCase is a drawn layer; elements are found by step or direction, sequence and place.
type textCase struct {
	kind                                       string
	steps, batch, inputSize, hidden, gates     int
	directions                                 []bool // backward
	attrs                                      graph.Attrs
	acts                                       []string
	alphas, betas                              []float64 // of all functions
	in                                         []*tensor.Tensor
	batchFirst, coupledGates, resetAfter, clip bool
}

func drawText(r *rand.Rand) *textCase {
	kind := r.IntN(3)
	c := &textCase{kind: []string{"onnx_rnn", "onnx_gru", "onnx_lstm"}[kind], gates: []int{1, 3, 4}[kind],
		steps: 1 + r.IntN(6), batch: 1 + r.IntN(4), inputSize: 1 + r.IntN(6), hidden: 1 + r.IntN(7),
		attrs:      graph.Attrs{},
		batchFirst: r.IntN(2) == 0, coupledGates: r.IntN(2) == 0, resetAfter: r.IntN(2) == 0, clip: r.IntN(2) == 0}
	name := []string{"forward", "reverse", "bidirectional"}[r.IntN(3)]
	c.directions = map[string][]bool{"forward": {false}, "reverse": {true}, "bidirectional": {false, true}}[name]
	c.attrs["direction"] = name
	for set, attr := range map[string]bool{"layout": c.batchFirst, "input_forget": c.coupledGates && kind == 2,
		"linear_before_reset": c.resetAfter && kind == 1} {
		if attr {
			c.attrs[set] = 1
		}
	}
	if c.clip {
		c.attrs["clip"] = 0.1 + 3*r.Float64()
	}
	c.drawFunctions(r, []int{1, 2, 3}[kind])
	c.drawOperands(r)
	return c
}

// drawFunctions draws activations; the last of their parameters may be left out, and have defaults then.
func (c *textCase) drawFunctions(r *rand.Rand, each int) {
	names := []string{"Sigmoid", "Tanh", "Relu", "Softplus", "Softsign", "Affine", "ScaledTanh", "HardSigmoid",
		"LeakyRelu", "ThresholdedRelu", "Elu"}
	alphas := map[string]float64{"Affine": 1, "ScaledTanh": 1, "HardSigmoid": 0.2, "LeakyRelu": 0.01,
		"ThresholdedRelu": 1, "Elu": 1}
	betas := map[string]float64{"Affine": 0, "ScaledTanh": 1, "HardSigmoid": 0.5}
	var alpha, beta []float64
	given := r.IntN(2) == 0
	for range each * len(c.directions) {
		name := names[r.IntN(len(names))]
		given = given && r.IntN(8) > 0
		a, hasA := alphas[name]
		if hasA && given {
			a = r.Float64() - 0.3
			alpha = append(alpha, a)
		}
		b, hasB := betas[name]
		if hasB && given {
			b = r.Float64() - 0.3
			beta = append(beta, b)
		}
		c.acts, c.alphas, c.betas = append(c.acts, name), append(c.alphas, a), append(c.betas, b)
	}
	c.attrs["activations"], c.attrs["activation_alpha"], c.attrs["activation_beta"] = c.acts, alpha, beta
}

func (c *textCase) drawOperands(r *rand.Rand) {
	dirs, rows := len(c.directions), c.gates*c.hidden
	filled := func(scale float64, shape ...int) *tensor.Tensor {
		return kerneltest.Filled(tensor.New(tensor.Float64, shape...),
			func(tensor.DType) tensor.Scalar { return tensor.FloatScalar(scale * r.NormFloat64()) })
	}
	some := func(shape ...int) *tensor.Tensor {
		if r.IntN(2) == 0 {
			return nil
		}
		return filled(0.7, shape...)
	}
	x, state := []int{c.steps, c.batch, c.inputSize}, []int{dirs, c.batch, c.hidden}
	if c.batchFirst {
		x, state = []int{c.batch, c.steps, c.inputSize}, []int{c.batch, dirs, c.hidden}
	}
	c.in = []*tensor.Tensor{filled(4, x...), filled(2, dirs, rows, c.inputSize), filled(0.3, dirs, rows, c.hidden),
		some(dirs, 2*rows), nil, some(state...)}
	if r.IntN(2) == 0 {
		c.in[4] = tensor.Zeros(tensor.Int32, c.batch)
		for b := range c.batch {
			c.in[4].Set(tensor.IntScalar(int64(r.IntN(c.steps+1))), b)
		}
	}
	if c.gates == 4 {
		c.in = append(c.in, some(state...), some(dirs, 3*c.hidden))
	}
}

// row is a vector of an operand, zeros where there is none.
func row(v *tensor.Tensor, n int, at ...int) []float64 {
	out := make([]float64, n)
	for k := range out {
		if v != nil {
			out[k] = v.At(append(at, k)...).Float()
		}
	}
	return out
}

// states is where a state of a sequence in a direction is.
func (c *textCase) states(dir, b int) []int {
	if c.batchFirst {
		return []int{b, dir}
	}
	return []int{dir, b}
}

// run computes a sequence in a direction, and visits results: which one, where, and a vector.
func (c *textCase) run(dir, b int, visit func(result int, at []int, v []float64)) {
	each, rows := len(c.acts)/len(c.directions), c.gates*c.hidden
	l := &textCell{kind: c.kind, linearBeforeReset: c.attrs["linear_before_reset"] != nil,
		coupledGates: c.attrs["input_forget"] != nil}
	l.clip, _ = c.attrs["clip"].(float64)
	for i := dir * each; i < (dir+1)*each; i++ {
		l.f = append(l.f, textFunction(c.acts[i], c.alphas[i], c.betas[i]))
	}
	for i := range rows {
		l.w, l.r = append(l.w, row(c.in[1], c.inputSize, dir, i)), append(l.r, row(c.in[2], c.hidden, dir, i))
	}
	bias := row(c.in[3], 2*rows, dir)
	l.wb, l.rb = bias[:rows], bias[rows:]
	h, cell := row(c.in[5], c.hidden, c.states(dir, b)...), make([]float64, c.hidden)
	if c.gates == 4 {
		cell = row(c.in[6], c.hidden, c.states(dir, b)...)
		if c.in[7] != nil {
			l.p = row(c.in[7], 3*c.hidden, dir)
		}
	}
	n := c.steps
	if c.in[4] != nil {
		n = int(c.in[4].At(b).Int())
	}
	for t := range c.steps {
		at, y := []int{t, dir, b}, make([]float64, c.hidden)
		if t < n {
			if c.directions[dir] {
				at[0] = n - 1 - t
			}
			x := []int{at[0], b}
			if c.batchFirst {
				x = []int{b, at[0]}
			}
			h, cell = l.step(row(c.in[0], c.inputSize, x...), h, cell)
			y = h
		}
		if c.batchFirst {
			at = []int{b, at[0], dir}
		}
		visit(0, at, y)
	}
	visit(1, c.states(dir, b), h)
	if c.gates == 4 {
		visit(2, c.states(dir, b), cell)
	}
}

// TestOnnxCellsByTheText compares kernels and references of layers, with all options, with an implementation of ONNX's
// text. All compute in float64, whose rounding errors are far below the tolerance.
func TestOnnxCellsByTheText(t *testing.T) {
	r := rand.New(rand.NewPCG(57, 1))
	for i := range 300 {
		c := drawText(r)
		op, call, err := kerneltest.NewCall(c.kind, c.attrs, c.in, kerneltest.RandomConstants(r, c.in)...)
		if err != nil {
			t.Fatal(err)
		}
		out, err := kerneltest.RunInFilledMemory(op, call, c.in, 0xcd, false)
		if err != nil {
			t.Fatal(err)
		}
		defined, err := op.Ref(call, c.in)
		if err != nil {
			t.Fatal(err)
		}
		for dir := range c.directions {
			for b := range c.batch {
				c.run(dir, b, func(result int, at []int, want []float64) {
					for what, list := range map[string][]*tensor.Tensor{"kernel": out, "definition": defined} {
						got := row(list[result], c.hidden, at...)
						for k, v := range want {
							same := got[k] == v || got[k] != got[k] && v != v // steps of unbounded functions end at infinity
							if !same && !(math.Abs(got[k]-v) <= 1e-11*max(1, math.Abs(v))) {
								t.Fatalf("%d: %s of %s %v: result %d at %v has %v, not %v", i, what, c.kind, c.attrs, result, at, got, want)
							}
						}
					}
				})
			}
		}
	}
}
