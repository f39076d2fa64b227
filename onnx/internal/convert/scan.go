package convert

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// scanOp converts Scan. A scan iterates over slices of the scanned values. In each iteration, the body takes the states
// and one slice of each scanned value. It returns the next states and one slice of each result. The slices of a result
// are stacked. For example, a body that returns s+x as the next state and as a result computes running sums. The
// initial state 0 and the scanned vector [1, 2, 3] give the state 6 and the result [1, 3, 6].
//
// In operator set 8, Scan had a batch dimension and sequence lengths. Each row of the batch is scanned separately, and
// the results are stacked.
func scanOp(n *Node) []*Value {
	if n.Opset >= 9 {
		return n.scanOnce(n.In)
	}
	return n.scanBatch()
}

// scanBatch converts a Scan of operator set 8. The optional operand 0 has the number of steps for each row. The other
// steps of a row give zeros, as in ONNX Runtime.
func (n *Node) scanBatch() []*Value {
	operands := n.In[min(1, len(n.In)):]
	if len(operands) == 0 || operands[0] == nil || n.Rank(operands[0]) == 0 {
		n.Failf("operands are missing")
	}
	batch := n.knownSize(operands[0], 0)
	if batch < 1 || batch > maxUnrolled {
		n.Failf("a batch of %d is not supported: want 1 to %d", batch, maxUnrolled)
	}
	stateCount := len(operands) - n.Int("num_scan_inputs", 0)
	lengths := n.OperandOrNil(0)
	var results [][]any // by result and row
	for row := range batch {
		operandsOfRow := make([]*Value, len(operands))
		for i, v := range operands {
			if v == nil {
				n.Failf("operands are missing")
			}
			operandsOfRow[i] = n.Op("select", graph.Attrs{"dim": 0, "index": row}, v)
			if lengths != nil && i >= stateCount {
				attrs := graph.Attrs{"dim": 0, "start": 0, "length": n.IntAttr(n.Element(lengths, row))}
				operandsOfRow[i] = n.Op("narrow", attrs, operandsOfRow[i]).WithRank(n.Rank(v) - 1)
			}
		}
		for i, result := range n.scanOnce(operandsOfRow) {
			if row == 0 {
				results = append(results, nil)
			}
			if lengths != nil && i >= stateCount {
				result = n.withLength(result, n.knownSize(operands[len(operands)-1], 1))
			}
			results[i] = append(results[i], result)
		}
	}
	out := make([]*Value, len(results))
	for i, rows := range results {
		out[i] = n.Op("stack", graph.Attrs{"dim": 0}, rows...)
	}
	return out
}

// withLength appends zeros to x along dimension 0, which then has the given size.
func (n *Node) withLength(x *Value, length int) *Value {
	widths := make([]int, 2*n.Rank(x)) // pairs, of which the last is that of dimension 0
	widths[len(widths)-1] = length
	padded := n.Op("constant_pad_nd", graph.Attrs{"pad": widths}, x).WithRank(n.Rank(x))
	return n.Op("slice", graph.Attrs{"dim": 0, "end": length}, padded).WithRank(n.Rank(x))
}

// scan has the operands and attributes of a Scan without a batch.
type scan struct {
	*Node
	bodyProto *pb.GraphProto
	states    []*Value // the initial states

	// By scanned value.
	scanned    []*Value
	inAxes     []int  // the axis along which the value is sliced
	inBackward []bool // whether the value is sliced from its last index to its first

	// By result.
	outAxes     []int  // the axis along which the slices are stacked
	outBackward []bool // whether the slices are stacked in reverse order

	length        int // the number of iterations, if it is known; otherwise unspecified
	isLengthKnown bool
}

// scanOnce converts a scan without a batch. The operands are the initial states, then the scanned values. A scan of
// known and small length is unrolled, and otherwise becomes a node.
func (n *Node) scanOnce(operands []*Value) []*Value {
	s := n.readScan(operands)
	maxLength := n.frame.unrollBudget / max(len(s.bodyProto.Node), 1)
	if s.isLengthKnown && s.length >= 1 && s.length <= maxLength {
		return s.unrollScan()
	}
	varies := func(int) bool { return false } // the shapes are the same in all iterations
	bodyOperands := slices.Clone(s.states)
	for i, x := range s.scanned {
		bodyOperands = append(bodyOperands, n.sliceType(x, s.inAxes[i]))
	}
	body := n.convertBody(s.bodyProto, bodyOperands, varies)
	attrs := graph.Attrs{"body": body.importer.graph, "states": len(s.states), "num_scan_inputs": len(s.scanned),
		"scan_input_axes": s.inAxes, "scan_input_directions": s.inBackward,
		"scan_output_axes": s.outAxes, "scan_output_directions": s.outBackward}
	out := n.emitN("scan", len(body.out), attrs, n.operandsOf(operands, body.importer.captured)...)
	for i, result := range out { // the outline is the part of the type that is known before the run
		result.outline = body.outline(i)
		if i >= len(s.states) {
			result.outline = result.outline.Stacked(s.outAxes[i-len(s.states)])
		}
	}
	return out
}

// readScan reads the attributes of a scan, and checks the operands.
func (n *Node) readScan(operands []*Value) *scan {
	proto, scannedCount := n.body("body"), n.Int("num_scan_inputs", 0)
	stateCount := len(operands) - scannedCount
	if scannedCount < 1 || stateCount < 0 || len(proto.Input) != len(operands) || len(proto.Output) < stateCount ||
		slices.Contains(operands, nil) {
		n.Failf("a body with %d inputs and %d outputs does not suit %d operands, %d of them scanned", len(proto.Input),
			len(proto.Output), len(operands), scannedCount)
	}
	resultCount := len(proto.Output) - stateCount
	s := &scan{Node: n, bodyProto: proto, states: operands[:stateCount], scanned: operands[stateCount:],
		inBackward:  n.directionsOf("scan_input_directions", scannedCount),
		outBackward: n.directionsOf("scan_output_directions", resultCount), length: -1, isLengthKnown: true}
	if n.Opset < 9 {
		s.inBackward = n.directionsOf("directions", scannedCount)
	}
	s.inAxes = n.PerDim("scan_input_axes", scannedCount, 0)
	s.outAxes = n.PerDim("scan_output_axes", resultCount, 0)
	for i, x := range s.scanned {
		s.inAxes[i] = n.Axis(s.inAxes[i], n.Rank(x))
		s.isLengthKnown = s.isLengthKnown && n.IsStatic(x)
		if s.isLengthKnown && n.Rank(x) > 0 {
			s.length = n.Shape(x)[s.inAxes[i]]
		}
	}
	return s
}

// directionsOf reads an attribute with the directions of count values. True means backwards.
func (n *Node) directionsOf(name string, count int) []bool {
	out := make([]bool, count)
	for i, direction := range n.PerDim(name, count, 0) {
		out[i] = direction != 0
	}
	return out
}

// sliceType returns a value that has the type of a slice of x, which may have no slices. Only the type of the value is
// used.
func (n *Node) sliceType(x *Value, axis int) *Value {
	without := func(sizes []int) []int { return slices.Delete(slices.Clone(sizes), axis, axis+1) }
	slice := &graph.Value{Name: x.name, Dynamic: x.IsDynamic()}
	result := &Value{name: x.name, graphValue: slice, hasStrings: x.hasStrings}
	if sizes, ok := n.TrySizes(x); ok {
		result.WithSizes(x.DType(), without(sizes)...)
	}
	if shape := n.TrySymShape(x); shape != nil {
		n.shapes[slice] = slices.Delete(slices.Clone(shape), axis, axis+1)
	}
	if slice.Meta = (tensor.Meta{DType: x.DType()}); !slice.Dynamic {
		slice.Meta = tensor.New(x.DType(), without(x.Meta().Shape)...)
		slice.Type = slice.Meta.Type()
	}
	return result
}

// bodyOperands returns the operands of the body in an iteration, with the initial states.
func (s *scan) bodyOperands(iteration int) []*Value {
	list := slices.Clone(s.states)
	for i, x := range s.scanned {
		index := iteration
		if s.inBackward[i] {
			index = s.length - 1 - iteration
		}
		slice := s.Op("select", graph.Attrs{"dim": s.inAxes[i], "index": index}, x)
		list = append(list, slice.WithRank(s.Rank(x)-1))
	}
	return list
}

// unrollScan converts each iteration to nodes.
func (s *scan) unrollScan() []*Value {
	stateCount := len(s.states)
	// values are the states of the previous iteration. At the end they are the results.
	var values []*Value
	toStack := make([][]any, len(s.bodyProto.Output)-stateCount) // by result: the slice of each iteration
	for i := range s.length {
		operands := s.bodyOperands(i)
		if i > 0 {
			copy(operands, values)
		}
		out := s.convertIteration(s.bodyProto, operands, s.length)
		values = out[:stateCount:stateCount] // clipped, because the stacked results are appended
		for k, slice := range out[stateCount:] {
			toStack[k] = append(toStack[k], slice)
		}
	}
	for k, list := range toStack {
		if s.outBackward[k] {
			slices.Reverse(list)
		}
		values = append(values, s.Op("stack", graph.Attrs{"dim": s.outAxes[k]}, list...))
	}
	return values
}

// scanStep adds the nodes of one iteration. It returns the next state and a result.
type scanStep = func(n *Node, state *Value, rows []*Value) (nextState, result *Value)

// ScanRows applies step at each index of dimension 1 of rows. From the state and the slices of rows, step computes the
// next state and a result. ScanRows returns the last state, and the results stacked along dimension 1. A scan of known
// and small length is unrolled, and otherwise becomes a node. stepNodes is an upper bound on the number of nodes of a
// step.
func (n *Node) ScanRows(state *Value, rows []*Value, stepNodes int, step scanStep) []*Value {
	maxLength := n.frame.unrollBudget / stepNodes
	if length, known := n.SymShape(rows[0])[1].Known(); known && length >= 1 && length <= maxLength {
		results := make([]any, length)
		for i := range results {
			rowsAt := make([]*Value, len(rows))
			for k, x := range rows {
				rowsAt[k] = n.Op("select", graph.Attrs{"dim": 1, "index": i}, x)
			}
			state, results[i] = step(n, state, rowsAt)
		}
		return []*Value{state, n.Op("stack", graph.Attrs{"dim": 1}, results...)}
	}
	stepOperands := []*Value{state}
	for _, x := range rows {
		stepOperands = append(stepOperands, n.sliceType(x, 1))
	}
	nested := n.stepGraph(stepOperands, step)
	axes, count := make([]int, len(rows)), len(rows)
	for i := range axes {
		axes[i] = 1
	}
	attrs := graph.Attrs{"body": nested.importer.graph, "states": 1, "num_scan_inputs": count, "scan_input_axes": axes,
		"scan_input_directions": make([]bool, count), "scan_output_axes": []int{1}, "scan_output_directions": []bool{false}}
	out := n.emitN("scan", 2, attrs, n.operandsOf(append([]*Value{state}, rows...), nested.importer.captured)...)
	out[0].outline, out[1].outline = nested.outline(0), nested.outline(1).Stacked(1)
	return out
}

// stepGraph returns a nested graph with the nodes of one step. operands are the state and the rows of the first
// iteration.
func (n *Node) stepGraph(operands []*Value, step scanStep) *nestedGraph {
	nested := n.nestedGraph("step", n.hints)
	inner := nested.node(n)
	var inputs []*Value
	for i, x := range operands {
		const varies = false // the shape is the same in all iterations
		input, err := nested.importer.addOperandInput(string(rune('a'+i)), n, x, varies)
		if err != nil {
			n.Failf("%w", err)
		}
		inputs = append(inputs, input)
	}
	nextState, result := step(inner, inputs[0], inputs[1:])
	nested.out = []*Value{nextState, result}
	if err := nested.finish(); err != nil {
		n.Failf("%w", err)
	}
	return nested
}
