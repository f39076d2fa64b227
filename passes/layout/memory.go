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

// Limits on the work of [Model.CheapestWithin].
const (
	maxPrices = 16 // maximum number of prices of memory that are tried
	maxListed = 16 // maximum number of plans that are examined for the last price
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
// examined, too, and then the bytes of single nodes are changed: see [memorySearch.improvePlan]. The scratch memory of
// kernels is known only for plans that were examined: see [memorySearch.combine].
//
// If the plan with the smallest constants fits, CheapestWithin finds a plan. It examines fewer than 120 plans. The
// time limit of one search applies to all its problems together.
func (m *Model) CheapestWithin(ctx context.Context, limit, knownPS int64,
	need func(*Outcome) (int64, error)) (w *Within, err error) {
	defer interrupt.Catch(&err)
	if need == nil {
		return nil, errors.New("layout: CheapestWithin: need is nil")
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	search := m.newMemorySearch(ctx, limit, knownPS, need)
	psPerByte, fitting, err := search.findBytePrice()
	if err == nil && search.mayImprove() {
		err = search.examineNearEdge(psPerByte)
	}
	if err == nil && search.smallest != nil && search.mayImprove() {
		err = search.improvePlan(cmp.Or(fitting, search.smallest)) // fitting is nil if even smallest does not fit
	}
	search.result.BoundPS = min(search.result.BoundPS, search.leastPS)
	return search.result, err
}

// memorySearch is the state of [Model.CheapestWithin].
type memorySearch struct {
	model          *Model
	problem        *wcsp.Problem // without prices of memory
	options        wcsp.Options
	limit          int64                         // maximum number of bytes that a run may need
	runBytes       func(*Outcome) (int64, error) // returns the bytes that a run of a plan needs
	bytesByLabel   [][]int64                     // see constantBytesByLabel; nil for nodes with a single label
	availableBytes float64                       // the limit less the bytes that every plan needs: see removeFixedBytes

	// Updated by checkFit, which examines a plan. Method raiseBound sets BoundPS of the result.
	result           *Within
	leastPS          int64            // the cost of the cheapest known plan within the limit
	runBytesByLabels map[string]int64 // by labels of the examined plans: results of runBytes

	// For the last stage: see combine.go and othermemory.go. checkFit fills otherBytes.
	smallest    *pricedPlan          // the plan with the smallest constants; set by findBytePrice
	maxExamined int                  // the number of examined plans at which the search ends; set by improvePlan
	classes     []int64              // by node; nodes with equal choices are in the same class
	otherBytes  map[classLevel]int64 // by level of constants: least other memory of the examined plans
}

// pricedPlan is a plan with its bytes of constants.
type pricedPlan struct {
	*Outcome
	constantBytes int64
	pricedPS      int64 // the cost of the plan plus the price of its bytes, in picoseconds
	unusedBytes   int64 // the limit minus the bytes of a run, negative for a plan that does not fit; set by checkFit
}

// newMemorySearch returns the initial state. Its parameters are as in [Model.CheapestWithin].
func (m *Model) newMemorySearch(ctx context.Context, limit, knownPS int64,
	need func(*Outcome) (int64, error)) *memorySearch {
	bytes := m.constantBytesByLabel()
	search := &memorySearch{model: m, problem: m.withoutDominated(bytes), bytesByLabel: bytes, limit: limit,
		runBytes: need, runBytesByLabels: map[string]int64{}, otherBytes: map[classLevel]int64{}, leastPS: knownPS,
		result: &Within{}, options: m.Problem.options()}
	search.options.Context = ctx
	search.options.TimeLimit /= maxPrices // the limit applies to the problems of all prices together
	fixedBytes := search.removeFixedBytes()
	search.availableBytes = float64(limit - fixedBytes)
	search.result.LeastBytes = fixedBytes + search.leastConstantBytes()
	search.findClasses()
	return search
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

// findBytePrice finds the edge of the hull between a plan that fits and a plan that does not. It returns the price per
// byte of constants at which both plans cost the same, in picoseconds, and the plan that fits. It returns no plan if
// the cheapest plan fits, or if the plan with the smallest constants does not.
func (s *memorySearch) findBytePrice() (psPerByte float64, fitting *pricedPlan, err error) {
	tooLarge, err := s.solve(0) // the cheapest plan of all; if it fits, the search is over
	if err != nil {
		return 0, nil, err
	}
	if fits, err := s.checkFit(tooLarge); fits || err != nil {
		return 0, nil, err
	}
	fitting, err = s.solve(s.topBytePrice()) // the plan with the smallest constants
	if err != nil {
		return 0, nil, err
	}
	s.smallest = fitting
	if fits, err := s.checkFit(fitting); !fits || err != nil {
		return 0, nil, err
	}
	return s.moveToEdge(fitting, tooLarge)
}

// moveToEdge moves along the hull from two plans, one that fits and one that does not, to an edge between such plans.
// It repeatedly solves the problem at the price at which both plans cost the same, and replaces one of the two by the
// plan found. It returns the last price and the plan that fits.
func (s *memorySearch) moveToEdge(fitting, tooLarge *pricedPlan) (float64, *pricedPlan, error) {
	psPerByte := 0.0
	for range maxPrices {
		if fitting.constantBytes >= tooLarge.constantBytes || fitting.CostPS <= tooLarge.CostPS {
			break
		}
		psPerByte = float64(fitting.CostPS-tooLarge.CostPS) / float64(tooLarge.constantBytes-fitting.constantBytes)
		middle, err := s.solve(psPerByte)
		if err != nil {
			return 0, nil, err
		}
		if middle.constantBytes <= fitting.constantBytes || middle.constantBytes >= tooLarge.constantBytes {
			break // there is no vertex between both plans
		}
		fits, err := s.checkFit(middle)
		if err != nil {
			return 0, nil, err
		}
		if fits {
			fitting = middle
		} else {
			tooLarge = middle
		}
	}
	return psPerByte, fitting, nil
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

// solve returns the cheapest plan if each byte of constants costs psPerByte picoseconds.
func (s *memorySearch) solve(psPerByte float64) (*pricedPlan, error) {
	plans, err := s.cheapest(1, psPerByte)
	if err != nil {
		return nil, err
	}
	return plans[0], nil
}

// checkFit reports whether a plan is within the limit, and updates the result.
func (s *memorySearch) checkFit(plan *pricedPlan) (bool, error) {
	interrupt.Check(s.options.Context)
	key := fmt.Sprint(plan.Labels)
	need, known := s.runBytesByLabels[key]
	if !known {
		var err error
		if need, err = s.runBytes(plan.Outcome); err != nil {
			return false, err
		}
		s.runBytesByLabels[key] = need
		s.recordOtherMemory(plan, need)
		if need > s.limit {
			s.result.Rejected++
		} else if plan.CostPS < s.leastPS {
			s.leastPS, s.result.Best = plan.CostPS, plan.Outcome
		}
	}
	plan.unusedBytes = s.limit - need
	return plan.unusedBytes >= 0, nil
}

// examineNearEdge examines the plans nearest to the edge of the hull at the price psPerByte.
func (s *memorySearch) examineNearEdge(psPerByte float64) error {
	plans, err := s.cheapest(maxListed, psPerByte)
	if err != nil {
		return err
	}
	for _, plan := range plans {
		if plan.CostPS >= s.leastPS || float64(plan.constantBytes) > s.availableBytes {
			continue
		}
		if _, err := s.checkFit(plan); err != nil {
			return err
		}
	}
	if len(plans) > 1 { // every plan that is not listed has at least the priced cost of the last one
		s.raiseBound(plans[len(plans)-1].pricedPS, psPerByte)
	}
	return nil
}

// cheapest returns up to k plans in the order of their priced costs: the cost plus psPerByte picoseconds for each byte
// of constants. It raises the bound ([memorySearch.raiseBound]).
func (s *memorySearch) cheapest(k int, psPerByte float64) ([]*pricedPlan, error) {
	priced := s.withCosts(func(_ int, bytes int64) int64 {
		return int64(psPerByte * float64(bytes)) // rounded down, so that the lower bound stays valid
	})
	comparer := &comparer{model: s.model, outcomes: map[string]*Outcome{}}
	list, _, err := wcsp.KBest(priced, k, s.options, comparer.samePlan)
	if err = cmp.Or(err, comparer.err); err != nil {
		return nil, err
	}
	var plans []*pricedPlan
	for _, found := range list {
		plans = append(plans, &pricedPlan{Outcome: comparer.outcome(found.Labels), constantBytes: s.bytesOf(found.Labels),
			pricedPS: found.Cost})
	}
	// Products with the top price may be so large that rounding would make the bound invalid.
	if psPerByte < s.topBytePrice() {
		s.raiseBound(list[0].Bound, psPerByte)
	}
	return plans, comparer.err
}

// withCosts returns the problem with an additional cost for the bytes of constants that each node reads.
func (s *memorySearch) withCosts(cost func(node int, bytes int64) int64) *wcsp.Problem {
	priced := *s.problem
	priced.Factors = slices.Clone(priced.Factors)
	for i, bytesByLabel := range s.bytesByLabel {
		if bytesByLabel == nil {
			continue
		}
		costs := make(wcsp.Costs, len(bytesByLabel))
		for label, bytes := range bytesByLabel {
			costs[label] = cost(i, bytes)
		}
		priced.Factors = append(priced.Factors, wcsp.Factor{Scope: []int{s.model.computedNodes[i].id}, Costs: costs})
	}
	return &priced
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
