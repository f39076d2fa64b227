package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/sym"
)

// This file chooses the hints of a model's symbols: example sizes, at which the graph is built. Sizes of a model may
// depend on each other although their symbols do not say so. For example, if a node adds a mask of the shape [1, T] to
// scores of the shape [S, P+S], T must be P+S. If the conversion fails at all hints of a list, hintsFor changes the
// hints so that sizes of the operands of the rejected node become equal.

// HintSet is a set of example sizes: the i-th symbol has the size first+i*step.
type HintSet struct{ First, Step int }

// Hints are sets of example sizes. [Model.Convert] tries them in order until a conversion succeeds. Several sets are
// needed, because networks may require large images, short texts, or equal sizes of symbols.
var Hints = []HintSet{{2, 0}, {16, 0}, {224, 0}, {16, 1}, {224, 32}}

// attempt is a conversion of the model at one set of hints.
type attempt struct {
	*importer
	result *Conversion
	err    error
}

// failedNode is the node at which a conversion failed.
type failedNode struct {
	node  *Node
	count int // number of nodes that were converted before
	err   error
}

// record records the failure of a node, unless err is the error of a node within it.
func (f *failedNode) record(n *Node, err error) {
	if f.err == nil || !errors.Is(err, f.err) {
		*f = failedNode{n, n.nodeCount, err}
	}
}

// convertAtBestHints converts the model at one set of [Hints] after another, and then at the hints that hintsFor finds.
// It stops at the first conversion without mistakes. For a model without symbols it tries only one set. It returns the
// conversion with the fewest mistakes. If no conversion succeeds, it returns the error of the first conversion.
func (m *Model) convertAtBestHints(o Options, opsets map[string]int) (*Conversion, error) {
	var best *Conversion
	var attempts []attempt
	try := func(o Options, hintOf func(i int, symbol string) int) attempt {
		interrupt.Check(o.Context) // ends the import if the context has ended
		tried := attempt{importer: m.importer(o)}
		if tried.err = tried.bindHints(hintOf); tried.err == nil {
			tried.result, tried.err = tried.convertAtHints(&frame{opsets: opsets, unrollBudget: maxUnrolled,
				skipsInvalidNodes: o.SkipErrors})
		}
		if tried.err == nil && (best == nil || tried.result.errorCount < best.errorCount) {
			best = tried.result
		}
		return tried
	}
	for _, set := range Hints {
		tried := try(o, set.at)
		if limit := (limitError{}); errors.As(tried.err, &limit) {
			if unit, isUnit := limit.error.(unitSize); isUnit {
				o.Dims = maps.Clone(o.Dims) // not nil: see [Model.Sizes]
				o.Dims[unit.symbol] = 1
				return m.convertAtBestHints(o, opsets)
			}
		}
		if attempts = append(attempts, tried); len(tried.graph.Symbols) == 0 || best != nil && best.errorCount == 0 {
			return best, tried.err
		}
	}
	strict := o
	strict.SkipErrors = false
	if o.SkipErrors { // a conversion that skips mistakes does not end at the node that fails first
		skipped := best
		for i, set := range Hints {
			attempts[i] = try(strict, set.at)
		}
		best = skipped
	}
	hints := hintsFor(attempts, func(hints map[string]int) attempt {
		return try(strict, func(_ int, symbol string) int { return hints[symbol] })
	})
	if hints != nil && o.SkipErrors {
		try(o, func(_ int, symbol string) int { return hints[symbol] })
	}
	if best == nil {
		return nil, attempts[0].err
	}
	return best, nil
}

// at returns the hint of the i-th symbol.
func (set HintSet) at(i int, _ string) int { return set.First + i*set.Step }

// maxAttempts is the maximum number of conversions of hintsFor.
const maxAttempts = 40

// hintsFor changes the hints of the attempt that failed last in the order of the nodes, until a conversion succeeds. It
// keeps a change if the conversion then succeeds or fails at a later node. If no change helps, it returns the hints so
// far, or nil if it has changed none.
func hintsFor(attempts []attempt, try func(hints map[string]int) attempt) map[string]int {
	best := attempts[0]
	for _, other := range attempts[1:] {
		if other.failed.count > best.failed.count {
			best = other
		}
	}
	var changed map[string]int
	for count := 0; best.err != nil && best.failed.node != nil; {
		improved := false
		for _, hints := range best.failed.node.equalizing() {
			if count == maxAttempts {
				return changed
			}
			count++
			if tried := try(hints); tried.err == nil || tried.failed.count > best.failed.count {
				best, changed, improved = tried, hints, true
				break
			}
		}
		if !improved {
			break
		}
	}
	return changed
}

// maxSolution is the maximum size that equalizing tries for a symbol in an expression.
const maxSolution = 1 << 12

// equalizing returns hints at which a size of an operand of n equals another size or a constant integer. First come the
// hints for sizes of the same dimension, counted from the last, as broadcasting compares them.
func (n *Node) equalizing() (list []map[string]int) {
	var aligned, other [][2]sym.Int // pairs of a size and the size that it shall have
	var shapes [][]sym.Int
	var numbers []sym.Int
	for _, x := range n.In {
		if x == nil || x.kind != tensorKind {
			continue
		}
		shapes = append(shapes, n.TrySymShape(x))
		if integers := n.Integers(x); len(integers) <= maxEqualized {
			product := 1
			for _, integer := range integers {
				if number, known := integer.Known(); known && number > 0 && product <= maxSolution && number <= maxSolution {
					product *= number
				}
			}
			numbers = append(append(numbers, integers...), sym.Of(product))
		}
	}
	for i, shape := range shapes {
		for k, size := range shape {
			for j, otherShape := range shapes {
				for l, otherSize := range otherShape {
					switch {
					case i == j && k == l:
					case i != j && len(shape)-k == len(otherShape)-l:
						aligned = append(aligned, [2]sym.Int{size, otherSize})
					default:
						other = append(other, [2]sym.Int{size, otherSize})
					}
				}
			}
			for _, number := range numbers {
				other = append(other, [2]sym.Int{size, number})
			}
		}
	}
	for _, pair := range append(aligned, other...) {
		for _, symbol := range sorted.Keys(n.hints) {
			if hints := n.hintsWith(symbol, pair[0], pair[1]); hints != nil && !slices.ContainsFunc(list,
				func(listed map[string]int) bool { return maps.Equal(hints, listed) }) {
				list = append(list, hints)
			}
		}
	}
	return list
}

// maxEqualized is the maximum number of elements of an operand with which sizes are compared.
const maxEqualized = 16

// hintsWith returns the hints, changed in the size of one symbol, so that size is want. It returns nil if there are no
// such hints, or if size is want already. A size of 1 is never wanted: it would be broadcast.
func (n *Node) hintsWith(symbol string, size, want sym.Int) map[string]int {
	if _, known := size.Known(); known {
		return nil
	}
	target, err := want.At(n.hints)
	present, sizeErr := size.At(n.hints)
	if err != nil || sizeErr != nil || target == present || target <= 1 {
		return nil
	}
	hints := maps.Clone(n.hints)
	if size.String() == symbol {
		hints[symbol] = target
		return hints
	}
	if names, ok := n.symbols.NamesIn(size.String()); !ok || !slices.Contains(names, symbol) {
		return nil
	}
	for hints[symbol] = 1; hints[symbol] <= min(maxSolution, target*maxEqualized); hints[symbol]++ {
		if value, err := size.At(hints); err == nil && value == target {
			return hints
		}
	}
	return nil
}

// bindHints adds the symbols of the model's inputs to the graph and to im.symbols, and binds them to hints. hintOf
// returns the hint of the i-th symbol.
func (im *importer) bindHints(hintOf func(i int, symbol string) int) error {
	im.graph.Symbols = map[string]graph.Bounds{}
	im.hints = map[string]int{}
	for _, declared := range im.model.file.Proto.Graph.Input {
		shape := declared.Shape()
		if shape == nil {
			continue
		}
		dims, err := im.declaredDims(declared.Name, shape)
		if err != nil {
			return fmt.Errorf("input %q: %w", declared.Name, err)
		}
		for _, dim := range dims {
			for _, symbol := range symbolsOf(dim) {
				if err := im.addSymbol(symbol, hintOf(len(im.hints), symbol)); err != nil {
					return fmt.Errorf("input %q: %w", declared.Name, err)
				}
			}
		}
	}
	return im.graph.BindWithoutInference(im.hints)
}
