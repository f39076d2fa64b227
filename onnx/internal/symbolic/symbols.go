package symbolic

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
)

// Symbols has the symbols of a conversion: the symbols of the model's inputs, and new symbols for sizes that depend on
// data.
type Symbols struct {
	env          *sym.Env
	inputs       map[string]sym.Int // the symbols of the model's inputs
	limits       map[string]int     // upper bounds of symbols: see fractions.go
	unknownCount int                // the number of symbols for sizes that depend on data
	texts        map[string]bool    // the expressions that attributes contain
}

// NewSymbols returns Symbols without symbols.
func NewSymbols() *Symbols {
	return &Symbols{env: sym.NewEnv(), inputs: map[string]sym.Int{}, limits: map[string]int{}, texts: map[string]bool{}}
}

// AddInput adds a symbol of the model's inputs. hint is its example size.
func (s *Symbols) AddInput(name string, hint int) error {
	symbol, err := s.env.Symbol(name, 0, math.MaxInt, hint) // at least 0
	if err != nil {
		return err
	}
	s.inputs[name] = symbol
	return nil
}

// Inputs returns the symbols of the model's inputs by name. The caller must not change the map.
func (s *Symbols) Inputs() map[string]sym.Int { return s.inputs }

// Limits returns upper bounds of symbols of inputs. The caller must not change the map. For greater sizes, expressions
// differ from the model's computation in floating point.
func (s *Symbols) Limits() map[string]int { return s.limits }

// NewUnknown returns a new symbol for an integer that depends on data. least is the minimum of the integer.
func (s *Symbols) NewUnknown(least int) sym.Int {
	for {
		s.unknownCount++
		name := fmt.Sprint(dataPrefix, s.unknownCount)
		if _, isTaken := s.inputs[name]; !isTaken {
			symbol, _ := s.env.Symbol(name, least, math.MaxInt, 2) // no error: the name is new; 2 is any hint
			return symbol
		}
	}
}

// Attr returns an integer in the form of an attribute: a number, or the text of an expression.
func (s *Symbols) Attr(x sym.Int) any {
	if n, known := x.Known(); known {
		return n
	}
	text := x.String()
	s.texts[text] = true
	return text
}

// HasExpressions reports whether attributes contain texts of [Symbols.Attr].
func (s *Symbols) HasExpressions(attrs graph.Attrs) bool {
	isExpression := func(x any) bool { text, ok := x.(string); return ok && s.texts[text] }
	for _, a := range attrs {
		if list, ok := a.([]any); isExpression(a) || ok && slices.ContainsFunc(list, isExpression) {
			return true
		}
	}
	return false
}

// NamesIn returns the symbols of inputs in the text of an expression or condition. ok is false if a symbol in the text
// depends on data.
func (s *Symbols) NamesIn(text string) (names []string, ok bool) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if slices.ContainsFunc(words, s.isDataSymbol) {
		return nil, false
	}
	for _, word := range words {
		if _, ok := s.inputs[word]; ok {
			names = append(names, word)
		}
	}
	return names, true
}

// isDataSymbol reports whether a symbol depends on data.
func (s *Symbols) isDataSymbol(name string) bool {
	_, isInput := s.inputs[name]
	return !isInput && strings.HasPrefix(name, dataPrefix)
}

// dataPrefix is the prefix of the names of symbols that depend on data.
const dataPrefix = "_u"

// limitsFor returns upper bounds of the symbols. Under these bounds, size has at most the given number of binary
// digits. All symbols get the same bound: the greatest of the numbers 2^digits, 2^(digits-4), 2^(digits-8), ... with
// which this holds. ok is false if size depends on data, or if the bound would exclude realistic sizes.
func (s *Symbols) limitsFor(size sym.Int, digits int) (limits map[string]int, ok bool) {
	maxInt := 1 << digits
	fits := func(x sym.Int) bool {
		lower, upper := x.Bounds()
		return lower >= -maxInt && upper <= maxInt
	}
	if digits == 0 || fits(size) {
		return nil, digits > 0
	}
	for limit := maxInt; limit >= minLimit; limit >>= 4 {
		limits := map[string]int{}
		bounded, err := sym.Parse(size.String(), s.boundedInputs(limit, func(name string) { limits[name] = limit }))
		if err != nil {
			return nil, false // size depends on data
		}
		if fits(bounded) {
			return limits, true
		}
	}
	return nil, false
}

// minLimit is the smallest upper bound that is tried. Smaller bounds would exclude realistic sizes.
const minLimit = 1 << 16

// boundedInputs returns a function that looks up symbols for a parser. It finds the symbols of the model's inputs, in a
// new environment in which each symbol is at most limit, and calls found for each.
func (s *Symbols) boundedInputs(limit int, found func(name string)) func(name string) (sym.Int, bool) {
	env := sym.NewEnv()
	return func(name string) (sym.Int, bool) {
		if _, ok := s.inputs[name]; !ok {
			return sym.Int{}, false
		}
		found(name)
		symbol, err := env.Symbol(name, 0, limit, 1) // 1 is any hint
		return symbol, err == nil
	}
}

// lowerLimit reduces the upper bound of a symbol to limit. A smaller bound remains.
func (s *Symbols) lowerLimit(name string, limit int) {
	if old, ok := s.limits[name]; !ok || limit < old {
		s.limits[name] = limit
	}
}

// applyLimits lowers the bounds of the symbols, so that the conditions of a fraction hold.
func (s *Symbols) applyLimits(x Element) {
	for _, c := range x.exactConditions {
		limits, _ := s.limitsFor(c.size, exactBits(c.dtype))
		for name, limit := range limits {
			s.lowerLimit(name, limit)
		}
	}
}

// excludeUnrealistic reports whether a condition is false for all realistic sizes. If so, it bounds the symbols to
// sizes for which the condition is false.
func (s *Symbols) excludeUnrealistic(condition sym.Bool) bool {
	for limit := 1 << 24; limit >= minLimit; limit >>= 4 {
		var names []string
		parsed, err := sym.ParseBool(condition.String(),
			s.boundedInputs(limit, func(name string) { names = append(names, name) }))
		if err != nil {
			return false // the condition depends on data
		}
		if holds, known := parsed.Known(); holds || !known {
			continue
		}
		for _, name := range names {
			s.lowerLimit(name, limit)
			if s.env.Assume(s.inputs[name].Le(sym.Of(limit))) != nil {
				return false
			}
		}
		return true
	}
	return false
}
