package layout

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Sensitivity tells how far the prices of copies may be off before another plan is the cheapest.
type Sensitivity struct {
	CopyNS      float64 `json:"copy_ns" doc:"What the copies of the cheapest plan take, in nanoseconds."`
	CopiedBytes int     `json:"copied_bytes" doc:"The bytes that they copy."`
	// Slower and Faster are where another plan gets cheaper; nil where none does within a factor of 1024.
	Slower *Breakpoint `json:"slower" doc:"Where another plan wins as copies get slower; null for nowhere."`
	Faster *Breakpoint `json:"faster" doc:"Where another plan wins as copies get faster; null for nowhere."`
}

// Breakpoint is where the cheapest plan is another.
type Breakpoint struct {
	Factor float64 `json:"factor" doc:"By what all copies cost more (or less, below 1) there."`
	// GBps are those of the copies of the cheapest plan, or, where it has none, of those that come.
	WasGBps float64 `json:"was_gb_per_s" doc:"The bandwidth of copies as priced, in GB/s: bytes copied by the time."`
	GBps    float64 `json:"gb_per_s" doc:"The bandwidth of copies at which the other plan gets cheaper."`
	Change  Change  `json:"change" doc:"What the other plan does otherwise."`
}

// farthest is the greatest factor that is asked about.
const farthest = 1024

// Sensitive finds the nearest factors of the prices of all copies at which other labels cost less than those of the
// cheapest plan. The least cost is a concave, piecewise linear function of the factor. A breakpoint is where the line
// of the cheapest plan meets that of another: it is found by solving at a factor, and where that gives another line, at
// the factor at which the two meet, until no line is below; factors are resolved to a few millionths.
func (m *Model) Sensitive() (*Sensitivity, error) {
	if err := m.stated(); err != nil {
		return nil, err
	}
	first, err := m.at(1)
	if err != nil {
		return nil, err
	}
	s := &Sensitivity{CopyNS: float64(first.copies) / 1000}
	for _, c := range first.means.Copies {
		s.CopiedBytes += c.Bytes
	}
	if s.Slower, err = m.breakpoint(first, farthest); err != nil {
		return nil, err
	}
	s.Faster, err = m.breakpoint(first, 1.0/farthest)
	return s, err
}

// line is what an assignment costs as the price of copies changes.
type line struct {
	rest, copies int64
	means        *Outcome
}

func (l *line) cost(factor float64) float64 { return float64(l.rest) + factor*float64(l.copies) }

// at returns the line of the assignment that is cheapest at a factor.
func (m *Model) at(factor float64) (*line, error) {
	p, err := m.scaled(factor)
	if err != nil {
		return nil, err
	}
	s, err := wcsp.Exact.Solve(p, m.Problem.options())
	if err != nil {
		return nil, err
	}
	if !s.Optimal() {
		return nil, errors.New("the problem is too large to be solved exactly: its sensitivity is not known")
	}
	l := &line{}
	for i, f := range m.WCSP.Factors {
		at := 0
		for _, v := range f.Scope {
			at = at*len(m.WCSP.Variables[v].Labels) + s.Labels[v]
		}
		if m.copying[i] {
			l.copies += f.Costs[at]
		} else {
			l.rest += f.Costs[at]
		}
	}
	l.means, err = m.Outcome(s.Labels)
	return l, err
}

// scaled is the problem where copies cost a factor more. Costs stay integers: those of copies are multiplied by p, all
// others by q, and p / q is the factor, as nearly as there is room for.
func (m *Model) scaled(factor float64) (*wcsp.Problem, error) {
	if factor == 1 {
		return m.WCSP, nil
	}
	var most float64
	for _, f := range m.WCSP.Factors {
		var large int64
		for _, c := range f.Costs {
			if c < wcsp.Forbidden {
				large = max(large, c)
			}
		}
		most += float64(large)
	}
	room := float64(wcsp.Forbidden) / 4 / (most + 1) / max(1, factor)
	q := int64(min(room, 1<<24))
	p := int64(float64(q)*factor + 0.5)
	if p < 1 || q < 1 {
		return nil, fmt.Errorf("the costs are too large to be multiplied by %g", factor)
	}
	out := &wcsp.Problem{Version: wcsp.Version, Variables: m.WCSP.Variables}
	for i, f := range m.WCSP.Factors {
		by := q
		if m.copying[i] {
			by = p
		}
		g := wcsp.Factor{Scope: f.Scope, Costs: make(wcsp.Costs, len(f.Costs))}
		for k, c := range f.Costs {
			if g.Costs[k] = wcsp.Forbidden; c < wcsp.Forbidden {
				g.Costs[k] = c * by
			}
		}
		out.Factors = append(out.Factors, g)
	}
	return out, nil
}

// breakpoint finds the nearest factor between 1 and another at which the line is no longer the lowest.
func (m *Model) breakpoint(first *line, factor float64) (*Breakpoint, error) {
	var other *line
	for {
		l, err := m.at(factor)
		if err != nil {
			return nil, err
		}
		// Where no line is below the first, that of the step before crosses it here.
		if l.copies == first.copies || l.cost(factor) >= first.cost(factor) {
			break
		}
		next := float64(l.rest-first.rest) / float64(first.copies-l.copies)
		if other != nil && (next-1)/(factor-1) >= 1-1e-9 {
			break // no nearer than what is resolved
		}
		other, factor = l, next
		if factor == 1 {
			break // two plans cost the same as it is
		}
	}
	if other == nil {
		return nil, nil
	}
	b := &Breakpoint{Factor: factor, Change: other.means.Since(first.means)}
	bytes, ps := 0, first.copies
	list := first.means.Copies
	if ps == 0 {
		list = b.Change.Added
	}
	for _, c := range list {
		bytes += c.Bytes
	}
	if ps == 0 {
		ps = other.copies
	}
	if ps > 0 && factor > 0 {
		b.WasGBps = float64(bytes) / float64(ps) * 1000
		b.GBps = b.WasGBps / factor
	}
	return b, nil
}
