package layout

import (
	"iter"
	"math/bits"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// This file prices the forms of a value, that is, the layouts in which the value may exist. A set of forms is a bit
// mask. A form is written by the value's node, is a view of that node's operand, or is made by a copy.

// countReads sets, for each value, neededForms and the useful sets of forms.
func (m *Model) countReads() {
	g := m.Problem.Graph
	for _, output := range g.Outputs {
		x := m.variables.At(output.Value)
		x.neededForms++
		x.outputs = append(x.outputs, output)
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if m.isLost(i) {
			continue
		}
		if view := m.viewNodes[i]; view != nil {
			x := m.variables.At(n.In[view.operand].Value)
			for _, out := range n.Out {
				x.neededForms += m.variables.At(out).neededForms
			}
			x.neededForms = min(x.neededForms, maxForms)
			continue
		}
		for k, a := range n.In {
			if a.Kind == graph.TensorArg && !readsConstant(n, k) {
				x := m.variables.At(a.Value)
				x.neededForms = min(x.neededForms+1, maxForms)
			}
		}
	}
	for _, x := range m.variableList {
		m.listSets(x)
	}
}

// listSets lists the useful sets of forms of a value. Every set contains the forms of outputs and pins. Sets with more
// forms than readers are omitted. A form that is needed only as an intermediate source of a copy is not part of a set;
// the cost of the set includes the copy to this form.
func (m *Model) listSets(x *variable) {
	if x.neededForms == 0 {
		x.sets = []uint{0}
		return
	}
	required := uint(0)
	if x.pin >= 0 {
		required = 1 << x.pin
	}
	for _, output := range x.outputs {
		required |= 1 << m.outputForm(x, output)
	}
	for s := uint(1); s < 1<<len(x.forms); s++ {
		if s&required == required && bits.OnesCount(s) <= x.maxSetSize(required) && x.placedOnce(s) {
			x.sets = append(x.sets, s)
		}
	}
}

// maxSetSize returns the largest useful number of forms in a set. required is the mask of the forms that must exist.
func (x *variable) maxSetSize(required uint) int {
	if x.pin < 0 {
		return max(x.neededForms, bits.OnesCount(required))
	}
	return min(x.neededForms+bits.OnesCount(required), maxForms) // the pinned form may exist without a reader
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
			if !freeConstant(v) && !yield(m.variables.At(v)) {
				return
			}
		}
	}
}

// inputForm returns the form in which an input or a pinned constant exists without a copy. A pinned constant is
// converted while planning, so this is its pinned form.
func (m *Model) inputForm(x *variable) int {
	if x.value.Const != nil {
		return x.baseForm()
	}
	if order, replaced := m.Problem.inputOrders[x.value]; replaced {
		return max(0, x.formOf(x.value.Meta.WithStrides(order.Strides(x.value.Meta.Shape))))
	}
	return 0
}

// outputForm returns the form of x that an output returns.
func (m *Model) outputForm(x *variable, output graph.Output) int {
	pin := output.Demand()
	if !pin.SetsLayout() {
		return 0
	}
	order, _ := pin.For(x.value.Meta.Rank())
	for i, f := range x.forms {
		if pin.Holds(f.meta) && f.place == tensor.Host {
			return i
		}
	}
	return max(0, x.addOrder(order)) // findForms has added the form
}

// copyCostMatrix returns the costs of copying a value from one form to another, as a row-major matrix. The row is the
// source.
func (m *Model) copyCostMatrix(x *variable) []int64 {
	if x.copyMatrix == nil {
		k := len(x.forms)
		x.copyMatrix = make([]int64, k*k)
		for i := range k {
			for j, f := range x.forms {
				switch {
				case i == j:
				case freeConstant(x.value):
				case x.firstIsView && j == 0 || !f.dense:
					x.copyMatrix[i*k+j] = wcsp.Forbidden
				default:
					x.copyMatrix[i*k+j] = m.moveCost(&x.forms[i], &f)
				}
			}
		}
	}
	return x.copyMatrix
}

// formCosts has, for one value, the cheapest steps that make each set of forms from the existing forms. The cheapest
// steps are those of the least weighted cost ([Weights]).
type formCosts struct {
	pinSteps []step  // steps that make the pinned form, from which all other forms are copied
	pinCost  cost    // cost of pinSteps
	setCosts []cost  // by set
	superset []uint8 // by set: its cheapest superset (a set that also has forms as sources of copies)
	lastStep []step  // by set: the last of the cheapest steps that make the set
}

// cost is a cost in picoseconds, and the weighted cost that the solver minimizes: see [Weights].
type cost struct{ weighted, ps int64 }

// forbidden is the cost of an impossible combination.
var forbidden = cost{wcsp.Forbidden, wcsp.Forbidden}

// plus returns the sum of two costs; it is forbidden if either cost is.
func (c cost) plus(d cost) cost {
	if c.weighted >= wcsp.Forbidden || d.weighted >= wcsp.Forbidden {
		return forbidden
	}
	return cost{min(c.weighted+d.weighted, wcsp.Forbidden), min(c.ps+d.ps, wcsp.Forbidden)}
}

// step makes form `to` by a copy of form `from`. If `from` is -1, the value is the result of a view, and the copy is
// made from the operand of the view.
type step struct{ from, to int8 }

// leastCost returns the cost of the cheapest way to make all required forms, and possibly other forms.
func (costs *formCosts) leastCost(required uint) cost {
	return costs.setCosts[costs.superset[required]].plus(costs.pinCost)
}

// priceForms prices the sets of forms of x. roots is the mask of the forms that exist without a copy. If x is the
// result of a view, operandCopies has, by form, the cost of making the form from the view's operand; nil if this is
// impossible. If x is pinned, the pinned form is made first, and all other forms are copies of the pinned form.
func (m *Model) priceForms(x *variable, roots uint, operandCopies []operandCopy) formCosts {
	if x.pin < 0 || x.neededForms == 0 {
		return m.priceSets(x, roots, operandCopies)
	}
	steps, pinCost := m.makePinned(x, roots, operandCopies)
	costs := m.priceSets(x, 1<<x.pin, nil)
	costs.pinSteps, costs.pinCost = steps, pinCost
	return costs
}

// makePinned returns the steps that make the pinned form of x, and their cost. The parameters are those of priceForms.
func (m *Model) makePinned(x *variable, roots uint, operandCopies []operandCopy) (steps []step, total cost) {
	if roots>>x.pin&1 != 0 {
		return nil, cost{}
	}
	costs := m.priceSets(x, roots, operandCopies)
	if total = costs.leastCost(1 << x.pin); total.weighted < wcsp.Forbidden {
		steps = costs.steps(costs.cheapest(1<<x.pin), roots)
	}
	return steps, total
}

// priceSets prices every set of forms by dynamic programming over subsets: forms are added one by one, each by the
// cheapest copy, either of a form in the set or of the view's operand. The parameters are those of priceForms.
func (m *Model) priceSets(x *variable, roots uint, operandCopies []operandCopy) formCosts {
	forms := len(x.forms)
	costs := formCosts{setCosts: make([]cost, 1<<forms), lastStep: make([]step, 1<<forms)}
	for s := range costs.setCosts {
		costs.setCosts[s] = forbidden
	}
	costs.setCosts[roots] = cost{}
	var copies []int64
	weight := m.Weights.copyWeight(x.value.Meta.Bytes())
	for set := roots; set < 1<<forms; set++ {
		if set&roots != roots || costs.setCosts[set].weighted >= wcsp.Forbidden {
			continue
		}
		for to := range forms {
			if set>>to&1 != 0 || m.forbiddenCopies[x]>>to&1 != 0 {
				continue
			}
			if copies == nil {
				copies = m.copyCostMatrix(x)
			}
			ps, from := wcsp.Forbidden, -1
			for f := range forms {
				if set>>f&1 != 0 && copies[f*forms+to] < ps {
					ps, from = copies[f*forms+to], f
				}
			}
			c := forbidden
			if ps < wcsp.Forbidden {
				c = cost{m.Weights.Time*ps + weight, ps}
			}
			if operandCopies != nil && operandCopies[to].weighted <= c.weighted {
				c, from = operandCopies[to].cost, -1
			}
			if c.weighted >= wcsp.Forbidden {
				continue
			}
			larger := set | 1<<to
			if c = costs.setCosts[set].plus(c); c.weighted < costs.setCosts[larger].weighted {
				costs.setCosts[larger], costs.lastStep[larger] = c, step{int8(from), int8(to)}
			}
		}
	}
	costs.findSupersets(forms)
	return costs
}

// findSupersets sets superset for the given number of forms. Of equally cheap supersets, it takes the first.
func (costs *formCosts) findSupersets(forms int) {
	costs.superset = make([]uint8, 1<<forms)
	for s := range costs.superset {
		costs.superset[s] = uint8(s)
	}
	for f := range forms {
		for set := range costs.superset {
			if set>>f&1 != 0 {
				continue
			}
			a, b := costs.superset[set], costs.superset[set|1<<f]
			if ca, cb := costs.setCosts[a].weighted, costs.setCosts[b].weighted; cb < ca || cb == ca && b < a {
				costs.superset[set] = b
			}
		}
	}
}

// steps returns the steps that make the forms of set if the forms of the mask existing exist already.
func (costs *formCosts) steps(set, existing uint) (list []step) {
	for set != existing {
		s := costs.lastStep[set]
		list = append(list, s)
		set &^= 1 << s.to
	}
	slices.Reverse(list)
	return list
}

// cheapest returns the cheapest superset of a set.
func (costs *formCosts) cheapest(set uint) uint { return uint(costs.superset[set]) }

// operandCopy is a copy of a view's operand into a form of the view's result.
type operandCopy struct {
	cost
	byNode bool // whether the node of the view makes the copy, so that no copy is inserted
}

// operandCopies returns, by form of result k of a view, the cheapest copy from an operand form. It considers the
// operand forms in the mask available that result k cannot view. It returns nil if there are none.
func (m *Model) operandCopies(view *viewNode, k int, available uint) []operandCopy {
	if view.copyCosts == nil {
		return nil
	}
	var out []operandCopy
	for i, costs := range view.copyCosts[k] {
		if available>>i&1 == 0 || costs == nil {
			continue
		}
		first := out == nil
		if first {
			out = make([]operandCopy, len(costs))
		}
		for j := range costs {
			if c := m.operandCopy(view, k, i, j); first || c.weighted < out[j].weighted {
				out[j] = c
			}
		}
	}
	return out
}

// operandCopy prices the copy of a form of a view's operand into a form of result k.
func (m *Model) operandCopy(view *viewNode, k, operandForm, resultForm int) operandCopy {
	weights := m.Weights
	units := weights.UnitsOf(view.node.Out[k].Meta.Bytes())
	best := operandCopy{cost: forbidden}
	if ps := view.copyCosts[k][operandForm][resultForm]; ps < wcsp.Forbidden && view.canView[operandForm] {
		best.cost = cost{weights.Time*ps + weights.Copy + units, ps}
	} else if ps < wcsp.Forbidden {
		best = operandCopy{cost{weights.Time*ps + units, ps}, true}
	}
	if inserted := view.insertedCosts[operandForm]; inserted != nil && inserted[resultForm] < wcsp.Forbidden {
		if c := (cost{weights.Time*inserted[resultForm] + weights.Copy + units,
			inserted[resultForm]}); c.weighted < best.weighted {
			best = operandCopy{cost: c}
		}
	}
	return best
}

// viewForms returns the mask of the forms of result k that are views of an operand form in the mask available.
func (view *viewNode) viewForms(k int, available uint) (roots uint) {
	for i := range view.resultForm[k] {
		if to := view.viewedForm(k, i); available>>i&1 != 0 && to >= 0 {
			roots |= 1 << to
		}
	}
	return roots
}

// viewedForm returns the form of result k that is a view of an operand form, or -1.
func (view *viewNode) viewedForm(k, operandForm int) int {
	if to := view.resultForm[k][operandForm]; to != 0 || view.outputCopies>>operandForm&1 == 0 {
		return to
	}
	return -1
}
