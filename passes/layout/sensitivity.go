package layout

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Sensitivity states how much the price of copies can change before another plan becomes the cheapest.
type Sensitivity struct {
	CopyNS      float64 `json:"copy_ns" doc:"The time of the copies in the cheapest plan, in nanoseconds."`
	CopiedBytes int     `json:"copied_bytes" doc:"The size of these copies, in bytes."`
	// Slower and Faster are the nearest breakpoints; nil if there is none within a factor of 1024.
	Slower *Breakpoint `json:"slower" doc:"The nearest factor above 1 at which another plan becomes the cheapest; null if there is none up to 1024."`
	Faster *Breakpoint `json:"faster" doc:"The nearest factor below 1 at which another plan becomes the cheapest; null if there is none down to 1/1024."`
}

// Breakpoint is a factor on the price of copies at which another plan becomes the cheapest.
type Breakpoint struct {
	Factor float64 `json:"factor" doc:"The factor on the price of all copies."`
	// The bandwidths refer to the copies of the cheapest plan or, if it has none, to the copies added at the breakpoint.
	WasGBps float64 `json:"was_gb_per_s" doc:"The bandwidth of copies as priced, in GB/s: bytes copied per time."`
	GBps    float64 `json:"gb_per_s" doc:"The bandwidth of copies at which the other plan gets cheaper."`
	Change  Change  `json:"change" doc:"The difference between the plans."`
}

// maxFactor is the largest factor on the price of copies that is examined; the smallest is 1/maxFactor.
const maxFactor = 1024

// Sensitive finds the nearest factors on the price of all copies, above and below 1, at which the cheapest plan
// changes. Factors are accurate to a few millionths.
//
// The cost of an assignment of labels is a linear function of the factor: a line. Sensitive first solves the problem
// at the extreme factor. It then repeatedly moves to the factor at which the solution's line crosses the line of the
// cheapest plan (the plan for factor 1), and solves the problem at this factor. It ends when no line is below the
// line of the cheapest plan. For example, of the lines 12+f and 10+4f the first is the cheapest at f=1. They cross at
// f=2/3, which is the breakpoint below 1; there is none above 1.
func (m *Model) Sensitive() (*Sensitivity, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	cheapest, err := m.cheapestAt(1)
	if err != nil {
		return nil, err
	}
	sensitivity := &Sensitivity{CopyNS: float64(cheapest.copyCosts) / machine.PSPerNS}
	for _, c := range cheapest.outcome.Copies {
		sensitivity.CopiedBytes += c.Bytes
	}
	if sensitivity.Slower, err = m.breakpoint(cheapest, maxFactor); err != nil {
		return nil, err
	}
	sensitivity.Faster, err = m.breakpoint(cheapest, 1.0/maxFactor)
	return sensitivity, err
}

// breakpoint finds the factor nearest to 1, between 1 and the given factor, at which another line falls below the line
// of the cheapest plan. It returns nil if there is no such factor.
func (m *Model) breakpoint(cheapest *line, factor float64) (*Breakpoint, error) {
	var other *line // the last line found below the line of the cheapest plan
	for {
		lineAtFactor, err := m.cheapestAt(factor)
		if err != nil {
			return nil, err
		}
		// If no line is below the cheapest plan's line at this factor, this factor is the breakpoint. At the extreme
		// factor, there is then no breakpoint. Lines of equal slope do not cross.
		if lineAtFactor.copyCosts == cheapest.copyCosts || lineAtFactor.cost(factor) >= cheapest.cost(factor) {
			break
		}
		crossing := float64(lineAtFactor.otherCosts-cheapest.otherCosts) / float64(cheapest.copyCosts-lineAtFactor.copyCosts)
		if other != nil && (crossing-1)/(factor-1) >= 1-1e-9 {
			break // the next crossing is at the same factor, except for rounding
		}
		other, factor = lineAtFactor, crossing
		if factor == 1 {
			break // two plans cost the same at factor 1
		}
	}
	if other == nil {
		return nil, nil
	}
	found := &Breakpoint{Factor: factor, Change: other.outcome.ChangesSince(cheapest.outcome)}
	found.setBandwidths(cheapest, other)
	return found, nil
}

// setBandwidths sets WasGBps and GBps. other is the line of the plan that becomes the cheapest at the breakpoint.
func (found *Breakpoint) setBandwidths(cheapest, other *line) {
	bytes, copyPS, copies := 0, cheapest.copyCosts, cheapest.outcome.Copies
	if copyPS == 0 { // the cheapest plan has no copies
		copyPS, copies = other.copyCosts, found.Change.Added
	}
	for _, copied := range copies {
		bytes += copied.Bytes
	}
	if copyPS > 0 && found.Factor > 0 {
		found.WasGBps = float64(bytes) / float64(copyPS) * machine.PSPerNS // bytes per nanosecond, which are GB/s
		found.GBps = found.WasGBps / found.Factor
	}
}

// line is the cost of an assignment as a function of the factor on the price of copies: otherCosts +
// factor * copyCosts.
type line struct {
	otherCosts, copyCosts int64 // in picoseconds
	outcome               *Outcome
}

// cost returns the cost at a factor, in picoseconds.
func (l *line) cost(factor float64) float64 {
	return float64(l.otherCosts) + float64(factor*float64(l.copyCosts))
}

// cheapestAt returns the line of the assignment that is cheapest at a factor.
func (m *Model) cheapestAt(factor float64) (*line, error) {
	scaled, err := m.withScaledCopies(factor)
	if err != nil {
		return nil, err
	}
	solution, err := wcsp.Exact.Solve(scaled, m.Problem.options())
	if err != nil {
		return nil, err
	}
	if !solution.Optimal() {
		return nil, errors.New("the problem is too large to be solved exactly: its sensitivity is unknown")
	}
	return m.lineOf(solution.Labels)
}

// withScaledCopies returns the problem with the cost of copies multiplied by a factor. For factor 1 it returns
// Weighted, the problem that strategy Optimal solves; otherwise it scales the prices of WCSP. To keep costs integers,
// it multiplies costs of copies by copyMultiplier and all other costs by otherMultiplier. The quotient of the
// multipliers approximates the factor as closely as the range of costs permits.
func (m *Model) withScaledCopies(factor float64) (*wcsp.Problem, error) {
	if factor == 1 {
		return m.Weighted, nil
	}
	var sumOfLargest float64
	for _, f := range m.WCSP.Factors {
		sumOfLargest += largest(f.Costs)
	}
	// A quarter of Forbidden leaves room for rounding: sums of multiplied costs stay below Forbidden.
	headroom := float64(wcsp.Forbidden) / 4 / (sumOfLargest + 1) / max(1, factor)
	otherMultiplier := int64(min(headroom, 1<<24)) // with 2^24 the quotient is accurate to a few millionths
	copyMultiplier := int64(float64(float64(otherMultiplier)*factor) + 0.5)
	if copyMultiplier < 1 || otherMultiplier < 1 {
		return nil, fmt.Errorf("the costs are too large to be multiplied by %g", factor)
	}
	out := &wcsp.Problem{Version: wcsp.Version, Variables: m.WCSP.Variables}
	for i, f := range m.WCSP.Factors {
		multiplier := otherMultiplier
		if m.isCopyFactor[i] {
			multiplier = copyMultiplier
		}
		scaled := wcsp.Factor{Scope: f.Scope, Costs: make(wcsp.Costs, len(f.Costs))}
		for k, c := range f.Costs {
			if scaled.Costs[k] = wcsp.Forbidden; c < wcsp.Forbidden {
				scaled.Costs[k] = c * multiplier
			}
		}
		out.Factors = append(out.Factors, scaled)
	}
	return out, nil
}

// lineOf returns the line of an assignment of labels.
func (m *Model) lineOf(labels []int) (_ *line, err error) {
	sums := &line{}
	for i, table := range m.WCSP.Factors { // the cost tables of the problem
		index := 0
		for _, v := range table.Scope {
			index = index*len(m.WCSP.Variables[v].Labels) + labels[v]
		}
		if m.isCopyFactor[i] {
			sums.copyCosts += table.Costs[index]
		} else {
			sums.otherCosts += table.Costs[index]
		}
	}
	sums.outcome, err = m.Outcome(labels)
	return sums, err
}
