package program

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// PreRunFacts has the facts about values that are known before a run, for a graph with shapes that depend on data. Such
// a graph is divided into segments, which are planned one after another: a segment is a set of nodes that is planned
// and run as soon as its inputs are known, or one node whose results determine shapes, such as nonzero. A nil
// *PreRunFacts stands for a graph in which all shapes are known.
type PreRunFacts struct {
	segmentList []graph.Segment
	segmentOf   graph.ByValue[int] // 1 + the index of the segment that produces the value
	unbacked    *graph.Symbolic    // the graph in which sizes that depend on data are symbols
}

// NewPreRunFacts returns the facts of an inferred graph, or nil if all shapes are known.
func NewPreRunFacts(g *graph.Graph) *PreRunFacts {
	if g == nil || !g.Dynamic() {
		return nil
	}
	facts := &PreRunFacts{segmentList: g.Segments(), segmentOf: graph.NewByValue[int](g), unbacked: g.Unbacked()}
	for i, segment := range facts.segmentList {
		for _, n := range segment.Nodes {
			for _, v := range n.Out {
				if facts.segmentOf.At(v) == 0 {
					facts.segmentOf.Set(v, i+1)
				}
			}
		}
	}
	return facts
}

// Sizes returns the shape of a value, or nil if its rank is unknown.
func (facts *PreRunFacts) Sizes(v *graph.Value) report.Sizes {
	switch {
	case v == nil:
		return nil
	case !v.Dynamic:
		list := make(report.Sizes, len(v.Meta.Shape))
		for i, n := range v.Meta.Shape {
			list[i].N = n
		}
		return list
	case facts == nil:
		return nil
	}
	if shape := facts.unbacked.Graph.Value(v.Name).Type.Shape; shape != nil {
		return report.SizesOf(shape)
	}
	return nil
}

// Unbacked returns the graph in which sizes that depend on data are symbols ([graph.Graph.Unbacked]). It returns nil
// for a nil *PreRunFacts.
func (facts *PreRunFacts) Unbacked() *graph.Symbolic {
	if facts == nil {
		return nil
	}
	return facts.unbacked
}

// DType returns the dtype of a value, or Invalid if the dtype is unknown.
func (facts *PreRunFacts) DType(v *graph.Value) tensor.DType {
	switch {
	case v == nil:
		return tensor.Invalid
	case v.Dynamic && !v.Meta.DType.Valid() && facts != nil:
		return facts.unbacked.Graph.Value(v.Name).Type.DType
	}
	return v.Meta.DType
}

// Segment returns the index of the first segment that produces a value. It returns false if no segment does.
func (facts *PreRunFacts) Segment(v *graph.Value) (int, bool) {
	if facts == nil || v == nil {
		return 0, false
	}
	i := facts.segmentOf.At(v)
	return i - 1, i > 0
}

// FirstShapeNode returns the first node whose results determine shapes, or nil if there is no such node.
func (facts *PreRunFacts) FirstShapeNode() *graph.Node {
	if facts != nil {
		for _, s := range facts.segmentList {
			if s.Dynamic { // a segment of one node, which determines shapes
				return s.Nodes[0]
			}
		}
	}
	return nil
}

// describeSegments describes the segments. planned is the index of the segment that is planned before the run.
func (facts *PreRunFacts) describeSegments(planned int) []report.Segment {
	list := make([]report.Segment, len(facts.segmentList))
	for i := range facts.segmentList {
		segment := &facts.segmentList[i]
		list[i] = report.Segment{Segment: i, Planned: planned == i, DecidesShapes: segment.Dynamic,
			After:  NotNil(segment.After),
			Nodes:  mapList(segment.Nodes, func(n *graph.Node) string { return n.Name }),
			Awaits: mapList(segment.AttrInputs, func(v *graph.Value) string { return v.Name }),
			Inputs: mapList(segment.In, facts.describeValue), Outputs: mapList(segment.Out, facts.describeValue)}
	}
	return list
}

// describeValue describes a value that passes between segments.
func (facts *PreRunFacts) describeValue(v *graph.Value) report.SegmentValue {
	described := report.SegmentValue{Name: v.Name, Shape: facts.Sizes(v)}
	if dtype := facts.DType(v); dtype.Valid() {
		name := dtype.String()
		described.DType = &name
	}
	return described
}
