package sym

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/internal/sorted"
)

// This file writes conditions for SMT solvers. An expr is a constant plus terms, a term is a coefficient times atoms,
// and an atom is a symbol or a function of expressions. A cond is a relation of an expr to 0, or joins other conds. For
// example, the claim N = 3 for N of at least 1 is written as
//
//	(declare-const |N| Int)
//	(assert (<= 1 |N|))
//	(define-fun e0 () Int (+ |N| (- 3)))
//	(define-fun c1 () Bool (= e0 0))
//	(assert c1)

// SMT returns a problem in SMT-LIB 2 for solvers such as z3 and cvc5. The problem asks whether all claims hold for some
// sizes within the bounds of the symbols. The answer unsat proves that there are no such sizes.
func (env *Env) SMT(claims ...Bool) string {
	var text strings.Builder
	text.WriteString("(set-logic ALL)\n")
	for _, name := range sorted.Keys(env.symbols) {
		symbol := env.symbols[name]
		if symbol.e == nil { // a number: the bounds allow a single size
			continue
		}
		fmt.Fprintf(&text, "(declare-const |%s| Int)\n", name)
		if symbol.e.lo != math.MinInt {
			fmt.Fprintf(&text, "(assert (<= %s |%s|))\n", smtNumber(symbol.e.lo), name)
		}
		if symbol.e.hi != math.MaxInt {
			fmt.Fprintf(&text, "(assert (<= |%s| %s))\n", name, smtNumber(symbol.e.hi))
		}
	}
	defs := definitions{out: &text, names: map[any]string{}}
	for _, claim := range claims {
		if claim.cond == nil {
			fmt.Fprintf(&text, "(assert %v)\n", claim.truth)
			continue
		}
		fmt.Fprintf(&text, "(assert %s)\n", defs.cond(claim.cond))
	}
	text.WriteString("(check-sat)\n")
	return text.String()
}

// definitions writes each condition and expression once, as a named definition.
type definitions struct {
	out   *strings.Builder
	names map[any]string // the names of defined parts
}

// define writes a definition of a part: a cond, expr or atom. It returns the name, which has the given prefix.
func (d *definitions) define(part any, sort, prefix, text string) string {
	name := prefix + strconv.Itoa(len(d.names))
	d.names[part] = name
	fmt.Fprintf(d.out, "(define-fun %s () %s %s)\n", name, sort, text)
	return name
}

// cond returns the name of a condition, and defines it if necessary.
func (d *definitions) cond(c *cond) string {
	if name, ok := d.names[c]; ok {
		return name
	}
	var text string
	switch c.kind {
	case condEq:
		text = "(= " + d.expr(c.difference) + " 0)"
	case condNe:
		text = "(not (= " + d.expr(c.difference) + " 0))"
	case condGe:
		text = "(>= " + d.expr(c.difference) + " 0)"
	default:
		args := make([]string, len(c.args))
		for i, p := range c.args {
			args[i] = d.cond(p)
		}
		text = smtApply(map[condKind]string{condAnd: "and", condOr: "or"}[c.kind], args)
	}
	return d.define(c, "Bool", "c", text)
}

// expr returns the name of an expression, or its text if it is a symbol or a number that is not negative.
func (d *definitions) expr(e *expr) string {
	if name, ok := d.names[e]; ok {
		return name
	}
	var sum []string
	for _, t := range e.terms {
		var product []string
		if t.coeff != 1 {
			product = append(product, smtNumber(t.coeff))
		}
		for _, a := range t.atoms {
			product = append(product, d.atom(a))
		}
		sum = append(sum, smtApply("*", product))
	}
	if e.constant != 0 || len(sum) == 0 {
		sum = append(sum, smtNumber(e.constant))
	}
	text := smtApply("+", sum)
	if !strings.HasPrefix(text, "(") {
		return text
	}
	return d.define(e, "Int", "e", text)
}

// atom returns the name of an atom, or its text if it is a symbol.
func (d *definitions) atom(a *atom) string {
	if a.kind == kindSymbol {
		return "|" + a.name + "|"
	}
	if name, ok := d.names[a]; ok {
		return name
	}
	left, right := d.expr(a.args[0]), d.expr(a.args[1])
	var text string
	switch a.kind {
	case kindDiv:
		// In SMT-LIB the remainder is never negative, so div is a floor division only for a positive divisor.
		text = fmt.Sprintf("(ite (> %[2]s 0) (div %[1]s %[2]s) (div (- %[1]s) (- %[2]s)))", left, right)
	case kindMod:
		text = fmt.Sprintf("(ite (> %[2]s 0) (mod %[1]s %[2]s) (- (mod (- %[1]s) (- %[2]s))))", left, right)
	case kindWhere:
		text = fmt.Sprintf("(ite %s %s %s)", d.cond(a.cond), left, right)
	case kindUnexpandedSum:
		text = "(+ " + left + " " + right + ")"
	case kindUnexpandedProduct:
		text = "(* " + left + " " + right + ")"
	default:
		relation := map[kind]string{kindMax: ">=", kindMin: "<="}[a.kind]
		text = left
		for _, e := range a.args[1:] {
			text = fmt.Sprintf("(ite (%[3]s %[1]s %[2]s) %[1]s %[2]s)", text, d.expr(e), relation)
		}
	}
	return d.define(a, "Int", "a", text)
}

// smtNumber writes a number in SMT-LIB, which has no negative literals.
func smtNumber(number int) string {
	if number < 0 {
		return "(- " + strings.TrimPrefix(strconv.Itoa(number), "-") + ")"
	}
	return strconv.Itoa(number)
}

// smtApply returns the application of a function to its operands, or a single operand itself.
func smtApply(function string, args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	return "(" + function + " " + strings.Join(args, " ") + ")"
}
