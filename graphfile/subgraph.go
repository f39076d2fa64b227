package graphfile

import (
	"bytes"
	"slices"

	"github.com/graphrun/graphrun/graph"
)

// maxNesting bounds the depth of graphs within graphs.
const maxNesting = 64

// isGraph reports whether the attribute with the given name in schema s is a graph, such as the body of a loop.
func isGraph(s *graph.Schema, name string) bool {
	return slices.ContainsFunc(s.Fields, func(f graph.Field) bool { return f.Name == name && f.Type == "graph" })
}

// subgraph reads a graph that is an attribute. offset is its offset in the file. Such a graph has the form of a graph
// file, and cannot refer to values of the enclosing graph. subgraph adds the mistakes of the graph to l.
func (l *loader) subgraph(raw []byte, offset int) *graph.Graph {
	sub := newLoader(l.source, l.lookup, raw)
	sub.ctx, sub.baseOffset, sub.depth, sub.openConst = l.ctx, offset, l.depth+1, l.openConst
	sub.texts = l.texts
	if l.depth == maxNesting {
		l.failAt(offset, "graphs are nested more than %d deep", maxNesting)
		return sub.graph
	}
	sub.parse()
	if len(sub.errs) == 0 {
		err := sub.graph.BindWithoutInference(nil) // no sizes are given, so symbols get assumed sizes
		markDynamic(sub.graph)                     // even if err is set
		if err != nil {
			sub.errs = asErrors(err)
		} else if refused := sub.graph.InferAll(); len(refused) > 0 {
			sub.errs = rootErrors(sub.graph, refused)
		}
	}
	for _, e := range sub.errs {
		l.addError(e)
	}
	return sub.graph
}

// markDynamic marks inputs with symbolic sizes as dynamic, which means that their sizes are unknown. Each iteration of
// a loop may bind the symbols to other sizes, so inference must not reject the body because of an assumed size.
func markDynamic(g *graph.Graph) {
	for _, v := range g.Inputs {
		v.Dynamic = v.Dynamic || slices.ContainsFunc(v.Dims, func(d graph.Dim) bool { return !d.IsNumber() })
	}
}

// writeSubgraph writes a graph that is an attribute, indented. prefix precedes the keys of the graph's constants in the
// side file. The side file has the constants for which s.inSideFile returns true.
func (s *saver) writeSubgraph(g *graph.Graph, prefix string) error {
	sub := &saver{graph: g, indent: s.indent + "    ", keyPrefix: s.keyPrefix + prefix, dir: s.dir,
		sideFile: s.sideFile, inSideFile: s.inSideFile}
	var text bytes.Buffer
	if err := sub.save(&text); err != nil {
		return err
	}
	s.buf.Write(text.Bytes())
	s.names, s.data = append(s.names, sub.names...), append(s.data, sub.data...)
	s.wouldOverwrite = s.wouldOverwrite || sub.wouldOverwrite
	return nil
}
