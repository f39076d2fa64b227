package passes

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// Decisions are the results of the searches of one planning run: folded nodes, whose results became constants; groups
// of nodes that became one step; layouts, implementations and copies; and values that are stored inside other values.
// [Options.Follow] applies them to the same graph at other sizes, with the same list of passes. Decisions are
// immutable.
//
// A decision refers to nodes and values by their numbers, which are the same at all sizes. For example, a plan for
// batches of 8 folded node 3, and fused nodes 5, 6 and 7. A plan for batches of 1 that follows these decisions does the
// same without a search. It fails with a [Misfit] if the nodes do not iterate over the same elements at this size.
type Decisions struct {
	foldedNodes  []map[int]bool  // numbers of folded nodes, by fold pass
	groups       []groupDecision // fused groups
	nodes        []signature     // signatures of the nodes for which layouts were chosen
	results      [][]tensor.Meta // results of these nodes
	layout       *storedLayout   // chosen layouts, implementations and copies
	placedValues map[int]bool    // numbers of values that are stored inside other values
}

// groupDecision is a group of nodes that become one step.
type groupDecision struct {
	Nodes     []int  // numbers of the nodes, in a valid order of execution
	Anchor    bool   // whether the first node, the anchor, has its own loop: see [nodeGroup]
	Attention bool   // whether the nodes compute an attention
	Mask      []bool `json:",omitempty"` // marks the dimensions that the group reduces; nil if it reduces none
	Split     int    // if not 0, the number of parts into which dimension 1 is split before the reduction
}

// signature identifies a node independently of sizes. It has the op, the number of the node, the number of its results,
// and the numbers of its operands, such as "add 5 1 2 4". The number of an operand that is not a tensor is -1. If the
// signatures of all nodes are equal, the decisions were made for the same graph.
type signature string

// signatureOf returns the signature of a node.
func signatureOf(n *graph.Node) signature {
	text := append(make([]byte, 0, 64), n.Op.Name...)
	for _, number := range []int{n.Number(), len(n.Out)} {
		text = strconv.AppendInt(append(text, ' '), int64(number), 10)
	}
	for _, arg := range n.In {
		number := -1
		if arg.Kind == graph.TensorArg {
			number = arg.Value.Number()
		}
		text = strconv.AppendInt(append(text, ' '), int64(number), 10)
	}
	return signature(text)
}

// Misfit is the error for decisions that do not apply to a graph at its sizes: other nodes would run, or values would
// have other layouts. The graph must then be planned without these decisions.
type Misfit struct{ Why string }

// Error gives the reason.
func (e *Misfit) Error() string { return "the decisions do not fit: " + e.Why }

// misfitError returns a [*Misfit] with a formatted reason. It is not inlined, to save compile time.
//
//go:noinline
func misfitError(format string, args ...any) error { return &Misfit{fmt.Sprintf(format, args...)} }

// decidedFolds begins a fold pass, and returns the numbers of the nodes that it must fold. It returns nil if there are
// no decisions to follow.
func (p *Plan) decidedFolds() map[int]bool {
	pass := p.foldPasses
	p.foldPasses++
	if p.Decisions != nil {
		p.Decisions.foldedNodes = append(p.Decisions.foldedNodes, map[int]bool{})
	}
	followed := p.options.Follow
	switch {
	case followed == nil:
		return nil
	case pass < len(followed.foldedNodes):
		return followed.foldedNodes[pass]
	}
	return map[int]bool{}
}

// noteFolded records that a node was folded. Decisions are recorded only if [Options.Record] is set; otherwise
// p.Decisions is nil.
func (p *Plan) noteFolded(n *graph.Node) {
	if p.Decisions != nil {
		p.Decisions.foldedNodes[p.foldPasses-1][n.Number()] = true
	}
}

// noteGroups records the groups of the group pass.
func (p *Plan) noteGroups(groups []fusion.Group) {
	if p.Decisions == nil {
		return
	}
	for _, group := range groups {
		decision := groupDecision{Nodes: make([]int, len(group.Nodes)), Anchor: group.Anchor,
			Attention: group.Attention, Mask: group.Mask, Split: group.Split}
		for i, n := range group.Nodes {
			decision.Nodes[i] = n.Number()
		}
		p.Decisions.groups = append(p.Decisions.groups, decision)
	}
}

// noteLayouts records an assignment before it is applied.
func (p *Plan) noteLayouts(assignment *layout.Assignment) {
	if p.Decisions == nil {
		return
	}
	p.Decisions.layout = encodeLayout(assignment)
	for _, n := range p.Graph.Nodes {
		results := make([]tensor.Meta, len(n.Out))
		for i, v := range n.Out {
			results[i] = v.Meta
		}
		p.Decisions.nodes = append(p.Decisions.nodes, signatureOf(n))
		p.Decisions.results = append(p.Decisions.results, results)
	}
}

// Equal reports whether two plans of one graph, for different sizes, have the same decisions: the same nodes, groups,
// layouts, implementations and copies. When Equal compares dimension orders, it ignores dimensions that have size 1 in
// one of the plans, because the position of such a dimension has no effect. If the decisions are equal, both plans
// compute the same bits for each row of a batch.
func (d *Decisions) Equal(other *Decisions) bool {
	if d == nil || other == nil || d.results == nil || other.results == nil { // decoded decisions have no results
		return d == other
	}
	return slices.EqualFunc(d.foldedNodes, other.foldedNodes, maps.Equal) &&
		slices.EqualFunc(d.groups, other.groups, groupDecision.equal) &&
		slices.Equal(d.nodes, other.nodes) &&
		maps.Equal(d.placedValues, other.placedValues) && d.equalLayouts(other)
}

// equalLayouts compares the assignments of two lists of decisions with the same nodes. Assignments with failed nodes
// are never equal.
func (d *Decisions) equalLayouts(other *Decisions) bool {
	a, b := d.layout, other.layout
	equalCopies := func(listA, listB []int) bool { // a missing entry of a list is no copy
		copyAt := func(list []int, i int) int {
			if i < len(list) {
				return list[i]
			}
			return -1
		}
		for i := range max(len(listA), len(listB)) {
			if !a.equalCopy(copyAt(listA, i), b, copyAt(listB, i)) {
				return false
			}
		}
		return true
	}
	if !equalCopies(a.Inputs, b.Inputs) || !equalCopies(a.Outputs, b.Outputs) {
		return false
	}
	for i := range a.Choices {
		c, o := &a.Choices[i], &b.Choices[i]
		if c.Impl != o.Impl || c.OnDevice != o.OnDevice || c.Drop != o.Drop ||
			!equalCopies(c.In, o.In) || !equalCopies(c.Results, o.Results) ||
			!equalWalks(c.walk(), o.walk(), d.results[i], other.results[i]) {
			return false
		}
	}
	return true
}

// equalWalks compares two walks (a loop order with orders of the results) for results of different sizes. The loop
// order is an order of the first result's dimensions.
func equalWalks(a, b graph.Walk, resultsA, resultsB []tensor.Meta) bool {
	if len(a.ResultOrders) != len(b.ResultOrders) {
		return false
	}
	for k, resultA := range resultsA {
		resultB := resultsB[k]
		if k == 0 && !equalOrders(a.LoopOrder, b.LoopOrder, resultA, resultB) {
			return false
		}
		if k < len(a.ResultOrders) && !equalOrders(a.ResultOrders[k], b.ResultOrders[k], resultA, resultB) {
			return false
		}
	}
	return true
}

// equalOrders compares orderA of resultA with orderB of resultB, without the dimensions that have size 1 in one of
// the results. An empty order equals only itself.
func equalOrders(orderA, orderB tensor.Order, resultA, resultB tensor.Meta) bool {
	if orderA == orderB {
		return true
	}
	if len(resultA.Shape) != len(resultB.Shape) || len(orderA) != len(resultA.Shape) || len(orderB) != len(resultA.Shape) {
		return false
	}
	isUnit := func(dim int) bool { return resultA.Shape[dim] == 1 || resultB.Shape[dim] == 1 }
	return slices.Equal(slices.DeleteFunc(orderA.Dims(), isUnit), slices.DeleteFunc(orderB.Dims(), isUnit))
}

// equalCopy reports whether copy i of l and copy j of other are equal, apart from their reasons. -1 stands for no copy.
func (l *storedLayout) equalCopy(i int, other *storedLayout, j int) bool {
	if i < 0 || j < 0 {
		return i == j
	}
	a, b := l.Copies[i], other.Copies[j]
	if !l.equalCopy(a.From, other, b.From) {
		return false
	}
	a.From, a.Why = b.From, b.Why
	return reflect.DeepEqual(a, b)
}

// equal reports whether two decisions make the same group.
func (a groupDecision) equal(b groupDecision) bool {
	return slices.Equal(a.Nodes, b.Nodes) && a.Anchor == b.Anchor && a.Attention == b.Attention &&
		slices.Equal(a.Mask, b.Mask) && a.Split == b.Split
}

// storedDecisions is the encoded form of [Decisions].
type storedDecisions struct {
	Folded [][]int // by fold pass: numbers of the folded nodes
	Groups []groupDecision
	Nodes  []signature // by node; they are compared with the nodes of the graph to which the decisions are applied
	Placed []int       // numbers of the placed values
	Layout storedLayout
}

// storedLayout is a [layout.Assignment] in numbers, so that it applies to the same graph at any sizes. Numbers replace
// pointers to values, names replace implementations, and indices in Copies (-1 for none) replace copies.
type storedLayout struct {
	Choices         []storedChoice
	Inputs, Outputs []int
	Copies          []storedCopy
}

// storedChoice is the encoded form of a [layout.Choice].
type storedChoice struct {
	Impl        string   // empty for a view
	OnDevice    bool     `json:",omitzero"`
	Order       []byte   // the order of the loops
	Out         [][]byte // by result: its order in memory
	In, Results []int    // operands and copies of results: indices in Copies
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

// Encode encodes the decisions for [DecodeDecisions].
func (d *Decisions) Encode() ([]byte, error) {
	if d == nil || d.layout == nil {
		return nil, errors.New("there are no decisions to encode")
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
	encoded := &storedLayout{Inputs: encoder.copies(assignment.Inputs), Outputs: encoder.copies(assignment.Outputs)}
	for i := range assignment.Nodes {
		choice := &assignment.Nodes[i]
		stored := storedChoice{Order: []byte(choice.Walk.LoopOrder), In: encoder.copies(choice.In),
			Results: encoder.copies(choice.ResultCopies), Drop: choice.Removed}
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
	assignment := &layout.Assignment{Inputs: listOf(l.Inputs), Outputs: listOf(l.Outputs)}
	for i, storedChoice := range l.Choices {
		choice := layout.Choice{Walk: storedChoice.walk(), In: listOf(storedChoice.In),
			ResultCopies: listOf(storedChoice.Results), Removed: storedChoice.Drop}
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
