package graphrun

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/words"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Explanation tells of one value why it lies as it does in the graph as written, and what becomes of it in a program.
type Explanation struct {
	Layout LayoutReport  `json:"layout" doc:"Why it has the strides that infer shows."`
	Run    FateReport    `json:"run" doc:"What becomes of it under the strategy."`
	Copies []CopyWhy     `json:"copies" doc:"Copies of it, and those of operands that are made for what computes it."`
	Apart  []ApartReport `json:"apart" doc:"Nodes beside it that could be one step with it, and are not."`
}

// LayoutReport is why a value has its strides. The permutation rule sorts the dimensions of all operands.
type LayoutReport struct {
	Rule     string            `json:"rule" of:"rule" doc:"What decides: the graph, a view, the permutation rule, or the op."`
	Why      string            `json:"why" doc:"It in words."`
	Operands []EffectiveReport `json:"operands" doc:"What the permutation rule sees; empty for other rules."`
	Sort     []CompareReport   `json:"sort" doc:"The comparisons of the sort; empty where nothing was sorted."`
	Order    []int             `json:"order" doc:"The dimensions, the slowest first, as the permutation rule has them."`
}

// EffectiveReport is an operand as the permutation rule sees it.
type EffectiveReport struct {
	Name    string `json:"name" doc:"The operand: a value, or a number."`
	Strides Sizes  `json:"strides" doc:"Its strides over the broadcast shape: 0 where it is repeated."`
}

// CompareReport is one comparison of two dimensions.
type CompareReport struct {
	Faster    int    `json:"faster" doc:"The dimension that is the faster one so far."`
	Slower    int    `json:"slower" doc:"The dimension that is the slower one so far."`
	Exchanged bool   `json:"exchanged" doc:"Whether they change places."`
	By        string `json:"by,omitzero" doc:"The operand that decides; left out where none does."`
	Why       string `json:"why" doc:"By what it decides."`
}

// What decides how a value lies.
const (
	ruleGraph       = "graph"
	ruleView        = "view"
	rulePermutation = "permutation"
	ruleOp          = "op"
	ruleData        = "data"
)

// LayoutRules lists what [LayoutReport.Rule] may be.
func LayoutRules() []string { return []string{ruleGraph, ruleView, rulePermutation, ruleOp, ruleData} }

// Explain tells of a value of the graph, by its name, why it lies as it does and what becomes of it. The error is that
// there is no such value. A program whose shapes depend on data tells of the plan of the segment that is planned ahead.
func (p *Program) Explain(value string) (*Explanation, error) {
	if p == nil || p.first == nil {
		return nil, errors.New("the program was not made by Compile")
	}
	v, err := ValueNamed(p.first.graph, value)
	if err != nil {
		return nil, err
	}
	e := &Explanation{Layout: layoutOf(v)}
	p.fate(v, e)
	return e, nil
}

// ExplainLayout explains the layout of a value of an inferred graph, by its name, as [Program.Explain] does before
// anything is planned. In a graph of [graph.Graph.Symbolic] strides are expressions, and comparisons that expressions
// and bounds do not decide are decided by the hints. The error says that there is no such value.
func ExplainLayout(g *graph.Graph, value string) (*LayoutReport, error) {
	v, err := ValueNamed(g, value)
	if err != nil {
		return nil, err
	}
	r := layoutOf(v)
	return &r, nil
}

var errNoGraph = errors.New("the graph is nil")

// ValueNamed finds a value of a graph by its name, or that which an output of the name hands over. The error is that
// there is none.
func ValueNamed(g *graph.Graph, name string) (*graph.Value, error) {
	if g == nil {
		return nil, errNoGraph
	}
	if v := g.Value(name); v != nil {
		return v, nil
	}
	for _, o := range g.Outputs {
		if o.Name == name {
			return o.Value, nil
		}
	}
	near := words.Nearest(name, func(yield func(string) bool) {
		more := true
		g.Values(func(v *graph.Value) { more = more && yield(v.Name) })
	})
	return nil, fmt.Errorf("there is no value %q%s", name, words.DidYouMean(near))
}

// layoutOf tells why a value lies as inference gives it.
func layoutOf(v *graph.Value) LayoutReport {
	r := LayoutReport{Operands: []EffectiveReport{}, Sort: []CompareReport{}, Order: []int{}}
	n := v.Node
	switch {
	case n == nil:
		r.Rule, r.Why = ruleGraph, "it lies as the graph declares it"
		if v.Const != nil {
			r.Why = "its data lie so in the graph"
		}
	case v.Dynamic:
		r.Rule, r.Why = ruleData, "its shape depends on data: how it lies is known when the graph runs"
	case v.Alias != nil:
		if r.Rule = ruleView; n.Op.Identity {
			r.Why = fmt.Sprintf("%s has nothing to do here: it gives %s itself", n.Op.Name, v.Alias.Name)
			break
		}
		t := v.Alias.Type.Simplify()
		r.Why = fmt.Sprintf("%s is a view: the strides are those of %s, which has %v by %v, mapped",
			n.Op.Name, v.Alias.Name, SizesOf(t.Shape), SizesOf(t.Strides))
	case n.Op.Pointwise != nil:
		if rule, err := n.Op.Pointwise.Rule(n.Call()); err == nil {
			r.byPermutation(n, rule)
			break
		}
		fallthrough
	default:
		r.Rule, r.Why = ruleOp, ownRule(v)
	}
	return r
}

// ownRule tells how an op whose layouts are a rule of its own laid a value out: of which operands, and what its
// documentation says of it.
func ownRule(v *graph.Value) string {
	n := v.Node
	why := fmt.Sprintf("%s lays its results out by a rule of its own", n.Op.Name)
	if n.Op.Kind == graph.View {
		why = fmt.Sprintf("%s is no view of this operand: it copies", n.Op.Name)
	}
	var read []string
	for _, a := range n.In {
		if a.Kind == graph.TensorArg && !a.Value.Dynamic && a.Value.Meta.Rank() > 1 {
			read = append(read, fmt.Sprintf("%s is %s", a.Value.Name, layoutName(a.Value)))
		}
	}
	if len(read) > 0 {
		why += "; " + strings.Join(read, ", ")
	}
	why += "; the result is " + layoutName(v)
	for _, sentence := range strings.Split(strings.Join(strings.Fields(n.Op.Doc), " "), ". ") {
		if slices.ContainsFunc(layoutWords, func(w string) bool { return strings.Contains(sentence, w) }) {
			why += ". " + strings.TrimSuffix(sentence, ".")
		}
	}
	if n.Op.AsInferred != "" {
		why += "; " + n.Op.AsInferred
	}
	return why
}

// layoutWords are in the sentences of an op's documentation that tell how results lie.
var layoutWords = []string{"row-major", "channels-last", "layout", "memory format", "strides"}

// LayoutName names how a value lies: "row-major", "channels-last", both, "dense in order [...]" with its dimensions
// from the slowest on, or "not dense, by [...]" with its strides, in elements.
func LayoutName(m tensor.Meta) string {
	if name := formatName(m.IsContiguous(), m.IsChannelsLast() || m.IsChannelsLast3d()); name != "" {
		return name
	}
	if o, dense := tensor.OrderOf(m); dense {
		return "dense in order " + tensor.ListString(o.Dims())
	}
	return "not dense, by " + tensor.ListString(m.Strides)
}

// formatName names the memory formats of a value; it is empty for a value in neither format.
func formatName(rowMajor, channelsLast bool) string {
	switch {
	case rowMajor && channelsLast:
		return "row-major and channels-last"
	case rowMajor:
		return "row-major"
	case channelsLast:
		return "channels-last"
	}
	return ""
}

// layoutName is LayoutName of a value whose sizes may be unknown: the format that holds for all sizes, else the
// strides.
func layoutName(v *graph.Value) string {
	if _, known := v.Type.Meta(); known {
		return LayoutName(v.Meta)
	}
	always := func(p tensor.Predicate) bool {
		if rank := p.Rank(); rank > 0 && rank != v.Type.Rank() {
			return false
		}
		holds, known := v.Type.If(p).Decide().Known()
		return known && holds
	}
	name := formatName(always(tensor.IsContiguous), always(tensor.IsChannelsLast) || always(tensor.IsChannelsLast3d))
	strides := SizesOf(v.Type.Simplify().Strides).String()
	switch {
	case name != "":
		return name
	case always(tensor.IsNonOverlappingAndDense):
		return "dense, by " + strides
	}
	return "by " + strides
}

// byPermutation tells what the permutation rule saw, and did.
func (r *LayoutReport) byPermutation(n *graph.Node, rule *iter.Rule) {
	r.Rule = rulePermutation
	outs := rule.NumOutputs()
	name := func(i int) string {
		switch {
		case i < outs:
			return "the result"
		case n.In[i-outs].Kind == graph.TensorArg:
			return n.In[i-outs].Value.Name
		}
		return n.In[i-outs].Number.String()
	}
	for i := outs; i < rule.Len() && i-outs < len(n.In); i++ {
		r.Operands = append(r.Operands, EffectiveReport{name(i), SizesOf(mapped(rule.Effective(i), sym.Int.Simplify))})
	}
	for _, c := range rule.Sort() {
		d := CompareReport{Faster: c.A, Slower: c.B, Exchanged: c.Exchanged}
		switch {
		case c.By < 0:
			d.Why = "in each operand one of the two is repeated, or both are alike: they stay"
		case c.Strides[0].Same(c.Strides[1]):
			d.By, d.Why = name(c.By), fmt.Sprintf("equal strides %v, sizes %v and %v", c.Strides[0], c.Sizes[0], c.Sizes[1])
		default:
			d.By, d.Why = name(c.By), fmt.Sprintf("strides %v and %v", c.Strides[0], c.Strides[1])
		}
		r.Sort = append(r.Sort, d)
	}
	if why := rule.Unsorted(); why != "" {
		r.Why = "nothing was sorted: " + why + fastWords[rule.FastSetup()]
	} else {
		r.Order = rule.Perm()
		slices.Reverse(r.Order)
		r.Why = "the dimensions are sorted by the operands' strides, in the order of the operands; the result is dense " +
			"in that order"
	}
}

// fastWords say what a fast set-up means.
var fastWords = map[iter.FastSetup]string{
	iter.FastContiguous:          ": all operands have one shape and are row-major, so is the result",
	iter.FastChannelsLast:        ": all operands have one shape and are channels-last, so is the result",
	iter.FastNonOverlappingDense: ": all operands have one shape and the same dense strides, so has the result",
}

// FirstBreak finds the first node, in the order of the graph, that reads a value in a memory format and gives one of
// the same rank that is not in it, as inference has them: the value that loses the format, nil where none does. A value
// in which two formats cannot be told apart, such as an image of one channel, counts as in none where it is read, and
// as in each where it is made. The error is that the format is none that values lie in.
func FirstBreak(g *graph.Graph, f tensor.MemoryFormat) (*graph.Value, error) {
	switch f {
	case tensor.Contiguous, tensor.ChannelsLast, tensor.ChannelsLast3d:
	default:
		return nil, fmt.Errorf("no value lies in memory format %v: want contiguous, channels_last or channels_last_3d",
			cmp.Or(f.String(), "none"))
	}
	if g == nil {
		return nil, errNoGraph
	}
	for _, n := range g.Nodes {
		i := slices.IndexFunc(n.In, func(a graph.Arg) bool {
			return a.Kind == graph.TensorArg && !a.Value.Dynamic && onlyIn(a.Value.Meta, f)
		})
		for _, v := range n.Out {
			if i >= 0 && !v.Dynamic && v.Meta.Rank() == n.In[i].Value.Meta.Rank() && !v.Meta.Is(f) {
				return v, nil
			}
		}
	}
	return nil, nil
}

// onlyIn reports whether a value lies in a format, and in no other.
func onlyIn(m tensor.Meta, f tensor.MemoryFormat) bool {
	if f == tensor.Contiguous {
		return m.IsContiguous() && !m.IsChannelsLast() && !m.IsChannelsLast3d()
	}
	return m.Is(f) && !m.IsContiguous()
}
