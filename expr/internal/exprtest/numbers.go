package exprtest

import (
	"bufio"
	"embed"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

//go:embed testdata/elementary.txt
var exactValues embed.FS

// Float is the set of types for which there are elementary functions.
type Float interface{ float32 | float64 }

var (
	Inf     = math.Inf(1)
	Nan     = math.NaN()
	NegZero = math.Copysign(0, -1)
)

// Ordinary in [SpecialResults] means that the result is not a special number; other tests check it.
const Ordinary = 12345

// SpecialResults has the results of functions of one operand for 0, -0, 1, -1, inf, -inf and NaN, by annex F of C99.
var SpecialResults = map[expr.Op][7]float64{
	expr.Exp:   {1, 1, Ordinary, Ordinary, Inf, 0, Nan},
	expr.Exp2:  {1, 1, 2, 0.5, Inf, 0, Nan},
	expr.Expm1: {0, NegZero, Ordinary, Ordinary, Inf, -1, Nan},
	expr.Log:   {-Inf, -Inf, 0, Nan, Inf, Nan, Nan},
	expr.Log2:  {-Inf, -Inf, 0, Nan, Inf, Nan, Nan},
	expr.Log10: {-Inf, -Inf, 0, Nan, Inf, Nan, Nan},
	expr.Log1p: {0, NegZero, Ordinary, -Inf, Inf, Nan, Nan},
	expr.Sin:   {0, NegZero, Ordinary, Ordinary, Nan, Nan, Nan},
	expr.Cos:   {1, 1, Ordinary, Ordinary, Nan, Nan, Nan},
	expr.Tan:   {0, NegZero, Ordinary, Ordinary, Nan, Nan, Nan},
	expr.Asin:  {0, NegZero, math.Pi / 2, -math.Pi / 2, Nan, Nan, Nan},
	expr.Acos:  {math.Pi / 2, math.Pi / 2, 0, math.Pi, Nan, Nan, Nan},
	expr.Atan:  {0, NegZero, math.Pi / 4, -math.Pi / 4, math.Pi / 2, -math.Pi / 2, Nan},
	expr.Sinh:  {0, NegZero, Ordinary, Ordinary, Inf, -Inf, Nan},
	expr.Cosh:  {1, 1, Ordinary, Ordinary, Inf, Inf, Nan},
	expr.Tanh:  {0, NegZero, Ordinary, Ordinary, 1, -1, Nan},
	expr.Asinh: {0, NegZero, Ordinary, Ordinary, Inf, -Inf, Nan},
	expr.Acosh: {Nan, Nan, 0, Nan, Inf, Nan, Nan},
	expr.Atanh: {0, NegZero, Inf, -Inf, Nan, Nan, Nan},
	expr.Erf:   {0, NegZero, Ordinary, Ordinary, 1, -1, Nan},
	expr.Erfc:  {1, 1, Ordinary, Ordinary, 0, 2, Nan},
}

// SameNumber reports whether a and b are the same number. Zeros of different signs differ, and all NaNs are the same.
func SameNumber(a, b float64) bool {
	return a != a && b != b || a == b && math.Signbit(a) == math.Signbit(b)
}

// Ulps returns the distance of y from want + low in units of the last place of T. An infinite y counts as the number
// after the greatest finite number. NaN, infinities and signed zeros of want must match exactly.
func Ulps[T Float](y T, want, low float64) float64 {
	minExponent, mantissa, overflow := -1022, 52, math.Inf(1)
	if tensor.DTypeOf[T]() == tensor.Float32 {
		minExponent, mantissa, overflow = -126, 23, 0x1p128
	}
	got, exact := float64(y), float64(T(want)) == want && low == 0
	switch {
	case want != want && got != got: // both are NaN
		return 0
	case want != want || got != got || math.Signbit(got) != math.Signbit(want):
		return math.Inf(1)
	case got == want && exact, math.IsInf(got, 0) && math.Abs(want) >= overflow:
		return 0
	case math.IsInf(want, 0):
		return math.Inf(1)
	case math.IsInf(got, 0): // the first number after the greatest finite number replaces infinity
		got = math.Copysign(overflow, got)
	case math.Abs(want) >= overflow: // y is finite
		want, low = math.Copysign(overflow, want), 0
	}
	return math.Abs((got-want)-low) / math.Ldexp(1, max(math.Ilogb(want), minExponent)-mantissa)
}

// EachExact reads values that were computed with 113 bits: the name of a function, its operands, the value rounded to
// float64, and the rounding error.
func EachExact(t testing.TB, visit func(name string, x, y, want, low float64)) {
	t.Helper()
	file, err := exactValues.Open("testdata/elementary.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		words := strings.Fields(scanner.Text())
		var numbers [4]float64
		for k := range numbers {
			if numbers[k], err = strconv.ParseFloat(words[k+1], 64); err != nil {
				t.Fatal(err)
			}
		}
		visit(words[0], numbers[0], numbers[1], numbers[2], numbers[3])
	}
}
