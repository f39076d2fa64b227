package layout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
)

// Outcome is what runs by labels of a [Model]: other labels may mean the same, since forms that nobody reads are not
// made.
type Outcome struct {
	// PS is what it costs, in picoseconds; Copying is what of it copies take.
	PS, Copying int64
	Nodes       []Computed
	Copies      []Copied // by name
	// Labels are those that it was made of.
	Labels []int
}

// Computed is how a node is computed.
type Computed struct {
	Node string
	Impl string // empty where the op has none
	Lies string // the order in which it writes its results
}

// Copied is a copy of a value that is made.
type Copied struct {
	Value  string  `json:"value" doc:"The value that is copied, itself or by views of it."`
	From   string  `json:"from" doc:"The order that is copied."`
	To     string  `json:"to" doc:"The order of the copy."`
	Bytes  int     `json:"bytes" doc:"The size of the copy."`
	CostNS float64 `json:"cost_ns" doc:"What the copy is estimated to cost, in nanoseconds."`
}

// Change is what one plan does otherwise than another.
type Change struct {
	Nodes []Recomputed `json:"nodes" doc:"The nodes that are computed otherwise."`
	Gone  []Copied     `json:"gone" doc:"The copies that are not made any more."`
	Added []Copied     `json:"added" doc:"The copies that are made instead."`
}

// Recomputed is a node that is computed otherwise.
type Recomputed struct {
	Node    string `json:"node" doc:"The node."`
	WasImpl string `json:"was_impl" doc:"Its implementation in the one plan; empty where the op has none."`
	WasLies string `json:"was_lies" doc:"The order in which it writes its results there."`
	Impl    string `json:"impl" doc:"Its implementation in the other plan."`
	Lies    string `json:"lies" doc:"The order in which it writes its results there."`
}

// Outcome returns what labels of the variables of WCSP mean. The error says which label cannot be.
func (m *Model) Outcome(labels []int) (_ *Outcome, err error) {
	defer ends.Catch(&err)
	r, err := m.reading(labels)
	if err != nil {
		return nil, err
	}
	r.backward()
	out := &Outcome{Nodes: []Computed{}, Copies: []Copied{}, Labels: slices.Clone(labels)}
	r.views = graph.NewByValue[*viewed](m.Problem.Graph)
	for x := range m.sources() {
		r.made(out, x, 1<<m.comes(x), nil)
	}
	for i, n := range m.Problem.Graph.Nodes {
		ends.Look(m.Problem.Context())
		switch v, t := m.views[i], m.tasks[i]; {
		case v != nil:
			x := m.variables.At(n.In[v.operand].Value)
			set := r.set(x) & v.allowed
			for k, value := range n.Out {
				r.views.Set(value, v)
				r.made(out, m.variables.At(value), v.shown(k, set), v.outside(k, set))
			}
		case t != nil:
			l := r.chosen(t)
			for k, value := range n.Out {
				r.made(out, m.variables.At(value), 1<<l.out[k], nil)
			}
			out.PS += r.work(t, l)
			out.Nodes = append(out.Nodes, m.computed(t, l))
		}
	}
	out.PS += out.Copying
	slices.SortStableFunc(out.Copies, func(a, b Copied) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.To, b.To), cmp.Compare(a.From, b.From))
	})
	return out, nil
}

// work is what a label costs with its reads.
func (r *reading) work(t *task, l *label) int64 {
	sum := l.cost
	for k, costs := range l.read {
		if costs != nil {
			_, c := l.reads(k, r.set(r.m.variables.At(t.node.In[k].Value)))
			sum += c
		}
	}
	return sum
}

func (m *Model) computed(t *task, l *label) Computed {
	c := Computed{Node: t.node.Name}
	if l.impl != nil {
		c.Impl = l.impl.Name
	}
	var lies []string
	for k, v := range t.node.Out {
		if text := m.variables.At(v).forms[l.out[k]].text(); !slices.Contains(lies, text) {
			lies = append(lies, text)
		}
	}
	c.Lies = strings.Join(lies, ", ")
	return c
}

// made notes the copies of a value that are made, where the forms of roots are there.
func (r *reading) made(out *Outcome, x *variable, roots uint, outside []int64) {
	if r.needed.At(x.value) == 0 {
		return
	}
	for _, s := range r.way(x, roots, outside).steps {
		var cost int64
		if s.from < 0 {
			cost = outside[s.to]
		} else {
			cost = r.m.copies(x)[int(s.from)*len(x.forms)+int(s.to)]
		}
		c := r.copied(x, int(s.from), int(s.to))
		c.CostNS = float64(cost) / 1000
		out.Copying += cost
		out.Copies = append(out.Copies, c)
	}
}

// copied names a copy of x into a form, from another one or, if that is below 0, from the operand of the view that
// gives x. To copy before a view is the same as to copy what it shows behind it: where both can be, it is named as the
// former, by the value that all such views show.
func (r *reading) copied(x *variable, from, to int) Copied {
	for {
		v := r.views.At(x.value)
		if v == nil {
			break
		}
		k := x.value.Index
		in := r.m.variables.At(v.node.In[v.operand].Value)
		if constant(in.value) || in.value.Meta.Bytes() != x.value.Meta.Bytes() { // a part of it is copied, or some twice
			break
		}
		set := r.set(in) & v.allowed
		source, made := -1, v.source(k, to, v.allowed, 0)
		if from < 0 {
			source = v.copied(k, to, set)
		} else {
			source = v.source(k, from, v.allowed, r.needed.At(in.value))
		}
		if source < 0 || made < 0 || source == made {
			break
		}
		x, from, to = in, source, made
	}
	c := Copied{Value: x.value.Name, From: "its operand", To: x.forms[to].text(), Bytes: x.value.Meta.Bytes()}
	if from >= 0 {
		c.From = x.forms[from].text()
	}
	return c
}

// same reports whether two outcomes of one model are one plan: each node computed by the same implementation, with
// results that lie the same, and the same copies.
func (o *Outcome) same(p *Outcome) bool {
	return slices.Equal(o.Nodes, p.Nodes) && slices.Equal(o.Copies, p.Copies)
}

// Since tells what an outcome does otherwise than another of the same graph. Of a nil one all is new.
func (o *Outcome) Since(was *Outcome) Change {
	c := Change{Nodes: []Recomputed{}, Gone: []Copied{}, Added: []Copied{}}
	if o == nil {
		o = &Outcome{}
	}
	if was == nil {
		was = &Outcome{}
	}
	before := make(map[string]Computed, len(was.Nodes))
	for _, n := range was.Nodes {
		before[n.Node] = n
	}
	for _, n := range o.Nodes {
		if b := before[n.Node]; b != n {
			c.Nodes = append(c.Nodes, Recomputed{n.Node, b.Impl, b.Lies, n.Impl, n.Lies})
		}
	}
	c.Gone, c.Added = append(c.Gone, lacking(was.Copies, o.Copies)...), append(c.Added, lacking(o.Copies, was.Copies)...)
	return c
}

// lacking lists the copies that another list has not, or has fewer times.
func lacking(list, other []Copied) []Copied {
	there := make(map[Copied]int, len(other))
	for _, c := range other {
		there[c]++
	}
	return slices.DeleteFunc(slices.Clone(list), func(c Copied) bool {
		there[c]--
		return there[c] >= 0
	})
}

// String tells it in one line; empty for none.
func (c Change) String() string {
	var parts []string
	for _, n := range c.Nodes {
		switch {
		case n.WasLies != n.Lies && n.WasImpl != n.Impl:
			parts = append(parts, fmt.Sprintf("%s writes %s by %s, not %s by %s", n.Node, n.Lies, n.Impl, n.WasLies, n.WasImpl))
		case n.WasLies != n.Lies:
			parts = append(parts, fmt.Sprintf("%s writes %s, not %s", n.Node, n.Lies, n.WasLies))
		default:
			parts = append(parts, fmt.Sprintf("%s runs by %s, not %s", n.Node, n.Impl, n.WasImpl))
		}
	}
	parts = few(parts, "nodes")
	for _, list := range []struct {
		copies []Copied
		what   string
	}{{c.Gone, "goes"}, {c.Added, "comes"}} {
		var texts []string
		for _, k := range list.copies {
			texts = append(texts, fmt.Sprintf("the copy of %s to %s %s", k.Value, k.To, list.what))
		}
		parts = append(parts, few(texts, "copies")...)
	}
	return strings.Join(parts, "; ")
}

// few shortens a list.
func few(list []string, what string) []string {
	if len(list) <= 3 {
		return list
	}
	return append(list[:2:2], fmt.Sprintf("%d more %s", len(list)-2, what))
}
