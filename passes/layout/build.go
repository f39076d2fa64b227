package layout

import (
	"errors"
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// This file states a [Model] as a weighted constraint problem. The label of a value's variable is a set of forms
// (layouts in which the value exists), the label of a node an implementation and a walk. Factors have the costs of work
// and of copies.

// check returns an error for a model that was not made by [NewModel].
func (m *Model) check() error {
	if m == nil || m.WCSP == nil || m.Problem == nil || len(m.copying) != len(m.WCSP.Factors) {
		return errors.New("the model was not made by NewModel")
	}
	return nil
}

// build states the weighted constraint problem.
func (m *Model) build() error {
	m.WCSP, m.Weighted, m.copying = &wcsp.Problem{Version: 1}, &wcsp.Problem{Version: 1}, nil
	s := &builder{m: m, names: map[string][]string{}}
	for _, x := range m.values {
		if !constant(x.value) && len(x.sets) > 1 {
			x.id = s.variable("value "+x.value.Name, s.sets(x))
		}
	}
	for _, t := range m.tasks {
		if t != nil && len(t.labels) > 1 {
			names := make([]string, len(t.labels))
			for i := range t.labels {
				names[i] = t.labels[i].text()
			}
			t.id = s.variable("node "+t.node.Name, numberEqual(names))
		}
	}
	for x := range m.sources() {
		w := m.priceForms(x, 1<<m.inputForm(x), nil)
		s.copies(x.id, -1, len(x.sets), 1, func(i, _ int) cost { return w.least(x.sets[i]) })
	}
	for i, n := range m.Problem.Graph.Nodes {
		interrupt.Check(m.Problem.Context())
		switch v := m.views[i]; {
		case m.lost(i):
		case v != nil:
			s.view(v)
		default:
			s.task(m.tasks[i], n)
		}
		if s.err != nil {
			return m.Problem.Graph.Fail(n, s.err)
		}
	}
	s.constant()
	m.Weighted.Variables = m.WCSP.Variables
	return nil
}

// Without returns the model without copies of v into layout meta. A node may still write v in this layout, and v may
// still be a view that has this layout. Labels have the same meaning in both models. It fails if v has no such form.
func (m *Model) Without(v *graph.Value, meta tensor.Meta) (_ *Model, err error) {
	defer interrupt.Catch(&err)
	if err := m.check(); err != nil {
		return nil, err
	}
	x := m.variables.At(v)
	if x == nil || x.value != v {
		return nil, errors.New("the value is not part of the problem")
	}
	form := x.find(meta)
	if form < 0 {
		return nil, fmt.Errorf("%q has no form %v", v.Name, meta)
	}
	other := *m
	other.forbiddenCopies = map[*variable]uint{x: 1 << form}
	return &other, other.build()
}

// text names a label in messages and in the problem.
func (l *label) text() string {
	text := "inferred"
	if l.impl != nil {
		text = l.impl.Name
	}
	for _, o := range l.walk.Out {
		if o != "" {
			text += " " + o.String()
			break
		}
	}
	if l.slot != "" {
		text += fmt.Sprintf(" within %q", l.slot)
	}
	return text
}

var errIncompatible = errors.New("its operands and results have no compatible layouts")

// builder collects the variables and factors of the problem.
type builder struct {
	m     *Model
	fixed [2]cost             // costs that depend on no variable: of work, and of copies
	err   error               // set if the problem is infeasible
	names map[string][]string // cache of sets
}

// sets returns the names of a value's sets of forms. Values with equally named forms share the list.
func (s *builder) sets(x *variable) []string {
	var key strings.Builder
	for i := range x.forms {
		key.WriteString(x.forms[i].text())
		key.WriteByte(0)
	}
	for _, set := range x.sets {
		key.WriteByte(byte(set))
	}
	names, known := s.names[key.String()]
	if !known {
		for _, set := range x.sets {
			names = append(names, x.set(set))
		}
		names = numberEqual(names)
		s.names[key.String()] = names
	}
	return names
}

// numberEqual appends numbers to equal names.
func numberEqual(names []string) []string {
	for i := range names {
		name, times := names[i], 1
		for _, other := range names[:i] {
			if other == name || strings.HasPrefix(other, name+" (") {
				times++
			}
		}
		if times > 1 {
			names[i] = fmt.Sprintf("%s (%d)", name, times)
		}
	}
	return names
}

// variable adds a variable and returns its index.
func (s *builder) variable(name string, labels []string) int {
	p := s.m.WCSP
	p.Variables = append(p.Variables, wcsp.Variable{Name: name, Labels: labels})
	return len(p.Variables) - 1
}

// term adds a factor for the cost of work, in picoseconds, over variables a and b, which have na and nb labels. Index
// -1 stands for a variable that is omitted because it has a single label.
func (s *builder) term(a, b, na, nb int, ps func(i, j int) int64) {
	time := s.m.Weights.Time
	s.factor(a, b, na, nb, 0, func(i, j int) cost {
		c := ps(i, j)
		if c >= wcsp.Forbidden {
			return forbidden
		}
		return cost{c * time, c}
	})
}

// copies adds a factor for the cost of copies.
func (s *builder) copies(a, b, na, nb int, of func(i, j int) cost) { s.factor(a, b, na, nb, 1, of) }

// factor adds a factor to both problems. kind is 1 for costs of copies, and 0 for all other costs.
func (s *builder) factor(a, b, na, nb, kind int, of func(i, j int) cost) {
	if na == 1 && nb == 1 { // the common case of a graph without choices
		c := of(0, 0)
		if s.fixed[kind] = s.fixed[kind].plus(c); c.weighted >= wcsp.Forbidden && s.err == nil {
			s.err = errIncompatible
		}
		return
	}
	f, g := wcsp.Factor{Costs: make([]int64, 0, na*nb)}, wcsp.Factor{Costs: make([]int64, 0, na*nb)}
	zero, never := true, true
	for i := range na {
		for j := range nb {
			c := of(i, j)
			f.Costs, g.Costs = append(f.Costs, c.ps), append(g.Costs, c.weighted)
			zero, never = zero && c.weighted == 0, never && c.weighted >= wcsp.Forbidden
		}
	}
	if never && s.err == nil {
		s.err = errIncompatible
	}
	if zero {
		return
	}
	for _, id := range []int{a, b} {
		if id >= 0 {
			f.Scope = append(f.Scope, id)
		}
	}
	g.Scope = f.Scope
	s.add(f, g, kind)
}

// add adds a factor to the problem, and its weighted form to the weighted problem.
func (s *builder) add(f, weighted wcsp.Factor, kind int) {
	s.m.WCSP.Factors, s.m.copying = append(s.m.WCSP.Factors, f), append(s.m.copying, kind == 1)
	s.m.Weighted.Factors = append(s.m.Weighted.Factors, weighted)
}

// constant adds a factor for the costs that do not depend on labels.
func (s *builder) constant() {
	for kind, c := range s.fixed {
		if c.weighted > 0 {
			s.add(wcsp.Factor{Scope: []int{}, Costs: []int64{c.ps}},
				wcsp.Factor{Scope: []int{}, Costs: []int64{c.weighted}}, kind)
		}
	}
}

// view adds the costs of making the forms of a view's results.
func (s *builder) view(v *viewed) {
	x := s.m.variables.At(v.node.In[v.operand].Value)
	for k, out := range v.node.Out {
		y := s.m.variables.At(out)
		if constant(x.value) {
			w := s.m.priceForms(y, v.shown(k, v.allowed), s.m.outside(v, k, v.allowed))
			s.copies(y.id, -1, len(y.sets), 1, func(i, _ int) cost { return w.least(y.sets[i]) })
			continue
		}
		ways := make([]formCosts, len(x.sets))
		for i, set := range x.sets {
			ways[i] = s.m.priceForms(y, v.shown(k, set&v.allowed), s.m.outside(v, k, set&v.allowed))
		}
		s.copies(x.id, y.id, len(x.sets), len(y.sets), func(i, j int) cost { return ways[i].least(y.sets[j]) })
	}
}

// task adds the costs of a node that computes: its work, the copies of its results, and reading its operands.
func (s *builder) task(t *task, n *graph.Node) {
	s.term(t.id, -1, len(t.labels), 1, func(i, _ int) int64 { return t.labels[i].cost })
	for k, v := range n.Out {
		y := s.m.variables.At(v)
		if len(t.labels) == 1 && len(y.sets) == 1 && y.sets[0]&^(1<<t.labels[0].out[k]) == 0 {
			continue // readers use only the form as written
		}
		ways := map[int]*formCosts{}
		for _, l := range t.labels {
			if ways[l.out[k]] == nil {
				w := s.m.priceForms(y, 1<<l.out[k], nil)
				ways[l.out[k]] = &w
			}
		}
		s.copies(t.id, y.id, len(t.labels), len(y.sets), func(i, j int) cost {
			f := t.labels[i].out[k]
			if place := y.forms[f].slot; place != nil && place.operand >= 0 && y.sets[j]>>f&1 == 0 {
				return forbidden // an operand inside the result must be read there
			}
			return ways[f].least(y.sets[j])
		})
	}
	for k, a := range n.In {
		if a.Kind != graph.TensorArg || readsConstant(n, k) || s.m.readBefore(n, k) {
			continue
		}
		x := s.m.variables.At(a.Value)
		wrongSlots := s.m.wrongSlots(t, x)
		s.term(t.id, x.id, len(t.labels), len(x.sets), func(i, j int) int64 {
			if wrongSlots != nil && x.sets[j]&wrongSlots[i] != 0 {
				return wcsp.Forbidden
			}
			var sum int64
			for q := k; q < len(n.In); q++ {
				if n.In[q].Kind == graph.TensorArg && n.In[q].Value == a.Value {
					_, c := t.labels[i].reads(q, x.sets[j])
					sum = min(sum+c, wcsp.Forbidden)
				}
			}
			return sum
		})
	}
}

// readBefore reports whether an earlier operand is the same value.
func (m *Model) readBefore(n *graph.Node, k int) bool {
	for q := range k {
		if n.In[q].Kind == graph.TensorArg && n.In[q].Value == n.In[k].Value {
			return true
		}
	}
	return false
}

// reads returns the form, within set, that the label reads for operand k at the least cost, and this cost. The form is
// -1 if no form of the set can be read.
func (l *label) reads(k int, set uint) (int, int64) {
	best, cost := -1, int64(wcsp.Forbidden)
	for i, c := range l.read[k] {
		if set>>i&1 != 0 && c < cost {
			best, cost = i, c
		}
	}
	return best, cost
}
