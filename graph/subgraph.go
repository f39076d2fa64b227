package graph

import (
	"bytes"
	"slices"
)

// maxNesting bounds graphs within graphs of a file.
const maxNesting = 64

// isGraph reports whether the attribute is a graph: the body of a loop, for one.
func (s *Schema) isGraph(name string) bool {
	i, ok := s.byName[name]
	return ok && s.Fields[i].Type == "graph"
}

// subgraph reads a graph that is an attribute. It is written as a graph file is, stands at
// offset at, and sees nothing of the graph around it. Its mistakes are the loader's.
func (l *loader) subgraph(raw []byte, at int) *Graph {
	g := New("", l.g.lookup)
	g.src = l.g.src
	if l.depth == maxNesting {
		l.failAt(at, "graphs are nested more than %d deep", maxNesting)
		return g
	}
	sub := &loader{g: g, data: raw, base: at, depth: l.depth + 1, dir: l.dir, open: l.open}
	sub.parse()
	if len(sub.errs) == 0 {
		err := g.BindOnly(nil)
		g.leaveOpen()
		if err != nil {
			sub.errs = asErrors(err)
		} else if refused := g.InferAll(); len(refused) > 0 {
			sub.errs = g.rootErrors(refused)
		}
	}
	for _, e := range sub.errs {
		l.add(e)
	}
	return g
}

// leaveOpen marks inputs with symbolic sizes as known only when the graph runs: each run of
// a loop's body may see others, and what no run may ever see must not be what it is refused
// for.
func (g *Graph) leaveOpen() {
	for _, v := range g.Inputs {
		v.Dynamic = v.Dynamic || slices.ContainsFunc(v.Dims, func(d Dim) bool { return d.Symbol != "" })
	}
}

// subgraph writes a graph that is an attribute as [saver.save] does, further to the right.
// prefix is put before the keys of its constants in the side file.
func (s *saver) subgraph(g *Graph, prefix string) error {
	sub := &saver{g: g, indent: s.indent + "    ", prefix: s.prefix + prefix, dir: s.dir, moved: s.moved, side: s.side, takes: s.takes}
	var text bytes.Buffer
	if err := sub.save(&text); err != nil {
		return err
	}
	s.buf.Write(text.Bytes())
	s.names, s.data = append(s.names, sub.names...), append(s.data, sub.data...)
	s.source = s.source || sub.source
	return nil
}
