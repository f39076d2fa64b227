package layout

import (
	"iter"
	"math/bits"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes the costs of the forms of a value, that is, of the layouts in which the value may exist. A set of
// forms is a bit mask. A form is written by the value's node, is a view of that node's operand, or is made by a copy.
//
// The first part lists the sets that are useful. The second part, from formCosts on, finds the cheapest steps that make
// each set. For example, let a value have the forms 0 and 1, let its node write form 0, and let a copy to form 1 cost
// 7. Then the set {0} (mask 01) costs 0, and {0, 1} (mask 11) costs 7. The set {1} (mask 10) costs 7, too: a copy needs
// form 0, so that {0, 1} is the cheapest superset of {1}. The last part does the same for views, whose missing forms
// may be copied from the operand of the view.

// findFormSets sets neededForms, outputs and formSets of each value. It visits the nodes in reverse order, because a
// view needs as many forms of its operand as all its results need.
func (m *Model) findFormSets() {
	g := m.Problem.Graph
	for _, output := range g.Outputs {
		variable := m.variables.At(output.Value)
		variable.neededForms++
		variable.outputs = append(variable.outputs, output)
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if m.isLost(i) {
			continue
		}
		if view := m.viewNodes[i]; view != nil {
			operand := m.variables.At(n.In[view.operand].Value)
			for _, out := range n.Out {
				operand.neededForms += m.variables.At(out).neededForms
			}
			operand.neededForms = min(operand.neededForms, maxForms)
			continue
		}
		for k, a := range n.In {
			if a.Kind == graph.TensorArg && !readsConstant(n, k) {
				operand := m.variables.At(a.Value)
				operand.neededForms = min(operand.neededForms+1, maxForms)
			}
		}
	}
	for _, variable := range m.variableList {
		m.listSets(variable)
	}
}

// listSets lists the useful sets of forms of a value. Every set contains the forms that outputs and pins require.
// Sets with more forms than readers are omitted. A form that is only an intermediate step to another form is not part
// of the set, but the cost of the set includes the copy that makes it.
func (m *Model) listSets(variable *variable) {
	if variable.neededForms == 0 {
		variable.formSets = []uint{0}
		return
	}
	required := uint(0)
	if variable.pin >= 0 {
		required = 1 << variable.pin
	}
	for _, output := range variable.outputs {
		required |= 1 << m.outputForm(variable, output)
	}
	maxSize := variable.maxSetSize(required)
	for set := uint(1); set < 1<<len(variable.forms); set++ {
		hasRequired := set&required == required
		if hasRequired && bits.OnesCount(set) <= maxSize && variable.isPossibleFormSet(set) {
			variable.formSets = append(variable.formSets, set)
		}
	}
}

// maxSetSize returns the largest useful number of forms in a set. required is the mask of the forms that must exist.
func (variable *variable) maxSetSize(required uint) int {
	if variable.pin < 0 {
		return max(variable.neededForms, bits.OnesCount(required))
	}
	return min(variable.neededForms+bits.OnesCount(required), maxForms) // the pinned form may exist without a reader
}

// inputVariables iterates over inputs and pinned constants.
func (m *Model) inputVariables() iter.Seq[*variable] {
	return func(yield func(*variable) bool) {
		for _, v := range m.Problem.Graph.Inputs {
			if !yield(m.variables.At(v)) {
				return
			}
		}
		for _, v := range m.Problem.Graph.Constants {
			if !isFreeConstant(v) && !yield(m.variables.At(v)) {
				return
			}
		}
	}
}

// inputForm returns the form in which an input or a pinned constant exists without a copy. A pinned constant is
// converted while planning, so this is its pinned form.
func (m *Model) inputForm(input *variable) int {
	if input.value.Const != nil {
		return input.baseForm()
	}
	if order, replaced := m.Problem.inputOrders[input.value]; replaced {
		return max(0, input.formOf(input.value.Meta.WithStrides(order.Strides(input.value.Meta.Shape))))
	}
	return 0
}

// outputForm returns the form in which an output must return its value.
func (m *Model) outputForm(variable *variable, output graph.Output) int {
	pin := output.EffectivePin()
	if !pin.SetsLayout() {
		return 0
	}
	for i, form := range variable.forms {
		if pin.Matches(form.meta) && form.place == tensor.Host {
			return i
		}
	}
	order, _ := pin.OrderFor(variable.value.Meta.Rank())
	return max(0, variable.addOrder(order)) // findForms added this form already, so addOrder only finds its index
}

// copyCostMatrix returns the costs of copying a value from one form to another, in picoseconds, as a row-major matrix.
// The row is the source.
func (m *Model) copyCostMatrix(variable *variable) []int64 {
	if variable.copyMatrix == nil {
		formCount := len(variable.forms)
		variable.copyMatrix = make([]int64, formCount*formCount)
		for from := range formCount {
			for to := range formCount {
				entry := &variable.copyMatrix[from*formCount+to]
				switch {
				case from == to, isFreeConstant(variable.value): // 0
				case !variable.canBeCopy(to):
					*entry = wcsp.Forbidden
				default:
					*entry = m.formCopyCost(&variable.forms[from], &variable.forms[to])
				}
			}
		}
	}
	return variable.copyMatrix
}

// canBeCopy reports whether a copy can make a form.
func (variable *variable) canBeCopy(form int) bool {
	return variable.forms[form].dense && !(form == 0 && variable.firstFormMustBeView)
}

// cost is a cost in picoseconds, and the weighted cost that the solver minimizes: see [Weights].
type cost struct{ weighted, ps int64 }

// forbidden is the cost of an impossible combination.
var forbidden = cost{wcsp.Forbidden, wcsp.Forbidden}

// plus returns the sum of two costs. The sum is forbidden if one of the costs is forbidden.
func (c cost) plus(other cost) cost {
	if c.weighted >= wcsp.Forbidden || other.weighted >= wcsp.Forbidden {
		return forbidden
	}
	return cost{min(c.weighted+other.weighted, wcsp.Forbidden), min(c.ps+other.ps, wcsp.Forbidden)}
}

// formCosts has, for one value, the cheapest steps that make each set of forms from the roots: the forms that exist
// without a copy. The cheapest steps have the least weighted cost ([Weights]).
type formCosts struct {
	setCosts []cost  // by set
	lastStep []step  // by set: the last of the cheapest steps that make the set
	superset []uint8 // by set: its cheapest superset; the additional forms are sources of copies
	// For a pinned value, pinSteps make the pinned form, at pinCost. The sets are then made from this form.
	pinSteps []step
	pinCost  cost
}

// step makes form `to` by a copy of form `from`. If `from` is -1, the value is the result of a view, and the copy is
// made from the operand of the view.
type step struct{ from, to int8 }

// leastCost returns the cost of the cheapest way to make all required forms, and possibly other forms.
func (costs *formCosts) leastCost(required uint) cost {
	return costs.setCosts[costs.superset[required]].plus(costs.pinCost)
}

// priceSets prices the sets of forms of a value. roots is a mask. If the value is the result of a view, operandCopies
// has, by form, the cost of copying the view's operand into the form. It is nil if no form can be made in this way. The
// pinned form of a pinned value is made first; the other forms are copies of it.
func (m *Model) priceSets(variable *variable, roots uint, operandCopies []operandCopy) formCosts {
	if variable.pin < 0 || variable.neededForms == 0 {
		return m.priceSetsIgnoringPin(variable, roots, operandCopies)
	}
	steps, pinCost := m.stepsToPinned(variable, roots, operandCopies)
	costs := m.priceSetsIgnoringPin(variable, 1<<variable.pin, nil)
	costs.pinSteps, costs.pinCost = steps, pinCost
	return costs
}

// stepsToPinned returns the steps that make the pinned form of a value, and their cost. Its parameters are as in
// priceSets.
func (m *Model) stepsToPinned(variable *variable, roots uint, operandCopies []operandCopy) (steps []step, total cost) {
	pinned := uint(1) << variable.pin
	if roots&pinned != 0 {
		return nil, cost{}
	}
	costs := m.priceSetsIgnoringPin(variable, roots, operandCopies)
	if total = costs.leastCost(pinned); total.weighted < wcsp.Forbidden {
		steps = costs.steps(costs.cheapestSuperset(pinned), roots)
	}
	return steps, total
}

// priceSetsIgnoringPin prices every set of forms (a bit mask) by dynamic programming over subsets. Forms are added one
// by one, each by the cheapest copy of a form in the set or of the view's operand. Its parameters are as in priceSets.
func (m *Model) priceSetsIgnoringPin(variable *variable, roots uint, operandCopies []operandCopy) formCosts {
	formCount := len(variable.forms)
	costs := formCosts{setCosts: make([]cost, 1<<formCount), lastStep: make([]step, 1<<formCount)}
	for set := range costs.setCosts {
		costs.setCosts[set] = forbidden
	}
	costs.setCosts[roots] = cost{}
	var copyCosts []int64 // see copyCostMatrix; computed when the first copy is priced
	weight := m.Weights.copyWeight(variable.value.Meta.Bytes())
	for set := roots; set < 1<<formCount; set++ {
		if set&roots != roots || costs.setCosts[set].weighted >= wcsp.Forbidden { // it cannot be made
			continue
		}
		for to := range formCount {
			if set>>to&1 != 0 || m.forbiddenCopies[variable]>>to&1 != 0 {
				continue
			}
			if copyCosts == nil {
				copyCosts = m.copyCostMatrix(variable)
			}
			ps, from := wcsp.Forbidden, -1 // the cheapest copy of a form in the set
			for source := range formCount {
				if set>>source&1 != 0 && copyCosts[source*formCount+to] < ps {
					ps, from = copyCosts[source*formCount+to], source
				}
			}
			addedCost := forbidden
			if ps < wcsp.Forbidden {
				addedCost = cost{m.Weights.Time*ps + weight, ps}
			}
			if operandCopies != nil && operandCopies[to].weighted <= addedCost.weighted {
				addedCost, from = operandCopies[to].cost, -1
			}
			if addedCost.weighted >= wcsp.Forbidden {
				continue
			}
			larger, total := set|1<<to, costs.setCosts[set].plus(addedCost)
			if total.weighted < costs.setCosts[larger].weighted {
				costs.setCosts[larger], costs.lastStep[larger] = total, step{int8(from), int8(to)}
			}
		}
	}
	costs.findSupersets(formCount)
	return costs
}

// findSupersets sets superset for the given number of forms. Among equally cheap supersets, it takes the first.
func (costs *formCosts) findSupersets(formCount int) {
	costs.superset = make([]uint8, 1<<formCount)
	for set := range costs.superset {
		costs.superset[set] = uint8(set)
	}
	// After iteration f, superset[set] is the cheapest set that adds only forms up to f.
	for f := range formCount {
		for set := range costs.superset {
			if set>>f&1 != 0 {
				continue
			}
			without, with := costs.superset[set], costs.superset[set|1<<f]
			costWithout, costWith := costs.setCosts[without].weighted, costs.setCosts[with].weighted
			if costWith < costWithout || costWith == costWithout && with < without {
				costs.superset[set] = with
			}
		}
	}
}

// steps returns the steps, in order, that make the forms in `set` from the forms in `roots`; both are masks.
func (costs *formCosts) steps(set, roots uint) (list []step) {
	for set != roots {
		last := costs.lastStep[set]
		list = append(list, last)
		set &^= 1 << last.to
	}
	slices.Reverse(list)
	return list
}

// cheapestSuperset returns the cheapest superset of a set.
func (costs *formCosts) cheapestSuperset(set uint) uint { return uint(costs.superset[set]) }

// operandCopy is a copy of a view's operand into a form of the view's result.
type operandCopy struct {
	cost
	byNode bool // whether the node of the view makes the copy, so that no copy is inserted
}

// operandCopies returns, by form of result k of a view, the cheapest copy from an operand form. It considers the
// operand forms in the mask `available` that result k cannot view. It returns nil if there are none.
func (m *Model) operandCopies(view *viewNode, k int, available uint) []operandCopy {
	if view.copyCosts == nil {
		return nil
	}
	var cheapest []operandCopy
	for operandForm, costs := range view.copyCosts[k] {
		if available>>operandForm&1 == 0 || costs == nil {
			continue
		}
		isFirst := cheapest == nil
		if isFirst {
			cheapest = make([]operandCopy, len(costs))
		}
		for resultForm := range costs {
			candidate := m.operandCopy(view, k, operandForm, resultForm)
			if isFirst || candidate.weighted < cheapest[resultForm].weighted {
				cheapest[resultForm] = candidate
			}
		}
	}
	return cheapest
}

// operandCopy returns the cheapest copy of a form of a view's operand into a form of result k.
func (m *Model) operandCopy(view *viewNode, k, operandForm, resultForm int) operandCopy {
	byteWeight := m.Weights.UnitsOf(view.node.Out[k].Meta.Bytes())
	insertedCopy := func(ps int64) operandCopy {
		return operandCopy{cost: cost{m.Weights.Time*ps + m.Weights.Copy + byteWeight, ps}}
	}
	copyByNode := func(ps int64) operandCopy {
		return operandCopy{cost: cost{m.Weights.Time*ps + byteWeight, ps}, byNode: true}
	}
	best := operandCopy{cost: forbidden}
	switch ps := view.copyCosts[k][operandForm][resultForm]; {
	case ps >= wcsp.Forbidden:
	case view.canView[operandForm]:
		best = insertedCopy(ps)
	default:
		best = copyByNode(ps)
	}
	if inserted := view.insertedCosts[operandForm]; inserted != nil && inserted[resultForm] < wcsp.Forbidden {
		if candidate := insertedCopy(inserted[resultForm]); candidate.weighted < best.weighted {
			best = candidate
		}
	}
	return best
}

// viewForms returns the mask of the forms of result k that are views of an operand form in the mask `available`.
func (view *viewNode) viewForms(k int, available uint) (roots uint) {
	for i := range view.resultForm[k] {
		if to := view.viewOfForm(k, i); available>>i&1 != 0 && to >= 0 {
			roots |= 1 << to
		}
	}
	return roots
}

// viewOfForm returns the form of result k that is a view of an operand form, or -1 if there is none. If result k is an
// output of the graph or pinned, operand forms in outputCopies are copied into its form 0, so form 0 is not a view of
// them.
func (view *viewNode) viewOfForm(k, operandForm int) int {
	if to := view.resultForm[k][operandForm]; to != 0 || view.outputCopies>>operandForm&1 == 0 {
		return to
	}
	return -1
}
