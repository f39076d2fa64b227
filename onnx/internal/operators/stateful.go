package operators

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts operators that process a sequence in several calls, some positions in each call. One operand is
// the state after the positions of the earlier calls, and one result the state after the positions of this call. For
// example, a decoder first calls with the 100 positions of the prompt, and then once for each new position.
//
// A value is a tensor of the model, and node.Op adds an op to the graph. A sym.Int is a size: a number, or an
// expression over symbols.

// tensorScatter converts TensorScatter, which writes an update into a cache along an axis. Operand 2 has, for each row
// of the batch, the position in the cache at which the update of this row starts. Without operand 2, all updates start
// at position 0. In mode circular, positions are taken modulo the size of the cache.
func tensorScatter(n *node) []*value {
	cache, update := n.Operand(0), n.Operand(1)
	rank := n.Rank(cache)
	axis := n.Axis(n.Int("axis", -2), rank)
	if axis == 0 || n.Rank(update) != rank {
		n.Failf("axis %d of operands with %d and %d dimensions is not supported", axis, rank, n.Rank(update))
	}
	mode, updateSizes := n.Text("mode", "linear"), n.SymShape(update)
	if mode != "linear" && mode != "circular" {
		n.Failf("mode %q is not supported", mode)
	}
	positions := n.IndexVector(updateSizes[axis])
	if first := n.OperandOrNil(2); first != nil {
		positions = n.Op("add", nil, n.Op("unsqueeze", graph.Attrs{"dim": 1}, n.Cast(first, tensor.Int64)), positions)
	} else {
		positions = n.Op("unsqueeze", graph.Attrs{"dim": 0}, positions)
	}
	if mode == "circular" {
		cacheSize := n.SymShape(cache)[axis].Max(sym.Of(1)) // at least 1: a remainder by 0 is undefined
		positions = n.Op("remainder", nil, positions, n.SizeOperand(cacheSize))
	}
	// positions, [batch or 1, update positions], is broadcast to the shape of the update.
	sizes := slices.Repeat([]sym.Int{sym.Of(1)}, rank)
	sizes[0], sizes[axis] = n.SymShape(positions)[0], updateSizes[axis]
	index := n.Op("expand", graph.Attrs{"size": n.SizesAttr(updateSizes...)}, n.ReshapeSym(positions, sizes...))
	return single(n.Op("scatter", graph.Attrs{"dim": axis}, cache, index, update))
}

// causalConv converts CausalConvWithState: a depthwise convolution of [batch, channels, positions] over each position
// and the n-1 positions before it, where n is the size of the kernel. The n-1 positions before operand 0 are the state
// (operand 3), or zeros if it is absent. Output 1 is the next state: the last n-1 positions of the concatenation of the
// state and operand 0.
func causalConv(n *node) []*value {
	x, weight, state := n.Operand(0), n.Operand(1), n.OperandOrNil(3)
	if n.Rank(x) != 3 || n.Rank(weight) != 3 {
		n.Failf("operands 0 and 1 have %d and %d dimensions, want 3", n.Rank(x), n.Rank(weight))
	}
	stateLength := n.SymShape(weight)[2].Sub(sym.Of(1))
	if state != nil {
		x = n.Op("cat", graph.Attrs{"dim": 2}, state, x)
	} else {
		x = padded(n, x, []sym.Int{{}, {}, stateLength}, make([]sym.Int, 3), 0)
	}
	// The channels are known from the weight or from x.
	channels := n.SymShape(weight)[:1]
	if _, known := channels[0].Known(); !known {
		channels = n.SymShape(x)[1:2]
	}
	groups := n.KnownNumbers("the number of channels", channels)[0]
	outputs := make([]*value, 2)
	if groups > 0 {
		// The padding has ONNX's form, with which there may be no positions.
		attrs := graph.Attrs{"groups": groups, "padding": []int{0, 0}}
		outputs[0] = n.Op("conv1d", attrs, x, weight, n.OperandOrNil(2))
	} else { // no channels: only the shape matters
		outputs[0] = n.Op("slice", graph.Attrs{"dim": 2, "start": n.SizeAttr(stateLength)}, x)
	}
	switch activation := n.Text("activation", "none"); activation {
	case "none":
	case "silu", "swish":
		outputs[0] = n.Op("silu", nil, outputs[0])
	default:
		n.Failf("activation %q is not supported", activation)
	}
	if n.IsOutputUsed(1) {
		end := n.SymShape(x)[2]
		attrs := graph.Attrs{"dim": 2, "start": n.SizeAttr(end.Sub(stateLength)), "end": n.SizeAttr(end)}
		outputs[1] = n.Op("slice", attrs, x)
	}
	return outputs
}

// linearAttention converts LinearAttention to a scan over positions. The state of a head is a matrix, to which each
// position adds the outer product of its key and its value. Operands 0 to 5 are queries, keys, values, and optionally
// the state, decay and beta. The outputs are the results of all positions and the last state. Everything is computed in
// float32.
func linearAttention(n *node) []*value {
	q, k, v := n.Operand(0), n.Operand(1), n.Operand(2)
	for i, x := range []*value{q, k, v} {
		if n.Rank(x) != 3 {
			n.Failf("operand %d has %d dimensions, want 3", i, n.Rank(x))
		}
	}
	heads, kvHeads := n.Int("q_num_heads", 0), n.Int("kv_num_heads", 0)
	if heads < 1 || kvHeads < 1 || heads%kvHeads != 0 {
		n.Failf("%d heads of queries cannot share %d heads of keys and values", heads, kvHeads)
	}
	rule := linearRuleOf(n)
	rule.groups = heads / kvHeads
	split := func(x *value, heads int) *value { return n.Cast(splitHeads(n, x, heads), tensor.Float32) }
	// The scan gives step one slice of each sequence, [batch, positions, heads, elements], for each position.
	sequences := []*value{split(q, heads), split(k, kvHeads), split(v, kvHeads)}
	if rule.scale == 0 {
		rule.scale = defaultScale(n, sequences[0], sequences[1])
	}
	if rule.decays {
		sequences = append(sequences, split(n.Operand(4), kvHeads))
	}
	if rule.corrects {
		beta := n.Cast(n.Operand(5), tensor.Float32)
		sequences = append(sequences, n.Op("unsqueeze", graph.Attrs{"dim": 3}, beta))
	}
	stateDType, state := q.DType(), n.OperandOrNil(3)
	if state != nil {
		stateDType, state = state.DType(), n.Cast(state, tensor.Float32)
	} else {
		state = zeroState(n, sequences[1], sequences[2])
	}
	const stepNodes = 16
	scanned := n.ScanRows(state, sequences, stepNodes, rule.step) // the last state, and the results of step for all positions
	y := n.Op("mul", nil, scanned[1], rule.scale)
	sizes, rowSize := n.SymShape(q), n.SymShape(v)[2].Mul(sym.Of(rule.groups))
	return []*value{n.Cast(n.ReshapeSym(y, sizes[0], sizes[1], rowSize), q.DType()), n.Cast(scanned[0], stateDType)}
}

// defaultScale returns 1/sqrt(size of a head). Queries q and keys k have heads of the same size, which must be known
// from one of them.
func defaultScale(n *node, q, k *value) float64 {
	headSize := n.SymShape(q)[3:]
	if _, known := headSize[0].Known(); !known {
		headSize = n.SymShape(k)[3:]
	}
	return 1 / math.Sqrt(float64(max(n.KnownNumbers("the size of a head", headSize)[0], 1)))
}

// zeroState returns a state of zeros, [batch, heads, elements of a key, elements of a value].
func zeroState(n *node, k, v *value) *value {
	sizes, valueSize := n.SymShape(k), n.SymShape(v)[3]
	size := n.SizesAttr(sizes[0], sizes[2], sizes[3], valueSize)
	return n.Op("zeros", graph.Attrs{"size": size, "dtype": tensor.Float32})
}

// linearRule is the recurrence of a LinearAttention node: see [linearRule.step].
type linearRule struct {
	decays   bool    // the state is multiplied by exp(decay) before each position (update rules gated, gated_delta)
	corrects bool    // the value that the state gives for the key is subtracted (update rules delta, gated_delta)
	groups   int     // number of query heads that share a head of keys and values
	scale    float64 // factor of the result
}

// linearRuleOf reads the attributes scale and update_rule.
func linearRuleOf(n *node) linearRule {
	rule := linearRule{scale: n.Float("scale", 0)}
	switch name := n.Text("update_rule", "gated_delta"); name {
	case "linear": // neither
	case "gated", "delta", "gated_delta":
		rule.decays, rule.corrects = name != "delta", name != "gated"
	default:
		n.Failf("update_rule %q is not supported", name)
	}
	if rule.decays != n.HasOperand(4) || rule.corrects != n.HasOperand(5) {
		n.Failf("operands 4 (decay) and 5 (beta) do not suit the update_rule")
	}
	return rule
}

// step returns the state after a position, and the result of the position. rows are tensors [batch, heads, elements]:
// query q, key k, value v and, if the rule uses them, decay and beta. With k and v as row vectors:
//
//	state = state * exp(decay)ᵀ           // if the rule decays; one factor for each row, or one for the head
//	v     = (v - k @ state) * beta        // if the rule corrects
//	state = state + kᵀ @ v
//	y     = q @ state                     // for each query head of the group
func (rule linearRule) step(n *node, state *value, rows []*value) (next, y *value) {
	column := func(x *value) *value { return n.Op("unsqueeze", graph.Attrs{"dim": 3}, x) }
	row := func(x *value) *value { return n.Op("unsqueeze", graph.Attrs{"dim": 2}, x) }
	q, k, v := rows[0], rows[1], rows[2]
	if rule.decays {
		decay := rows[3]
		state = n.Op("mul", nil, state, column(n.Op("exp", nil, decay)))
	}
	v = row(v)
	if rule.corrects {
		beta := rows[len(rows)-1]
		v = n.Op("mul", nil, n.Op("sub", nil, v, n.Op("matmul", nil, row(k), state)), column(beta))
	}
	state = n.Op("add", nil, state, n.Op("mul", nil, column(k), v))
	sizes, valueSize := n.SymShape(state), n.SymShape(v)[3]
	q = n.ReshapeSym(q, sizes[0], sizes[1], sym.Of(rule.groups), sizes[2])
	y = n.Op("matmul", nil, q, state)
	return state, n.ReshapeSym(y, sizes[0], sizes[1].Mul(sym.Of(rule.groups)), valueSize)
}
