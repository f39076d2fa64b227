package expr

import (
	"slices"
	"strings"
	"sync"

	"github.com/graphrun/graphrun/tensor"
)

// definition is a library function that is written as a formula, in the language that [Parse] reads. Operands other
// than plain numbers are promoted to a common dtype first. For example, this is a row of the library:
//
//	"square": {{"x", "x ** 2", sameAsFloats, sameAsFloats, acceptsBools}}
//
// A call square(a + b) then stands for x ** 2 with x = a + b, for floats, integers and complex numbers. Bools become
// integers. Method typer.call chooses the definition by the number of operands, and one of the definition's texts by
// the dtype of the operands.
type definition struct {
	params   string // names of the operands, separated by spaces
	text     string // the definition for floats, as a formula
	integers string // the definition for integers: a text, sameAsFloats, rejected or asFloat
	complex  string // the definition for complex numbers: a text, sameAsFloats or rejected
	flags    uint8  // acceptsBools, ignoreNumbers
}

const (
	acceptsBools  = 1 << iota // bools are treated as integers; without the flag, bools are rejected
	ignoreNumbers             // promotion ignores plain numbers
)

const (
	sameAsFloats = "alike" // the definition for floats applies
	rejected     = ""
	asFloat      = "float" // the definition for floats applies; integers are converted to float32
)

func (d definition) operandNames() []string { return strings.Fields(d.params) }

// library maps a name to its definitions, one for each number of operands. The columns are the fields of definition.
// Names with a space cannot be called from formulas; they implement operators and functions of complex numbers.
var library = map[string][]definition{
	// name: {{params, text, integers, complex, flags}}; the flags 0 mean none

	// Activations.
	"sigmoid":     {{"x", "1 / (1 + exp(-x))", asFloat, sameAsFloats, acceptsBools}},
	"silu":        {{"x", "x / (1 + exp(-x))", rejected, sameAsFloats, 0}},
	"log_sigmoid": {{"x", "minimum(x, 0) - log1p(exp(-abs(x)))", rejected, rejected, 0}},
	"softplus": {{"x", "softplus(x, 1, 20)", rejected, rejected, 0}, {"x beta threshold",
		"where(x * beta > threshold, x, log1p(exp(x * beta)) / beta)", rejected, rejected, 0}},
	// x * tanh(log(1 + g)) with g = exp(x). tanh is n / (n + 1) with n = g + g^2/2, and 1 for x >= 20. For small g,
	// n / (n + 1) is computed as g - g*q with q = (n - g/2) / (n + 1). As q is small, its rounding error adds little to
	// the error of exp.
	"mish": {{"x", "g = exp(minimum(x, 20)); h = g * 0.5; n = g + g * h; small = g < 0.5; " +
		"q = where(small, n - h, n) / (n + 1); x * where(small, g - g * q, q)", rejected, rejected, 0}},
	"gelu": {{"x", "0.5 * x * (1 + erf(x * 0.70710678118654752440))", rejected, rejected, 0}},
	"gelu_tanh": {{"x", "0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)))", rejected,
		rejected, 0}},
	"relu":  {{"x", "maximum(x, 0)", sameAsFloats, rejected, 0}},
	"relu6": {{"x", "minimum(maximum(x, 0), 6)", sameAsFloats, rejected, 0}},
	"hardtanh": {{"x", "minimum(maximum(x, -1), 1)", sameAsFloats, rejected, 0},
		{"x lo hi", "minimum(maximum(x, lo), hi)", sameAsFloats, rejected, 0}},
	"hardswish":   {{"x", "x * minimum(maximum(x + 3, 0), 6) / 6", rejected, rejected, 0}},
	"hardsigmoid": {{"x", "minimum(maximum(x + 3, 0), 6) / 6", rejected, rejected, 0}},
	"elu": {{"x", "elu(x, 1)", rejected, rejected, 0},
		{"x alpha", "where(x <= 0, alpha * expm1(x), x)", rejected, rejected, 0},
		{"x alpha scale input_scale", "where(x <= 0, alpha * scale * expm1(x * input_scale), x * scale)", rejected, rejected,
			0}},
	"selu": {{"x", "elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1)", rejected, rejected,
		0}},
	"celu":       {{"x alpha", "where(x <= 0, alpha * expm1(x * (1 / alpha)), x)", rejected, rejected, 0}},
	"leaky_relu": {{"x slope", "where(x > 0, x, x * slope)", rejected, rejected, 0}},
	"prelu":      {{"x w", "where(x > 0, x, x * w)", rejected, rejected, 0}},
	"threshold": {{"x limit v", "where(x <= type_as(limit, x), type_as(v, x), x)", sameAsFloats, rejected,
		ignoreNumbers}},
	"hardshrink": {{"x l", "where(x >= -l and x <= l, 0, x)", rejected, rejected, 0}},
	"softshrink": {{"x l", "shrink(x, l, l)", rejected, rejected, 0}},
	"shrink":     {{"x l bias", "where(x < -l, x + bias, where(x > l, x - bias, x * 0))", rejected, rejected, 0}},
	"tanhshrink": {{"x", "x - tanh(x)", rejected, rejected, 0}},
	"softsign":   {{"x", "x / (1 + abs(x))", asFloat, rejected, 0}},
	"logit": {{"x", "log(x / (1 - x))", asFloat, rejected, acceptsBools},
		{"x eps", "t = where(x < eps, eps, where(x > 1 - eps, 1 - eps, x)); log(t / (1 - t))", asFloat, rejected,
			acceptsBools}},

	// Arithmetic.
	"rsqrt":      {{"x", "1 / sqrt(x)", asFloat, sameAsFloats, acceptsBools}},
	"reciprocal": {{"x", "1 / x", asFloat, sameAsFloats, acceptsBools}},
	"square":     {{"x", "x ** 2", sameAsFloats, sameAsFloats, acceptsBools}},
	"frac":       {{"x", "x - trunc(x)", rejected, rejected, 0}},
	"round": {{"x", "rint(x)", sameAsFloats, rejected, 0},
		{"x decimals", "up = type_as(10.0 ** maximum(decimals, 0), x); " +
			"down = type_as(10.0 ** maximum(-decimals, 0), x); rint(type_as(x / down * up, x)) / up * down", rejected, rejected,
			0}},
	"deg2rad": {{"x", "x * (pi / 180)", asFloat, rejected, acceptsBools}},
	"rad2deg": {{"x", "x * (180 / pi)", asFloat, rejected, acceptsBools}},
	"clamp":   {{"x lo hi", "minimum(maximum(x, lo), hi)", sameAsFloats, rejected, acceptsBools}},
	"lerp": {{"a b w", "where(w < 0.5, a + w * (b - a), b - (b - a) * (1 - w))", rejected,
		"where(abs(w) < 0.5, a + w * (b - a), b - (b - a) * (1 - w))", 0}},
	"true_divide": {{"x y", "x / y", asFloat, sameAsFloats, acceptsBools}},
	"remainder": {{"x y", "m = fmod(x, y); where(m != 0 and (y < 0) != (m < 0), m + y, m)",
		"m = fmod(x, y); where(m != 0 and (m ^ y) < 0, m + y, m)", rejected, 0}},
	// c10::div_floor_floating: subtract the remainder, then divide. For 16-bit floats PyTorch rounds each step.
	"floor_divide": {{"x y", "m = fmod(x, y); q = type_as(type_as(x - m, x) / y, x); " +
		"p = where(m != 0 and (y < 0) != (m < 0), type_as(q - 1, x), q); f = floor(p); " +
		"g = where(type_as(p - f, x) > 0.5, f + 1, f); " +
		"where(y == 0, x / y, where(p == 0, copysign(0, x / y), g))",
		"q = trunc_divide(x, y); m = x - q * y; where(m != 0 and (m ^ y) < 0, q - 1, q)", rejected, 0}},

	// Functions of two numbers.
	"fmax":  {{"x y", "where(x > y or y != y, x, y)", "maximum(x, y)", rejected, acceptsBools}},
	"fmin":  {{"x y", "where(x < y or y != y, x, y)", "minimum(x, y)", rejected, acceptsBools}},
	"xlogy": {{"x y", "where(y != y, y, where(x == 0, 0, x * log(y)))", asFloat, rejected, acceptsBools}},
	"logaddexp": {{"x y", "where(x == y and isinf(x), x, maximum(x, y) + log1p(exp(-abs(x - y))))", rejected,
		rejected, 0}},
	"logaddexp2": {{"x y", "where(x == y and isinf(x), x, " +
		"maximum(x, y) + log1p(exp2(-abs(x - y))) / 0.693147180559945309417)", rejected, rejected,
		0}},
	"heaviside": {{"x v", "where(x == 0, v, type_as(x > 0, x))", sameAsFloats, rejected, acceptsBools}},
	"hypot": {{"x y", "a = abs(float64(x)); b = abs(float64(y)); p = maximum(a, b); q = minimum(a, b) / p; " +
		"r = where(p == 0, p, p * sqrt(1 + q * q)); as_computed(where(a == inf or b == inf, inf, r), x)", asFloat, rejected,
		acceptsBools}},

	// Signs and classes.
	"sign": {{"x", "type_as(x > 0, x) - type_as(x < 0, x)",
		"where(x > 0, type_as(1, x), where(x < 0, type_as(-1, x), type_as(0, x)))", rejected, acceptsBools}},
	"sgn":         {{"x", "sign(x)", sameAsFloats, "where(x == 0, 0, x / abs(x))", acceptsBools}},
	"angle":       {{"x", "where(x < 0, pi, where(x != x, x, 0))", asFloat, "atan2(imag(x), real(x))", acceptsBools}},
	"isnan":       {{"x", "x != x", sameAsFloats, sameAsFloats, acceptsBools}},
	"isinf":       {{"x", "abs(x) == inf", "x != x", "isinf(real(x)) or isinf(imag(x))", acceptsBools}},
	"isfinite":    {{"x", "abs(x) < inf", "x == x", "isfinite(real(x)) and isfinite(imag(x))", acceptsBools}},
	"isposinf":    {{"x", "x == inf", "x != x", rejected, acceptsBools}},
	"isneginf":    {{"x", "x == -inf", "x != x", rejected, acceptsBools}},
	"logical_xor": {{"x y", "bool(x) != bool(y)", sameAsFloats, sameAsFloats, acceptsBools}},
	"nan_to_num": {{"x", "nan_to_num(x, 0)", "x", rejected, acceptsBools | ignoreNumbers},
		{"x n", "nan_to_num(x, n, finfo_max(x), finfo_min(x))", "x", rejected, acceptsBools | ignoreNumbers},
		{"x n up down", "where(x != x, n, where(x == inf, up, where(x == -inf, down, x)))", "x", rejected,
			acceptsBools | ignoreNumbers}},

	// Functions of complex numbers, by Go's formulas (runtime.complex128div, math/cmplx).
	"complex64 abs": {{"z", "", rejected, "a = float64(real(z)); b = float64(imag(z)); " +
		"r = sqrt(a * a + b * b); " + // squares do not overflow
		"float32(where(r != r, where(isinf(a) or isinf(b), inf, r), r))", 0}},
	"complex128 abs": {{"z", "", rejected, "hypot(real(z), imag(z))", 0}},
	// exp(a) * (cos b + i*sin b) with z = a + i*b. The last two lines have the special cases: an infinite or NaN a with
	// b = 0, and an infinite a with an infinite or NaN b.
	"complex exp": {{"z", "", rejected, "a = real(z); b = imag(z); r = exp(a); " +
		"v = complex(r * cos(b), where(b == 0, b, r * sin(b))); " +
		"special_angle = isinf(b) or isnan(b); " +
		"where(isinf(a) and a > 0 and b == 0 or isnan(a) and b == 0, z, " +
		"where(isinf(a) and special_angle, where(a < 0, complex(0, copysign(0, b)), complex(inf, nan)), v))", 0}},
	// Near 1, log|z| is log1p(|z|^2 - 1)/2, because |z| is rounded.
	"complex log": {{"z", "", rejected, "w = complex128(z); m = abs(w); " +
		"a = maximum(abs(real(w)), abs(imag(w))); b = minimum(abs(real(w)), abs(imag(w))); " +
		"r = where(m > 0.5 and m < 2, 0.5 * log1p((a - 1) * (a + 1) + b * b), log(m)); " +
		"type_as(complex(r, angle(w)), z)", 0}},
	// The parts are divided separately. A complex quotient would make the angle NaN if the real part is infinite, and
	// lose the sign of a zero.
	"complex log2": {{"z", "", rejected, "w = log(z); complex(real(w) / 0.693147180559945309417, " +
		"imag(w) / 0.693147180559945309417)", 0}},
	"complex log10": {{"z", "", rejected, "w = log(z); complex(real(w) / 2.302585092994045684018, " +
		"imag(w) / 2.302585092994045684018)", 0}},
	// x = a + i*b and y = c + i*d. Smith's method divides by the part of y with the greater magnitude, and gives the parts
	// p and q of the quotient. If both are NaN, u and v replace them: the parts for a divisor 0 or an infinite operand.
	"complex /": {{"x y", "", rejected, "a = float64(real(x)); b = float64(imag(x)); c = float64(real(y)); " +
		"d = float64(imag(y)); big = abs(c) >= abs(d); " +
		"m = where(big, c, d); n = where(big, d, c); g = where(big, a, b); h = where(big, b, a); " +
		"ratio = n / m; low = m + ratio * n; t = g * ratio; " +
		"p = (g + h * ratio) / low; q = where(big, h - t, t - h) / low; " +
		"zero_y = c == 0 and d == 0 and (not isnan(a) or not isnan(b)); " +
		"infinite_x = (isinf(a) or isinf(b)) and isfinite(c) and isfinite(d); " +
		"infinite_y = (isinf(c) or isinf(d)) and isfinite(a) and isfinite(b); " +
		"a1 = copysign(isinf(a), a); b1 = copysign(isinf(b), b); c1 = copysign(isinf(c), c); d1 = copysign(isinf(d), d); " +
		"u = where(zero_y, copysign(inf, c) * a, where(infinite_x, inf * (a1 * c + b1 * d), " +
		"where(infinite_y, 0 * (a * c1 + b * d1), p))); " +
		"v = where(zero_y, copysign(inf, c) * b, where(infinite_x, inf * (b1 * c - a1 * d), " +
		"where(infinite_y, 0 * (b * c1 - a * d1), q))); " +
		"r = where(isnan(q), u, p); s = where(isnan(q), v, q); " +
		"type_as(complex(where(isnan(p), r, p), where(isnan(p), s, q)), x)", 0}},
	// |x|^a * exp(-b*g) * (cos s + i*sin s) with y = a + i*b, g = angle(x) and s = a*g + b*log|x|.
	"complex **": {{"x y", "", rejected, "w = complex128(x); a = float64(real(y)); b = float64(imag(y)); " +
		"m = abs(w); g = angle(w); h = a * g; b_nonzero = b != 0; " +
		"r = m ** a * where(b_nonzero, exp(-b * g), 1); s = where(b_nonzero, h + b * log(m), h); " +
		"v = complex(r * cos(s), r * sin(s)); " +
		"power_of_zero = where(isnan(a) or isnan(b), complex(nan, nan), where(a == 0, complex(1, 0), " +
		"where(a > 0, complex(0, 0), complex(inf, where(b == 0, 0, inf))))); " +
		"type_as(where(w == 0, power_of_zero, v), x)", 0}},
}

// formulaCache has the parsed formulas of the library. Its keys have the operands and the text ([definition.formula]).
var formulaCache sync.Map

// formula returns the parsed text, which may have the operands of the definition.
func (d definition) formula(text string) *Formula {
	key := d.params + ":" + text
	if f, ok := formulaCache.Load(key); ok {
		return f.(*Formula)
	}
	f, err := Parse(text, d.operandNames()...)
	if err != nil {
		panic("expr: the library has " + text + ": " + err.Error())
	}
	formulaCache.Store(key, f)
	return f
}

// textFor returns the text of the definition for a dtype, or rejected. toFloat is true if operands of this dtype, an
// integer or bool, are converted to floats first.
func (d definition) textFor(dtype tensor.DType) (text string, toFloat bool) {
	text = d.text
	forDType := text // the field of the definition for the dtype
	switch {
	case dtype.IsComplex():
		forDType = d.complex
	case dtype == tensor.Bool && d.flags&acceptsBools == 0:
		forDType = rejected
	case dtype.IsIntegral(true):
		forDType = d.integers
	}
	switch forDType {
	case sameAsFloats:
		return text, false
	case asFloat:
		return text, true
	}
	return forDType, false
}

// call applies a function of the library to operands x.
func (t *typer) call(name string, x []formulaValue) formulaValue {
	definitions := library[name]
	arityIndex := slices.IndexFunc(definitions, func(d definition) bool { return len(d.operandNames()) == len(x) })
	if arityIndex < 0 {
		t.fail("there is no %s of %d operands", name, len(x))
	}
	called := definitions[arityIndex]
	dtype := t.commonDType(x...)
	if called.flags&ignoreNumbers != 0 {
		dtype = t.commonDType(slices.DeleteFunc(slices.Clone(x), formulaValue.isPlainNumber)...)
	}
	text, toFloat := called.textFor(dtype)
	t.reject(dtype, text == rejected, strings.TrimPrefix(name, "complex "))
	if toFloat {
		dtype = t.floatDType
	}
	env := scope{}
	for index, param := range called.operandNames() {
		env[param] = x[index]
		if !x[index].isPlainNumber() {
			converted := t.convert(x[index], dtype)
			converted.isZeroDim = false // within the function all operands have dimensions
			env[param] = converted
		}
	}
	t.libraryDepth++ // errors within the formula are reported at the call
	defer func() { t.libraryDepth-- }()
	return t.evalFormula(called.formula(text), env)[0]
}
