package graph

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file divides a graph whose shapes depend on data into segments, and makes a graph of each segment. A dynamic
// node, such as nonzero, computes results whose shapes depend on data. Nodes that depend on these shapes can be planned
// only after the dynamic node has run. Each node is therefore assigned to a round. Round 0 has the nodes that depend on
// no dynamic node. At the end of each round the dynamic nodes of the round run, one after another. Nodes that are not
// dynamic and depend on their results are in the next round. Each dynamic node is a separate segment. All other nodes
// of a round form one segment. For example, this graph has the five segments [a, b], [i], [c], [u] and [y]:
//
//	a = relu(x)         round 0
//	b = neg(a)          round 0
//	i = nonzero(a)      round 0, dynamic
//	c = add(i, 1)       round 1
//	u = unique(c)       round 1, dynamic
//	y = mul(u, 2)       round 2
//
// A node depends on its operands ([Node.In]) and on the values to which its attributes refer ([ValueRef]). An attribute
// must be known when its node is planned. Node.dependency(i) returns these values; operands come first.

// Segment is a part of a graph whose shapes depend on data. It is a single dynamic node, or a set of nodes that are
// planned and run together when the values that they read are known. A Segment does not depend on the data.
// [Segment.At] makes the segment's graph for given values.
type Segment struct {
	Nodes []*Node // in the order of the graph
	// In lists the values that the segment reads as operands and does not compute: inputs of the graph and results of
	// earlier segments. AttrInputs lists the values that it reads as attributes. Both lists omit constants.
	In, AttrInputs []*Value
	Out            []*Value // results that later segments or outputs of the graph read
	After          []int    // ascending indices of the earlier segments that compute In and AttrInputs
	Dynamic        bool     // the segment is one node of an op with [Op.RunDynamic]

	graph        *Graph
	readsOffsets bool // an op of the segment depends on the offset of an operand within its storage
	types        *segmentTypes
}

// Segments divides the graph into segments, and returns them in an order in which they can run. The graph must be
// sorted and inferred. Nodes on which no output depends are omitted. Each node is in the earliest possible round. A
// node that depends only on constants is in each segment that reads its results, so that planning can fold it there.
func (g *Graph) Segments() []Segment {
	nodes := g.neededNodes()
	s := segmenter{graph: g, stages: NewByValue[stageOfValue](g)}
	for _, n := range nodes {
		s.setStage(n)
	}
	s.findConstantRounds(nodes)
	return s.formSegments(nodes)
}

// neededNodes returns the nodes that outputs depend on, in order.
func (g *Graph) neededNodes() []*Node {
	live := NewByValue[bool](g)
	for _, output := range g.Outputs {
		live.Set(output.Value, true)
	}
	var nodes []*Node
	for _, n := range slices.Backward(g.Nodes) {
		if slices.ContainsFunc(n.Out, func(v *Value) bool { return live.At(v) }) {
			nodes = append(nodes, n)
			for i := range n.dependencyCount() {
				live.Set(n.dependency(i), true)
			}
		}
	}
	slices.Reverse(nodes)
	return nodes
}

// stageOfValue has the round in which a value is computed. It is zero for inputs and constants.
type stageOfValue struct {
	round      int
	isDynamic  bool // a dynamic node computes the value, at the end of the round
	isConstant bool // depends only on constants
}

// segmenter is the state of [Graph.Segments]. Segments first assigns a stage to each value and then forms the segments.
type segmenter struct {
	graph     *Graph
	stages    ByValue[stageOfValue] // a map from values, set by setStage
	lastRound int                   // greatest round of a value; set by setStage
	// constantRounds lists, for each node that depends only on constants, the rounds in which other nodes read its
	// results. The rounds are ascending after findConstantRounds.
	constantRounds map[*Node][]int
}

// setStage sets the stage of a node's results.
func (s *segmenter) setStage(n *Node) {
	stage := stageOfValue{isDynamic: n.isDynamic()}
	stage.isConstant = !stage.isDynamic
	for i := range n.dependencyCount() {
		v, isAttr := n.dependency(i), i >= len(n.In)
		if v == nil || v.Const != nil {
			continue
		}
		dependency := s.stages.At(v)
		stage.isConstant = stage.isConstant && dependency.isConstant && !isAttr
		firstRound := dependency.round
		// A dynamic node runs at the end of its round, and can read all values of the round. Other nodes are planned at
		// the start of their round. Planning needs their attributes, and the results of dynamic nodes that they read.
		// Inputs of the graph are known before round 0.
		isReadByPlanning := !stage.isDynamic && (dependency.isDynamic || isAttr)
		if isReadByPlanning && v.Node != nil {
			firstRound++
		}
		stage.round = max(stage.round, firstRound)
	}
	s.lastRound = max(s.lastRound, stage.round)
	for _, v := range n.Out {
		s.stages.Set(v, stage)
	}
}

// isDynamic reports whether the node is dynamic. Before inference, it is not known whether a node is dynamic. If the
// node has a kernel, isDynamic assumes that it is not. If the assumption is wrong, the graph of the node's segment has
// dynamic shapes ([Graph.Dynamic]), and this graph is divided into segments, too.
func (n *Node) isDynamic() bool {
	if n.Op == nil || n.Op.RunDynamic == nil {
		return false
	}
	if n.needsData() { // the node is not yet inferred
		return n.Op.Compile == nil && len(n.Op.Impls) == 0
	}
	return len(n.Out) > 0 && n.Out[0].Dynamic
}

// stageOf returns the stage of a node's results.
func (s *segmenter) stageOf(n *Node) stageOfValue {
	if len(n.Out) == 0 {
		return stageOfValue{}
	}
	return s.stages.At(n.Out[0]) // all results have the same stage
}

// findConstantRounds sets constantRounds. A node that depends only on constants is in the rounds of the nodes that read
// it. If an output, a dynamic node or an attribute needs the node, the node is in round 0.
func (s *segmenter) findConstantRounds(nodes []*Node) {
	s.constantRounds = map[*Node][]int{}
	for _, output := range s.graph.Outputs {
		s.addConstantRounds(output.Value, 0)
	}
	for _, n := range slices.Backward(nodes) {
		stage := s.stageOf(n)
		if stage.isConstant {
			sorted.Ints(s.constantRounds[n]) // complete: the loop has visited all nodes that read n
			s.constantRounds[n] = slices.Compact(s.constantRounds[n])
		}
		for i := range n.dependencyCount() {
			switch v, isAttr := n.dependency(i), i >= len(n.In); {
			case stage.isConstant:
				s.addConstantRounds(v, s.constantRounds[n]...)
			case stage.isDynamic || isAttr:
				s.addConstantRounds(v, 0)
			default:
				s.addConstantRounds(v, stage.round)
			}
		}
	}
}

// addConstantRounds adds rounds in which v is read, if the node of v depends only on constants.
func (s *segmenter) addConstantRounds(v *Value, rounds ...int) {
	if v != nil && v.Node != nil && s.stages.At(v).isConstant {
		s.constantRounds[v.Node] = append(s.constantRounds[v.Node], rounds...)
	}
}

// formSegments returns the segments of the nodes, whose stages are known.
func (s *segmenter) formSegments(nodes []*Node) []Segment {
	static, dynamic := make([][]*Node, s.lastRound+1), make([][]*Node, s.lastRound+1)
	for _, n := range nodes {
		switch stage := s.stageOf(n); {
		case stage.isDynamic:
			dynamic[stage.round] = append(dynamic[stage.round], n)
		case stage.isConstant:
			for _, round := range s.constantRounds[n] {
				static[round] = append(static[round], n)
			}
		default:
			static[stage.round] = append(static[stage.round], n)
		}
	}
	var segments []Segment
	types := &segmentTypes{}
	for round := range static {
		if len(static[round]) > 0 {
			segments = append(segments, Segment{Nodes: static[round], graph: s.graph, types: types})
		}
		for i := range dynamic[round] {
			segments = append(segments, Segment{Nodes: dynamic[round][i : i+1 : i+1], Dynamic: true, graph: s.graph,
				types: types})
		}
	}
	connectSegments(s.graph, segments)
	return segments
}

// connectSegments sets In, AttrInputs, Out and After of all segments. Several segments may compute a value that depends
// only on constants. A segment that reads the value takes it from the last earlier segment that computes it.
func connectSegments(g *Graph, segments []Segment) {
	connector := segmentConnector{segments: segments, computedIn: NewByValue[int](g), exportedBy: NewByValue[int](g),
		lastReader: make([]int, len(segments))}
	for i := range segments {
		connector.connect(i)
	}
	for _, output := range g.Outputs {
		connector.export(output.Value)
	}
}

// segmentConnector is the state of connectSegments. It stores indices of segments plus 1, so that 0 means none.
type segmentConnector struct {
	segments   []Segment
	computedIn ByValue[int] // for each value, the last connected segment that computes it
	exportedBy ByValue[int] // for each value, the segment whose Out has it
	lastReader []int        // for each segment, the last segment that lists it in After
}

// connect sets In, AttrInputs and After of segment i, and adds the values that it reads to Out of earlier segments.
func (connector *segmentConnector) connect(i int) {
	segment := &connector.segments[i]
	segment.readsOffsets = segment.Dynamic // a RunDynamic function may depend on offsets
	computed, listedIn, listedAttrs := map[*Value]bool{}, map[*Value]bool{}, map[*Value]bool{}
	for _, n := range segment.Nodes {
		segment.readsOffsets = segment.readsOffsets || n.Op.ReadsStorage
		for k := range n.dependencyCount() {
			v, isAttr := n.dependency(k), k >= len(n.In)
			list, listed := &segment.In, listedIn
			if isAttr {
				list, listed = &segment.AttrInputs, listedAttrs
			}
			isFromOutside := v != nil && v.Const == nil && !computed[v]
			if !isFromOutside || listed[v] {
				continue
			}
			listed[v] = true
			*list = append(*list, v)
			if source := connector.export(v); source >= 0 && connector.lastReader[source] != i+1 {
				connector.lastReader[source] = i + 1
				segment.After = append(segment.After, source)
			}
		}
		for _, v := range n.Out {
			computed[v] = true
		}
	}
	for v := range computed {
		connector.computedIn.Set(v, i+1)
	}
	sorted.Ints(segment.After)
}

// export adds v to Out of the segment that computes v, if v is not yet there. It returns the index of this segment, or
// -1 if no connected segment computes v.
func (connector *segmentConnector) export(v *Value) (source int) {
	source = connector.computedIn.At(v) - 1
	if source >= 0 && connector.exportedBy.At(v) != source+1 {
		connector.exportedBy.Set(v, source+1)
		connector.segments[source].Out = append(connector.segments[source].Out, v)
	}
	return source
}

// At returns the segment as an inferred graph with the given context ([Graph.SetContext]). known has the tensors of In
// and AttrInputs, and of the inputs of the whole graph that have symbols. The inputs of the new graph are In, with the
// same names and layouts. If no op depends on offsets, their offsets are 0. The outputs are Out. If inference rejects a
// node, At returns the graph with the error, so that [Graph.InferAll] can continue.
func (s *Segment) At(ctx context.Context, known map[*Value]*tensor.Tensor) (*Graph, error) {
	if s.graph == nil {
		return nil, errNoSegment
	}
	metaOf := func(v *Value) (tensor.Meta, error) {
		t := known[v]
		if t == nil {
			return tensor.Meta{}, fmt.Errorf("value %q is not known", v.Name)
		}
		meta := t.Meta
		if !s.readsOffsets {
			meta.Offset = 0
		}
		return meta, nil
	}
	dataOf := func(v *Value) *tensor.Tensor { return cmp.Or(v.Const, known[v]) }
	return s.makeGraph(ctx, segmentInputs{metaOf: metaOf, dataOf: dataOf, sizes: s.graph.sizesBoundBy(known)})
}

// sizesBoundBy returns the sizes of symbols. The shapes of the known inputs determine sizes. A symbol that does not
// occur in these shapes has the size that is bound in the graph.
func (g *Graph) sizesBoundBy(known map[*Value]*tensor.Tensor) map[string]sym.Int {
	sizes := g.sizes
	for _, v := range g.Inputs {
		if t := known[v]; v.Dims != nil && t != nil {
			sizes = v.bindTo(t.Shape, sizes)
		}
	}
	return sizes
}

var errNoSegment = errors.New("the segment was not made by Graph.Segments")

// segmentInputs describes the inputs for which the graph of a segment is made.
type segmentInputs struct {
	metaOf func(*Value) (tensor.Meta, error) // returns the dtype and layout of a value in Segment.In
	dataOf func(v *Value) *tensor.Tensor     // returns the tensor of an attribute's value; nil if it is not known
	sizes  map[string]sym.Int                // sizes of the symbols of the graph
	// symbols has the symbols of a graph that is made for all their sizes. Then declOf replaces metaOf, and the graph is
	// not inferred.
	symbols map[string]Bounds
	declOf  func(*Value) Decl
}

// makeGraph returns the graph of a segment for the given inputs. The graph is inferred, unless it has symbols.
func (s *Segment) makeGraph(ctx context.Context, inputs segmentInputs) (*Graph, error) {
	g := s.graph
	built := New(g.Name, g.lookup)
	built.sizes, built.ctx = inputs.sizes, ctx
	built.assumed, built.warnings, built.folded = g.assumed, g.warnings, g.folded // assumed sizes; folded constants
	built.packedFrom = g.packedFrom
	built.nodeCount, built.rejected = g.nodeCount, map[int32]error{} // copied nodes keep their numbers
	if g.places != nil {
		built.places = nodePlaces{g.places} // positions of nodes in the model's file, for errors
	}
	if inputs.symbols != nil {
		built.Symbols = inputs.symbols
		built.assumeSizes()
	}
	importer := segmentImporter{graph: built, inputs: inputs, copies: map[*Value]*Value{}}
	for _, n := range s.Nodes {
		copied, err := importer.copyOf(n)
		if err != nil {
			return nil, g.NodeError(n, err)
		}
		importer.addCopy(copied, n)
	}
	for _, v := range s.Out {
		output, err := importer.importValue(v)
		if err != nil {
			return nil, err
		}
		built.Output(v.Name, output)
	}
	for i := range built.Outputs {
		built.Outputs[i].WholeBase = g.ReadsStorage()
	}
	if err := built.Err(); err != nil {
		return nil, err
	}
	if inputs.symbols != nil {
		return built, nil
	}
	if s.Dynamic { // the node runs as it is, even if its number of iterations is known only now
		return built, built.Infer()
	}
	return built, built.inlineAndInfer()
}

// segmentImporter copies nodes and values to the graph of a segment.
type segmentImporter struct {
	graph  *Graph
	inputs segmentInputs
	copies map[*Value]*Value // the copies so far
}

// importValue returns the copy of a value. If there is no copy, it adds one as a constant or an input.
func (importer segmentImporter) importValue(v *Value) (*Value, error) {
	if imported := importer.copies[v]; imported != nil {
		return imported, nil
	}
	var imported *Value
	if v.Const != nil {
		imported = importer.graph.Constant(v.Name, v.Const)
	} else if importer.inputs.declOf != nil {
		imported = importer.graph.InputDecl(v.Name, importer.inputs.declOf(v))
	} else if meta, err := importer.inputs.metaOf(v); err != nil {
		return nil, err
	} else {
		imported = importer.graph.InputMeta(v.Name, meta)
	}
	if v.Node == nil {
		imported.Pin = v.Pin
	}
	importer.copies[v] = imported
	return imported, nil
}

// copyOf returns a copy of node n without outputs. Invalid attributes are not an error here, because inference reports
// them.
func (importer segmentImporter) copyOf(n *Node) (*Node, error) {
	copied := &Node{Name: n.Name, Op: n.Op, Pin: n.Pin, number: n.number, In: slices.Clone(n.In)}
	for i := range copied.In {
		if v := copied.In[i].Value; v != nil {
			operand, err := importer.importValue(v)
			if err != nil {
				return nil, err
			}
			copied.In[i].Value = operand
		}
	}
	given, isComplete, err := n.undecoded.withData(importer.inputs.dataOf) // data replace ValueRefs
	switch {
	case err != nil:
		importer.graph.rejected[copied.number] = err
	case !isComplete:
		return nil, errors.New("the value of an attribute is not known")
	default:
		copied.undecoded = attributesOf(given)
		copied.Attrs, _ = n.Op.Schema.Decode(given, importer.graph.sizes)
	}
	return copied, nil
}

// addCopy adds the copy of node n to the graph, with results that have the names of n's results.
func (importer segmentImporter) addCopy(copied, n *Node) {
	for i, v := range n.Out {
		result := &Value{Name: v.Name, Node: copied, Index: i, graph: importer.graph}
		copied.Out = append(copied.Out, result)
		importer.graph.register(result)
		importer.copies[v] = result
	}
	importer.graph.nameIndex().addNode(copied)
	importer.graph.Nodes = append(importer.graph.Nodes, copied)
}

// Without returns the segment without the nodes that depend on unavailable values, and adds the results of these nodes
// to unavailable.
func (s *Segment) Without(unavailable map[*Value]bool) Segment {
	remaining := *s
	if len(unavailable) == 0 {
		return remaining
	}
	remaining.Nodes = nil
	for _, n := range s.Nodes {
		switch {
		case n == nil:
		case n.unavailableDependency(unavailable) == nil:
			remaining.Nodes = append(remaining.Nodes, n)
		default:
			for _, v := range n.Out {
				unavailable[v] = true
			}
		}
	}
	isUnavailable := func(v *Value) bool { return unavailable[v] }
	remaining.Out = slices.DeleteFunc(slices.Clone(s.Out), isUnavailable)
	remaining.In = slices.DeleteFunc(slices.Clone(s.In), isUnavailable)
	remaining.AttrInputs = slices.DeleteFunc(slices.Clone(s.AttrInputs), isUnavailable)
	return remaining
}

// Class returns a key for the known values. If two lists of known values have the same key, [Segment.At] returns equal
// graphs for them. The key contains the dtypes, shapes and strides of In, the elements of AttrInputs, and the sizes of
// symbols. It contains the offsets of In if an op depends on them.
func (s *Segment) Class(known map[*Value]*tensor.Tensor) string {
	var key []byte
	for _, v := range s.In {
		t := known[v]
		if t == nil {
			key = append(key, 0xff)
			continue
		}
		key = appendShape(key, t)
		for _, stride := range t.Strides {
			key = binary.AppendVarint(key, int64(stride))
		}
		if s.readsOffsets {
			key = binary.AppendVarint(key, int64(t.Offset))
		}
	}
	for _, v := range s.AttrInputs {
		if t := known[v]; t != nil {
			key = appendShape(key, t)
			if t.Numel() <= maxAttrElements { // At rejects any larger tensor
				rowMajor := t.CopyTo(tensor.New(t.DType, t.Shape...))
				key = append(key, rowMajor.Storage().Bytes()[:rowMajor.Bytes()]...)
			}
		}
	}
	if s.graph == nil {
		return string(key)
	}
	for _, v := range s.graph.Inputs {
		if t := known[v]; t != nil && v.Dims != nil { // the shape determines sizes of symbols
			key = appendShape(key, t)
		}
	}
	return string(key)
}

// appendShape appends the dtype and the shape of a tensor to a key.
func appendShape(key []byte, t *tensor.Tensor) []byte {
	key = append(key, byte(t.DType), byte(len(t.Shape)))
	for _, size := range t.Shape {
		key = binary.AppendVarint(key, int64(size))
	}
	return key
}
