package endtoend_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// brute finds the least cost of a layout problem by its definition. It visits the nodes in order, and tries every set
// of forms of each value, every label of a node, every form in which an operand is read, and every way to copy forms. A
// state has the decisions that later nodes can see: the sets of the values that are still read. From the [layout.Model]
// it takes only the possible forms of values. Prices are of calls with the layouts of the forms.
type brute struct {
	t             *testing.T
	problem       *layout.Problem
	weights       layout.Weights
	model         *layout.Model
	copier        *graph.Op
	lastReader    map[*graph.Value]int  // the last node that reads a value; the number of nodes for outputs
	required      map[*graph.Value]uint // forms that exist without a reader
	storageIsRead map[*graph.Value]bool // values whose storage an op reads
	live          []*graph.Value
	costs         map[string]int64 // the least cost for the sets of the live values, one byte each
	bound         int64            // states with a higher cost are dropped
	lowerBounds   []int64          // for each node: a lower bound on the cost of this and all later nodes
	ways          []bruteWays      // for each node that is not a view
	tries         int              // number of sets of results of views
	exceedsLimit  bool             // a limit on the search is exceeded

	// The following are computed once: forms and places by value, sets by the arguments of addSets.
	formsOf  map[*graph.Value][]tensor.Meta
	placesOf map[*graph.Value][]*layout.Place
	setsOf   map[string][]bruteSet
}

// bruteSet is a set of forms, as a bit mask, and its cost.
type bruteSet struct {
	set  uint
	cost int64
}

// forms returns the possible forms of a value.
func (b *brute) forms(v *graph.Value) []tensor.Meta {
	list, ok := b.formsOf[v]
	if !ok {
		list = b.model.Forms(v)
		b.formsOf[v], b.placesOf[v] = list, b.model.Places(v)
	}
	return list
}

// bruteWays lists the ways to compute a node.
type bruteWays []bruteWay

// bruteWay is a label, with the forms that it reads and writes.
type bruteWay struct {
	in, out []int // forms by operand and result; -1 for operands that are not tensors
	cost    int64
}

// Limits for a fast search: the number of forms of a value, of states, and of sets of results of views.
const (
	bruteForms  = 4
	bruteStates = 1000
	bruteTries  = 1 << 20
)

// bruteForce returns the least cost of a problem, with the weights of the model. If it exceeds the bound, the result is
// any greater cost. It returns false if a limit is exceeded. m must be the model of the problem.
func bruteForce(t *testing.T, p *layout.Problem, m *layout.Model, bound int64) (int64, bool) {
	b := &brute{t: t, problem: p, model: m, weights: m.Weights, lastReader: map[*graph.Value]int{},
		required:      map[*graph.Value]uint{},
		storageIsRead: map[*graph.Value]bool{}, bound: bound,
		costs: map[string]int64{"": 0}, formsOf: map[*graph.Value][]tensor.Meta{}, setsOf: map[string][]bruteSet{},
		placesOf: map[*graph.Value][]*layout.Place{}}
	g := p.Graph
	b.copier, _ = g.CopyOp()
	g.Values(func(v *graph.Value) { b.exceedsLimit = b.exceedsLimit || len(m.Forms(v)) > bruteForms })
	if b.exceedsLimit {
		return 0, false
	}
	b.prepare()
	for _, v := range g.Inputs {
		b.extend([]*graph.Value{v}, -1, func(_ map[*graph.Value]uint, add func(int64, ...uint)) {
			b.addSets(v, 1, nil, add)
		})
	}
	for _, v := range g.Constants { // a pinned constant gets its layout before the run
		if p := b.pinnedForm(v); p >= 0 {
			b.extend([]*graph.Value{v}, -1, func(_ map[*graph.Value]uint, add func(int64, ...uint)) {
				b.addSets(v, 1<<p, nil, add)
			})
		}
	}
	for i, n := range g.Nodes {
		if b.addNode(i, n); b.exceedsLimit {
			return 0, false
		}
	}
	best := int64(math.MaxInt64)
	for _, c := range b.costs {
		best = min(best, c)
	}
	return best, true
}

// prepare computes the properties of single values and nodes.
func (b *brute) prepare() {
	g := b.problem.Graph
	b.lowerBounds, b.ways = make([]int64, len(g.Nodes)+1), make([]bruteWays, len(g.Nodes))
	for i, n := range g.Nodes {
		for _, a := range n.In {
			if a.Kind == graph.TensorArg {
				b.lastReader[a.Value] = i
			}
		}
	}
	for _, n := range g.Nodes {
		if n.Op.ReadsStorage {
			for v := n.In[0].Value; v != nil; v = v.Alias {
				b.storageIsRead[v] = true
			}
		}
	}
	for _, o := range g.Outputs {
		b.lastReader[o.Value] = len(g.Nodes)
		f := 0
		if pin := o.EffectivePin(); pin.SetsLayout() {
			order, err := pin.OrderFor(o.Value.Meta.Rank())
			require.NoError(b.t, err)
			f = b.formWithOwnBuffer(o.Value, o.Value.Meta.WithStrides(order.Strides(o.Value.Meta.Shape)))
		}
		require.GreaterOrEqual(b.t, f, 0, "output %q cannot be as it is pinned", o.Name)
		b.required[o.Value] |= 1 << f
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		b.lowerBounds[i] = b.lowerBounds[i+1]
		if n := g.Nodes[i]; !bruteView(n) {
			b.ways[i] = b.waysOf(n)
			least := int64(math.MaxInt64 / 4)
			for _, w := range b.ways[i] {
				least = min(least, w.cost)
			}
			b.lowerBounds[i] += least
		}
	}
}

// bruteView reports whether the results of a node are views of its operand, or may be. Conversions cannot be.
func bruteView(n *graph.Node) bool {
	return (n.Op.Kind == graph.View || n.Op.Identity) && n.In[0].Meta().DType == n.Out[0].Meta.DType
}

// formWithOwnBuffer returns the form with the addresses of m that has memory of its own, or -1.
func (b *brute) formWithOwnBuffer(v *graph.Value, m tensor.Meta) int {
	for i, f := range b.forms(v) {
		if f.SameAddresses(m) && b.placeWithin(v, i) == nil {
			return i
		}
	}
	return -1
}

// pinnedForm returns the form to which a value is pinned, or -1 without a pin.
func (b *brute) pinnedForm(v *graph.Value) int {
	pin := v.EffectivePin()
	if !pin.SetsLayout() {
		return -1
	}
	o, err := pin.OrderFor(v.Meta.Rank())
	require.NoError(b.t, err)
	return b.formWithOwnBuffer(v, v.Meta.WithStrides(o.Strides(v.Meta.Shape)))
}

// mayView reports whether a view may read a form of its operand. If the operand is pinned, this is the pinned form,
// unless the view rejects it or the storage must be as in the graph.
func (b *brute) mayView(n *graph.Node, f int) bool {
	p := b.pinnedForm(n.In[0].Value)
	shows := slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return v.Alias != nil && b.problem.MustKeepLayout(v) })
	if p < 0 || p == f || f == 0 && (n.Op.ReadsStorage || shows) {
		return true
	}
	_, err := n.Op.Infer(b.callWithForms(n, []int{p}))
	return err != nil
}

// unpinnedOperands returns a mask of the pinned operands that a node reads in another form.
func (b *brute) unpinnedOperands(n *graph.Node, in []int) (mask uint) {
	for k, f := range in {
		if f >= 0 && b.pinnedForm(n.In[k].Value) >= 0 && b.pinnedForm(n.In[k].Value) != f {
			mask |= 1 << k
		}
	}
	return mask
}

// bruteConst reports whether a value is converted before the run: it is a constant without a pin.
func bruteConst(v *graph.Value) bool { return v.Const != nil && !v.Pin.SetsLayout() }

// copyCost returns the cost to copy a value from a layout to form f, or false if the copy is impossible.
func (b *brute) copyCost(v *graph.Value, from tensor.Meta, f int) (int64, bool) {
	to := b.forms(v)[f]
	o, dense := tensor.OrderOf(to)
	if !dense || b.keepsOperandLayout(v) && f == 0 || b.placeWithin(v, f) != nil {
		return 0, false
	}
	c := &graph.Call{In: []graph.Arg{bruteArg(v, from)}, Out: []tensor.Meta{to}}
	cost, ok := b.price(&b.copier.Impls[0], c, c.WalkInOrder(o))
	return cost + b.weights.Copy + b.weights.UnitsOf(to.Bytes()), ok
}

// keepsOperandLayout reports whether storage is read through a value that is a view, so that its operand must keep its
// layout.
func (b *brute) keepsOperandLayout(v *graph.Value) bool {
	return b.storageIsRead[v] && v.Alias != nil
}

func bruteArg(v *graph.Value, m tensor.Meta) graph.Arg {
	return graph.ArgOf(&graph.Value{Name: v.Name, Meta: m, Type: m.Type(), Const: v.Const, Pin: v.Pin})
}

// price returns the cost of a call, or false if the implementation does not support the layouts.
func (b *brute) price(impl *graph.Impl, c *graph.Call, w graph.Walk) (int64, bool) {
	sum := layout.PricePS(b.problem.Profile, impl.Work(c, w))
	for k, a := range c.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		work, ok := impl.Read(c, w, k, a.Meta())
		if !ok && a.Meta().Numel() > 0 {
			return 0, false
		}
		sum += layout.PricePS(b.problem.Profile, work)
	}
	return sum * b.weights.Time, true
}

// extend computes the next states. each is called with the sets of a state, and adds the possible sets of out with
// their cost.
func (b *brute) extend(out []*graph.Value, node int, each func(sets map[*graph.Value]uint, add func(int64, ...uint))) {
	all := append(slices.Clone(b.live), out...)
	var live []*graph.Value
	var keep []bool
	for _, v := range all {
		last, read := b.lastReader[v]
		keep = append(keep, read && last > node)
		if read && last > node {
			live = append(live, v)
		}
	}
	next := map[string]int64{}
	for key, cost := range b.costs {
		sets := map[*graph.Value]uint{}
		for i, v := range b.live {
			sets[v] = uint(key[i])
		}
		each(sets, func(more int64, masks ...uint) {
			if cost+more+b.lowerBounds[node+1] > b.bound {
				return
			}
			var to []byte
			for i := range all {
				if !keep[i] {
				} else if i < len(key) {
					to = append(to, key[i])
				} else {
					to = append(to, byte(masks[i-len(key)]))
				}
			}
			if old, ok := next[string(to)]; !ok || cost+more < old {
				next[string(to)] = cost + more
			}
		})
	}
	b.live, b.costs = live, next
	b.exceedsLimit = b.exceedsLimit || len(next) > bruteStates
}

// addNode extends the states by all decisions for a node.
func (b *brute) addNode(i int, n *graph.Node) {
	if bruteView(n) {
		b.addView(i, n)
		return
	}
	b.extend(n.Out, i, func(sets map[*graph.Value]uint, add func(int64, ...uint)) {
		for _, w := range b.ways[i] {
			there := true
			for k, f := range w.in {
				there = there && (f < 0 || bruteConst(n.In[k].Value) || sets[n.In[k].Value]>>f&1 != 0)
				there = there && (f < 0 || b.placesHaveResultOrder(n, w, n.In[k].Value, sets[n.In[k].Value]))
			}
			if there {
				b.addResults(n, w, 0, w.cost, nil, add)
			}
		}
	})
}

// addResults adds all sets of the results of a node, from the k-th result on.
func (b *brute) addResults(n *graph.Node, w bruteWay, k int, sum int64, masks []uint, add func(int64, ...uint)) {
	if k == len(n.Out) {
		add(sum, masks...)
		return
	}
	root := uint(1) << w.out[k]
	b.addSets(n.Out[k], root, nil, func(cost int64, s ...uint) {
		if s[0]&root != 0 || b.pinnedForm(n.Out[k]) >= 0 { // the pinned form exists even without a reader
			b.addResults(n, w, k+1, sum+cost, append(slices.Clone(masks), s[0]), add)
		}
	})
}

// waysOf lists the ways to compute a node: its implementations, walks and the forms of operands.
func (b *brute) waysOf(n *graph.Node) bruteWays {
	var orders []tensor.Order
	for _, f := range b.forms(n.Out[0]) {
		if o, dense := tensor.OrderOf(f); dense {
			orders = append(orders, o)
		}
	}
	best := map[string]bruteWay{}
	combos := b.formCombinations(n)
	influences := b.influencesInference(n)
	for k := range n.Op.Impls {
		impl := &n.Op.Impls[k]
		if n.Pin.Impl != "" && n.Pin.Impl != impl.Name {
			continue
		}
		for _, w := range impl.Walks(n.Call(), orders) {
			for _, in := range combos {
				if way, ok := b.wayOfWalk(n, impl, w, in, influences); ok {
					for _, way := range b.waysWithPlaces(n, impl, w, way) {
						key := fmt.Sprint(way.in, way.out)
						if old, ok := best[key]; !ok || way.cost < old.cost {
							best[key] = way
						}
					}
				}
			}
		}
	}
	var list bruteWays
	for _, w := range best {
		strays, better := b.unpinnedOperands(n, w.in), false
		for _, o := range best {
			less := b.unpinnedOperands(n, o.in)
			better = better || less != strays && less&^strays == 0
		}
		if !better {
			list = append(list, w)
		}
	}
	return append(list, b.waysWithoutWork(n, combos)...)
}

// formCombinations lists all choices of one form for each operand.
func (b *brute) formCombinations(n *graph.Node) [][]int {
	list := [][]int{nil}
	for _, a := range n.In {
		var next [][]int
		for _, c := range list {
			if a.Kind != graph.TensorArg {
				next = append(next, append(slices.Clone(c), -1))
				continue
			}
			for f := range b.forms(a.Value) {
				next = append(next, append(slices.Clone(c), f))
			}
		}
		list = next
	}
	return list
}

// callWithForms returns a node's call whose operands have the given forms.
func (b *brute) callWithForms(n *graph.Node, in []int) *graph.Call {
	c := &graph.Call{In: slices.Clone(n.In), Attrs: n.Attrs}
	for k, f := range in {
		if f > 0 {
			c.In[k] = bruteArg(n.In[k].Value, b.forms(n.In[k].Value)[f])
		}
	}
	return c
}

// wayOfWalk returns the way to compute a node by a walk if its operands have the given forms, or false if there is
// none.
func (b *brute) wayOfWalk(n *graph.Node, impl *graph.Impl, w graph.Walk, in []int, influences []bool) (bruteWay, bool) {
	c := b.callWithForms(n, in)
	alone := slices.Clone(in) // inference sees a value within another as if it had its own memory
	for k, f := range in {
		if f >= 0 {
			alone[k] = b.inferredForm(n.In[k].Value, f)
		}
	}
	res, err := n.Op.Infer(b.callWithForms(n, alone))
	if err != nil {
		return bruteWay{}, false
	}
	way := bruteWay{in: in}
	inferred := false
	for k, v := range n.Out {
		if res[k].Alias != graph.NoAlias {
			return way, false
		}
		if k >= len(w.ResultOrders) || w.ResultOrders[k].Rank() != v.Meta.Rank() || w.ResultOrders[k] == "" {
			inferred = true
		}
		m := w.ResultLayout(k, v.Meta.WithStrides(res[k].Meta().Strides))
		f := b.formWithOwnBuffer(v, m)
		if f < 0 {
			return way, false
		}
		c.Out, way.out = append(c.Out, m), append(way.out, f)
	}
	if inferred && !b.hasUniformOperands(n, in, influences) || !b.setInPlace(n, c, way) {
		return way, false
	}
	cost, ok := b.price(impl, c, w)
	way.cost = cost
	return way, ok
}

// influencesInference reports for each operand whether its form influences the inference of the results.
func (b *brute) influencesInference(n *graph.Node) []bool {
	list := make([]bool, len(n.In))
	for k, a := range n.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		for f := range b.forms(a.Value) {
			if b.inferredForm(a.Value, f) != f {
				continue
			}
			in := slices.Repeat([]int{0}, len(n.In))
			in[k] = f
			res, err := n.Op.Infer(b.callWithForms(n, in))
			list[k] = list[k] || err != nil
			for j := 0; err == nil && j < len(res); j++ {
				list[k] = list[k] || !n.Pin.SetsLayout() && !res[j].Meta().SameAddresses(n.Out[j].Meta)
			}
		}
	}
	return list
}

// hasUniformOperands reports whether the operands that influence inference have the layouts of the graph or of their
// pins, or all have one order.
func (b *brute) hasUniformOperands(n *graph.Node, in []int, influences []bool) bool {
	var orders []tensor.Order
	written, based := true, true
	for k, f := range in {
		if influences[k] {
			f = b.inferredForm(n.In[k].Value, f)
			written = written && f == 0
			based = based && f == max(0, b.pinnedForm(n.In[k].Value))
			if o, dense := tensor.OrderOf(b.forms(n.In[k].Value)[f]); dense {
				orders = append(orders, o)
			}
		}
	}
	return written || based || slices.ContainsFunc(orders, func(o tensor.Order) bool {
		for k, f := range in {
			if !influences[k] {
				continue
			}
			f = b.inferredForm(n.In[k].Value, f)
			m := b.forms(n.In[k].Value)[f]
			other := f != 0 && f != b.pinnedForm(n.In[k].Value)
			if o.Rank() == m.Rank() && !m.SameAddresses(m.WithStrides(o.Strides(m.Shape))) || o.Rank() != m.Rank() && other {
				return false
			}
		}
		return true
	})
}
