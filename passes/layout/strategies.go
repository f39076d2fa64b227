package layout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
	"github.com/graphrun/graphrun/tensor"
)

// Built-in strategies. Propagate keeps the layouts of eager PyTorch. Contiguous makes every value row-major.
// ChannelsLast makes images channels-last: see [Problem.Image].
var (
	Propagate Strategy = &perValue{name: "propagate",
		doc:            "keeps the layouts of eager PyTorch and drops redundant copies",
		preferredOrder: func(*Problem, *graph.Value) tensor.Order { return "" }}
	Contiguous Strategy = &perValue{name: "contiguous", doc: "makes every value row-major",
		preferredOrder: func(_ *Problem, v *graph.Value) tensor.Order { return tensor.RowMajorOrder(v.Meta.Rank()) }}
	ChannelsLast Strategy = &perValue{name: "channels_last", doc: "makes images channels-last",
		preferredOrder: func(p *Problem, v *graph.Value) tensor.Order {
			if !p.Image(v) {
				return ""
			}
			return channelsLastOrder(v.Meta.Rank())
		}}
)

// Default returns the strategy that is used if the caller names none. In 39 of 40 measurements no other strategy is
// faster by more than the noise (docs/layouts.md).
func Default() Strategy { return Optimal }

// All returns the built-in strategies, followed by the strategies of [Published]. Flags, help, tests and the table of
// docs/layouts.md use this list.
func All() []Strategy {
	return append([]Strategy{Propagate, Contiguous, ChannelsLast, Greedy, Favourite, Push, Optimal}, Published()...)
}

// Named returns the built-in strategy with that name, or the default for an empty name.
func Named(name string) (Strategy, error) {
	if name == "" {
		return Default(), nil
	}
	var names []string
	for _, s := range All() {
		if s.Name() == name {
			return s, nil
		}
		names = append(names, s.Name())
	}
	return nil, fmt.Errorf("strategy %q is unknown: want one of %s", name, strings.Join(names, ", "))
}

// DocOf returns the description of a strategy: the result of its method Doc() string, or "" if it has no such method.
func DocOf(s Strategy) string {
	if d, ok := s.(interface{ Doc() string }); ok {
		return d.Doc()
	}
	return ""
}

// perValue is a strategy that chooses an order for each value separately. Callers use a pointer to it, so that
// strategies are comparable.
type perValue struct {
	name, doc      string
	preferredOrder func(p *Problem, v *graph.Value) tensor.Order // "" if the strategy prefers no order for v
}

// Name implements [Strategy].
func (s *perValue) Name() string { return s.name }

// Doc describes the strategy in one sentence.
func (s *perValue) Doc() string { return s.doc }

// Choose implements [Strategy].
func (s *perValue) Choose(p *Problem) (*Assignment, error) {
	return Solve(p, func(v *graph.Value) (tensor.Order, string) {
		order := s.preferredOrder(p, v)
		if order == "" {
			return "", ""
		}
		return order, fmt.Sprintf("strategy %s prefers %v for this value", s.name, order)
	})
}

// This part has the strategies that state a [Problem], the choice of layouts for a graph, as a [Model] and solve it.
// The model has a weighted constraint satisfaction problem (WCSP): variables, labels (the choices for each variable),
// and tables of costs that depend on the labels of one or two variables. A solution has a label for each variable; its
// cost is the sum of the table entries for these labels. A bound is at most the cost of any solution. A solution whose
// cost equals the bound is optimal. The proof of a bound can be checked without solving the problem.
//
// For example, let a node have the labels row-major, with work 10, and channels-last, with work 8, and let its input be
// row-major. Channels-last needs a copy of cost 5. The cost of row-major is thus 10, and the cost of channels-last is
// 8+5 = 13. The bound 10 shows that row-major is optimal.

// Optimal finds a plan of least cost and proves that no plan costs less.
var Optimal Strategy = &modelStrategy{name: "optimal", solver: wcsp.Exact,
	doc: "minimizes the total cost and proves it; the default"}

// SolveLimit is the default time limit of a solver's search. The solver first eliminates variables. It searches only if
// elimination does not find a proven optimum. Most networks are solved within milliseconds.
const SolveLimit = 10 * time.Second

// SearchTimeLimit returns the time limit of the search ([wcsp.Options.TimeLimit]) for [Problem.SolveLimit]. If that
// field is 0, the time limit is the constant SolveLimit. If it is negative, the time limit is 0 (no search).
func (p *Problem) SearchTimeLimit() time.Duration {
	switch {
	case p == nil || p.SolveLimit == 0:
		return SolveLimit
	case p.SolveLimit < 0:
		return 0
	}
	return p.SolveLimit
}

// Solved returns a strategy that solves the model with the given solver. The strategy recomputes the cost of a solver
// other than [wcsp.Exact], and checks its proof. It replaces a bound without a valid proof by 0.
func Solved(name string, solver wcsp.Solver) Strategy {
	return &modelStrategy{name: name, solver: solver}
}

// modelStrategy is a strategy that solves a [Model].
type modelStrategy struct {
	name, doc string
	solver    wcsp.Solver
}

// Name implements [Strategy].
func (s *modelStrategy) Name() string { return s.name }

// Doc describes the strategy in one sentence.
func (s *modelStrategy) Doc() string { return s.doc }

// Choose implements [Strategy].
func (s *modelStrategy) Choose(p *Problem) (*Assignment, error) {
	if s.solver == nil {
		return nil, fmt.Errorf("strategy %s has no solver", s.name)
	}
	m, err := NewModel(p)
	if err != nil {
		return nil, err
	}
	if s.solver == wcsp.Exact {
		return m.optimum()
	}
	solution, err := s.solver.Solve(m.WCSP, p.options())
	if err != nil {
		return nil, err
	}
	if solution == nil {
		return nil, fmt.Errorf("the solver of strategy %s returned no solution", s.name)
	}
	assignment, err := m.checkedAssignment(solution)
	if err != nil {
		return nil, fmt.Errorf("strategy %s: %w", s.name, err)
	}
	return assignment, nil
}

// checkedAssignment returns the assignment for a solution of a caller's solver. It recomputes the cost, and drops a
// bound without a valid proof.
func (m *Model) checkedAssignment(solution *wcsp.Solution) (*Assignment, error) {
	assignment, err := m.Assignment(solution.Labels)
	if err != nil {
		return nil, err
	}
	cost, err := m.WCSP.Cost(solution.Labels)
	if err != nil {
		return nil, err
	}
	checked := &wcsp.Solution{Version: solution.Version, Labels: solution.Labels, Cost: cost, Bound: solution.Bound,
		Proof: solution.Proof}
	hasValidProof := solution.Proof != nil && verify.Solution(context.Background(), m.WCSP, checked) == nil
	if !hasValidProof {
		checked.Bound, checked.Proof = 0, nil
	}
	assignment.Model, assignment.Solution = m, checked
	return assignment, nil
}

// optimum returns the assignment for the solution of strategy Optimal: a solution of least cost or, with a
// [Problem.Slack], a solution with fewer copies whose additional cost is within the slack.
func (m *Model) optimum() (_ *Assignment, err error) {
	defer interrupt.Catch(&err)
	// preference records the choice among plans of nearly equal cost. Its LeastPS is the bound, in picoseconds.
	best, preference, err := m.preferFewerCopies()
	if err != nil {
		return nil, err
	}
	assignment, err := best.Model.Assignment(best.Labels)
	if err != nil {
		return nil, err
	}
	assignment.Model, assignment.Preference = best.Model, preference
	assignment.Solution = &wcsp.Solution{Version: wcsp.Version, Labels: best.Labels, Cost: best.CostPS,
		Bound: preference.LeastPS}
	return assignment, nil
}

// Inductor takes one decision for the whole graph, like the compiler of PyTorch 2: Ansel et al., "PyTorch 2: Faster
// Machine Learning Through Dynamic Python Bytecode Transformation and Graph Compilation", ASPLOS 2024. The rule is
// decide_layout_opt of torch/_inductor/graph.py, for inference. Either every 2-D convolution reads and writes
// channels-last, and other nodes follow their operands, or all layouts are as in eager PyTorch. Convolutions become
// channels-last if both conditions hold:
//
//   - There is a convolution, and there are fewer than 300 nodes for each convolution. Inputs and constants count as
//     nodes.
//   - The weighted sum of the operations of all convolutions is at most the sum without weights. The weight of a
//     convolution is the time with channels-last images divided by the time with row-major images, as measured for its
//     class: see [convClass].
//
// Deviations:
//
//   - Inductor also prefers channels-last for all ancestors and descendants of convolutions. Here such nodes follow
//     their operands, and only the operand of the first convolution is converted.
//   - Nodes are counted after fusion, so there are fewer.
//   - A convolution counts only if it has implementations for both layouts. Inductor also counts convolutions of one
//     and three dimensions and transposed ones.
//   - For symbolic sizes, Inductor keeps eager layouts, while this strategy chooses layouts for numeric sizes.
//   - On CPUs with oneDNN, Inductor always takes channels-last. This strategy applies the general rule.
var Inductor Strategy = inductor{}

// inductor is the type of [Inductor].
type inductor struct{}

// Name implements [Strategy].
func (inductor) Name() string { return "inductor" }

// Doc describes the strategy in one sentence.
func (inductor) Doc() string {
	return "makes all convolutions channels-last, or keeps the layouts of eager PyTorch, by a rule on the convolutions " +
		"of the graph, as TorchInductor, ASPLOS 2024"
}

// Choose implements [Strategy].
func (inductor) Choose(p *Problem) (*Assignment, error) {
	wishes := channelsLastConvolutions(p)
	return Solve(p, func(v *graph.Value) (tensor.Order, string) {
		return wishes[v], "strategy inductor makes all convolutions channels-last"
	})
}

// channelsLastConvolutions returns channels-last for the images that convolutions read and write, or nil if the rule
// keeps the layouts of eager PyTorch.
func channelsLastConvolutions(p *Problem) map[*graph.Value]tensor.Order {
	var convs []*graph.Node
	for _, n := range p.Graph.Nodes {
		if isConvolution(n) {
			convs = append(convs, n)
		}
	}
	const outputNodes = 1 // Inductor counts all outputs together as one node
	g := p.Graph
	if !channelsLastIsFaster(convs, len(g.Nodes)+len(g.Inputs)+len(g.Constants)+outputNodes) {
		return nil
	}
	wishes := map[*graph.Value]tensor.Order{}
	for _, n := range convs {
		wishes[n.In[0].Value] = channelsLastOrder(4)
		for _, v := range n.Out {
			wishes[v] = channelsLastOrder(4)
		}
	}
	return wishes
}

// isConvolution reports whether a node is a 2-D convolution of images, possibly fused with pointwise nodes.
func isConvolution(n *graph.Node) bool {
	if n.Op.ImageRole != graph.ImageOp || n.Op.Flops == nil || len(n.In) < 2 || len(n.Out) == 0 {
		return false
	}
	hasRank4 := func(a graph.Arg) bool { return a.Kind == graph.TensorArg && a.Meta().Rank() == 4 }
	return hasRank4(n.In[0]) && hasRank4(n.In[1]) // image and weight
}

// Limits of decide_layout_opt.
const (
	nodesPerConv  = 300 // convolutions are rare if there are at least this many nodes for each
	smallChannels = 64  // maximum number of channels of a small convolution
)

// channelsLastIsFaster applies the rule of [Inductor] to the convolutions of a graph with the given number of nodes.
func channelsLastIsFaster(convs []*graph.Node, nodes int) bool {
	if len(convs) == 0 || nodes >= nodesPerConv*len(convs) {
		return false
	}
	var flops, weightedFlops float64
	for _, n := range convs {
		operations := n.Op.Flops(n.Call())
		flops, weightedFlops = flops+operations, weightedFlops+float64(operations*classOf(n).ratio)
	}
	return weightedFlops <= flops
}

// classOf returns the class of a convolution.
func classOf(n *graph.Node) *convClass {
	weight := n.In[1].Meta().Shape
	groups := n.In[0].Meta().Shape[1] / max(weight[1], 1)
	i := slices.IndexFunc(convClasses, func(c convClass) bool {
		return c.contains(groups, weight[0], weight[1], weight[2])
	})
	return &convClasses[i]
}

// convClass is a class of convolutions by their weights [out, in/groups, height, width].
type convClass struct {
	name     string
	contains func(groups, out, in, height int) bool
	// ratio is the time with channels-last images divided by the time with row-major images. The authors of
	// decide_layout_opt measured the ratios on a GPU.
	ratio float64
}

// convClasses lists the classes. A convolution belongs to the first class that contains it.
var convClasses = []convClass{
	{"grouped", func(groups, _, in, _ int) bool { return groups > 1 && in > 1 }, 1.358},
	{"small", func(_, out, in, _ int) bool { return out <= smallChannels && in <= smallChannels }, 0.783},
	{"fewer results", func(_, out, in, height int) bool { return out*2 <= in && height > 1 }, 0.725},
	{"default", func(_, _, _, _ int) bool { return true }, 0.823},
}
