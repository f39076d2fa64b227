// Package wcsp solves weighted constraint problems: variables with labels, costs on one or two of them; exact
// minimisation with a proof.
//
// Such a problem is also called a cost function network, or a partitioned Boolean quadratic problem (PBQP). [Exact]
// removes labels that another makes superfluous, and eliminates variables one by one. Where the tables of that would
// get too large it moves costs between functions until a bound comes near the least cost, cuts the labels that are too
// dear, and splits what is left. A [Solution] has its cost and a bound below which no assignment can be; where the two
// are equal it is [Solution.Optimal]. Its [Proof] holds what is needed to be certain of the bound without trust in the
// solver: package verify checks it.
package wcsp

import (
	"fmt"
	"math"
)

// Forbidden is the cost of what may not be. Sums of costs saturate at it; four of it are still a number.
const Forbidden = int64(math.MaxInt64 / 4)

// Version is the version of the files of problems and solutions.
const Version = 1

// Problem asks for a label for each variable such that the factors cost least in sum.
type Problem struct {
	Version   int        `json:"version" doc:"The version of the file: 1."`
	Variables []Variable `json:"variables" doc:"What labels are chosen for."`
	Factors   []Factor   `json:"factors" doc:"What the labels cost."`
}

// Variable is what one label is chosen for.
type Variable struct {
	Name   string   `json:"name" doc:"What messages call the variable."`
	Labels []string `json:"labels" doc:"What may be chosen, one of them."`
}

// Factor is what the labels of its scope cost.
type Factor struct {
	// Scope holds the numbers of no variable, of one, or of two that differ.
	Scope []int `json:"scope" doc:"The numbers of the variables that the costs depend on: none, one or two."`
	// Costs are picoseconds, 0 or more, by the labels of the scope: row-major, the last variable's labels fastest.
	Costs Costs `json:"costs" doc:"Picoseconds by the labels of the scope, the last variable's fastest; null: forbidden."`
}

// Costs are costs by labels; a [Forbidden] one is null in JSON.
type Costs []int64

// add returns a sum of two costs.
func add(a, b int64) int64 { return min(a+b, Forbidden) }

// Validate returns an error that names the first thing that is wrong with the problem. The largest costs of all
// factors, those that are Forbidden aside, must add up to less than Forbidden, so that sums of allowed costs are
// exact.
func (p *Problem) Validate() error {
	if p.Version != 0 && p.Version != Version {
		return fmt.Errorf("wcsp: the version is %d; this is version %d", p.Version, Version)
	}
	for i, v := range p.Variables {
		if len(v.Labels) == 0 {
			return fmt.Errorf("wcsp: variable %d (%q) has no labels", i, v.Name)
		}
	}
	var all int64
	for i := range p.Factors {
		most, err := p.checkFactor(&p.Factors[i])
		if err != nil {
			return fmt.Errorf("wcsp: factor %d: %w", i, err)
		}
		if all = add(all, most); all == Forbidden {
			return fmt.Errorf("wcsp: factor %d: the costs add up to more than %d", i, Forbidden-1)
		}
	}
	return nil
}

// checkFactor returns the largest cost that is allowed.
func (p *Problem) checkFactor(f *Factor) (most int64, err error) {
	if len(f.Scope) > 2 {
		return 0, fmt.Errorf("costs depend on %d variables; at most 2 can be", len(f.Scope))
	}
	size := 1
	for _, v := range f.Scope {
		if v < 0 || v >= len(p.Variables) {
			return 0, fmt.Errorf("there is no variable %d: there are %d", v, len(p.Variables))
		}
		if size > len(f.Costs) {
			break
		}
		size *= len(p.Variables[v].Labels)
	}
	if len(f.Scope) == 2 && f.Scope[0] == f.Scope[1] {
		return 0, fmt.Errorf("variable %d is there twice", f.Scope[0])
	}
	if size != len(f.Costs) {
		return 0, fmt.Errorf("%d costs do not fit the labels of variables %v", len(f.Costs), f.Scope)
	}
	for i, c := range f.Costs {
		if c < 0 || c > Forbidden {
			return 0, fmt.Errorf("cost %d is %d; it must be from 0 to %d", i, c, Forbidden)
		}
		if c < Forbidden {
			most = max(most, c)
		}
	}
	return most, nil
}

// Cost returns what an assignment costs, a label for each variable; Forbidden if any of its factors is.
func (p *Problem) Cost(labels []int) (int64, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	if len(labels) != len(p.Variables) {
		return 0, fmt.Errorf("wcsp: %d labels for %d variables", len(labels), len(p.Variables))
	}
	for v, l := range labels {
		if n := len(p.Variables[v].Labels); l < 0 || l >= n {
			return 0, fmt.Errorf("wcsp: variable %d (%q) has no label %d: it has %d", v, p.Variables[v].Name, l, n)
		}
	}
	return p.cost(labels), nil
}

// cost is Cost of what is known to fit.
func (p *Problem) cost(labels []int) int64 {
	var sum int64
	for _, f := range p.Factors {
		at := 0
		for _, v := range f.Scope {
			at = at*len(p.Variables[v].Labels) + labels[v]
		}
		sum = add(sum, f.Costs[at])
	}
	return sum
}
