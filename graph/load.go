package graph

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/words"
	"github.com/graphrun/graphrun/tensor"
)

// OpenConst finds a constant's data: the file, which lies in the graph file's folder, and
// the key inside it, empty for a file of one array. It returns what the file's header says
// of the data, and what reads them: that is called only if dtype and shape are those that
// the graph file declares.
type OpenConst func(path, key string) (tensor.Meta, ReadConst, error)

// ReadConst reads the data of a constant that [OpenConst] found.
type ReadConst func() (*tensor.Tensor, error)

// Held is what an [OpenConst] returns for data that it has in memory.
func Held(t *tensor.Tensor) (tensor.Meta, ReadConst, error) {
	if t == nil {
		return tensor.Meta{}, nil, errors.New("the tensor is nil")
	}
	return t.Meta, func() (*tensor.Tensor, error) { return t, nil }, nil
}

// Load reads a graph file, version 1. name is used in errors; dir is the folder in which
// constants' files lie, and must contain them. The graph comes back sorted and inferred.
//
// All mistakes are collected; the error is an [Errors], each with line, column and node.
// Nodes that only depend on one that was refused are not among them.
func Load(r io.Reader, name, dir string, lookup Lookup, open OpenConst) (*Graph, error) {
	g, err := Parse(r, name, dir, lookup, open)
	if err != nil {
		return nil, err
	}
	if err := g.BindOnly(nil); err != nil {
		return nil, asErrors(err)
	}
	if err := g.Infer(); err != nil {
		return nil, g.rootErrors(g.InferAll())
	}
	return g, nil
}

// LoadFile is Load for a file on disk.
func LoadFile(path string, lookup Lookup, open OpenConst) (*Graph, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, files.OfFile(path, err)
	}
	defer f.Close()
	return Load(f, path, filepath.Dir(path), lookup, open)
}

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

func asErrors(err error) Errors {
	var list Errors
	var one *Error
	switch {
	case errors.As(err, &list):
		return list
	case errors.As(err, &one):
		return Errors{one}
	}
	return Errors{{Err: err}}
}

// rootErrors is [Graph.RootErrors], as many as are collected from one file.
func (g *Graph) rootErrors(refused map[*Node]*Error) Errors {
	list := g.RootErrors(refused)
	return list[:min(len(list), maxErrors)]
}

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
	list.sort()
	return list
}

func (e Errors) sort() {
	slices.SortStableFunc(e, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Col - b.Col
	})
}

// maxErrors bounds the mistakes that are collected from one file.
const maxErrors = 100

// Parse reads a graph file without inferring: structure, names and ops are checked, and the
// nodes are sorted. [Graph.Bind] and [Graph.Infer] complete it. Wrong attributes, and
// operands too many or missing, are a node's refusal: inference tells them, so that
// [Graph.InferAll] can go on past them.
func Parse(r io.Reader, name, dir string, lookup Lookup, open OpenConst) (*Graph, error) {
	g, _, err := parseFile(r, &loader{dir: dir, open: open}, name, lookup)
	return g, err
}

// ParseSome is Parse that goes on past more: a node that has keys of its own making, whose
// operand there is not, or whose attributes cannot be read, is refused by inference too, and
// so is one that reads an input or a constant that is wrongly declared, or whose data cannot
// be had. The mistakes of those, and of outputs that there are not, are returned beside the graph.
func ParseSome(r io.Reader, name, dir string, lookup Lookup, open OpenConst) (*Graph, Errors, error) {
	return parseFile(r, &loader{dir: dir, open: open, absent: map[*Value]bool{}}, name, lookup)
}

func parseFile(r io.Reader, l *loader, name string, lookup Lookup) (*Graph, Errors, error) {
	if r == nil {
		return nil, nil, errors.New("there is nothing to read a graph from: the reader is nil")
	}
	data, err := readAll(r)
	if err != nil {
		return nil, nil, files.OfFile(name, err)
	}
	g := New("", lookup)
	g.src = newSource(name, l.dir, data)
	l.g, l.data = g, data
	l.parse()
	if len(l.errs) > 0 {
		l.addRefusals()
		l.errs.sort()
		return nil, nil, l.errs
	}
	if len(g.Outputs) == 0 {
		g.warn(g.failAt(l.outputsAt, "the graph has no outputs: a run of it gives nothing"))
	}
	l.refuseAbsent()
	return g, l.missing, nil
}

// refuseAbsent refuses the nodes that read inputs and constants that there are not, and drops
// outputs that are such.
func (l *loader) refuseAbsent() {
	if len(l.absent) == 0 {
		return
	}
	for _, n := range l.g.Nodes {
		for i := range n.deps() {
			if v := n.dep(i); l.absent[v] && n.badArgs == nil {
				n.badArgs = absent(v)
			}
		}
	}
	l.g.Outputs = slices.DeleteFunc(l.g.Outputs, func(o Output) bool {
		if l.absent[o.Value] {
			l.missing = append(l.missing, l.g.FailOutput(o, absent(o.Value)))
		}
		return l.absent[o.Value]
	})
	l.g.Constants = slices.DeleteFunc(l.g.Constants, func(v *Value) bool { return l.absent[v] })
}

// parse reads, resolves and sorts the graph of l.data.
func (l *loader) parse() {
	l.attrs, l.declaredSymbols = map[attrsKey]attrsValue{}, map[string]bool{}
	l.reserve(bytes.Count(l.data, []byte(`"op"`)))
	l.scan = newScanner(l.data, func(at int, err error) { l.failAt(at, "%w", err) })
	l.scan.base = l.base
	if err := l.file(); err != nil {
		l.syntaxError(err)
	} else {
		l.checkExpressions()
		l.resolve()
	}
	if len(l.errs) == 0 {
		err := l.g.Sort()
		for range maxErrors {
			if err == nil || l.absent == nil {
				break
			}
			l.cut(asErrors(err))
			err = l.g.Sort()
		}
		if err != nil {
			l.errs = asErrors(err)
		}
	}
}

// cut leaves the first node of every cycle to inference, which refuses it: all others of the cycle
// depend on it.
func (l *loader) cut(cycles Errors) {
	for _, e := range cycles {
		n := l.g.named().node(e.Node)
		n.In, n.refs, n.badArgs = nil, nil, e.Err
	}
}

// readAll is io.ReadAll with a buffer of the right size where the size can be known: a
// graph of a million nodes is a hundred megabytes, and growing to it copies it over and
// over.
func readAll(r io.Reader) ([]byte, error) {
	size := 0
	switch x := r.(type) {
	case interface{ Len() int }:
		size = x.Len()
	case *os.File:
		if st, err := x.Stat(); err == nil && st.Mode().IsRegular() {
			size = int(min(st.Size(), maxPresize))
		}
	}
	data := make([]byte, 0, size+512)
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case err == io.EOF:
			return data, nil
		case err != nil:
			return nil, err
		case len(data) == cap(data):
			data = slices.Grow(data, len(data))
		}
	}
}

// maxPresize bounds what a file's size makes us allocate before anything was read.
const maxPresize = 1 << 30

type loader struct {
	g     *Graph
	data  []byte
	base  int // offset of data in the file
	depth int // of a graph that is an attribute, and so on
	dir   string
	open  OpenConst

	// What is read past has absent; nil otherwise.
	absent  map[*Value]bool // inputs and constants that cannot be had
	missing Errors          // why
	scan    *scanner
	errs    Errors

	raw     []rawNode
	pending []pendingArg
	scratch []Arg
	outputs []rawOutput

	outputsAt int // where "outputs" stands

	attrs map[attrsKey]attrsValue
	slab  slab

	declaredSymbols map[string]bool // those that stand under "symbols"
	expressions     []expression
}

// reserve makes room for about n nodes at once: growing step by step copies all of it
// again and again.
func (l *loader) reserve(n int) {
	l.g.names = newNames(n)
	l.g.Nodes, l.raw = make([]*Node, 0, n), make([]rawNode, 0, n)
}

type rawOutput struct {
	value string
	out   Output
}

func (l *loader) failAt(at int, format string, args ...any) {
	l.add(l.g.failAt(at, format, args...))
}

func (l *loader) add(e *Error) {
	if len(l.errs) < maxErrors {
		l.errs = append(l.errs, e)
	}
}

// syntaxError adds the error that ended the reading: in our words where the mistake is one
// that is known, else in the library's.
func (l *loader) syntaxError(err error) {
	at, msg := l.scan.at(), err.Error()
	var se *jsontext.SyntacticError
	if errors.As(err, &se) {
		at, msg = l.base+int(se.ByteOffset), "this is no JSON: "+se.Err.Error()
	}
	place := func(at int) string {
		e := l.g.failAt(l.base+at, "")
		return fmt.Sprintf("line %d, column %d", e.Line, e.Col)
	}
	if m := diagnose(l.data, place); m != nil {
		at, msg = l.base+m.at, m.text
	}
	if len(l.errs) == maxErrors {
		l.errs = l.errs[:maxErrors-1]
	}
	l.failAt(min(at, l.base+len(l.data)), "%s", msg)
}

// file reads the top-level object.
func (l *loader) file() error {
	seen := map[string]bool{}
	err := l.scan.object(func(key string, at int) error {
		seen[key] = true
		switch key {
		case "version":
			v, err := l.scan.value()
			if _, whole := v.(int64); err == nil && !whole {
				l.failAt(at, "\"version\" must be the integer 1")
			} else if err == nil && v != int64(1) {
				l.failAt(at, "version %v is not served: want 1", v)
			}
			return err
		case "name":
			return l.scan.text(&l.g.Name)
		case "symbols":
			return l.symbols()
		case "inputs":
			return l.scan.array(l.input)
		case "constants":
			return l.scan.array(l.constant)
		case "nodes":
			return l.scan.array(l.node)
		case "outputs":
			l.outputsAt = at
			return l.scan.array(l.output)
		}
		return l.unknown(key, at, "version, name, symbols, inputs, constants, nodes, outputs")
	})
	if err != nil {
		return err
	}
	l.scan.end()
	for _, key := range []string{"version", "inputs", "nodes", "outputs"} {
		if !seen[key] && (len(seen) > 0 || len(l.errs) == 0) {
			l.failAt(l.base, "%q is missing", key)
		}
	}
	return nil
}

func (l *loader) unknown(key string, at int, want string) error {
	near := words.Nearest(key, slices.Values(strings.Split(want, ", ")))
	l.failAt(at, "unknown key %q: want one of %s%s", key, want, words.DidYouMean(near))
	return l.scan.skip()
}

func (l *loader) symbols() error {
	return l.scan.object(func(name string, at int) error {
		var b Bounds
		err := l.scan.object(func(key string, at int) error {
			switch key {
			case "min":
				return l.scan.integer(&b.Min)
			case "max":
				return l.scan.integer(&b.Max)
			}
			return l.unknown(key, at, "min, max")
		})
		switch {
		case name == "":
			l.failAt(at, "a symbol needs a name")
		case b.Min < 0 || b.Max != 0 && b.Max < b.Min:
			l.failAt(at, "symbol %q: want 0 <= min <= max, got min %d and max %d", name, b.Min, b.Max)
		}
		l.symbol(name)
		l.g.Symbols[name], l.declaredSymbols[name] = b, true
		return err
	})
}

// symbol makes a symbol known; a size may stand before, or without, its bounds.
func (l *loader) symbol(name string) {
	if l.g.Symbols == nil {
		l.g.Symbols = map[string]Bounds{}
	}
	if _, ok := l.g.Symbols[name]; !ok {
		l.g.Symbols[name] = Bounds{}
	}
}

// output reads an output: a value's name, or an object.
func (l *loader) output(at int) error {
	r := rawOutput{out: Output{at: at}}
	if l.scan.isText() {
		err := l.scan.text(&r.value)
		r.out.Name = r.value
		l.outputs = append(l.outputs, r)
		return err
	}
	before := len(l.errs)
	err := l.scan.object(func(key string, at int) error {
		switch key {
		case "value":
			return l.scan.text(&r.value)
		case "name":
			return l.scan.text(&r.out.Name)
		case "memory_format":
			return l.scan.format(&r.out.Pin.Format)
		case "order":
			return l.scan.order(&r.out.Pin.Order)
		}
		return l.unknown(key, at, "value, name, memory_format, order")
	})
	if r.out.Name == "" {
		r.out.Name = r.value
	}
	if r.out.Pin.both() {
		l.failAt(at, "%v", errBoth)
	}
	if len(l.errs) == before {
		l.outputs = append(l.outputs, r)
	}
	return err
}
