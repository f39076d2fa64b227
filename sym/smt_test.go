package sym_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/internal/contiguity"
)

// The tests need no solver: this file reads the subset of SMT-LIB 2 that SMT writes, by the standard's rules,
// and decides small instances by trying all values.

// script is a parsed problem: are there values of the constants for which all assertions hold?
type script struct {
	consts  []string
	defined map[string]typed
	asserts []func(at map[string]int) int
}

// typed is a term with its sort: Int, or Bool, whose truths are 1 and 0.
type typed struct {
	sort  string
	value func(at map[string]int) int
}

// readScript parses a problem. Undeclared names, unknown functions and wrong sorts are errors.
func readScript(text string) (s *script, err error) {
	s = &script{defined: map[string]typed{}}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	tokens := strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(text))
	checked := false
	for len(tokens) > 0 {
		if checked {
			panic("something follows check-sat")
		}
		var command any
		command, tokens = readTerm(tokens)
		list := command.([]any)
		switch list[0] {
		case "set-logic":
			want(list, 2)
		case "declare-const":
			want(list, 3)
			s.consts = append(s.consts, s.fresh(list[1].(string), list[2].(string)))
		case "define-fun":
			want(list, 5)
			if len(list[2].([]any)) != 0 {
				panic("a function of operands")
			}
			s.define(list[1].(string), list[3].(string), s.term(list[4]))
		case "assert":
			want(list, 2)
			s.asserts = append(s.asserts, s.sorted(list[1], "Bool"))
		case "check-sat":
			want(list, 1)
			checked = true
		default:
			panic(fmt.Sprint("command ", list[0]))
		}
	}
	if !checked {
		panic("nothing is asked")
	}
	return s, nil
}

func want(list []any, n int) {
	if len(list) != n {
		panic(fmt.Sprintf("%v has %d parts, want %d", list, len(list), n))
	}
}

// readTerm reads an atom, as a string, or a list.
func readTerm(tokens []string) (term any, rest []string) {
	switch tokens[0] {
	case ")":
		panic("a parenthesis too many")
	case "(":
		list := []any{}
		for tokens = tokens[1:]; tokens[0] != ")"; {
			var one any
			one, tokens = readTerm(tokens)
			list = append(list, one)
		}
		return list, tokens[1:]
	}
	return tokens[0], tokens[1:]
}

func (s *script) fresh(name, sort string) string {
	if sort != "Int" {
		panic(name + " is " + sort)
	}
	s.define(name, sort, typed{sort, func(at map[string]int) int { return at[name] }})
	return name
}

func (s *script) define(name, sort string, t typed) {
	if _, twice := s.defined[name]; twice || t.sort != sort {
		panic(fmt.Sprintf("%s is defined twice, or is %s and not %s", name, t.sort, sort))
	}
	s.defined[name] = t
}

// sorted compiles a term, which must have the given sort.
func (s *script) sorted(term any, sort string) func(at map[string]int) int {
	t := s.term(term)
	if t.sort != sort {
		panic(fmt.Sprintf("%v is %s, want %s", term, t.sort, sort))
	}
	return t.value
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// functions of integers, with their least and greatest number of operands, which are folded from the left.
var functions = map[string]struct {
	least, most int
	sort        string
	of          func(a, b int) int
}{
	"+": {2, 99, "Int", func(a, b int) int { return a + b }}, "*": {2, 99, "Int", func(a, b int) int { return a * b }},
	"-":   {1, 1, "Int", func(a, _ int) int { return -a }},
	"div": {2, 2, "Int", func(a, b int) int { return (a - remainder(a, b)) / b }}, "mod": {2, 2, "Int", remainder},
	"=":  {2, 2, "Bool", func(a, b int) int { return truth(a == b) }},
	"<=": {2, 2, "Bool", func(a, b int) int { return truth(a <= b) }},
	">=": {2, 2, "Bool", func(a, b int) int { return truth(a >= b) }},
	">":  {2, 2, "Bool", func(a, b int) int { return truth(a > b) }},
}

// remainder is that of the standard: from 0 to the magnitude of the divisor less 1.
func remainder(a, b int) int {
	r := a % b
	if r < 0 {
		r += max(b, -b)
	}
	return r
}

func (s *script) term(term any) typed {
	name, is := term.(string)
	if is {
		if t, ok := s.defined[name]; ok {
			return t
		}
		switch n, err := strconv.ParseUint(name, 10, 62); {
		case name == "true" || name == "false":
			return typed{"Bool", func(map[string]int) int { return truth(name == "true") }}
		case err != nil:
			panic(name + " is not declared")
		default:
			return typed{"Int", func(map[string]int) int { return int(n) }}
		}
	}
	list := term.([]any)
	switch op := list[0].(string); op {
	case "ite":
		want(list, 4)
		c, a := s.sorted(list[1], "Bool"), s.term(list[2])
		b := s.sorted(list[3], a.sort)
		return typed{a.sort, func(at map[string]int) int {
			if c(at) == 1 {
				return a.value(at)
			}
			return b(at)
		}}
	case "not":
		want(list, 2)
		a := s.sorted(list[1], "Bool")
		return typed{"Bool", func(at map[string]int) int { return 1 - a(at) }}
	case "and", "or":
		return s.junction(truth(op == "or"), list[1:])
	default:
		return s.applied(op, list[1:])
	}
}

// junction compiles a conjunction or disjunction, which an operand with the truth decides determines.
func (s *script) junction(decides int, operands []any) typed {
	var all []func(map[string]int) int
	for _, o := range operands {
		all = append(all, s.sorted(o, "Bool"))
	}
	return typed{"Bool", func(at map[string]int) int {
		if slices.ContainsFunc(all, func(f func(map[string]int) int) bool { return f(at) == decides }) {
			return decides
		}
		return 1 - decides
	}}
}

func (s *script) applied(op string, operands []any) typed {
	f, ok := functions[op]
	if !ok || len(operands) < f.least || len(operands) > f.most {
		panic(fmt.Sprintf("%s of %d operands", op, len(operands)))
	}
	var all []func(map[string]int) int
	for _, o := range operands {
		all = append(all, s.sorted(o, "Int"))
	}
	return typed{f.sort, func(at map[string]int) int {
		if len(all) == 1 {
			return f.of(all[0](at), 0)
		}
		x := all[0](at)
		for _, y := range all[1:] {
			x = f.of(x, y(at))
		}
		return x
	}}
}

// holds reports whether all assertions do.
func (s *script) holds(at map[string]int) bool {
	return !slices.ContainsFunc(s.asserts, func(f func(map[string]int) int) bool { return f(at) != 1 })
}

// satisfied tries all values of the constants from 0 up to most, and returns some for which the assertions hold.
func (s *script) satisfied(most int) map[string]int {
	at := map[string]int{}
	var try func(i int) bool
	try = func(i int) bool {
		if i == len(s.consts) {
			return s.holds(at)
		}
		for n := range most + 1 {
			if at[s.consts[i]] = n; try(i + 1) {
				return true
			}
		}
		return false
	}
	if try(0) {
		return at
	}
	return nil
}

// TestSMTMeansTheConditions checks that the written problem holds exactly for the sizes within bounds for
// which the conditions do.
func TestSMTMeansTheConditions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		env, leaves, at := setting(t)
		c, d := drawTruth(t, leaves), drawTruth(t, leaves)
		text := env.SMT(c.b, d.b)
		s, err := readScript(text)
		require.NoError(t, err, text)
		named := map[string]int{}
		for name, n := range at {
			named["|"+name+"|"] = n
		}
		require.Equal(t, c.want && d.want, s.holds(named), "%v and %v at %v:\n%s", c.b, d.b, at, text)
		for _, r := range ranges {
			for _, n := range []int{r.lo - 1, r.hi + 1} {
				named["|"+r.name+"|"] = n
				require.False(t, s.holds(named), "%s is %d:\n%s", r.name, n, text)
			}
			named["|"+r.name+"|"] = at[r.name]
		}
	})
}

// TestSMTOfPredicates checks that no small sizes and strides distinguish the two forms of a predicate, and
// that some distinguish them if a formula is wrong.
func TestSMTOfPredicates(t *testing.T) {
	tried := 0
	for i, r := range contiguity.Predicates {
		for rank := range 4 {
			p, err := contiguity.Prove(r, rank)
			if err != nil {
				continue // it holds for one rank only
			}
			s, err := readScript(p.SMT())
			require.NoError(t, err, "%s of rank %d:\n%s", r.Name, rank, p.SMT())
			require.LessOrEqual(t, len(s.consts), 2*rank)
			require.Nil(t, s.satisfied(3), "%s of rank %d", r.Name, rank)
			tried++

			other := contiguity.Predicates[(i+1)%len(contiguity.Predicates)]
			wrong, err := contiguity.Prove(contiguity.Predicate{Name: "wrong", Branches: r.Branches,
				Condition: other.Condition}, rank)
			if err != nil || wrong.Proved {
				continue
			}
			s, err = readScript(wrong.SMT())
			require.NoError(t, err)
			require.NotNil(t, s.satisfied(3), "%s for %s, rank %d", other.Name, r.Name, rank)
		}
	}
	require.Greater(t, tried, 10)
}

func TestScriptsAreRead(t *testing.T) {
	for text, says := range map[string]string{
		"(check-sat)":                           "",
		"":                                      "nothing is asked",
		"(assert x) (check-sat)":                "x is not declared",
		"(assert 1) (check-sat)":                "1 is Int, want Bool",
		"(assert (< 1 2)) (check-sat)":          "< of 2 operands",
		"(assert (>= 1 2 3)) (check-sat)":       "of 3 operands",
		"(check-sat) (exit)":                    "something follows",
		"(declare-const x Bool) (check-sat)":    "x is Bool",
		"(define-fun c () Int true)":            "is Bool and not Int",
		"(assert (not true))) (check-sat)":      "a parenthesis too many",
		"(define-fun c ((x Int)) Int x)":        "a function of operands",
		"(push 1) (check-sat)":                  "command push",
		"(assert (and true (or false 1))) (ch)": "want Bool",
	} {
		_, err := readScript(text)
		if says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, says, text)
		}
	}
	div := functions["div"].of
	require.Equal(t, []int{-4, 1, 4, 1, 3, 1}, []int{div(-7, 2), remainder(-7, 2), div(-7, -2), remainder(-7, -2),
		div(7, 2), remainder(7, 2)})
}
