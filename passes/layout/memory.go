package layout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// Within is the result of [Model.CheapestWithin].
type Within struct {
	Best       *Outcome // the cheapest plan found within the limit; nil for none
	BoundPS    int64    // a lower bound on the cost of every plan within the limit, in picoseconds
	LeastBytes int64    // a lower bound on the bytes that a run of any plan needs
	Rejected   int      // the number of plans that were found to need more memory
}

// Limits on the work of [Model.CheapestWithin]. To examine a plan is to compute the bytes that its run needs.
const (
	maxPrices   = 16 // maximum number of prices of memory that are tried
	maxListed   = 16 // maximum number of plans that are examined for the last price
	maxTries    = 64 // maximum number of problems that are solved for moves in a round
	maxExamined = 96 // number of examined plans at which memorySearch.improve ends
)

// CheapestWithin looks for the cheapest plan whose run needs at most limit bytes. The function need, which must not be
// nil, returns the bytes that a run of a plan needs. These may include memory that labels do not determine, such as the
// memory of intermediate values. knownPS is the cost of a known plan within the limit, or [wcsp.Forbidden]. The search
// ends with ctx.
//
// Cost tables (factors) cannot express a limit on memory. They can express a price for each byte of the constants
// that a node reads with a given label (Lagrangian relaxation). A label is one way to compute a node. Each plan is a
// point (bytes, cost), and the cheapest plan for a price is a vertex of the convex hull of these points. The price
// moves along the hull to the edge between a plan that fits and a plan that does not. The least cost at a price,
// minus the price of limit bytes, is a lower bound for all plans within the limit.
//
//	cost
//	 |  a           a: fits, and costs most        limit: 60 bytes
//	 |    x         x: fits, above the hull        price at the edge from a to b: (90-50)/(100-40), 2/3 a byte
//	 |              b: does not fit                bound at this price: 50 + 100*2/3 - 60*2/3, about 77
//	 |        b                                    (not to scale)
//	 +----------- bytes
//
// A cheaper plan that fits may be above the hull. For example, nodes with equal constants save the same time per byte,
// so that the two plans at the ends of the edge differ in all these nodes. Therefore the plans nearest to the edge are
// examined, too, and then the bytes of single nodes and pairs of nodes are changed: see [memorySearch.improve].
//
// If the plan with the smallest constants fits, CheapestWithin finds a plan. It examines fewer than 120 plans. The time
// limit of one search applies to all problems of the hull together.
func (m *Model) CheapestWithin(ctx context.Context, limit, knownPS int64,
	need func(*Outcome) (int64, error)) (w *Within, err error) {
	defer interrupt.Catch(&err)
	if need == nil {
		return nil, errors.New("layout: CheapestWithin: need is nil")
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	search := &memorySearch{model: m, limits: m.Problem.options(), limit: limit, runBytes: need,
		bytesByLabel: m.constantBytesByLabel(), examined: map[string]int64{}, leastPS: knownPS, result: &Within{}}
	search.limits.Context = ctx
	search.limits.TimeLimit /= maxPrices // the limit applies to the problems of all prices together
	fixedBytes := search.removeFixedBytes()
	search.availableBytes = float64(limit - fixedBytes)
	search.result.LeastBytes = fixedBytes + search.leastConstantBytes()
	psPerByte, smallest, err := search.findBytePrice()
	if err == nil && search.mayImprove() {
		err = search.examineNearEdge(psPerByte)
	}
	if err == nil && search.result.Best != nil && search.mayImprove() {
		err = search.improve(search.result.Best, func(a, b limitMove) int {
			return cmp.Compare(b.savingPerByte(), a.savingPerByte())
		})
	}
	// The other memory of a run is the greatest need of any step: a single kernel with much scratch memory can prevent
	// the larger constants of many nodes. Small steps from the plan with the smallest constants avoid such kernels
	// longer.
	if err == nil && smallest != nil && search.mayImprove() {
		err = search.improve(smallest, func(a, b limitMove) int {
			return cmp.Or(cmp.Compare(a.addedBytes, b.addedBytes), cmp.Compare(b.savedPS, a.savedPS))
		})
	}
	search.result.BoundPS = min(search.result.BoundPS, search.leastPS)
	return search.result, err
}

// memorySearch is the state of [Model.CheapestWithin].
type memorySearch struct {
	model          *Model
	limits         wcsp.Options
	limit          int64                         // maximum number of bytes that a run may need
	runBytes       func(*Outcome) (int64, error) // returns the bytes that a run of a plan needs
	bytesByLabel   [][]int64                     // see constantBytesByLabel; nil for nodes with a single label
	availableBytes float64                       // the limit less the bytes that every plan needs: see removeFixedBytes

	// Updated by checkFit, which examines a plan. Method raiseBound sets BoundPS of the result.
	result   *Within
	leastPS  int64            // the cost of the cheapest known plan within the limit
	examined map[string]int64 // by labels of the examined plans: results of runBytes
}

// mayImprove reports whether there may be a plan within the limit that is cheaper than all plans found.
func (s *memorySearch) mayImprove() bool { return s.result.BoundPS < s.leastPS }

// removeFixedBytes returns the bytes that every plan needs: live values, inputs, and the constants of nodes with a
// single label. It removes these nodes from bytesByLabel.
func (s *memorySearch) removeFixedBytes() int64 {
	fixedBytes := s.model.LiveBytes()
	for _, v := range s.model.Problem.Graph.Inputs {
		if len(s.model.readers.At(v)) > 0 {
			fixedBytes += int64(storageBytes(v))
		}
	}
	for i, computed := range s.model.computedNodes {
		if s.bytesByLabel[i] != nil && computed.id < 0 { // a node with a single label
			fixedBytes += s.bytesByLabel[i][0]
			s.bytesByLabel[i] = nil
		}
	}
	return fixedBytes
}

// leastConstantBytes returns a lower bound on the bytes of the constants that depend on labels: each node reads the
// smallest constants of its labels.
func (s *memorySearch) leastConstantBytes() (sum int64) {
	for _, bytes := range s.bytesByLabel {
		if len(bytes) > 0 {
			sum += slices.Min(bytes)
		}
	}
	return sum
}

// pricedPlan is a plan with its bytes of constants.
type pricedPlan struct {
	*Outcome
	constantBytes int64
}

// findBytePrice finds the edge of the hull between a plan that fits and a plan that does not, by moving from one vertex
// to the next: it repeatedly solves the problem at the price at which both plans cost the same, and replaces one of
// them by the plan found. It returns the last price per byte of constants, in picoseconds, and the plan with the smallest
// constants. It returns no plan if the cheapest plan fits, or if the plan with the smallest constants does not.
func (s *memorySearch) findBytePrice() (psPerByte float64, smallest *Outcome, err error) {
	tooLarge, fits, err := s.solve(0) // the cheapest plan of all
	if err != nil || fits {
		return 0, nil, err
	}
	fitting, fits, err := s.solve(s.topBytePrice()) // the plan with the smallest constants
	if err != nil || !fits {
		return 0, nil, err
	}
	smallest = fitting.Outcome
	for range maxPrices {
		if fitting.constantBytes >= tooLarge.constantBytes || fitting.CostPS <= tooLarge.CostPS {
			break
		}
		psPerByte = float64(fitting.CostPS-tooLarge.CostPS) / float64(tooLarge.constantBytes-fitting.constantBytes)
		middle, fits, err := s.solve(psPerByte)
		switch {
		case err != nil:
			return 0, nil, err
		case middle.constantBytes <= fitting.constantBytes || middle.constantBytes >= tooLarge.constantBytes:
			return psPerByte, smallest, nil // there is no vertex between both plans
		case fits:
			fitting = middle
		default:
			tooLarge = middle
		}
	}
	return psPerByte, smallest, nil
}

// topBytePrice returns a price of a byte, in picoseconds, at which a plan with the fewest bytes is the cheapest plan: a
// byte then costs more than the time of any plan. The price is limited so that the bytes of a plan cost at most an
// eighth of [wcsp.Forbidden].
func (s *memorySearch) topBytePrice() float64 {
	maxBytes := int64(1)
	for _, bytes := range s.bytesByLabel {
		if len(bytes) > 0 {
			maxBytes += slices.Max(bytes)
		}
	}
	return min(s.model.planBounds.ps+1, float64(wcsp.Forbidden)/8/float64(maxBytes))
}

// addedCosts returns additional costs for the bytes of constants that each node reads, by variable and label.
func (s *memorySearch) addedCosts(cost func(node int, bytes int64) int64) map[int]wcsp.Costs {
	added := map[int]wcsp.Costs{}
	for i, bytesByLabel := range s.bytesByLabel {
		if bytesByLabel == nil {
			continue
		}
		costs := make(wcsp.Costs, len(bytesByLabel))
		for label, bytes := range bytesByLabel {
			costs[label] = cost(i, bytes)
		}
		added[s.model.computedNodes[i].id] = costs
	}
	return added
}

// priced returns the change that adds a price for each byte of constants. Costs are rounded down, so that lower bounds
// stay valid.
func (s *memorySearch) priced(psPerByte float64) Changed {
	return Changed{Limits: &s.limits, Added: s.addedCosts(func(_ int, bytes int64) int64 {
		return int64(psPerByte * float64(bytes))
	})}
}

// solve returns the cheapest plan if each byte of constants costs psPerByte picoseconds, and whether it fits. It raises
// the lower bound.
func (s *memorySearch) solve(psPerByte float64) (plan *pricedPlan, fits bool, err error) {
	solution, err := s.model.Solve(s.priced(psPerByte))
	if err != nil {
		return nil, false, err
	}
	// Products with the top price may be so large that rounding would make the bound invalid.
	if psPerByte < s.topBytePrice() {
		s.raiseBound(solution.Bound, psPerByte)
	}
	outcome, err := solution.Outcome()
	if err != nil {
		return nil, false, err
	}
	plan = &pricedPlan{outcome, s.bytesOf(solution.Labels)}
	fits, err = s.checkFit(outcome)
	return plan, fits, err
}

// checkFit reports whether a plan is within the limit, and updates the result.
func (s *memorySearch) checkFit(plan *Outcome) (bool, error) {
	interrupt.Check(s.limits.Context)
	key := fmt.Sprint(plan.Labels)
	need, known := s.examined[key]
	if !known {
		var err error
		if need, err = s.runBytes(plan); err != nil {
			return false, err
		}
		s.examined[key] = need
		if need > s.limit {
			s.result.Rejected++
		} else if plan.CostPS < s.leastPS {
			s.leastPS, s.result.Best = plan.CostPS, plan
		}
	}
	return need <= s.limit, nil
}

// examineNearEdge examines the plans nearest to the edge of the hull at the price psPerByte.
func (s *memorySearch) examineNearEdge(psPerByte float64) error {
	changed := s.priced(psPerByte)
	problem, err := s.model.repriced(&changed)
	if err != nil {
		return err
	}
	list, plans, _, err := s.model.distinctPlans(problem, s.bytesByLabel, maxListed, s.limits)
	if err != nil {
		return err
	}
	for i, outcome := range plans {
		if outcome.CostPS >= s.leastPS || float64(s.bytesOf(list[i].Labels)) > s.availableBytes {
			continue
		}
		if _, err := s.checkFit(outcome); err != nil {
			return err
		}
	}
	if len(list) > 1 { // every plan that is not listed has at least the priced cost of the last one
		s.raiseBound(list[len(list)-1].Cost, psPerByte)
	}
	return nil
}

// limitMove changes the limits on the bytes of the constants of one or two nodes: see [memorySearch.improve].
type limitMove struct {
	nodes      []int
	limits     []int64 // the new limits, by index in nodes
	addedBytes int64
	savedPS    int64 // the sum of the savings by each change alone
}

// savingPerByte returns the saving for each added byte.
func (m limitMove) savingPerByte() float64 { return float64(m.savedPS) / float64(max(m.addedBytes, 1)) }

// with returns the limits after the move.
func (m limitMove) with(limits []int64) []int64 {
	changed := slices.Clone(limits)
	for i, node := range m.nodes {
		changed[node] = m.limits[i]
	}
	return changed
}

// improve looks for cheaper plans near a plan that fits. The state of the search is a limit for each node on the bytes
// of its constants, at first the bytes in the given plan. A move changes one limit, or exchanges memory between two
// nodes. In each round the moves are tried that probably fit, in the given order.
func (s *memorySearch) improve(plan *Outcome, order func(a, b limitMove) int) error {
	limits := make([]int64, len(s.bytesByLabel)) // by node
	for i, bytes := range s.bytesByLabel {
		if bytes != nil {
			limits[i] = bytes[plan.Labels[s.model.computedNodes[i].id]]
		}
	}
	for isImproved := true; isImproved; {
		isImproved = false
		moves, err := s.moves(plan, limits, order)
		if err != nil {
			return err
		}
		moved := map[int]bool{} // nodes whose limits an earlier move has changed
		for tries := 0; len(moves) > 0 && tries < maxTries && len(s.examined) < maxExamined; moves = moves[1:] {
			move, unusedBytes := moves[0], s.limit-s.examined[fmt.Sprint(plan.Labels)]
			isOutdated := slices.ContainsFunc(move.nodes, func(node int) bool { return moved[node] })
			if isOutdated || move.addedBytes > unusedBytes {
				continue
			}
			tries++
			next, err := s.solveLimited(move.with(limits))
			if err != nil {
				return err
			}
			if next == nil || next.CostPS >= plan.CostPS {
				continue
			}
			if fits, err := s.checkFit(next); err != nil {
				return err
			} else if fits {
				plan, limits, isImproved = next, move.with(limits), true
				for _, node := range move.nodes {
					moved[node] = true
				}
			}
		}
	}
	return nil
}

// moves lists the moves from a plan that probably save time: first single changes, then pairs, each in the given order.
func (s *memorySearch) moves(plan *Outcome, limits []int64, order func(a, b limitMove) int) (moves []limitMove,
	err error) {
	var changes []limitMove // of one limit
	for i, bytesByLabel := range s.bytesByLabel {
		for label, bytes := range bytesByLabel {
			if bytes == limits[i] || slices.Contains(bytesByLabel[:label], bytes) {
				continue
			}
			change := limitMove{nodes: []int{i}, limits: []int64{bytes}, addedBytes: bytes - limits[i]}
			other, err := s.solveLimited(change.with(limits))
			if err != nil {
				return nil, err
			}
			if other != nil {
				change.savedPS = plan.CostPS - other.CostPS
				changes = append(changes, change)
			}
		}
	}
	for i, a := range changes {
		moves = append(moves, a)
		for _, b := range changes[:i] {
			if a.nodes[0] != b.nodes[0] {
				moves = append(moves, limitMove{slices.Concat(a.nodes, b.nodes), slices.Concat(a.limits, b.limits),
					a.addedBytes + b.addedBytes, a.savedPS + b.savedPS})
			}
		}
	}
	moves = slices.DeleteFunc(moves, func(move limitMove) bool { return move.savedPS <= 0 })
	sorted.Func(moves, func(a, b limitMove) int { return cmp.Or(len(a.nodes)-len(b.nodes), order(a, b)) })
	return moves, nil
}

// solveLimited returns the cheapest plan in which the constants of each node have at most the given bytes, or nil if
// none is found without search, which would depend on time.
func (s *memorySearch) solveLimited(limits []int64) (*Outcome, error) {
	added := s.addedCosts(func(node int, bytes int64) int64 {
		if bytes > limits[node] {
			return wcsp.Forbidden
		}
		return 0
	})
	solution, err := s.model.Solve(Changed{Added: added, Limits: &wcsp.Options{Context: s.limits.Context}})
	if errors.Is(err, wcsp.ErrNotFound) || errors.As(err, new(*wcsp.InfeasibleError)) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return solution.Outcome()
}

// raiseBound raises the lower bound on the cost of plans within the limit. Every plan that is not examined has at least
// the given priced cost. The bound is this cost minus the price of availableBytes, the most bytes that a plan may have.
func (s *memorySearch) raiseBound(pricedPS int64, psPerByte float64) {
	bound := min(float64(pricedPS)-math.Ceil(psPerByte*s.availableBytes), float64(wcsp.Forbidden))
	s.result.BoundPS = max(s.result.BoundPS, int64(bound))
}

// bytesOf returns the bytes of constants that labels read, except for nodes with a single label.
func (s *memorySearch) bytesOf(labels []int) (sum int64) {
	for i, computed := range s.model.computedNodes {
		if s.bytesByLabel[i] != nil {
			sum += s.bytesByLabel[i][labels[computed.id]]
		}
	}
	return sum
}

// constantBytesByLabel returns, by node and label, a lower bound on the bytes of the constants that the label reads:
// see [constantBytes]. The bytes of a constant are divided evenly among its readers, so that the sum does not exceed
// the memory if the readers share a form.
func (m *Model) constantBytesByLabel() [][]int64 {
	// readerCounts: by constant, the number of operands that read it; constantCounts: by storage, its constants
	readerCounts, constantCounts := map[*graph.Value]int64{}, map[*tensor.Storage]int{}
	m.eachConstant(func(_, _ int, v *graph.Value) {
		if readerCounts[v]++; readerCounts[v] == 1 {
			constantCounts[v.Const.Storage()]++
		}
	})
	bytes := make([][]int64, len(m.computedNodes))
	m.eachConstant(func(i, k int, v *graph.Value) {
		computed := m.computedNodes[i]
		if bytes[i] == nil {
			bytes[i] = make([]int64, len(computed.labels))
		}
		for labelIndex := range computed.labels {
			call := m.callOf(computed, &computed.labels[labelIndex])
			constantBytes := m.constantBytes(&computed.labels[labelIndex], call, k, constantCounts)
			bytes[i][labelIndex] += int64(constantBytes) / readerCounts[v]
		}
	})
	return bytes
}

// eachConstant calls visit for each constant operand k of each computed node i.
func (m *Model) eachConstant(visit func(i, k int, v *graph.Value)) {
	for i, computed := range m.computedNodes {
		if computed == nil {
			continue
		}
		for k, a := range computed.node.In {
			if a.Kind == graph.TensorArg && a.Value.Const != nil {
				visit(i, k, a.Value)
			}
		}
	}
}

// callOf returns the call of a node with the layouts of results that a label determines.
func (m *Model) callOf(computed *computedNode, l *label) *graph.Call {
	call := *computed.node.Call()
	call.Out = make([]tensor.Meta, len(computed.node.Out))
	for k, v := range computed.node.Out {
		call.Out[k] = m.variables.At(v).forms[l.resultForms[k]].meta
	}
	return &call
}

// constantBytes returns the bytes of constant operand k of a call, for label l. A packed constant is rearranged for the
// kernel. If packing cannot be inverted, the original counts too, because the program's graph keeps both. A constant
// that is read unchanged counts as its share of its storage; constantCounts has the number of constants in each
// storage. For example, one of two constants in a storage of 8 MB has a share of 4 MB. If a label reads it packed in
// 5 MB, it counts 5 MB, or 9 MB if the packing cannot be inverted.
func (m *Model) constantBytes(l *label, call *graph.Call, k int, constantCounts map[*tensor.Storage]int) int {
	constant := call.In[k].Value
	share := constant.Const.Storage().Len() / constantCounts[constant.Const.Storage()]
	unpacked := constant.Meta.Bytes() // size of an unpacked copy
	if constant.Pin.SetsLayout() {
		return min(unpacked, share)
	}
	// Form 0 is the layout of the constant in the graph. Uploads read the form on the host.
	if m.variables.At(constant).formInPlace(l.constantForms[k], tensor.Host) == 0 {
		unpacked = share
	}
	if l.impl != nil && l.impl.Pack != nil {
		if packing, ok := l.impl.Pack(call, k); ok {
			if packing.Unpack != nil {
				unpacked = 0
			}
			return packing.Len*packing.DType.Size() + unpacked
		}
	}
	return unpacked
}

// storageBytes returns the size of the smallest storage of an input, in bytes.
func storageBytes(v *graph.Value) int {
	return min(v.Meta.Bytes(), v.Meta.Extent()*v.Meta.DType.Size())
}

// LiveBytes returns a lower bound, for every plan, on the peak memory of live values in a run, in bytes. Inputs,
// constants and scratch memory do not count. A value counts with the bytes of its smallest form, and a copy in another
// form does not count. With a device, LiveBytes returns 0.
//
// Operands and results of concatenations do not count, because they may share memory. Results of copies do not count,
// because a plan may omit the copy. A value is live from its node to the last node that reads the value itself, not a
// view of it. For example:
//
//	node            live before the node
//	a = conv(x)
//	b = conv(a)     a
//	c = add(a, b)   a and b
//	d = relu(c)     c
//
// A result that is larger than every operand of its node, so that it cannot reuse their memory, counts at the node,
// too.
func (m *Model) LiveBytes() int64 {
	if m == nil || m.Problem == nil || m.Problem.Device != nil {
		return 0
	}
	live := &liveValues{model: m, ownBytes: graph.NewByValue[int64](m.Problem.Graph),
		inConcatenation:  graph.NewByValue[bool](m.Problem.Graph),
		variesWithInputs: graph.NewByValue[bool](m.Problem.Graph)}
	live.findOwnBytes()
	nodes := m.Problem.Graph.Nodes
	changes := make([]int64, len(nodes)+1) // by node: the change of the bytes that are live before it
	for i, n := range nodes {
		for _, v := range n.Out {
			if last := live.lastReader(v); last > i {
				changes[i+1] += live.ownBytes.At(v)
				if last < len(nodes) {
					changes[last+1] -= live.ownBytes.At(v)
				}
			}
		}
	}
	peak, liveBytes := int64(0), int64(0) // liveBytes: of the values that are live before node i
	for i, n := range nodes {
		liveBytes += changes[i]
		peak = max(peak, liveBytes+live.newBytes(n))
	}
	return max(peak, liveBytes+changes[len(nodes)])
}

// liveValues finds the values whose memory counts, and the size of this memory. Of the model it uses:
//
//   - variables: the variable of each value, with the forms (possible layouts) of the value and the outputs that are
//     this value;
//   - viewNodes and computedNodes: by index of a node. A view has an entry in viewNodes only, and any other node in
//     computedNodes only. A copy that may become a view counts as a view;
//   - readers: by value, its uses as an operand.
type liveValues struct {
	model            *Model
	ownBytes         graph.ByValue[int64] // the bytes of each value that has its own memory in every plan; else 0
	inConcatenation  graph.ByValue[bool]  // whether a value may be within the result of a concatenation
	variesWithInputs graph.ByValue[bool]  // whether a value depends on an input; others may become constants
}

// findOwnBytes sets ownBytes for the values that have their own memory.
func (live *liveValues) findOwnBytes() {
	m := live.model
	for _, v := range m.Problem.Graph.Inputs {
		live.variesWithInputs.Set(v, true)
	}
	for i, n := range m.Problem.Graph.Nodes {
		varies, concatenates := false, n.Op.ConcatDim != nil
		for _, a := range n.In {
			if a.Kind != graph.TensorArg {
				continue
			}
			varies = varies || live.variesWithInputs.At(a.Value)
			if concatenates {
				live.disown(a.Value)
			}
		}
		for _, v := range n.Out {
			live.variesWithInputs.Set(v, varies)
			isComputed := m.computedNodes[i] != nil && !n.Op.Identity && v.Alias == nil
			// A concatenation may be written into the result of a larger concatenation.
			if varies && isComputed && !concatenates {
				live.ownBytes.Set(v, live.smallestBytes(v))
			}
		}
	}
}

// disown removes a value, and the values that it is a view of, from the values that have their own memory.
func (live *liveValues) disown(v *graph.Value) {
	for ; v != nil; v = live.viewedValue(v) {
		live.ownBytes.Set(v, 0)
		live.inConcatenation.Set(v, true)
	}
}

// viewedValue returns the operand that v is a view of, or nil if v is no view.
func (live *liveValues) viewedValue(v *graph.Value) *graph.Value {
	if v.Node == nil {
		return nil
	}
	if view := live.model.viewNodes[live.model.nodeIndex[v.Node.Number()]]; view != nil {
		return v.Node.In[view.operand].Value
	}
	return nil
}

// smallestBytes returns the size of the smallest form (layout) of a value, in bytes.
func (live *liveValues) smallestBytes(v *graph.Value) int64 {
	variable, least := live.model.variables.At(v), int64(math.MaxInt64)
	if variable == nil {
		return 0
	}
	for _, f := range variable.forms {
		least = min(least, int64(f.meta.Extent()*f.meta.DType.Size()))
	}
	return least
}

// lastReader returns the index of the last node that reads v and is not a view, or the number of nodes if v is an
// output. It returns -1 if there is no reader.
func (live *liveValues) lastReader(v *graph.Value) int {
	if variable := live.model.variables.At(v); variable != nil && len(variable.outputs) > 0 {
		return len(live.model.computedNodes)
	}
	last := -1
	for _, reader := range live.model.readers.At(v) {
		if live.model.computedNodes[reader.node] != nil {
			last = max(last, reader.node)
		}
	}
	return last
}

// newBytes returns the total bytes of a node's results that are larger than every operand, and thus cannot reuse the
// memory of an operand. It returns 0 if an operand may be within the result of a concatenation, because the node could
// then reuse the memory of that larger result.
func (live *liveValues) newBytes(n *graph.Node) (sum int64) {
	largest := int64(0)
	for _, a := range n.In {
		if a.Kind != graph.TensorArg || a.Value.Const != nil {
			continue
		}
		for v := a.Value; v != nil; v = live.viewedValue(v) {
			if live.inConcatenation.At(v) {
				return 0
			}
			for _, f := range live.model.variables.At(v).forms {
				largest = max(largest, int64(f.meta.Extent()*f.meta.DType.Size()))
			}
		}
	}
	for _, v := range n.Out {
		if bytes := live.ownBytes.At(v); bytes > largest && live.lastReader(v) >= 0 {
			sum += bytes
		}
	}
	return sum
}
