package expr

import (
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// An idiom is a formula that Go computes in one loop: block by block its many steps would take several times as long.
// It is found again in the instructions of a code, whatever these are part of.
type idiom struct {
	text   string
	params []string
	dtypes []tensor.DType
	body   func(d tensor.DType) body
}

// idioms are few: complex numbers, whose parts are computed together, and formulas of many cases for rare operands.
var idioms = []idiom{
	{"x * y", []string{"x", "y"}, complexes, inParts(complexMul[float32], complexMul[float64])},
	{"x / y", []string{"x", "y"}, complexes, inParts(complexDiv[float32], complexDiv[float64])},
	{"exp(x)", []string{"x"}, complexes, inParts(complexExp[float32], complexExp[float64])},
	{"hypot(x, y)", []string{"x", "y"}, reals, inParts(hypotV[float32], hypotV[float64])},
	{"nan_to_num(x, y, z, w)", []string{"x", "y", "z", "w"}, reals,
		inParts(finiteV[float32, uint32], finiteV[float64, uint64])},
	{"x != 0 and y != 0", []string{"x", "y"}, tested, logicalBody(And)},
	{"x != 0 or y != 0", []string{"x", "y"}, tested, logicalBody(Or)},
	{"(x != 0) != (y != 0)", []string{"x", "y"}, tested, logicalBody(Xor)},
	{"x << y", []string{"x", "y"}, bytes, alone(shiftLeft8)},
	{"x >> y", []string{"x", "y"}, bytes, alone(shiftRight8)},
	{"fmod(x, y)", []string{"x", "y"}, signed, inWidths(remInt[int32], remInt[int64])},
	{"fmod(x, y)", []string{"x", "y"}, bytes, alone(remInt[uint8])},
	{"x % y", []string{"x", "y"}, bytes, alone(remInt[uint8])},
	{"maximum(x, 0)", []string{"x"}, signed, inWidths(reluInt[int32], reluInt[int64])},
	{"heaviside(x, y)", []string{"x", "y"}, signed, inWidths(stepsInt[int32], stepsInt[int64])},
	{"where(x <= y, z, x)", []string{"x", "y", "z"}, signed,
		inWidths(replaceLow[int32, uint32], replaceLow[int64, uint64])},
	{"where(x > 0, x, x * y)", []string{"x", "y"}, reals,
		inParts(leakyRelu[float32, uint32], leakyRelu[float64, uint64])},
	{"x * minimum(maximum(x + 3, 0), 6) / 6", []string{"x"}, reals,
		inParts(hardSwish[float32, uint32], hardSwish[float64, uint64])},
	{"minimum(maximum(x + 3, 0), 6) / 6", []string{"x"}, reals,
		inParts(hardSigmoid[float32, uint32], hardSigmoid[float64, uint64])},
	{"x + w * y * z", []string{"x", "y", "z", "w"}, reals, inParts(addScaledMul[float32], addScaledMul[float64])},
	{"x + w * y / z", []string{"x", "y", "z", "w"}, reals, inParts(addScaledDiv[float32], addScaledDiv[float64])},
	{"x + z * (y - x)", []string{"x", "y", "z"}, reals, inParts(between[float32], between[float64])},
}

var (
	complexes = []tensor.DType{tensor.Complex64, tensor.Complex128}
	reals     = []tensor.DType{tensor.Float32, tensor.Float64}
	signed    = []tensor.DType{tensor.Int32, tensor.Int64}
	bytes     = []tensor.DType{tensor.Uint8}
	tested    = []tensor.DType{tensor.Uint8, tensor.Int32, tensor.Int64, tensor.Float32, tensor.Float64}
)

// alone is the loop of an idiom of one dtype.
func alone(f body) func(tensor.DType) body { return func(tensor.DType) body { return f } }

func inWidths(half, whole body) func(tensor.DType) body {
	return func(d tensor.DType) body {
		if d.Size() == 4 {
			return half
		}
		return whole
	}
}

func inParts(single, double body) func(tensor.DType) body {
	return func(d tensor.DType) body {
		if d.ToReal() == tensor.Float32 {
			return single
		}
		return double
	}
}

// template is an idiom of a dtype as a code.
type template struct {
	*Code
	body body
}

var templates = sync.OnceValue(func() (list []template) {
	for _, x := range idioms {
		f, err := Parse(x.text, x.params...)
		if err != nil {
			panic("expr: the idiom " + x.text + ": " + err.Error())
		}
		for _, d := range x.dtypes {
			in := make([]tensor.DType, len(x.params))
			for k := range in {
				in[k] = d
			}
			c, err := f.Code(in, Typing{})
			if err != nil {
				panic("expr: the idiom " + x.text + ": " + err.Error())
			}
			list = append(list, template{c, x.body(d)})
		}
	}
	return list
})

// found is an idiom in a code: the values that it is computed from, and of complex numbers the other part, which comes
// later, or None.
type found struct {
	body    body
	uses    []Value
	other   Value
	swapped bool // the other part is the real one
}

// findIdioms returns the idioms in a code, by the value of their result or of the part that comes first.
func findIdioms(c *Code) map[Value]found {
	list := map[Value]found{}
	seen := map[Inst]Value{}
	for v, i := range c.Insts {
		seen[i] = Value(v)
	}
	counts := c.counts()
	for _, t := range templates() {
		o := t.Out[0]
		for v, i := range c.Insts {
			if _, taken := list[Value(v)]; taken || i.Op != t.Insts[o.Re].Op || i.DType != t.Insts[o.Re].DType {
				continue
			}
			bound := make([]Value, len(t.Insts))
			for k := range bound {
				bound[k] = None
			}
			if !t.match(c, bound, o.Re, Value(v)) {
				continue
			}
			first, f := Value(v), found{body: t.body, other: None}
			if o.Im != None {
				if f.other = t.lookUp(bound, seen, o.Im); f.other == None || f.other == first {
					continue
				}
				if f.swapped = f.other < first; f.swapped {
					first, f.other = f.other, first
				}
			}
			for k, i := range t.Insts {
				if i.Op == Load {
					f.uses = append(f.uses, bound[k])
				}
			}
			if slices.Max(f.uses) < first && !t.shares(bound, counts) {
				list[first] = f
			}
		}
	}
	return list
}

// counts returns how often each value is an operand or an output.
func (c *Code) counts() []int {
	n := make([]int, len(c.Insts))
	for _, i := range c.Insts {
		for _, u := range i.Uses() {
			n[u]++
		}
	}
	for _, o := range c.Out {
		if n[o.Re]++; o.Im != None {
			n[o.Im]++
		}
	}
	return n
}

// shares reports whether somebody else needs a difference or a quotient of integers that lies within the idiom, of real
// numbers. It would be computed twice, which takes longer than a step of its own for what little is left.
func (t template) shares(bound []Value, counts []int) bool {
	own, o := t.counts(), t.Out[0]
	for k, i := range t.Insts {
		shared := bound[k] != None && counts[bound[k]] > own[k]
		if shared && o.Im == None && Value(k) != o.Re && (i.Op == Sub || i.Op == Div && !i.DType.IsFloat()) {
			return true
		}
	}
	return false
}

// match compares value v of a code with value x of the template, and binds the template's operands to values.
func (t template) match(c *Code, bound []Value, x, v Value) bool {
	if bound[x] != None {
		return bound[x] == v
	}
	i, j := t.Insts[x], c.Insts[v]
	if i.DType != j.DType || i.Op != Load && (i.Op != j.Op || i.Imm != j.Imm) || i.Op == Call {
		return false
	}
	bound[x] = v
	if i.Op == Load {
		return true
	}
	of := j.Uses()
	for k, u := range i.Uses() {
		if !t.match(c, bound, u, of[k]) {
			return false
		}
	}
	return true
}

// lookUp finds what the template computes from values that are bound.
func (t template) lookUp(bound []Value, seen map[Inst]Value, x Value) Value {
	if bound[x] != None {
		return bound[x]
	}
	i := t.Insts[x]
	for k, u := range i.Uses() {
		v := t.lookUp(bound, seen, u)
		if v == None {
			return None
		}
		*[]*Value{&i.A, &i.B, &i.C}[k] = v
	}
	v, ok := seen[i]
	if !ok || i.Op == Load {
		return None
	}
	bound[x] = v
	return v
}

func complexMul[T float](d, a, b, c, e, g unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc, se, sg := by.d, by.a, by.b, by.c, by.e, by.g
	for ; ; d, g = unsafe.Add(d, sd), unsafe.Add(g, sg) {
		x, y, u, v := float64(*(*T)(a)), float64(*(*T)(b)), float64(*(*T)(c)), float64(*(*T)(e))
		*(*T)(d), *(*T)(g) = T(float64(x*u)-float64(y*v)), T(float64(x*v)+float64(y*u))
		if n--; n == 0 {
			return
		}
		a, b, c, e = unsafe.Add(a, sa), unsafe.Add(b, sb), unsafe.Add(c, sc), unsafe.Add(e, se)
	}
}

// complexDiv is Go's division, whose quotient is formed by the larger part of the divisor; what comes out as NaN is
// left to Go, which tells infinities apart.
func complexDiv[T float](d, a, b, c, e, g unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc, se, sg := by.d, by.a, by.b, by.c, by.e, by.g
	for ; ; d, g = unsafe.Add(d, sd), unsafe.Add(g, sg) {
		x, y, u, v := float64(*(*T)(a)), float64(*(*T)(b)), float64(*(*T)(c)), float64(*(*T)(e))
		var p, q float64
		if math.Abs(u) >= math.Abs(v) {
			ratio := v / u
			low := u + float64(ratio*v)
			p, q = (x+float64(y*ratio))/low, (y-float64(x*ratio))/low
		} else {
			ratio := u / v
			low := v + float64(ratio*u)
			p, q = (float64(x*ratio)+y)/low, (float64(y*ratio)-x)/low
		}
		if p != p && q != q {
			z := complex(x, y) / complex(u, v)
			p, q = real(z), imag(z)
		}
		*(*T)(d), *(*T)(g) = T(p), T(q)
		if n--; n == 0 {
			return
		}
		a, b, c, e = unsafe.Add(a, sa), unsafe.Add(b, sb), unsafe.Add(c, sc), unsafe.Add(e, se)
	}
}

func complexExp[T float](d, a, b, _, _, g unsafe.Pointer, n int, by *strides) {
	one := func(x, y T) (T, T) {
		s, c := sinCos(float64(y))
		r, sin, cos := T(exp(float64(x))), T(s), T(c)
		switch rare, odd := x-x != 0, y-y != 0; { // infinite or NaN
		case y == 0 && rare && !(x < 0):
			return x, y
		case odd && rare && x < 0:
			return 0, T(math.Copysign(0, float64(y)))
		case odd && rare && x > 0:
			return x, T(math.NaN())
		case y == 0:
			return r * cos, y
		}
		return r * cos, r * sin
	}
	for i := range n {
		re, im := one(*(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b)))
		*(*T)(unsafe.Add(d, i*by.d)), *(*T)(unsafe.Add(g, i*by.g)) = re, im
	}
}

func hypotV[T float](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for ; ; d, a, b = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb) {
		x, y := math.Abs(float64(*(*T)(a))), math.Abs(float64(*(*T)(b)))
		p, q := max(x, y), min(x, y)
		switch r := q / p; {
		case x > math.MaxFloat64 || y > math.MaxFloat64:
			p = math.Inf(1)
		case p != 0:
			p *= math.Sqrt(1 + float64(r*r))
		}
		*(*T)(d) = T(p)
		if n--; n == 0 {
			return
		}
	}
}

// finiteV puts other numbers in the places of NaN (b) and the infinities (c and e).
func finiteV[T float, U word](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc, se := by.d, by.a, by.b, by.c, by.e
	for ; ; d, a, b = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb) {
		x, r := *(*T)(a), *(*U)(a)
		if x-x != 0 {
			switch {
			case x != x:
				r = *(*U)(b)
			case x > 0:
				r = *(*U)(c)
			default:
				r = *(*U)(e)
			}
		}
		*(*U)(d) = r
		if n--; n == 0 {
			return
		}
		c, e = unsafe.Add(c, sc), unsafe.Add(e, se)
	}
}
