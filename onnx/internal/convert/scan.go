package convert

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
)

// scanOp converts Scan. In operator set 8, Scan had a batch dimension and sequence lengths: each row of the batch is
// scanned on its own, and the results are stacked.
func scanOp(n *Node) []*Value {
	if n.Opset >= 9 {
		return n.scanOnce(n.In)
	}
	if n.HasOperand(0) {
		n.Failf("lengths of sequences are not supported")
	}
	operands := n.In[min(1, len(n.In)):]
	if len(operands) == 0 || operands[0] == nil || n.Rank(operands[0]) == 0 {
		n.Failf("operands are missing")
	}
	batch := n.knownSize(operands[0], 0)
	if batch < 1 || batch > maxUnrolled {
		n.Failf("a batch of %d is not supported: want 1 to %d", batch, maxUnrolled)
	}
	var lists [][]any
	for row := range batch {
		operandsOfRow := make([]*Value, len(operands))
		for i, v := range operands {
			if v == nil {
				n.Failf("operands are missing")
			}
			operandsOfRow[i] = n.Op("select", graph.Attrs{"dim": 0, "index": row}, v)
		}
		for i, result := range n.scanOnce(operandsOfRow) {
			if row == 0 {
				lists = append(lists, nil)
			}
			lists[i] = append(lists[i], result)
		}
	}
	out := make([]*Value, len(lists))
	for i, list := range lists {
		out[i] = n.Op("stack", graph.Attrs{"dim": 0}, list...)
	}
	return out
}

// directionsOf reads an attribute with the directions of count values. True means backwards.
func (n *Node) directionsOf(name string, count int) []bool {
	out := make([]bool, count)
	for i, d := range n.PerDim(name, count, 0) {
		out[i] = d != 0
	}
	return out
}

// scanOnce converts a scan without a batch. The operands are the initial states, then the scanned values. In each
// iteration, the body takes one slice of each scanned value. The body returns the states, then slices of the stacked
// results. A scan of known and small length is unrolled, and otherwise becomes a node.
func (n *Node) scanOnce(operands []*Value) []*Value {
	proto := n.body("body")
	scannedCount := n.Int("num_scan_inputs", 0)
	stateCount := len(operands) - scannedCount
	if scannedCount < 1 || stateCount < 0 || len(proto.Input) != len(operands) || len(proto.Output) < stateCount ||
		slices.Contains(operands, nil) {
		n.Failf("a body with %d inputs and %d outputs does not suit %d operands, %d of them scanned", len(proto.Input),
			len(proto.Output), len(operands), scannedCount)
	}
	inBackward, outBackward := n.directionsOf("scan_input_directions", scannedCount),
		n.directionsOf("scan_output_directions", len(proto.Output)-stateCount)
	if n.Opset < 9 {
		inBackward = n.directionsOf("directions", scannedCount)
	}
	inAxes := n.PerDim("scan_input_axes", scannedCount, 0)
	outAxes := n.PerDim("scan_output_axes", len(proto.Output)-stateCount, 0)
	length, known := -1, true
	for k := range scannedCount {
		x := operands[stateCount+k]
		inAxes[k] = n.Axis(inAxes[k], n.Rank(x))
		known = known && n.IsStatic(x)
		if known && n.Rank(x) > 0 {
			length = n.Shape(x)[inAxes[k]]
		}
	}
	// slicesAt returns the operands of the body in iteration i, with the initial states.
	slicesAt := func(i int) []*Value {
		bodyOperands := slices.Clone(operands[:stateCount])
		for k := range scannedCount {
			index := i
			if inBackward[k] {
				index = length - 1 - i
			}
			bodyOperands = append(bodyOperands, n.Op("select", graph.Attrs{"dim": inAxes[k], "index": index},
				operands[stateCount+k]).WithRank(n.Rank(operands[stateCount+k])-1))
		}
		return bodyOperands
	}
	if known && length >= 1 && length <= n.frame.unrollBudget/max(len(proto.Node), 1) {
		return n.unrolledScan(proto, length, stateCount, slicesAt, outAxes, outBackward)
	}
	body := n.convertBody(proto, slicesAt(0), func(int) bool { return false })
	attrs := graph.Attrs{"body": body.importer.graph, "states": stateCount, "num_scan_inputs": scannedCount,
		"scan_input_axes": inAxes, "scan_input_directions": inBackward,
		"scan_output_axes": outAxes, "scan_output_directions": outBackward}
	out := n.emitN("scan", len(body.out), attrs, n.operandsOf(operands, body.importer.captured)...)
	for i, result := range out {
		if result.partialType = body.outline(i); i >= stateCount {
			result.partialType = result.partialType.Stacked(outAxes[i-stateCount])
		}
	}
	return out
}

// unrolledScan converts each iteration of a scan to nodes. axes and backward are the axes and directions of the stacked
// results.
func (n *Node) unrolledScan(proto *pb.GraphProto, length, stateCount int, slicesAt func(int) []*Value, axes []int,
	backward []bool) []*Value {
	var values []*Value
	collected := make([][]any, len(proto.Output)-stateCount)
	for i := range length {
		operands := slicesAt(i)
		if i > 0 {
			copy(operands, values)
		}
		out := n.convertIteration(proto, operands, length)
		values = out[:stateCount:stateCount] // clipped, because the stacked results are appended
		for k, v := range out[stateCount:] {
			collected[k] = append(collected[k], v)
		}
	}
	for k, list := range collected {
		if backward[k] {
			slices.Reverse(list)
		}
		values = append(values, n.Op("stack", graph.Attrs{"dim": axes[k]}, list...))
	}
	return values
}

// ScanRows applies step to each index of dimension 1 of rows: the state and the slices of rows give the next state and
// a result. It returns the last state, and the results stacked along dimension 1. A scan of known and small length is
// unrolled, and otherwise becomes a node.
func (n *Node) ScanRows(state *Value, rows []*Value,
	step func(n *Node, state *Value, rows []*Value) (*Value, *Value)) []*Value {
	rowsAt := func(i int) (list []*Value) {
		for _, x := range rows {
			list = append(list, n.Op("select", graph.Attrs{"dim": 1, "index": i}, x))
		}
		return list
	}
	const stepNodes = 16 // upper bound on the number of nodes of a step
	if length, known := n.SymShape(rows[0])[1].Known(); known && length >= 1 && length <= n.frame.unrollBudget/stepNodes {
		results := make([]any, length)
		for i := range results {
			state, results[i] = step(n, state, rowsAt(i))
		}
		return []*Value{state, n.Op("stack", graph.Attrs{"dim": 1}, results...)}
	}
	nested := n.nestedGraph("step")
	bodyFrame := *n.frame
	bodyFrame.depth++
	inner := &Node{importer: nested.importer, scope: &scope{importer: nested.importer, outerGraphScope: n.scope,
		values: map[string]*Value{}}, frame: &bodyFrame, proto: n.proto, attrs: n.attrs}
	var operands []*Value
	for i, x := range append([]*Value{state}, rowsAt(0)...) {
		const varies = false // the shape is the same in all iterations
		v, err := nested.importer.addOperandInput(string(rune('a'+i)), n, x, varies)
		if err != nil {
			n.Failf("%w", err)
		}
		operands = append(operands, v)
	}
	nextState, result := step(inner, operands[0], operands[1:])
	nested.out = []*Value{nextState, result}
	if err := nested.finish(); err != nil {
		n.Failf("%w", err)
	}
	axes, count := make([]int, len(rows)), len(rows)
	for i := range axes {
		axes[i] = 1
	}
	attrs := graph.Attrs{"body": nested.importer.graph, "states": 1, "num_scan_inputs": count, "scan_input_axes": axes,
		"scan_input_directions": make([]bool, count), "scan_output_axes": []int{1}, "scan_output_directions": []bool{false}}
	out := n.emitN("scan", 2, attrs, n.operandsOf(append([]*Value{state}, rows...), nested.importer.captured)...)
	out[0].partialType, out[1].partialType = nested.outline(0), nested.outline(1).Stacked(1)
	return out
}
