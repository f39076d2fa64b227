// Package numerals parses and formats number literals of graph files and attributes. It accepts common spellings of
// infinities, NaN and complex numbers, for which JSON has no literals.
package numerals

import (
	"math"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/tensor"
)

// Special returns the number of a special literal of graph files: "NaN", "Infinity" or "-Infinity".
func Special(text string) (float64, bool) {
	switch text {
	case "NaN":
		return math.NaN(), true
	case "Infinity":
		return math.Inf(1), true
	case "-Infinity":
		return math.Inf(-1), true
	}
	return 0, false
}

// IsSpecial reports whether [Special] accepts a string.
func IsSpecial(text string) bool {
	_, ok := Special(text)
	return ok
}

// SpecialText returns the literal of an infinity or NaN, or "" for other numbers.
func SpecialText(number float64) string {
	switch {
	case math.IsNaN(number):
		return "NaN"
	case math.IsInf(number, 1):
		return "Infinity"
	case math.IsInf(number, -1):
		return "-Infinity"
	}
	return ""
}

// AnySpecial is [Special] for attributes and the data of constants. It accepts any spelling that Go parses, such as
// "-inf" and "nan".
func AnySpecial(text string) (float64, bool) {
	number, err := strconv.ParseFloat(text, 64)
	return number, err == nil && (math.IsNaN(number) || math.IsInf(number, 0))
}

// IntendedLiteral returns the literal of [Special] that was meant by another spelling, such as "-inf", "nan",
// "+Infinity" or "np.inf". It returns "" for other strings, and for the literals of Special.
func IntendedLiteral(text string) string {
	sign, name := "", strings.ToLower(strings.TrimSpace(text))
	if IsSpecial(text) || name == "" {
		return ""
	}
	if name[0] == '-' || name[0] == '+' {
		sign, name = strings.Trim(name[:1], "+"), name[1:]
	}
	for _, prefix := range []string{"math.", "np.", "numpy.", "torch.", "float(", "."} {
		name = strings.TrimPrefix(name, prefix)
	}
	switch strings.Trim(name, "()'\"") {
	case "inf", "infinity", "infty":
		return sign + "Infinity"
	case "nan":
		return "NaN"
	}
	return ""
}

// IsExpression reports whether the text of a size is an expression, and not a number or the name of a symbol.
func IsExpression(text string) bool {
	return strings.ContainsAny(text, "+*/%()<>=") || strings.Contains(text, " - ")
}

// Float returns the number that a value in a file stands for. A string may spell an infinity or NaN.
func Float(v any) (float64, bool) {
	switch number := v.(type) {
	case int:
		return float64(number), true
	case int64:
		return float64(number), true
	case float64:
		return number, true
	case string:
		return AnySpecial(number)
	}
	return 0, false
}

// Scalar is [tensor.ScalarOf], but also accepts spellings of infinities and NaN. A complex number is a pair of numbers,
// or a string in Python's notation ("1+2j").
func Scalar(v any) (tensor.Scalar, bool) {
	switch number := v.(type) {
	case string:
		if f, ok := AnySpecial(number); ok {
			return tensor.FloatScalar(f), true
		}
		z, ok := pythonComplex(number)
		return tensor.ComplexScalar(z), ok
	case []any:
		if len(number) != 2 {
			return tensor.Scalar{}, false
		}
		re, reOK := Float(number[0])
		im, imOK := Float(number[1])
		return tensor.ComplexScalar(complex(re, im)), reOK && imOK
	}
	return tensor.ScalarOf(v)
}

// pythonComplex parses a complex number in Python's notation: 2j, 1+2j, (1+2j).
func pythonComplex(text string) (complex128, bool) {
	if inner, ok := strings.CutPrefix(text, "("); ok {
		if text, ok = strings.CutSuffix(inner, ")"); !ok {
			return 0, false
		}
	}
	inner, ok := strings.CutSuffix(text, "j")
	if !ok || strings.ContainsAny(inner, "ij() ") {
		return 0, false
	}
	z, err := strconv.ParseComplex(inner+"i", 128)
	return z, err == nil
}
