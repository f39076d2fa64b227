package layout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
)

// Given returns a strategy that applies a solution found by another solver. The solution has a label for each variable
// of Model.WCSP. The strategy checks the cost of the solution if this cost is not 0, and the proof if there is one.
// Without a proof, the lower bound is ignored.
func Given(s *wcsp.Solution) Strategy {
	return &modelStrategy{name: "given", solver: givenLabels{solution: s}}
}

// GivenNames is [Given] for the names of the labels, by name of the variable. Each variable must have a label.
func GivenNames(labels map[string]string) Strategy {
	return &modelStrategy{name: "given", solver: givenLabels{solution: &wcsp.Solution{}, nameByVariable: labels}}
}

// ReadGiven reads a solution for [Given] as JSON in the format of [wcsp.Solution.Write]. Only "labels" is required: a
// list of label numbers or names in the order of the variables, or an object that maps variable names to label names.
// It also reads the files that toulbar2 writes with -w: a line of label numbers for each solution, the best one last.
// With two variables, for example, all of these are solutions:
//
//	{"labels": [0, 2]}
//	{"labels": ["row-major", "channels-last"]}
//	{"labels": {"conv": "row-major", "relu": "channels-last"}}
//	0 2
func ReadGiven(r io.Reader) (Strategy, error) {
	if r == nil {
		return nil, errors.New("the reader is nil")
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if labels := numbersInLastLine(text); labels != nil {
		return &modelStrategy{name: "given", solver: givenLabels{solution: &wcsp.Solution{Labels: labels}}}, nil
	}
	var file struct {
		Version int             `json:"version"`
		Labels  json.RawMessage `json:"labels"`
		Cost    int64           `json:"cost"`
		Bound   int64           `json:"bound"`
		Proof   *wcsp.Proof     `json:"proof"`
	}
	if err := files.DecodeJSON(text, &file); err != nil {
		return nil, fmt.Errorf("the file is not a solution: %w", err)
	}
	if file.Version > wcsp.Version || file.Version < 0 {
		return nil, fmt.Errorf("the file is not a solution of version %d: its version is %d", wcsp.Version, file.Version)
	}
	given := givenLabels{solution: &wcsp.Solution{Cost: file.Cost, Bound: file.Bound, Proof: file.Proof}}
	isNull := string(bytes.TrimSpace(file.Labels)) == "null"
	// The permitted types of "labels".
	for _, labels := range []any{&given.solution.Labels, &given.names, &given.nameByVariable} {
		if err = json.Unmarshal(file.Labels, labels); err == nil && !isNull {
			return &modelStrategy{name: "given", solver: given}, nil
		}
		given.solution.Labels, given.names, given.nameByVariable = nil, nil, nil
	}
	return nil, errors.New("the file is not a solution: labels must be a list of numbers, a list of names, or names by " +
		"variable")
}

// numbersInLastLine returns the numbers in the last nonblank line of a text. It returns nil if this line has other
// words.
func numbersInLastLine(text []byte) []int {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var list []int
	for _, word := range strings.Fields(lines[len(lines)-1]) {
		number, err := strconv.Atoi(word)
		if err != nil {
			return nil
		}
		list = append(list, number)
	}
	return list
}

// GivenError is the error for a solution that does not fit the problem.
type GivenError struct{ Err error }

// Error describes the mismatch.
func (e *GivenError) Error() string {
	return fmt.Sprintf("the given solution cannot be applied: %v", e.Err)
}

// Unwrap returns the cause.
func (e *GivenError) Unwrap() error { return e.Err }

// givenLabels is a solver that returns given labels. Labels are given in one of three ways.
type givenLabels struct {
	solution       *wcsp.Solution    // Labels has label numbers, unless names or nameByVariable is set
	names          []string          // label names in the order of the variables
	nameByVariable map[string]string // label names by name of the variable
}

// Solve checks that the labels are a feasible assignment of p.
func (g givenLabels) Solve(p *wcsp.Problem, _ wcsp.Options) (*wcsp.Solution, error) {
	s, err := g.solve(p)
	if err != nil {
		return nil, &GivenError{err}
	}
	return s, nil
}

// solve is [givenLabels.Solve] without the wrapping of errors.
func (g givenLabels) solve(p *wcsp.Problem) (*wcsp.Solution, error) {
	if g.solution == nil {
		return nil, errors.New("the solution is nil")
	}
	labels, err := g.labelNumbers(p)
	if err != nil {
		return nil, err
	}
	solution := &wcsp.Solution{Version: wcsp.Version, Labels: slices.Clone(labels)}
	if solution.Cost, err = p.Cost(solution.Labels); err != nil {
		return nil, fmt.Errorf("the solution does not fit this problem: %w", err)
	}
	if solution.Cost >= wcsp.Forbidden {
		return nil, fmt.Errorf("the solution is infeasible: %s", firstForbidden(p, solution.Labels))
	}
	if statedCost := g.solution.Cost; statedCost != 0 && statedCost != solution.Cost {
		return nil, fmt.Errorf("the cost of the solution is %d picoseconds, but its labels cost %d", statedCost,
			solution.Cost)
	}
	if g.solution.Proof != nil {
		solution.Bound, solution.Proof = g.solution.Bound, g.solution.Proof
		if err := verify.Solution(context.Background(), p, solution); err != nil {
			return nil, fmt.Errorf("the proof of the solution is invalid: %w", err)
		}
	}
	return solution, nil
}

// labelNumbers returns the label numbers, in the order of the variables.
func (g givenLabels) labelNumbers(p *wcsp.Problem) ([]int, error) {
	switch {
	case g.nameByVariable != nil:
		return numbersByVariable(p, g.nameByVariable)
	case g.names != nil:
		return numbersOfNames(p, g.names)
	}
	return g.solution.Labels, nil
}

// numbersByVariable returns the label number of each variable. nameByVariable has the label names by the names of
// variables. Every variable must have a label.
func numbersByVariable(p *wcsp.Problem, nameByVariable map[string]string) ([]int, error) {
	names, known := make([]string, len(p.Variables)), make(map[string]bool, len(p.Variables))
	for i, v := range p.Variables {
		known[v.Name] = true
		label, given := nameByVariable[v.Name]
		if !given {
			return nil, fmt.Errorf("variable %d (%q) has no label", i, v.Name)
		}
		names[i] = label
	}
	for _, name := range sorted.Keys(nameByVariable) {
		if !known[name] {
			return nil, fmt.Errorf("the problem has no variable %q%s", name, suggest.DidYouMean(suggest.Nearest(name,
				maps.Keys(known))))
		}
	}
	return numbersOfNames(p, names)
}

// numbersOfNames returns label numbers for label names in the order of the variables.
func numbersOfNames(problem *wcsp.Problem, names []string) ([]int, error) {
	if len(names) != len(problem.Variables) {
		return nil, fmt.Errorf("the solution has %d labels, but the problem has %d variables", len(names),
			len(problem.Variables))
	}
	list := make([]int, len(names))
	for i, variable := range problem.Variables {
		if list[i] = slices.Index(variable.Labels, names[i]); list[i] < 0 {
			return nil, fmt.Errorf("variable %d (%q) has no label %q%s", i, variable.Name, names[i],
				suggest.DidYouMean(suggest.Nearest(names[i], slices.Values(variable.Labels))))
		}
	}
	return list, nil
}

// firstForbidden describes the first factor that forbids the labels.
func firstForbidden(p *wcsp.Problem, labels []int) string {
	for _, factor := range p.Factors {
		index, text := 0, ""
		for i, v := range factor.Scope {
			variable := &p.Variables[v]
			index = index*len(variable.Labels) + labels[v]
			if i > 0 {
				text += " together with "
			}
			text += fmt.Sprintf("variable %d (%q) as %q", v, variable.Name, variable.Labels[labels[v]])
		}
		if factor.Costs[index] >= wcsp.Forbidden {
			return text + " is forbidden"
		}
	}
	return "the sum of the costs overflows"
}
