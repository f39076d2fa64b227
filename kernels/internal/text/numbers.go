package text

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts between strings and numbers.

type toNumberAttrs struct {
	DType tensor.DType `attr:"dtype" doc:"dtype of the numbers"`
}

// ToNumber parses strings, as ONNX's Cast does.
var ToNumber = define(graph.SchemaOf[*toNumberAttrs](), graph.Semantics{
	Name: "string_to_number",
	Doc: "Parses each string of self as a decimal number, an infinity (`INF`, `-INF`) or `NaN`. Integers are truncated. A " +
		"string that is no number, or a number out of the range of an integer dtype, is an error.",
	Params:   []graph.Param{kit.Self},
	Examples: kit.OneExample(kit.I64(2, 3), graph.Attrs{"dtype": tensor.Float32}),
}, elementwise(func(c *graph.Call) (tensor.DType, error) {
	dtype := kit.Attrs[*toNumberAttrs](c).DType
	if dtype.IsComplex() {
		return dtype, fmt.Errorf("string_to_number: complex numbers are not supported")
	}
	return dtype, checkCodes(c, "string_to_number", 0)
}), func(c call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	dtype := kit.Attrs[*toNumberAttrs](c.Call).DType
	meta := tensor.New(dtype, in[0].Shape...)
	var wide []*tensor.Tensor
	var err error
	if dtype.IsFloat() || dtype == tensor.Bool {
		bits := 32 // a float32 that is rounded once: the text of another float32 gives this float32 back
		if dtype == tensor.Float64 {
			bits = 64
		}
		wide, err = mapTexts(c, in[0], func(_ int64, s string) (float64, error) { return parseFloat(s, bits) })
	} else {
		wide, err = mapTexts(c, in[0], func(_ int64, s string) (int64, error) { return parseInt(s, dtype) })
	}
	if err != nil {
		return nil, err
	}
	return []*tensor.Tensor{kit.CopyTo(c.ctx, wide[0], meta)}, nil
})

// parseFloat returns the number of 32 or 64 bits that a string represents.
func parseFloat(s string, bits int) (float64, error) {
	trimmed := strings.TrimSpace(s)
	number, err := strconv.ParseFloat(trimmed, bits)
	isText := strings.ContainsAny(trimmed, "_xXpP") // forms of Go
	if isText || err != nil && !math.IsInf(number, 0) {
		return 0, fmt.Errorf("the string %.40q is not a number", s)
	}
	return number, nil
}

// parseInt returns the integer that a string represents: the bits of an element of dtype in 64 bits.
func parseInt(s string, dtype tensor.DType) (int64, error) {
	bits := 8 * dtype.Size()
	isUnsigned := dtype == tensor.Uint8 || dtype == tensor.Uint16 || dtype == tensor.Uint32 || dtype == tensor.Uint64
	trimmed := strings.TrimSpace(s)
	if isUnsigned {
		if number, err := strconv.ParseUint(strings.TrimPrefix(trimmed, "+"), 10, bits); err == nil {
			return int64(number), nil
		}
	} else if number, err := strconv.ParseInt(trimmed, 10, bits); err == nil {
		return number, nil
	}
	number, err := parseFloat(s, 64)
	if err != nil {
		return 0, err
	}
	low, high := -math.Ldexp(1, bits-1), math.Ldexp(1, bits-1)
	if isUnsigned {
		low, high = 0, math.Ldexp(1, bits)
	}
	if number = math.Trunc(number); !(number >= low && number < high) {
		return 0, fmt.Errorf("the string %.40q is out of the range of %v", s, dtype)
	}
	if number >= math.MaxInt64 {
		return int64(uint64(number)), nil
	}
	return int64(number), nil
}

// FromNumber formats numbers, as ONNX's Cast does.
var FromNumber = define(kit.NoAttrs, graph.Semantics{
	Name: "number_to_string",
	Doc: "Formats each number of self as the shortest decimal number that has the value in float32 (float64: in float64): " +
		"plain between 1e-4 and 1e16, else with an exponent. Infinities are `INF` and `-INF`, booleans `1` and `0`.",
	Params:   []graph.Param{kit.Self},
	Examples: kit.OneExample(kit.F32(2, 3), nil),
}, elementwise(func(c *graph.Call) (tensor.DType, error) {
	if c.Type(0).DType.IsComplex() {
		return tensor.Int64, fmt.Errorf("number_to_string: complex numbers are not supported")
	}
	return tensor.Int64, nil
}), func(c call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out := tensor.Empty(tensor.New(tensor.Int64, in[0].Shape...))
	results, dtype := kit.SliceOf[int64](out.Storage().Bytes(), 0, out.Numel()), in[0].DType
	if !dtype.IsFloat() {
		wide := kit.CopyTo(c.ctx, in[0], tensor.New(tensor.Int64, in[0].Shape...))
		for i, number := range c.codesOf(wide) {
			text := strconv.FormatInt(number, 10)
			if dtype == tensor.Uint64 {
				text = strconv.FormatUint(uint64(number), 10)
			}
			results[i] = c.code(text)
		}
		return []*tensor.Tensor{out}, nil
	}
	bits := 32
	if dtype == tensor.Float64 {
		bits = 64
	}
	wide := kit.CopyTo(c.ctx, in[0], tensor.New(tensor.Float64, in[0].Shape...))
	for i, x := range kit.SliceOf[float64](wide.Storage().Bytes(), 0, wide.Numel()) {
		if i%kit.CheckEvery == 0 {
			interrupt.Check(c.ctx)
		}
		results[i] = c.code(formatFloat(x, bits))
	}
	return []*tensor.Tensor{out}, nil
})

// formatFloat returns the text of a number of 32 or 64 bits.
func formatFloat(x float64, bits int) string {
	size := math.Abs(x)
	switch {
	case math.IsNaN(x):
		return "NaN"
	case math.IsInf(x, 1):
		return "INF"
	case math.IsInf(x, -1):
		return "-INF"
	case size != 0 && (size < 1e-4 || size >= 1e16):
		return strconv.FormatFloat(x, 'e', -1, bits)
	}
	return strconv.FormatFloat(x, 'f', -1, bits)
}
