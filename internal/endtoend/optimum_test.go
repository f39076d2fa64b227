package endtoend_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// optimumSteps are the ops of optimumGraph: those of other random graphs, and ops that read or write in orders of their
// own.
var optimumSteps = append(slices.Clone(steps),
	func(r *grower, v *graph.Value, _, _ int) []*graph.Value { return r.apply("relu", nil, v) },
	func(r *grower, v *graph.Value, d, e int) []*graph.Value {
		dims := r.rng.Perm(v.Meta.Rank())
		return r.apply("permute", graph.Attrs{"dims": dims}, v)
	},
	func(r *grower, v *graph.Value, d, _ int) []*graph.Value {
		return r.apply("unsqueeze", graph.Attrs{"dim": d}, v)
	},
	func(r *grower, v *graph.Value, _, _ int) []*graph.Value {
		return r.apply("view", graph.Attrs{"size": []int{4, -1}}, v)
	},
	func(r *grower, v *graph.Value, d, _ int) []*graph.Value {
		return r.apply("select", graph.Attrs{"dim": d, "index": 0}, v)
	},
	func(r *grower, v *graph.Value, _, _ int) []*graph.Value {
		return r.apply("expand", graph.Attrs{"size": append([]int{2}, v.Meta.Shape...)}, v)
	},
	func(r *grower, _ *graph.Value, _, _ int) []*graph.Value {
		return r.apply("conv2d", graph.Attrs{"padding": 1}, r.image(), r.g.Value("k"))
	},
	func(r *grower, _ *graph.Value, _, _ int) []*graph.Value {
		return r.apply("conv2d", nil, r.image(), r.g.Value("one"))
	},
	func(r *grower, _ *graph.Value, _, _ int) []*graph.Value {
		return r.apply("conv2d", graph.Attrs{"padding": 1, "groups": 4}, r.image(), r.g.Value("depth"))
	},
	func(r *grower, v *graph.Value, _, _ int) []*graph.Value { return r.apply("matmul", nil, v, r.value()) },
	func(r *grower, v *graph.Value, _, _ int) []*graph.Value {
		return r.apply("sub", nil, v, r.g.Value("image"))
	},
)

// optimumGraph returns a random graph of a few ops, with pins. All results are read or are outputs.
func optimumGraph(seed uint64) (*graph.Graph, *rand.Rand) {
	r := &grower{rng: rand.New(rand.NewPCG(seed, 2)), g: graph.New(fmt.Sprint("seed", seed), kernels.Lookup)}
	n, h, w := 1+r.rng.IntN(3), 2+r.rng.IntN(3), 2+r.rng.IntN(5)
	strided, _ := tensor.New(f32, 4, h, n, w).Permute([]int{2, 0, 1, 3})
	r.vals = []*graph.Value{r.g.Input("a", f32, n, 4, h, w), r.g.InputFormat("b", f32, tensor.ChannelsLast, n, 4, h, w)}
	if r.rng.IntN(2) == 0 {
		r.vals = append(r.vals, r.g.InputMeta("c", strided), r.g.Input("d", f32, 4, 1, 1))
	}
	image, _ := tensor.NewFormat(f32, []int{n, 4, h, w}, tensor.ChannelsLast)
	r.g.Constant("image", tensor.Empty(image))
	r.g.Input("w", f32, 4, 4, 3, 3)
	r.g.InputFormat("wl", f32, tensor.ChannelsLast, 4, 4, 3, 3)
	r.g.Constant("k", tensor.Zeros(f32, 4, 4, 3, 3))
	r.g.Constant("one", tensor.Zeros(f32, 4, 4, 1, 1))
	r.g.Constant("depth", tensor.Zeros(f32, 4, 1, 3, 3))
	for _, v := range r.vals {
		if v.Meta.Rank() == 4 && r.rng.IntN(8) == 0 {
			v.PinnedTo(r.pin(4))
		}
	}
	for n := 2 + r.rng.IntN(7); len(r.g.Nodes) < n; {
		v := r.value()
		d, e := 0, 0
		if n := v.Meta.Rank(); n > 0 {
			d, e = r.rng.IntN(n), r.rng.IntN(n)
		}
		out := optimumSteps[r.rng.IntN(len(optimumSteps))](r, v, d, e)
		if len(out) == 0 {
			continue
		}
		if rank := out[0].Meta.Rank(); rank > 1 && r.rng.IntN(10) == 0 {
			out[0].PinnedTo(r.pin(rank))
		} else if node := out[0].Node; len(node.Op.Impls) > 1 && r.rng.IntN(6) == 0 {
			if m := node.Op.Impls[r.rng.IntN(len(node.Op.Impls))]; len(m.Walks(node.Call(), nil)) > 0 {
				node.Pin.Impl = m.Name
			}
		}
	}
	r.outputs()
	return r.g, r.rng
}

// pin returns a random layout.
func (r *grower) pin(rank int) graph.Pin {
	if rank == 4 && r.rng.IntN(2) == 0 {
		return graph.Pin{Format: tensor.ChannelsLast}
	}
	o, _ := tensor.NewOrder(r.rng.Perm(rank)...)
	return graph.Pin{Order: o}
}

// outputs makes outputs of all values without readers, and sometimes of others.
func (r *grower) outputs() {
	read := map[*graph.Value]bool{}
	for _, n := range r.g.Nodes {
		for _, a := range n.In {
			read[a.Value] = true
		}
	}
	for _, n := range r.g.Nodes {
		for _, v := range n.Out {
			if !read[v] || r.rng.IntN(12) == 0 {
				pin := graph.Pin{}
				if v.Meta.Rank() > 1 && r.rng.IntN(4) == 0 {
					pin = r.pin(v.Meta.Rank())
				}
				r.g.OutputPinned("out "+v.Name, v, pin)
			}
		}
	}
}

// randomProfile returns random prices, with hardly any ties.
func randomProfile(rng *rand.Rand) *pricing.Profile {
	p := pricing.DefaultProfile()
	var vary func(v reflect.Value, by float64)
	vary = func(v reflect.Value, by float64) {
		switch v.Kind() {
		case reflect.Float64:
			v.SetFloat(v.Float() * by * math.Exp(rng.NormFloat64()))
		case reflect.Slice: // a curve, with one factor for all its prices
			factor := by * math.Exp(rng.NormFloat64())
			for i := range v.Len() {
				at := v.Index(i).FieldByName("PS")
				at.SetFloat(at.Float() * factor)
			}
		case reflect.Map: // the factor of a rate does not depend on the other rates in the profile
			seed := rng.Uint64()
			for _, k := range v.MapKeys() {
				name := fnv.New64a()
				name.Write([]byte(k.String()))
				factor := math.Exp(rand.New(rand.NewPCG(seed, name.Sum64())).NormFloat64())
				v.SetMapIndex(k, reflect.ValueOf(v.MapIndex(k).Float()*factor))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if !v.Type().Field(i).IsExported() {
					continue
				}
				by := 1.0
				if v.Type().Field(i).Name == "StepPS" { // otherwise small copies would always cost more than they save
					by = []float64{1, 0.01}[rng.IntN(2)]
				}
				vary(v.Field(i), by)
			}
		}
	}
	vary(reflect.ValueOf(p).Elem(), 1)
	return p
}

// judged is a strategy that chooses the optimum, and checks it by other means.
type judged struct {
	t        *testing.T
	rng      *rand.Rand
	brute    bool
	profile  *pricing.Profile // of the problem, which includes the effect of constants on the cache
	solution *wcsp.Solution
	compared bool
	refused  error
}

func (*judged) Name() string { return "judged" }

func (j *judged) Choose(p *layout.Problem) (*layout.Assignment, error) {
	j.profile = p.Profile
	m, err := layout.NewModel(p)
	if err != nil {
		j.refused = err
		return nil, err
	}
	s, err := wcsp.Exact.Solve(m.WCSP, wcsp.Options{Proof: true})
	if err != nil {
		j.refused = err
		return nil, err
	}
	require.True(j.t, s.Optimal())
	require.NoError(j.t, verify.Solution(ctx, m.WCSP, s))
	ties, err := wcsp.Exact.Solve(m.Weighted, wcsp.Options{})
	require.NoError(j.t, err)
	require.Positive(j.t, m.Weights.UnitBytes)
	require.Equal(j.t, s.Cost, ties.Cost/m.Weights.Time, "of the cheapest plans one is chosen")
	if j.brute {
		j.compared = j.bruteForce(p, m, ties.Cost)
		j.tamper(m.WCSP, s)
		if j.compared && j.rng.IntN(4) == 0 { // copies with weights that matter, unlike by default
			other, err := m.WithWeights(layout.Weights{Time: 1 + j.rng.Int64N(20), Copy: 1 + j.rng.Int64N(1<<j.rng.IntN(30)),
				UnitBytes: 1 << j.rng.IntN(20)})
			require.NoError(j.t, err)
			s, err := wcsp.Exact.Solve(other.Weighted, wcsp.Options{})
			require.NoError(j.t, err)
			j.bruteForce(p, other, s.Cost)
		}
	}
	j.solution = s
	return m.Assignment(s.Labels)
}

// bruteForce compares the least weighted cost with brute force. It returns false if there are too many plans.
func (j *judged) bruteForce(p *layout.Problem, m *layout.Model, cost int64) bool {
	found, exact := bruteForce(j.t, p, m, cost)
	if exact && found != cost {
		all, _ := bruteForce(j.t, p, m, math.MaxInt64/2)
		require.Equal(j.t, all, cost, "the optimum is %d; by the definition it is %d", cost, all)
	}
	return exact
}

// tamper checks that the verifier rejects changed solutions.
func (j *judged) tamper(p *wcsp.Problem, s *wcsp.Solution) {
	for _, by := range []int64{-1, 1} {
		cost, bound := *s, *s
		cost.Cost += by
		bound.Bound += by
		require.Error(j.t, verify.Solution(ctx, p, &cost))
		require.Error(j.t, verify.Solution(ctx, p, &bound))
	}
	if len(p.Variables) == 0 {
		return
	}
	other := *s
	other.Labels = slices.Clone(s.Labels)
	v := j.rng.IntN(len(other.Labels))
	other.Labels[v] = j.rng.IntN(len(p.Variables[v].Labels))
	if cost, err := p.Cost(other.Labels); err != nil || cost != s.Cost {
		require.Error(j.t, verify.Solution(ctx, p, &other))
	}
}

// costOfPlan returns the cost of the nodes of a plan in picoseconds, each part rounded separately.
func costOfPlan(p *pricing.Profile, g *graph.Graph) (sum int64) {
	for _, n := range g.Nodes {
		if n.IsView() || len(n.Op.Impls) == 0 {
			continue
		}
		impl := n.Impl
		if impl == nil {
			impl = &n.Op.Impls[0]
		}
		c := n.Call()
		sum += layout.PricePS(p, impl.Work(c, n.Walk))
		for k, a := range n.In {
			if a.Kind == graph.TensorArg {
				w, _ := impl.Read(c, n.Walk, k, a.Meta())
				sum += layout.PricePS(p, w)
			}
		}
	}
	return sum
}

// optimum plans a random graph and compares the cost by the solver, by brute force, of the plan, and of other
// strategies. It reports whether brute force was possible, and whether another strategy had a lower cost than the
// optimum.
func optimum(t *testing.T, seed uint64) (compared, below bool) {
	g, rng := optimumGraph(seed)
	return checkOptimum(t, seed, g, rng)
}

func checkOptimum(t *testing.T, seed uint64, g *graph.Graph, rng *rand.Rand) (compared, below bool) {
	require.NoError(t, g.Err(), "seed %d", seed)
	profile := randomProfile(rng)
	list := passes.Passes()
	if rng.IntN(2) == 0 {
		list = without(list, "group")
	}
	j := &judged{t: t, rng: rng, brute: true}
	plan, err := passes.Run(g, passes.Options{Strategy: j, Profile: profile, Passes: list})
	if j.refused != nil {
		for _, s := range []layout.Strategy{layout.Propagate, layout.Contiguous, layout.ChannelsLast} {
			_, err := passes.Run(g, passes.Options{Strategy: s, Profile: profile, Passes: list})
			require.Error(t, err, "seed %d: %s plans what the optimum refuses: %v", seed, s.Name(), j.refused)
		}
		return false, false
	}
	require.NoError(t, err, "seed %d", seed)
	cost := costOfPlan(j.profile, plan.Graph)
	if plan.SavedNS == 0 {
		require.Equal(t, j.solution.Cost, cost, "seed %d: the plan is priced otherwise", seed)
	}
	require.InDelta(t, j.solution.Cost, float64(cost)+1000*plan.SavedNS, 1, "seed %d: the plan is priced otherwise", seed)
	for _, s := range []layout.Strategy{layout.Propagate, layout.Contiguous, layout.ChannelsLast} {
		other, err := passes.Run(g, passes.Options{Strategy: s, Profile: profile, Passes: list})
		var refused *graph.Error
		if errors.As(err, &refused) {
			continue // other strategies see one node at a time
		}
		require.NoError(t, err, "seed %d, %s", seed, s.Name())
		if costOfPlan(j.profile, other.Graph) >= j.solution.Bound {
			continue
		}
		// The problem has no copies for pins and by views, and only the last of the places in concatenations of a value. Pass
		// place may still find them.
		below = true
		require.NotEmpty(t, other.Placed, "seed %d: %s costs less", seed, s.Name())
		other, err = passes.Run(g, passes.Options{Strategy: s, Profile: profile, Passes: without(list, "place")})
		require.NoError(t, err, "seed %d, %s", seed, s.Name())
		require.GreaterOrEqual(t, costOfPlan(j.profile, other.Graph), j.solution.Bound, "seed %d: %s costs less", seed,
			s.Name())
	}
	return j.compared, below
}

func without(list []passes.Pass, name string) []passes.Pass {
	return slices.DeleteFunc(slices.Clone(list), func(p passes.Pass) bool { return p.Name == name })
}

// TestOptimum plans random graphs. GRAPHRUN_OPTIMUM=FIRST:COUNT chooses other seeds.
func TestOptimum(t *testing.T) {
	testsize.Long(t)
	first, count := uint64(0), testsize.Of[uint64](120, 1000)
	if text := os.Getenv("GRAPHRUN_OPTIMUM"); text != "" {
		_, err := fmt.Sscanf(text, "%d:%d", &first, &count)
		require.NoError(t, err, "want FIRST:COUNT, not %s", strconv.Quote(text))
	}
	compared, below := uint64(0), uint64(0)
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			tried, less := optimum(t, seed)
			if tried {
				compared++
			}
			if less {
				below++
			}
		})
	}
	require.LessOrEqual(t, below, count/200, "hardly ever is more found behind a strategy than the problem knows")
	t.Logf("%d of %d graphs by brute force", compared, count)
	require.GreaterOrEqual(t, compared, count/2, "most graphs are small enough to be compared")
}

// TestOptimumOfRareGraphs has graphs that once failed: the optimum was not that of brute force, a strategy had a lower
// cost, the graph was rejected, or the plan had another price.
func TestOptimumOfRareGraphs(t *testing.T) {
	testsize.Long(t)
	for _, seed := range []uint64{
		11922, 13565, 14052, // outputs that are reshapes, with dimensions of size 1
		7586, 8670, 12400, 14899, // the storage of a copy of a view is read
		16867, 22448, // no elements
		24638, 25021, // pins before expanded values
		1914,  // a view with seven layouts
		24025, // a concatenation of a concatenation of a value with itself
		35787, // a loop with two results; one result is an operand of a concatenation
		43415, // a concatenation whose result has the demanded layout
		55466, // an output without elements that is a view of a pinned value
	} {
		_, below := optimum(t, seed)
		// With 16 of 40 random profiles, a result of graph 35787 that is written in place saves a copy that the problem
		// contains. Without AVX2, this is so for more graphs.
		if machine.HostFeatures().Has(machine.AVX2) && seed != 35787 {
			require.False(t, below, "seed %d", seed)
		}
	}
}

// TestOptimumOfExamples compares the optimum of real graphs with the cost of their plans.
func TestOptimumOfExamples(t *testing.T) {
	testsize.Long(t)
	files, err := filepath.Glob("../../examples/models/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			g, err := graphrun.Load(ctx, f)
			require.NoError(t, err)
			require.NoError(t, g.Bind(nil))
			j := &judged{t: t}
			profile := pricing.DefaultProfile()
			plan, err := passes.Run(g, passes.Options{Strategy: j, Profile: profile})
			require.NoError(t, err)
			require.Equal(t, j.solution.Cost, costOfPlan(j.profile, plan.Graph))
			for _, s := range layout.All() {
				other, err := passes.Run(g, passes.Options{Strategy: s, Profile: profile})
				require.NoError(t, err)
				require.GreaterOrEqual(t, costOfPlan(j.profile, other.Graph), j.solution.Bound, s.Name())
			}
		})
	}
}
