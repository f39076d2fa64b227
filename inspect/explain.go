package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Explanation is the reason for the layout of a value in the original graph, and the way in which a program computes
// the value.
type Explanation struct {
	Layout  Layout           `json:"layout" doc:"The reason for the strides of the value, which the command infer prints."`
	Outcome Outcome          `json:"run" doc:"How the program computes it."`
	Copies  []CopyReason     `json:"copies" doc:"The copies of the value, and the copies of operands for the step that computes the value."`
	Unfused []report.Unfused `json:"unfused" doc:"Neighbouring nodes in other steps whose ops could be fused with the op of the value."`
}

// Layout is the reason for the strides of a value. Operands, Sort and Order describe one of the rules: the permutation
// rule, which sorts the dimensions by the strides of all operands. For example, let x have shape [2, 8, 4] and strides
// [32, 1, 8], and let y have the same shape and row-major strides. Then x + y has Order [0, 2, 1] and the strides of x,
// because the strides of the first operand decide. The tag `of` is for JSON Schemas. It names the list of the field's
// possible values: of:"rule" means LayoutRules.
type Layout struct {
	Rule     string       `json:"rule" of:"rule" doc:"What determines the layout: the graph, a view, the permutation rule, the op, or data."`
	Why      string       `json:"why" doc:"The reason in words."`
	Operands []Operand    `json:"operands" doc:"The operands of the permutation rule; empty for other rules."`
	Sort     []Comparison `json:"sort" doc:"The comparisons of the sort; empty if nothing was sorted."`
	Order    []int        `json:"order" doc:"The dimensions in the order of the permutation rule, the slowest first."`
}

// Operand is an operand of the permutation rule.
type Operand struct {
	Name    string       `json:"name" doc:"The operand: a value or a number."`
	Strides report.Sizes `json:"strides" doc:"Its strides over the broadcast shape: 0 in repeated dimensions."`
}

// Comparison is one comparison of two dimensions in the sort of the permutation rule.
type Comparison struct {
	Faster    int    `json:"faster" doc:"The dimension that is the faster one so far."`
	Slower    int    `json:"slower" doc:"The dimension that is the slower one so far."`
	Exchanged bool   `json:"exchanged" doc:"Whether they are exchanged."`
	By        string `json:"by,omitzero" doc:"The operand that decides; left out if none does."`
	Why       string `json:"why" doc:"The strides or sizes that decide."`
}

// The values of [Layout.Rule].
const (
	ruleGraph       = "graph"
	ruleView        = "view"
	rulePermutation = "permutation"
	ruleOp          = "op"
	ruleData        = "data"
)

// LayoutRules lists the values of [Layout.Rule].
func LayoutRules() []string { return []string{ruleGraph, ruleView, rulePermutation, ruleOp, ruleData} }

// Explain returns the reason for the layout of a value of the original graph, and the way in which the program computes
// it. A graph whose shapes depend on data runs in segments. Only the first segment is compiled, so a value of another
// segment has no step. Explain fails if there is no value with the name.
func Explain(p *graphrun.Program, value string) (*Explanation, error) {
	internal := p.Internal()
	planned, err := internal.Compiled()
	if err != nil {
		return nil, err
	}
	v, err := ValueNamed(planned.Graph, value)
	if err != nil {
		return nil, err
	}
	explanation := &Explanation{Layout: layoutOf(v)}
	addOutcome(explanation, internal, planned, v)
	return explanation, nil
}

// ExplainLayout returns the reason for the layout of a value of an inferred graph. In a graph that
// [graph.Graph.Symbolic] made, strides are expressions. If the expressions and the bounds of their symbols do not
// decide a comparison, the hints (the expected sizes of the symbols) decide it. ExplainLayout fails if there is no
// value with the name.
func ExplainLayout(g *graph.Graph, value string) (*Layout, error) {
	v, err := ValueNamed(g, value)
	if err != nil {
		return nil, err
	}
	layout := layoutOf(v)
	return &layout, nil
}

// errNoGraph is the error for a nil graph.
var errNoGraph = errors.New("the graph is nil")

// ValueNamed returns the value with the given name or, if there is none, the value of the output with this name. It
// fails if there is neither.
func ValueNamed(g *graph.Graph, name string) (*graph.Value, error) {
	if g == nil {
		return nil, errNoGraph
	}
	if v := g.Value(name); v != nil {
		return v, nil
	}
	for _, output := range g.Outputs {
		if output.Name == name {
			return output.Value, nil
		}
	}
	nearest := suggest.Nearest(name, func(yield func(string) bool) {
		wantsMore := true
		g.Values(func(v *graph.Value) { wantsMore = wantsMore && yield(v.Name) })
	})
	return nil, fmt.Errorf("there is no value %q%s", name, suggest.DidYouMean(nearest))
}

// layoutOf returns the reason for the inferred layout of a value.
func layoutOf(v *graph.Value) Layout {
	layout := Layout{Operands: []Operand{}, Sort: []Comparison{}, Order: []int{}}
	n := v.Node
	switch {
	case n == nil:
		layout.Rule, layout.Why = ruleGraph, "the graph declares this layout"
		if v.Const != nil {
			layout.Why = "its data have this layout in the graph"
		}
	case v.Dynamic:
		layout.Rule, layout.Why = ruleData, "its shape depends on data: its layout is known when the graph runs"
	case v.Alias != nil:
		layout.Rule, layout.Why = ruleView, viewReason(v)
	default:
		if permutation := permutationRuleOf(n); permutation != nil {
			layout.explainPermutation(n, permutation)
		} else {
			layout.Rule, layout.Why = ruleOp, opRuleReason(v)
		}
	}
	return layout
}

// viewReason explains a result that is a view of an operand, or the operand itself.
func viewReason(v *graph.Value) string {
	op, viewed := v.Node.Op, v.Alias
	if op.Identity {
		return fmt.Sprintf("%s has no effect here: its result is %s itself", op.Name, viewed.Name)
	}
	t := viewed.Type.Simplify()
	return fmt.Sprintf("%s is a view: its strides follow from %s, which has shape %v and strides %v",
		op.Name, viewed.Name, report.SizesOf(t.Shape), report.SizesOf(t.Strides))
}

// permutationRuleOf returns the permutation rule of a node, or nil if another rule determines its layout. Some calls of
// pointwise ops have no iteration, and thus no permutation rule.
func permutationRuleOf(n *graph.Node) *rule.Rule {
	if n.Op.Pointwise == nil {
		return nil
	}
	permutation, err := n.Op.Pointwise.Rule(n.Call())
	if err != nil {
		return nil
	}
	return permutation
}

// explainPermutation fills in the layout for a result of the permutation rule.
func (layout *Layout) explainPermutation(n *graph.Node, permutation *rule.Rule) {
	layout.Rule = rulePermutation
	resultCount := permutation.NumOutputs() // an iteration has the results, then the node's operands
	for i := resultCount; i < permutation.Len() && i-resultCount < len(n.In); i++ {
		strides := mapSlice(permutation.Effective(i), sym.Int.Simplify) // as the sort compares them
		layout.Operands = append(layout.Operands,
			Operand{Name: operandName(n, resultCount, i), Strides: report.SizesOf(strides)})
	}
	for _, step := range permutation.Sort() { // nil if the dimensions were not sorted
		comparison := Comparison{Faster: step.A, Slower: step.B, Exchanged: step.Exchanged, Why: comparisonReason(step)}
		if step.DecidingOperand >= 0 {
			comparison.By = operandName(n, resultCount, step.DecidingOperand)
		}
		layout.Sort = append(layout.Sort, comparison)
	}
	if why := permutation.UnsortedReason(); why != "" {
		layout.Why = "nothing was sorted: " + why + fastPathReasons[permutation.FastSetup()]
		return
	}
	layout.Order = permutation.Perm() // the fastest dimension first
	slices.Reverse(layout.Order)
	layout.Why = "the dimensions are sorted by the operands' strides, in the order of the operands; the result is " +
		"dense in that order"
}

// operandName names operand i of the iteration of a node with resultCount results.
func operandName(n *graph.Node, resultCount, i int) string {
	if i < resultCount {
		return "the result"
	}
	arg := n.In[i-resultCount]
	if arg.Kind == graph.TensorArg {
		return arg.Value.Name
	}
	return arg.Number.String()
}

// comparisonReason returns the strides or sizes that decided a comparison of two dimensions.
func comparisonReason(step rule.SortStep) string {
	switch {
	case step.DecidingOperand < 0:
		return "no operand decides: in every operand, one of the two dimensions is repeated, or their " +
			"strides and sizes are equal; the two dimensions are not exchanged"
	case step.Strides[0].Same(step.Strides[1]):
		return fmt.Sprintf("equal strides %v, sizes %v and %v", step.Strides[0], step.Sizes[0], step.Sizes[1])
	}
	return fmt.Sprintf("strides %v and %v", step.Strides[0], step.Strides[1])
}

// fastPathReasons explain the fast paths of TensorIterator, which do not sort.
var fastPathReasons = map[rule.FastSetup]string{
	rule.FastContiguous:          ": all operands have one shape and are row-major, and so is the result",
	rule.FastChannelsLast:        ": all operands have one shape and are channels-last, and so is the result",
	rule.FastNonOverlappingDense: ": all operands have one shape and the same dense strides, and so has the result",
}

// opRuleReason explains the result of an op with its own layout rule. It lists the layouts of the operands, and quotes
// the sentences about layouts in the op's documentation.
func opRuleReason(v *graph.Value) string {
	n := v.Node
	why := fmt.Sprintf("%s has its own layout rule", n.Op.Name)
	if n.Op.Kind == graph.View {
		why = fmt.Sprintf("%s cannot be a view of this operand: it copies", n.Op.Name)
	}
	var operandLayouts []string
	for _, arg := range n.In {
		if arg.Kind == graph.TensorArg && !arg.Value.Dynamic && arg.Value.Meta.Rank() > 1 {
			operandLayouts = append(operandLayouts, fmt.Sprintf("%s is %s", arg.Value.Name, valueLayoutName(arg.Value)))
		}
	}
	if len(operandLayouts) > 0 {
		why += "; " + strings.Join(operandLayouts, ", ")
	}
	why += "; the result is " + valueLayoutName(v)
	doc := strings.Join(strings.Fields(n.Op.Doc), " ") // in one line
	for _, sentence := range strings.Split(doc, ". ") {
		if slices.ContainsFunc(layoutWords, func(w string) bool { return strings.Contains(sentence, w) }) {
			why += ". " + strings.TrimSuffix(sentence, ".")
		}
	}
	if n.Op.FixedLayoutReason != "" {
		why += "; " + n.Op.FixedLayoutReason
	}
	return why
}

// layoutWords are words by which opRuleReason recognizes the sentences about layouts in an op's documentation.
var layoutWords = []string{"row-major", "channels-last", "layout", "memory format", "strides"}

// LayoutName names a layout: "row-major", "channels-last", or both. The name of any other dense layout is "dense in
// order [...]", with the dimensions from the slowest to the fastest. The name of a layout that is not dense is "not
// dense, by [...]", with the strides in elements.
func LayoutName(meta tensor.Meta) string {
	if name := formatName(meta.IsContiguous(), meta.IsChannelsLast() || meta.IsChannelsLast3d()); name != "" {
		return name
	}
	if order, dense := tensor.OrderOf(meta); dense {
		return "dense in order " + tensor.ListString(order.Dims())
	}
	return "not dense, by " + tensor.ListString(meta.Strides)
}

// formatName names the memory formats of a layout. The name is empty if there are none.
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

// valueLayoutName names the layout of a value whose sizes may be unknown. The name is the memory format that holds for
// all sizes, or else the strides.
func valueLayoutName(v *graph.Value) string {
	if _, known := v.Type.Meta(); known {
		return LayoutName(v.Meta)
	}
	alwaysHolds := func(p tensor.Predicate) bool {
		if rank := p.Rank(); rank > 0 && rank != v.Type.Rank() {
			return false
		}
		holds, known := v.Type.Condition(p).Decide().Known()
		return known && holds
	}
	isChannelsLast := alwaysHolds(tensor.IsChannelsLast) || alwaysHolds(tensor.IsChannelsLast3d)
	if name := formatName(alwaysHolds(tensor.IsContiguous), isChannelsLast); name != "" {
		return name
	}
	strides := report.SizesOf(v.Type.Simplify().Strides).String()
	if alwaysHolds(tensor.IsNonOverlappingAndDense) {
		return "dense, by " + strides
	}
	return "by " + strides
}

// FirstBreak returns the first result in an inferred graph that loses memory format f, or nil. For each node, let x be
// the first operand whose only format is f. (An image of one channel, for example, has two formats.) A result of the
// node loses f if it has the rank of x but not the format f. For example, a row-major result of 4 dimensions loses
// channels-last if the first operand is an image that is channels-last only. FirstBreak fails if f is not the format of
// a layout; an example is [tensor.Preserve].
func FirstBreak(g *graph.Graph, f tensor.MemoryFormat) (*graph.Value, error) {
	switch f {
	case tensor.Contiguous, tensor.ChannelsLast, tensor.ChannelsLast3d: // the formats of layouts
	default:
		return nil, fmt.Errorf("no value has memory format %v: want contiguous, channels_last or channels_last_3d",
			cmp.Or(f.String(), "none"))
	}
	if g == nil {
		return nil, errNoGraph
	}
	for _, n := range g.Nodes {
		first := slices.IndexFunc(n.In, func(arg graph.Arg) bool {
			return arg.Kind == graph.TensorArg && !arg.Value.Dynamic && isOnlyIn(arg.Value.Meta, f)
		})
		if first < 0 {
			continue
		}
		rank := n.In[first].Value.Meta.Rank()
		for _, v := range n.Out {
			if !v.Dynamic && v.Meta.Rank() == rank && !v.Meta.Is(f) {
				return v, nil
			}
		}
	}
	return nil, nil
}

// isOnlyIn reports whether f is the only format of a value.
func isOnlyIn(meta tensor.Meta, f tensor.MemoryFormat) bool {
	if f == tensor.Contiguous {
		return meta.IsContiguous() && !meta.IsChannelsLast() && !meta.IsChannelsLast3d()
	}
	return meta.Is(f) && !meta.IsContiguous()
}
