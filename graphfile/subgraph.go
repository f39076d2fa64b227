package graphfile

import (
	"bytes"
	"slices"

	"github.com/graphrun/graphrun/graph"
)

// maxNesting bounds graphs within graphs of a file.
const maxNesting = 64

// isGraph reports whether an attribute is a graph: the body of a loop, for one.
func isGraph(s *graph.Schema, name string) bool {
	return slices.ContainsFunc(s.Fields, func(f graph.Field) bool { return f.Name == name && f.Type == "graph" })
}

// subgraph reads a graph that is an attribute. It is written as a graph file is, is at
// offset at, and sees nothing of the graph around it. Its mistakes are the loader's.
func (l *loader) subgraph(raw []byte, at int) *graph.Graph {
	sub := newLoader(l.src, l.lookup, raw)
	sub.ctx, sub.base, sub.depth, sub.open = l.ctx, at, l.depth+1, l.open
	if l.depth == maxNesting {
		l.failAt(at, "graphs are nested more than %d deep", maxNesting)
		return sub.g
	}
	sub.parse()
	if len(sub.errs) == 0 {
		err := sub.g.BindOnly(nil)
		leaveOpen(sub.g)
		if err != nil {
			sub.errs = asErrors(err)
		} else if refused := sub.g.InferAll(); len(refused) > 0 {
			sub.errs = rootErrors(sub.g, refused)
		}
	}
	for _, e := range sub.errs {
		l.add(e)
	}
	return sub.g
}

// leaveOpen marks inputs with symbolic sizes as known only when the graph runs: each run of
// a loop's body may see others, and what no run may ever see must not be what it is refused
// for.
func leaveOpen(g *graph.Graph) {
	for _, v := range g.Inputs {
		v.Dynamic = v.Dynamic || slices.ContainsFunc(v.Dims, func(d graph.Dim) bool { return !d.IsNumber() })
	}
}

// subgraph writes a graph that is an attribute as [saver.save] does, further to the right.
// prefix is put before the keys of its constants in the side file.
func (s *saver) subgraph(g *graph.Graph, prefix string) error {
	sub := &saver{g: g, indent: s.indent + "    ", prefix: s.prefix + prefix, dir: s.dir, moved: s.moved,
		side: s.side, takes: s.takes}
	var text bytes.Buffer
	if err := sub.save(&text); err != nil {
		return err
	}
	s.buf.Write(text.Bytes())
	s.names, s.data = append(s.names, sub.names...), append(s.data, sub.data...)
	s.source = s.source || sub.source
	return nil
}
