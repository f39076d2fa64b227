package sym

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file prints expressions and conditions in the syntax of Python, which [Parse] and [ParseBool] read. Examples of
// the parentheses:
//
//	-x*y + 3    2*(x//4)    (x + 1)//2    x*y//(2*z)    x**2*Max(1, y)

// maxPrinted is the largest size of an expression that is printed. The text may be exponentially longer than the
// expression in memory, because parts are shared.
const maxPrinted = 1 << 14

// String prints the sum in Python's syntax: "x*y + 5*Max(1, x) - 3".
func (e *expr) String() string {
	if e.size > maxPrinted {
		return fmt.Sprintf("(an expression of %d parts)", e.size)
	}
	var text strings.Builder
	for i, t := range e.terms {
		coeff, negated := t.coeff, false
		switch {
		case i > 0 && coeff < 0:
			text.WriteString(" - ")
			coeff = -coeff
		case i > 0:
			text.WriteString(" + ")
		case coeff == -1:
			text.WriteString("-")
			coeff, negated = 1, true
		}
		t.print(&text, coeff, negated)
	}
	switch {
	case len(e.terms) == 0:
		text.WriteString(strconv.Itoa(e.constant))
	case e.constant > 0:
		fmt.Fprintf(&text, " + %d", e.constant)
	case e.constant < 0:
		fmt.Fprintf(&text, " - %s", strconv.Itoa(e.constant)[1:]) // without the minus sign
	}
	return text.String()
}

// print writes a coefficient times the product. If negated is set, the caller has written a minus sign. The minus sign
// binds more tightly than // and %, so that the product may need parentheses.
func (t term) print(out *strings.Builder, coeff int, negated bool) {
	if coeff != 1 {
		fmt.Fprintf(out, "%d*", coeff)
	}
	for i := 0; i < len(t.atoms); {
		exponent := 1
		// The parser rejects exponents above maxPower.
		for i+exponent < len(t.atoms) && t.atoms[i+exponent] == t.atoms[i] && exponent < maxPower {
			exponent++
		}
		if i > 0 {
			out.WriteString("*")
		}
		text := t.atoms[i].String()
		if t.atoms[i].isInfix() && (negated || coeff != 1 || len(t.atoms) > 1) {
			text = "(" + text + ")"
		}
		out.WriteString(text)
		if exponent > 1 {
			fmt.Fprintf(out, "**%d", exponent)
		}
		i += exponent
	}
}

// String prints an atom: a name, "x//2", "Max(1, x)".
func (a *atom) String() string {
	switch a.kind {
	case kindSymbol:
		return a.name
	case kindDiv:
		return dividendText(a.args[0]) + "//" + operandText(a.args[1])
	case kindMod:
		return dividendText(a.args[0]) + " % " + operandText(a.args[1])
	case kindUnexpandedSum: // a sum whose expansion would overflow
		return "(" + a.args[0].String() + " + " + operandText(a.args[1]) + ")"
	case kindUnexpandedProduct:
		return "(" + operandText(a.args[0]) + "*" + operandText(a.args[1]) + ")"
	}
	args := make([]string, len(a.args))
	for i, e := range a.args {
		args[i] = e.String()
	}
	name := map[kind]string{kindMax: "Max", kindMin: "Min", kindWhere: "Where"}[a.kind]
	if a.cond != nil {
		args = append([]string{a.cond.String()}, args...)
	}
	return name + "(" + strings.Join(args, ", ") + ")"
}

// dividendText prints the left operand of // or %. These operators bind as tightly as *.
func dividendText(e *expr) string {
	isProduct := e.constant == 0 && len(e.terms) == 1 && e.terms[0].coeff > 0
	if isProduct && !slices.ContainsFunc(e.terms[0].atoms, (*atom).isInfix) {
		return e.String()
	}
	return operandText(e)
}

// operandText prints the right operand of // or %, or an operand of a product. Natural numbers are printed without
// parentheses, and so are atoms other than quotients and remainders.
func operandText(e *expr) string {
	isNatural := len(e.terms) == 0 && e.constant >= 0
	if a := e.singleAtom(); isNatural || a != nil && !a.isInfix() {
		return e.String()
	}
	return "(" + e.String() + ")"
}

// isInfix reports whether a is a quotient or a remainder, which are printed with the operators // and %.
func (a *atom) isInfix() bool { return a.kind == kindDiv || a.kind == kindMod }

// printedSize returns the number of symbols, functions and numbers in the printed form.
func (e *expr) printedSize() int {
	total := 0
	for _, t := range e.terms {
		if t.coeff != 1 {
			total++
		}
		for _, a := range t.atoms {
			total = satAdd(total, a.size)
		}
	}
	if e.constant != 0 || total == 0 {
		total = satAdd(total, 1)
	}
	return total
}

// String returns the condition in Python's syntax.
func (c *cond) String() string {
	if c.size > maxPrinted {
		return fmt.Sprintf("(a condition of %d parts)", c.size)
	}
	if text, ok := c.text.Load().(string); ok {
		return text
	}
	var text string
	if !c.isJunction() {
		text = c.relation + "(" + c.left.String() + ", " + c.right.String() + ")"
	} else {
		parts := make([]string, len(c.args))
		for i, part := range c.args {
			if parts[i] = part.String(); part.isJunction() {
				parts[i] = "(" + parts[i] + ")"
			}
		}
		text = strings.Join(parts, map[condKind]string{condAnd: " & ", condOr: " | "}[c.kind])
	}
	c.text.Store(text)
	return text
}
