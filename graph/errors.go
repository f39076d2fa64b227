package graph

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode"

	"github.com/graphrun/graphrun/tensor"
)

// Error is a mistake in a graph, with its place. Line and Col count from 1 and are 0
// where the graph was built in Go.
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
	if e.File != "" {
		fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Col)
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

// source is the file that a graph came from; it turns offsets into lines and columns.
type source struct {
	file, dir string
	lines     []int // offsets of line starts
}

func newSource(file, dir string, data []byte) *source {
	s := &source{file: file, dir: dir, lines: make([]int, 1, bytes.Count(data, []byte{'\n'})+1)}
	for at := 0; ; {
		i := bytes.IndexByte(data[at:], '\n')
		if i < 0 {
			return s
		}
		at += i + 1
		s.lines = append(s.lines, at)
	}
}

// locate fills in the place of an error at a byte offset; -1 means unknown.
func (s *source) locate(e *Error, at int) *Error {
	if s == nil || at < 0 {
		return e
	}
	i := sort.SearchInts(s.lines, at+1) - 1
	e.File, e.Line, e.Col = s.file, i+1, at-s.lines[i]+1
	return e
}

// Fail returns an error of a node with its place: that of the attribute which it is about,
// where that is known, else the node's.
func (g *Graph) Fail(n *Node, err error) *Error {
	if n == nil {
		return &Error{Err: err}
	}
	e := &Error{Node: n.Name, Err: err}
	if n.Op != nil {
		e.Op = n.Op.Name
	}
	return g.src.locate(e, n.placeOf(err))
}

// placeOf returns the offset in the file of what an error is about.
func (n *Node) placeOf(err error) int {
	var wrong *attrError
	var dim *tensor.DimError
	switch {
	case len(n.attrAt) == 0:
	case errors.As(err, &wrong):
		if at, ok := n.attrAt[wrong.attr]; ok {
			return n.attrsAt + at
		}
	case errors.As(err, &dim):
		if at, ok := n.attrAt[n.attrOfDim(dim.Dim)]; ok {
			return n.attrsAt + at
		}
	default:
		if at, ok := n.attrAt[n.attrNamed(err.Error())]; ok {
			return n.attrsAt + at
		}
	}
	return n.at
}

// attrNamed returns the attribute that an op's message names ("expected stride to be ..."),
// of those that the node gives; it is empty if it names none, or several.
func (n *Node) attrNamed(message string) string {
	letter := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	found := ""
	for word := range strings.FieldsFuncSeq(message, func(r rune) bool { return !letter(r) }) {
		if _, ok := n.attrAt[word]; !ok || word == found {
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
	for name, v := range n.given {
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
	e := g.failAt(o.at, "output %q: %w", o.Name, err)
	e.Output = o.Name
	return e
}

// Place returns file, line and column of a node; zero values if it is not from a file.
func (g *Graph) Place(n *Node) (file string, line, col int) {
	if n == nil {
		return "", 0, 0
	}
	e := g.src.locate(&Error{}, n.at)
	return e.File, e.Line, e.Col
}

// failAt returns an error at a byte offset that belongs to no node.
func (g *Graph) failAt(at int, format string, args ...any) *Error {
	return g.src.locate(&Error{Err: fmt.Errorf(format, args...)}, at)
}
