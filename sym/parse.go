package sym

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Parse parses an expression in Python's syntax: integers, names, + - * // %, powers such as x**2, parentheses, Max(a,
// b, ...), Min(a, b, ...) and Where(condition, a, b), with conditions as in [ParseBool]. The printed form of an Int is
// parsed to the same expression. lookup returns the value of a name, or false for an unknown symbol. If lookup is nil,
// all symbols are unknown. Errors name the column, counted in bytes from 1.
//
// The grammar has a method of the parser for each rule:
//
//	sum     = product { ("+" | "-") product }
//	product = factor { ("*" | "//" | "%") factor }
//	factor  = ("+" | "-") factor | power
//	power   = primary [ "**" number ]
//	primary = number | symbol | "(" sum ")" | call | where
//	call    = ("Max" | "Min") "(" sum { "," sum } ")"
//	where   = "Where" "(" condition "," sum "," sum ")"
func Parse(text string, lookup func(name string) (Int, bool)) (v Int, err error) {
	p := newParser(text, lookup)
	v, err = p.sum()
	return v, p.end(err)
}

// end returns the error of a text: that of its form, err included, or else that of the first unknown symbol.
func (p *parser) end(err error) error {
	if err == nil && p.token != "" {
		err = p.fail("%q is unexpected", p.token)
	}
	return cmp.Or(err, p.unknownSymbol)
}

// parser holds the next token and its position.
type parser struct {
	text     string
	lookup   func(string) (Int, bool)
	token    string // "" at the end of the text
	tokenEnd int    // byte offset of the end of the token
	depth    int    // nesting depth of expressions and conditions
	// whereDepth is the number of enclosing operands of Where. An operand of Where is evaluated only for the sizes that
	// select it. A divisor inside may therefore be 0 for other sizes, and no guard excludes that.
	whereDepth int

	unknownSymbol error // the error of the first symbol that lookup does not know
}

// newParser returns a parser whose next token is the first token of the text.
func newParser(text string, lookup func(name string) (Int, bool)) *parser {
	if lookup == nil {
		lookup = func(string) (Int, bool) { return Int{}, false }
	}
	p := &parser{text: text, lookup: lookup}
	p.next()
	return p
}

// next reads a token: a number, a name, //, **, or one character. At the end of the text the token is "".
func (p *parser) next() {
	for p.tokenEnd < len(p.text) && (p.text[p.tokenEnd] == ' ' || p.text[p.tokenEnd] == '\t') {
		p.tokenEnd++
	}
	begin := p.tokenEnd
	for p.tokenEnd < len(p.text) && isWord(p.text[p.tokenEnd]) {
		p.tokenEnd++
	}
	if p.tokenEnd == begin && p.tokenEnd < len(p.text) {
		p.tokenEnd++
		if c := p.text[begin]; (c == '/' || c == '*') && p.tokenEnd < len(p.text) && p.text[p.tokenEnd] == c {
			p.tokenEnd++
		}
	}
	p.token = p.text[begin:p.tokenEnd]
}

// isWord reports whether a byte can be part of a name or a number.
func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// sum parses products with + and -.
func (p *parser) sum() (Int, error) {
	left, err := p.product()
	for err == nil && (p.token == "+" || p.token == "-") {
		op, parserAtOp := p.token, *p // a copy of the parser, for errors at the operator
		p.next()
		if op == "-" && p.isOnlyMinIntDigits() { // add math.MinInt instead
			op, p.token = "+", "-"+minIntDigits
		}
		var right Int
		if right, err = p.product(); err != nil {
			break
		}
		switch {
		case !sumFits(left, right, op == "-"):
			err = parserAtOp.fail("%v %s %v does not fit %d bits", left, op, right, strconv.IntSize)
		case op == "-":
			left = left.Sub(right)
		default:
			left = left.Add(right)
		}
	}
	return left, err
}

// isOnlyMinIntDigits reports whether the next product is the number minIntDigits alone.
func (p *parser) isOnlyMinIntDigits() bool {
	return p.token == minIntDigits && !slices.Contains([]string{"*", "//", "%", "**"}, p.peek())
}

// peek returns the token after the current token.
func (p *parser) peek() string {
	following := *p
	following.next()
	return following.token
}

// product parses factors with *, // and %.
func (p *parser) product() (Int, error) {
	left, err := p.factor()
	for err == nil && (p.token == "*" || p.token == "//" || p.token == "%") {
		op, parserAtOp := p.token, *p // a copy of the parser, for errors at the operator
		p.next()
		var right Int
		if right, err = p.factor(); err != nil {
			break
		}
		if op == "*" {
			left, err = parserAtOp.multiply(left, right)
		} else {
			left, err = parserAtOp.divide(op, left, right)
		}
	}
	return left, err
}

// multiply returns left * right. On failure, p must be at the operator.
func (p *parser) multiply(left, right Int) (Int, error) {
	switch {
	case !termsFit(left, right):
		return left, p.fail("%v * %v expands to more than %d terms", left, right, maxTerms)
	case !productFits(left, right):
		return left, p.fail("%v * %v does not fit %d bits", left, right, strconv.IntSize)
	}
	return left.Mul(right), nil
}

// divide returns left // right or left % right. On failure, p must be at the operator.
func (p *parser) divide(op string, left, right Int) (Int, error) {
	divisor, known := right.Known()
	switch {
	case known && divisor == -1 && left.e == nil && left.n == math.MinInt:
		return left, p.fail("%v %s %v does not fit %d bits", left, op, right, strconv.IntSize)
	case known && divisor == 0 || p.whereDepth == 0 && right.Hint() == 0:
		return left, p.fail("division by zero")
	}
	quotient, remainder := Int.Div, Int.Mod // these methods record the guard that the divisor is not 0
	if !known && p.whereDepth > 0 {
		quotient, remainder = quotientOf, remainderOf
	}
	if op == "%" {
		return remainder(left, right), nil
	}
	return quotient(left, right), nil
}

// factor parses a power with signs before it.
func (p *parser) factor() (Int, error) {
	if p.depth++; p.depth > maxDepth {
		return Int{}, p.fail("more than %d nested parts", maxDepth)
	}
	defer func() { p.depth-- }()
	sign := p.token
	if sign != "-" && sign != "+" {
		return p.power()
	}
	p.next()
	if sign == "-" && p.token == minIntDigits && p.peek() != "**" {
		p.token = "-" + minIntDigits
		return p.power()
	}
	v, err := p.factor()
	const isDifference = true // 0 - v
	if sign == "-" && !sumFits(Int{}, v, isDifference) {
		return v, p.fail("-(%v) does not fit %d bits", v, strconv.IntSize)
	}
	if sign == "-" {
		v = v.Neg()
	}
	return v, err
}

// minIntDigits has the digits of -math.MinInt, which does not fit an int.
var minIntDigits = strconv.FormatUint(1<<(strconv.IntSize-1), 10)

// maxDepth bounds the nesting of expressions, so that no text exhausts the stack.
const maxDepth = 200

// power parses a primary with an optional exponent, which is a number.
func (p *parser) power() (Int, error) {
	base, err := p.primary()
	if err != nil || p.token != "**" {
		return base, err
	}
	p.next()
	exponent, err := strconv.Atoi(p.token)
	if err != nil || exponent < 0 || exponent > maxPower {
		return base, p.fail("want an exponent from 0 to %d, got %q", maxPower, p.token)
	}
	p.next()
	out := Of(1)
	for range exponent {
		if !termsFit(out, base) {
			return base, p.fail("%v**%d expands to more than %d terms", base, exponent, maxTerms)
		}
		if !productFits(out, base) {
			return base, p.fail("%v**%d does not fit %d bits", base, exponent, strconv.IntSize)
		}
		out = out.Mul(base)
	}
	return out, nil
}

// maxPower bounds exponents, and thereby the size of products.
const maxPower = 64

// primary parses a number, a symbol, a call or an expression in parentheses.
func (p *parser) primary() (Int, error) {
	switch token := p.token; {
	case token == "":
		return Int{}, p.fail("the text ends where a number, a symbol or \"(\" is expected")
	case token == "(":
		p.next()
		value, err := p.sum()
		if err != nil {
			return value, err
		}
		return value, p.expect(")")
	case token[0] >= '0' && token[0] <= '9' || token == "-"+minIntDigits:
		number, err := strconv.Atoi(token)
		if err != nil {
			return Int{}, p.fail("%s does not fit %d bits", token, strconv.IntSize)
		}
		p.next()
		return Of(number), nil
	case !isWord(token[0]):
		return Int{}, p.fail("%q is unexpected; want integers, symbols, + - * // %% **, Max(a, b), Min(a, b) and "+
			"Where(condition, a, b)", token)
	case token == "Max" || token == "Min":
		return p.call(token)
	case token == "Where":
		return p.where()
	}
	value, ok := p.lookup(p.token)
	if !ok && p.unknownSymbol == nil {
		p.unknownSymbol = p.fail("there is no symbol %q", p.token)
	}
	if !ok {
		value = Of(1) // the rest of the text is parsed: its form may be the mistake
	}
	p.next()
	return value, nil
}

// call parses the operands of Max or Min.
func (p *parser) call(name string) (Int, error) {
	p.next()
	if err := p.expect("("); err != nil {
		return Int{}, err
	}
	result, err := p.sum()
	for err == nil && p.token == "," {
		p.next()
		var operand Int
		if operand, err = p.sum(); err != nil {
			break
		}
		if name == "Max" {
			result = result.Max(operand)
		} else {
			result = result.Min(operand)
		}
	}
	if err != nil {
		return result, err
	}
	return result, p.expect(")")
}

// expect reads a token that must follow.
func (p *parser) expect(token string) error {
	if p.token != token {
		if p.token == "" {
			return p.fail("%q is missing at the end", token)
		}
		return p.fail("%q is unexpected; want %q", p.token, token)
	}
	p.next()
	return nil
}

// fail returns an error at the next token.
func (p *parser) fail(format string, args ...any) error {
	return fmt.Errorf("expression %q, column %d: %s", p.text, p.tokenEnd-len(p.token)+1, fmt.Sprintf(format, args...))
}

// sumFits reports whether the constant and all coefficients of left+right (of left-right if minus is set) fit an int.
func sumFits(left, right Int, minus bool) bool {
	leftNumber, leftKnown := left.Known()
	rightNumber, rightKnown := right.Known()
	switch {
	case leftKnown && rightKnown && minus:
		_, fits := subFits(leftNumber, rightNumber)
		return fits
	case leftKnown && rightKnown:
		_, fits := addFits(leftNumber, rightNumber)
		return fits
	}
	return satAdd(left.maxCoefficient(), right.maxCoefficient()) < math.MaxInt
}

// productFits reports whether the constant and all coefficients of left*right fit an int.
func productFits(left, right Int) bool {
	leftNumber, leftKnown := left.Known()
	rightNumber, rightKnown := right.Known()
	if leftKnown && rightKnown {
		_, fits := mulFits(leftNumber, rightNumber)
		return fits
	}
	// This is the maximum number of pairs of terms that contribute to one coefficient of the product.
	summands := min(left.termCount(), right.termCount())
	greatest := satMul(satMul(left.maxCoefficient(), right.maxCoefficient()), summands)
	return greatest < math.MaxInt
}

// maxTerms bounds the number of terms of an expanded product.
const maxTerms = 1 << 12

// termsFit reports whether a product of two sums, once expanded, has at most maxTerms terms.
func termsFit(left, right Int) bool { return left.termCount()*right.termCount() <= maxTerms }

// maxCoefficient returns the greatest magnitude of the coefficients and the constant of a sum.
func (a Int) maxCoefficient() int {
	if a.e == nil {
		return satMagnitude(a.n)
	}
	return a.e.maxMagnitude
}

// termCount returns the number of terms of a sum, with the constant.
func (a Int) termCount() int {
	if a.e == nil {
		return 1
	}
	return len(a.e.terms) + 1
}
