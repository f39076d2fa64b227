package layout

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
)

// SmartMem chooses layouts by classes of operators: Wei Niu, Md Musfiqur Rahman Sanim, Zhihao Shu, Jiexiong Guan,
// Xipeng Shen, Miao Yin, Gagan Agrawal and Bin Ren, "SmartMem: Layout Transformation Elimination and Adaptation for
// Efficient DNN Execution on Mobile", ASPLOS 2024 (arXiv 2404.13528). Two properties of an operator determine its
// class: whether its speed depends on the layout of the input, and whether the layout of its output is variable or
// fixed.
//
//   - Dependent and variable (convolution, product, normalization): each operand gets the layout that suits the node.
//   - Independent and variable (element-wise, concatenation): the result and the operands get the layout that the
//     readers of the result want.
//   - Fixed (reshape, transpose, slice): the operator is eliminated; its readers read its operand and choose the layout
//     of the operand.
//
// Each producer writes one layout, which a local rule selects from the layouts that its readers want (their wishes).
// Readers that want another layout read copies. The pass runs backwards. In this implementation, the selected layout is
// the layout that the most readers want, and on a tie the layout that the first reader wants.
//
// Deviations from the paper:
//
//   - The layout that suits a node is the layout of its cheapest implementation by the profile. In the paper, the
//     reduced dimensions become contiguous.
//   - Both classes of fixed operators are eliminated alike.
//   - Memory has one dimension. The paper's texture memory has 2.5 dimensions, so that one layout can satisfy two
//     wishes.
//   - An operator is eliminated as a view, and copied if strides cannot express its result. The paper computes indices
//     instead.
//   - A dependent node writes a wanted layout only if this costs at most as much as a copy. In the paper it writes any
//     layout.
//   - A graph output with a prescribed layout counts as a reader.
var SmartMem Strategy = &perNode{name: "smartmem",
	doc: "visits nodes backwards; convolutions, products and normalizations want the layouts that suit them, other " +
		"nodes those that their readers want, as in SmartMem, ASPLOS 2024",
	labels: smartMemLabels}

// smartMemLabels returns the labels (implementations and walks) of strategy SmartMem, by index of the node. The field
// resultForms of a label has the form (layout) of each result, and readCosts the cost of reading each operand, by form.
func smartMemLabels(m *Model) ([]int, error) {
	g := m.Problem.Graph
	labels, wishes := make([]int, len(g.Nodes)), wishList{graph.NewByValue[[]int](g)}
	for _, output := range g.Outputs {
		wishes.add(output.Value, m.outputForm(m.variables.At(output.Value), output))
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		interrupt.Check(g.Context())
		switch view := m.viewNodes[i]; {
		case m.isLost(i): // the node failed or depends on a failed node
		case view != nil:
			wishes.passWishesToOperand(view)
		// The speed depends on the layouts of operands. An op that only selects elements counts as independent.
		case isLayoutSensitive(g.Nodes[i]) && !g.Nodes[i].Op.SelectsElements:
			labels[i] = wishes.dependentLabel(m, m.computedNodes[i])
		default:
			labels[i] = wishes.independentLabel(m, m.computedNodes[i])
		}
	}
	return labels, nil
}

// wishList has, by value, one wanted form (layout) for each reader, the last reader first.
type wishList struct{ forms graph.ByValue[[]int] }

// add adds the wish of a reader.
func (w wishList) add(v *graph.Value, form int) { w.forms.Set(v, append(w.forms.At(v), form)) }

// mostWanted returns the form that most readers want and, on a tie, the form of the first such reader. It returns -1 if
// no reader wants a form.
func (w wishList) mostWanted(v *graph.Value) int {
	best, mostReaders := -1, 0
	readerCounts := map[int]int{}
	list := w.forms.At(v)
	for _, f := range list {
		readerCounts[f]++
	}
	for _, f := range list {
		if readerCounts[f] >= mostReaders { // on a tie the later form, because the first reader is last in the list
			best, mostReaders = f, readerCounts[f]
		}
	}
	return best
}

// passWishesToOperand adds the wishes for the results of a view to the wishes for its operand.
func (w wishList) passWishesToOperand(view *viewNode) {
	for k, out := range view.node.Out {
		wanted := w.mostWanted(out)
		if wanted < 0 {
			continue
		}
		if from := view.viewSource(k, wanted, view.allowed, 0); from >= 0 { // 0: no form of the operand has priority
			w.add(view.node.In[view.operand].Value, from)
		}
	}
}

// dependentLabel returns the label of a node whose speed depends on the layouts of its operands, and adds the wishes
// for the operands. Normally this is the cheapest label. But if that label does not write the wanted form, there may be
// other labels that read the same forms and write the wanted form. dependentLabel returns the cheapest of these other
// labels if its additional cost is at most the cost of a copy.
func (w wishList) dependentLabel(m *Model, computed *computedNode) int {
	best := computed.cheapest(nil)
	cheapest := &computed.labels[best]
	w.addOperands(m, computed, best)
	wanted := w.wantedResult(computed)
	if wanted < 0 || cheapest.resultForms[0] == wanted {
		return best
	}
	result := m.variables.At(computed.node.Out[0])
	reads := m.preferredForms(computed, cheapest)
	other := computed.cheapest(func(candidate *label) bool {
		return candidate.resultForms[0] == wanted && slices.Equal(m.preferredForms(computed, candidate), reads)
	})
	copyCost := m.copyCostMatrix(result)[cheapest.resultForms[0]*len(result.forms)+wanted]
	if other >= 0 && computed.labels[other].costAtPreferred() <= cheapest.costAtPreferred()+copyCost {
		return other
	}
	return best
}

// independentLabel returns the label of a node whose speed does not depend on layouts: the cheapest label that writes
// the wanted form. It adds the wishes for the operands only if a reader of the result wants a form.
func (w wishList) independentLabel(m *Model, computed *computedNode) int {
	wanted := w.wantedResult(computed)
	if wanted >= 0 {
		writesWanted := func(l *label) bool { return l.resultForms[0] == wanted }
		if chosen := computed.cheapest(writesWanted); chosen >= 0 {
			w.addOperands(m, computed, chosen)
			return chosen
		}
	}
	return computed.cheapest(nil)
}

// wantedResult returns the wanted form of the first result, or -1 if no form is wanted.
func (w wishList) wantedResult(computed *computedNode) int {
	if len(computed.node.Out) == 0 {
		return -1
	}
	return w.mostWanted(computed.node.Out[0])
}

// addOperands adds a wish for each operand for which the chosen label prefers a form.
func (w wishList) addOperands(m *Model, computed *computedNode, chosen int) {
	for k, f := range m.preferredForms(computed, &computed.labels[chosen]) {
		if f >= 0 {
			w.add(computed.node.In[k].Value, f)
		}
	}
}

// preferredForms returns, by operand, the form that label l reads at the least cost. The form is -1 for a constant. It
// is also -1 if there are several forms, and all forms with their own buffers cost the same.
func (m *Model) preferredForms(computed *computedNode, l *label) []int {
	forms := make([]int, len(l.readCosts))
	for k, costs := range l.readCosts {
		forms[k] = -1
		if costs == nil {
			continue
		}
		operand := m.variables.At(computed.node.In[k].Value)
		cheapest := slices.Index(costs, l.leastReadCost(k))
		isPreferred := len(costs) == 1
		for f, cost := range costs {
			hasOwnBuffer := operand.forms[f].ownBufferForm < 0 // else it is the index of another form
			isPreferred = isPreferred || hasOwnBuffer && cost != costs[cheapest]
		}
		if isPreferred {
			forms[k] = cheapest
		}
	}
	return forms
}
