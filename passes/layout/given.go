package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/words"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
)

// Given is a strategy that applies what somebody else's solver has found: labels of the variables of Model.WCSP,
// by their numbers. Its cost is checked unless it is 0. A bound counts if its proof holds; one without a proof is
// left out.
func Given(s *wcsp.Solution) Strategy {
	return &solving{name: "given", solver: givenLabels{solution: s}}
}

// ReadGiven reads what [Given] applies. It is JSON as [wcsp.Solution.Write] writes it, of which "labels" is enough:
// the numbers of labels by the order of the variables, or their names, or an object of these by names of variables.
func ReadGiven(r io.Reader) (Strategy, error) {
	if r == nil {
		return nil, errors.New("there is no reader")
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var file struct {
		Version int             `json:"version"`
		Labels  json.RawMessage `json:"labels"`
		Cost    int64           `json:"cost"`
		Bound   int64           `json:"bound"`
		Proof   *wcsp.Proof     `json:"proof"`
	}
	if err := files.JSON(text, &file); err != nil {
		return nil, fmt.Errorf("this is no solution: %w", err)
	}
	if file.Version > wcsp.Version || file.Version < 0 {
		return nil, fmt.Errorf("this is no solution of version %d", wcsp.Version)
	}
	g := givenLabels{solution: &wcsp.Solution{Cost: file.Cost, Bound: file.Bound, Proof: file.Proof}}
	for _, labels := range []any{&g.solution.Labels, &g.names, &g.byName} {
		if err = json.Unmarshal(file.Labels, labels); err == nil && string(bytes.TrimSpace(file.Labels)) != "null" {
			return &solving{name: "given", solver: g}, nil
		}
		g.solution.Labels, g.names, g.byName = nil, nil, nil
	}
	return nil, errors.New("this is no solution: labels: want a list of numbers, a list of names, or names by variable")
}

// GivenError says that somebody's solution is not one of the problem at hand.
type GivenError struct{ Err error }

// Error tells which variable is in the way.
func (e *GivenError) Error() string { return fmt.Sprintf("the given solution: %v", e.Err) }

// Unwrap returns what is wrong.
func (e *GivenError) Unwrap() error { return e.Err }

// givenLabels solves a problem by what it holds. Names of labels, by place or by variable, stand for numbers.
type givenLabels struct {
	solution *wcsp.Solution
	names    []string
	byName   map[string]string
}

// Solve checks that the labels are those of a solution of p.
func (g givenLabels) Solve(p *wcsp.Problem, _ wcsp.Options) (*wcsp.Solution, error) {
	s, err := g.solve(p)
	if err != nil {
		return nil, &GivenError{err}
	}
	return s, nil
}

func (g givenLabels) solve(p *wcsp.Problem) (*wcsp.Solution, error) {
	if g.solution == nil {
		return nil, errors.New("there is none: it is nil")
	}
	labels, err := g.solution.Labels, error(nil)
	switch {
	case g.byName != nil:
		labels, err = g.byNames(p)
	case g.names != nil:
		labels, err = numbers(p, g.names)
	}
	if err != nil {
		return nil, err
	}
	s := &wcsp.Solution{Version: wcsp.Version, Labels: slices.Clone(labels)}
	if s.Cost, err = p.Cost(s.Labels); err != nil {
		return nil, fmt.Errorf("it is not one of this problem: %w", err)
	}
	if s.Cost >= wcsp.Forbidden {
		return nil, fmt.Errorf("it is infeasible: %s", blame(p, s.Labels))
	}
	if c := g.solution.Cost; c != 0 && c != s.Cost {
		return nil, fmt.Errorf("it is said to cost %d picoseconds; its labels cost %d", c, s.Cost)
	}
	if g.solution.Proof != nil {
		s.Bound, s.Proof = g.solution.Bound, g.solution.Proof
		if err := verify.Solution(p, s); err != nil {
			return nil, fmt.Errorf("its proof does not hold: %w", err)
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

// byNames puts the names of labels in the order of the variables. Each must have one.
func (g givenLabels) byNames(p *wcsp.Problem) ([]int, error) {
	names, known := make([]string, len(p.Variables)), make(map[string]bool, len(p.Variables))
	for i, v := range p.Variables {
		known[v.Name] = true
		label, told := g.byName[v.Name]
		if !told {
			return nil, fmt.Errorf("there is no label for variable %d (%q)", i, v.Name)
		}
		names[i] = label
	}
	for _, name := range slices.Sorted(maps.Keys(g.byName)) {
		if !known[name] {
			return nil, fmt.Errorf("there is no variable %q%s", name, words.DidYouMean(words.Nearest(name, maps.Keys(known))))
		}
	}
	return numbers(p, names)
}

// numbers finds the numbers of labels.
func numbers(p *wcsp.Problem, names []string) ([]int, error) {
	if len(names) != len(p.Variables) {
		return nil, fmt.Errorf("%d labels for %d variables", len(names), len(p.Variables))
	}
	list := make([]int, len(names))
	for i, v := range p.Variables {
		if list[i] = slices.Index(v.Labels, names[i]); list[i] < 0 {
			return nil, fmt.Errorf("variable %d (%q) has no label %q%s", i, v.Name, names[i],
				words.DidYouMean(words.Nearest(names[i], slices.Values(v.Labels))))
		}
	}
	return list, nil
}
