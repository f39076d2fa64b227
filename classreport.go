package graphrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/sym"
)

// ClassReport is a plan that serves more than one set of sizes.
type ClassReport struct {
	Hint    map[string]int  `json:"hint" doc:"The sizes for which it was planned and priced, by symbol."`
	Holds   []string        `json:"holds_while" doc:"The guards: the class serves sizes at which all of these hold, by form of sizes alone."`
	Guards  []GuardReport   `json:"guards" doc:"What asked for each of the conditions, in the same order."`
	Copies  int             `json:"copies" doc:"How many copies it inserts."`
	Regret  []RegretReport  `json:"regret" doc:"What it costs at bounds of sizes, at hints, and at many times the hint where there is no bound, beside a plan for these."`
	Memory  *MemoryFormulas `json:"memory,omitzero" doc:"The sizes of its buffers; left out where they are no short expressions."`
	Unknown string          `json:"unknown,omitzero" doc:"Why the conditions are not known."`
}

// GuardReport is who asked for a condition.
type GuardReport struct {
	Node  string   `json:"node,omitzero" doc:"The node that asked for it; left out for inputs and for what planning asked."`
	Op    string   `json:"op,omitzero" doc:"The op of the node."`
	Binds []string `json:"binds,omitzero" doc:"The symbols to which it leaves one size."`
}

// RegretReport compares a class with a plan that is made for other sizes than its hint.
type RegretReport struct {
	Sizes  map[string]int `json:"sizes" doc:"The sizes, by symbol."`
	Which  string         `json:"which" doc:"Why these: least, hint, greatest, or, of a symbol without an upper bound, how many times the hint."`
	Fits   bool           `json:"fits" doc:"Whether the guards of the class hold at these sizes: else another plan serves them."`
	CostNS float64        `json:"cost_ns" doc:"What the plan of the class is estimated to cost there, in nanoseconds."`
	BestNS float64        `json:"best_ns" doc:"What a plan that is made for these sizes is estimated to cost."`
	Regret float64        `json:"regret" doc:"How much more the class costs, as a part of the other."`
	Bytes  *int           `json:"bytes,omitzero" doc:"What the expressions of the class's memory add up to there."`
}

// Classes tells of the plans that serve more than one set of sizes: those of [Options.Hints], or, without these, that
// for what the graph assumes and the one that serves other sizes. It plans the graph several times. It is empty where
// no size is open, and of graphs that run in segments, each of which is planned for every set of layouts and sizes
// that comes: these follow from data, for which nobody states a hint, and a plan that is priced at what came first
// would have the bits of results depend on the order of runs.
//
// A class serves the sizes at which its guards hold; where they are not known, those of its hint alone.
func (p *Program) Classes() ([]ClassReport, error) {
	if p == nil || p.first == nil {
		return nil, errors.New("the program was not made by Compile")
	}
	if !p.classes() || p.first.runs.Dynamic() {
		return nil, nil
	}
	var list []ClassReport
	for _, k := range p.mainClasses() {
		r, err := p.report(k)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// mainClasses are those by which nearly all sizes are served.
func (p *Program) mainClasses() (list []*class) {
	hints := slices.Clone(p.hints)
	if generic := p.generic(context.Background()); len(hints) == 0 && generic != nil {
		hints = append(hints, generic)
	}
	if len(hints) == 0 {
		hints = append(hints, p.assumed)
	}
	for _, hint := range hints {
		if k := p.classAt(context.Background(), hint); k != nil && !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	return list
}

// named returns sizes of the open symbols by name.
func (p *Program) named(sizes []int) map[string]int {
	m := make(map[string]int, len(sizes))
	for i, name := range p.open {
		m[name] = sizes[i]
	}
	return m
}

func (p *Program) report(k *class) (r ClassReport, err error) {
	r = ClassReport{Hint: p.named(k.hint), Holds: []string{}, Guards: []GuardReport{}, Copies: len(k.plan.Copies),
		Regret: []RegretReport{}}
	if k.guarded(context.Background(), p); k.why != nil {
		r.Unknown = k.why.Error()
	}
	for _, g := range k.guards {
		r.Holds = append(r.Holds, g.Cond.String())
		by := GuardReport{Binds: g.Binds}
		if g.Node != nil {
			by.Node, by.Op = g.Node.Name, g.Node.Op.Name
		}
		r.Guards = append(r.Guards, by)
	}
	memory := p.buffers(k, &r)
	for _, at := range p.corners() {
		c, err := p.regret(k, at)
		if err != nil {
			continue // there is no such graph
		}
		if c.Fits && memory != nil {
			if sizes, err := memory.Sizes(nil, at.sizes); err == nil {
				bytes := sizes[0] + sizes[1]
				c.Bytes = &bytes
			}
		}
		r.Regret = append(r.Regret, c)
	}
	return r, nil
}

// buffers states the sizes of a class's buffers, and returns what computes those of outputs and of what is there at
// once; nil where they are no short expressions.
func (p *Program) buffers(k *class, r *ClassReport) *sym.Evaluator {
	form, err := p.form(context.Background(), k, k.hint)
	if err != nil {
		return nil
	}
	m, ok := memoryOfValues(form.planned)
	if !ok {
		return nil
	}
	e, err := p.evaluator(form.Symbolic, []sym.Int{m.outputs, m.atOnce}, nil)
	if err != nil {
		return nil
	}
	r.Memory = &MemoryFormulas{m.outputs.String(), m.atOnce.String()}
	return e
}

// corner is a set of sizes at which classes are compared, and why it is looked at.
type corner struct {
	sizes []int
	which string
}

// beyond is how many times its largest hint the size of a symbol without an upper bound is looked at.
const beyond = 64

// corners are the sizes at which classes are compared: the least, the hints, the greatest where all symbols have such,
// and, for each symbol that has none, many times its hint with the others as hinted.
func (p *Program) corners() (list []corner) {
	least, most, bounded := slices.Clone(p.assumed), slices.Clone(p.assumed), true
	add := func(sizes []int, which string) {
		if !slices.ContainsFunc(list, func(c corner) bool { return slices.Equal(c.sizes, sizes) }) {
			list = append(list, corner{sizes, which})
		}
	}
	hints := p.hints
	if len(hints) == 0 {
		hints = [][]int{p.assumed}
	}
	for i := range least {
		least[i], most[i] = p.within(i, 1), p.graph.Symbols[p.open[i]].Max
		bounded = bounded && most[i] > 0
	}
	add(least, "least")
	for _, hint := range p.hints {
		add(hint, "hint")
	}
	if bounded {
		add(most, "greatest")
	}
	for i, name := range p.open {
		if p.graph.Symbols[name].Max > 0 {
			continue
		}
		last := slices.MaxFunc(hints, func(a, b []int) int { return cmp.Compare(a[i], b[i]) })
		for times := beyond; times > 1; times /= 2 {
			far := slices.Clone(last)
			far[i] = max(last[i], 1) * times
			if _, err := p.at(context.Background(), far); err == nil { // else values were larger than memory can be
				add(far, fmt.Sprintf("%d times the hint of %s, which has no upper bound", times, name))
				break
			}
		}
	}
	return list
}

// regret prices a class at sizes.
func (p *Program) regret(k *class, at corner) (r RegretReport, err error) {
	g, err := p.at(context.Background(), at.sizes)
	if err != nil {
		return r, err
	}
	r.Sizes, r.Which = p.named(at.sizes), at.which
	if !k.holds(context.Background(), p, at.sizes) {
		return r, nil
	}
	o := p.planOptions(context.Background())
	o.Check, o.MemoryLimit = false, -1
	best, err := passes.Run(g, o)
	if err != nil {
		return r, err
	}
	o.Follow, o.Price = k.decisions, true
	own, err := passes.Run(g, o)
	switch {
	case errors.As(err, new(*passes.Misfit)):
		return r, nil
	case err != nil:
		return r, err
	}
	r.Fits, r.CostNS, r.BestNS = true, own.CostNS, min(best.CostNS, own.CostNS)
	if r.BestNS > 0 {
		r.Regret = r.CostNS/r.BestNS - 1
	}
	return r, nil
}

// form is a class for sizes that are not known: its planned graph, whose types are expressions, and the conditions
// under which they are.
type form struct {
	*graph.Symbolic
	planned *graph.Graph
	guards  []graph.Guard
}

// form plans the graph for unknown sizes by the decisions of a class; what form does not decide is as at the hints.
func (p *Program) form(ctx context.Context, k *class, hints []int) (*form, error) {
	s, err := p.symbolicAt(ctx, hints)
	if err != nil {
		return nil, fmt.Errorf("for unknown sizes: %w", err)
	}
	written := slices.Clone(s.Guards) // who asks for others is planning
	o := p.planOptions(ctx)
	o.Follow, o.Check, o.MemoryLimit = k.decisions, false, -1
	plan, err := passes.Run(s.Graph, o)
	if err != nil {
		return nil, fmt.Errorf("planning for unknown sizes: %w", err)
	}
	f := &form{Symbolic: s, planned: plan.Graph, guards: written}
	for _, cond := range s.Env.Guards()[len(written):] {
		f.guards = append(f.guards, graph.Guard{Cond: cond})
	}
	return f, nil
}
