package graph

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/graphrun/graphrun/tensor"
)

// OpenConst reads a constant's data: the file, which lies in the graph file's folder, and
// the key inside it, empty for a file of one array.
type OpenConst func(path, key string) (*tensor.Tensor, error)

// Load reads a graph file, version 1. name is used in errors; dir is the folder in which
// constants' files lie, and must contain them. The graph comes back sorted and inferred.
//
// All mistakes are collected; the error is an [Errors], each with line, column and node.
func Load(r io.Reader, name, dir string, lookup Lookup, open OpenConst) (*Graph, error) {
	g, err := Parse(r, name, dir, lookup, open)
	if err != nil {
		return nil, err
	}
	if err := g.Bind(nil); err != nil {
		return nil, err
	}
	return g, nil
}

// LoadFile is Load for a file on disk.
func LoadFile(path string, lookup Lookup, open OpenConst) (*Graph, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Load(f, path, filepath.Dir(path), lookup, open)
}

// Errors are the mistakes found in a graph, in the order of their places.
type Errors []*Error

// Error prints one mistake a line.
func (e Errors) Error() string {
	list := make([]error, len(e))
	for i := range e {
		list[i] = e[i]
	}
	return errors.Join(list...).Error()
}

// Unwrap returns the mistakes.
func (e Errors) Unwrap() []error {
	list := make([]error, len(e))
	for i := range e {
		list[i] = e[i]
	}
	return list
}

// maxErrors bounds the mistakes that are collected from one file.
const maxErrors = 100

// Parse reads a graph file without inferring: structure, names, ops and attributes are
// checked, and the nodes are sorted. [Graph.Bind] and [Graph.Infer] complete it.
func Parse(r io.Reader, name, dir string, lookup Lookup, open OpenConst) (*Graph, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	g := New("", lookup)
	g.src = newSource(name, data)
	l := &loader{g: g, data: data, dir: dir, open: open, scan: newScanner(data)}
	if err := l.file(); err != nil {
		return nil, l.syntaxError(err)
	}
	l.resolve()
	if len(l.errs) == 0 {
		if err := g.Sort(); err != nil {
			l.add(err)
		}
	}
	if len(l.errs) > 0 {
		return nil, l.errs
	}
	return g, nil
}

type loader struct {
	g    *Graph
	data []byte
	dir  string
	open OpenConst
	scan *scanner
	errs Errors

	raw     []rawNode
	outputs []rawOutput
	seen    map[string]bool
}

type rawNode struct {
	node    *Node
	op      string
	inputs  []any
	outputs []string
}

type rawOutput struct {
	value string
	out   Output
}

func (l *loader) add(err error) {
	var one *Error
	if !errors.As(err, &one) {
		one = &Error{File: l.g.src.file, Err: err}
	}
	if len(l.errs) < maxErrors {
		l.errs = append(l.errs, one)
	}
}

func (l *loader) failAt(at int, format string, args ...any) {
	l.add(l.g.failAt(at, format, args...))
}

// syntaxError gives a decoder's error its place.
func (l *loader) syntaxError(err error) error {
	var se *jsontext.SyntacticError
	if errors.As(err, &se) {
		return Errors{l.g.failAt(int(se.ByteOffset), "%s", syntaxMessage(se))}
	}
	var pe *placeError
	if errors.As(err, &pe) {
		return append(l.errs, l.g.failAt(pe.at, "%v", pe.err))
	}
	return Errors{l.g.failAt(l.scan.at(), "%v", err)}
}

func syntaxMessage(se *jsontext.SyntacticError) string {
	msg := se.Err.Error()
	if p := string(se.JSONPointer); p != "" {
		msg += " at " + p
	}
	return "JSON: " + msg
}

// file reads the top-level object.
func (l *loader) file() error {
	required := map[string]bool{"version": true, "inputs": true, "nodes": true, "outputs": true}
	err := l.scan.object(func(key string, at int) error {
		delete(required, key)
		switch key {
		case "version":
			v, err := l.scan.value()
			if err == nil && v != int64(1) {
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
			return l.scan.array(l.output)
		}
		return l.unknown(key, at, "version, name, symbols, inputs, constants, nodes, outputs")
	})
	if err != nil {
		return err
	}
	if err := l.scan.end(); err != nil {
		return err
	}
	for _, key := range []string{"version", "inputs", "nodes", "outputs"} {
		if required[key] {
			l.failAt(0, "%q is missing", key)
		}
	}
	return nil
}

func (l *loader) unknown(key string, at int, want string) error {
	l.failAt(at, "unknown key %q: want one of %s", key, want)
	return l.scan.skip()
}

func (l *loader) symbols() error {
	l.g.Symbols = map[string]Bounds{}
	return l.scan.object(func(name string, at int) error {
		b := Bounds{Min: 0}
		err := l.scan.object(func(key string, at int) error {
			switch key {
			case "min":
				return l.scan.integer(&b.Min)
			case "max":
				return l.scan.integer(&b.Max)
			}
			return l.unknown(key, at, "min, max")
		})
		if b.Min < 0 || b.Max != 0 && b.Max < b.Min {
			l.failAt(at, "symbol %q: want 0 <= min <= max, got min %d and max %d", name, b.Min, b.Max)
		}
		l.g.Symbols[name] = b
		return err
	})
}

// node reads one node; names are resolved when all of the file is read.
func (l *loader) node(at int) error {
	n := &Node{Variant: -1, at: at}
	r := rawNode{node: n}
	err := l.scan.object(func(key string, at int) error {
		switch key {
		case "name":
			return l.scan.text(&n.Name)
		case "op":
			return l.scan.text(&r.op)
		case "inputs":
			v, err := l.scan.value()
			list, ok := v.([]any)
			if err == nil && !ok {
				l.failAt(at, "\"inputs\" must be a list")
			}
			r.inputs = list
			return err
		case "attrs":
			v, err := l.scan.value()
			m, ok := v.(map[string]any)
			if err == nil && !ok && v != nil {
				l.failAt(at, "\"attrs\" must be an object")
			}
			n.given = m
			return err
		case "outputs":
			return l.scan.array(func(at int) error {
				var s string
				err := l.scan.text(&s)
				r.outputs = append(r.outputs, s)
				return err
			})
		case "memory_format":
			return l.scan.format(l, &n.Pin)
		}
		return l.unknown(key, at, "name, op, inputs, attrs, outputs, memory_format")
	})
	l.raw = append(l.raw, r)
	return err
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
	err := l.scan.object(func(key string, at int) error {
		switch key {
		case "value":
			return l.scan.text(&r.value)
		case "name":
			return l.scan.text(&r.out.Name)
		case "memory_format":
			return l.scan.format(l, &r.out.Pin)
		}
		return l.unknown(key, at, "value, name, memory_format")
	})
	if r.out.Name == "" {
		r.out.Name = r.value
	}
	l.outputs = append(l.outputs, r)
	return err
}

// resolve ties names to values, finds ops, and decodes attributes.
func (l *loader) resolve() {
	g := l.g
	for i := range l.raw {
		l.declare(&l.raw[i])
	}
	for i := range l.raw {
		if err := l.complete(&l.raw[i]); err != nil {
			l.add(g.Fail(l.raw[i].node, err))
		}
	}
	names := map[string]bool{}
	for _, r := range l.outputs {
		v := g.values[r.value]
		switch {
		case v == nil:
			l.failAt(r.out.at, "output %q: there is no value %q", r.out.Name, r.value)
		case names[r.out.Name]:
			l.failAt(r.out.at, "two outputs are named %q", r.out.Name)
		}
		names[r.out.Name] = true
		r.out.Value = v
		g.Outputs = append(g.Outputs, r.out)
	}
}

// declare makes the node's output values known by name.
func (l *loader) declare(r *rawNode) {
	g, n := l.g, r.node
	switch {
	case n.Name == "":
		l.failAt(n.at, "node without a name")
		return
	case g.nodes[n.Name] != nil:
		l.failAt(n.at, "two nodes are named %q", n.Name)
		return
	}
	g.nodes[n.Name] = n
	g.Nodes = append(g.Nodes, n)
	if r.outputs == nil {
		r.outputs = []string{n.Name}
	}
	vals := make([]Value, len(r.outputs))
	for i, name := range r.outputs {
		v := &vals[i]
		*v = Value{Name: name, Node: n, Index: i, at: n.at}
		n.Out = append(n.Out, v)
		if name == "" || g.values[name] != nil {
			l.add(g.Fail(n, fmt.Errorf("two values are named %q", name)))
			continue
		}
		g.values[name] = v
	}
}

// complete finds the node's op and operands.
func (l *loader) complete(r *rawNode) error {
	g, n := l.g, r.node
	n.Op = g.lookup(r.op)
	if n.Op == nil {
		return fmt.Errorf("there is no op %q", r.op)
	}
	n.In = make([]Arg, len(r.inputs))
	for i, in := range r.inputs {
		switch x := in.(type) {
		case nil:
		case string:
			v := g.values[x]
			if v == nil {
				return fmt.Errorf("there is no value %q", x)
			}
			n.In[i] = Arg{Kind: TensorArg, Value: v}
		default:
			s, ok := tensor.ScalarOf(in)
			if !ok {
				return fmt.Errorf("input %d must be a value's name, a number or null", i)
			}
			n.In[i] = Arg{Kind: NumberArg, Number: s}
		}
	}
	if err := n.checkArity(); err != nil {
		return err
	}
	if len(g.Symbols) > 0 {
		return nil // decoded when the symbols are bound
	}
	a, err := n.Op.Schema.Decode(n.given, nil)
	n.Attrs = a
	return err
}
