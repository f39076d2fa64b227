package layout

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/internal/words"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
)

// Given is a strategy that applies what somebody else's solver has found: labels of the variables of [Model.WCSP], by
// their numbers. Its cost is checked unless it is 0. A bound counts if its proof holds; one without a proof is left out.
func Given(s *wcsp.Solution) Strategy { return &solving{name: "given", solver: givenLabels{s}} }

// GivenNames is [Given] for labels by the names of variables and labels.
func GivenNames(labels map[string]string) Strategy {
	return &solving{name: "given", solver: givenNames(maps.Clone(labels))}
}

// givenLabels solves a problem by what it holds.
type givenLabels struct{ solution *wcsp.Solution }

// Solve checks that the labels are those of a solution of p.
func (g givenLabels) Solve(p *wcsp.Problem, _ wcsp.Options) (*wcsp.Solution, error) {
	if g.solution == nil {
		return nil, errors.New("there is no solution: it is nil")
	}
	s := &wcsp.Solution{Version: wcsp.Version, Labels: slices.Clone(g.solution.Labels)}
	var err error
	if s.Cost, err = p.Cost(s.Labels); err != nil {
		return nil, fmt.Errorf("the solution is not one of this problem: %w", err)
	}
	if s.Cost >= wcsp.Forbidden {
		return nil, fmt.Errorf("the solution is infeasible: %s", blame(p, s.Labels))
	}
	if c := g.solution.Cost; c != 0 && c != s.Cost {
		return nil, fmt.Errorf("the solution is said to cost %d picoseconds; its labels cost %d", c, s.Cost)
	}
	if g.solution.Proof != nil {
		s.Bound, s.Proof = g.solution.Bound, g.solution.Proof
		if err := verify.Solution(p, s); err != nil {
			return nil, fmt.Errorf("the proof of the solution does not hold: %w", err)
		}
	}
	return s, nil
}

// blame names the variables of the first factor that forbids labels.
func blame(p *wcsp.Problem, labels []int) string {
	for _, f := range p.Factors {
		at, text := 0, ""
		for i, v := range f.Scope {
			x := &p.Variables[v]
			at = at*len(x.Labels) + labels[v]
			if i > 0 {
				text += " together with "
			}
			text += fmt.Sprintf("variable %d (%q) as %q", v, x.Name, x.Labels[labels[v]])
		}
		if f.Costs[at] >= wcsp.Forbidden {
			return text + " is forbidden"
		}
	}
	return "the sum of its costs is beyond all bounds"
}

type givenNames map[string]string

// Solve finds the numbers of the labels. Each variable must have one.
func (g givenNames) Solve(p *wcsp.Problem, o wcsp.Options) (*wcsp.Solution, error) {
	s, known := &wcsp.Solution{Labels: make([]int, len(p.Variables))}, make(map[string]bool, len(p.Variables))
	for i, v := range p.Variables {
		known[v.Name] = true
		label, told := g[v.Name]
		if !told {
			return nil, fmt.Errorf("the solution has no label for variable %d (%q)", i, v.Name)
		}
		if s.Labels[i] = slices.Index(v.Labels, label); s.Labels[i] < 0 {
			return nil, fmt.Errorf("variable %d (%q) has no label %q%s", i, v.Name, label,
				words.DidYouMean(words.Nearest(label, slices.Values(v.Labels))))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g)) {
		if !known[name] {
			return nil, fmt.Errorf("there is no variable %q%s", name, words.DidYouMean(words.Nearest(name, maps.Keys(known))))
		}
	}
	return givenLabels{s}.Solve(p, o)
}
