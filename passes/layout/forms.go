package layout

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the forms of values, and the variables that choose among them ([Model]). For example, let an image x
// exist as written, in the order (N,C,H,W), and as a copy in the order (N,H,W,C). It has the forms 0 and 1, and the set
// of forms 0b11.

// form is a layout in which a value may exist.
type form struct {
	meta  tensor.Meta
	order tensor.Order // empty unless dense
	dense bool
	place tensor.Place
	slot  *slot // position in the result of a concatenation; nil if there is none
	// ownBufferForm is -1 for a form with its own buffer. Otherwise the form is in another value's buffer, or is a view
	// of a form in another value's buffer. ownBufferForm is then the index of the form of the same order that has its
	// own buffer.
	ownBufferForm int
}

// variable is a value with its possible forms. Its label is the set of forms in which the value exists.
type variable struct {
	value    *graph.Value
	forms    []form // the first is the layout of the graph as written
	formSets []uint // sets of forms, one per label; set by [Model.listSets]
	id       int    // index of the variable in [Model.WCSP]; noVariable if there is a single label
	// pin is the index of the pinned form, which the user demands, or -1. Readers of another form read a copy of the
	// pinned form, even if the node writes the value in that other form: see [Model.stepsToPinned].
	pin int
	// shared is the index of the form that all readers read if they can: the pinned form, the preferred form ([Wish]),
	// or -1. whyShared is the reason for a preferred form.
	shared              int
	whyShared           string
	firstFormMustBeView bool            // the first form can only be a view, never a copy
	maxHostForms        int             // maximum number of forms on the host
	insideBuffer        uint            // mask of forms whose first element may not be at the start of the buffer
	neededForms         int             // upper bound on the forms that readers need; set by [Model.findFormSets]
	outputs             []graph.Output  // outputs that are this value; set by [Model.findFormSets]
	copyMatrix          []int64         // see [Model.copyCostMatrix]; nil until it is needed
	copyRatios          []pricing.Ratio // by form: of an inserted copy to the form; set with copyMatrix
}

// hasForm reports whether a set of forms, a bit mask, has the form with the given index.
func hasForm(set uint, form int) bool { return set>>form&1 != 0 }

// maxForms is the maximum number of forms of a value. The variable of a value may have 2^maxForms labels, one for each
// set of forms.
const maxForms = 8

// addForm adds a form on the host if it does not exist, and returns its index. It returns -1 if the value has too many
// forms already.
func (variable *variable) addForm(meta tensor.Meta) int { return variable.addFormAt(meta, tensor.Host) }

// addFormAt is [variable.addForm] for any place, host or device.
func (variable *variable) addFormAt(meta tensor.Meta, place tensor.Place) int {
	i := variable.formAt(meta, place)
	if i >= 0 || len(variable.forms) == maxForms ||
		place == tensor.Host && variable.formsOnHost() >= variable.maxHostForms {
		return i
	}
	order, dense := tensor.OrderOf(meta)
	if !dense {
		order = ""
	}
	variable.forms = append(variable.forms,
		form{meta: meta, order: order, dense: dense, place: place, ownBufferForm: -1})
	return len(variable.forms) - 1
}

// formsOnHost returns the number of forms on the host, at the time of the call.
func (variable *variable) formsOnHost() (count int) {
	if variable.maxHostForms == maxForms { // no form is on the device: otherwise this maximum is lower
		return len(variable.forms)
	}
	for i := range variable.forms {
		if variable.forms[i].place == tensor.Host {
			count++
		}
	}
	return count
}

// formOf returns the index of a form on the host, or -1.
func (variable *variable) formOf(meta tensor.Meta) int { return variable.formAt(meta, tensor.Host) }

// formAt returns the index of a form in a place, or -1.
func (variable *variable) formAt(meta tensor.Meta, place tensor.Place) int {
	for i := range variable.forms {
		candidate := &variable.forms[i]
		if candidate.slot == nil && candidate.place == place && candidate.meta.SameAddresses(meta) {
			return i
		}
	}
	return -1
}

// formWithOrder returns the index of the dense form of an order on the host, or -1.
func (variable *variable) formWithOrder(order tensor.Order) int {
	return slices.IndexFunc(variable.forms, func(candidate form) bool {
		return candidate.dense && candidate.order == order && candidate.place == tensor.Host
	})
}

// addOrder adds the dense form of an order if it does not exist, and returns its index. It returns -1 for another rank,
// or if the value has maxForms forms already.
func (variable *variable) addOrder(order tensor.Order) int {
	if order.Rank() != variable.value.Meta.Rank() {
		return -1
	}
	if i := variable.formWithOrder(order); i >= 0 {
		return i
	}
	return variable.addForm(variable.value.Meta.WithStrides(order.Strides(variable.value.Meta.Shape)))
}

// orders returns the orders of the dense forms on the host.
func (variable *variable) orders() []tensor.Order {
	var list []tensor.Order
	for _, existing := range variable.forms {
		if existing.dense && existing.place == tensor.Host {
			list = append(list, existing.order)
		}
	}
	return list
}

// baseForm returns the index of the pinned form or, without a pin, of the form of the graph as written.
func (variable *variable) baseForm() int { return max(0, variable.pin) }

// text returns the name of a form for users.
func (f *form) text() string {
	if f.place != tensor.Host {
		onHost := *f
		onHost.place = tensor.Host
		return onHost.text() + " on " + f.place.String()
	}
	switch {
	case f.dense:
		return f.order.String()
	case f.slot != nil:
		return f.slot.order.String()
	}
	return "strides " + tensor.ListString(f.meta.Strides)
}

// nameOfSet returns the name of a set of forms for users.
func (variable *variable) nameOfSet(mask uint) string {
	var list []string
	for i := range variable.forms {
		if !hasForm(mask, i) {
			continue
		}
		text := variable.forms[i].text()
		if formSlot := variable.forms[i].slot; formSlot != nil {
			text += fmt.Sprintf(" within %q", formSlot.concatName)
		}
		list = append(list, text)
	}
	if list == nil {
		return "none"
	}
	return strings.Join(list, " + ")
}

// This part lists the useful sets of forms of a value. A form is a layout in which the value may exist, represented by
// its index in [variable.forms]; form 0 is the layout of the graph as written. A set of forms is a bit mask. The label
// of a value's variable in a [Model] is the set of the forms in which the value exists.
//
// For example, let a value with the forms 0, 1 and 2 be an output, and let one node read it. The output requires form 0
// and the node may read another form, so that at most two forms are needed. The useful sets are {0} (mask 001), {0, 1}
// (mask 011) and {0, 2} (mask 101).

// findFormSets sets neededForms, outputs and formSets of each value. It visits the nodes in reverse order, because the
// number of operand forms that a view needs is the sum of the numbers that its results need.
func (m *Model) findFormSets() {
	g := m.Problem.Graph
	for _, output := range g.Outputs {
		variable := m.variables.At(output.Value)
		variable.neededForms++
		variable.outputs = append(variable.outputs, output)
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if view := m.viewNodes[i]; view != nil {
			operand := m.variables.At(n.In[view.operand].Value)
			for _, out := range n.Out {
				operand.neededForms += m.variables.At(out).neededForms
			}
			operand.neededForms = min(operand.neededForms, maxForms)
			continue
		}
		for k, arg := range n.In {
			if arg.Kind == graph.TensorArg && !readsConstant(n, k) {
				operand := m.variables.At(arg.Value)
				operand.neededForms = min(operand.neededForms+1, maxForms)
			}
		}
	}
	for _, variable := range m.variableList {
		m.listSets(variable)
	}
}

// listSets lists the useful sets of forms of a value. Each set contains the forms that outputs and pins require. Its
// size is at most [variable.maxSetSize]. A form that is only an intermediate step to another form is not part of the
// set, but the cost of the set includes the copy that makes it.
func (m *Model) listSets(variable *variable) {
	if variable.neededForms == 0 {
		variable.formSets = []uint{0}
		return
	}
	required := uint(0)
	if variable.pin >= 0 { // the index of the form that the user demands
		required = 1 << variable.pin
	}
	for _, output := range variable.outputs {
		required |= 1 << m.outputForm(variable, output)
	}
	maxSize := variable.maxSetSize(required)
	for set := uint(1); set < 1<<len(variable.forms); set++ {
		hasRequired := set&required == required
		// Some forms exclude each other (isPossibleFormSet): see slots.go.
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
	if m.otherInput.variable == input {
		return m.otherInput.form
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

// This part prices the sets of forms of a value: it finds the cheapest copies that make each set. A form is a layout in
// which the value may exist. It is represented by its index in [variable.forms]; form 0 is the layout of the graph as
// written. A set of forms is a bit mask of at most 8 bits. A root is a form that exists without a copy: an input has
// it, the node of the value writes it, or it is a view of the operand of a view node. A pin is a form that a user
// requires for a value: it is made first, and the other forms are copies of it.
//
// For example, let a value have the forms 0 and 1, let its node write form 0, and let a copy to form 1 cost 7. Then the
// set {0} (mask 01) costs 0, and {0, 1} (mask 11) costs 7. The set {1} (mask 10) costs 7, too: a copy needs form 0, so
// that {0, 1} is the cheapest superset of {1}.

// copyCostMatrix returns the costs of copying a value from one form to another, in picoseconds, as a row-major matrix.
// The row is the source.
func (m *Model) copyCostMatrix(variable *variable) []int64 {
	if variable.copyMatrix == nil {
		formCount := len(variable.forms)
		variable.copyMatrix = make([]int64, formCount*formCount)
		variable.copyRatios = make([]pricing.Ratio, formCount)
		for to := range formCount {
			variable.copyRatios[to] = m.copyRatio(variable.value, &variable.forms[to])
		}
		for from := range formCount {
			for to := range formCount {
				entry := &variable.copyMatrix[from*formCount+to]
				switch {
				case from == to, isFreeConstant(variable.value): // 0
				case !variable.canBeCopy(to):
					*entry = wcsp.Forbidden
				default:
					*entry = m.formCopyCost(&variable.forms[from], &variable.forms[to], variable.copyRatios[to])
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

// cost is a cost in picoseconds (ps), the ends of its interval (see [pricing.Ratio]), and the weighted cost that the
// solver minimizes: see [Weights].
type cost struct{ weighted, ps, low, high int64 }

// forbidden is the cost of an impossible combination.
var forbidden = cost{wcsp.Forbidden, wcsp.Forbidden, wcsp.Forbidden, wcsp.Forbidden}

// plus returns the sum of two costs. The sum is forbidden if one of the costs is forbidden.
func (c cost) plus(other cost) cost {
	if c.weighted >= wcsp.Forbidden || other.weighted >= wcsp.Forbidden {
		return forbidden
	}
	return cost{min(c.weighted+other.weighted, wcsp.Forbidden), min(c.ps+other.ps, wcsp.Forbidden),
		min(c.low+other.low, wcsp.Forbidden), min(c.high+other.high, wcsp.Forbidden)}
}

// copyCost returns the cost of a copy that takes ps picoseconds at the price of a ratio.
func copyCost(ps int64, ratio pricing.Ratio, timeWeight, copyWeight int64) cost {
	return cost{weighted: timeWeight*ps + copyWeight, ps: ps, low: scaled(ps, ratio.Low/ratio.Price),
		high: scaled(ps, ratio.High/ratio.Price)}
}

// formCosts has, for one value, the cheapest steps that make each set of forms from the roots. The cheapest steps have
// the least weighted cost.
type formCosts struct {
	setCosts []cost  // by set
	lastStep []step  // by set: the last of the cheapest steps that make the set
	superset []uint8 // by set: its cheapest superset, whose additional forms serve as sources of copies
	// lows has, by set, the least cost of the set and its supersets at the lower ends of the intervals of prices, at which
	// other steps may be the cheapest.
	lows []int64
	// For a pinned value, pinSteps make the pinned form, at pinCost. The sets are then made from this form.
	pinSteps []step
	pinCost  cost
}

// step is a copy that makes form `to` from form `from`. If `from` is -1, the value is the result of a view, and the
// source is a form of the view's operand.
type step struct{ from, to int8 }

// leastCost returns the cost of the cheapest set that contains the required forms.
func (costs *formCosts) leastCost(required uint) cost {
	least := costs.setCosts[costs.superset[required]].plus(costs.pinCost)
	least.low = min(costs.lows[required]+costs.pinCost.low, wcsp.Forbidden)
	return least
}

// priceSets prices the sets of forms of a value. roots is a mask. If the value is the result of a view, operandCopies
// has, by form, the cost of copying the view's operand into the form. It is nil if no form can be made in this way.
func (m *Model) priceSets(variable *variable, roots uint, operandCopies []operandCopy) formCosts {
	if variable.pin < 0 || variable.neededForms == 0 { // not pinned, or not read
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

// priceSetsIgnoringPin is priceSets without regard to a pin. It uses dynamic programming over subsets: it adds forms
// one by one, each by the cheapest step.
func (m *Model) priceSetsIgnoringPin(variable *variable, roots uint, operandCopies []operandCopy) formCosts {
	formCount := len(variable.forms)
	costs := formCosts{setCosts: make([]cost, 1<<formCount), lastStep: make([]step, 1<<formCount),
		lows: make([]int64, 1<<formCount)}
	for set := range costs.setCosts {
		costs.setCosts[set], costs.lows[set] = forbidden, wcsp.Forbidden
	}
	costs.setCosts[roots], costs.lows[roots] = cost{}, 0
	pricer := stepPricer{model: m, variable: variable, operandCopies: operandCopies,
		copyWeight: m.Weights.copyWeight(variable.value.Meta.Bytes())}
	for set := roots; set < 1<<formCount; set++ { // subsets come before their supersets
		if set&roots != roots || costs.setCosts[set].weighted >= wcsp.Forbidden { // it cannot be made
			continue
		}
		for to := range formCount {
			if hasForm(set, to) || m.noCopy == (formOfValue{variable, to}) {
				continue
			}
			added, stepCost := pricer.cheapestStep(set, to)
			if stepCost.weighted >= wcsp.Forbidden {
				continue
			}
			larger, total := set|1<<to, costs.setCosts[set].plus(stepCost)
			costs.lows[larger] = min(costs.lows[larger], costs.lows[set]+stepCost.low)
			if total.weighted < costs.setCosts[larger].weighted {
				costs.setCosts[larger], costs.lastStep[larger] = total, added
			}
		}
	}
	costs.findSupersets(formCount)
	return costs
}

// stepPricer prices the steps that make the forms of a value.
type stepPricer struct {
	model         *Model
	variable      *variable
	operandCopies []operandCopy // see priceSets
	copyWeight    int64         // the weight of one copy and its bytes: see [Weights]
	copyCosts     []int64       // see copyCostMatrix; nil until the first step is priced
}

// cheapestStep returns the cheapest step that makes form `to` from a form in the set or from the view's operand.
func (pricer *stepPricer) cheapestStep(set uint, to int) (step, cost) {
	if pricer.copyCosts == nil {
		pricer.copyCosts = pricer.model.copyCostMatrix(pricer.variable)
	}
	formCount := len(pricer.variable.forms)
	ps, source := wcsp.Forbidden, -1
	for from := range formCount { // all have the ratio of copies to the form
		if copyPS := pricer.copyCosts[from*formCount+to]; hasForm(set, from) && copyPS < ps {
			ps, source = copyPS, from
		}
	}
	least := forbidden
	if ps < wcsp.Forbidden {
		least = copyCost(ps, pricer.variable.copyRatios[to], pricer.model.Weights.Time, pricer.copyWeight)
	}
	// At equal cost, copy the view's operand.
	if pricer.operandCopies != nil {
		fromOperand := pricer.operandCopies[to].cost
		low := min(fromOperand.low, least.low)
		if fromOperand.weighted <= least.weighted {
			fromOperand.low = low
			return step{from: -1, to: int8(to)}, fromOperand
		}
		least.low = low
	}
	return step{from: int8(source), to: int8(to)}, least
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
			if set>>f&1 != 0 { // the set has form f
				continue
			}
			costs.lows[set] = min(costs.lows[set], costs.lows[set|1<<f])
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

// This part prices the forms of the results of a view. A form is a layout in which a value may exist. It is represented
// by its index in [variable.forms]; form 0 is the layout of the graph as written. A form also has a place, the host or
// the device. A value is pinned to a form if the user demands it. A form of the operand gives a form of a result in one
// of four ways:
//
//   - The op makes a view in the result form. It is free (resultForm).
//   - The op makes a view in another layout, and an inserted step copies the view (copyCosts).
//   - The op cannot make a view, so the node itself copies the operand (copyCosts).
//   - The node only copies its operand, and an inserted step copies the operand in its place (insertedCosts).
//
// For example, y = reshape(x) merges dimensions of x (2,3,4) to y (6,4). If x has the strides (12,4,1), y is a view
// with the strides (4,1). An inserted step can then copy y to column-major order, with the strides (1,6). If x is
// column-major, with the strides (1,2,6), no view has the elements of y. The node copies x to either order of y.

// viewNode is a node whose results are views of its operand, or copies if a view is impossible.
type viewNode struct {
	node          *graph.Node
	operand       int     // index of the viewed operand
	identity      bool    // whether the node copies its operand unchanged, so that the copy can be omitted
	inferredForms uint    // mask of operand forms for which resultForm is set
	resultForm    [][]int // by result and operand form: form of the result that is a view; -1 if a copy is needed

	// Set by [Model.priceViewCopies]. Costs are in picoseconds, and [wcsp.Forbidden] if the copy is impossible.
	allowed      uint        // mask of operand forms that the view may use
	outputCopies uint        // mask of operand forms that the node copies to form 0: see findOutputCopies
	canView      []bool      // by operand form: whether the op can make a view
	copyCosts    [][][]int64 // by result, operand form and result form: cost of a copy, inserted if canView is set
	// insertedCosts has, by operand form and result form, the cost of an inserted copy in place of the node. The list
	// of an operand form is nil if no copy can replace the node.
	insertedCosts [][]int64
	copyRatios    []pricing.Ratio // by result form: of the copy that the node itself makes
	// insertedRatios has, by result form, the ratio of the copy of the operand; nil without insertedCosts.
	insertedRatios []pricing.Ratio
}

// viewForms returns the mask of the forms of result k that are views of an operand form in the mask `available`.
func (view *viewNode) viewForms(k int, available uint) (roots uint) {
	for i := range view.resultForm[k] {
		if to := view.viewOfForm(k, i); hasForm(available, i) && to >= 0 {
			roots |= 1 << to
		}
	}
	return roots
}

// viewOfForm returns the form of result k that is a view of an operand form, or -1 if there is none. The node copies an
// operand form in outputCopies to form 0, so that form 0 is not a view of it.
func (view *viewNode) viewOfForm(k, operandForm int) int {
	if to := view.resultForm[k][operandForm]; to != 0 || !view.isOutputCopy(operandForm) {
		return to
	}
	return -1
}

// isOutputCopy reports whether the node copies an operand form to form 0: see outputCopies.
func (view *viewNode) isOutputCopy(operandForm int) bool {
	return hasForm(view.outputCopies, operandForm)
}

// priceViewCopies prices the copies of a view node. First it completes the fields on which the prices depend.
func (m *Model) priceViewCopies(view *viewNode) {
	n := view.node
	operand := m.variables.At(n.In[view.operand].Value)
	// Earlier nodes have added forms of the operand, for which addViewForms has not been called.
	for operandForm := len(view.resultForm[0]); operandForm < len(operand.forms); operandForm++ {
		(&formFinder{model: m}).addViewForms(view, operand, operandForm) // sets view.resultForm
	}
	m.findOutputCopies(view, operand)
	m.markInside(view, operand) // forms of the results that may begin inside a buffer
	m.setAllowed(view, operand)
	if n.Op.ReadsStorage { // it has views of form 0 only, and no copies
		return
	}
	view.canView, view.insertedCosts = make([]bool, len(operand.forms)), make([][]int64, len(operand.forms))
	view.copyCosts = make([][][]int64, len(n.Out))
	calls, results := m.inferView(view, operand)
	for operandForm, inferred := range results {
		if inferred != nil {
			m.priceCopiesOf(view, operand, operandForm, calls[operandForm], inferred)
		}
	}
}

// findOutputCopies sets outputCopies of an identity node that must write its result into separate memory. This is
// necessary if the result has its own memory in the graph as written, and is an output or pinned. outputCopies has the
// operand forms that the op rejects or copies.
func (m *Model) findOutputCopies(view *viewNode, operand *variable) {
	n := view.node
	needsBuffer := (m.Problem.outputs[n.Out[0]] || n.Pin.SetsLayout()) && n.Out[0].Alias == nil
	if !view.identity || !needsBuffer {
		return
	}
	for operandForm := range operand.forms {
		results := inferWith(n, view.operand, operand.forms[operandForm].meta)
		if results == nil || results[0].Alias == graph.NoAlias {
			view.outputCopies |= 1 << operandForm
		}
	}
}

// setAllowed sets the mask of allowed operand forms. If the operand is pinned and the op accepts the pinned form, the
// pinned form is allowed. Form 0 is then also allowed if the operand must have the layout of the graph as written.
// Otherwise all forms are allowed.
func (m *Model) setAllowed(view *viewNode, operand *variable) {
	view.allowed = ^uint(0)
	if operand.pin < 0 {
		return
	}
	if view.identity || inferWith(view.node, view.operand, operand.forms[operand.pin].meta) != nil {
		view.allowed = 1 << operand.pin
	}
	if m.Problem.needsLayoutAsWritten(view.node) {
		view.allowed |= 1 << 0 // form 0
	}
}

// inferView infers the results of a view for each form of its operand. calls and results are by operand form; an entry
// of results is nil if the op rejects the form. If inference gives a copy, inferView adds its layout to the forms of
// the result.
func (m *Model) inferView(view *viewNode, operand *variable) (calls []*graph.Call, results [][]graph.Result) {
	n := view.node
	calls, results = make([]*graph.Call, len(operand.forms)), make([][]graph.Result, len(operand.forms))
	for i := range operand.forms {
		operandForm := &operand.forms[i]
		if view.identity && !view.isOutputCopy(i) {
			results[i] = []graph.Result{{Type: operandForm.meta.Type(), Alias: view.operand}}
			continue
		}
		calls[i] = callWith(n, view.operand, operandForm.meta)
		inferred := inferCall(n, calls[i])
		if inferred == nil {
			continue
		}
		results[i] = inferred
		// The node copies only on the host.
		if inferred[0].Alias == graph.NoAlias && operandForm.place == tensor.Host {
			m.variables.At(n.Out[0]).addForm(inferred[0].Meta())
		}
	}
	return calls, results
}

// priceCopiesOf prices the copies of one form of a view's operand. inferred lists the results of a call with this form.
func (m *Model) priceCopiesOf(view *viewNode, operand *variable, operandForm int, call *graph.Call,
	inferred []graph.Result) {
	from := &operand.forms[operandForm]
	view.canView[operandForm] = inferred[0].Alias != graph.NoAlias
	for k, inferredResult := range inferred {
		// An operand form in outputCopies is also copied to form 0, even if it has a view in another form.
		isFreeView := view.viewOfForm(k, operandForm) >= 0 && !view.isOutputCopy(operandForm)
		if isFreeView {
			continue
		}
		if view.copyCosts[k] == nil {
			view.copyCosts[k] = make([][]int64, len(operand.forms))
		}
		result := m.variables.At(view.node.Out[k])
		switch {
		case view.canView[operandForm]: // the view's layout is no form of the result: an inserted step copies it
			view.copyCosts[k][operandForm] = m.insertedCopyCosts(result, view.node.Out[k], inferredResult.Meta(), from.place)
		case len(inferred) == 1: // the node copies the operand, or an inserted step does so in place of the node
			view.copyCosts[k][operandForm] = m.nodeCopyCosts(view, call, result, inferredResult.Meta(), from)
			if view.node.Op.Identity {
				view.insertedCosts[operandForm] = m.insertedCopyCosts(result, operand.value, from.meta, from.place)
				view.insertedRatios = nil
				for j := range result.forms {
					view.insertedRatios = append(view.insertedRatios, m.copyRatio(operand.value, &result.forms[j]))
				}
			}
		}
	}
}

// insertedCopyCosts returns, by form of a result, the cost of an inserted copy of a value from layout `from` within a
// place, in picoseconds.
func (m *Model) insertedCopyCosts(result *variable, v *graph.Value, from tensor.Meta, place tensor.Place) []int64 {
	costs := make([]int64, len(result.forms))
	for j, target := range result.forms {
		costs[j] = wcsp.Forbidden
		if result.canBeCopy(j) && target.place == place {
			costs[j] = m.formCopyCost(&form{meta: from, place: place}, &target, m.copyRatio(v, &target))
		}
	}
	return costs
}

// nodeCopyCosts returns, by form of a result, the cost of the copy that the node itself makes, in picoseconds. `from`
// is the form of the operand. inferred is the layout that the node writes by default. The node copies only on the host.
func (m *Model) nodeCopyCosts(view *viewNode, call *graph.Call, result *variable, inferred tensor.Meta,
	from *form) []int64 {
	call.Out = []tensor.Meta{inferred}
	costs, impl := make([]int64, len(result.forms)), &view.node.Op.Impls[0]
	for len(view.copyRatios) < len(result.forms) {
		view.copyRatios = append(view.copyRatios, pricing.Ratio{})
	}
	for j, target := range result.forms {
		costs[j] = wcsp.Forbidden
		isDefault := target.meta.SameAddresses(inferred)
		isOnHost := target.place == tensor.Host && from.place == tensor.Host
		canWrite := isDefault || view.node.Op.WritesAnyDenseLayout
		if !canWrite || !isOnHost || !result.canBeCopy(j) {
			continue
		}
		walk := graph.Walk{} // loop order and result layouts; the zero Walk writes the inferred layout
		if !isDefault {
			walk = call.WalkInOrder(target.order)
		}
		work := impl.Work(call, walk)
		// impl.Read returns the additional work for the operand in this layout, or false if the node cannot read it.
		if read, ok := impl.Read(call, walk, view.operand, from.meta); ok {
			ratio := m.Problem.ratio(view.node.Name, view.node.Op, impl, []tensor.Meta{target.meta})
			costs[j] = scaled(PricePS(m.Problem.Profile, work)+PricePS(m.Problem.Profile, read), ratio.Price)
			view.copyRatios[j] = ratio
		}
	}
	return costs
}

// operandCopy is a copy of a form of a view's operand into a form of a result.
type operandCopy struct {
	cost        // in picoseconds, and weighted with weights for copies and bytes
	byNode bool // whether the node itself makes the copy, so that no step is inserted
}

// operandCopies returns, by form of result k of a view, the cheapest copy from an operand form. It considers the
// operand forms in the mask `available` that result k cannot view. It returns nil if there are none.
func (m *Model) operandCopies(view *viewNode, k int, available uint) []operandCopy {
	if view.copyCosts == nil {
		return nil
	}
	var cheapest []operandCopy
	for operandForm, costs := range view.copyCosts[k] {
		if !hasForm(available, operandForm) || costs == nil {
			continue
		}
		isFirst := cheapest == nil
		if isFirst {
			cheapest = make([]operandCopy, len(costs))
		}
		for resultForm := range costs {
			candidate := m.operandCopy(view, k, operandForm, resultForm)
			low := candidate.low
			if !isFirst {
				low = min(low, cheapest[resultForm].low)
			}
			if isFirst || candidate.weighted < cheapest[resultForm].weighted {
				cheapest[resultForm] = candidate
			}
			cheapest[resultForm].low = low
		}
	}
	return cheapest
}

// operandCopy returns the cheapest copy of a form of a view's operand into a form of result k.
func (m *Model) operandCopy(view *viewNode, k, operandForm, resultForm int) operandCopy {
	byteWeight := m.Weights.UnitsOf(view.node.Out[k].Meta.Bytes())
	// Only inserted copies count as copies, with the weight Weights.Copy.
	insertedCopy := func(ps int64, ratio pricing.Ratio) operandCopy {
		return operandCopy{cost: copyCost(ps, ratio, m.Weights.Time, m.Weights.Copy+byteWeight)}
	}
	copyByNode := func(ps int64) operandCopy {
		return operandCopy{cost: copyCost(ps, view.copyRatios[resultForm], m.Weights.Time, byteWeight), byNode: true}
	}
	best := operandCopy{cost: forbidden}
	switch ps := view.copyCosts[k][operandForm][resultForm]; {
	case ps >= wcsp.Forbidden: // best stays forbidden
	case view.canView[operandForm]:
		result := m.variables.At(view.node.Out[k])
		m.copyCostMatrix(result) // sets copyRatios
		best = insertedCopy(ps, result.copyRatios[resultForm])
	default:
		best = copyByNode(ps)
	}
	if inserted := view.insertedCosts[operandForm]; inserted != nil && inserted[resultForm] < wcsp.Forbidden {
		candidate := insertedCopy(inserted[resultForm], view.insertedRatios[resultForm])
		low := min(candidate.low, best.low)
		if candidate.weighted < best.weighted {
			best = candidate
		}
		best.low = low
	}
	return best
}
