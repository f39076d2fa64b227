package verify_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
)

// grid makes a problem whose proof has prunings, splits, parts and several buckets: two grids side by side, and a
// variable with a label that nobody needs.
func grid(rng *rand.Rand) *wcsp.Problem {
	const width, labels = 5, 3
	p := new(wcsp.Problem)
	add := func(scope []int, size int) {
		f := wcsp.Factor{Scope: scope}
		for range size {
			f.Costs = append(f.Costs, rng.Int64N(int64(20*size*size)))
		}
		p.Factors = append(p.Factors, f)
	}
	for v := range 2 * width * width {
		p.Variables = append(p.Variables, wcsp.Variable{Name: fmt.Sprint("v", v), Labels: make([]string, labels)})
		add([]int{v}, labels)
		if v%width > 0 {
			add([]int{v, v - 1}, labels*labels)
		}
		if v%(width*width) >= width {
			add([]int{v - width, v}, labels*labels)
		}
	}
	p.Variables = append(p.Variables, wcsp.Variable{Name: "last", Labels: []string{"good", "bad"}})
	p.Factors = append(p.Factors, wcsp.Factor{Scope: []int{len(p.Variables) - 1}, Costs: []int64{3, 7}},
		wcsp.Factor{Costs: []int64{5}})
	return p
}

func solve(t *testing.T, p *wcsp.Problem) *wcsp.Solution {
	t.Helper()
	s, err := wcsp.Exact.Solve(p, wcsp.Options{TimeLimit: -1, MaxTable: 4, Proof: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := verify.Solution(t.Context(), p, s); err != nil || !s.Optimal() {
		t.Fatalf("the proof of a bound of %d for %d is refused: %v", s.Bound, s.Cost, err)
	}
	return s
}

// places are parts of a proof, by the way to them.
type places struct {
	steps    []*wcsp.Step
	buckets  []*wcsp.Bucket
	branched []*wcsp.Node
	parted   []*wcsp.Node
	shifted  []*wcsp.Node
	cut      []*wcsp.Node
}

func (p *places) add(n *wcsp.Node) {
	for i := range n.Steps {
		p.steps = append(p.steps, &n.Steps[i])
		for k := range n.Steps[i].Buckets {
			p.buckets = append(p.buckets, &n.Steps[i].Buckets[k])
		}
	}
	if len(n.Branches) > 0 {
		p.branched = append(p.branched, n)
	}
	if len(n.Parts) > 1 {
		p.parted = append(p.parted, n)
	}
	if len(n.Shifts) > 0 {
		p.shifted = append(p.shifted, n)
	}
	if len(n.Cuts) > 0 {
		p.cut = append(p.cut, n)
	}
	for i := range n.Branches {
		p.add(&n.Branches[i].Node)
	}
	for i := range n.Parts {
		p.add(&n.Parts[i])
	}
}

func pick[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// frauds are ways to make a solution a false one, or one whose proof proves nothing.
var frauds = map[string]func(rng *rand.Rand, p *wcsp.Problem, s *wcsp.Solution, at *places){
	"a message raised": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		b := pick(rng, at.buckets)
		b.Table[rng.IntN(len(b.Table))]++
	},
	"a message lowered": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		b := pick(rng, at.buckets)
		b.Table[rng.IntN(len(b.Table))]--
	},
	"a message forbidden": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		b := pick(rng, at.buckets)
		b.Table[rng.IntN(len(b.Table))] = wcsp.Forbidden
	},
	"a message cut short": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		b := pick(rng, at.buckets)
		b.Table = b.Table[:len(b.Table)-1]
	},
	"a message on no variables": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		for b := pick(rng, at.buckets); ; b = pick(rng, at.buckets) {
			if len(b.Scope) > 0 {
				b.Scope, b.Table = nil, b.Table[:1]
				return
			}
		}
	},
	"a message on another variable": func(rng *rand.Rand, p *wcsp.Problem, _ *wcsp.Solution, at *places) {
		for b := pick(rng, at.buckets); ; b = pick(rng, at.buckets) {
			if len(b.Scope) > 0 {
				b.Scope[0] = (b.Scope[0] + 1) % len(p.Variables)
				return
			}
		}
	},
	"the cost lowered":  func(_ *rand.Rand, _ *wcsp.Problem, s *wcsp.Solution, _ *places) { s.Cost-- },
	"the bound raised":  func(_ *rand.Rand, _ *wcsp.Problem, s *wcsp.Solution, _ *places) { s.Bound++ },
	"the bound lowered": func(_ *rand.Rand, _ *wcsp.Problem, s *wcsp.Solution, _ *places) { s.Bound-- },
	"a label changed": func(rng *rand.Rand, _ *wcsp.Problem, s *wcsp.Solution, _ *places) {
		i := rng.IntN(len(s.Labels) - 1)
		s.Labels[i] = (s.Labels[i] + 1) % 3
	},
	"a label that is none": func(rng *rand.Rand, _ *wcsp.Problem, s *wcsp.Solution, _ *places) {
		s.Labels[rng.IntN(len(s.Labels))] = pick(rng, []int{-1, 3, min(1<<40, math.MaxInt)})
	},
	"a label too few": func(_ *rand.Rand, _ *wcsp.Problem, s *wcsp.Solution, _ *places) { s.Labels = s.Labels[1:] },
	"a function left out of a bucket": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		b := pick(rng, at.buckets)
		i := rng.IntN(len(b.From))
		b.From = append(b.From[:i:i], b.From[i+1:]...)
	},
	"a function used twice": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		b := pick(rng, at.buckets)
		b.From = append(b.From, pick(rng, b.From))
	},
	"a function of others used": func(rng *rand.Rand, p *wcsp.Problem, _ *wcsp.Solution, at *places) {
		b := pick(rng, at.buckets)
		b.From[rng.IntN(len(b.From))] = pick(rng, []int{-1, len(p.Factors) - 1, min(1<<40, math.MaxInt)})
	},
	"a bucket left out": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		for s := pick(rng, at.steps); ; s = pick(rng, at.steps) {
			if len(s.Buckets) > 0 {
				s.Buckets = s.Buckets[1:]
				return
			}
		}
	},
	"a bucket twice": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		for s := pick(rng, at.steps); ; s = pick(rng, at.steps) {
			if len(s.Buckets) > 0 {
				s.Buckets = append(s.Buckets, s.Buckets[0])
				return
			}
		}
	},
	"an empty bucket": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		s := pick(rng, at.steps)
		s.Buckets = append(s.Buckets, wcsp.Bucket{Table: wcsp.Costs{9}})
	},
	"another variable eliminated": func(rng *rand.Rand, p *wcsp.Problem, _ *wcsp.Solution, at *places) {
		s := pick(rng, at.steps)
		s.Variable = pick(rng, []int{-1, len(p.Variables), s.Variable + 1, s.Variable - 1})
	},
	"a branch left out": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		n := pick(rng, at.branched)
		n.Branches = n.Branches[1:]
	},
	"a branch twice": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		n := pick(rng, at.branched)
		n.Branches[0] = n.Branches[1]
	},
	"branches of another label": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		n := pick(rng, at.branched)
		n.Branches[0].Label, n.Branches[1].Label = n.Branches[1].Label, n.Branches[0].Label
	},
	"a split on another variable": func(rng *rand.Rand, p *wcsp.Problem, _ *wcsp.Solution, at *places) {
		n := pick(rng, at.branched)
		n.Variable = (n.Variable + 1) % len(p.Variables)
	},
	"a branch with nothing in it": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		pick(rng, at.branched).Branches[0].Node = wcsp.Node{}
	},
	"a part left out": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		n := pick(rng, at.parted)
		n.Parts = n.Parts[1:]
	},
	"a part twice": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		n := pick(rng, at.parted)
		n.Parts[0] = n.Parts[1]
	},
	"branches and parts": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		n := pick(rng, at.parted)
		n.Branches = pick(rng, at.branched).Branches
	},
	"a shift of too much": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		by := pick(rng, pick(rng, pick(rng, at.shifted).Shifts).By)
		by[rng.IntN(len(by))] += pick(rng, []int64{1 << 40, -1 << 40})
	},
	"a shift past all bounds": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		by := pick(rng, pick(rng, pick(rng, at.shifted).Shifts).By)
		by[rng.IntN(len(by))] = pick(rng, []int64{wcsp.Forbidden, -wcsp.Forbidden, 1<<63 - 1, -1 << 63})
	},
	"a shift to a variable too few": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		s := &pick(rng, at.shifted).Shifts[0]
		s.By = s.By[1:]
	},
	"a shift of a label too few": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		s := &pick(rng, at.shifted).Shifts[0]
		s.By[0] = s.By[0][1:]
	},
	"a shift of another function": func(rng *rand.Rand, p *wcsp.Problem, _ *wcsp.Solution, at *places) {
		s := &pick(rng, at.shifted).Shifts[0]
		s.From[0] = pick(rng, []int{-1, 0, len(p.Factors) - 1, min(1<<40, math.MaxInt)})
	},
	"a shift of nothing": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		pick(rng, at.shifted).Shifts[0].From = nil
	},
	"a shift twice": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		n := pick(rng, at.shifted)
		n.Shifts = append(n.Shifts, n.Shifts[0])
	},
	"a shift left out": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		n := pick(rng, at.shifted)
		n.Shifts = n.Shifts[1:]
	},
	"a cutoff raised": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		pick(rng, at.cut).Cutoff += pick(rng, []int64{1 << 40, wcsp.Forbidden})
	},
	"a cutoff lowered": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		pick(rng, at.cut).Cutoff = pick(rng, []int64{0, -1, -1 << 40})
	},
	"a cut twice": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		n := pick(rng, at.cut)
		n.Cuts = append(n.Cuts, n.Cuts[0])
	},
	"a cut of nothing": func(rng *rand.Rand, p *wcsp.Problem, _ *wcsp.Solution, at *places) {
		pick(rng, at.cut).Cuts[0] = pick(rng, []wcsp.Cut{{Variable: -1}, {Variable: len(p.Variables)}, {Label: -1},
			{Label: min(1<<40, math.MaxInt)}})
	},
	"cuts of all labels": func(rng *rand.Rand, _ *wcsp.Problem, _ *wcsp.Solution, at *places) {
		n := pick(rng, at.cut)
		for l := range 3 {
			n.Cuts = append(n.Cuts, wcsp.Cut{Variable: n.Cuts[0].Variable, Label: l})
		}
	},
	"no proof": func(_ *rand.Rand, _ *wcsp.Problem, s *wcsp.Solution, _ *places) { s.Proof = nil },
	"an empty proof": func(_ *rand.Rand, _ *wcsp.Problem, s *wcsp.Solution, _ *places) {
		s.Proof = new(wcsp.Proof)
	},
	"a pruning the other way": func(_ *rand.Rand, _ *wcsp.Problem, s *wcsp.Solution, _ *places) {
		pr := &s.Proof.Prunings[len(s.Proof.Prunings)-1]
		pr.Label, pr.By = pr.By, pr.Label
	},
	"a pruning that does not hold": func(rng *rand.Rand, p *wcsp.Problem, s *wcsp.Solution, _ *places) {
		pruned := map[[2]int]bool{}
		for _, pr := range s.Proof.Prunings {
			pruned[[2]int{pr.Variable, pr.Label}] = true
		}
		for {
			v := rng.IntN(len(p.Variables) - 1)
			if by := (s.Labels[v] + 1) % 3; !pruned[[2]int{v, by}] {
				s.Proof.Prunings = append(s.Proof.Prunings, wcsp.Pruning{Variable: v, Label: s.Labels[v], By: by})
				return
			}
		}
	},
	"a pruning twice": func(_ *rand.Rand, _ *wcsp.Problem, s *wcsp.Solution, _ *places) {
		s.Proof.Prunings = append(s.Proof.Prunings, s.Proof.Prunings[0])
	},
	"a pruning of nothing": func(rng *rand.Rand, p *wcsp.Problem, s *wcsp.Solution, _ *places) {
		s.Proof.Prunings[0] = pick(rng, []wcsp.Pruning{{Variable: -1}, {Variable: len(p.Variables), By: 1}, {Label: -1},
			{Label: min(1<<40, math.MaxInt)}, {Label: 1, By: 1}, {Label: 1, By: -1}})
	},
	"another problem": func(rng *rand.Rand, p *wcsp.Problem, s *wcsp.Solution, _ *places) {
		f := &p.Factors[rng.IntN(len(p.Factors)-2)]
		for i := range f.Costs {
			f.Costs[i] += rng.Int64N(2) + 1 // so that the cost is another
		}
	},
	"another problem of the same cost": func(rng *rand.Rand, p *wcsp.Problem, s *wcsp.Solution, _ *places) {
		f := &p.Factors[0]
		for i := range f.Costs {
			if i != s.Labels[0] {
				f.Costs[i] += 1 << 20
			}
		}
		f = &p.Factors[len(p.Factors)-1]
		f.Costs[0], s.Cost, s.Bound = f.Costs[0]+1, s.Cost+1, s.Bound+2
	},
	"a factor more": func(_ *rand.Rand, p *wcsp.Problem, _ *wcsp.Solution, _ *places) {
		p.Factors = append(p.Factors, wcsp.Factor{Scope: []int{0}, Costs: []int64{0, 0, 0}})
	},
	"a factor less": func(_ *rand.Rand, p *wcsp.Problem, _ *wcsp.Solution, _ *places) {
		p.Factors = p.Factors[:len(p.Factors)-1]
	},
	"a variable more": func(_ *rand.Rand, p *wcsp.Problem, s *wcsp.Solution, _ *places) {
		p.Variables, s.Labels = append(p.Variables, wcsp.Variable{Labels: []string{""}}), append(s.Labels, 0)
	},
	"a variable without labels": func(_ *rand.Rand, p *wcsp.Problem, _ *wcsp.Solution, _ *places) {
		p.Variables[3].Labels = nil
	},
	"a factor of the wrong size": func(_ *rand.Rand, p *wcsp.Problem, _ *wcsp.Solution, _ *places) {
		p.Factors[0].Costs = p.Factors[0].Costs[1:]
	},
	"a factor on nothing": func(_ *rand.Rand, p *wcsp.Problem, _ *wcsp.Solution, _ *places) {
		p.Factors[0].Scope[0] = len(p.Variables)
	},
	"a factor on one variable twice": func(_ *rand.Rand, p *wcsp.Problem, _ *wcsp.Solution, _ *places) {
		p.Factors[0] = wcsp.Factor{Scope: []int{0, 0}, Costs: make([]int64, 9)}
	},
	"a negative cost": func(_ *rand.Rand, p *wcsp.Problem, _ *wcsp.Solution, _ *places) { p.Factors[0].Costs[0] = -1 },
	"costs past all bounds": func(_ *rand.Rand, p *wcsp.Problem, _ *wcsp.Solution, _ *places) {
		p.Factors[0].Costs[0], p.Factors[1].Costs[0] = wcsp.Forbidden-1, wcsp.Forbidden-1
	},
}

// TestFraud makes true solutions false, in every way and at many places.
func TestFraud(t *testing.T) {
	for name, commit := range frauds {
		said := map[string]bool{}
		for seed := range testsize.Of[uint64](3, 9) {
			p := grid(rand.New(rand.NewPCG(seed%3, 1)))
			s := solve(t, p)
			at := new(places)
			at.add(&s.Proof.Root)
			if len(at.branched) < 2 || len(at.parted) < 1 || len(s.Proof.Prunings) < 1 || len(at.shifted) < 2 ||
				len(at.cut) < 1 {
				t.Fatalf("the proof has %d splits, %d times parts, %d prunings, %d times shifts and %d times cuts",
					len(at.branched), len(at.parted), len(s.Proof.Prunings), len(at.shifted), len(at.cut))
			}
			commit(rand.New(rand.NewPCG(seed, 2)), p, s, at)
			err := verify.Solution(t.Context(), p, s)
			if err == nil {
				t.Errorf("%s: it passes (seed %d)", name, seed)
				break
			}
			said[err.Error()] = true
		}
		for text := range said {
			t.Logf("%s: %s", name, text)
			break
		}
	}
}

// TestNothing hands over nothing at all.
func TestNothing(t *testing.T) {
	p := grid(rand.New(rand.NewPCG(1, 1)))
	if verify.Solution(t.Context(), nil, solve(t, p)) == nil || verify.Solution(t.Context(), p, nil) == nil || verify.Solution(t.Context(), nil, nil) == nil {
		t.Error("nothing passes")
	}
	empty := new(wcsp.Problem)
	if err := verify.Solution(t.Context(), empty, solve(t, empty)); err != nil {
		t.Errorf("a problem without variables: %v", err)
	}
}

// TestFile checks what went through a file.
func TestFile(t *testing.T) {
	p := grid(rand.New(rand.NewPCG(1, 1)))
	var file bytes.Buffer
	if err := solve(t, p).Write(&file); err != nil {
		t.Fatal(err)
	}
	s, err := wcsp.ReadSolution(&file)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify.Solution(t.Context(), p, s); err != nil {
		t.Error(err)
	}
}

// TestOfTheSolverTypesAlone reads the package's own source: of wcsp it may use types and Forbidden, no function and no
// method.
func TestOfTheSolverTypesAlone(t *testing.T) {
	allowed := map[string]bool{"Forbidden": true, "Problem": true, "Solution": true, "Pruning": true, "Node": true,
		"Step": true, "Bucket": true, "Shift": true, "Cut": true}
	methods := map[string]bool{"Validate": true, "Cost": true, "Write": true, "Optimal": true, "Solve": true,
		"MarshalJSON": true, "UnmarshalJSON": true}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			if i.Name != nil || strings.Contains(i.Path.Value, "reflect") {
				t.Errorf("%s imports %s otherwise than by its name", name, i.Path.Value)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "wcsp" {
					used[n.Sel.Name] = true
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && methods[f.Sel.Name] {
					t.Errorf("%s calls a method of the solver's: %s", name, f.Sel.Name)
				}
			}
			return true
		})
	}
	for name := range used {
		if !allowed[name] {
			t.Errorf("wcsp.%s is used", name)
		}
	}
	if len(used) < 4 {
		t.Errorf("only %v were found", used)
	}
}

// FuzzSolution reads any file as a solution: it must be accepted or refused, and the bound of what is accepted holds.
func FuzzSolution(f *testing.F) {
	layouts := []string{"a", "b"}
	p := &wcsp.Problem{Variables: []wcsp.Variable{{Labels: layouts}, {Labels: layouts}, {Labels: layouts}},
		Factors: []wcsp.Factor{{Scope: []int{0, 1}, Costs: []int64{0, 6, 7, 1}},
			{Scope: []int{1, 2}, Costs: []int64{3, 0, 0, 3}},
			{Scope: []int{2, 0}, Costs: []int64{4, wcsp.Forbidden, 2, 9}}, {Scope: []int{0}, Costs: []int64{2, 5}}}}
	best := wcsp.Forbidden
	for i := range 8 {
		c, err := p.Cost([]int{i & 1, i >> 1 & 1, i >> 2})
		if err != nil {
			f.Fatal(err)
		}
		best = min(best, c)
	}
	for _, table := range []int{1, 2, 100} {
		s, err := wcsp.Exact.Solve(p, wcsp.Options{MaxTable: table, Proof: true, TimeLimit: -1})
		if err != nil {
			f.Fatal(err)
		}
		var file bytes.Buffer
		if err := s.Write(&file); err != nil {
			f.Fatal(err)
		}
		f.Add(file.Bytes())
	}
	f.Add([]byte(`{"version":1,"labels":[0,0,0],"cost":9,"bound":0,"proof":{"root":{"variable":0,"branches":[{"label":0,"node":{}},{"label":1,"node":{}}]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := wcsp.ReadSolution(bytes.NewReader(text))
		if err != nil {
			return
		}
		if verify.Solution(t.Context(), p, s) == nil && s.Bound > best {
			t.Errorf("a bound of %d passes; %d is possible", s.Bound, best)
		}
	})
}
