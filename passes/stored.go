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
	Groups []storedGroup
	Nodes  []signature
	Placed []int // numbers of the placed values
	Layout storedLayout
}

// storedGroup is the encoded form of a fusion.Group, with numbers of nodes.
type storedGroup struct {
	Nodes             []int
	Anchor, Attention bool
	Mask              []bool
	Split             int
}

// storedLayout is the encoded form of a [layout.Assignment]. Numbers replace pointers to values, names replace
// implementations, and indices in Copies (-1 for none) replace copies.
type storedLayout struct {
	Choices         []storedChoice
	Inputs, Outputs []int
	Copies          []storedCopy
	Final           bool
}

// storedChoice is the encoded form of a [layout.Choice].
type storedChoice struct {
	Impl        string   // empty for a view
	OnDevice    bool     `json:",omitzero"`
	Order       []byte   // of the walk
	Out         [][]byte // by result: order of the walk's result
	In, Results []int    // operands and copies of results: indices in Copies
	Exact, Drop bool     // see [layout.Choice.ExactStrides] and [layout.Choice.Removed]
}

// storedCopy is the encoded form of a [layout.Copy]. Value is the number of the value, and From an index in Copies.
// Strides means that the copy has the strides of the graph as written.
type storedCopy struct {
	Value, From                     int
	Order                           []byte
	Place                           tensor.Place `json:",omitzero"`
	Strides, Pinned, View, Original bool
	Why                             string
}

// Encode encodes the decisions for [DecodeDecisions]. It fails for decisions with failed nodes.
func (d *Decisions) Encode() ([]byte, error) {
	if d == nil || d.layout == nil || len(d.layout.Failed) > 0 || slices.Contains(d.layout.LostOutputs, true) {
		return nil, errors.New("only complete decisions can be encoded")
	}
	s := storedDecisions{Nodes: d.nodes, Placed: sortedMembers(d.placedValues), Layout: encodeLayout(d.layout)}
	for _, folded := range d.foldedNodes {
		s.Folded = append(s.Folded, sortedMembers(folded))
	}
	for _, g := range d.groups {
		s.Groups = append(s.Groups, storedGroup{Nodes: g.nodes, Anchor: g.anchor,
			Attention: g.isAttention, Mask: g.mask, Split: g.split})
	}
	return json.Marshal(s)
}

// DecodeDecisions decodes the result of [Decisions.Encode], for [Options.Follow]. The decisions are valid only for
// the same graph, read by the same version of the program.
func DecodeDecisions(data []byte) (*Decisions, error) {
	var s storedDecisions
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	if len(s.Layout.Choices) != len(s.Nodes) {
		return nil, errors.New("the decisions are incomplete")
	}
	d := &Decisions{nodes: s.Nodes, stored: &s.Layout, placedValues: setOf(s.Placed)}
	for _, folded := range s.Folded {
		d.foldedNodes = append(d.foldedNodes, setOf(folded))
	}
	for _, g := range s.Groups {
		d.groups = append(d.groups, groupDecision{nodes: g.Nodes, anchor: g.Anchor,
			isAttention: g.Attention, mask: nonempty(g.Mask), split: g.Split})
	}
	return d, nil
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
	for n, isMember := range set {
		if isMember {
			list = append(list, n)
		}
	}
	sorted.Ints(list)
	return list
}

// setOf is the inverse of sortedMembers.
func setOf(list []int) map[int]bool {
	set := make(map[int]bool, len(list))
	for _, n := range list {
		set[n] = true
	}
	return set
}

// encodeLayout encodes an assignment: see storedLayout.
func encodeLayout(a *layout.Assignment) storedLayout {
	encoder := layoutEncoder{indices: map[*layout.Copy]int{}}
	encoded := storedLayout{Inputs: encoder.copies(a.Inputs), Outputs: encoder.copies(a.Outputs), Final: a.Final}
	for i := range a.Nodes {
		choice := &a.Nodes[i]
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
	for i, c := range list {
		indices[i] = e.index(c)
	}
	return nonempty(indices)
}

// index returns the index of a copy, and adds a new copy to the list. It returns -1 for nil.
func (e *layoutEncoder) index(c *layout.Copy) int {
	if c == nil {
		return -1
	}
	if i, ok := e.indices[c]; ok {
		return i
	}
	stored := storedCopy{Value: c.Value.Number(), From: e.index(c.From), Order: []byte(c.Order), Place: c.Place,
		Strides: c.Strides != nil, Pinned: c.Pinned, View: c.View, Original: c.Original, Why: c.Why}
	e.indices[c] = len(e.list)
	e.list = append(e.list, stored)
	return e.indices[c]
}

// assignment returns the assignment for a graph whose nodes have the signatures of the decisions.
func (l *storedLayout) assignment(g *graph.Graph, device graph.Device) (*layout.Assignment, error) {
	values := map[int]*graph.Value{}
	g.Values(func(v *graph.Value) { values[v.Number()] = v })
	copies := make([]*layout.Copy, len(l.Copies))
	for i, c := range l.Copies {
		v := values[c.Value]
		switch {
		case v == nil:
			return nil, misfitError("a copied value does not exist")
		case c.From >= i:
			return nil, misfitError("copy %d of %q is made from copy %d, which does not precede it", i, v.Name, c.From)
		}
		copies[i] = &layout.Copy{Value: v, Order: tensor.Order(c.Order), Place: c.Place, Pinned: c.Pinned, View: c.View,
			Original: c.Original, Why: c.Why}
		if c.Strides {
			copies[i].Strides = v.Meta.Strides
		}
		if c.From >= 0 {
			copies[i].From = copies[c.From]
		}
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
	a := &layout.Assignment{Inputs: listOf(l.Inputs), Outputs: listOf(l.Outputs), Final: l.Final}
	for i, c := range l.Choices {
		n := g.Nodes[i]
		choice := layout.Choice{Walk: graph.Walk{LoopOrder: tensor.Order(c.Order)}, In: listOf(c.In),
			ResultCopies: listOf(c.Results), ExactStrides: c.Exact, Removed: c.Drop}
		for _, order := range c.Out {
			choice.Walk.ResultOrders = append(choice.Walk.ResultOrders, tensor.Order(order))
		}
		switch {
		case c.OnDevice && device == nil:
			return nil, misfitError("%s is planned for a device, but the program has none", n.Name)
		case c.OnDevice:
			choice.Impl = device.Impl(n.Op)
		case c.Impl != "":
			index := slices.IndexFunc(n.Op.Impls, func(impl graph.Impl) bool { return impl.Name == c.Impl })
			if index < 0 {
				return nil, misfitError("%s has no implementation %s", n.Name, c.Impl)
			}
			choice.Impl = &n.Op.Impls[index]
		}
		a.Nodes = append(a.Nodes, choice)
	}
	return a, nil
}
