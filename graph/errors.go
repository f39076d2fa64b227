package graph

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"unicode"

	"github.com/graphrun/graphrun/tensor"
)

// Error is a mistake in a graph, with its place. Line and Col count from 1. Of a graph that was built in Go
// File and Line are those of the call of package op that was wrong, and Col is 0; without a place File is empty.
type Error struct {
	File      string
	Line, Col int
	Node, Op  string
	Output    string // of an output: its name, which Err tells too
	Err       error
}

// Error prints FILE:LINE:COL: node "sum" (add): what is wrong.
func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.File != "" && e.Col > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Col)
	case e.File != "":
		fmt.Fprintf(&b, "%s:%d: ", e.File, e.Line)
	}
	if e.Node != "" {
		fmt.Fprintf(&b, "node %q", e.Node)
		if e.Op != "" {
			fmt.Fprintf(&b, " (%s)", e.Op)
		}
		b.WriteString(": ")
	}
	if e.Err == nil {
		return b.String() + "no cause was given"
	}
	return b.String() + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errors are the mistakes found in a graph, in the order of their places.
type Errors []*Error

// Error prints one mistake a line.
func (e Errors) Error() string {
	if err := errors.Join(e.Unwrap()...); err != nil {
		return err.Error()
	}
	return "no mistakes"
}

// Unwrap returns the mistakes.
func (e Errors) Unwrap() []error {
	list := make([]error, 0, len(e))
	for _, one := range e {
		if one != nil {
			list = append(list, one)
		}
	}
	return list
}

// Sort puts the mistakes into the order of their places; those of one place stay as they stand.
func (e Errors) Sort() {
	slices.SortStableFunc(e, func(a, b *Error) int {
		switch {
		case a == nil || b == nil:
			return 0
		case a.Line != b.Line:
			return a.Line - b.Line
		}
		return a.Col - b.Col
	})
}

// maxErrors bounds the mistakes that are collected of one graph.
const maxErrors = 100

// RootErrors returns those of the refusals of [Graph.InferAll] that have a reason of their
// own, in the order of their places.
func (g *Graph) RootErrors(rejected map[*Node]*Error) Errors {
	var list Errors
	for _, n := range g.Nodes {
		e := rejected[n]
		if e == nil {
			continue
		}
		if _, follows := e.Err.(*dependent); !follows {
			list = append(list, e)
		}
	}
	list.Sort()
	return list
}

// Packages whose functions are between a mistake and the call that made it.
const (
	thisPackage = "github.com/graphrun/graphrun/graph."
	opPackage   = "github.com/graphrun/graphrun/op."
)

// callSite returns where a function of package op was called that led here; nothing for a node that was added by
// Apply: its callers, such as importers, add nodes for others.
func callSite() (file string, line int) {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	typed := false
	for {
		f, more := frames.Next()
		switch {
		case strings.HasPrefix(f.Function, opPackage):
			typed = true
		case typed:
			return f.File, f.Line
		case !strings.HasPrefix(f.Function, thisPackage):
			return "", 0
		}
		if !more {
			return "", 0
		}
	}
}

// Assumed returns the sizes of symbols that were not given, by symbol: results and plans rest on
// them. It is empty once all are given ([Graph.Bind]); symbols that nothing depends on are
// left out. The map is the caller's.
func (g *Graph) Assumed() map[string]int {
	used := map[string]int{}
	for name, n := range g.assumed {
		if _, own := g.Symbols[name]; !own || g.uses(name) {
			used[name] = n
		}
	}
	return used
}

// Assume notes that a symbol of the file which the graph was made from has a size that
// not given, and is no symbol of the graph any more. Importers call it.
func (g *Graph) Assume(symbol string, size int) {
	g.assumed = maps.Clone(g.assumed) // copies of the graph have their own
	if g.assumed == nil {
		g.assumed = map[string]int{}
	}
	g.assumed[symbol] = size
}

// wasGiven notes that somebody gave a symbol its size.
func (g *Graph) wasGiven(symbol string) {
	g.assumed = maps.Clone(g.assumed)
	delete(g.assumed, symbol)
}

// uses reports whether a size of an input or an attribute depends on a symbol.
func (g *Graph) uses(symbol string) bool {
	for _, v := range g.Inputs {
		if v.Dims != nil && v.decl != nil && v.decl.uses(symbol) {
			return true
		}
	}
	for _, n := range g.Nodes {
		for _, a := range n.written() {
			if attrUses(a, symbol) {
				return true
			}
		}
	}
	return false
}

// Warnings returns what a user should know of the graph that is no mistake: that it has no
// outputs, or that a part of it suits some sizes only. Each has its place or its node, as
// mistakes do. Copies of the graph, and what passes make of it, keep them.
func (g *Graph) Warnings() []*Error {
	list := append([]*Error(nil), g.warnings...)
	if len(g.Outputs) == 0 && !slices.ContainsFunc(list, func(e *Error) bool { return errors.Is(e, ErrNoOutputs) }) {
		list = append(list, &Error{Err: ErrNoOutputs})
	}
	return list
}

// ErrNoOutputs is the warning about a graph without outputs.
var ErrNoOutputs = errors.New("the graph has no outputs: a run of it gives nothing")

// Warn adds a warning about a node of the file that the graph was made from, by its name and
// op there; both are empty for one about the whole. One that is there already is not
// repeated.
func (g *Graph) Warn(node, op, format string, args ...any) {
	g.warn(&Error{Node: node, Op: op, Err: fmt.Errorf(format, args...)})
}

func (g *Graph) warn(e *Error) {
	if g.warned == nil {
		// A copy of a graph has the list in common with it, and adds to one of its own.
		g.warned, g.warnings = make(map[string]bool, len(g.warnings)+1), slices.Clip(g.warnings)
		for _, w := range g.warnings {
			g.warned[w.Error()] = true
		}
	}
	if text := e.Error(); !g.warned[text] {
		g.warned[text] = true
		g.warnings = append(g.warnings, e)
	}
}

// Place is where something is in a file. Lines and columns count from 1; the zero Place is nowhere.
type Place struct {
	File      string
	Line, Col int
}

// Places tells where the parts of a graph are in the file that it was read from. A graph carries it
// beside what it is made of, for errors, and so do its copies: nodes and values know nothing of files.
// Parts go by their numbers: see [Node.Number].
type Places interface {
	// Node returns the place of a node or, where attr is not empty, of its attribute.
	Node(number int, attr string) (Place, bool)
	// Value returns the place of an input or a constant.
	Value(number int) (Place, bool)
	// Output returns the place of an output.
	Output(name string) (Place, bool)
}

// Places returns where the graph is in the file that it was read from; nil for one that was not.
func (g *Graph) Places() Places { return g.places }

// Fail returns an error of a node with its place: that of the attribute which it is about,
// where that is known, else the node's.
func (g *Graph) Fail(n *Node, err error) *Error {
	if n == nil {
		return &Error{Err: err}
	}
	for n.Part != nil {
		n = n.Part
	}
	e := &Error{Node: n.Name, Err: err}
	if n.Op != nil {
		e.Op = n.Op.Name
	}
	if g.places != nil {
		e.in(g.placeOf(n, err))
	}
	return e
}

// in puts an error in a place.
func (e *Error) in(p Place) { e.File, e.Line, e.Col = p.File, p.Line, p.Col }

// placeOf returns the place of what an error of a node is about.
func (g *Graph) placeOf(n *Node, err error) Place {
	number := int(n.number)
	attr := ""
	var wrong *AttrError
	var dim *tensor.DimError
	switch {
	case errors.As(err, &wrong):
		attr = wrong.Attr
	case errors.As(err, &dim):
		attr = n.attrOfDim(dim.Dim)
	case err != nil:
		attr = attrNamed(err.Error(), func(name string) bool {
			_, ok := g.places.Node(number, name)
			return ok
		})
	}
	if attr != "" {
		if p, ok := g.places.Node(number, attr); ok {
			return p
		}
	}
	p, _ := g.places.Node(number, "")
	return p
}

// attrNamed returns the attribute that an op's message names ("expected stride to be ..."),
// of those that the node gives; it is empty if it names none, or several.
func attrNamed(message string, gives func(name string) bool) string {
	letter := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	found := ""
	for word := range strings.FieldsFuncSeq(message, func(r rune) bool { return !letter(r) }) {
		if word == found || !gives(word) {
			continue
		}
		if found != "" {
			return ""
		}
		found = word
	}
	return found
}

// attrOfDim returns the attribute that holds a dimension which the op rejected; it is empty if
// none does, or several.
func (n *Node) attrOfDim(dim int) string {
	found := ""
	for name, v := range n.written() {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		if !slices.Contains(list, any(int64(dim))) {
			continue
		}
		if found != "" {
			return ""
		}
		found = name
	}
	return found
}

// FailOutput returns an error of an output with its place.
func (g *Graph) FailOutput(o Output, err error) *Error {
	e := &Error{Output: o.Name, Err: fmt.Errorf("output %q: %w", o.Name, err)}
	if g.places != nil {
		p, _ := g.places.Output(o.Name)
		e.in(p)
	}
	return e
}

// failValue returns an error of an input or a constant with its place.
func (g *Graph) failValue(v *Value, err error) *Error {
	if v == nil {
		return &Error{Err: err}
	}
	e := &Error{Err: fmt.Errorf("%s %q: %w", v.Kind(), v.Name, err)}
	if g.places != nil {
		p, _ := g.places.Value(int(v.number))
		e.in(p)
	}
	return e
}

// nodePlaces are the places of a graph whose values have other numbers: of a segment.
type nodePlaces struct{ Places }

// Value knows no place.
func (nodePlaces) Value(int) (Place, bool) { return Place{}, false }
