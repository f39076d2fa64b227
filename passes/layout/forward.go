package layout

import (
	"fmt"
	"math/bits"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Strategies that look at one node at a time, on the prices of [Model]. They choose the labels of nodes; the copies
// that these need are then the cheapest ones. Greedy goes forward and takes for each node what costs least with the
// copies of operands that it needs. Favourite takes for each node what is fastest if every operand lies as it likes
// best, as oneDNN does. Push gives nodes that several implementations compute, or that do not read every layout, their
// favourite, and has all others follow the order in which most dimensions come to them, so that transposes move past
// them until they meet their inverse, as ONNX Runtime's transpose optimizer does.
var (
	Greedy    Strategy = &labelling{"greedy", greedily}
	Favourite Strategy = &labelling{"favourite", favourites}
	Push      Strategy = &labelling{"push", pushed}
)

// labelling is a strategy that chooses a label for each node.
type labelling struct {
	name  string
	label func(*Model) []int // by the place of the node
}

func (s *labelling) Name() string { return s.name }

func (s *labelling) Choose(p *Problem) (_ *Assignment, err error) {
	defer ends.Catch(&err)
	m, err := NewModel(p)
	if err != nil {
		return nil, err
	}
	chosen := map[int]int{}
	for i, l := range s.label(m) {
		if t := m.tasks[i]; t != nil && t.id >= 0 {
			chosen[t.id] = l
		}
	}
	rest, whole, err := m.WCSP.Fix(chosen)
	if err != nil {
		return nil, err
	}
	sol, err := wcsp.Exact.Solve(rest, p.options())
	if err != nil {
		return nil, fmt.Errorf("strategy %s: %w", s.name, err)
	}
	return m.Assignment(whole(sol.Labels))
}

// favourites are the labels that cost least if all operands lie as they like best.
func favourites(m *Model) []int {
	list := make([]int, len(m.tasks))
	for i, t := range m.tasks {
		if t == nil {
			continue
		}
		best := int64(wcsp.Forbidden)
		for k := range t.labels {
			if c := t.labels[k].atBest(); c < best && t.labels[k].slot == "" {
				list[i], best = k, c
			}
		}
	}
	return list
}

// atBest is what a label costs if all operands lie as it likes best.
func (l *label) atBest() int64 {
	sum := l.cost
	for k := range l.read {
		sum += l.best(k)
	}
	return sum
}

// best is the least that reading operand k costs; 0 for what is no variable.
func (l *label) best(k int) int64 {
	if l.read[k] == nil {
		return 0
	}
	c := int64(wcsp.Forbidden)
	for i, r := range l.read[k] {
		if k >= len(l.slots) || l.slots[k]>>i&1 == 0 {
			c = min(c, r)
		}
	}
	return c
}

// walking goes over nodes forward, and knows which forms of values there are so far.
type walking struct {
	m       *Model
	have    graph.ByValue[uint]
	outside graph.ByValue[[]int64]
}

// forward chooses labels one node after another by a price.
func forward(m *Model, price func(w *walking, t *task, l *label) int64) []int {
	g := m.Problem.Graph
	w := &walking{m: m, have: graph.NewByValue[uint](g), outside: graph.NewByValue[[]int64](g)}
	list := make([]int, len(g.Nodes))
	for _, v := range g.Inputs {
		w.has(m.variables.At(v), 1, nil)
	}
	for _, v := range g.Constants {
		w.has(m.variables.At(v), 1<<len(m.variables.At(v).forms)-1, nil)
	}
	for i, n := range g.Nodes {
		ends.Look(g.Context())
		if v := m.views[i]; v != nil {
			w.view(v)
			continue
		}
		t, best := m.tasks[i], int64(wcsp.Forbidden)
		if t == nil {
			continue
		}
		for k := range t.labels {
			if t.labels[k].slot != "" { // that is found behind what they choose
				continue
			}
			if c := price(w, t, &t.labels[k]); c < best {
				list[i], best = k, c
			}
		}
		l := &t.labels[list[i]]
		for k, a := range n.In {
			if l.read[k] != nil {
				if f, _ := w.reads(l, k, a.Value); f >= 0 {
					w.have.Set(a.Value, w.have.At(a.Value)|1<<f)
				}
			}
		}
		for k, v := range n.Out {
			w.has(m.variables.At(v), 1<<l.out[k], nil)
		}
	}
	return list
}

// has records the forms of a value that exist, and the costs of forms made from outside. A pinned value has its pinned
// form only.
func (w *walking) has(x *variable, forms uint, outside []int64) {
	if x.pin >= 0 {
		forms, outside = 1<<x.pin, nil
	}
	w.have.Set(x.value, forms)
	w.outside.Set(x.value, outside)
}

// view notes which forms a view has of those there are of its operand; where it can show none, one is made that it can.
func (w *walking) view(v *viewed) {
	in := v.node.In[v.operand].Value
	x := w.m.variables.At(in)
	have := w.have.At(in) & v.allowed
	for k, out := range v.node.Out {
		shown, outside := v.shown(k, have), v.outside(k, have)
		if shown == 0 && outside == nil {
			best, at := int64(wcsp.Forbidden), -1
			for f := range x.forms {
				if c := w.make(x, f); v.allowed>>f&1 != 0 && v.shown(k, 1<<f) != 0 && c < best {
					best, at = c, f
				}
			}
			if at >= 0 {
				have |= 1 << at
				w.have.Set(in, w.have.At(in)|1<<at)
				shown = v.shown(k, have)
			}
		}
		w.has(w.m.variables.At(out), shown, outside)
	}
}

// make is what it costs to have a form of a value beside those that there are.
func (w *walking) make(x *variable, f int) int64 {
	have := w.have.At(x.value)
	if have>>f&1 != 0 {
		return 0
	}
	cost := int64(wcsp.Forbidden)
	if outside := w.outside.At(x.value); outside != nil {
		cost = outside[f]
	}
	copies := w.m.copies(x)
	for i := range x.forms {
		if have>>i&1 != 0 {
			cost = min(cost, copies[i*len(x.forms)+f])
		}
	}
	return cost
}

// reads is the form that a label had best read as operand k, and what that costs with the copy that it may take.
func (w *walking) reads(l *label, k int, v *graph.Value) (int, int64) {
	x := w.m.variables.At(v)
	best, at := int64(wcsp.Forbidden), -1
	for f, c := range l.read[k] {
		if c = min(c+w.make(x, f), wcsp.Forbidden); c < best {
			best, at = c, f
		}
	}
	return at, best
}

func greedily(m *Model) []int {
	return forward(m, func(w *walking, t *task, l *label) int64 {
		sum := l.cost
		for k, a := range t.node.In {
			if l.read[k] != nil {
				_, c := w.reads(l, k, a.Value)
				sum = min(sum+c, wcsp.Forbidden)
			}
		}
		return sum
	})
}

func pushed(m *Model) []int {
	return forward(m, func(w *walking, t *task, l *label) int64 {
		if layoutSensitive(t.node) {
			return l.atBest()
		}
		rank := int64(0)
		for k, a := range t.node.In {
			if l.read[k] != nil && !w.asLiked(l, k, a.Value) {
				for _, s := range a.Value.Meta.Shape {
					if s > 1 {
						rank++
					}
				}
			}
			if f, _ := w.reads(l, k, a.Value); l.read[k] != nil && f < 0 {
				return wcsp.Forbidden
			}
		}
		return rank
	})
}

// layoutSensitive reports whether a node has implementations that prefer layouts.
func layoutSensitive(n *graph.Node) bool {
	return len(n.Op.Impls) > 1 || len(n.Op.Impls) == 1 && n.Op.Impls[0].Selective()
}

// asLiked reports whether operand k lies, in some form that there is, as a label likes best.
func (w *walking) asLiked(l *label, k int, v *graph.Value) bool {
	have, best := w.have.At(v), l.best(k)
	for have != 0 {
		f := bits.TrailingZeros(have)
		if f < len(l.read[k]) && l.read[k][f] == best {
			return true
		}
		have &^= 1 << f
	}
	return false
}
