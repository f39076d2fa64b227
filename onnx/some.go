package onnx

import (
	"errors"
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// A model can be read past what is wrong in it. A node that cannot be converted becomes one that
// inference refuses, and so does what reads its results: the graph then is like one that
// graphfile.ParseSome has read, and whoever drops what is refused has the rest. What a node runs as a
// graph of its own, and a loop that is written out, is converted as a whole or not at all.

// LoadSome is [Load] that goes on past what is wrong: see [Model.GraphSome].
func LoadSome(path string, o Options) (*graph.Graph, graph.Errors, error) {
	m, err := Open(path)
	if err != nil {
		return nil, nil, err
	}
	return m.GraphSome(o)
}

// GraphSome is [Model.Graph] that goes on past what is wrong. A node that cannot be converted, or
// reads what cannot be had, is refused by inference ([graph.Graph.InferAll]) under its name and
// operator. The mistakes of initializers, inputs and outputs that cannot be had, which the graph
// then lacks, are returned beside it. The error is that of a model of which nothing can be
// converted.
func (m *Model) GraphSome(o Options) (*graph.Graph, graph.Errors, error) {
	o.some = true
	r, err := m.read(o)
	if err != nil {
		return nil, nil, err
	}
	return r.g, r.missing, nil
}

// dependency is the error of what reads a value that cannot be had.
type dependency struct{ on *val }

// Error names the value.
func (d *dependency) Error() string {
	if d.on.v != nil {
		return fmt.Sprintf("depends on %q, which was refused", d.on.v.Name)
	}
	return fmt.Sprintf("depends on %s %q, which cannot be read", d.on.lack, d.on.name)
}

// miss notes that an initializer or an input cannot be had.
func (im *importer) miss(s *scope, what, name string, err error) {
	_ = im.g.TakeErr()
	im.missing = append(im.missing, &graph.Error{Err: about(what, name, err)})
	s.vals[name] = &val{name: name, kind: isLost, lack: what}
}

// about puts before an error what it is of, unless it begins so.
func about(what, name string, err error) error {
	if title := fmt.Sprintf("%s %q: ", what, name); !strings.HasPrefix(err.Error(), title) {
		return fmt.Errorf("%s%w", title, err)
	}
	return err
}

// missOutput notes that an output cannot be had.
func (im *importer) missOutput(name string, err error) {
	_ = im.g.TakeErr()
	im.missing = append(im.missing, im.g.FailOutput(graph.Output{Name: name}, err))
}

// lose puts a node that inference refuses in the place of this one, of which some outputs cannot
// be made.
func (n *node) lose(err error, outputs []string) {
	_ = n.g.TakeErr() // what its converter has left
	var operands []*graph.Value
	var d *dependency
	if errors.As(err, &d) && d.on.v != nil {
		operands = []*graph.Value{d.on.v}
	} else {
		n.refused++
	}
	for i, v := range n.g.Refuse(nameOf(n.proto), n.proto.OpType, outputs, err, operands...) {
		if i >= len(outputs) || outputs[i] == "" || n.scope.vals[outputs[i]] != nil {
			continue
		}
		n.named[v] = true
		n.scope.vals[outputs[i]] = &val{name: outputs[i], v: v, kind: isLost}
	}
}

// goesOn reports whether an error costs no more than the node, or the initializer, that it is of.
func (f *frame) goesOn(err error) bool { return f.some && !errors.As(err, new(limit)) }

// attempt is convert that takes it for a mistake of the node, where such cost no more than that,
// if there is not enough memory.
func (n *node) attempt(domain string) (out []*val, err error) {
	if n.frame.some {
		defer tensor.CatchMemory(&err)
	}
	return n.convert(domain)
}

// enter gives the outputs of a node their names.
func (n *node) enter(out []*val) error {
	for i, name := range n.proto.Output {
		var err error
		switch {
		case name == "":
		case i >= len(out) || out[i] == nil:
			err = fmt.Errorf("output %d (%q) is not supported", i, name)
		case n.scope.vals[name] != nil:
			err = fmt.Errorf("two values are named %q", name)
		default:
			n.scope.vals[name] = out[i]
			n.importer.name(out[i], name)
		}
		switch {
		case err == nil:
		case n.frame.some:
			n.lose(err, []string{name})
		default:
			return err
		}
	}
	return nil
}

// weightOf is [Model.weight] for which too little memory is an error.
func (im *importer) weightOf(t *pb.TensorProto, f *frame) (_ *tensor.Tensor, err error) {
	if f.some {
		defer tensor.CatchMemory(&err)
	}
	return im.model.weight(t)
}

// rebindSome is rebind for a graph of which inference refuses a part.
func rebindSome(g *graph.Graph, sizes map[string]int) error {
	if len(g.Symbols) == 0 {
		return nil
	}
	refused := len(g.InferAll())
	if err := g.BindOnly(nil); err == nil && len(g.InferAll()) <= refused {
		return nil
	}
	if err := g.BindOnly(sizes); err != nil {
		return err
	}
	g.InferAll()
	for name, n := range sizes {
		g.Assume(name, n) // nobody gave them
	}
	return nil
}
