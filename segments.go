package graphrun

import (
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Size is a size, a stride or an offset: a number, or an expression over symbols, u0, u1 ... where data decide.
type Size struct {
	N    int
	Name string // the expression; sizes with different names may turn out equal
}

// String prints it as it is in shapes.
func (s Size) String() string {
	if s.Name != "" {
		return s.Name
	}
	return strconv.Itoa(s.N)
}

// MarshalJSON returns the number, or the name.
func (s Size) MarshalJSON() ([]byte, error) { return s.append(nil), nil }

func (s Size) append(b []byte) []byte {
	if s.Name != "" {
		return strconv.AppendQuote(b, s.Name)
	}
	return strconv.AppendInt(b, int64(s.N), 10)
}

// Sizes are a shape; nil where not even their number is known, which in JSON is null.
type Sizes []Size

// String prints the list in one word: "[2,N]", or "?" for nil.
func (s Sizes) String() string {
	if s == nil {
		return "?"
	}
	words := make([]string, len(s))
	for i, n := range s {
		words[i] = n.String()
	}
	return "[" + strings.Join(words, ",") + "]"
}

// MarshalJSON returns the list, or null.
func (s Sizes) MarshalJSON() ([]byte, error) {
	if s == nil {
		return []byte("null"), nil
	}
	b := []byte{'['}
	for i, n := range s {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = n.append(b)
	}
	return append(b, ']'), nil
}

// JSONSchema describes the size for schemas of documents.
func (Size) JSONSchema() map[string]any {
	return map[string]any{"anyOf": []any{map[string]any{"type": "integer"}, map[string]any{"type": "string",
		"description": "An expression over symbols, which are u0, u1 ... where data decide. Two of these may turn out " +
			"equal."}}}
}

// JSONSchema describes the list for schemas of documents.
func (Sizes) JSONSchema() map[string]any {
	items := Size{}.JSONSchema()
	return map[string]any{"anyOf": []any{map[string]any{"type": "array", "items": items}, map[string]any{"type": "null"}}}
}

// SegmentReport is a part of a graph whose shapes depend on data: it is planned when all that it waits for is
// known, for every set of layouts and sizes that comes.
type SegmentReport struct {
	Segment int           `json:"segment" doc:"Its place in the order in which they run."`
	Nodes   []string      `json:"nodes" doc:"Its nodes."`
	Planned bool          `json:"planned" doc:"Whether its plan is here: others are made in runs."`
	Decides bool          `json:"decides_shapes" doc:"Whether it is one node whose results decide shapes."`
	After   []int         `json:"after" doc:"The segments that make what it waits for."`
	Inputs  []KnownReport `json:"inputs" doc:"The operands that it waits for."`
	Awaits  []string      `json:"awaits" doc:"The values that attributes are read from."`
	Outputs []KnownReport `json:"outputs" doc:"What it makes for others, or for outputs."`
}

// KnownReport is what is known of a value before the graph runs.
type KnownReport struct {
	Name  string  `json:"name" doc:"The name of the value."`
	DType *string `json:"dtype" of:"dtype" doc:"Its elements' type; null if unknown."`
	Shape Sizes   `json:"shape" doc:"Its sizes; null if unknown."`
}

// Known tells what is known, before it runs, of the values of a graph whose shapes depend on data. A nil one is
// of a graph whose shapes are all known.
type Known struct {
	list     []graph.Segment
	of       graph.ByValue[int] // by value: 1 + the segment that makes it
	unbacked *graph.Symbolic
}

// KnownOf returns what is known of an inferred graph; nil for one whose shapes are all known.
func KnownOf(g *graph.Graph) *Known {
	if g == nil || !g.Dynamic() {
		return nil
	}
	k := &Known{list: g.Segments(), of: graph.NewByValue[int](g), unbacked: g.Unbacked()}
	for i, s := range k.list {
		for _, n := range s.Nodes {
			for _, v := range n.Out {
				if k.of.At(v) == 0 {
					k.of.Set(v, i+1)
				}
			}
		}
	}
	return k
}

// SizesOf returns sizes as documents have them: numbers, or expressions over symbols. It is not nil.
func SizesOf(list []sym.Int) Sizes {
	sizes := make(Sizes, len(list))
	for i, s := range list {
		n, known := s.Known()
		if sizes[i].N = n; !known {
			sizes[i].Name = s.String()
		}
	}
	return sizes
}

func numbers(shape []int) Sizes {
	list := make(Sizes, len(shape))
	for i, n := range shape {
		list[i].N = n
	}
	return list
}

// Sizes returns those of a value; nil where not even their number is known.
func (k *Known) Sizes(v *graph.Value) Sizes {
	switch {
	case v == nil:
		return nil
	case !v.Dynamic:
		return numbers(v.Meta.Shape)
	case k == nil:
		return nil
	}
	if shape := k.unbacked.Graph.Value(v.Name).Type.Shape; shape != nil {
		return SizesOf(shape)
	}
	return nil
}

// Unbacked returns the graph in which sizes that data decide are symbols ([graph.Graph.Unbacked]); nil for a nil k.
func (k *Known) Unbacked() *graph.Symbolic {
	if k == nil {
		return nil
	}
	return k.unbacked
}

// DType returns that of a value; Invalid where it is not known.
func (k *Known) DType(v *graph.Value) tensor.DType {
	switch {
	case v == nil:
		return tensor.Invalid
	case v.Dynamic && !v.Meta.DType.Valid() && k != nil:
		return k.unbacked.Graph.Value(v.Name).Type.DType
	}
	return v.Meta.DType
}

// Segment returns the place of the segment that makes a value first; false where none does.
func (k *Known) Segment(v *graph.Value) (int, bool) {
	if k == nil || v == nil {
		return 0, false
	}
	i := k.of.At(v)
	return i - 1, i > 0
}

// Decides returns the first node whose results decide shapes; nil where none does.
func (k *Known) Decides() *graph.Node {
	if k != nil {
		for _, s := range k.list {
			if s.Eager {
				return s.Nodes[0]
			}
		}
	}
	return nil
}

// segments describes the segments, of which one was planned.
func (k *Known) segments(planned int) []SegmentReport {
	list := make([]SegmentReport, len(k.list))
	for i := range k.list {
		s := &k.list[i]
		list[i] = SegmentReport{Segment: i, Planned: planned == i, Decides: s.Eager, After: filled(s.After),
			Nodes:  mapped(s.Nodes, func(n *graph.Node) string { return n.Name }),
			Awaits: mapped(s.Awaits, func(v *graph.Value) string { return v.Name }),
			Inputs: mapped(s.In, k.report), Outputs: mapped(s.Out, k.report)}
	}
	return list
}

func (k *Known) report(v *graph.Value) KnownReport {
	r := KnownReport{Name: v.Name, Shape: k.Sizes(v)}
	if d := k.DType(v); d.Valid() {
		name := d.String()
		r.DType = &name
	}
	return r
}
