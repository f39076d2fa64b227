package passes

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/panics"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/tensor"
)

// Pass is one rewrite of the graph. [Run] checks that earlier passes have established the properties that a pass needs.
// With [Options.Check] the verifier checks the properties after every pass. For example, pass infer makes the graph
// typed, and pass layout needs a typed graph and makes it laid out. If a pass breaks graph.Typed, a later pass must
// make the graph typed again before the next pass that needs a typed graph.
type Pass struct {
	Name string // unique in a list
	Doc  string // the effect, in one sentence
	// Why is the reason why the pass stands where it does in the list.
	Why string
	// After is the name of the pass behind which [Add] puts this pass, or empty for infer.
	After string
	// Needs are the properties of a graph that the pass requires, Makes the properties that it establishes, and Breaks
	// the properties that it invalidates. The pass preserves all other properties.
	Needs, Makes, Breaks graph.Props
	// Rounds means that the pass may change the rounding of results. [Options.Check] then compares values with a
	// tolerance.
	Rounds bool
	// ChangesQuantized is for a pass with Rounds. It means that quantized values may change to an adjacent level. The
	// tolerance of [Options.Check] is then one level for quantized values, and a twentieth of the largest value for
	// other values.
	ChangesQuantized bool
	Run              func(p *Plan) error
}

// requiredProps is the set of properties of a graph that can run.
const requiredProps = graph.Sorted | graph.Typed | graph.LaidOut

// pipeline is the default list of passes. Nodes of one op are rewritten first, then groups of nodes are fused, then the
// layouts of the fused nodes are chosen, and at the end constants and memory follow these choices.
var pipeline = []Pass{
	{Name: "infer", Doc: "computes dtype, shape and layout of every value as eager PyTorch does",
		Why:   "all later passes read types; the layouts of outputs are those of the graph as the user wrote it",
		Needs: graph.Sorted, Makes: graph.Typed, Run: inferTypes},
	{Name: "rewrite", Doc: "replaces costly nodes by cheaper ones: quantized products by int8 products, movement of " +
		"quantized values by movement of bytes, products of 16-bit floats by float32 products, einsum by matrix products, " +
		"products with repeated matrices by products that read each distinct matrix once",
		Why:   "before decompose: it recognizes composite ops by their contracts, and some of its nodes are composite",
		Needs: graph.Typed, Rounds: true, ChangesQuantized: true, Run: rewrite},
	{Name: "decompose", Doc: "replaces composite ops by nodes of other ops",
		Why:   "before fold and group, which see the parts: constant ones are folded, others join loops",
		Needs: graph.Typed, Rounds: true, Run: decompose},
	{Name: "fold", Doc: "computes nodes that depend on constants alone",
		Why:   "before group: a node that is a constant is not fused into a loop that runs each time",
		Needs: graph.Typed, Rounds: true, Run: foldConstants},
	{Name: "group", Doc: "fuses nodes that iterate over the same elements",
		Why:   "before layout: a fused node has one layout for its loop, and values within it need none",
		Needs: graph.Typed, Run: groupNodes},
	{Name: "dead", Doc: "removes nodes and constants that no output needs",
		Why:   "after the passes that leave nodes without readers, and before layout, which would price them",
		Needs: graph.Sorted, Run: dropDead},
	{Name: "layout", Doc: "chooses layouts and implementations by the strategy, inserts the necessary copies, and " +
		"removes needless copies and inverse permutations",
		Why:   "the last choice about nodes; later passes only carry it out",
		Needs: graph.Typed, Makes: graph.LaidOut, Run: layOut},
	{Name: "fold_copies", Doc: "computes the copies of constants",
		Why:   "after layout, which inserts these copies; before lower, which packs the copied constants",
		Needs: graph.Typed | graph.LaidOut, Rounds: true, Run: foldConstants},
	{Name: "lower", Doc: "inserts nodes that pack constants for the chosen implementations",
		Why:   "after layout, which chooses the implementations",
		Needs: graph.Typed | graph.LaidOut, Run: packConstants},
	{Name: "pack", Doc: "packs constants",
		Why:   "after lower, which inserts the nodes that pack: they are computed once, not in each run",
		Needs: graph.Typed | graph.LaidOut, Rounds: true, Run: foldConstants},
	{Name: "drop", Doc: "removes constants that were packed or copied and have no other reader",
		Why:   "after pack: the memory of the original constants is released",
		Needs: graph.Sorted, Run: dropDead},
	{Name: "place", Doc: "writes operands of concatenations directly into the results",
		Why:   "last: it assigns memory to values, and no later pass may add a reader or a copy",
		Needs: graph.Typed | graph.LaidOut, Run: placeResults},
}

// Passes returns a copy of the list that [Run] applies if [Options.Passes] is nil. The caller may change it: see
// [Before] and [After].
func Passes() []Pass { return slices.Clone(pipeline) }

// Before returns a copy of the list with p inserted before the pass with that name, or an error if there is none.
func Before(list []Pass, name string, p Pass) ([]Pass, error) {
	i := slices.IndexFunc(list, func(p Pass) bool { return p.Name == name })
	return insertPass(list, i, i, name, p)
}

// After returns a copy of the list with p inserted after the pass with that name, or an error if there is none.
func After(list []Pass, name string, p Pass) ([]Pass, error) {
	i := slices.IndexFunc(list, func(p Pass) bool { return p.Name == name })
	return insertPass(list, i, i+1, name, p)
}

// Add returns the built-in list with further passes, each behind the pass that [Pass.After] names: a built-in one, or an
// added one before it in the arguments. Passes behind the same pass keep their order. Add returns an error for an
// unknown name, and for a name that the list has already.
func Add(added ...Pass) ([]Pass, error) {
	list, last := Passes(), map[string]string{} // last: the last pass that was added behind a pass
	for _, pass := range added {
		if slices.ContainsFunc(list, func(p Pass) bool { return p.Name == pass.Name }) {
			return nil, fmt.Errorf("the list has a pass %q already: give the added pass another name; "+
				"graphrun.Options.Passes replaces the whole list", pass.Name)
		}
		after := cmp.Or(pass.After, "infer")
		var err error
		if list, err = After(list, cmp.Or(last[after], after), pass); err != nil {
			return nil, fmt.Errorf("pass %q: %w", pass.Name, err)
		}
		last[after] = pass.Name
	}
	return list, nil
}

// insertPass inserts a pass at an index. found is the index of the pass with the given name. If it is negative,
// insertPass returns an error.
func insertPass(list []Pass, found, index int, name string, added Pass) ([]Pass, error) {
	if found >= 0 {
		return slices.Insert(slices.Clone(list), index, added), nil
	}
	names := make([]string, len(list))
	for i, pass := range list {
		names[i] = pass.Name
	}
	hint := ""
	if nearest := suggest.Nearest(name, slices.Values(names)); nearest != "" {
		hint = "; did you mean " + nearest + "?"
	}
	return nil, fmt.Errorf("the list has no pass %q%s", name, hint)
}

// checkList returns an error if a pass needs a property that does not hold when it runs, or if the final graph lacks a
// property.
func checkList(list []Pass) error {
	properties, brokenBy := graph.Sorted, map[graph.Props]string{} // brokenBy: by property, the last pass that broke it
	names := map[string]bool{}
	for i, pass := range list {
		switch {
		case pass.Name == "":
			return fmt.Errorf("pass %d has no name", i)
		case names[pass.Name]:
			return fmt.Errorf("two passes are named %s", pass.Name)
		case pass.Run == nil:
			return fmt.Errorf("pass %s does nothing: its Run is nil", pass.Name)
		}
		names[pass.Name] = true
		if unknown := (pass.Needs | pass.Makes | pass.Breaks) &^ requiredProps; unknown != 0 {
			return fmt.Errorf("pass %s names unknown properties: %#x", pass.Name, uint(unknown))
		}
		if missing := pass.Needs &^ properties; missing != 0 {
			return fmt.Errorf("pass %s needs a graph that is %v%s", pass.Name, missing, breakingPass(missing, brokenBy))
		}
		properties = properties&^pass.Breaks | pass.Makes
		for _, property := range pass.Breaks.Each() {
			brokenBy[property] = pass.Name
		}
	}
	if missing := requiredProps &^ properties; missing != 0 {
		return fmt.Errorf("after all passes the graph is not %v%s", missing, breakingPass(missing, brokenBy))
	}
	return nil
}

// breakingPass returns the end of an error message: the pass that last broke one of the missing properties, if any.
func breakingPass(missing graph.Props, brokenBy map[graph.Props]string) string {
	for _, property := range missing.Each() {
		if name := brokenBy[property]; name != "" {
			return fmt.Sprintf(": pass %s broke it, and no later pass restores it", name)
		}
	}
	return ": no earlier pass establishes it"
}

// run calls Run. It converts a panic to an error that names the pass, because the pass may be the caller's code.
func (p Pass) run(plan *Plan) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("pass %s: %w", p.Name, panics.Error(panicked))
		}
	}()
	return p.withName(p.Run(plan))
}

// withName adds the name of a caller's pass to its error. A [graph.Error] already names a node or output, and is
// returned unchanged.
func (p Pass) withName(err error) error {
	var nodeErr *graph.Error
	var nodeErrs graph.Errors
	if err == nil || p.isBuiltin() || errors.As(err, &nodeErr) || errors.As(err, &nodeErrs) {
		return err
	}
	return fmt.Errorf("pass %s: %w", p.Name, err)
}

// isBuiltin reports whether the pass is one of this package. A caller's pass may have the name of such a pass.
func (p Pass) isBuiltin() bool {
	run := reflect.ValueOf(p.Run).Pointer()
	return slices.ContainsFunc(pipeline, func(builtin Pass) bool {
		return builtin.Name == p.Name && reflect.ValueOf(builtin.Run).Pointer() == run
	})
}

// inferTypes infers the graph.
func inferTypes(plan *Plan) error {
	if plan.options.Inferred {
		return nil
	}
	return plan.Graph.Infer()
}

// snapshot has the parts of a graph that determine the results of an evaluation. If the snapshots before and after a
// pass are equal, the graph need not be evaluated again.
type snapshot struct {
	nodes   []nodeState
	values  []valueState
	outputs []graph.Output
}

// nodeState has the fields of a graph node that affect results.
type nodeState struct {
	node     *graph.Node
	op       *graph.Op
	operands []graph.Arg
	results  []*graph.Value
	attrs    any
}

// valueState has the fields of a graph value that affect results. Metas are immutable and need no copy.
type valueState struct {
	value              *graph.Value
	meta               tensor.Meta
	alias, containedIn *graph.Value
	data               *tensor.Tensor
	packed             *graph.Packed
}

// snapshotOf copies the lists of the graph, because passes may change these in place.
func snapshotOf(g *graph.Graph) *snapshot {
	s := &snapshot{outputs: slices.Clone(g.Outputs)}
	for _, n := range g.Nodes {
		s.nodes = append(s.nodes, nodeState{node: n, op: n.Op, operands: slices.Clone(n.In),
			results: slices.Clone(n.Out), attrs: n.Attrs})
	}
	g.Values(func(v *graph.Value) {
		s.values = append(s.values, valueState{value: v, meta: v.Meta, alias: v.Alias, containedIn: v.ContainedIn,
			data: v.Const, packed: v.Packed})
	})
	return s
}

// equals reports whether two snapshots are equal. A nil snapshot equals none. Data are compared by their pointers, so a
// change of elements in place is not found.
func (s *snapshot) equals(other *snapshot) bool {
	return s != nil && slices.Equal(s.outputs, other.outputs) &&
		slices.EqualFunc(s.nodes, other.nodes, func(a, b nodeState) bool {
			return a.node == b.node && a.op == b.op && slices.Equal(a.operands, b.operands) &&
				slices.Equal(a.results, b.results) && reflect.DeepEqual(a.attrs, b.attrs)
		}) &&
		slices.EqualFunc(s.values, other.values, func(a, b valueState) bool {
			return a.value == b.value && a.alias == b.alias && a.containedIn == b.containedIn && a.data == b.data &&
				a.packed == b.packed && reflect.DeepEqual(a.meta, b.meta)
		})
}

// uses holds the readers of each value.
type uses struct {
	readers  graph.ByValue[[]*graph.Node] // a node that reads the value as several operands is listed several times
	isOutput map[*graph.Value]bool
}

// usesOf finds the readers of all values of a graph.
func usesOf(g *graph.Graph) *uses {
	result := &uses{graph.NewByValue[[]*graph.Node](g), make(map[*graph.Value]bool, len(g.Outputs))}
	readerCounts, total := graph.NewByValue[int](g), 0
	for arg := range tensorArgs(g) {
		readerCounts.Set(arg.Value, readerCounts.At(arg.Value)+1)
		total++
	}
	freeSlots := make([]*graph.Node, total) // one allocation for all lists of readers
	for arg, n := range tensorArgs(g) {
		if readerCount := readerCounts.At(arg.Value); readerCount > 0 { // the first operand with this value: reserve its list
			readerCounts.Set(arg.Value, 0)
			result.readers.Set(arg.Value, freeSlots[:0:readerCount])
			freeSlots = freeSlots[readerCount:]
		}
		result.add(arg.Value, n)
	}
	for _, output := range g.Outputs {
		result.isOutput[output.Value] = true
	}
	return result
}

// tensorArgs iterates over all operands that are values. Each operand comes with the node that reads it.
func tensorArgs(g *graph.Graph) iter.Seq2[*graph.Arg, *graph.Node] {
	return func(yield func(*graph.Arg, *graph.Node) bool) {
		for _, n := range g.Nodes {
			for i := range n.In {
				if arg := &n.In[i]; arg.Kind == graph.TensorArg && !yield(arg, n) {
					return
				}
			}
		}
	}
}

// add records that node n reads v.
func (u *uses) add(v *graph.Value, n *graph.Node) { u.readers.Set(v, append(u.readers.At(v), n)) }

// redirect makes all readers of `from`, outputs included, read `replacement`.
func (u *uses) redirect(g *graph.Graph, from, replacement *graph.Value) {
	for _, n := range u.readers.At(from) {
		for i := range n.In {
			if n.In[i].Value == from {
				n.In[i].Value = replacement
			}
		}
		for _, v := range n.Out {
			if v.Alias == from {
				v.Alias = replacement
			}
		}
		u.add(replacement, n)
	}
	u.readers.Set(from, nil)
	if u.isOutput[from] {
		for i := range g.Outputs {
			if g.Outputs[i].Value == from {
				g.Outputs[i].Value = replacement
			}
		}
		u.isOutput[replacement] = true
	}
}
