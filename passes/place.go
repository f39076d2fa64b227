package passes

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// This file places the operands of concatenations in the result: each operand becomes a slice of the result's memory,
// so that the nodes that compute the operands write directly into the result.
//
// For example, the concatenation of a (2,3) and b (2,5) along dimension 1 is c (2,8), row-major. After placement, a has
// the strides (8,1) at offset 0 of c's memory, and b has the strides (8,1) at offset 3. The nodes of a and b write
// these slices, and the concatenation has nothing to copy.

// placeResults places values where this is possible and decreases the cost. The producers and other readers of a slice
// must support its strides. Strategies that solve the layout problem exactly have made most of these decisions
// ([layout.Model]). For other strategies, and for values that the model does not consider, the pass decides greedily.
// In these cases the layouts were chosen on the assumption that concatenations copy their operands.
//
// Nodes are visited in reverse. In a chain of concatenations, the result of each concatenation thus becomes a slice of
// the result of the next. All values of the chain share one buffer, as in a dense block of DenseNet.
func placeResults(plan *Plan) error {
	for _, n := range plan.Graph.Nodes {
		if n.Op.Stores { // into the memory of an input
			n.Out[0].ContainedIn = n.In[0].Value
			if err := n.CheckProps(); err != nil {
				return plan.Graph.NodeError(n, err)
			}
		}
	}
	plan.placeAtNodes(func(int) bool { return true })
	plan.Note("%s", countText(len(plan.Placed), "value written in place", "values written in place"))
	return nil
}

// placeAtNodes places values at the concatenations for whose index in the graph want returns true.
func (p *Plan) placeAtNodes(want func(i int) bool) {
	var placing *placer // created at the first concatenation
	for i, n := range slices.Backward(p.Graph.Nodes) {
		interrupt.Check(p.options.Context)
		if n.Op.ConcatDim == nil || !want(i) {
			continue
		}
		if placing == nil {
			placing = newPlacer(p)
		}
		placing.placeAt(n)
	}
}

// placer makes values slices of other values. ([graph.Value.Place] has another meaning: the host or a device.) A root
// value is not a view: it owns its memory, or is a slice of its ContainedIn.
type placer struct {
	plan           *Plan
	profile        *pricing.Profile
	readers        graph.ByValue[[]*graph.Node] // by value: the nodes that read it, each once
	needsOwnBuffer graph.ByValue[bool]          // by root value: whether an output or an op needs its buffer
	costs          map[*graph.Node]partialCosts // costs at the current layouts, filled on demand
}

// newPlacer finds the readers of all values, and the values that need buffers of their own.
func newPlacer(plan *Plan) *placer {
	created := &placer{plan: plan, profile: plan.options.Profile, readers: graph.NewByValue[[]*graph.Node](plan.Graph),
		needsOwnBuffer: graph.NewByValue[bool](plan.Graph), costs: map[*graph.Node]partialCosts{}}
	if !plan.profileAdjusted { // the layout pass, which adjusts the profile, did not run
		created.profile = layout.ProfileFor(plan.options.Profile, plan.Graph)
	}
	for _, n := range plan.Graph.Nodes {
		for i, arg := range n.In {
			if arg.Kind != graph.TensorArg {
				continue
			}
			isSame := func(earlier graph.Arg) bool { return earlier.Value == arg.Value }
			if isDuplicate := slices.ContainsFunc(n.In[:i], isSame); !isDuplicate {
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

// placement is a possible change: value becomes a slice of value within.
type placement struct {
	value, within *graph.Value
	meta          tensor.Meta // the layout of the slice
	// operandsInPlace means that the node of value is a concatenation whose operands must already be at their positions
	// in the slice.
	operandsInPlace bool
}

// placeAt places values at the concatenation n. If one buffer already contains all operands in the right order, the
// result becomes a slice of that buffer. Then each operand that is not a slice of a buffer becomes a slice of the
// result.
func (placer *placer) placeAt(n *graph.Node) {
	if n.Places() == nil || n.Out[0].Meta.Numel() == 0 {
		return
	}
	placer.placeResult(n)
	for i, sliceType := range n.Places() { // by operand: its slice of the result
		sliceMeta, known := sliceType.Meta()
		if v := n.In[i].Value; known && v.Meta.DType == sliceMeta.DType && v.Meta.Numel() > 0 {
			placer.tryPlacement(placement{value: v, within: n.Out[0], meta: sliceMeta})
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
		case operand.Meta.Numel() == 0: // it has no position
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
		placer.tryPlacement(placement{value: result, within: buffer, meta: meta, operandsInPlace: true})
	}
}

// tryPlacement makes a placement if all affected nodes support the layout of the slice, and if the cost decreases. The
// cost need not decrease if the strategy chose this placement, or if the pass repeats the decisions of an earlier plan
// ([Options.Follow]). If a condition is not met, tryPlacement changes nothing.
func (placer *placer) tryPlacement(tried placement) {
	plan, v := placer.plan, tried.value
	if !placer.mayPlace(v, tried.within) {
		return
	}
	trial := &placementTrial{placer: placer, nodes: []*graph.Node{v.Node}}
	trial.addReaders(v)
	oldNS := 0.0
	if plan.options.Price {
		oldNS = trial.oldCost()
	}
	trial.place(tried)
	if tried.operandsInPlace && !allInPlace(v.Node) || !trial.supportsLayouts() {
		trial.undo()
		return
	}
	savedNS := 0.0
	if plan.options.Price {
		costs, newNS := trial.newCosts()
		savedNS = oldNS - newNS
		isChosen := plan.placementsChosen.At(v) // the cost of the strategy's solution includes the saving
		mustSave := plan.options.Follow == nil && !isChosen
		if mustSave && savedNS <= 0 {
			trial.undo()
			return
		}
		for i, n := range trial.nodes {
			placer.costs[n] = costs[i]
		}
		if !isChosen {
			plan.SavedNS += savedNS
		}
	}
	plan.notePlaced(v, tried.within, savedNS)
}

// notePlaced records that value v becomes a slice of value within.
func (p *Plan) notePlaced(v, within *graph.Value, savedNS float64) {
	p.Placed = append(p.Placed, report.Placed{Value: v.Name, Within: within.Name, Bytes: v.Meta.Bytes(), SavedNS: savedNS})
	if p.Decisions == nil {
		return
	}
	if p.Decisions.placedValues == nil {
		p.Decisions.placedValues = map[int]bool{}
	}
	p.Decisions.placedValues[v.Number()] = true
}

// mayPlace reports whether value v may become a slice of value within. A node must compute v in its own buffer, which
// no output or op needs. Both values must be on the host. The decisions to follow, if any, must place v.
func (placer *placer) mayPlace(v, within *graph.Value) bool {
	hasBuffer := v.ContainedIn == nil && v.Alias == nil && v.Node != nil && v.Const == nil
	if !hasBuffer || placer.needsOwnBuffer.At(v) || v.Place() != tensor.Host || within.Place() != tensor.Host {
		return false
	}
	if v.Node.Impl == nil || v.Node.Op.RunDynamic != nil || !hasNumericSizes(v.Type) {
		return false
	}
	followed := placer.plan.options.Follow
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

// placementTrial makes a placement on trial: a value becomes a slice of another value (see place.go). The trial changes
// the layout of the value and of its views, and estimates the costs of the affected nodes before and after the change.
//
// For example, let a be placed in c, let conv compute a, let relu read a, and let mul read a view of a. The affected
// nodes are conv, relu and mul, and the changed values are a and its view.
type placementTrial struct {
	placer  *placer
	changed []savedValue  // values whose layouts the trial changes
	nodes   []*graph.Node // affected nodes that compute; the first node computes the placed value
	views   []*graph.Node // the nodes of the views
}

// savedValue is a value and its fields before a trial.
type savedValue struct {
	value  *graph.Value
	before graph.Value
}

// saveValue saves v for undo.
func (t *placementTrial) saveValue(v *graph.Value) { t.changed = append(t.changed, savedValue{v, *v}) }

// undo restores the layouts before the trial.
func (t *placementTrial) undo() {
	for i := range t.changed {
		*t.changed[i].value = t.changed[i].before
	}
}

// changesLayout reports whether the trial changes the layout of a value.
func (t *placementTrial) changesLayout(v *graph.Value) bool {
	return slices.ContainsFunc(t.changed, func(saved savedValue) bool { return saved.value == v })
}

// addReaders adds the readers of v to the trial, and the readers of its views.
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

// place sets the layout of the placed value.
func (t *placementTrial) place(tried placement) {
	v, meta := tried.value, tried.meta
	t.saveValue(v)
	v.ContainedIn = tried.within
	if v.Meta.SameAddresses(meta) {
		meta.Strides = v.Meta.Strides // only the offset differs: keep the strides of dimensions of size 1
	}
	v.SetMeta(meta)
}

// supportsLayouts infers the views again. It reports whether they are still views and all nodes support the new
// layouts.
func (t *placementTrial) supportsLayouts() bool {
	for _, n := range t.views {
		for _, result := range n.Out {
			t.saveValue(result)
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
	// The first node computes the placed value, so all its checks are repeated; the others read the value.
	return t.nodes[0].CheckProps() == nil && !slices.ContainsFunc(t.nodes[1:], func(reader *graph.Node) bool {
		return reader.RecheckProps(t.changesLayout) != nil
	})
}

// partialCosts is the cost of a node in parts that are independent of each other ([graph.Impl.Read]), in ns: the node's
// own work, then reading each operand. A trial changes the layout of one value, so that only some parts of a node with
// many operands must be estimated again. It is nil if there is no cost profile or the node has no work.
type partialCosts []float64

// sum returns the cost of the node.
func (parts partialCosts) sum() (ns float64) {
	for _, part := range parts {
		ns += part
	}
	return ns
}

// oldCost returns the total cost of the affected nodes before the placement, in ns. placer.costs caches the costs of
// nodes until a trial that affects them is accepted.
func (t *placementTrial) oldCost() (ns float64) {
	for _, n := range t.nodes {
		cost, known := t.placer.costs[n]
		if !known {
			cost = t.placer.nodeCost(n, nil, nil) // all parts are estimated
			t.placer.costs[n] = cost
		}
		ns += cost.sum()
	}
	return ns
}

// newCosts returns the costs of the affected nodes after the placement, and their total in ns.
func (t *placementTrial) newCosts() (costs []partialCosts, ns float64) {
	costs = make([]partialCosts, len(t.nodes))
	for i, n := range t.nodes {
		old := t.placer.costs[n]
		if i == 0 {
			old = nil // the layout of its result changes, and thereby all parts
		}
		costs[i] = t.placer.nodeCost(n, old, t.changesLayout)
		ns += costs[i].sum()
	}
	return costs, ns
}

// nodeCost returns the cost of a node at the current layouts. It estimates the parts of operands for which
// layoutChanged returns true, and takes the other parts from old. If old is nil, it estimates all.
func (placer *placer) nodeCost(n *graph.Node, old partialCosts,
	layoutChanged func(*graph.Value) bool) partialCosts {
	if placer.profile == nil {
		return nil
	}
	parts := make(partialCosts, 1+len(n.In))
	copy(parts, old)
	// k is the index of an operand, or -1 for the node's own work.
	mustEstimate := func(k int) bool { return old == nil || k >= 0 && layoutChanged(n.In[k].Value) }
	setPart := func(k int, work pricing.Work) {
		parts[k+1] = float64(layout.PricePS(placer.profile, work)) / pricing.PSPerNS
	}
	if hasWork := n.EachWork(mustEstimate, setPart); !hasWork {
		return nil
	}
	return parts
}
