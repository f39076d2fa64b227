package sym

import (
	"fmt"
	"strconv"
)

// Parse reads an expression in Python's syntax: integers, names, + - * // %, parentheses, Max(a, b, ...)
// and Min(a, b, ...). lookup gives the names their values; false: there is no such symbol. Without it there are
// none. Errors name the column, counted in bytes from 1.
func Parse(text string, lookup func(name string) (Int, bool)) (v Int, err error) {
	if lookup == nil {
		lookup = func(string) (Int, bool) { return Int{}, false }
	}
	p := parser{text: text, lookup: lookup}
	p.next()
	v, err = p.sum()
	if err == nil && p.token != "" {
		err = p.fail("%q is unexpected", p.token)
	}
	return v, err
}

// parser holds the token that comes next and where it begins.
type parser struct {
	text   string
	lookup func(string) (Int, bool)
	at     int // behind the token
	token  string
	depth  int
}

// maxDepth bounds parentheses within parentheses, so that no text exhausts the stack.
const maxDepth = 200

func (p *parser) fail(format string, args ...any) error {
	return fmt.Errorf("expression %q, column %d: %s", p.text, p.at-len(p.token)+1, fmt.Sprintf(format, args...))
}

// next reads a token: a number, a name, //, or one character. "" is the end.
func (p *parser) next() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
	begin := p.at
	for p.at < len(p.text) && isWord(p.text[p.at]) {
		p.at++
	}
	if p.at == begin && p.at < len(p.text) {
		p.at++
		if p.text[begin] == '/' && p.at < len(p.text) && p.text[p.at] == '/' {
			p.at++
		}
	}
	p.token = p.text[begin:p.at]
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func (p *parser) sum() (Int, error) {
	v, err := p.product()
	for err == nil && (p.token == "+" || p.token == "-") {
		op := p.token
		p.next()
		var w Int
		if w, err = p.product(); err != nil {
			break
		}
		if op == "-" {
			w = w.Neg()
		}
		v = v.Add(w)
	}
	return v, err
}

func (p *parser) product() (Int, error) {
	v, err := p.factor()
	for err == nil && (p.token == "*" || p.token == "//" || p.token == "%") {
		op, where := p.token, *p
		p.next()
		var w Int
		if w, err = p.factor(); err != nil {
			break
		}
		switch {
		case op == "*":
			v = v.Mul(w)
		case w.Hint() == 0:
			err = where.fail("division by zero")
		case op == "//":
			v = v.Div(w)
		default:
			v = v.Mod(w)
		}
	}
	return v, err
}

func (p *parser) factor() (Int, error) {
	if p.depth++; p.depth > maxDepth {
		return Int{}, p.fail("more than %d nested parts", maxDepth)
	}
	defer func() { p.depth-- }()
	switch token := p.token; {
	case token == "":
		return Int{}, p.fail("it ends where a number, a symbol or ( should stand")
	case token == "-" || token == "+":
		p.next()
		v, err := p.factor()
		if token == "-" {
			v = v.Neg()
		}
		return v, err
	case token == "(":
		p.next()
		v, err := p.sum()
		if err != nil {
			return v, err
		}
		return v, p.expect(")")
	case token[0] >= '0' && token[0] <= '9':
		n, err := strconv.Atoi(token)
		if err != nil {
			return Int{}, p.fail("%s is no integer that fits 64 bits", token)
		}
		p.next()
		return Of(n), nil
	case !isWord(token[0]):
		return Int{}, p.fail("%q is unexpected; want integers, symbols, + - * // %%, Max(a, b) and Min(a, b)", token)
	case token == "Max" || token == "Min":
		return p.call(token)
	}
	v, ok := p.lookup(p.token)
	if !ok {
		return Int{}, p.fail("there is no symbol %q", p.token)
	}
	p.next()
	return v, nil
}

// call reads the operands of Max or Min.
func (p *parser) call(name string) (Int, error) {
	p.next()
	if err := p.expect("("); err != nil {
		return Int{}, err
	}
	v, err := p.sum()
	for err == nil && p.token == "," {
		p.next()
		var w Int
		if w, err = p.sum(); err != nil {
			break
		}
		if name == "Max" {
			v = v.Max(w)
		} else {
			v = v.Min(w)
		}
	}
	if err != nil {
		return v, err
	}
	return v, p.expect(")")
}

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
