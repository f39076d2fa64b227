package layout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/pricing"
)

// Outcome describes the plan that labels of a [Model] determine. A variable of the model is a choice, such as how to
// compute a node, and a label is one of the alternatives. Different labels may have equal outcomes, because unread
// forms (layouts of a value) are not created.
type Outcome struct {
	// CostPS is the total cost in picoseconds. CopyCostPS is the cost of the copies, a part of CostPS.
	CostPS, CopyCostPS int64
	Nodes              []Computed
	Copies             []Copied // sorted by name
	// Inserted is the number of Copies that are inserted into the graph. Copies that nodes of the graph make do not
	// count, such as the copy of a reshape that cannot be a view.
	Inserted int
	// Labels is the assignment that has this outcome.
	Labels []int
}

// Computed describes how a node is computed.
type Computed struct {
	Node  string
	Impl  string // empty if the op has no implementations
	Order string // dimension order of the results
}

// Copied is a copy of a value.
type Copied struct {
	Value  string  `json:"value" doc:"The value that is copied, directly or through views."`
	From   string  `json:"from" doc:"The order that is copied."`
	To     string  `json:"to" doc:"The order of the copy."`
	Bytes  int     `json:"bytes" doc:"The size of the copy."`
	CostNS float64 `json:"cost_ns" doc:"The estimated time of the copy, in nanoseconds."`
}

// Change is the difference between two plans.
type Change struct {
	Nodes []Recomputed `json:"nodes" doc:"The nodes that are computed differently."`
	Gone  []Copied     `json:"removed" doc:"The copies that are removed."`
	Added []Copied     `json:"added" doc:"The copies that are added."`
}

// Recomputed is a node that two plans compute differently.
type Recomputed struct {
	Node     string `json:"node" doc:"The node."`
	WasImpl  string `json:"was_impl" doc:"Its implementation in the first plan; empty if the op has none."`
	WasOrder string `json:"was_order" doc:"The dimension order of its results in the first plan."`
	Impl     string `json:"impl" doc:"Its implementation in the second plan."`
	Order    string `json:"order" doc:"The dimension order of its results in the second plan."`
}

// Outcome returns the plan for a label of each variable of WCSP. If labels are infeasible, the error names the
// forbidden combination. A decoder finds the forms that are read; copies make the missing forms.
func (m *Model) Outcome(labels []int) (_ *Outcome, err error) {
	defer interrupt.Catch(&err)
	decoder, err := newDecoder(m, labels)
	if err != nil {
		return nil, err
	}
	decoder.markReadForms()
	outcome := &Outcome{Nodes: []Computed{}, Copies: []Copied{}, Labels: slices.Clone(labels)}
	decoder.viewNodes = graph.NewByValue[*viewNode](m.Problem.Graph)
	for input := range m.inputVariables() {
		decoder.addCopies(outcome, input, 1<<m.inputForm(input), nil)
	}
	for i, n := range m.Problem.Graph.Nodes {
		interrupt.Check(m.Problem.Context())
		switch view, computed := m.viewNodes[i], m.computedNodes[i]; {
		case view != nil: // the results are views of the operand's forms, or copies
			operand := m.variables.At(n.In[view.operand].Value)
			available := decoder.existingForms(operand) & view.allowed
			for k, value := range n.Out {
				decoder.viewNodes.Set(value, view)
				decoder.addCopies(outcome, m.variables.At(value), view.viewForms(k, available),
					m.operandCopies(view, k, available))
			}
		case computed != nil: // the results have the forms that the label writes
			chosen := decoder.chosenLabel(computed)
			for k, value := range n.Out {
				decoder.addCopies(outcome, m.variables.At(value), 1<<chosen.resultForms[k], nil)
			}
			outcome.CostPS += decoder.workCost(computed, chosen)
			outcome.Nodes = append(outcome.Nodes, m.describeComputation(computed, chosen))
		}
	}
	outcome.CostPS += outcome.CopyCostPS
	sorted.Func(outcome.Copies, func(a, b Copied) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.To, b.To), cmp.Compare(a.From, b.From))
	})
	return outcome, nil
}

// workCost returns the cost of a label, including its reads.
func (decoder *decoder) workCost(computed *computedNode, chosen *label) int64 {
	sum := chosen.cost
	for k, costs := range chosen.readCosts {
		if costs != nil {
			_, readCost := chosen.cheapestRead(k, decoder.existingForms(decoder.model.variables.At(computed.node.In[k].Value)))
			sum += readCost
		}
	}
	return sum
}

// describeComputation describes the computation of a node with the chosen label.
func (m *Model) describeComputation(computed *computedNode, chosen *label) Computed {
	c := Computed{Node: computed.node.Name}
	if chosen.impl != nil {
		c.Impl = chosen.impl.Name
	}
	var orders []string
	for k, v := range computed.node.Out {
		if text := m.variables.At(v).forms[chosen.resultForms[k]].text(); !slices.Contains(orders, text) {
			orders = append(orders, text)
		}
	}
	c.Order = strings.Join(orders, ", ")
	return c
}

// addCopies adds to out the copies that make the needed forms of a value. roots is the mask of the forms that exist
// without a copy. If the value is the result of a view, operandCopies has, by form, the copy of the view's operand that
// makes the form; otherwise it is nil.
func (decoder *decoder) addCopies(out *Outcome, variable *variable, roots uint, operandCopies []operandCopy) {
	if decoder.needed.At(variable.value) == 0 {
		return
	}
	for _, copyStep := range decoder.derive(variable, roots, operandCopies).steps {
		var cost int64
		if copyStep.from < 0 { // a copy of the view's operand
			cost = operandCopies[copyStep.to].ps
		} else {
			row := int(copyStep.from) * len(variable.forms) // the matrix has a row for each source
			cost = decoder.model.copyCostMatrix(variable)[row+int(copyStep.to)]
		}
		copied := decoder.describeCopy(variable, int(copyStep.from), int(copyStep.to))
		copied.CostNS = float64(cost) / pricing.PSPerNS
		isMadeByNode := copyStep.from < 0 && operandCopies[copyStep.to].byNode
		if !isMadeByNode {
			out.Inserted++
		}
		out.CopyCostPS += cost
		out.Copies = append(out.Copies, copied)
	}
}

// describeCopy describes a copy of a value to form `to`. The source is form `from` of the value or, if `from` is
// negative, the operand of the view whose result is the value. Copying the operand of a view is equivalent to copying
// the result. describeCopy therefore follows views back to the first value and names it, so that equal plans have equal
// descriptions.
func (decoder *decoder) describeCopy(variable *variable, from, to int) Copied {
	for {
		operand, source, target := decoder.copyOfOperand(variable, from, to)
		if operand == nil {
			break
		}
		variable, from, to = operand, source, target
	}
	c := Copied{Value: variable.value.Name, From: "its operand", To: variable.forms[to].text(),
		Bytes: variable.value.Meta.Bytes()}
	if from >= 0 {
		c.From = variable.forms[from].text()
	}
	return c
}

// copyOfOperand returns the copy of a view's operand that is equivalent to a copy of the view's result: the operand,
// and the operand's forms that are the source and the target. It returns a nil operand if the value is not the result
// of a view, or if there is no equivalent copy. Its parameters are as in describeCopy.
func (decoder *decoder) copyOfOperand(variable *variable, from, to int) (operand *variable, source, target int) {
	view := decoder.viewNodes.At(variable.value)
	if view == nil {
		return nil, 0, 0
	}
	operand = decoder.model.variables.At(view.node.In[view.operand].Value)
	isResized := operand.value.Meta.Bytes() != variable.value.Meta.Bytes() // a slice or an expansion
	if isFreeConstant(operand.value) || isResized {
		return nil, 0, 0
	}
	k := variable.value.Index // the value is result k of the view
	const noPriority = 0      // otherwise a mask: forms of the operand that viewSource prefers
	target = view.viewSource(k, to, view.allowed, noPriority)
	if from < 0 {
		available := decoder.existingForms(operand) & view.allowed // the operand forms that the view may use
		source = decoder.model.copySource(view, k, to, available)
	} else {
		source = view.viewSource(k, from, view.allowed, decoder.needed.At(operand.value))
	}
	if source < 0 || target < 0 || source == target { // no form of the operand, or nothing to copy
		return nil, 0, 0
	}
	return operand, source, target
}

// samePlan reports whether two outcomes of one model have the same implementations, layouts of results and copies.
func (o *Outcome) samePlan(other *Outcome) bool {
	return slices.Equal(o.Nodes, other.Nodes) && slices.Equal(o.Copies, other.Copies)
}

// ChangesSince returns the changes from outcome earlier to outcome o. Both must be outcomes of the same graph. Nil
// means an empty outcome.
func (o *Outcome) ChangesSince(earlier *Outcome) Change {
	change := Change{Nodes: []Recomputed{}, Gone: []Copied{}, Added: []Copied{}}
	if o == nil {
		o = &Outcome{}
	}
	if earlier == nil {
		earlier = &Outcome{}
	}
	earlierNodes := make(map[string]Computed, len(earlier.Nodes))
	for _, n := range earlier.Nodes {
		earlierNodes[n.Node] = n
	}
	for _, n := range o.Nodes {
		if before := earlierNodes[n.Node]; before != n {
			change.Nodes = append(change.Nodes, Recomputed{Node: n.Node, WasImpl: before.Impl,
				WasOrder: before.Order, Impl: n.Impl, Order: n.Order})
		}
	}
	change.Gone = append(change.Gone, missing(earlier.Copies, o.Copies)...)
	change.Added = append(change.Added, missing(o.Copies, earlier.Copies)...)
	return change
}

// missing returns the copies of list that are not in other. A copy that occurs n times in other is removed n times.
func missing(list, other []Copied) []Copied {
	remaining := make(map[Copied]int, len(other))
	for _, copied := range other {
		remaining[copied]++
	}
	return slices.DeleteFunc(slices.Clone(list), func(copied Copied) bool {
		remaining[copied]--
		return remaining[copied] >= 0
	})
}

// String describes the change in one line; it is empty for no change. For example: "conv writes channels_last by
// direct, not contiguous by gemm; the copy of x to channels_last is added".
func (c Change) String() string {
	var parts []string
	for _, n := range c.Nodes {
		switch {
		case n.WasOrder != n.Order && n.WasImpl != n.Impl:
			parts = append(parts, fmt.Sprintf("%s writes %s by %s, not %s by %s", n.Node, n.Order, n.Impl, n.WasOrder,
				n.WasImpl))
		case n.WasOrder != n.Order:
			parts = append(parts, fmt.Sprintf("%s writes %s, not %s", n.Node, n.Order, n.WasOrder))
		default:
			parts = append(parts, fmt.Sprintf("%s runs by %s, not %s", n.Node, n.Impl, n.WasImpl))
		}
	}
	parts = shorten(parts, "nodes")
	for _, list := range []struct {
		copies []Copied
		change string
	}{{c.Gone, "is removed"}, {c.Added, "is added"}} {
		var texts []string
		for _, copied := range list.copies {
			texts = append(texts, fmt.Sprintf("the copy of %s to %s %s", copied.Value, copied.To, list.change))
		}
		parts = append(parts, shorten(texts, "copies")...)
	}
	return strings.Join(parts, "; ")
}

// shorten returns a list of at most three items. If list is longer, the third item of the result counts the remaining
// items.
func shorten(list []string, noun string) []string {
	if len(list) <= 3 {
		return list
	}
	return append(list[:2:2], fmt.Sprintf("%d more %s", len(list)-2, noun))
}
