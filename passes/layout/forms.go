package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
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
	pin                 int
	firstFormMustBeView bool           // the first form can only be a view, never a copy
	maxHostForms        int            // maximum number of forms on the host
	insideBuffer        uint           // mask of forms whose first element may not be at the start of the buffer
	neededForms         int            // upper bound on the forms that readers need; set by [Model.findFormSets]
	outputs             []graph.Output // outputs that are this value; set by [Model.findFormSets]
	copyMatrix          []int64        // see [Model.copyCostMatrix]; nil until it is needed
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
