package passes

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// checkLimit is the maximum size of a graph that is evaluated by the reference implementations of its ops. The size
// is the total number of elements of all values, including gaps between strided elements.
const checkLimit = 1 << 20

// checker compares the outputs of the graph after each pass with the outputs before the first pass. newChecker
// evaluates the original graph on generated inputs. checkAfter evaluates the graph after a pass on the same inputs.
// Both use the reference implementations of the ops. A pass that fuses x*2+1, for example, must not change one bit of
// the outputs; a pass that declares [Pass.Rounds] may change them within a tolerance.
type checker struct {
	inputs          map[string]*tensor.Tensor
	expectedOutputs map[string]*tensor.Tensor // by name of the output, without outputs that cannot be evaluated
	unchecked       []report.Unchecked
	copies          map[string]bool // non-constant copies, by node name; nil before layouts are chosen
	evaluated       *snapshot       // the graph at the last correct evaluation
}

// newChecker evaluates g by reference on generated inputs. It records the parts that cannot be evaluated: a graph that
// is too large, ops without a reference and their dependents, and ops whose reference rejects the generated data.
func newChecker(g *graph.Graph) *checker {
	created := &checker{}
	if len(g.Outputs) == 0 {
		created.noteUnchecked(nil, "the graph has no outputs", nil)
		return created
	}
	if count := elementCount(g); count > checkLimit {
		created.noteUnchecked(nil, fmt.Sprintf("the graph is too large, with more than %d elements in all values together",
			checkLimit), outputNames(g))
		return created
	}
	created.makeInputs(g)
	omitted := withoutReference(g)
	for _, n := range g.Nodes {
		if n.Op.Ref != nil {
			continue
		}
		if dependentOutputs := outputsOf(g, map[*graph.Node]*graph.Error{n: omitted[n]}); len(dependentOutputs) > 0 {
			created.noteUnchecked(n, graph.NoReference{Why: n.Op.NoRef}.Error(), dependentOutputs)
		}
	}
	expected, err := evaluate(g, omitted, created.inputs)
	if err != nil {
		located := &graph.Error{Err: err} // has no node; errors.As replaces it if err names a node
		errors.As(err, &located)
		created.unchecked = append(created.unchecked, report.Unchecked{Node: located.Node, Op: located.Op,
			Outputs: outputNames(g),
			Why:     fmt.Sprintf("the reference of its op rejects the generated data: %v", located.Err)})
		return created
	}
	created.expectedOutputs, created.evaluated = expected, snapshotOf(g)
	return created
}

// noteUnchecked records a part that cannot be evaluated.
func (c *checker) noteUnchecked(n *graph.Node, why string, outputs []string) {
	part := report.Unchecked{Why: why, Outputs: append([]string{}, outputs...)}
	if n != nil {
		part.Node, part.Op = n.Name, n.Op.Name
	}
	c.unchecked = append(c.unchecked, part)
}

// elementCount returns the total number of elements of all values. If the total exceeds checkLimit, it may return any
// number above checkLimit.
func elementCount(g *graph.Graph) int {
	size := 0
	g.Values(func(v *graph.Value) {
		if size <= checkLimit {
			size += min(max(v.Meta.Numel(), v.Meta.Extent()), checkLimit+1)
		}
	})
	return size
}

// makeInputs generates inputs, the same in every run: floats from -1 to 1, and integers 0 and 1.
func (c *checker) makeInputs(g *graph.Graph) {
	c.inputs = map[string]*tensor.Tensor{}
	random := rand.New(rand.NewPCG(1, 2))
	for _, v := range g.Inputs {
		input := tensor.Empty(v.Meta)
		for i := range input.Numel() {
			if v.Meta.DType.IsFloat() || v.Meta.DType.IsComplex() {
				input.SetFlat(i, tensor.FloatScalar(2*float64(random.Float64())-1))
			} else {
				input.SetFlat(i, tensor.IntScalar(random.Int64N(2)))
			}
		}
		c.inputs[v.Name] = input
	}
}

// withoutReference returns the nodes that cannot be evaluated: nodes without a reference, and the nodes that depend on
// them.
func withoutReference(g *graph.Graph) map[*graph.Node]*graph.Error {
	omitted := map[*graph.Node]*graph.Error{}
	for _, n := range g.Nodes {
		if n.Op.Ref == nil {
			omitted[n] = g.NodeError(n, graph.NoReference{Why: n.Op.NoRef})
		}
	}
	return dependents(g, omitted)
}

// dependents adds all dependents of the nodes in a set to the set, each with the error of a node that it depends on.
func dependents(g *graph.Graph, set map[*graph.Node]*graph.Error) map[*graph.Node]*graph.Error {
	if len(set) == 0 {
		return set
	}
	for _, n := range g.Nodes { // sorted, so that the dependents among the operands of n are in the set
		for _, arg := range n.In {
			if arg.Kind == graph.TensorArg && arg.Value.Node != nil && set[arg.Value.Node] != nil && set[n] == nil {
				set[n] = set[arg.Value.Node]
			}
		}
	}
	return set
}

// outputsOf returns the names of the outputs that depend on the nodes. It adds the dependents to nodes.
func outputsOf(g *graph.Graph, nodes map[*graph.Node]*graph.Error) (names []string) {
	nodes = dependents(g, nodes)
	for _, output := range g.Outputs {
		if output.Value.Node != nil && nodes[output.Value.Node] != nil {
			names = append(names, output.Name)
		}
	}
	return names
}

// outputNames returns the names of all outputs.
func outputNames(g *graph.Graph) []string {
	names := make([]string, len(g.Outputs))
	for i, output := range g.Outputs {
		names[i] = output.Name
	}
	return names
}

// evaluate calls graph.Evaluate on the graph without the omitted nodes.
func evaluate(g *graph.Graph, omitted map[*graph.Node]*graph.Error,
	inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if len(omitted) > 0 {
		g = g.WithoutRejected(omitted)
	}
	return graph.Evaluate(g, inputs)
}

// checkAfter verifies structure, properties, copies and values of the graph after a pass.
func (c *checker) checkAfter(g *graph.Graph, properties graph.Props, pass Pass) error {
	if err := graph.Verify(g, properties); err != nil {
		return err
	}
	if err := c.checkCopies(g, properties, pass); err != nil {
		return err
	}
	if len(c.expectedOutputs) == 0 {
		return nil
	}
	current := snapshotOf(g)
	// A caller's pass may change data in place, which a snapshot does not show.
	if pass.isBuiltin() && c.evaluated.equals(current) {
		return nil
	}
	got, err := evaluate(g, withoutReference(g), c.inputs)
	if err != nil {
		return err
	}
	c.evaluated = current
	for _, name := range sorted.Keys(c.expectedOutputs) {
		if got[name] == nil {
			return fmt.Errorf("output %q can no longer be evaluated", name)
		}
		if err := compareResults(got[name], c.expectedOutputs[name], pass); err != nil {
			return fmt.Errorf("output %q changed its value: %w", name, err)
		}
	}
	if pass.Rounds {
		c.expectedOutputs = got // later passes must reproduce these values, which the pass has rounded
	}
	return nil
}

// checkCopies verifies that no pass adds or removes live copies of non-constant values after layouts are chosen. A node
// is live if an output depends on it.
func (c *checker) checkCopies(g *graph.Graph, properties graph.Props, pass Pass) error {
	if properties&graph.LaidOut == 0 { // layouts are not chosen
		c.copies = nil
		return nil
	}
	current := liveVaryingCopies(g)
	if c.copies != nil && pass.Makes&graph.LaidOut == 0 && !maps.Equal(current, c.copies) {
		for _, name := range sorted.Keys(current) {
			if !c.copies[name] {
				return fmt.Errorf("copy %q was added after layouts were chosen", name)
			}
		}
		for _, name := range sorted.Keys(c.copies) {
			if !current[name] {
				return fmt.Errorf("copy %q was dropped after layouts were chosen", name)
			}
		}
	}
	c.copies = current
	return nil
}

// liveVaryingCopies returns the names of the live nodes that copy a value that depends on inputs.
func liveVaryingCopies(g *graph.Graph) map[string]bool {
	varies := map[*graph.Value]bool{}
	for _, v := range g.Inputs {
		varies[v] = true
	}
	live := map[*graph.Value]bool{}
	for _, output := range g.Outputs {
		live[output.Value] = true
	}
	for _, n := range g.Nodes {
		dependsOnInputs := slices.ContainsFunc(n.In, func(arg graph.Arg) bool {
			return arg.Kind == graph.TensorArg && varies[arg.Value]
		})
		for _, v := range n.Out {
			varies[v] = dependsOnInputs
		}
	}
	copies := map[string]bool{}
	for _, n := range slices.Backward(g.Nodes) {
		if !slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return live[v] }) {
			continue
		}
		for _, arg := range n.In {
			live[arg.Value] = true
		}
		if !n.Op.Identity || !varies[n.Out[0]] { // other nodes may have no operand
			continue
		}
		isView, converts := n.Out[0].Alias != nil, n.In[0].Meta().DType != n.Out[0].Meta.DType
		if !isView && !converts {
			copies[n.Name] = true
		}
	}
	return copies
}

// tolerance is the maximum difference that rounding may cause, relative to 1 + |value|. Elements of dtypes that are
// not listed must be equal.
var tolerance = map[tensor.DType]float64{
	tensor.Float16: 2e-2, tensor.BFloat16: 1e-1, tensor.Float32: 1e-4, tensor.Float64: 1e-10,
	tensor.Complex64: 1e-4, tensor.Complex128: 1e-10,
}

// compareResults returns an error if two results differ by more than the pass permits. A pass without Rounds permits no
// difference, a pass with Rounds permits differences within the tolerance. If the pass also has ChangesQuantized, the
// permitted difference is at least quantizedTolerance.
func compareResults(got, want *tensor.Tensor, pass Pass) error {
	if got.DType != want.DType || tensor.ListString(got.Shape) != tensor.ListString(want.Shape) {
		return fmt.Errorf("the result is %v, want %v", got.Meta, want.Meta)
	}
	complexMeta := tensor.New(tensor.Complex128, want.Shape...)
	gotElements, _ := tensor.ToSlice[complex128](got.CopyTo(complexMeta))
	wantElements, _ := tensor.ToSlice[complex128](want.CopyTo(complexMeta))
	relative, absolute := tolerance[got.DType], 0.0
	if pass.ChangesQuantized {
		absolute = quantizedTolerance(wantElements, got.DType)
	}
	for i, wantElement := range wantElements {
		gotElement := gotElements[i]
		if bits(gotElement) == bits(wantElement) {
			continue
		}
		permitted := max(absolute, relative*(1+cmplx.Abs(wantElement)))
		isWithinTolerance := pass.Rounds && cmplx.Abs(gotElement-wantElement) <= permitted
		if !isWithinTolerance {
			return fmt.Errorf("element %d is %v, want %v", i, gotElement, wantElement)
		}
	}
	return nil
}

// quantizedTolerance returns the difference that a changed quantization may cause: a twentieth of the largest wanted
// value (values above the largest float32 do not count), and at least 1 for dtypes of one byte.
func quantizedTolerance(want []complex128, dtype tensor.DType) float64 {
	largest := 0.0
	for _, element := range want {
		if cmplx.Abs(element) <= math.MaxFloat32 {
			largest = max(largest, cmplx.Abs(element))
		}
	}
	if dtype.Size() == 1 {
		return max(largest/20, 1)
	}
	return largest / 20
}

// bits returns the bits of the two parts of a complex number. The result is the same for every NaN.
func bits(c complex128) [2]uint64 {
	if cmplx.IsNaN(c) {
		return [2]uint64{1, 1}
	}
	return [2]uint64{math.Float64bits(real(c)), math.Float64bits(imag(c))}
}
