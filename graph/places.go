package graph

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/graphrun/graphrun/tensor"
)

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

// attrOfDim returns the attribute that holds a dimension which the op refused; it is empty if
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
