package view

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
)

// dot returns the picture in Graphviz's language. An item of the tree under root is a box or a group of items. Open
// groups become clusters, and folded groups become boxes.
func (p *picture) dot(root *item, horizontal bool) []byte {
	w := dotWriter{scene: &scene{picture: p, root: root}, names: map[int]string{}}
	fmt.Fprintf(&w, "digraph %s {\n  node [shape=box];\n", quoteDOT(p.title))
	if horizontal {
		w.WriteString("  rankdir=LR;\n")
	}
	w.writeGroup(root, "  ", "")
	drawn := map[string]bool{} // boxes of two folded groups may have several lines, which are drawn once
	for _, value := range p.values {
		for _, to := range value.to {
			arrow := fmt.Sprintf("  %s -> %s;\n", w.names[value.from], w.names[to])
			if w.names[value.from] != w.names[to] && !drawn[arrow] {
				drawn[arrow] = true
				w.WriteString(arrow)
			}
		}
	}
	w.WriteString("}\n")
	return w.Bytes()
}

// dotWriter writes a picture in Graphviz's language.
type dotWriter struct {
	bytes.Buffer
	*scene
	names  map[int]string // the Graphviz node of each box; boxes of a folded group have the same node
	groups int            // the number of clusters so far
}

// writeGroup writes the items of an open group. indent is the indentation of the lines. scope is the common prefix of
// names in the enclosing group.
func (w *dotWriter) writeGroup(it *item, indent, scope string) {
	if it.scope != "" {
		scope = it.scope
	}
	names := w.scene.names(it, scope)
	for i, child := range it.items {
		text := w.itemBox(child, names[i])
		if child.isOpen {
			w.groups++
			fmt.Fprintf(w, "%ssubgraph cluster%d {\n%s  label=%s;\n", indent, w.groups, indent, quoteDOT(text.frameLabel))
			w.writeGroup(child, indent+"  ", scope)
			fmt.Fprintf(w, "%s}\n", indent)
			continue
		}
		name := fmt.Sprintf("n%d", child.from) // the first box of an item is in no other item
		style := map[boxKind]string{groupBox: ", peripheries=2", inputBox: ", style=rounded", outputBox: ", style=rounded",
			viewBox: ", style=dotted", omittedBox: ", style=dotted", copyBox: ", style=dashed"}[text.kind]
		fmt.Fprintf(w, "%s%s [label=%s%s];\n", indent, name, quoteDOT(slices.Concat(text.heads, text.lines)...), style)
		w.setNode(child, name)
	}
}

// setNode sets the Graphviz node of all boxes of an item.
func (w *dotWriter) setNode(it *item, name string) {
	if it.box >= 0 {
		w.names[it.box] = name
	}
	for _, child := range it.items {
		w.setNode(child, name)
	}
}

// quoteDOT returns lines as a string of Graphviz's language.
func quoteDOT(lines ...string) string {
	for i, line := range lines {
		line = strings.ToValidUTF8(format.Printable(line), "\ufffd")
		lines[i] = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(line)
	}
	return `"` + strings.Join(lines, `\n`) + `"`
}
