package graph

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/internal/numerals"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the integers of a graph that may depend on symbols. A symbol, such as n, is a named size. Three kinds
// of integers may be expressions over symbols:
//
//	a size, stride or offset in a declaration ([Dim])     input x of shape [n, 3]
//	a size of an input (the methods of Graph below)       x has shape [8, 3] if n is 8
//	an integer in an attribute before decoding (toSize)   "n//2 + 1" as the end of a slice
//
// A [sym.Int] is the value of such an integer: a number, or an expression over unknown sizes. An unknown size has a
// hint, which is a typical size. A map[string]sym.Int has the size of each symbol.

// Dim is a size, a stride or an offset: a number, a symbol, or an expression over symbols in Python's syntax
// ([sym.Parse]). At most one of the three fields is set. For example, the shape [n, 3, n//2 + 1] is
//
//	[]Dim{{Symbol: "n"}, {Size: 3}, {Expr: "n//2 + 1"}}
type Dim struct {
	Size   int
	Symbol string
	Expr   string
}

// Numbers returns numbers as Dims.
func Numbers(list ...int) []Dim {
	dims := make([]Dim, len(list))
	for i, number := range list {
		dims[i].Size = number
	}
	return dims
}

// ParseDim reads the name of a symbol, or an expression. A text that parses as arithmetic, such as "a-b", is an
// expression. Any other text is a name. A name may have a minus sign, as in "batch-size-".
func ParseDim(text string) Dim {
	if isExpression(text) {
		return Dim{Expr: text}
	}
	return Dim{Symbol: text}
}

// isExpression reports whether a text is an expression, not a name: see [ParseDim].
func isExpression(text string) bool {
	if numerals.IsExpression(text) {
		return true
	}
	if !strings.Contains(text, "-") {
		return false
	}
	// A text with a minus sign may be a name. It is an expression if it can be parsed.
	dummy := dummySymbols()
	_, err := sym.Parse(text, func(name string) (sym.Int, bool) { return dummy(name), true })
	return err == nil
}

// IsNumber reports whether the Dim depends on no symbol.
func (d Dim) IsNumber() bool { return d.Symbol == "" && d.Expr == "" }

// String returns the number, the symbol or the expression.
func (d Dim) String() string {
	switch {
	case d.Symbol != "":
		return d.Symbol
	case d.Expr != "":
		return d.Expr
	}
	return strconv.Itoa(d.Size)
}

// In returns the value of the Dim for the given values of symbols. Errors name the column within an expression.
func (d Dim) In(symbols map[string]sym.Int) (sym.Int, error) {
	if d.IsNumber() {
		return sym.Of(d.Size), nil
	}
	return expressionIn(d.String(), symbols)
}

// expressionIn evaluates text, which is an expression or the name of a symbol. A name need not be an identifier.
func expressionIn(text string, symbols map[string]sym.Int) (sym.Int, error) {
	if value, ok := symbols[text]; ok {
		return value, nil
	}
	value, err := sym.Parse(text, lookupIn(symbols))
	if n, known := value.Known(); err == nil && known && (n > tensor.MaxBytes || n < -tensor.MaxBytes) {
		err = fmt.Errorf("expression %q is %d, which is out of range", text, n)
	}
	return value, err
}

// lookupIn returns the lookup of symbols in a map.
func lookupIn(symbols map[string]sym.Int) func(name string) (sym.Int, bool) {
	return func(name string) (sym.Int, bool) {
		size, ok := symbols[name]
		return size, ok
	}
}

// Check returns an error if the Dim's expression is invalid for all values of the symbols, because of a syntax error or
// an unknown symbol. It returns nil for an error that depends on the values, such as a division by 0.
func (d Dim) Check(symbols map[string]Bounds) error {
	if _, ok := symbols[d.String()]; ok || d.IsNumber() {
		return nil
	}
	dummy := dummySymbols()
	_, err := sym.Parse(d.String(), func(name string) (sym.Int, bool) { _, ok := symbols[name]; return dummy(name), ok })
	return err
}

// dummySymbols returns a function that makes a symbol for each name. It serves to parse expressions whose values do not
// matter. The parser evaluates divisors at the hints of symbols. The hints are large and mostly distinct, so that a
// divisor such as a-b is rarely 0.
func dummySymbols() func(name string) sym.Int {
	env, symbolOf := sym.NewEnv(), map[string]sym.Int{}
	return func(name string) sym.Int {
		if symbol, ok := symbolOf[name]; ok {
			return symbol
		}
		hint := 1 << 20 // becomes a hash of the name, from 2^20 to 2^20 + 2^24 - 1
		for _, char := range name {
			hint = (hint*31 + int(char)) % (1 << 24)
		}
		hint += 1 << 20
		symbol, err := env.Symbol(name, 0, math.MaxInt, hint)
		if err != nil { // name is not an identifier
			symbol, _ = env.Symbol(fmt.Sprintf("_%d", len(symbolOf)), 0, math.MaxInt, hint)
		}
		symbolOf[name] = symbol
		return symbol
	}
}

// dependsOn reports whether the Dim depends on a symbol.
func (d Dim) dependsOn(symbol string) bool {
	return d.Symbol == symbol || TextDependsOn(d.Expr, symbol)
}

// TextDependsOn reports whether a text is the name of the symbol, or an expression or condition that contains the
// symbol.
func TextDependsOn(text, symbol string) bool {
	if text == symbol {
		return true
	}
	if !strings.Contains(text, symbol) {
		return false
	}
	found := false
	dummy := dummySymbols()
	lookup := func(name string) (sym.Int, bool) {
		found = found || name == symbol
		return dummy(name), true
	}
	if _, err := sym.Parse(text, lookup); err == nil {
		return found
	}
	found = false
	_, err := sym.ParseBool(text, lookup)
	return found && err == nil
}

// InputDecl adds an input with a declaration: the dtype, sizes and strides. A size that is a symbol is added to
// [Graph.Symbols]; symbols in expressions must already be there. Until [Graph.Bind], symbols have their assumed sizes:
// see [Graph.Assumed].
func (g *Graph) InputDecl(name string, decl Decl) *Value {
	decl.Dims, decl.Strides = slices.Clone(decl.Dims), slices.Clone(decl.Strides)
	g.addSymbols(decl.Dims)
	g.assumeSizes()
	declared, err := decl.Type(g.sizes)
	if err != nil {
		return g.reject(name, fmt.Errorf("input %q: %w", name, err))
	}
	meta, _ := declared.Meta()
	input := &Value{Name: name, Type: declared, Meta: meta, decl: &decl, graph: g}
	if decl.symbolic() {
		input.Dims = decl.Dims
	}
	g.Inputs = append(g.Inputs, input)
	g.addValue(input)
	return input
}

// addSymbols adds the symbols of sizes to [Graph.Symbols], without bounds.
func (g *Graph) addSymbols(dims []Dim) {
	for _, dim := range dims {
		if dim.Symbol == "" {
			continue
		}
		if g.Symbols == nil {
			g.Symbols = map[string]Bounds{}
		}
		if _, ok := g.Symbols[dim.Symbol]; !ok {
			g.Symbols[dim.Symbol] = Bounds{}
		}
	}
}

// assumeSizes gives an assumed size to each symbol that has no size.
func (g *Graph) assumeSizes() {
	for symbol, bounds := range g.Symbols {
		if _, ok := g.sizes[symbol]; ok {
			continue
		}
		if g.sizes == nil {
			g.sizes = map[string]sym.Int{}
		}
		g.sizes[symbol] = sym.Of(bounds.assumedSize())
		g.Assume(symbol, bounds.assumedSize()) // records that the size was not given
	}
}

// ResizeInput changes a size of an input whose sizes are numbers. The input must be dense; its dimensions keep their
// order in memory. The graph must be inferred again.
func (g *Graph) ResizeInput(v *Value, dim, size int) error {
	switch {
	case !g.Owns(v) || v.Node != nil || v.Const != nil:
		return errors.New("the value is not an input of the graph")
	case v.Dims != nil:
		return errors.New("the input's sizes depend on symbols: set the sizes of the symbols instead")
	case dim < 0 || dim >= v.Meta.Rank() || size < 0:
		return fmt.Errorf("dimension %d cannot get size %d: the input has %d dimensions, and a size must not be negative",
			dim, size, v.Meta.Rank())
	}
	order, isDense := tensor.OrderOf(v.Meta)
	switch {
	case !isDense:
		return fmt.Errorf("the input must be dense, but its strides are %s", tensor.ListString(v.Meta.Strides))
	case v.Meta.Offset != 0:
		return fmt.Errorf("the input must begin at the start of its storage, but its offset is %d", v.Meta.Offset)
	}
	shape := slices.Clone(v.Meta.Shape)
	shape[dim] = size
	meta := tensor.New(v.Meta.DType, shape...)
	if err := meta.Check(); err != nil {
		return err
	}
	v.SetMeta(meta.WithStrides(order.Strides(shape)))
	return nil
}

// The remaining functions are for attributes before decoding: bools, numbers, strings and lists, as in a file. A string
// may be an expression over symbols. Only findTooLarge is for decoded attributes.

// attrDependsOn reports whether an attribute depends on the symbol.
func attrDependsOn(given any, symbol string) bool {
	return ContainsText(given, func(text string) bool { return TextDependsOn(text, symbol) })
}

// attrDependsOnAny reports whether an attribute depends on one of the symbols.
func attrDependsOnAny(given any, symbols map[string]sym.Int) bool {
	if len(symbols) == 0 {
		return false
	}
	return ContainsText(given, func(text string) bool {
		for name := range symbols {
			if TextDependsOn(text, name) {
				return true
			}
		}
		return false
	})
}

// ContainsText reports whether match returns true for a string in the attribute. An attribute that is a string contains
// itself. Strings in the attributes of a graph that is an attribute do not count.
func ContainsText(given any, match func(text string) bool) bool {
	switch content := given.(type) {
	case string:
		return match(content)
	case []any:
		return slices.ContainsFunc(content, func(element any) bool { return ContainsText(element, match) })
	case []string:
		return slices.ContainsFunc(content, match)
	}
	return false
}

// toSize reads an integer, or an expression over symbols.
func toSize(given any, symbols map[string]sym.Int) (sym.Int, error) {
	switch value := given.(type) {
	case sym.Int: // from the decomposition of a composite op
		return value, nil
	case int:
		return sym.Of(value), nil
	case int64:
		return sym.Of(int(value)), nil
	case float64:
		if value == float64(int(value)) {
			return sym.Of(int(value)), nil
		}
	case string:
		if _, err := strconv.ParseInt(value, 10, 64); err == nil { // a quoted number is not an expression
			return sym.Int{}, notAnInteger(value, symbols)
		}
		size, err := expressionIn(value, symbols)
		if err != nil && !isExpression(value) {
			err = notAnInteger(value, symbols)
		}
		return size, err
	}
	return sym.Int{}, &mismatchError{got: given}
}

// toInt reads an attribute that must be a number. If the value depends on unknown sizes, toInt computes a number from
// the hints of these sizes. It records the guard that the value equals this number: the inferred types are valid only
// if the guard holds.
func toInt(given any, symbols map[string]sym.Int) (int, error) {
	if number, ok := given.(int); ok {
		return number, nil
	}
	size, err := toSize(given, symbols)
	if err != nil {
		return 0, err
	}
	return size.Specialize(), nil
}

// toNumber reads a number, or an integer expression over symbols. It sets Size if the value depends on unknown sizes,
// and otherwise Number.
func toNumber(given any, symbols map[string]sym.Int) (NumberOrSize, error) {
	if number, ok := numerals.Scalar(given); ok {
		return NumberOrSize{Number: number}, nil
	}
	size, isSize := given.(sym.Int)
	if !isSize {
		text, ok := given.(string)
		if !ok {
			return NumberOrSize{}, notANumber(given)
		}
		var err error
		if size, err = expressionIn(text, symbols); err != nil {
			if !isExpression(text) {
				err = notANumber(given)
			}
			return NumberOrSize{}, err
		}
	}
	if number, isNumber := size.Known(); isNumber {
		return NumberOrSize{Number: tensor.IntScalar(int64(number))}, nil
	}
	return NumberOrSize{Size: size}, nil
}

// toCondition reads a bool, or a condition on symbols.
func toCondition(given any, symbols map[string]sym.Int) (sym.Bool, error) {
	switch content := given.(type) {
	case bool:
		return sym.BoolOf(content), nil
	case string:
		condition, err := sym.ParseBool(content, lookupIn(symbols))
		if err != nil {
			return sym.Bool{}, fmt.Errorf("%w: want a condition such as Lt(100, N)", err)
		}
		return condition, nil
	}
	return sym.Bool{}, &mismatchError{got: given}
}

// notAnInteger is the error of a string in place of an integer. It has a suggestion for a quoted integer, and for the
// name of an unknown symbol.
func notAnInteger(text string, symbols map[string]sym.Int) error {
	mismatch := &mismatchError{got: text}
	switch _, err := strconv.ParseInt(text, 10, 64); {
	case err == nil:
		mismatch.suggestion = suggest.DidYouMean(text)
	case len(symbols) > 0 && !numerals.IsSpecial(text): // no infinity or NaN
		symbolNames := slices.Values(sorted.Keys(symbols))
		mismatch.suggestion = ", which is not a symbol of the graph" + suggest.DidYouMean(suggest.Nearest(text, symbolNames))
	}
	return mismatch
}

// findTooLarge finds an integer in a decoded attribute that exceeds [tensor.MaxBytes] in absolute value. field is an
// addressable field of the attribute struct.
func findTooLarge(field reflect.Value) (n int, found bool) {
	switch target := field.Addr().Interface().(type) {
	case *int:
		return *target, *target > tensor.MaxBytes || *target < -tensor.MaxBytes
	case *sym.Int:
		n, _ := target.Known()
		return n, n > tensor.MaxBytes || n < -tensor.MaxBytes
	case *IntsOrWord:
		return findTooLarge(reflect.ValueOf(&target.Ints).Elem())
	case *IntOrInts:
		if n, found := findTooLarge(reflect.ValueOf(&target.One).Elem()); found {
			return n, found
		}
		return findTooLarge(reflect.ValueOf(&target.List).Elem())
	}
	switch field.Kind() {
	case reflect.Pointer:
		if !field.IsNil() {
			return findTooLarge(field.Elem())
		}
	case reflect.Slice:
		for i := range field.Len() {
			if n, found := findTooLarge(field.Index(i)); found {
				return n, found
			}
		}
	}
	return 0, false
}
