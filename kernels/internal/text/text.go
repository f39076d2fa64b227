// Package text has the ops that compute strings: their concatenation ([Concat]), division ([Split]), normal form
// ([Normalize]), match ([FullMatch]), and conversions from and to numbers ([ToNumber], [FromNumber]).
//
// Strings are int64 codes ([tensor.Texts]). The strings themselves belong to a run ([graph.Runtime]), so these ops are
// dynamic, although only some results have shapes that depend on data. An op decodes each distinct code once. All
// other ops, such as gathers and comparisons, work on codes.
package text

import (
	"context"
	"fmt"
	"hash/crc32"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Ops returns the ops of this package.
func Ops() []*graph.Op {
	return []*graph.Op{Concat, Split, Normalize, FullMatch, ToNumber, FromNumber}
}

// call is one computation of an op.
type call struct {
	*graph.Call
	ctx   context.Context
	texts *tensor.Texts // nil in tests of the op, which know no strings
}

// text returns the string of a code, which is element i of an operand. Without a run, it is the decimal number.
func (c call) text(i int, code int64) (string, error) {
	if c.texts == nil {
		return strconv.FormatInt(code, 10), nil
	}
	s, ok := c.texts.Text(code)
	if !ok {
		return "", fmt.Errorf("element %d is %d, which stands for no string of the model or of the run", i, code)
	}
	return s, nil
}

// code returns the code of a string. Without a run, it is a checksum, so that tests are reproducible.
func (c call) code(s string) int64 {
	if c.texts == nil {
		return int64(crc32.ChecksumIEEE([]byte(s)))
	}
	return c.texts.Code(s)
}

// define defines an op. outlines returns the types of the results as far as they are known before the run, and compute
// the results.
func define(attrs *graph.Schema, op graph.Semantics, outlines func(*graph.Call) ([]graph.PartialType, error),
	compute func(call, []*tensor.Tensor) ([]*tensor.Tensor, error)) *graph.Op {
	op.Infer = func(c *graph.Call) ([]graph.Result, error) {
		list, err := outlines(c)
		results := make([]graph.Result, len(list))
		for i, outline := range list {
			results[i] = outline.Result()
		}
		return results, err
	}
	op.NoRef = "only a run knows the strings"
	run := func(rt graph.Runtime, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		if rt == nil {
			return compute(call{c, context.Background(), nil}, in)
		}
		return compute(call{c, rt.Context(), rt.Texts()}, in)
	}
	return kit.DefineWith(attrs, graph.Op{Semantics: op, Lowerings: graph.Lowerings{RunDynamic: run}})
}

// outline returns the outline of a row-major result.
func outline(dtype tensor.DType, sizes ...int) graph.PartialType {
	return graph.PartialType{DType: dtype, Sizes: sizes,
		TypeFor: func(shape []sym.Int) (tensor.Type, error) { return kit.FreshType(dtype, shape) }}
}

// unknownSize is the size of a dimension in an outline if the size depends on data or on symbols.
const unknownSize = -1

// checkCodes returns an error if operand i, if present, cannot be codes of strings.
func checkCodes(c *graph.Call, name string, i int) error {
	if dtype := c.Type(i).DType; c.HasOperand(i) && dtype != tensor.Int64 {
		return fmt.Errorf("%s: operand %d has dtype %v: strings are int64 codes", name, i, dtype)
	}
	return nil
}

// elementwise returns outlines of an op whose result has the shape of operand 0. dtypeOf returns its dtype, and the
// error of a call.
func elementwise(dtypeOf func(*graph.Call) (tensor.DType, error)) func(*graph.Call) ([]graph.PartialType, error) {
	return func(c *graph.Call) ([]graph.PartialType, error) {
		dtype, err := dtypeOf(c)
		return []graph.PartialType{outline(dtype, sym.KnownOrMinusOne(c.Type(0).Shape)...)}, err
	}
}

// codesOf returns the elements of a tensor of codes in row-major order.
func (c call) codesOf(t *tensor.Tensor) []int64 {
	const codeBytes = 8
	if !t.IsContiguous() {
		t = kit.CopyTo(c.ctx, t, tensor.New(tensor.Int64, t.Shape...))
	}
	return kit.SliceOf[int64](t.Storage().Bytes(), t.Offset*codeBytes, t.Numel())
}

// mapTexts returns a tensor of the results of f for each string of t. f is called once for each distinct code.
func mapTexts[T tensor.Element](c call, t *tensor.Tensor, f func(code int64, s string) (T, error)) (
	[]*tensor.Tensor, error) {
	out := tensor.Empty(tensor.New(tensor.DTypeOf[T](), t.Shape...))
	results, known := kit.SliceOf[T](out.Storage().Bytes(), 0, out.Numel()), map[int64]T{}
	for i, code := range c.codesOf(t) {
		result, isKnown := known[code]
		if !isKnown {
			interrupt.Check(c.ctx)
			s, err := c.text(i, code)
			if err == nil {
				result, err = f(code, s)
			}
			if err != nil {
				return nil, err
			}
			known[code] = result
		}
		results[i] = result
	}
	return []*tensor.Tensor{out}, nil
}

// Concat joins strings.
var Concat = define(kit.NoAttrs, graph.Semantics{
	Name:     "string_concat",
	Doc:      "Appends each string of `other` to the string of self. Both are broadcast together.",
	Params:   []graph.Param{kit.Self, kit.Other},
	Examples: []graph.Example{{In: []tensor.Meta{kit.I64(2, 3), kit.I64(3)}}},
}, func(c *graph.Call) ([]graph.PartialType, error) {
	for i := range c.In {
		if err := checkCodes(c, "string_concat", i); err != nil {
			return nil, err
		}
	}
	shape, err := tensor.BroadcastSizes(c.Type(0).Shape, c.Type(1).Shape)
	return []graph.PartialType{outline(tensor.Int64, sym.KnownOrMinusOne(shape)...)}, err
}, func(c call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	shape, err := tensor.Broadcast(in[0].Shape, in[1].Shape)
	if err != nil {
		return nil, err
	}
	var codes [2][]int64
	for k, t := range in {
		meta, err := t.Expand(shape)
		if err != nil {
			return nil, err
		}
		codes[k] = c.codesOf(tensor.Must(t.View(meta)))
	}
	out := tensor.Empty(tensor.New(tensor.Int64, shape...))
	results, known := kit.SliceOf[int64](out.Storage().Bytes(), 0, out.Numel()), map[[2]int64]int64{}
	for i := range results {
		pair := [2]int64{codes[0][i], codes[1][i]}
		code, isKnown := known[pair]
		if !isKnown {
			interrupt.Check(c.ctx)
			left, err := c.text(i, pair[0])
			if err != nil {
				return nil, err
			}
			right, err := c.text(i, pair[1])
			if err != nil {
				return nil, err
			}
			code = c.code(left + right)
			known[pair] = code
		}
		results[i] = code
	}
	return []*tensor.Tensor{out}, nil
})

type splitAttrs struct {
	Delimiter string `attr:"delimiter" default:"" doc:"the string between pieces; empty: any white space, and no piece is empty"`
	MaxSplit  *int   `attr:"maxsplit" default:"none" doc:"the maximum number of divisions of a string; the last piece has the rest"`
}

// Split divides strings, as ONNX's StringSplit and Python's str.split do.
var Split = define(graph.SchemaOf[*splitAttrs](), graph.Semantics{
	Name: "string_split",
	Doc: "Divides each string of self into pieces. Returns two results. `pieces`: the pieces along a new last dimension, " +
		"as long as the longest list, with empty strings at the ends of shorter ones. `counts`: the number of pieces of " +
		"each string.",
	Params: []graph.Param{kit.Self}, Outputs: []string{"pieces", "counts"},
	Examples: kit.OneExample(kit.I64(2, 3), nil),
}, func(c *graph.Call) ([]graph.PartialType, error) {
	sizes := sym.KnownOrMinusOne(c.Type(0).Shape)
	return []graph.PartialType{outline(tensor.Int64, append(sizes[:len(sizes):len(sizes)], unknownSize)...),
		outline(tensor.Int64, sizes...)}, checkCodes(c, "string_split", 0)
}, func(c call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs, lists, longest := kit.Attrs[*splitAttrs](c.Call), map[int64][]int64{}, 0
	counts, err := mapTexts(c, in[0], func(code int64, s string) (int64, error) {
		pieces := split(s, attrs.Delimiter, attrs.MaxSplit)
		codes := make([]int64, len(pieces))
		for i, piece := range pieces {
			codes[i] = c.code(piece)
		}
		lists[code], longest = codes, max(longest, len(codes))
		return int64(len(codes)), nil
	})
	if err != nil {
		return nil, err
	}
	shape := append(in[0].Shape[:in[0].Rank():in[0].Rank()], longest)
	meta := tensor.New(tensor.Int64, shape...)
	if err := tensor.CheckMemory(meta.Bytes()); err != nil {
		return nil, err
	}
	out := tensor.Empty(meta)
	results, padding := kit.SliceOf[int64](out.Storage().Bytes(), 0, out.Numel()), c.code("")
	for i, code := range c.codesOf(in[0]) {
		row := results[i*longest : (i+1)*longest]
		for k := copy(row, lists[code]); k < longest; k++ {
			row[k] = padding
		}
	}
	return []*tensor.Tensor{out, counts[0]}, nil
})

// split divides a string as Python's str.split does. An empty delimiter stands for white space.
func split(s, delimiter string, maxSplit *int) []string {
	limit := -1
	if maxSplit != nil && *maxSplit >= 0 {
		limit = *maxSplit
	}
	switch {
	case delimiter != "" && limit < 0:
		return strings.Split(s, delimiter)
	case delimiter != "":
		return strings.SplitN(s, delimiter, limit+1)
	case limit < 0:
		return strings.Fields(s)
	}
	var pieces []string
	for s = strings.TrimLeftFunc(s, unicode.IsSpace); s != ""; s = strings.TrimLeftFunc(s, unicode.IsSpace) {
		end := strings.IndexFunc(s, unicode.IsSpace)
		if end < 0 || len(pieces) == limit {
			return append(pieces, s)
		}
		pieces, s = append(pieces, s[:end]), s[end:]
	}
	return pieces
}

type matchAttrs struct {
	Pattern string `attr:"pattern" doc:"regular expression"`
}

// Check compiles the pattern.
func (a *matchAttrs) Check() error {
	_, err := a.compile()
	return err
}

func (a *matchAttrs) compile() (*regexp.Regexp, error) {
	if _, err := regexp.Compile(a.Pattern); err != nil { // such as "a)|(?:b", which the group below would complete
		return nil, err
	}
	return regexp.Compile(`\A(?:` + a.Pattern + `)\z`)
}

// FullMatch reports which strings match a pattern.
var FullMatch = define(graph.SchemaOf[*matchAttrs](), graph.Semantics{
	Name:     "string_full_match",
	Doc:      "Returns whether the whole of each string of self matches a regular expression in the syntax of RE2.",
	Params:   []graph.Param{kit.Self},
	Examples: kit.OneExample(kit.I64(2, 3), graph.Attrs{"pattern": "[0-4]+"}),
}, elementwise(func(c *graph.Call) (tensor.DType, error) {
	return tensor.Bool, checkCodes(c, "string_full_match", 0)
}), func(c call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	pattern, err := kit.Attrs[*matchAttrs](c.Call).compile()
	if err != nil {
		return nil, err
	}
	return mapTexts(c, in[0], func(_ int64, s string) (bool, error) { return pattern.MatchString(s), nil })
})
