package infer

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// SymbolicOf infers a graph for symbolic sizes. It drops rejected nodes, which errs lists. If allBranches is set, it
// follows all branches on sizes, otherwise only the branches that the assumed sizes take. It returns nil if g is nil,
// all sizes are given, or shapes depend on data. ([program.PreRunFacts.Unbacked] has the types of graphs whose shapes
// depend on data.)
func SymbolicOf(g *graph.Graph, errs []*graph.Error, allBranches bool) (*graph.Symbolic, error) {
	if g == nil || g.Dynamic() || !hasAssumedSymbol(g) {
		return nil, nil
	}
	if len(errs) > 0 {
		rejected := g.InferAll()
		g = g.WithoutRejected(rejected)
	}
	var hints map[string]int // none: the assumed sizes are the hints
	if allBranches {
		return g.SymbolicForked(hints)
	}
	return g.Symbolic(hints)
}

// hasAssumedSymbol reports whether the size of a symbol of the graph is assumed.
func hasAssumedSymbol(g *graph.Graph) bool {
	for name := range g.Assumed() {
		if _, isSymbol := g.Symbols[name]; isSymbol {
			return true
		}
	}
	return false
}

// GuardDoc is a condition on sizes.
type GuardDoc struct {
	Condition string              `json:"condition" doc:"The condition, in Eq, Ne, Lt, Le, &, |."`
	Node      document.TextOrNull `json:"node" doc:"The node or input whose inference requires the condition; null for none."`
	Op        document.TextOrNull `json:"op" doc:"The op of the node, or the word input; null for none."`
	Binds     map[string]int      `json:"binds,omitzero" doc:"The symbols that the condition binds to a size."`
	Refusal   string              `json:"refusal,omitzero" doc:"The error of inference if the condition does not hold; absent if inference then succeeds or was not tried."`
}

// GuardsOf returns the guards of symbolic inference as a part of a document. It returns nil if symbolic is nil.
func GuardsOf(symbolic *graph.Symbolic) []GuardDoc {
	if symbolic == nil {
		return nil
	}
	list := make([]GuardDoc, len(symbolic.Guards))
	for i, g := range symbolic.Guards {
		doc := &list[i]
		doc.Condition = g.Cond.String()
		switch {
		case g.Node != nil:
			doc.Node, doc.Op = document.TextOrNull(g.Node.Name), document.TextOrNull(g.Node.Op.Name)
		case g.Value != nil:
			doc.Node, doc.Op = document.TextOrNull(g.Value.Name), "input"
		}
		for _, name := range g.Binds {
			if doc.Binds == nil {
				doc.Binds = map[string]int{}
			}
			doc.Binds[name] = symbolic.Hints[symbolic.Name(name)]
		}
		if g.Refusal != nil {
			doc.Refusal = causeOf(g.Refusal).Error()
		}
	}
	for _, symbol := range sorted.Keys(symbolic.Graph.Symbols) {
		list = joinExclusions(list, symbolic.Name(symbol), symbolic.Graph.Symbols[symbol].Min)
	}
	return list
}

// joinExclusions replaces the guards Ne(x, least), Ne(x, least+1), ..., Ne(x, k) by Lt(k, x), where x is the symbol and
// least its minimum. The new guard takes the place of the last replaced guard. For example, if N is at least 1, the
// guards Ne(N, 1) and Ne(N, 2) become Lt(2, N).
func joinExclusions(list []GuardDoc, symbol string, least int) []GuardDoc {
	var joined []int // indices of the guards Ne(x, least), Ne(x, least+1), ...
	for {
		cond := fmt.Sprintf("Ne(%s, %d)", symbol, least+len(joined))
		index := slices.IndexFunc(list, func(g GuardDoc) bool {
			return g.Condition == cond && g.Binds == nil && g.Refusal == ""
		})
		if index < 0 {
			break
		}
		joined = append(joined, index)
	}
	if len(joined) < 2 {
		return list
	}
	sorted.Ints(joined)
	last := joined[len(joined)-1]
	list[last].Condition = fmt.Sprintf("Lt(%d, %s)", least+len(joined)-1, symbol)
	for _, absorbed := range slices.Backward(joined[:len(joined)-1]) { // backward, because Delete moves later guards
		list = slices.Delete(list, absorbed, absorbed+1)
	}
	return list
}

// causeOf returns an error without its place in the file.
func causeOf(err error) error {
	var e *graph.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err
	}
	return err
}

// WriteGuards prints the conditions on sizes under which the preceding table is valid.
func WriteGuards(w io.Writer, guards []GuardDoc) {
	for i, g := range guards {
		introduction := "holds while "
		if i > 0 {
			introduction = "        and "
		}
		fmt.Fprintf(w, "%s%s", introduction, g.Condition)
		if g.Node != "" {
			fmt.Fprintf(w, ", required by %s (%s)", format.Printable(string(g.Node)), g.Op)
		}
		for j, name := range sorted.Keys(g.Binds) {
			word := ","
			if j == 0 {
				word = " and binds"
			}
			fmt.Fprintf(w, "%s %s=%d", word, format.Printable(name), g.Binds[name])
		}
		if g.Refusal != "" {
			fmt.Fprintf(w, ": else %s", format.Printable(g.Refusal))
		}
		fmt.Fprintln(w)
	}
}

// SetSymbolicType replaces the type in doc by the type of v in symbolic inference. The old type is valid only for the
// assumed sizes, the new type for all sizes that satisfy the guards.
func SetSymbolicType(doc *ValueDoc, symbolic *graph.Symbolic, v *graph.Value) {
	inferred := symbolic.Graph.Value(v.Name)
	if inferred == nil || inferred.Dynamic {
		return
	}
	if doc.Dynamic && inferred.Alias != nil {
		doc.AliasOf = document.TextOrNull(inferred.Alias.Name)
	}
	simplified := inferred.Type.Simplify()
	doc.Shape, doc.Strides = report.SizesOf(simplified.Shape), report.SizesOf(simplified.Strides)
	doc.Offset = &report.SizesOf([]sym.Int{simplified.Offset})[0]
	doc.Flags, doc.Conditions = []string{}, nil
	for _, f := range layoutFlags {
		if rank := f.predicate.Rank(); rank > 0 && rank != simplified.Rank() { // 0: tensors of any rank
			continue
		}
		holds := conditionOf(symbolic.Env, simplified, f.predicate)
		switch truth, known := holds.Known(); {
		case truth && known:
			doc.Flags = append(doc.Flags, f.name)
		case !known:
			if doc.Conditions == nil {
				doc.Conditions = map[string]string{}
			}
			doc.Conditions[f.name] = holds.String()
		}
	}
}

// layoutFlags are the layout flags of values, with the predicates that define them.
var layoutFlags = []struct {
	name      string
	predicate tensor.Predicate
}{
	{"contiguous", tensor.IsContiguous},
	{"channels_last", tensor.IsChannelsLast},
	{"channels_last_3d", tensor.IsChannelsLast3d},
	{"non_overlapping_and_dense", tensor.IsNonOverlappingAndDense},
}

// Flags returns the names of the layout flags.
func Flags() []string {
	names := make([]string, len(layoutFlags))
	for i, f := range layoutFlags {
		names[i] = f.name
	}
	return names
}

const (
	// maxOutcomes is the maximum number of combinations of outcomes for which conditionOf evaluates a predicate.
	maxOutcomes = 16
	// maxFormulaSteps is a limit of the steps (sym.Env.Steps) of the simplification of the formula. If the simplification
	// takes more steps, no combinations are evaluated. Each combination takes about as many steps as the simplification.
	maxFormulaSteps = 1 << 12
)

// conditionOf returns the condition on sizes under which a layout predicate holds for a tensor of type t: the formula
// of the predicate, simplified. Simplification may miss that a formula is always true or always false, because the
// comparisons in a formula may depend on each other. Unless the simplification took many steps, conditionOf therefore
// also evaluates the predicate for every possible combination of the outcomes of its comparisons. If all combinations
// give the same value, conditionOf returns this value.
func conditionOf(env *sym.Env, t tensor.Type, predicate tensor.Predicate) sym.Bool {
	before := env.Steps()
	formula := t.Condition(predicate).Decide()
	if _, known := formula.Known(); known || env.Steps()-before > maxFormulaSteps {
		return formula
	}
	cases, err := sym.Fork(env, maxOutcomes, func() (bool, error) { return t.Holds(predicate), nil })
	if err != nil || len(cases) == 0 {
		return formula
	}
	for _, c := range cases {
		if c.Err != nil || c.Value != cases[0].Value {
			return formula
		}
	}
	return sym.BoolOf(cases[0].Value)
}
