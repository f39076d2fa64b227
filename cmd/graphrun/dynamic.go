package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
)

// sizeDoc is a size: a number, or a name where data decide.
type sizeDoc struct {
	n    int
	name string
}

// String prints it as it stands in shapes.
func (s sizeDoc) String() string {
	if s.name != "" {
		return s.name
	}
	return strconv.Itoa(s.n)
}

// MarshalJSONTo writes the number, or the name.
func (s sizeDoc) MarshalJSONTo(e *jsontext.Encoder) error {
	if s.name != "" {
		return e.WriteToken(jsontext.String(s.name))
	}
	return e.WriteToken(jsontext.Int(int64(s.n)))
}

// schema describes it to schemaOf.
func (sizeDoc) schema() map[string]any {
	return map[string]any{"anyOf": []any{map[string]any{"type": "integer"}, map[string]any{"type": "string",
		"description": "Where data decide: u0, u1 ..., each another, though two may turn out equal."}}}
}

// shapeText prints sizes in one word, and what is not even known to have some as a question mark.
func shapeText(sizes []sizeDoc) string {
	if sizes == nil {
		return "?"
	}
	words := make([]string, len(sizes))
	for i, s := range sizes {
		words[i] = s.String()
	}
	return "[" + strings.Join(words, ",") + "]"
}

// unfixed tells of the values of a graph whose shapes depend on data.
type unfixed struct {
	segments []graph.Segment
	of       graph.ByValue[int] // by value: 1 + the segment that makes it
	planned  int                // 1 + the segment that is planned ahead; 0 for none
	known    *graph.ByValue[graph.Outline]
	shapes   graph.ByValue[listOrNull[sizeDoc]] // of values whose shapes depend on data
}

// refuse says of a graph whose shapes depend on data what cannot be done with it, and the first node that
// decides some.
func (u *unfixed) refuse(g *graph.Graph, what string) error {
	for _, s := range u.segments {
		if s.Eager {
			return g.Fail(s.Nodes[0], fmt.Errorf("shapes depend on data, its result's first: %s", what))
		}
	}
	return fmt.Errorf("shapes depend on data: %s", what)
}

// newUnfixed returns nil for a graph whose shapes are all known.
func newUnfixed(g *graph.Graph) *unfixed {
	if g == nil || !g.Dynamic() {
		return nil
	}
	u := &unfixed{segments: g.Segments(), of: graph.NewByValue[int](g), known: g.Outlines(),
		shapes: graph.NewByValue[listOrNull[sizeDoc]](g)}
	u.name(g)
	for i, s := range u.segments {
		for _, n := range s.Nodes {
			for _, v := range n.Out {
				if u.of.At(v) == 0 {
					u.of.Set(v, i+1)
				}
			}
		}
	}
	return u
}

// ahead returns the segment that can be planned before the graph runs; without one, a graph of no nodes.
func (u *unfixed) ahead(g *graph.Graph) (*graph.Graph, error) {
	for i := range u.segments {
		if s, err := u.segments[i].Ahead(); s != nil || err != nil {
			u.planned = i + 1
			return s, err
		}
	}
	return graph.New(g.Name, kernels.Lookup), nil
}

// segmentDoc is what plan says of a segment.
type segmentDoc struct {
	Segment int        `json:"segment" doc:"Its place in the order in which they run."`
	Nodes   []string   `json:"nodes" doc:"Its nodes."`
	Planned bool       `json:"planned" doc:"Whether its plan is here: others are made in runs."`
	Decides bool       `json:"decides_shapes" doc:"Whether it is one node whose results decide shapes."`
	After   []int      `json:"after" doc:"The segments that make what it waits for."`
	Inputs  []knownDoc `json:"inputs" doc:"The operands that it waits for."`
	Awaits  []string   `json:"awaits" doc:"The values that attributes are read from."`
	Outputs []knownDoc `json:"outputs" doc:"What it makes for others, or for outputs."`
}

// knownDoc is what is known of a value.
type knownDoc struct {
	Name  string              `json:"name" doc:"The name of the value."`
	DType textOrNull          `json:"dtype" of:"dtype" doc:"Its elements' type; null if unknown."`
	Shape listOrNull[sizeDoc] `json:"shape" doc:"Its sizes; null if unknown."`
}

// docs describes the segments; nil where there are none.
func (u *unfixed) docs() []segmentDoc {
	if u == nil {
		return nil
	}
	list := make([]segmentDoc, len(u.segments))
	for i := range u.segments {
		s := &u.segments[i]
		d := segmentDoc{Segment: i, Planned: u.planned == i+1, Decides: s.Eager, After: filled(s.After), Nodes: []string{},
			Inputs: u.knownDocs(s.In), Awaits: []string{}, Outputs: u.knownDocs(s.Out)}
		for _, n := range s.Nodes {
			d.Nodes = append(d.Nodes, n.Name)
		}
		for _, v := range s.Awaits {
			d.Awaits = append(d.Awaits, v.Name)
		}
		list[i] = d
	}
	return list
}

func (u *unfixed) knownDocs(vs []*graph.Value) []knownDoc {
	list := make([]knownDoc, len(vs))
	for i, v := range vs {
		list[i] = knownDoc{v.Name, u.dtype(v), u.sizes(v)}
	}
	return list
}

// writeSegments prints the segments of a graph that has some.
func writeSegments(w io.Writer, show display, segments []segmentDoc) {
	if len(segments) == 0 {
		return
	}
	fmt.Fprintln(w, "\n"+show.paint(strong, "Segments"))
	t := newTable(wholeCol("segment"), phraseCol("nodes", 20), wholeCol("planned"), wholeCol("after"),
		phraseCol("waits for", 16), phraseCol("gives", 16))
	for _, s := range segments {
		planned := "in a run"
		if s.Planned {
			planned = "here"
		} else if s.Decides {
			planned = "-"
		}
		waits := make([]string, 0, len(s.Inputs)+len(s.Awaits))
		for _, v := range s.Inputs {
			waits = append(waits, v.Name)
		}
		for _, name := range s.Awaits {
			waits = append(waits, name+" (attribute)")
		}
		gives := make([]string, len(s.Outputs))
		for i, v := range s.Outputs {
			gives[i] = fmt.Sprintf("%s %s%s", v.Name, cmp.Or(v.DType, "?"), shapeText(v.Shape))
		}
		t.add(s.Segment, someOf(s.Nodes), planned, ints(s.After), someOf(waits), someOf(gives))
	}
	t.write(w, show)
}

// someOf names the first things of a list.
func someOf(list []string) string {
	const most = 4
	if more := len(list) - most; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), more)
	}
	return strings.Join(list, ", ")
}

// segment is the place of the segment that makes a value; nil where none does.
func (u *unfixed) segment(v *graph.Value) *int {
	if u == nil || u.of.At(v) == 0 {
		return nil
	}
	i := u.of.At(v) - 1
	return &i
}

// sizes are those of a value; nil where not even their number is known.
func (u *unfixed) sizes(v *graph.Value) listOrNull[sizeDoc] {
	switch {
	case !v.Dynamic:
		return sizesOf(v.Meta.Shape)
	case u == nil:
		return nil
	}
	return u.shapes.At(v)
}

// name names the sizes that data decide, in the order of the values.
func (u *unfixed) name(g *graph.Graph) {
	named := 0
	g.Values(func(v *graph.Value) {
		known := u.known.At(v).Sizes
		if !v.Dynamic || known == nil {
			return
		}
		list := sizesOf(known)
		for i, n := range known {
			if n < 0 {
				list[i].name = fmt.Sprint("u", named)
				named++
			}
		}
		u.shapes.Set(v, list)
	})
}

func sizesOf(shape []int) listOrNull[sizeDoc] {
	list := make(listOrNull[sizeDoc], len(shape))
	for i, n := range shape {
		list[i].n = n
	}
	return list
}

// dtype is that of a value; empty where it is not known.
func (u *unfixed) dtype(v *graph.Value) textOrNull {
	d := v.Meta.DType
	if v.Dynamic && !d.Valid() && u != nil {
		d = u.known.At(v).DType
	}
	if !d.Valid() {
		return ""
	}
	return textOrNull(d.String())
}
