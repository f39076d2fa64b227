package sym

import (
	"strings"

	"github.com/graphrun/graphrun/internal/sorted"
)

// This file parses conditions with the parser of [Parse]. The parser's field token is the next token of the text, or ""
// at the end. Method next moves to the following token. Method expect requires the given token and moves past it.
// Method fail returns an error at the next token.

// ParseBool parses the printed form of a Bool. Comparisons are Eq(a, b), Ne, Lt, Le, Gt and Ge of expressions as in
// [Parse]. They are joined by | and by &, which binds more tightly. ~ is negation, and True, False and parentheses are
// allowed. lookup and errors are as in Parse.
func ParseBool(text string, lookup func(name string) (Int, bool)) (Bool, error) {
	p := newParser(text, lookup)
	parsed, err := p.disjunction()
	return parsed, p.end(err)
}

// disjunction parses conjunctions joined by |.
func (p *parser) disjunction() (Bool, error) { return p.chain("|", p.conjunction, Bool.Or) }

// conjunction parses conditions joined by &.
func (p *parser) conjunction() (Bool, error) { return p.chain("&", p.condition, Bool.And) }

// chain parses one or more operands, each by parseOperand, separated by the operator sign, and combines them by
// combine.
func (p *parser) chain(sign string, parseOperand func() (Bool, error), combine func(a, b Bool) Bool) (Bool, error) {
	result, err := parseOperand()
	for err == nil && p.token == sign {
		p.next()
		var operand Bool
		if operand, err = parseOperand(); err == nil {
			result = combine(result, operand)
		}
	}
	return result, err
}

// relations has the comparisons by their printed names.
var relations = map[string]func(a, b Int) Bool{
	"Eq": Int.Eq, "Ne": Int.Ne, "Lt": Int.Lt, "Le": Int.Le, "Gt": Int.Gt, "Ge": Int.Ge,
}

// condition parses a comparison, a negation, a truth value or a condition in parentheses.
func (p *parser) condition() (parsed Bool, err error) {
	if p.depth++; p.depth > maxDepth {
		return parsed, p.fail("more than %d nested parts", maxDepth)
	}
	defer func() { p.depth-- }()
	token := p.token
	relation := relations[token]
	switch {
	case token == "~":
		p.next()
		parsed, err = p.condition()
		return parsed.Not(), err
	case token == "(":
		p.next()
		if parsed, err = p.disjunction(); err != nil {
			return parsed, err
		}
		return parsed, p.expect(")")
	case token == "True" || token == "False":
		p.next()
		return BoolOf(token == "True"), nil
	case token == "":
		return parsed, p.fail("the text ends where a condition is expected")
	case relation == nil:
		return parsed, p.fail("%q is unexpected; want %s of two expressions, True, False, ~ or (", token,
			strings.Join(sorted.Keys(relations), ", "))
	}
	p.next()
	if err := p.expect("("); err != nil {
		return parsed, err
	}
	left, right, err := p.pair()
	if err != nil {
		return parsed, err
	}
	return relation(left, right), p.expect(")")
}

// pair parses two expressions separated by a comma.
func (p *parser) pair() (first, second Int, err error) {
	if first, err = p.sum(); err != nil {
		return first, second, err
	}
	if err = p.expect(","); err != nil {
		return first, second, err
	}
	second, err = p.sum()
	return first, second, err
}

// where parses the operands of Where.
func (p *parser) where() (Int, error) {
	p.next()
	if err := p.expect("("); err != nil {
		return Int{}, err
	}
	condition, err := p.disjunction()
	if err != nil {
		return Int{}, err
	}
	if err := p.expect(","); err != nil {
		return Int{}, err
	}
	p.whereDepth++ // within Where, a divisor may be 0 for the sizes that do not select its operand
	ifTrue, ifFalse, err := p.pair()
	if p.whereDepth--; err != nil {
		return Int{}, err
	}
	return Where(condition, ifTrue, ifFalse), p.expect(")")
}
