// Package batch proves that the rows of a graph are independent, and changes the number of rows of a graph. If rows are
// independent, one run with several rows computes the same results as a separate run for each row.
//
// A row is a slice along one dimension of the inputs, such as an image or a sequence. [Follow] follows this dimension
// through the nodes. It uses the parallel loops that ops state ([graph.Op.ParallelLoops]). [Proof.Resize] returns the
// graph for another number of rows.
package batch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
)

// Proof is a proof that the rows of a graph are independent. Row i of each value depends only on row i of the inputs,
// and all rows are computed in the same way. In some values, a row is several slices of the dimension, as after a
// reshape that merges dimensions.
type Proof struct {
	// Rows is the number of rows of the graph.
	Rows int

	graph            *graph.Graph
	inputs           map[string]int            // indexed by name of an input with rows: the dimension of the rows
	places           map[*graph.Value]rowPlace // only of values that depend on the rows
	repeatedOperands map[operand]rowPlace      // constants that repeat one slice for each row: see loopFits

	// These fields are set by FollowOpen.
	others    map[*graph.Node]*graph.Node // the nodes of the graph with otherRows rows
	otherRows int
	symbol    string               // of the number of rows; empty if there is none
	uses      map[string]symbolUse // results of useOfSymbol, by text
}

// rowPlace describes where a value has the rows. Dimension dim is divided into outer blocks, and each block contains
// all rows. A row has k = Shape[dim] / (blocks*Rows) adjacent slices in each block. For example, with 3 rows, a
// dimension of size 12 and 2 blocks, k is 2:
//
//	index   0  1  2  3  4  5    6  7  8  9 10 11
//	row     0  0  1  1  2  2    0  0  1  1  2  2
//	block   0  0  0  0  0  0    1  1  1  1  1  1
//
// In block b, row r has k indices, starting at (b*Rows + r)*k. A reshape to [12] gives this place if the operand is [2,
// 3, 2] with the rows in dimension 1.
type rowPlace struct{ dim, blocks int }

// noRows is the place of values that do not depend on the rows. graph.Whole is negative, so Dim(v) >= 0 means that v
// has rows.
var noRows = rowPlace{graph.Whole, 1}

// operand is an operand of a node.
type operand struct {
	node  *graph.Node
	index int
}

// Follow proves that the rows of a graph are independent. inputs has the names of the inputs that have rows. It maps
// each name to a dimension, whose slices are the rows. The graph must be inferred, with numbers for all sizes. It is
// not changed. The error is a [graph.Error] that names the node that prevents the proof.
func Follow(g *graph.Graph, inputs map[string]int) (*Proof, error) {
	proof, err := newProof(g, inputs)
	if err == nil {
		err = proof.followGraph()
	}
	if err != nil {
		return nil, err
	}
	return proof, nil
}

// newProof returns a proof with the places of the inputs.
func newProof(g *graph.Graph, inputs map[string]int) (*Proof, error) {
	if g == nil || len(inputs) == 0 {
		return nil, errors.New("rows need a graph and an input")
	}
	p := &Proof{graph: g, inputs: maps.Clone(inputs), places: map[*graph.Value]rowPlace{},
		repeatedOperands: map[operand]rowPlace{}}
	previousName := ""
	for _, name := range sorted.Keys(inputs) {
		v, dim := g.Value(name), inputs[name]
		switch {
		case v == nil || !slices.Contains(g.Inputs, v):
			return nil, fmt.Errorf("the graph has no input %q", name)
		case dim < 0 || dim >= v.Meta.Rank():
			return nil, fmt.Errorf("input %q has no dimension %d: its shape is %v", name, dim, v.Meta.Shape)
		case v.Meta.Shape[dim] < 1:
			return nil, fmt.Errorf("dimension %d of input %q has no rows", dim, name)
		case previousName != "" && v.Meta.Shape[dim] != p.Rows:
			return nil, fmt.Errorf("input %q has %d rows, and %q has %d", name, v.Meta.Shape[dim], previousName, p.Rows)
		}
		previousName, p.Rows = name, v.Meta.Shape[dim]
		p.places[v] = rowPlace{dim, 1}
	}
	return p, nil
}

// followGraph follows all nodes of the graph.
func (p *Proof) followGraph() error {
	n, err := p.followAll(p.graph.Nodes)
	if err != nil && n != nil {
		return p.graph.NodeError(n, err)
	}
	return err
}

// Dim returns the dimension of the rows of a value, or [graph.Whole] for a value that does not depend on the rows.
func (p *Proof) Dim(v *graph.Value) int {
	if p == nil {
		return graph.Whole
	}
	return p.placeOf(v).dim
}

// placeOf returns the place of the rows of a value, or noRows.
func (p *Proof) placeOf(v *graph.Value) rowPlace {
	if place, ok := p.places[v]; ok {
		return place
	}
	return noRows
}

// Outputs returns the dimension of the rows of each output, in order.
func (p *Proof) Outputs() []int {
	if p == nil || p.graph == nil {
		return nil
	}
	dims := make([]int, len(p.graph.Outputs))
	for i, output := range p.graph.Outputs {
		dims[i] = p.Dim(output.Value)
	}
	return dims
}

// followAll follows nodes in order, and then checks the outputs. If the rows may be at several places after a reshape,
// followAll tries these places in order. For each place it follows all later nodes. If all fail, followAll returns the
// error of the attempt that followed the most nodes, and the node that prevents the proof in this attempt.
func (p *Proof) followAll(nodes []*graph.Node) (culprit *graph.Node, reason error) {
	s := &search{Proof: p, nodes: nodes, furthest: -1, retriesLeft: maxRetriesPerNode * len(nodes)}
	succeeded := s.followFrom(0)
	if err := p.graph.ContextErr(); err != nil {
		return nil, err
	}
	if succeeded {
		return nil, nil
	}
	return s.culprit, s.reason
}

// maxRetriesPerNode limits the attempts of followAll: a node is followed again at most this number of times, on average
// over all nodes.
const maxRetriesPerNode = 64

// search is the state of followAll.
type search struct {
	*Proof
	nodes       []*graph.Node
	retriesLeft int // how often nodes may be followed again
	failedAt    int // index of the node at which the last attempt failed; len(nodes) for the outputs

	// The failure of the attempt with the largest index:
	furthest int
	culprit  *graph.Node
	reason   error
}

// fail records a failure of an attempt, and returns false.
func (s *search) fail(index int, culprit *graph.Node, reason error) bool {
	s.failedAt = index
	if index > s.furthest {
		s.furthest, s.culprit, s.reason = index, culprit, reason
	}
	return false
}

// followFrom follows the nodes from index first on, and checks the outputs. It reports whether the proof succeeds.
func (s *search) followFrom(first int) bool {
	for i := first; i < len(s.nodes); i++ {
		if err := s.graph.ContextErr(); err != nil {
			return s.fail(i, nil, err)
		}
		places, err := s.follow(s.nodes[i])
		switch {
		case err != nil:
			return s.fail(i, s.nodes[i], err)
		case len(places) > 0:
			return s.tryPlaces(i, places)
		}
	}
	for _, output := range s.graph.Outputs {
		if place := s.placeOf(output.Value); place.blocks > 1 {
			return s.fail(len(s.nodes), output.Value.Node, fmt.Errorf("dimension %d of output %q has parts of each row in %d "+
				"places", place.dim, output.Name, place.blocks))
		}
	}
	return true
}

// tryPlaces follows the nodes after node i, a reshape, for each possible place of its result until the proof succeeds.
func (s *search) tryPlaces(i int, places []rowPlace) bool {
	for attempt, place := range places {
		if attempt > 0 { // the nodes up to failedAt are followed again
			if s.retriesLeft -= s.failedAt - i; s.retriesLeft < 0 {
				return false
			}
		}
		s.places[s.nodes[i].Out[0]] = place
		if s.followFrom(i + 1) {
			return true
		}
	}
	return false
}

// follow sets the places of the results of a node. For a reshape, it instead returns the possible places of the result.
func (p *Proof) follow(n *graph.Node) (reshaped []rowPlace, err error) {
	for _, v := range n.Out { // an earlier attempt may have set places
		delete(p.places, v)
	}
	for i := range n.In {
		delete(p.repeatedOperands, operand{n, i})
	}

	var rowOperands []int // indices of the operands that have rows
	for i, arg := range n.In {
		if arg.Kind == graph.TensorArg && p.Dim(arg.Value) >= 0 {
			rowOperands = append(rowOperands, i)
		}
	}
	for _, v := range n.AttrRefs() {
		if p.Dim(v) >= 0 {
			return nil, fmt.Errorf("an attribute depends on the rows through %q", v.Name)
		}
	}
	other := p.others[n]
	if err := p.checkAttrs(n, other); err != nil {
		return nil, err
	}
	if len(rowOperands) == 0 {
		return nil, p.placeRepeated(n, other)
	}
	for _, v := range n.Out {
		if v.Dynamic {
			return nil, errors.New("its shape depends on data, and thus on all rows")
		}
	}

	if n.Op.Reshapes && slices.Equal(rowOperands, []int{0}) {
		if reshaped = p.placesAfterReshape(n); len(reshaped) == 0 {
			return nil, fmt.Errorf("the shape %v does not keep rows, which are in dimension %d of %v", n.Out[0].Meta.Shape,
				p.Dim(n.In[0].Value), n.In[0].Meta().Shape)
		}
		return reshaped, nil
	}
	loops := n.Op.ParallelLoops(n.Call())
	switch {
	case p.chooseLoop(n, loops):
	case n.Op.Decompose != nil && n.Op.Parallel == nil: // a composite op that does not list its loops
		if err := p.decompose(n); err != nil {
			return nil, err
		}
	default:
		return nil, p.rejection(n, loops, rowOperands)
	}
	for i, v := range n.Out {
		if other != nil && !p.scales(v.Meta.Shape, other.Out[i].Meta.Shape, p.placeOf(v)) {
			return nil, p.shapeError(v, other.Out[i])
		}
	}
	return nil, nil
}

// chooseLoop finds a parallel loop of the op (graph.Parallel) whose iterations are rows of the operands, and sets the
// places of the results. The loop divides dimension OperandDims[i] of operand i, and dimension ResultDims[i] of result
// i. Among several loops it prefers the fewest repeated operands (see loopFits). chooseLoop returns false if there is
// no such loop.
func (p *Proof) chooseLoop(n *graph.Node, loops []graph.Parallel) bool {
	var best *graph.Parallel
	var repeated []int
	bestBlocks := 0
	for i := range loops {
		if operands, blocks, ok := p.loopFits(n, &loops[i]); ok && (best == nil || len(operands) < len(repeated)) {
			best, repeated, bestBlocks = &loops[i], operands, blocks
		}
	}
	if best == nil {
		return false
	}
	for i, v := range n.Out {
		p.places[v] = rowPlace{best.ResultDims[i], bestBlocks}
	}
	for _, i := range repeated {
		p.repeatedOperands[operand{n, i}] = rowPlace{best.OperandDims[i], bestBlocks}
	}
	return true
}

// loopFits reports whether the iterations of a loop are rows of the operands. repeated lists constants that have a
// slice for each iteration although they do not depend on the rows, such as a bias that is stored once for each row.
// All slices of such a constant are equal. blocks is [rowPlace].blocks of the operands.
func (p *Proof) loopFits(n *graph.Node, loop *graph.Parallel) (repeated []int, blocks int, ok bool) {
	// The loop must divide each operand that has rows along the dimension of the rows. All these operands must have the
	// same number of blocks.
	for i, arg := range n.In {
		if arg.Kind != graph.TensorArg || p.Dim(arg.Value) < 0 {
			continue
		}
		place := p.placeOf(arg.Value)
		differsFromEarlier := blocks != 0 && blocks != place.blocks
		if place.dim != loop.OperandDims[i] || differsFromEarlier {
			return nil, 0, false
		}
		blocks = place.blocks
	}
	// The other operands must be the same for all rows.
	for i, arg := range n.In {
		dim := loop.OperandDims[i]
		switch {
		case arg.Kind != graph.TensorArg || dim == graph.Whole: // every iteration reads the whole operand
		case p.Dim(arg.Value) >= 0: // checked above
		case loop.MayBroadcast != nil && loop.MayBroadcast[i] && arg.Meta().Shape[dim] == 1: // one slice for all rows
		case arg.Value.Const != nil && equalRows(arg.Value.Const, rowPlace{dim, blocks}, p.Rows):
			repeated = append(repeated, i)
		default:
			return nil, 0, false
		}
	}
	return repeated, blocks, blocks > 0
}

// placesAfterReshape returns the possible places of the rows of a value after the reshape n. At each place, one
// dimension of the new shape contains all rows; other dimensions of the old shape may be merged into it. Places with
// fewer slices of a row come first, then places with fewer blocks, then places near the present dimension. If there are
// places with one block and one slice for each row, only these places are returned.
//
// For example, with 3 rows in dimension 1 of [2, 3, 2], a row has 2 separate sequences of elements in row-major order.
// The new shape [12] has the rows in dimension 0 with 2 blocks. The new shape [2, 6] has the rows in dimension 1 with 1
// block, because dimension 0 separates the 2 sequences.
func (p *Proof) placesAfterReshape(n *graph.Node) []rowPlace {
	before, after, place := n.In[0].Meta(), n.Out[0].Meta, p.placeOf(n.In[0].Value)
	if before.DType.Size() != after.DType.Size() || before.Numel() != after.Numel() || before.Numel() == 0 {
		return nil
	}
	sequences := product(before.Shape[:place.dim]) * place.blocks // separate sequences of elements of a row
	leading := 1                                                  // product of the sizes before dim
	var list []rowPlace
	for dim, size := range after.Shape {
		// The dimensions before dim must divide the sequences evenly. The sequences at one index of these dimensions
		// are the blocks of dimension dim. Each block must divide into Rows equal parts.
		blocks := sequences / leading
		if sequences%leading == 0 && size%(blocks*p.Rows) == 0 {
			list = append(list, rowPlace{dim, blocks})
		}
		leading *= size
	}
	if other := p.others[n]; other != nil {
		list = slices.DeleteFunc(list, func(candidate rowPlace) bool {
			return !p.scales(after.Shape, other.Out[0].Meta.Shape, candidate)
		})
	}
	sorted.Func(list, func(first, second rowPlace) int { // Shape[dim]/blocks is Rows * slices of a row
		return cmp.Or(cmp.Compare(after.Shape[first.dim]/first.blocks, after.Shape[second.dim]/second.blocks),
			cmp.Compare(first.blocks, second.blocks),
			cmp.Compare(distance(first.dim, place.dim), distance(second.dim, place.dim)))
	})
	isUnmerged := func(candidate rowPlace) bool { return candidate.blocks == 1 && after.Shape[candidate.dim] == p.Rows }
	if len(list) > 0 && isUnmerged(list[0]) {
		list = slices.DeleteFunc(list, func(candidate rowPlace) bool { return !isUnmerged(candidate) })
	}
	return list
}

// distance returns the absolute difference of two numbers.
func distance(a, b int) int { return max(a-b, b-a) }

// product returns the product of the sizes, 1 for an empty list.
func product(sizes []int) int {
	total := 1
	for _, size := range sizes {
		total *= size
	}
	return total
}

// rejection returns an error that says why the rows of a node's results are not independent.
func (p *Proof) rejection(n *graph.Node, loops []graph.Parallel, rowOperands []int) error {
	descriptions := make([]string, len(rowOperands))
	for position, i := range rowOperands {
		descriptions[position] = fmt.Sprintf("%q (dimension %d of %v)", n.In[i].Value.Name, p.Dim(n.In[i].Value),
			n.In[i].Meta().Shape)
	}
	rows := strings.Join(descriptions, ", ")
	if len(loops) == 0 {
		return fmt.Errorf("the op does not state that it computes rows independently: the rows are in %s", rows)
	}
	for _, loop := range loops {
		for i, arg := range n.In {
			if arg.Kind != graph.TensorArg || p.Dim(arg.Value) >= 0 || loop.OperandDims[i] == graph.Whole {
				continue
			}
			// Assume that operand i has rows. If the loop then fits, only this operand prevents the proof.
			assumed := &Proof{Rows: p.Rows, places: maps.Clone(p.places)}
			assumed.places[arg.Value] = rowPlace{loop.OperandDims[i], p.placeOf(n.In[rowOperands[0]].Value).blocks}
			if _, _, ok := assumed.loopFits(n, &loop); ok {
				return fmt.Errorf("dimension %d of its operand %q, which does not depend on the rows, would have a slice for "+
					"each row of %s", loop.OperandDims[i], arg.Value.Name, rows)
			}
		}
	}
	return fmt.Errorf("it combines rows: the rows are in %s", rows)
}

// decompose follows the parts of a composite node: the nodes into which it decomposes. It follows the rows from the
// operands through the parts to the results.
func (p *Proof) decompose(n *graph.Node) error {
	c, err := p.partsOf(n)
	if err != nil {
		return fmt.Errorf("its parts are not known: %w", err)
	}
	partProof := &Proof{Rows: p.Rows, graph: c.graph, places: map[*graph.Value]rowPlace{},
		repeatedOperands: map[operand]rowPlace{}}
	for v, copied := range c.copies {
		if place := p.placeOf(v); place != noRows {
			partProof.places[copied] = place
		}
	}
	if other := p.others[n]; other != nil {
		otherParts, err := p.partsOf(other)
		if err != nil {
			return fmt.Errorf("its parts are not known: %w", err)
		}
		if part, err := partProof.setOthers(c.parts, otherParts.parts, p.otherRows); err != nil {
			return fmt.Errorf("its part %s: %w", part.Op.Name, err)
		}
	}
	// If no part reads an operand, the results may depend on its shape alone. Following the parts would not find this.
	if i := p.unreadOperand(n, c.parts, c.copies); i >= 0 {
		return fmt.Errorf("its parts do not read the elements of %q, which has rows", n.In[i].Value.Name)
	}
	if part, err := partProof.followAll(c.parts); err != nil {
		return fmt.Errorf("its part %s: %w", part.Op.Name, err)
	}
	if len(partProof.repeatedOperands) > 0 { // Resize changes constants of the graph, not constants of parts
		return errors.New("a constant of its parts would have to be repeated for each row")
	}
	for i, v := range n.Out {
		if place := partProof.placeOf(c.results[i]); place != noRows {
			p.places[v] = place
		}
	}
	return nil
}

// composite has the parts of a composite node, in a graph of their own. copies maps each operand of the node to its
// copy in this graph.
type composite struct {
	graph   *graph.Graph
	copies  map[*graph.Value]*graph.Value
	parts   []*graph.Node
	results []*graph.Value
}

// partsOf decomposes a composite node.
func (p *Proof) partsOf(n *graph.Node) (c composite, err error) {
	c.graph = graph.New(p.graph.Name, p.graph.Op) // finds ops as p.graph does
	operands, copies := copyOperands(n, c.graph)
	c.copies = copies
	c.results = c.graph.ApplyExactly(n.Op.Name, len(n.Out), maps.Collect(n.AttrsAsGiven()), operands...)
	if err := errors.Join(c.graph.Err(), c.graph.Infer()); err != nil {
		return c, err
	}
	c.parts, err = c.graph.Decompose(c.results[0].Node)
	return c, err
}

// copyOperands adds the operands of a node to the graph of its parts, as inputs and constants. copies maps each operand
// to its copy.
func copyOperands(n *graph.Node, partGraph *graph.Graph) (operands []any, copies map[*graph.Value]*graph.Value) {
	operands, copies = make([]any, len(n.In)), map[*graph.Value]*graph.Value{}
	for i, arg := range n.In {
		switch {
		case arg.Kind == graph.NumberArg:
			operands[i] = arg.Number
		case arg.Kind == graph.TensorArg:
			if copies[arg.Value] == nil {
				name := fmt.Sprint("operand", i)
				if arg.Value.Const != nil {
					copies[arg.Value] = partGraph.Constant(name, arg.Value.Const)
				} else {
					copies[arg.Value] = partGraph.InputMeta(name, arg.Meta())
				}
			}
			operands[i] = copies[arg.Value]
		}
	}
	return operands, copies
}

// unreadOperand returns the index of an operand that has rows and that no part reads, or a negative number if there is
// none.
func (p *Proof) unreadOperand(n *graph.Node, parts []*graph.Node, copies map[*graph.Value]*graph.Value) int {
	return slices.IndexFunc(n.In, func(arg graph.Arg) bool {
		if arg.Kind != graph.TensorArg || p.Dim(arg.Value) < 0 {
			return false
		}
		return !slices.ContainsFunc(parts, func(part *graph.Node) bool {
			return slices.ContainsFunc(part.In, func(partArg graph.Arg) bool { return partArg.Value == copies[arg.Value] })
		})
	})
}
