package graph

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// PartialType is an outline: the known part of the type of a value whose shape depends on data. For example, the result
// of nonzero for a matrix has the outline {DType: Int64, Sizes: [-1, 2]}.
type PartialType struct {
	DType tensor.DType // Invalid if it is unknown
	Sizes []int        // -1 for an unknown size; nil if the rank is unknown, and empty for a value without dimensions
	// TypeFor returns the type of the value for a given shape. It is nil if the layout is unknown.
	TypeFor func(shape []sym.Int) (tensor.Type, error)
}

// Result returns an outline as the result of inference.
func (o PartialType) Result() Result {
	return Result{Type: tensor.Type{DType: o.DType}, Alias: NoAlias, Dynamic: true, Sizes: o.Sizes, TypeFor: o.TypeFor}
}

// Join returns the outline of a value that has one of two outlines. It has the dtype and the sizes on which both
// outlines agree. The layout becomes unknown.
func (o PartialType) Join(other PartialType) PartialType {
	if o.DType != other.DType {
		o.DType = tensor.Invalid
	}
	if o.Sizes == nil || other.Sizes == nil || len(o.Sizes) != len(other.Sizes) {
		return PartialType{DType: o.DType}
	}
	sizes := make([]int, len(o.Sizes))
	for i := range sizes {
		sizes[i] = o.Sizes[i]
		if other.Sizes[i] != sizes[i] {
			sizes[i] = -1
		}
	}
	return PartialType{DType: o.DType, Sizes: sizes}
}

// Stacked returns the outline of the result of stacking values with outline o along the new dimension `axis`. The size
// of the new dimension is unknown. A negative axis counts from the end.
func (o PartialType) Stacked(axis int) PartialType {
	if o.Sizes == nil {
		return o
	}
	if axis < 0 {
		axis += len(o.Sizes) + 1
	}
	o.Sizes = slices.Insert(slices.Clone(o.Sizes), min(max(axis, 0), len(o.Sizes)), -1)
	return o
}

// OutlinedArg is an operand for [Op.Outline]. If the value of the operand is known, Arg has it. Otherwise Arg is a
// tensor without a value, and Outline describes the operand.
type OutlinedArg struct {
	Arg     Arg
	Outline PartialType
}

// isUnknown reports whether only the outline of the operand is known. It is false for the zero OutlinedArg, which is an
// omitted operand.
func (x OutlinedArg) isUnknown() bool { return x.Arg.Kind == TensorArg && x.Arg.Value == nil }

// Outline infers the outlines of an op's results from the outlines of its operands. The inferred outlines are valid for
// all operands that match the given outlines and that the op accepts. For example, a concatenation of float32 [-1, 3]
// and float32 [5, 3] along dimension 0 has the outline float32 [-1, 3].
//
// Outline makes a new symbol for each unknown size. symbolSizes has the sizes of the symbols of the graph. For an
// unknown rank or dtype, Outline tries several. It returns nil if the op rejects all of them.
//
// Attributes may refer to values of the graph ([ValueRef]). In this case, only the ranks and dtypes of the results are
// inferred. refs returns the shape and the elements of such a value, with nil for an unknown element. If the shape is
// unknown, refs returns false, and Outline returns nil.
func (op *Op) Outline(in []OutlinedArg, attrs Attrs, refs func(*Value) (shape []int, elements []any, ok bool),
	symbolSizes map[string]sym.Int) []PartialType {
	if op == nil || op.Schema == nil || op.Infer == nil {
		return nil // the op was not made by Define
	}
	inference := &outlineInference{op: op, operands: in, symbolSizes: symbolSizes}
	if !inference.guessAttrs(attrs, refs) {
		return nil
	}
	var alternatives [][]PartialType
	for _, dtype := range inference.dtypes() {
		for rank := range inference.rankCount() {
			if outlines := inference.infer(dtype, rank); outlines != nil {
				alternatives = append(alternatives, outlines)
			}
		}
	}
	return joinOutlines(alternatives)
}

// outlineInference infers the outlines of the results of one op. It infers the op for combinations of guesses, and
// joins the outlines from all combinations that the op accepts. There are five kinds of guesses, from the outermost
// loop to the innermost:
//   - a dtype for the operands of unknown dtype (dtypes);
//   - a rank for the operands of unknown rank (rankCount);
//   - a hint for the unknown sizes (sizeHints). Only the first hint that the op accepts is used;
//   - the outcome of each condition on unknown sizes ([sym.Fork], in inferAtHint);
//   - a number for the unknown elements of attributes (guessAttrs, inferEachAttrs).
//
// For example, a squeeze of float32 [-1, 3] is inferred for the two outcomes of the condition that the first size is 1.
// The results have one and two dimensions, so the joined outline is float32 of unknown rank.
type outlineInference struct {
	op          *Op
	operands    []OutlinedArg
	attrGuesses []Attrs // copies of the attributes, one for each number that is tried for unknown elements
	symbolSizes map[string]sym.Int
}

// guessAttrs sets attrGuesses: it replaces attributes that refer to values by the elements of the values. Unknown
// elements become a number. Because the op may reject a number, guessAttrs makes several copies of the attributes, with
// different numbers. It returns false if the shape of a value is unknown.
func (inference *outlineInference) guessAttrs(attrs Attrs, refs func(*Value) ([]int, []any, bool)) bool {
	numbers := []any{nil}
	for _, attr := range attrs {
		if _, ok := attr.(ValueRef); ok {
			numbers = []any{1, 3, 0, 2, -1, 1.5} // common sizes, axes and scales
		}
	}
	for _, number := range numbers {
		resolved := maps.Clone(attrs)
		for name, attr := range attrs {
			ref, ok := attr.(ValueRef)
			if !ok {
				continue
			}
			if refs == nil {
				return false
			}
			shape, elements, ok := refs(ref.Value)
			if !ok || len(elements) > maxAttrElements || len(elements) != tensor.Numel(shape) {
				return false
			}
			resolved[name] = filledAttr(shape, elements, number)
		}
		inference.attrGuesses = append(inference.attrGuesses, resolved)
	}
	return true
}

// filledAttr returns the elements of a value as an attribute. This is an elementList, the form of an attribute that was
// given as a tensor. For a value without dimensions, it is the only element. `number` replaces unknown elements.
func filledAttr(shape []int, elements []any, number any) any {
	elements = slices.Clone(elements)
	for i, element := range elements {
		if element == nil {
			elements[i] = number
		}
	}
	if len(shape) == 0 {
		return elements[0]
	}
	return elementList(elements)
}

// dtypes lists the dtypes that are tried for operands of unknown dtype.
func (inference *outlineInference) dtypes() []tensor.DType {
	hasUnknownDType := func(x OutlinedArg) bool { return x.isUnknown() && x.Outline.DType == tensor.Invalid }
	if slices.ContainsFunc(inference.operands, hasUnknownDType) {
		return []tensor.DType{tensor.Float32, tensor.Int64, tensor.Bool}
	}
	return []tensor.DType{tensor.Invalid} // a single guess, which is not used
}

// rankCount returns the number of ranks that are tried for operands of unknown rank. The ranks start at 0.
func (inference *outlineInference) rankCount() int {
	hasUnknownRank := func(x OutlinedArg) bool { return x.isUnknown() && x.Outline.Sizes == nil }
	if slices.ContainsFunc(inference.operands, hasUnknownRank) {
		return maxGuessedRank + 1
	}
	return 1
}

// maxGuessedRank is the largest rank that inference tries for operands of unknown rank.
const maxGuessedRank = 5

// infer returns the outlines of the results if operands of unknown dtype have the given dtype, and operands of unknown
// rank have the given rank. It returns nil if the op rejects all sizes.
func (inference *outlineInference) infer(dtype tensor.DType, rank int) []PartialType {
	for _, hint := range sizeHints {
		joined, isSample := inference.inferAtHint(operandGuess{dtype, rank, hint})
		if joined != nil || !isSample {
			return joined
		}
		// The op rejected all outcomes at this hint. It may accept the next hint.
	}
	return nil
}

// sizeHints are guesses of unknown sizes. The next hint is tried only if inference needs a size as a number, and the op
// rejects the current hint.
var sizeHints = []int{3, 1, 2, 5, 64, 224}

// operandGuess is a guess of the unknown parts of operand types.
type operandGuess struct {
	dtype tensor.DType // of the operands of unknown dtype
	rank  int          // of the operands of unknown rank
	hint  int          // of the symbols for unknown sizes
}

// inferAtHint joins the outlines for all outcomes of conditions on the unknown sizes. isSample means that inference was
// tried for only a few of the possible sizes or attributes.
func (inference *outlineInference) inferAtHint(guess operandGuess) (joined []PartialType, isSample bool) {
	env := sym.NewEnv()
	call := inference.callFor(env, guess)
	if call == nil {
		return nil, false
	}
	// Unknown sizes of the graph's symbols become symbols of env.
	symbolSizes := maps.Clone(inference.symbolSizes)
	for i, name := range sorted.Keys(symbolSizes) {
		if _, known := symbolSizes[name].Known(); !known {
			symbolSizes[name] = unknownSize(env, fmt.Sprint("s", i), guess.hint)
		}
	}
	// Fork calls the function once for each combination of outcomes, and fails for more than maxCases of them.
	cases, err := sym.Fork(env, maxCases, func() ([]PartialType, error) {
		return inference.inferEachAttrs(call, symbolSizes), nil
	})
	return inference.joinCases(cases, err)
}

// callFor returns a call whose operands have the guessed types. It returns nil if an operand is missing or too large.
func (inference *outlineInference) callFor(env *sym.Env, guess operandGuess) *Call {
	// metaFixesSizes: a size that the op reads as a number must equal its hint.
	call := &Call{In: make([]Arg, len(inference.operands)), metaFixesSizes: true}
	for i, operand := range inference.operands {
		if !operand.isUnknown() {
			call.In[i] = operand.Arg
			continue
		}
		operandType := guess.complete(operand.Outline, env, fmt.Sprintf("u%d_", i))
		if operandType.Check() != nil {
			return nil
		}
		call.In[i] = Arg{Kind: TensorArg, Value: &Value{Name: "operand", Type: operandType, Meta: operandType.AtHints()}}
	}
	for len(call.In) > 0 && call.In[len(call.In)-1].Kind == Null { // remove omitted operands at the end
		call.In = call.In[:len(call.In)-1]
	}
	if (&Node{Op: inference.op, In: call.In}).checkArity() != nil {
		return nil
	}
	return call
}

// complete returns a type with the given outline. The type has a new symbol of env for each unknown size. The name of a
// symbol is the prefix, followed by the index of the dimension.
func (guess operandGuess) complete(outline PartialType, env *sym.Env, prefix string) tensor.Type {
	sizes := outline.Sizes
	if sizes == nil {
		sizes = slices.Repeat([]int{-1}, guess.rank)
	}
	shape := sym.Ints(sizes...)
	for dim := range shape {
		if sizes[dim] < 0 {
			shape[dim] = unknownSize(env, fmt.Sprint(prefix, dim), guess.hint)
		}
	}
	return tensor.NewType(cmp.Or(outline.DType, guess.dtype), shape...)
}

// unknownSize returns a new symbol for a size.
func unknownSize(env *sym.Env, name string, hint int) sym.Int {
	size, err := env.Symbol(name, 0, math.MaxInt, hint)
	if err != nil {
		panic(err) // the name is new and legal
	}
	return size
}

// inferEachAttrs infers the call with each element of attrGuesses, and joins the outlines. It returns nil if the op
// rejects all elements.
func (inference *outlineInference) inferEachAttrs(template *Call, symbolSizes map[string]sym.Int) []PartialType {
	var alternatives [][]PartialType
	for _, attrs := range inference.attrGuesses {
		decoded, err := inference.op.Schema.Decode(attrs, symbolSizes)
		if err != nil {
			continue
		}
		call := *template
		call.Attrs = decoded
		results, err := inference.op.Infer(&call)
		if err != nil {
			continue
		}
		outlines := make([]PartialType, len(results))
		for i, result := range results {
			outlines[i] = result.outline()
		}
		alternatives = append(alternatives, outlines)
	}
	return joinOutlines(alternatives)
}

// outline returns the outline of the result. Sizes that depend on symbols become unknown.
func (r Result) outline() PartialType {
	if r.Dynamic {
		return PartialType{DType: r.Type.DType, Sizes: slices.Clone(r.Sizes)}
	}
	shape := slices.Clone(r.Type.Shape)
	for i := range shape {
		shape[i] = shape[i].Simplify()
	}
	return PartialType{DType: r.Type.DType, Sizes: sym.KnownOrMinusOne(shape)}
}

// joinCases joins the outlines of all cases of a fork. err is the error of the fork. If inference tried only a sample
// of the possible numbers, other numbers may give other sizes. Then only the ranks and dtypes of the results are
// certain.
func (inference *outlineInference) joinCases(cases []sym.Case[[]PartialType], err error) (joined []PartialType,
	isSample bool) {
	isSample = err != nil || len(inference.attrGuesses) > 1
	var alternatives [][]PartialType
	for _, forkCase := range cases {
		isSample = isSample || errors.Is(forkCase.Err, sym.ErrNumber) // the op used an unknown size as a number
		if forkCase.Value != nil {
			alternatives = append(alternatives, forkCase.Value)
		}
	}
	joined = joinOutlines(alternatives)
	if isSample {
		for i := range joined {
			if sizes := joined[i].Sizes; sizes != nil {
				joined[i].Sizes = slices.Repeat([]int{-1}, len(sizes))
			}
		}
	}
	return joined, isSample
}

// joinOutlines joins alternatives. An alternative is a list with an outline for each result of a node. joinOutlines
// returns nil if there are no alternatives, or if their lengths differ.
func joinOutlines(alternatives [][]PartialType) (joined []PartialType) {
	for k, outlines := range alternatives {
		switch {
		case k == 0:
			joined = slices.Clone(outlines)
		case len(outlines) != len(joined):
			return nil
		}
		for i := range joined {
			joined[i] = joined[i].Join(outlines[i])
		}
	}
	return joined
}

// resultOutlines returns the outlines of a node's results.
func (n *Node) resultOutlines() []PartialType {
	operands := make([]OutlinedArg, len(n.In))
	for i, arg := range n.In {
		operands[i].Arg = arg
		if arg.Value == nil {
			continue
		}
		if outline := arg.Value.outline(); arg.Value.Dynamic || slices.Contains(outline.Sizes, -1) {
			operands[i] = OutlinedArg{Arg: Arg{Kind: TensorArg}, Outline: outline}
		}
	}
	var symbolSizes map[string]sym.Int
	if len(n.Out) > 0 && n.Out[0].graph != nil {
		symbolSizes = n.Out[0].graph.sizes
	}
	return n.Op.Outline(operands, n.givenAttrs(), knownElements, symbolSizes)
}

// outline returns the outline of the value.
func (v *Value) outline() PartialType {
	outline := PartialType{DType: v.Type.DType}
	if v.Type.Shape != nil || !v.Dynamic {
		outline.Sizes = sym.KnownOrMinusOne(v.Type.Shape)
	}
	return outline
}

// knownElements returns the shape and the elements of a value. If the value is not a constant, all elements are nil.
// knownElements returns false if the shape is unknown, or if there are too many elements for an attribute.
func knownElements(v *Value) (shape []int, elements []any, ok bool) {
	if v.Const != nil {
		attr, err := attrFromTensor(v.Const)
		if list, isList := attr.(elementList); isList {
			return v.Const.Shape, list, err == nil
		}
		return v.Const.Shape, []any{attr}, err == nil
	}
	shape = v.outline().Sizes
	size := 1
	for _, dimSize := range shape {
		size = min(size*max(dimSize, 0), maxAttrElements+1)
	}
	return shape, make([]any, size), shape != nil && size <= maxAttrElements && !slices.Contains(shape, -1)
}
