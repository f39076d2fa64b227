package contiguity

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/sym"
)

// Claim is a statement about tensors of all sizes and strides: predicates joined by ~, &, | and =>.
type Claim struct {
	// Text is the claim with normalized spacing.
	Text string
	// Predicates are the predicates of the claim, without duplicates.
	Predicates []Predicate
	// Condition returns the condition on sizes and strides under which the claim holds.
	Condition func(shape, strides []sym.Int) sym.Bool
}

// ParseClaim parses a claim such as "contiguous & ~channels_last => non_overlapping_and_dense". The operators are, from
// the highest to the lowest precedence, ~, &, | and =>. The operator => associates to the right. The errors name the
// column.
func ParseClaim(text string) (Claim, error) {
	parser := &claimParser{text: text}
	parser.next()
	claim, err := parser.implication()
	if err == nil && parser.token != "" {
		err = parser.failf("want an operator or the end, got %s", parser.currentToken())
	}
	return claim, err
}

// claimParser is a recursive-descent parser. It has a method for each level of precedence.
type claimParser struct {
	text                 string
	tokenStart, tokenEnd int // byte offsets of the current token
	token                string
}

// failf returns an error with the column of the current token.
func (p *claimParser) failf(format string, args ...any) error {
	return fmt.Errorf("column %d: %s", p.tokenStart+1, fmt.Sprintf(format, args...))
}

// currentToken describes the current token in errors.
func (p *claimParser) currentToken() string {
	if p.token == "" {
		return "the end of the claim"
	}
	return strconv.Quote(p.token)
}

// next reads the next token: a name, the operator =>, or another character. At the end, the token is empty.
func (p *claimParser) next() {
	for p.tokenEnd < len(p.text) && strings.IndexByte(" \t\n", p.text[p.tokenEnd]) >= 0 {
		p.tokenEnd++
	}
	p.tokenStart = p.tokenEnd
	unread := p.text[p.tokenEnd:]
	length := strings.IndexFunc(unread, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	switch {
	case length < 0: // a name up to the end, or the end
		length = len(unread)
	case length == 0 && strings.HasPrefix(unread, "=>"):
		length = 2
	case length == 0: // one character
		length = len(string([]rune(unread)[:1]))
	}
	p.token, p.tokenEnd = unread[:length], p.tokenEnd+length
}

// accept reports whether the current token is the given token. If so, it reads the next token.
func (p *claimParser) accept(token string) bool {
	if p.token != token {
		return false
	}
	p.next()
	return true
}

// implication parses operands of =>, which are disjunctions (|) of conjunctions (&).
func (p *claimParser) implication() (Claim, error) {
	conjunction := func() (Claim, error) { return p.leftAssociative("&", p.unary, sym.Bool.And) }
	premise, err := p.leftAssociative("|", conjunction, sym.Bool.Or)
	if err != nil || !p.accept("=>") {
		return premise, err
	}
	conclusion, err := p.implication()
	return combineClaims(premise, "=>", conclusion, func(x, y sym.Bool) sym.Bool { return x.Not().Or(y) }), err
}

// leftAssociative parses operands of a left-associative operator, and joins their conditions.
func (p *claimParser) leftAssociative(op string, operand func() (Claim, error),
	join func(a, b sym.Bool) sym.Bool) (Claim, error) {
	joined, err := operand()
	for err == nil && p.accept(op) {
		var next Claim
		next, err = operand()
		joined = combineClaims(joined, op, next, join)
	}
	return joined, err
}

// unary parses a negation, a claim in parentheses, or the name of a predicate.
func (p *claimParser) unary() (Claim, error) {
	switch {
	case p.accept("~"):
		operand, err := p.unary()
		if err != nil {
			return operand, err
		}
		condition := operand.Condition
		negated := func(shape, strides []sym.Int) sym.Bool { return condition(shape, strides).Not() }
		return Claim{Text: "~" + operand.Text, Predicates: operand.Predicates, Condition: negated}, nil
	case p.accept("("):
		operand, err := p.implication()
		if err == nil && !p.accept(")") {
			err = p.failf("want an operator or ), got %s", p.currentToken())
		}
		operand.Text = "(" + operand.Text + ")"
		return operand, err
	}
	named := map[string]Predicate{}
	for _, predicate := range Predicates {
		named[predicate.Name] = predicate
	}
	predicate, ok := named[p.token]
	if !ok {
		return Claim{}, p.failf("want a predicate, got %s%s", p.currentToken(),
			suggest.DidYouMean(suggest.Nearest(p.token, maps.Keys(named))))
	}
	p.next()
	return Claim{Text: predicate.Name, Predicates: []Predicate{predicate}, Condition: predicate.Condition}, nil
}

// combineClaims returns the claim "a op b". join combines the conditions.
func combineClaims(a Claim, op string, b Claim, join func(x, y sym.Bool) sym.Bool) Claim {
	combined := Claim{Text: a.Text + " " + op + " " + b.Text, Predicates: slices.Clone(a.Predicates)}
	for _, predicate := range b.Predicates {
		sameName := func(earlier Predicate) bool { return earlier.Name == predicate.Name }
		if !slices.ContainsFunc(combined.Predicates, sameName) {
			combined.Predicates = append(combined.Predicates, predicate)
		}
	}
	combined.Condition = func(shape, strides []sym.Int) sym.Bool {
		return join(a.Condition(shape, strides), b.Condition(shape, strides))
	}
	return combined
}

// ClaimReport is the result of [ProveClaim] for values of one rank.
type ClaimReport struct {
	Claim Claim
	Rank  int
	// Formula is the claim's condition on sizes x1, x2, ... and strides y1, y2, ...
	Formula sym.Bool
	// Classes is the number of classes of sizes and strides that were examined.
	Classes int
	// Proved reports whether the claim holds in all classes.
	Proved bool
	// Sizes and Strides are a counterexample, or nil if none was found.
	Sizes, Strides []int

	env *sym.Env
}

// ProveClaim decides the claim's formula for every class of sizes and strides. A class is a set of sizes and strides
// for which all comparisons in the formula have the same answers. If the formula is false in a class, ProveClaim
// searches for sizes and strides that refute the claim. The rank must be from 0 to 6.
func ProveClaim(claim Claim, rank int) (*ClaimReport, error) {
	switch {
	case claim.Condition == nil:
		return nil, errors.New("contiguity: the claim has no Condition: want a result of ParseClaim")
	case rank < 0 || rank > 6:
		return nil, fmt.Errorf("contiguity: rank %d: want 0 to 6", rank)
	}
	report := &Report{Rank: rank, env: sym.NewEnv()}
	report.shape, report.strides = newShapeAndStrides(report.env, rank)
	report.Formula = claim.Condition(report.shape, report.strides)
	// Report.refute finds sizes and strides for which the formula differs from Branches. Here Branches always returns
	// true.
	report.Predicate.Branches = func([]sym.Int, []sym.Int) bool { return true }
	result := &ClaimReport{Claim: claim, Rank: rank, Formula: report.Formula, Proved: true, env: report.env}
	cases, err := sym.Fork(report.env, maxPaths, func() (bool, error) { return report.Formula.Holds(), nil })
	if err != nil {
		return nil, err
	}
	result.Classes = len(cases)
	for _, path := range cases { // path.If is the condition of a class; path.Value is the formula's value in the class
		if path.Value && path.Err == nil {
			continue
		}
		result.Proved = false
		if found := report.refute(Path{Condition: path.If}); found.Sizes != nil {
			result.Sizes, result.Strides = slices.Clone(found.Sizes), slices.Clone(found.Strides)
			break
		}
	}
	return result, nil
}

// SMT returns the negation of the claim in SMT-LIB 2. The answer unsat confirms the claim. SMT returns "" for the zero
// report.
func (r *ClaimReport) SMT() string {
	if r.env == nil {
		return ""
	}
	return r.env.SMT(r.Formula.Not())
}
