package passes

import (
	"errors"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// storedDecisions is the encoded form of [Decisions].
type storedDecisions struct {
	Folded [][]int // by fold pass: numbers of the folded nodes
	Groups []groupDecision
	Nodes  []signature // by node; they are compared with the nodes of the graph to which the decisions are applied
	Placed []int       // numbers of the placed values
	Layout storedLayout
}

// storedLayout is a [layout.Assignment] in numbers, so that it applies to the same graph at any sizes. Numbers replace pointers to values, names replace
// implementations, and indices in Copies (-1 for none) replace copies.
type storedLayout struct {
	Choices         []storedChoice
	Inputs, Outputs []int
	Copies          []storedCopy
	Final           bool // the assignment decides which copy nodes are removed; other copy nodes stay

	incomplete  bool   // nodes failed, or outputs are missing
	lostOutputs []bool // by output: whether it is missing because of failures
}

// storedChoice is the encoded form of a [layout.Choice].
type storedChoice struct {
	Impl        string   // empty for a view
	OnDevice    bool     `json:",omitzero"`
	Order       []byte   // the order of the loops
	Out         [][]byte // by result: its order in memory
	In, Results []int    // operands and copies of results: indices in Copies
	Exact       bool     // a result in its original order also keeps the strides of dimensions of size 1
	Drop        bool     // the node is unused and is removed
}

// storedCopy is the encoded form of a [layout.Copy].
type storedCopy struct {
	Value, From int          // number of the copied value; index in Copies of the source of the copy
	Order       []byte       // the dimensions in the order of memory, as in tensor.Order
	Place       tensor.Place `json:",omitzero"`
	Strides     bool         // the copy has the strides of the value in the graph as written
	Pinned      bool         // a pin demands the copy
	View        bool         // the copy is a second view: the result of the value's view node on the copy From
	Original    bool         // the copy is the value itself
	Why         string       // the reason, for users
}

// Encode encodes the decisions for [DecodeDecisions]. It fails for decisions with failed nodes.
func (d *Decisions) Encode() ([]byte, error) {
	if d == nil || d.layout == nil || d.layout.incomplete {
		return nil, errors.New("only complete decisions can be encoded")
	}
	encoded := storedDecisions{Groups: d.groups, Nodes: d.nodes, Placed: sortedMembers(d.placedValues),
		Layout: *d.layout}
	for _, folded := range d.foldedNodes {
		encoded.Folded = append(encoded.Folded, sortedMembers(folded))
	}
	return json.Marshal(encoded)
}

// DecodeDecisions decodes the result of [Decisions.Encode], for [Options.Follow]. The decisions are valid only for
// the same graph, read by the same version of the program.
func DecodeDecisions(data []byte) (*Decisions, error) {
	var encoded storedDecisions
	if err := json.Unmarshal(data, &encoded); err != nil {
		return nil, err
	}
	if len(encoded.Layout.Choices) != len(encoded.Nodes) {
		return nil, errors.New("the decisions are incomplete")
	}
	decisions := &Decisions{groups: encoded.Groups, nodes: encoded.Nodes, layout: &encoded.Layout,
		placedValues: setOf(encoded.Placed)}
	for _, folded := range encoded.Folded {
		decisions.foldedNodes = append(decisions.foldedNodes, setOf(folded))
	}
	return decisions, nil
}

// nonempty returns the list, or nil if it is empty. JSON does not distinguish an empty list from nil.
func nonempty[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// sortedMembers returns the members of a set in ascending order.
func sortedMembers(set map[int]bool) []int {
	var list []int
	for member, isMember := range set {
		if isMember {
			list = append(list, member)
		}
	}
	sorted.Ints(list)
	return list
}

// setOf is the inverse of sortedMembers.
func setOf(list []int) map[int]bool {
	set := make(map[int]bool, len(list))
	for _, member := range list {
		set[member] = true
	}
	return set
}

// encodeLayout encodes an assignment: see storedLayout.
func encodeLayout(assignment *layout.Assignment) *storedLayout {
	encoder := layoutEncoder{indices: map[*layout.Copy]int{}}
	encoded := &storedLayout{Inputs: encoder.copies(assignment.Inputs), Outputs: encoder.copies(assignment.Outputs),
		Final: assignment.Final, lostOutputs: assignment.LostOutputs,
		incomplete: len(assignment.Failed) > 0 || slices.Contains(assignment.LostOutputs, true)}
	for i := range assignment.Nodes {
		choice := &assignment.Nodes[i]
		stored := storedChoice{Order: []byte(choice.Walk.LoopOrder), In: encoder.copies(choice.In),
			Results: encoder.copies(choice.ResultCopies), Exact: choice.ExactStrides, Drop: choice.Removed}
		if choice.Impl != nil {
			stored.Impl, stored.OnDevice = choice.Impl.Name, choice.Impl.OnDevice()
		}
		for _, order := range choice.Walk.ResultOrders {
			stored.Out = append(stored.Out, []byte(order))
		}
		encoded.Choices = append(encoded.Choices, stored)
	}
	encoded.Copies = encoder.list
	return encoded
}

// layoutEncoder lists the copies of an assignment, each after its source.
type layoutEncoder struct {
	indices map[*layout.Copy]int // in list
	list    []storedCopy
}

// copies returns the indices of copies, and adds new copies to the list.
func (e *layoutEncoder) copies(list []*layout.Copy) []int {
	indices := make([]int, len(list))
	for i, listed := range list {
		indices[i] = e.index(listed)
	}
	return nonempty(indices)
}

// index returns the index of a copy, and adds a new copy to the list. It returns -1 for nil.
func (e *layoutEncoder) index(listed *layout.Copy) int {
	if listed == nil {
		return -1
	}
	if i, ok := e.indices[listed]; ok {
		return i
	}
	stored := storedCopy{Value: listed.Value.Number(), From: e.index(listed.From), Order: []byte(listed.Order),
		Place: listed.Place, Strides: listed.Strides != nil, Pinned: listed.Pinned, View: listed.View,
		Original: listed.Original, Why: listed.Why}
	e.indices[listed] = len(e.list)
	e.list = append(e.list, stored)
	return e.indices[listed]
}

// assignment decodes the assignment, with pointers to the values and implementations of g and to the device. The caller
// has checked that g is the graph for which the decisions were made.
func (l *storedLayout) assignment(g *graph.Graph, device graph.Device) (*layout.Assignment, error) {
	copies, err := l.decodedCopies(g)
	if err != nil {
		return nil, err
	}
	listOf := func(indices []int) []*layout.Copy {
		list := make([]*layout.Copy, len(indices))
		for i, index := range indices {
			if index >= 0 && index < len(copies) {
				list[i] = copies[index]
			}
		}
		return nonempty(list)
	}
	assignment := &layout.Assignment{Inputs: listOf(l.Inputs), Outputs: listOf(l.Outputs), Final: l.Final,
		LostOutputs: l.lostOutputs}
	for i, storedChoice := range l.Choices {
		choice := layout.Choice{Walk: storedChoice.walk(), In: listOf(storedChoice.In),
			ResultCopies: listOf(storedChoice.Results), ExactStrides: storedChoice.Exact, Removed: storedChoice.Drop}
		if choice.Impl, err = storedChoice.impl(g.Nodes[i], device); err != nil {
			return nil, err
		}
		assignment.Nodes = append(assignment.Nodes, choice)
	}
	return assignment, nil
}

// walk returns the walk of the choice.
func (c *storedChoice) walk() graph.Walk {
	walk := graph.Walk{LoopOrder: tensor.Order(c.Order)}
	for _, order := range c.Out {
		walk.ResultOrders = append(walk.ResultOrders, tensor.Order(order))
	}
	return walk
}

// impl returns the implementation of the choice for node n, or nil for a view.
func (c *storedChoice) impl(n *graph.Node, device graph.Device) (*graph.Impl, error) {
	switch {
	case c.OnDevice && device == nil:
		return nil, misfitError("%s is planned for a device, but the program has none", n.Name)
	case c.OnDevice:
		return device.Impl(n.Op), nil
	case c.Impl == "":
		return nil, nil
	}
	index := slices.IndexFunc(n.Op.Impls, func(impl graph.Impl) bool { return impl.Name == c.Impl })
	if index < 0 {
		return nil, misfitError("%s has no implementation %s", n.Name, c.Impl)
	}
	return &n.Op.Impls[index], nil
}

// decodedCopies returns the copies of the assignment, in the order of Copies.
func (l *storedLayout) decodedCopies(g *graph.Graph) ([]*layout.Copy, error) {
	values := map[int]*graph.Value{}
	g.Values(func(v *graph.Value) { values[v.Number()] = v })
	copies := make([]*layout.Copy, len(l.Copies))
	for i, stored := range l.Copies {
		v := values[stored.Value]
		switch {
		case v == nil:
			return nil, misfitError("a copied value does not exist")
		case stored.From >= i:
			return nil, misfitError("copy %d of %q is made from copy %d, which does not precede it", i, v.Name, stored.From)
		}
		copies[i] = &layout.Copy{Value: v, Order: tensor.Order(stored.Order), Place: stored.Place,
			Pinned: stored.Pinned, View: stored.View, Original: stored.Original, Why: stored.Why}
		if stored.Strides {
			copies[i].Strides = v.Meta.Strides
		}
		if stored.From >= 0 {
			copies[i].From = copies[stored.From]
		}
	}
	return copies, nil
}
