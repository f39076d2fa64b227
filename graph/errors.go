package graph

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
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
func (g *Graph) RootErrors(refused map[*Node]*Error) Errors {
	var list Errors
	for _, n := range g.Nodes {
		e := refused[n]
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
// Apply: whoever calls that, such as an importer, adds nodes for others.
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
