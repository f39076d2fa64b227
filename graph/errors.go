package graph

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"unicode"

	"github.com/graphrun/graphrun/internal/printable"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/tensor"
)

// Error is a mistake in a graph, with its place. Line and Col count from 1. In a graph that was built in
// Go, File and Line are the position at which the program called package op, and Col is 0. File is empty if
// the place is unknown.
type Error struct {
	File      string
	Line, Col int
	Node, Op  string
	Output    string // name of the output, for a mistake in an output; Err also contains this name
	Err       error
}

// Error returns a message of the form FILE:LINE:COL: node "sum" (add): CAUSE.
func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.File != "" && e.Col > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", printable.Text(e.File), e.Line, e.Col)
	case e.File != "":
		fmt.Fprintf(&b, "%s:%d: ", printable.Text(e.File), e.Line)
	}
	if e.Node != "" {
		fmt.Fprintf(&b, "node %q", e.Node)
		if e.Op != "" {
			fmt.Fprintf(&b, " (%s)", printable.Text(e.Op))
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

// Error returns one mistake per line.
func (e Errors) Error() string {
	if err := errors.Join(e.Unwrap()...); err != nil {
		return err.Error()
	}
	return "no mistakes"
}

// Unwrap returns the mistakes.
func (e Errors) Unwrap() []error {
	list := make([]error, 0, len(e))
	for _, mistake := range e {
		if mistake != nil {
			list = append(list, mistake)
		}
	}
	return list
}

// Sort sorts the mistakes by place. It is stable.
func (e Errors) Sort() {
	sorted.Func(e, func(a, b *Error) int {
		switch {
		case a == nil || b == nil:
			return 0
		case a.Line != b.Line:
			return a.Line - b.Line
		}
		return a.Col - b.Col
	})
}

// maxErrors is the maximum number of errors that [Graph.Sort] or [Verify] collects for one graph.
const maxErrors = 100

// RootErrors returns the errors of rejected nodes, such as those of [Graph.InferAll], sorted by place. It omits nodes
// that depend on a rejected node. Adjacent nodes may have one error.
func (g *Graph) RootErrors(rejected map[*Node]*Error) Errors {
	var list Errors
	lost := maps.Clone(rejected) // the rejected nodes and their dependents
	for _, n := range g.Nodes {
		e := rejected[n]
		if err := n.dependsOn(lost); err != nil {
			lost[n] = &Error{Err: err}
		} else if e != nil && (len(list) == 0 || list[len(list)-1] != e) {
			list = append(list, e)
		}
	}
	list.Sort()
	return list
}

// NodeError returns err as an error of node n, with a place. The place is the place of the attribute that err concerns.
// If this place is not known, it is the place of the node.
func (g *Graph) NodeError(n *Node, err error) *Error {
	if n == nil {
		return &Error{Err: err}
	}
	for n.PartOf != nil { // an error of a part names the composite node of the file
		n = n.PartOf
	}
	e := &Error{Node: n.Name, Err: err}
	if n.Op != nil {
		e.Op = n.Op.Name
	}
	if g.places != nil {
		e.setPlace(g.placeOf(n, err))
	}
	return e
}

// OutputError returns an error of an output with its place.
func (g *Graph) OutputError(output Output, err error) *Error {
	e := &Error{Output: output.Name, Err: fmt.Errorf("output %q: %w", output.Name, err)}
	if g.places != nil {
		p, _ := g.places.Output(output.Name)
		e.setPlace(p)
	}
	return e
}

// valueError returns an error of an input or a constant with its place.
func (g *Graph) valueError(v *Value, err error) *Error {
	if v == nil {
		return &Error{Err: err}
	}
	e := &Error{Err: fmt.Errorf("%s %q: %w", v.Kind(), v.Name, err)}
	if g.places != nil {
		p, _ := g.places.Value(int(v.number))
		e.setPlace(p)
	}
	return e
}

// setPlace sets the place of an error.
func (e *Error) setPlace(p Place) { e.File, e.Line, e.Col = p.File, p.Line, p.Col }

// Place is a position in a file. Lines and columns count from 1. The zero Place means unknown.
type Place struct {
	File      string
	Line, Col int
}

// Places has the positions of nodes and values in the file from which a graph was read. Error messages
// contain these positions. Nodes and values are identified by their numbers: see [Node.Number]. A graph and
// its copies share one Places.
type Places interface {
	// Node returns the place of a node or, if attr is not empty, of its attribute.
	Node(number int, attr string) (Place, bool)
	// Value returns the place of an input or a constant.
	Value(number int) (Place, bool)
	// Output returns the place of an output.
	Output(name string) (Place, bool)
}

// nodePlaces has the places of the nodes of a [Segment]. It has no places of values, because a segment numbers its
// values differently from the file's graph.
type nodePlaces struct{ Places }

// Value returns no place.
func (nodePlaces) Value(int) (Place, bool) { return Place{}, false }

// Places returns the places of the file from which the graph was read; nil if there is no file.
func (g *Graph) Places() Places { return g.places }

// placeOf returns the place for an error of a node: see NodeError. placeOf finds the attribute that the error concerns
// in one of three ways: the error is an [AttrError], or the error rejects a dimension that only one attribute contains,
// or the message has the name of an attribute.
func (g *Graph) placeOf(n *Node, err error) Place {
	number := int(n.number)
	attr := ""
	var attrError *AttrError
	var dimError *tensor.DimError
	switch {
	case errors.As(err, &attrError):
		attr = attrError.Attr
	case errors.As(err, &dimError):
		attr = n.attrOfDim(dimError.Dim)
	case err != nil:
		attr = namedAttr(err.Error(), func(name string) bool {
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

// namedAttr returns the attribute that an op's message names ("expected stride to be ..."). Only names for which
// hasAttr returns true are considered. The result is empty if the message names none or more than one of them.
func namedAttr(message string, hasAttr func(name string) bool) string {
	isWordChar := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	attr := ""
	for word := range strings.FieldsFuncSeq(message, func(r rune) bool { return !isWordChar(r) }) {
		if word == attr || !hasAttr(word) {
			continue
		}
		if attr != "" {
			return ""
		}
		attr = word
	}
	return attr
}

// attrOfDim returns the name of the attribute that contains the number dim, a dimension that the op
// rejected. The result is empty if no attribute or several attributes contain dim.
func (n *Node) attrOfDim(dim int) string {
	attr := ""
	for name, v := range n.givenAttrs() {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		if !slices.Contains(list, any(int64(dim))) {
			continue
		}
		if attr != "" {
			return ""
		}
		attr = name
	}
	return attr
}

// The packages whose functions callSite skips.
const (
	thisPackage = "github.com/graphrun/graphrun/graph."
	opPackage   = "github.com/graphrun/graphrun/op."
)

// callSite returns the source position at which a function of package op was called. It returns an empty position if
// [Graph.Apply] was called directly, because direct callers, such as importers, add nodes on behalf of a file.
func callSite() (file string, line int) {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])]) // 2: from the caller of callSite
	inOpPackage := false
	for { // frames: functions of package graph, then of package op (unless Apply was called directly), then the caller
		frame, more := frames.Next()
		switch {
		case strings.HasPrefix(frame.Function, opPackage):
			inOpPackage = true
		case inOpPackage:
			return frame.File, frame.Line
		case !strings.HasPrefix(frame.Function, thisPackage):
			return "", 0
		}
		if !more {
			return "", 0
		}
	}
}

// Warnings returns facts that a user of the graph should know, although they are not mistakes. Examples: the graph has
// no outputs; a part of the graph supports only some sizes. A warning may have a place or a node. A warning without
// both is about the whole graph. Copies of the graph keep the warnings.
func (g *Graph) Warnings() []*Error {
	list := append([]*Error(nil), g.warnings...)
	if len(g.Outputs) == 0 && !slices.ContainsFunc(list, func(e *Error) bool { return errors.Is(e, ErrNoOutputs) }) {
		list = append(list, &Error{Err: ErrNoOutputs})
	}
	return list
}

// ErrNoOutputs is the warning about a graph without outputs.
var ErrNoOutputs = errors.New("the graph has no outputs: a run returns nothing")

// Warn adds a warning about a node of the file. node and op are the names of the node and its op in the
// file; both are empty for a warning about the whole graph. A warning that already exists is not added
// again.
func (g *Graph) Warn(node, op, format string, args ...any) {
	g.warn(&Error{Node: node, Op: op, Err: fmt.Errorf(format, args...)})
}

// warn adds a warning if there is no equal warning.
func (g *Graph) warn(e *Error) {
	if g.warned == nil {
		// Copies of a graph share the list of warnings. Before the list grows, this copy of the graph gets a separate list.
		g.warned, g.warnings = make(map[string]bool, len(g.warnings)+1), slices.Clip(g.warnings)
		for _, earlier := range g.warnings {
			g.warned[earlier.Error()] = true
		}
	}
	if text := e.Error(); !g.warned[text] {
		g.warned[text] = true
		g.warnings = append(g.warnings, e)
	}
}

// UnknownOp returns the error for an op that does not exist. The error suggests a similar name: see [SuggestOp].
func UnknownOp(name string, lookup Lookup) error {
	return fmt.Errorf("there is no op %q%s", name, suggest.DidYouMean(SuggestOp(name, lookup)))
}

// SuggestOp suggests an op for a name that is not in a catalogue. The name may be another spelling ("ReLU",
// "aten::relu_", "torch.nn.functional.softmax", "BatchNorm"), the name in another library ("Conv" in ONNX, "multiply"
// and "astype" in numpy, "reduce_sum" in TensorFlow), or a misspelling ("rlu"). It returns an empty name if no op is
// similar.
func SuggestOp(name string, lookup Lookup) string {
	if lookup == nil {
		return ""
	}
	return suggest.Op(name, func(name string) bool { return lookup(name) != nil })
}
