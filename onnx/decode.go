package onnx

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts operators that process a sequence in parts. Their operands include the state after the earlier
// positions.

// tensorScatter converts TensorScatter, which writes an update into a cache along an axis. The update of a row of the
// batch starts at the row's position in operand 2, or at 0 without this operand.
func tensorScatter(n *node) []*val {
	cache, update := n.operand(0), n.operand(1)
	rank := n.rank(cache)
	axis := n.axis(n.int("axis", -2), rank)
	if axis == 0 || n.rank(update) != rank {
		n.failf("axis %d of operands with %d and %d dimensions is not supported", axis, rank, n.rank(update))
	}
	mode, updateSizes := n.text("mode", "linear"), n.symShape(update)
	if mode != "linear" && mode != "circular" {
		n.failf("mode %q is not supported", mode)
	}
	positions := n.indexVector(updateSizes[axis])
	if first := n.operandOrNil(2); first != nil {
		positions = n.op("add", nil, n.op("unsqueeze", graph.Attrs{"dim": 1}, n.cast(first, tensor.Int64)), positions)
	} else {
		positions = n.op("unsqueeze", graph.Attrs{"dim": 0}, positions)
	}
	if mode == "circular" {
		positions = n.op("remainder", nil, positions, n.integer(n.symShape(cache)[axis].Max(sym.Of(1))))
	}
	sizes := make([]sym.Int, rank)
	for i := range sizes {
		sizes[i] = sym.Of(1)
	}
	sizes[0], sizes[axis] = n.symShape(positions)[0], updateSizes[axis]
	index := n.op("expand", graph.Attrs{"size": n.sizeAttr(updateSizes...)}, n.reshapeFor(positions, sizes...))
	return one(n.op("scatter", graph.Attrs{"dim": axis}, cache, index, update))
}

// causalConv converts CausalConvWithState: a depthwise convolution over each position and the elements before it. The
// second output has the last elements of the operand, for the next call.
func causalConv(n *node) []*val {
	x, weight, past := n.operand(0), n.operand(1), n.operandOrNil(3)
	if n.rank(x) != 3 || n.rank(weight) != 3 {
		n.failf("operands 0 and 1 have %d and %d dimensions, want 3", n.rank(x), n.rank(weight))
	}
	state := n.symShape(weight)[2].Sub(sym.Of(1))
	if past != nil {
		x = n.op("cat", graph.Attrs{"dim": 2}, past, x)
	} else {
		x = n.padded(x, []sym.Int{{}, {}, state}, make([]sym.Int, 3), 0)
	}
	channels := n.symShape(weight)[:1]
	if _, known := channels[0].Known(); !known {
		channels = n.symShape(x)[1:2]
	}
	groups := n.numbers("the number of channels", channels)[0]
	out := []*val{n.op("conv1d", graph.Attrs{"groups": groups}, x, weight, n.operandOrNil(2)), nil}
	switch activation := n.text("activation", "none"); activation {
	case "none":
	case "silu", "swish":
		out[0] = n.op("silu", nil, out[0])
	default:
		n.failf("activation %q is not supported", activation)
	}
	if n.isOutputUsed(1) {
		end := n.symShape(x)[2]
		attrs := graph.Attrs{"dim": 2, "start": n.sizeAttrOf(end.Sub(state)), "end": n.sizeAttrOf(end)}
		out[1] = n.op("slice", attrs, x)
	}
	return out
}

// linearRule is the recurrence of a LinearAttention node.
type linearRule struct {
	decays, corrects bool
	groups           int // query heads for each head of keys
	scale            float64
}

// linearAttention converts LinearAttention to a scan over positions. The state of a head is a matrix, to which each
// position adds the product of its key and its value.
func linearAttention(n *node) []*val {
	q, k, v := n.operand(0), n.operand(1), n.operand(2)
	for i, x := range []*val{q, k, v} {
		if n.rank(x) != 3 {
			n.failf("operand %d has %d dimensions, want 3", i, n.rank(x))
		}
	}
	heads, kvHeads := n.int("q_num_heads", 0), n.int("kv_num_heads", 0)
	if heads < 1 || kvHeads < 1 || heads%kvHeads != 0 {
		n.failf("%d heads of queries cannot share %d heads of keys and values", heads, kvHeads)
	}
	rule := linearRule{groups: heads / kvHeads, scale: n.float("scale", 0)}
	switch name := n.text("update_rule", "gated_delta"); name {
	case "linear":
	case "gated", "delta", "gated_delta":
		rule.decays, rule.corrects = name != "delta", name != "gated"
	default:
		n.failf("update_rule %q is not supported", name)
	}
	if rule.decays != n.hasOperand(4) || rule.corrects != n.hasOperand(5) {
		n.failf("operands 4 (decay) and 5 (beta) do not suit the update_rule")
	}
	wide := func(x *val, heads int) *val { return n.cast(n.splitHeads(x, heads), tensor.Float32) }
	rows := []*val{wide(q, heads), wide(k, kvHeads), wide(v, kvHeads)}
	if rule.scale == 0 {
		size := n.symShape(rows[0])[3:]
		if _, known := size[0].Known(); !known {
			size = n.symShape(rows[1])[3:]
		}
		rule.scale = 1 / math.Sqrt(float64(max(n.numbers("the size of a head", size)[0], 1)))
	}
	if rule.decays {
		rows = append(rows, wide(n.operand(4), kvHeads))
	}
	if rule.corrects {
		beta := n.cast(n.operand(5), tensor.Float32)
		rows = append(rows, n.op("unsqueeze", graph.Attrs{"dim": 3}, beta))
	}
	dtype, state := q.dtype(), n.operandOrNil(3)
	if state == nil {
		sizes, e := n.symShape(rows[1]), n.symShape(rows[2])[3]
		size := n.sizeAttr(sizes[0], sizes[2], sizes[3], e)
		state = n.op("zeros", graph.Attrs{"size": size, "dtype": tensor.Float32})
	} else {
		dtype, state = state.dtype(), n.cast(state, tensor.Float32)
	}
	out := n.scanRows(state, rows, rule.step)
	y := n.op("mul", nil, out[1], rule.scale)
	sizes, size := n.symShape(q), n.symShape(v)[2].Mul(sym.Of(rule.groups))
	return []*val{n.cast(n.reshapeFor(y, sizes[0], sizes[1], size), q.dtype()), n.cast(out[0], dtype)}
}

// step returns the state after a position, and the result of the position. rows are tensors [batch, heads, elements]:
// queries, keys, values and, if the rule uses them, decay and beta.
func (rule linearRule) step(n *node, state *val, rows []*val) (*val, *val) {
	column := func(x *val) *val { return n.op("unsqueeze", graph.Attrs{"dim": 3}, x) }
	row := func(x *val) *val { return n.op("unsqueeze", graph.Attrs{"dim": 2}, x) }
	q, k, v, rest := rows[0], rows[1], rows[2], rows[3:]
	if rule.decays {
		state = n.op("mul", nil, state, column(n.op("exp", nil, rest[0])))
		rest = rest[1:]
	}
	v = row(v)
	if rule.corrects {
		v = n.op("mul", nil, n.op("sub", nil, v, n.op("matmul", nil, row(k), state)), column(rest[0]))
	}
	state = n.op("add", nil, state, n.op("mul", nil, column(k), v))
	sizes, e := n.symShape(state), n.symShape(v)[3]
	q = n.reshapeFor(q, sizes[0], sizes[1], sym.Of(rule.groups), sizes[2])
	y := n.op("matmul", nil, q, state)
	return state, n.reshapeFor(y, sizes[0], sizes[1].Mul(sym.Of(rule.groups)), e)
}

// scanRows applies step to each index of dimension 1 of rows. It returns the last state, and the results stacked along
// dimension 1.
func (n *node) scanRows(state *val, rows []*val, step func(n *node, state *val, rows []*val) (*val, *val)) []*val {
	rowsAt := func(i int) (list []*val) {
		for _, x := range rows {
			list = append(list, n.op("select", graph.Attrs{"dim": 1, "index": i}, x))
		}
		return list
	}
	const stepNodes = 16 // upper bound on the number of nodes of a step
	if length, known := n.symShape(rows[0])[1].Known(); known && length >= 1 && length <= n.frame.unrollBudget/stepNodes {
		results := make([]any, length)
		for i := range results {
			state, results[i] = step(n, state, rowsAt(i))
		}
		return []*val{state, n.op("stack", graph.Attrs{"dim": 1}, results...)}
	}
	nested := n.nestedGraph("step")
	f := *n.frame
	f.depth++
	inner := &node{importer: nested.importer, scope: &scope{importer: nested.importer, outerScope: n.scope,
		values: map[string]*val{}}, frame: &f, proto: n.proto, attrs: n.attrs}
	var operands []*val
	for i, x := range append([]*val{state}, rowsAt(0)...) {
		v, err := nested.importer.addOperandInput(string(rune('a'+i)), n, x, false)
		if err != nil {
			n.failf("%w", err)
		}
		operands = append(operands, v)
	}
	last, result := step(inner, operands[0], operands[1:])
	nested.out = []*val{last, result}
	if err := nested.close(); err != nil {
		n.failf("%w", err)
	}
	axes, count := make([]int, len(rows)), len(rows)
	for i := range axes {
		axes[i] = 1
	}
	attrs := graph.Attrs{"body": nested.importer.graph, "states": 1, "num_scan_inputs": count, "scan_input_axes": axes,
		"scan_input_directions": make([]bool, count), "scan_output_axes": []int{1}, "scan_output_directions": []bool{false}}
	out := n.emitN("scan", 2, attrs, n.operandsOf(append([]*val{state}, rows...), nested.importer.captured)...)
	out[0].outline, out[1].outline = nested.outline(0), nested.outline(1).Stacked(1)
	return out
}
