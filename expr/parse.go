package expr

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/tensor"
)

// Parse reads a formula. params are the names of its operands, in order. Without params, the names are x, y, z, a, b,
// c, d, u, v and w, up to the last name that occurs in the text.
//
// The syntax is Python's. The operators are + - * / // % **, comparisons, & | ^ ~ << >>, and, or, not. Functions have
// the names of PyTorch, such as where(c, a, b), and casts have the names of dtypes. 2 is an integer, 2.0 is a float,
// and 2j is imaginary. The named numbers are inf, nan, pi, e, True and False. Definitions come first, each name once:
// "t = x * x; where(t > 1, t, x)". Several results are a tuple: "(x + y, x - y)". The caller of [Formula.Code] supplies
// numbers for all other names.
//
// Errors are of type [*Error].
func Parse(text string, params ...string) (f *Formula, err error) {
	p := &parser{text: text, pos: 1, defined: map[string]bool{}}
	defer recoverError(&err)
	if len(text) > maxText {
		p.fail(1, "the text has %d bytes; the limit is %d", len(text), maxText)
	}
	names := params
	if len(names) == 0 {
		names = defaultParams
	}
	for _, name := range names {
		if !isName(name) || keywords[name] || p.defined[name] {
			p.fail(1, "%q cannot be the name of an operand", name)
		}
		p.defined[name] = true
	}
	p.next()
	f = p.formula()
	f.text = text
	f.params = slices.Clone(params)
	if len(params) == 0 {
		f.params = slices.Clone(defaultParams[:f.usedOperands(defaultParams)])
	}
	return f, nil
}

// Bounds on the time and the memory of parsing.
const (
	maxText   = 1 << 16 // bytes of text
	maxNodes  = 4096    // nodes of the syntax tree
	maxDepth  = 200     // nesting depth of parentheses and prefix operators
	maxHeight = 1000    // height of the syntax tree; a sum of many terms is deep even without parentheses
)

var keywords = map[string]bool{"and": true, "or": true, "not": true, "True": true, "False": true, "if": true,
	"else": true, "lambda": true, "is": true, "in": true, "for": true}

func isName(text string) bool {
	for i := range len(text) {
		if !isLetter(text[i]) && (i == 0 || !isDigit(text[i])) {
			return false
		}
	}
	return text != ""
}

// isLetter reports whether a character may begin a name. Setting bit 0x20 maps a letter to lower case.
func isLetter(char byte) bool { return char == '_' || 'a' <= char|0x20 && char|0x20 <= 'z' }
func isDigit(char byte) bool  { return '0' <= char && char <= '9' }

// parser is a recursive-descent parser with one token of lookahead. Its methods have the names of the rules:
//
//	formula = { name "=" expr ";" } ( expr | tuple )
//	tuple   = "(" expr "," { expr "," } [ expr ] ")"
//	expr    = unary { operator unary }     by precedence: x + y * 2 is +(x, *(y, 2))
//	unary   = ( "not" | "-" | "+" | "~" ) operand | primary [ "**" operand ]
//	primary = number | name | call | "(" expr ")"
//	call    = name "(" [ expr { "," expr } ] ")"
type parser struct {
	text    string
	end     int    // byte offset in text of the end of the current token
	tok     string // the current token
	kind    tokenKind
	pos     int             // position of the current token in the text, in characters from 1
	depth   int             // nesting depth of parentheses and prefix operators
	nodes   int             // number of nodes so far
	defined map[string]bool // the names of operands and definitions
}

// tokenKind is the kind of a token of the expression language.
type tokenKind uint8

const (
	endToken tokenKind = iota
	numberToken
	nameToken
	opToken
)

// fail ends parsing; Parse returns the error.
func (p *parser) fail(pos int, format string, args ...any) {
	panic(errorAt(p.text, pos, fmt.Sprintf(format, args...)))
}

// formula parses definitions and results.
func (p *parser) formula() *Formula {
	formula := &Formula{}
	for {
		pos := p.pos
		if p.kind == endToken {
			p.fail(pos, "an expression is missing: the text ends")
		}
		if p.kind == opToken && p.tok == "(" && p.tuple(formula) {
			break
		}
		value := p.expr(0)
		if p.accept("=") {
			if value.kind != nameNode {
				p.fail(pos, "the left side of = must be a name")
			}
			p.define(formula, value)
			continue
		}
		formula.results = []*node{value}
		break
	}
	if p.kind != endToken {
		p.fail(p.pos, "an operator is missing before %q", p.tok)
	}
	return formula
}

// define parses the value of a name and adds the definition to a formula.
func (p *parser) define(formula *Formula, name *node) {
	if p.defined[name.text] || constants[name.text].IsSet() {
		p.fail(name.pos, "%s is defined already", name.text)
	}
	for _, definition := range formula.lets {
		if usesName(definition.value, name.text) {
			p.fail(name.pos, "%s is used before it is defined", name.text)
		}
	}
	value := p.expr(0)
	if usesName(value, name.text) {
		p.fail(name.pos, "%s is defined by itself", name.text)
	}
	p.defined[name.text] = true
	formula.lets = append(formula.lets, let{name.text, value, name.pos})
	p.expect(";", "after the value of "+name.text)
}

func usesName(n *node, name string) bool {
	return n.kind == nameNode && n.text == name ||
		slices.ContainsFunc(n.args, func(arg *node) bool { return usesName(arg, name) })
}

// tuple parses several results in parentheses. If it finds no comma, it moves the parser back to the opening
// parenthesis and returns false.
func (p *parser) tuple(formula *Formula) bool {
	start := *p
	p.next()
	first := p.expr(0)
	if p.kind != opToken || p.tok != "," {
		*p = start
		return false
	}
	formula.results, formula.isTuple = []*node{first}, true
	for p.accept(",") {
		if p.kind == opToken && p.tok == ")" {
			break
		}
		formula.results = append(formula.results, p.expr(0))
	}
	p.expect(")", "after the results")
	return true
}

// expr parses operators whose precedence is at least level. At level 0 it parses a whole expression.
func (p *parser) expr(level int) *node {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.pos, "parentheses and operators are nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	left := p.unary()
	for hasComparison := false; ; {
		precedence, ok := precedences[p.tok]
		if !ok || p.kind == endToken || precedence < level {
			return left
		}
		op, pos := p.tok, p.pos
		if precedence == compareLevel {
			if hasComparison {
				p.fail(pos, "comparisons do not chain; write a < b and b < c")
			}
			hasComparison = true
		} else if precedence < compareLevel { // and, or: the next operand may be another comparison
			hasComparison = false
		}
		p.next()
		left = p.node(node{kind: binaryNode, text: op, args: []*node{left, p.expr(precedence + 1)}, pos: pos})
	}
}

// The precedences of operators, as in Python.
const (
	orLevel = 1 + iota
	andLevel
	notLevel
	compareLevel
	bitOrLevel
	bitXorLevel
	bitAndLevel
	shiftLevel
	sumLevel
	productLevel
	unaryLevel
	powerLevel
)

// precedences maps left-associative binary operators to their precedences.
var precedences = map[string]int{"or": orLevel, "and": andLevel, "==": compareLevel, "!=": compareLevel,
	"<": compareLevel, "<=": compareLevel, ">": compareLevel, ">=": compareLevel,
	"|": bitOrLevel, "^": bitXorLevel, "&": bitAndLevel,
	"<<": shiftLevel, ">>": shiftLevel, "+": sumLevel, "-": sumLevel, "*": productLevel, "/": productLevel,
	"//": productLevel, "%": productLevel}

// unary parses prefix operators and powers.
func (p *parser) unary() *node {
	op, pos := p.tok, p.pos
	switch {
	case p.kind == nameToken && op == "not":
		p.next()
		return p.node(node{kind: unaryNode, text: op, args: []*node{p.expr(notLevel)}, pos: pos})
	case p.kind == opToken && (op == "-" || op == "+" || op == "~"):
		p.next()
		return p.node(node{kind: unaryNode, text: op, args: []*node{p.operand(unaryLevel)}, pos: pos})
	}
	base := p.primary()
	if p.kind != opToken || p.tok != "**" {
		return base
	}
	pos = p.pos
	p.next()
	return p.node(node{kind: binaryNode, text: "**", args: []*node{base, p.operand(unaryLevel)}, pos: pos})
}

// operand parses the operand of a prefix operator or the exponent of a power.
func (p *parser) operand(level int) *node {
	if p.kind == nameToken && p.tok == "not" {
		p.fail(p.pos, "not needs parentheses here")
	}
	return p.expr(level)
}

// primary parses a number, a name, a call or an expression in parentheses.
func (p *parser) primary() *node {
	tok, pos := p.tok, p.pos
	switch {
	case p.kind == numberToken:
		p.next()
		return p.node(node{kind: numberNode, num: p.number(tok, pos), pos: pos})
	case p.kind == nameToken && (!keywords[tok] || constants[tok].IsSet()):
		p.next()
		if p.accept("(") {
			return p.call(tok, pos)
		}
		return p.node(node{kind: nameNode, text: tok, pos: pos})
	case p.accept("("):
		inner := p.expr(0)
		p.expect(")", "for the ( of "+positionText(lineAndColumn(p.text, pos)))
		return inner
	}
	p.fail(pos, "an operand is missing%s", p.currentToken())
	return nil
}

// number returns the value of a number token.
func (p *parser) number(tok string, pos int) tensor.Scalar {
	if imaginary := strings.TrimSuffix(tok, "j"); imaginary != tok {
		if x, err := strconv.ParseFloat(imaginary, 64); err == nil && !math.IsInf(x, 0) {
			return tensor.ComplexScalar(complex(0, x))
		}
	}
	isOctal := len(tok) > 1 && tok[0] == '0' && isDigit(tok[1]) // 012 is octal for ParseInt; Python rejects it
	if x, err := strconv.ParseInt(tok, 0, 64); err == nil && !isOctal {
		return tensor.IntScalar(x)
	}
	x, err := strconv.ParseFloat(tok, 64)
	isInteger := !strings.ContainsAny(tok, ".eE_") && isDigit(tok[len(tok)-1])
	switch {
	case isInteger:
		p.fail(pos, "%s does not fit an integer of 64 bits, or begins with 0", tok)
	case math.IsInf(x, 0):
		p.fail(pos, "%s is outside the range of float64", tok)
	case err != nil || strings.ContainsAny(tok, "xXpP_"):
		p.fail(pos, "%s is not a number", tok)
	}
	return tensor.FloatScalar(x)
}

// call parses the operands of a function.
func (p *parser) call(name string, pos int) *node {
	call := node{kind: callNode, text: name, pos: pos}
	minOperands, maxOperands, ok := arity(name)
	if !ok {
		p.fail(pos, "unknown function %q%s", name, suggest.DidYouMean(suggest.Nearest(name, functionNames())))
	}
	for !p.accept(")") {
		if len(call.args) > 0 {
			p.expect(",", "or ) after an operand of "+name)
		}
		call.args = append(call.args, p.expr(0))
	}
	if operands := len(call.args); operands < minOperands || operands > maxOperands {
		p.fail(pos, "%s takes %s, not %d", name, operandCount(minOperands, maxOperands), operands)
	}
	return p.node(call)
}

func operandCount(minCount, maxCount int) string {
	switch {
	case minCount != maxCount:
		return fmt.Sprintf("%d to %d operands", minCount, maxCount)
	case minCount == 1:
		return "one operand"
	}
	return fmt.Sprintf("%d operands", minCount)
}

// functionNames yields the names of all functions and casts, in alphabetical order.
func functionNames() func(yield func(string) bool) {
	names := sorted.Keys(builtins)
	names = slices.AppendSeq(names, maps.Keys(library))
	sorted.Strings(names)
	return slices.Values(names)
}

// node returns a new node of the syntax tree, with its height. It fails beyond the limits of the tree.
func (p *parser) node(n node) *node {
	if p.nodes++; p.nodes > maxNodes {
		p.fail(n.pos, "the formula has more than %d operators and operands", maxNodes)
	}
	for _, arg := range n.args {
		n.height = max(n.height, arg.height+1)
	}
	if n.height > maxHeight {
		p.fail(n.pos, "operators are nested more than %d deep; give names to parts of the formula: t = ...;", maxHeight)
	}
	return &n
}

// accept reads the operator op if it is the current token.
func (p *parser) accept(op string) bool {
	if p.kind == opToken && p.tok == op {
		p.next()
		return true
	}
	return false
}

// expect reads the operator op and fails if it is missing. `after` ends the first part of the message, such as "after
// the results".
func (p *parser) expect(op, after string) {
	if !p.accept(op) {
		p.fail(p.pos, "%q is missing %s%s", op, after, p.currentToken())
	}
}

// currentToken describes the current token in an error message.
func (p *parser) currentToken() string {
	if p.kind == endToken {
		return ": the text ends"
	}
	return fmt.Sprintf(": found %q", p.tok)
}

// next reads a token.
func (p *parser) next() {
	p.pos += utf8.RuneCountInString(p.tok)
	for p.end < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.end]) >= 0 {
		p.end++
		p.pos++
	}
	remaining := p.text[p.end:]
	if remaining == "" {
		p.tok, p.kind = "", endToken
		return
	}
	length := 0
	switch {
	case isDigit(remaining[0]) || remaining[0] == '.' && len(remaining) > 1 && isDigit(remaining[1]):
		length, p.kind = numberLen(remaining), numberToken
	case isLetter(remaining[0]):
		for length < len(remaining) && (isLetter(remaining[length]) || isDigit(remaining[length])) {
			length++
		}
		p.kind = nameToken
	default:
		operatorIndex := slices.IndexFunc(operators, func(o string) bool { return strings.HasPrefix(remaining, o) })
		if operatorIndex < 0 {
			char, _ := utf8.DecodeRuneInString(remaining)
			p.fail(p.pos, "there is no operator %q", char)
		}
		length, p.kind = len(operators[operatorIndex]), opToken
	}
	p.tok = remaining[:length]
	p.end += length
}

// operators lists operators and separators. An operator precedes its prefixes: ** comes before *.
var operators = []string{"**", "//", "<<", ">>", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "<", ">", "&", "|",
	"^", "~", "(", ")", ",", ";", "="}

// numberLen returns the number of leading characters that look like a number, valid or not. An error message quotes
// them.
func numberLen(text string) int {
	length := 0
	isHex := len(text) > 1 && text[0] == '0' && text[1]|0x20 == 'x'
	for length < len(text) && (isLetter(text[length]) || isDigit(text[length]) || text[length] == '.' ||
		(text[length] == '+' || text[length] == '-') && !isHex && text[length-1]|0x20 == 'e') {
		length++
	}
	return length
}
