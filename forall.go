package graphrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/words"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// ForAllReport says whether plans have a property at all sizes within bounds.
type ForAllReport struct {
	Property string           `json:"property" doc:"The property, as it was asked for."`
	Proved   bool             `json:"proved" doc:"Whether it holds for all sizes within bounds: the cases cover them all, and every plan that serves one of them has it by form."`
	Cases    []CaseReport     `json:"cases" doc:"The conditions under which it was shown by form, one of which holds at each size that is covered."`
	Broken   map[string]int   `json:"broken,omitzero" doc:"Sizes at which it does not hold, by symbol."`
	Why      string           `json:"why,omitzero" doc:"What is otherwise there, or why it is not proved."`
	Tried    []map[string]int `json:"tried" doc:"The sets of sizes at which plans were made one by one and have it, by symbol."`
}

// CaseReport is a set of sizes at which a property was shown.
type CaseReport struct {
	Sizes   map[string]int `json:"sizes" doc:"Some sizes of the case, by symbol."`
	Holds   []string       `json:"holds_while" doc:"The conditions of the case: all of them hold."`
	Refused bool           `json:"refused,omitzero" doc:"Whether the graph refuses these sizes, so that there is no plan."`
}

// Bounds on the search for sizes that break a property.
const (
	mostCases = 24
	mostTried = 96
)

// property is what may be asked of a plan.
type property struct {
	text   string
	value  string // empty: that there are no copies
	format tensor.MemoryFormat
}

// propertyOf reads "no-copies", "VALUE=FORMAT" or "FORMAT(VALUE)".
func (p *Program) propertyOf(text string) (property, error) {
	q := property{text: text}
	if text == "no-copies" {
		return q, nil
	}
	format, rest, call := strings.Cut(text, "(")
	if call && strings.HasSuffix(rest, ")") {
		q.value = strings.TrimSuffix(rest, ")")
	} else if at := strings.LastIndexByte(text, '='); at > 0 {
		q.value, format = text[:at], text[at+1:]
	}
	pin, err := graph.ParsePin(format)
	if q.value == "" || err != nil || pin.Format == tensor.NoFormat {
		return q, fmt.Errorf("there is no property %q: want no-copies, VALUE=FORMAT or FORMAT(VALUE)", text)
	}
	q.format = pin.Format
	if p.graph.Value(q.value) == nil {
		return q, fmt.Errorf("property %q: the graph has no value %q%s", text, q.value,
			words.DidYouMean(words.Nearest(q.value, valueNames(p.graph))))
	}
	return q, nil
}

func valueNames(g *graph.Graph) func(yield func(string) bool) {
	var list []string
	g.Values(func(v *graph.Value) { list = append(list, v.Name) })
	return slices.Values(list)
}

// broken tells what of a plan is otherwise than the property says; empty for nothing.
func (q property) broken(plan *passes.Plan) string {
	if q.value == "" {
		if len(plan.Copies) == 0 {
			return ""
		}
		return fmt.Sprintf("%q is copied: %s", plan.Copies[0].Value, plan.Copies[0].Why)
	}
	switch v := plan.Graph.Value(q.value); {
	case v == nil:
		return fmt.Sprintf("%q is not in memory: it is within a step, or its readers read another value", q.value)
	case !v.Meta.Is(q.format):
		return fmt.Sprintf("%q is %v", q.value, v.Meta)
	}
	return ""
}

// ForAll asks whether plans have a property for all sizes of the open symbols within their bounds: "no-copies", that
// no copy is inserted; "VALUE=FORMAT" or "FORMAT(VALUE)", that a value lies in a memory format. It is shown by cases:
// the plan of the class is made for unknown sizes, and the guards that this needs say for which sizes it is shown.
// What no case covers is tried at bounds and small sizes, and makes another case, until one breaks the property or all
// are covered. It is proved where sym decides that the cases cover all sizes within bounds, and no class that was
// planned needs more than its guards for the property. What a proof rests on beside the form of sizes is that
// implementations support at all sizes of a class the calls that they support at its hint: where one does not, sizes
// get a plan of their own.
func (p *Program) ForAll(text string) (*ForAllReport, error) {
	if p == nil || p.first == nil {
		return nil, errors.New("the program was not made by Compile")
	}
	if p.graph == nil || !p.classes() || p.first.runs.Dynamic() {
		return nil, errors.New("plans of this graph serve one set of sizes each: no size is open, or shapes depend on data")
	}
	q, err := p.propertyOf(text)
	if err != nil {
		return nil, err
	}
	f := &forAll{p: p, q: q, r: &ForAllReport{Property: text, Cases: []CaseReport{},
		Tried: []map[string]int{}}, used: map[*class]bool{}}
	if err := f.cover(); err != nil || f.r.Broken != nil {
		return f.r, err
	}
	return f.r, f.conclude()
}

// forAll is a search for sizes at which a property is not shown.
type forAll struct {
	p     *Program
	q     property
	r     *ForAllReport
	cases []covering
	used  map[*class]bool // the classes that serve what was looked at, and whether they have the property by form
}

// covering is a set of sizes: where all conditions hold, and, if there are sizes, these alone.
type covering struct {
	conds []string
	holds func(named map[string]int) bool
}

// cover goes through sizes, and makes a case of each that is in none.
func (f *forAll) cover() error {
	for _, sizes := range f.samples() {
		named := f.p.named(sizes)
		covered := slices.ContainsFunc(f.cases, func(r covering) bool { return r.holds(named) })
		if covered && len(f.r.Tried) >= mostTried {
			continue
		}
		plan, k, err := f.p.planAt(sizes)
		switch {
		case err != nil && covered, err != nil && len(f.cases) >= mostCases:
			continue
		case err != nil:
			f.refused(sizes)
			continue
		}
		if why := f.q.broken(plan); why != "" {
			f.r.Broken, f.r.Why = named, why
			return nil
		}
		f.r.Tried = append(f.r.Tried, named)
		if !covered && k != nil && len(f.cases) < mostCases {
			f.shown(k, sizes)
		}
	}
	return nil
}

// shown makes a case of all sizes at which the class has the property for the reasons that it has at these, and notes
// whether that is all sizes that it serves.
func (f *forAll) shown(k *class, sizes []int) {
	form, err := f.p.form(context.Background(), k, sizes)
	if err != nil {
		return
	}
	guards := len(form.Env.Guards())
	if f.q.value != "" {
		if v := form.planned.Value(f.q.value); v == nil || !v.Type.Is(f.q.format) {
			return
		}
	}
	f.used[k] = len(form.Env.Guards()) == guards
	if more, ok := f.asked(k, sizes); ok {
		f.add(form.Symbolic, more, sizes, false)
	}
}

// asked returns conditions under which other sizes of the class's region ask for the same classes before this one as
// the given sizes do, so that no class serves any of these that is not planned; false where this one is not asked for.
// Classes of hints, and the one at which no size is 0 or 1 by chance, are asked first, whatever the sizes.
func (f *forAll) asked(k *class, sizes []int) (conds []sym.Bool, ok bool) {
	p := f.p
	if slices.Equal(k.hint, p.generic(context.Background())) ||
		slices.ContainsFunc(p.hints, func(hint []int) bool { return slices.Equal(hint, k.hint) }) {
		return nil, true
	}
	r := p.regionOf(context.Background(), sizes)
	if r == nil {
		return nil, false
	}
	within := []func([]int) bool{r.guards.Hold}
	for range mostCuts {
		before := p.classAt(context.Background(), firstPoint(r.points, within))
		if before == k {
			return conds, true
		}
		if before == nil {
			break
		}
		before.guarded(context.Background(), p)
		here := before.truth.Truths(nil, sizes)
		if len(here) != len(before.guards) {
			break
		}
		for i, g := range before.guards {
			if here[i] {
				conds = append(conds, g.Cond)
			} else {
				conds = append(conds, g.Cond.Not())
			}
		}
		within = append(within, func(at []int) bool { return slices.Equal(before.truth.Truths(nil, at), here) })
	}
	return nil, false
}

// unshown looks at the sizes at which classes were made that did not come up yet, and returns a class that may serve
// sizes, and of which the property was not shown for all of these; nil for none. What serves a size of a case was
// planned when the case was made: it is the nearest of the hints, the class at which no size is 0 or 1 by chance, or
// one of those that were looked at for the same region.
func (f *forAll) unshown() *class {
	for {
		k := f.unseen()
		if k == nil {
			return nil
		}
		plan, served, err := f.p.planAt(k.hint)
		if err != nil || served != k {
			return k
		}
		if why := f.q.broken(plan); why != "" {
			f.r.Broken, f.r.Why = f.p.named(k.hint), why
			return k
		}
		if f.shown(k, k.hint); !f.used[k] {
			return k
		}
	}
}

// unseen returns a class that may serve sizes, and of which the property is not known to hold for all of these.
func (f *forAll) unseen() *class {
	p := f.p
	unlock := p.lock(context.Background())
	list := slices.Clone(p.planned)
	unlock()
	for _, k := range list {
		alone := len(p.hints) == 0 && slices.Equal(k.hint, p.assumed) &&
			!slices.Equal(k.hint, p.generic(context.Background()))
		has, looked := f.used[k]
		if k.err == nil && !has && (looked || !alone) {
			return k
		}
	}
	return nil
}

// refused makes a case of all sizes that the graph refuses for the reason that it has at these.
func (f *forAll) refused(sizes []int) {
	if s, err := f.p.symbolicAt(context.Background(), sizes); err != nil && s != nil && len(s.Env.Guards()) > 0 {
		f.add(s, nil, sizes, true)
	}
}

// add makes a case of the sizes for which inference and planning go as they did, and other conditions hold.
func (f *forAll) add(s *graph.Symbolic, more []sym.Bool, sizes []int, refused bool) {
	guards, r := slices.Concat(s.Env.Guards(), more), covering{}
	for _, cond := range guards {
		r.conds = append(r.conds, cond.String())
	}
	r.holds = func(named map[string]int) bool {
		at := s.Binding(named)
		return !slices.ContainsFunc(guards, func(cond sym.Bool) bool {
			holds, err := cond.At(at)
			return err != nil || !holds
		})
	}
	f.cases = append(f.cases, r)
	f.r.Cases = append(f.r.Cases, CaseReport{f.p.named(sizes), append([]string{}, r.conds...), refused})
}

// conclude decides whether the cases cover all sizes within bounds.
func (f *forAll) conclude() error {
	k := f.unshown() // it adds cases
	env, names := sym.NewEnv(), &graph.Symbolic{}
	symbols := map[string]sym.Int{}
	for i, name := range f.p.open {
		b := f.p.graph.Symbols[name]
		most := b.Max
		if most == 0 {
			most = tensor.MaxBytes
		}
		s, err := env.Symbol(names.Name(name), b.Min, most, f.p.within(i, 2))
		if err != nil {
			return err
		}
		symbols[names.Name(name)] = s
	}
	lookup := func(name string) (sym.Int, bool) { s, ok := symbols[name]; return s, ok }
	some := sym.Truth(false)
	for _, r := range f.cases {
		all := sym.Truth(true)
		for _, text := range r.conds {
			cond, err := sym.ParseBool(text, lookup)
			if err != nil {
				return err
			}
			all = all.And(cond)
		}
		some = some.Or(all)
	}
	rest := some.Decide()
	truth, known := rest.Known()
	switch {
	case f.r.Broken != nil:
	case k != nil:
		f.r.Why = fmt.Sprintf("of the plan for %s it is not shown by form at all sizes that this serves",
			sizesText(f.p.named(k.hint)))
	case known && truth:
		f.r.Proved = true
	default:
		f.r.Why = fmt.Sprintf("it is shown by form while %v, and not proved that this covers all sizes", rest)
	}
	return nil
}

// samples are sizes to be looked at: first those of the hints, then what is small, at bounds, and between.
func (f *forAll) samples() [][]int {
	p := f.p
	list := append(slices.Clone(p.hints), p.assumed)
	if g := p.generic(context.Background()); g != nil {
		list = append(list, g)
	}
	each := make([][]int, len(p.open))
	for i, name := range p.open {
		b := p.graph.Symbols[name]
		values := []int{b.Min, b.Min + 1, b.Min + 2, 3, 8}
		for _, s := range list {
			values = append(values, s[i])
		}
		if b.Max > 0 {
			values = append(values, b.Max-1, b.Max)
		}
		for k, n := range values {
			values[k] = p.within(i, n)
		}
		slices.Sort(values)
		each[i] = slices.Compact(values)
	}
	all := [][]int{nil}
	for _, values := range each {
		var more [][]int
		for _, begin := range all {
			for _, n := range values {
				more = append(more, append(slices.Clip(begin), n))
			}
		}
		all = more[:min(len(more), 4096)]
	}
	return append(list, all...)
}

// planAt plans the graph for sizes as a run would, without compiling it. The class is nil where none serves them.
func (p *Program) planAt(sizes []int) (*passes.Plan, *class, error) {
	g, err := p.at(context.Background(), sizes)
	if err != nil {
		return nil, nil, err
	}
	o := p.planOptions(context.Background())
	o.Check, o.MemoryLimit, o.Price = false, -1, true
	if k := p.classFor(context.Background(), sizes); k != nil {
		o.Follow = k.decisions
		if plan, err := passes.Run(g, o); err == nil {
			return plan, k, nil
		}
	}
	o.Follow = nil
	plan, err := passes.Run(g, o)
	return plan, nil, err
}
