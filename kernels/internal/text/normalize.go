package text

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type normalizeAttrs struct {
	Case          string `attr:"case" default:"none" oneof:"none|lower|upper" doc:"the letters of the result"`
	CaseSensitive bool   `attr:"case_sensitive" default:"false" doc:"whether stop words are compared with their case"`
	Locale        string `attr:"locale" default:"" doc:"language of the mapping of letters; Turkish (tr) and Azeri (az) have their own"`
}

// mapping returns the function that changes the case of a string.
func (a *normalizeAttrs) mapping(letters string) func(string) string {
	isTurkic := strings.HasPrefix(a.Locale, "tr") || strings.HasPrefix(a.Locale, "az")
	switch {
	case letters == "lower" && isTurkic:
		return func(s string) string { return strings.ToLowerSpecial(unicode.TurkishCase, s) }
	case letters == "lower":
		return strings.ToLower
	case letters == "upper" && isTurkic:
		return func(s string) string { return strings.ToUpperSpecial(unicode.TurkishCase, s) }
	case letters == "upper":
		return strings.ToUpper
	}
	return func(s string) string { return s }
}

// Normalize removes stop words and changes the case of letters, as ONNX's StringNormalizer does.
var Normalize = define(graph.SchemaOf[*normalizeAttrs](), graph.Semantics{
	Name: "string_normalize",
	Doc: "Removes the strings of self that are in `stopwords`, and changes the case of the others. self is a vector or has " +
		"one row. If no string is left, the result is one empty string.",
	Params:   []graph.Param{kit.Self, {Name: "stopwords", Optional: true}},
	Examples: []graph.Example{{In: []tensor.Meta{kit.I64(1, 3), kit.I64(2)}, Attrs: graph.Attrs{"case": "lower"}}},
}, func(c *graph.Call) ([]graph.PartialType, error) {
	shape := c.Type(0).Shape
	isRow := len(shape) == 2 && shape[0].Eq(sym.Of(1)).Holds()
	if len(shape) != 1 && !isRow {
		return nil, fmt.Errorf("string_normalize: expected a vector or one row, but self has shape %v", shape)
	}
	sizes := sym.KnownOrMinusOne(shape)
	if c.HasOperand(1) {
		sizes[len(sizes)-1] = unknownSize
	}
	if err := checkCodes(c, "string_normalize", 1); err != nil {
		return nil, err
	}
	return []graph.PartialType{outline(tensor.Int64, sizes...)}, checkCodes(c, "string_normalize", 0)
}, func(c call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs := kit.Attrs[*normalizeAttrs](c.Call)
	compared, changed := attrs.mapping("none"), attrs.mapping(attrs.Case)
	if !attrs.CaseSensitive {
		compared = attrs.mapping("lower")
	}
	stopwords := map[string]bool{}
	if c.HasOperand(1) {
		for i, code := range c.codesOf(in[1]) {
			s, err := c.text(i, code)
			if err != nil {
				return nil, err
			}
			stopwords[compared(s)] = true
		}
	}
	var kept []int64
	isStopword := map[int64]bool{} // by code
	normalized, err := mapTexts(c, in[0], func(code int64, s string) (int64, error) {
		isStopword[code] = stopwords[compared(s)]
		return c.code(changed(s)), nil
	})
	if err != nil {
		return nil, err
	}
	codes := c.codesOf(in[0])
	for i, code := range c.codesOf(normalized[0]) {
		if !isStopword[codes[i]] {
			kept = append(kept, code)
		}
	}
	if len(kept) == 0 && c.HasOperand(1) {
		kept = append(kept, c.code(""))
	}
	shape := append([]int{}, in[0].Shape...)
	shape[len(shape)-1] = len(kept)
	out, err := tensor.FromSlice(kept, shape...)
	return []*tensor.Tensor{out}, err
})
