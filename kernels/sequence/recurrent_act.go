package sequence

import (
	"math"
	"math/cmplx"
	"strings"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// cellActs are the functions that gates may have, by ONNX's names in lower case, and the
// parameters that they have where none are given. takes tells how many they take.
var cellActs = map[string]struct {
	takes       int
	alpha, beta float64
	f           func(x, a, b float64) float64
}{
	"sigmoid":     {f: func(x, _, _ float64) float64 { return kit.Sigmoid(x) }},
	"tanh":        {f: func(x, _, _ float64) float64 { return math.Tanh(x) }},
	"relu":        {f: func(x, _, _ float64) float64 { return max(x, 0) }},
	"softplus":    {f: func(x, _, _ float64) float64 { return kit.Softplus(x, 1, 20) }},
	"softsign":    {f: func(x, _, _ float64) float64 { return x / (1 + math.Abs(x)) }},
	"affine":      {2, 1, 0, func(x, a, b float64) float64 { return a*x + b }},
	"scaledtanh":  {2, 1, 1, func(x, a, b float64) float64 { return a * math.Tanh(b*x) }},
	"hardsigmoid": {2, 0.2, 0.5, func(x, a, b float64) float64 { return min(max(a*x+b, 0), 1) }},
	"leakyrelu":   {1, 0.01, 0, func(x, a, _ float64) float64 { return max(x, 0) + a*min(x, 0) }},
	"elu":         {1, 1, 0, func(x, a, _ float64) float64 { return max(x, 0) + a*math.Expm1(min(x, 0)) }},
	"thresholdedrelu": {1, 1, 0, func(x, a, _ float64) float64 {
		if x > a || x != x {
			return x
		}
		return 0
	}},
}

// scalar is the function itself.
func (a cellAct) scalar() func(float64) float64 {
	f := cellActs[strings.ToLower(a.name)].f
	return func(x float64) float64 { return f(x, a.alpha, a.beta) }
}

// cellScalar is the function in the numbers of a layer's reference. Of complex numbers there
// are sigmoid and tanh. Integers wrap as the layer's dtype does before they are bounded; a
// tanh of theirs is left to the end of the layer, whose state it makes a float.
func cellScalar[T kit.Widest](l *recurrent, a cellAct) func(T) T {
	var f any
	switch any(T(0)).(type) {
	case float64:
		f = a.scalar()
	case complex128:
		f = cmplx.Tanh
		if a.name == "Sigmoid" {
			f = func(z complex128) complex128 { return 1 / (1 + cmplx.Exp(-z)) }
		}
	default:
		bits := 64 - 8*l.integer.Size()
		f = func(v int64) int64 {
			if v = v << bits >> bits; l.integer == tensor.Uint8 {
				v &= 0xff
			}
			if a.name == "Relu" {
				v = max(v, 0)
			}
			return v
		}
	}
	return f.(func(T) T)
}

// cellFunction is the function on a row of a gate.
func cellFunction[T float32 | float64](a cellAct) func(v []T) {
	if _, single := any(T(0)).(float32); single {
		switch strings.ToLower(a.name) {
		case "sigmoid":
			return func(v []T) { sigmoidRow(any(v).([]float32)) }
		case "tanh":
			return func(v []T) { tanhRow(any(v).([]float32)) }
		}
	}
	if a.name == "" {
		return nil
	}
	f := a.scalar()
	return func(v []T) {
		for i, x := range v {
			v[i] = T(f(float64(x)))
		}
	}
}

// shortExp is e^t to some nine digits, as expShift32 computes it; t is bounded by 700.
func shortExp(t float64) float64 {
	const magic = 3 << 51
	t = min(max(t, -700), 700)
	k := t*math.Log2E + magic
	r := t - (k-magic)*math.Ln2
	r2 := r * r
	p := (1 + r) + r2*(0.5+r*(1./6)) + r2*r2*((1./24+r*(1./120))+r2*(1./720+r*(1./5040)))
	return p * math.Float64frombits(math.Float64bits(k)<<52+1023<<52)
}

func sigmoidRow(v []float32) {
	for i, x := range v {
		v[i] = float32(1 / (1 + shortExp(-float64(x))))
	}
}

// tanhRow takes the quotient of exponentials, and near 0, where that cancels, the Taylor
// polynomial.
func tanhRow(v []float32) {
	for i, f := range v {
		x := float64(f)
		if x2 := x * x; x2 < 0.1 {
			v[i] = float32(x * (1 + x2*(-1./3+x2*(2./15+x2*(-17./315+x2*(62./2835+x2*(-1382./155925+x2*(21844./6081075))))))))
			continue
		}
		v[i] = float32(1 - 2/(1+shortExp(2*x)))
	}
}
