package passes

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// Placed is a value that is written directly into its slice of another value, the result of a concatenation.
type Placed struct {
	Value, Within string  // names of the value and of the result
	Bytes         int     // size of the value, which is not copied
	SavedNS       float64 // estimated decrease of the cost, with the extra cost of other readers of the slice
}

// placeResults makes operands of concatenations slices of the result, so that their producers write directly into it.
// Producers and other readers must support the strided layout, and the total cost must be lower than with the copy.
// Strategies that solve the layout problem exactly have made most of these decisions ([layout.Model]). For other
// strategies, and for values that the model does not consider, the pass decides greedily. In these cases the layouts
// were chosen on the assumption that concatenations copy their operands.
//
// For example, the concatenation of a (2,3) and b (2,5) along dimension 1 is c (2,8), row-major. After placement, a has
// the strides (8,1) at offset 0 of c's memory, and b has the strides (8,1) at offset 3. The nodes of a and b write
// these slices, and the concatenation has nothing to copy.
//
// Nodes are visited in reverse. In a chain of concatenations, the result of each concatenation thus becomes a slice of
// the result of the next. All values of the chain share one buffer, as in a dense block of DenseNet.
func placeResults(plan *Plan) error {
	if plan.keepGoing { // if a node fails later and is removed, the concatenation would lack its slice
		return nil
	}
	var placing *placer // created at the first concatenation
	for _, n := range slices.Backward(plan.Graph.Nodes) {
		interrupt.Check(plan.ctx)
		if n.Op.ConcatDim == nil {
			continue
		}
		if placing == nil {
			placing = newPlacer(plan)
		}
		placing.placeOperands(n)
	}
	plan.Note("%s", countText(len(plan.Placed), "value written in place", "values written in place"))
	return nil
}

// placer makes values slices of other values: see [Placed]. [graph.Value.Place] has another meaning: the host or a
// device. The placer holds the readers of values, and the values that need a buffer of their own.
type placer struct {
	plan           *Plan
	profile        *layout.Profile
	readers        graph.ByValue[[]*graph.Node]
	needsOwnBuffer graph.ByValue[bool]        // by root value: an output or an op needs its buffer
	costs          map[*graph.Node]costByPart // costs at the current layouts, filled on demand
}

// costByPart is the cost of a node, in parts that are independent of each other ([graph.Impl.Read]). A trial changes
// the layout of one value, so that only some parts of a node with many operands must be estimated again.
type costByPart struct {
	// parts has the cost of the node's own work, then of reading each operand, in ns; nil if there is no cost
	// profile or the node has no work.
	parts []float64
	ns    float64 // sum of the parts
}

// newPlacer finds the readers of all values, and the values that need buffers of their own.
func newPlacer(plan *Plan) *placer {
	created := &placer{plan: plan, profile: plan.profile, readers: graph.NewByValue[[]*graph.Node](plan.Graph),
		needsOwnBuffer: graph.NewByValue[bool](plan.Graph), costs: map[*graph.Node]costByPart{}}
	if !plan.profileAdjusted {
		created.profile = layout.ProfileFor(plan.profile, plan.Graph)
	}
	for _, n := range plan.Graph.Nodes {
		for i, arg := range n.In {
			if arg.Kind != graph.TensorArg {
				continue
			}
			isDuplicate := slices.ContainsFunc(n.In[:i], func(earlier graph.Arg) bool { return earlier.Value == arg.Value })
			if !isDuplicate {
				created.readers.Set(arg.Value, append(created.readers.At(arg.Value), n))
			}
			if n.Op.ReadsStorage {
				created.needsOwnBuffer.Set(arg.Value.Root(), true)
			}
		}
	}
	for _, output := range plan.Graph.Outputs {
		created.needsOwnBuffer.Set(output.Value.Root(), true)
	}
	return created
}

// placeOperands handles the concatenation n. If one buffer already holds all operands in the right order, the result
// becomes a slice of that buffer. Then each operand that is not a slice of a buffer becomes a slice of the result.
func (placer *placer) placeOperands(n *graph.Node) {
	if n.Places() == nil || n.Out[0].Meta.Numel() == 0 {
		return
	}
	placer.placeResult(n)
	for i, sliceType := range n.Places() {
		sliceMeta, known := sliceType.Meta()
		if v := n.In[i].Value; known && v.Meta.DType == sliceMeta.DType && v.Meta.Numel() > 0 {
			placer.tryPlacement(v, n.Out[0], sliceMeta, producersWrite)
		}
	}
}

// placeResult makes the result of n a slice of the value that already contains all operands of n, if they are
// adjacent slices of one value.
func (placer *placer) placeResult(n *graph.Node) {
	result := n.Out[0]
	meta := result.Meta
	var buffer *graph.Value
	for _, arg := range n.In {
		switch operand := arg.Value; {
		case operand.Meta.Numel() == 0:
		case operand.ContainedIn == nil || operand.Meta.Rank() != meta.Rank():
			return
		case buffer != nil && operand.BufferOwner() != buffer:
			return
		case buffer == nil:
			// The result begins at its first operand. allInPlace checks that the others follow it without gaps.
			buffer = operand.BufferOwner()
			meta = meta.WithStrides(buffer.Meta.Strides)
			meta.Offset = operand.Meta.Offset
		}
	}
	if buffer != nil {
		placer.tryPlacement(result, buffer, meta, operandsInPlace)
	}
}

// writer says how a placed value gets its elements.
type writer bool

const (
	producersWrite  writer = false // the node of the value writes them
	operandsInPlace writer = true  // they are the operands of a concatenation, which are already in that memory
)

// tryPlacement sets the layout of v to meta, a slice of value within. All affected nodes must support that layout. The
// cost must decrease, unless the strategy chose this placement, or the pass replays the decisions of an earlier plan
// (Plan.decisionsToFollow). With operandsInPlace, the operands of v's concatenation must already be at their positions.
// If a condition is not met, tryPlacement changes nothing.
func (placer *placer) tryPlacement(v, within *graph.Value, meta tensor.Meta, writtenBy writer) {
	plan := placer.plan
	if !placer.mayPlace(v, within) {
		return
	}
	trial := &placementTrial{placer: placer, nodes: []*graph.Node{v.Node}}
	trial.addReaders(v)
	oldCost := trial.oldCost()
	trial.oldLayouts = append(trial.oldLayouts, layoutOf(v))
	if v.ContainedIn = within; v.Meta.SameAddresses(meta) {
		meta.Strides = v.Meta.Strides // only the offset differs: keep the strides of dimensions of size 1
	}
	v.SetMeta(meta)
	if writtenBy == operandsInPlace && !allInPlace(v.Node) || !trial.supportsLayouts() {
		trial.undo()
		return
	}
	costs, newCost := trial.newCosts()
	savedNS := oldCost - newCost
	isChosen := plan.placementsChosen.At(v) // the cost of the strategy's solution includes the saving
	if plan.decisionsToFollow == nil && !isChosen && savedNS <= 0 {
		trial.undo()
		return
	}
	for i, n := range trial.nodes {
		placer.costs[n] = costs[i]
	}
	if !isChosen {
		plan.SavedNS += savedNS
	}
	plan.notePlaced(v, within, savedNS)
}

// notePlaced records that value v becomes a slice of value within.
func (p *Plan) notePlaced(v, within *graph.Value, savedNS float64) {
	p.Placed = append(p.Placed, Placed{Value: v.Name, Within: within.Name, Bytes: v.Meta.Bytes(), SavedNS: savedNS})
	if p.Decisions == nil {
		return
	}
	if p.Decisions.placedValues == nil {
		p.Decisions.placedValues = map[int]bool{}
	}
	p.Decisions.placedValues[v.Number()] = true
}

// mayPlace reports whether value v may become a slice of value within: a node computes v, in a buffer of v's own that
// no output or op needs, both values are on the host, and the decisions to follow, if any, place v.
func (placer *placer) mayPlace(v, within *graph.Value) bool {
	hasBuffer := v.ContainedIn == nil && v.Alias == nil && v.Node != nil && v.Const == nil
	if !hasBuffer || placer.needsOwnBuffer.At(v) || v.Place() != tensor.Host || within.Place() != tensor.Host {
		return false
	}
	if v.Node.Impl == nil || v.Node.Op.RunDynamic != nil || !hasNumericSizes(v.Type) {
		return false
	}
	followed := placer.plan.decisionsToFollow
	return followed == nil || followed.placedValues[v.Number()]
}

// allInPlace reports whether all nonempty operands of n are at their positions in its result.
func allInPlace(n *graph.Node) bool {
	call := n.Call()
	for i, arg := range n.In {
		if !call.IsInPlace(i) && arg.Meta().Numel() > 0 {
			return false
		}
	}
	return true
}

// placementTrial changes the layout of a value and of its views, and records the affected nodes.
type placementTrial struct {
	placer     *placer
	oldLayouts []savedLayout // of changed values
	nodes      []*graph.Node // affected nodes that compute; the first node computes the value
	views      []*graph.Node
}

// savedLayout is the layout of a value before a trial.
type savedLayout struct {
	value       *graph.Value
	valueType   tensor.Type
	meta        tensor.Meta
	alias       *graph.Value
	containedIn *graph.Value
}

// layoutOf returns the current layout of v, for undo.
func layoutOf(v *graph.Value) savedLayout {
	return savedLayout{value: v, valueType: v.Type, meta: v.Meta, alias: v.Alias, containedIn: v.ContainedIn}
}

// addReaders adds the readers of v to the trial, through views.
func (t *placementTrial) addReaders(v *graph.Value) {
	for _, n := range t.placer.readers.At(v) {
		if !n.IsView() {
			if !slices.Contains(t.nodes, n) {
				t.nodes = append(t.nodes, n)
			}
			continue
		}
		t.views = append(t.views, n)
		for _, result := range n.Out {
			t.addReaders(result)
		}
	}
}

// oldCost returns the total cost of the trial's nodes before the change. The cost of a node is reused until a trial
// that touches it is accepted.
func (t *placementTrial) oldCost() (ns float64) {
	for _, n := range t.nodes {
		cost, known := t.placer.costs[n]
		if !known {
			cost = t.placer.nodeCost(n, cost, nil)
			t.placer.costs[n] = cost
		}
		ns += cost.ns
	}
	return ns
}

// newCosts returns the costs of the trial's nodes at the current layouts, and their sum.
func (t *placementTrial) newCosts() (costs []costByPart, ns float64) {
	costs = make([]costByPart, len(t.nodes))
	for i, n := range t.nodes {
		known := t.placer.costs[n]
		if i == 0 {
			known = costByPart{} // the layout of its result changes, and thereby all parts
		}
		costs[i] = t.placer.nodeCost(n, known, t.changesLayout)
		ns += costs[i].ns
	}
	return costs, ns
}

// changesLayout reports whether the trial changes the layout of a value.
func (t *placementTrial) changesLayout(v *graph.Value) bool {
	return slices.ContainsFunc(t.oldLayouts, func(saved savedLayout) bool { return saved.value == v })
}

// nodeCost returns the cost of a node at the current layouts. It computes the parts of operands for which
// layoutChanged returns true, and takes the other parts from known. If known has no parts, it computes all.
func (placer *placer) nodeCost(n *graph.Node, known costByPart,
	layoutChanged func(*graph.Value) bool) (cost costByPart) {
	if placer.profile == nil {
		return cost
	}
	cost.parts = make([]float64, 1+len(n.In))
	// k is the index of an operand, or -1 for the node's own work.
	isUnknown := func(k int) bool { return known.parts == nil || k >= 0 && layoutChanged(n.In[k].Value) }
	copy(cost.parts, known.parts)
	setPart := func(k int, work graph.Work) {
		cost.parts[k+1] = float64(layout.PricePS(placer.profile, work)) / machine.PSPerNS
	}
	if !n.EachWork(isUnknown, setPart) {
		return costByPart{}
	}
	for _, ns := range cost.parts {
		cost.ns += ns
	}
	return cost
}

// supportsLayouts infers the views again, and reports whether they are still views and all nodes support the new
// layouts.
func (t *placementTrial) supportsLayouts() bool {
	for _, n := range t.views {
		for _, result := range n.Out {
			t.oldLayouts = append(t.oldLayouts, layoutOf(result))
		}
		if inferOutputs(n) != nil || !n.IsView() {
			return false
		}
		for _, result := range n.Out {
			if !n.Pin.Matches(result.Meta) {
				return false
			}
		}
	}
	for i, n := range t.nodes {
		if i == 0 && n.CheckProps() != nil || i > 0 && n.RecheckProps(t.changesLayout) != nil {
			return false
		}
	}
	return true
}

// undo restores the layouts before the trial.
func (t *placementTrial) undo() {
	for _, saved := range t.oldLayouts {
		v := saved.value
		v.Type, v.Meta, v.Alias, v.ContainedIn = saved.valueType, saved.meta, saved.alias, saved.containedIn
	}
}
