package layout

import (
	"slices"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// This file prices the sets of forms of a value: it finds the cheapest copies that make each set. A form is a layout in
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

// cost is a cost in picoseconds (ps), and the weighted cost that the solver minimizes: see [Weights].
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

// formCosts has, for one value, the cheapest steps that make each set of forms from the roots. The cheapest steps have
// the least weighted cost.
type formCosts struct {
	setCosts []cost  // by set
	lastStep []step  // by set: the last of the cheapest steps that make the set
	superset []uint8 // by set: its cheapest superset, whose additional forms serve as sources of copies
	// For a pinned value, pinSteps make the pinned form, at pinCost. The sets are then made from this form.
	pinSteps []step
	pinCost  cost
}

// step is a copy that makes form `to` from form `from`. If `from` is -1, the value is the result of a view, and the
// source is a form of the view's operand.
type step struct{ from, to int8 }

// leastCost returns the cost of the cheapest set that contains the required forms.
func (costs *formCosts) leastCost(required uint) cost {
	return costs.setCosts[costs.superset[required]].plus(costs.pinCost)
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
	costs := formCosts{setCosts: make([]cost, 1<<formCount), lastStep: make([]step, 1<<formCount)}
	for set := range costs.setCosts {
		costs.setCosts[set] = forbidden
	}
	costs.setCosts[roots] = cost{}
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
	for from := range formCount {
		if copyPS := pricer.copyCosts[from*formCount+to]; hasForm(set, from) && copyPS < ps {
			ps, source = copyPS, from
		}
	}
	least := forbidden
	if ps < wcsp.Forbidden {
		least = cost{weighted: pricer.model.Weights.Time*ps + pricer.copyWeight, ps: ps}
	}
	// At equal cost, copy the view's operand.
	if pricer.operandCopies != nil && pricer.operandCopies[to].weighted <= least.weighted {
		return step{from: -1, to: int8(to)}, pricer.operandCopies[to].cost
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
