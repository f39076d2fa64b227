package wcsp

import "github.com/graphrun/graphrun/internal/ends"

// guess is an assignment of an instance that is made better label by label.
type guess struct {
	in     *instance
	at     [][]*function
	labels []int
}

const (
	sweeps = 8       // over all variables, each time to the label that is best beside the others
	dives  = 1 << 14 // labels tried until one assignment is allowed
)

// cost is what the labels cost.
func (g *guess) cost() int64 {
	sum := g.in.constant
	for _, f := range g.in.functions {
		sum = add(sum, f.cost(g.in.sizes, g.labels))
	}
	return sum
}

// near is what the functions of a variable cost with label l.
func (g *guess) near(v, l int) int64 {
	before := g.labels[v]
	g.labels[v] = l
	var sum int64
	for _, f := range g.at[v] {
		sum = add(sum, f.cost(g.in.sizes, g.labels))
	}
	g.labels[v] = before
	return sum
}

// improve gives variables better labels until there is none for any.
func (g *guess) improve() {
	for range sweeps {
		better := false
		for v, gone := range g.in.gone {
			if gone {
				continue
			}
			ends.Look(g.in.ctx)
			best := g.near(v, g.labels[v])
			for l := range g.in.sizes[v] {
				if c := g.near(v, l); c < best {
					best, g.labels[v], better = c, l, true
				}
			}
		}
		if !better {
			return
		}
	}
}

// dive looks for any assignment that is allowed: variables in the reverse of the order of steps, labels that cost the
// least with those before first, back where none is left. It reports whether there was one.
func (g *guess) dive(steps []step) bool {
	tried := 0
	var from func(i int) bool
	from = func(i int) bool {
		if i < 0 {
			return g.cost() < Forbidden
		}
		s := &steps[i]
		last, lastCost := -1, int64(-1)
		for {
			ends.Look(g.in.ctx)
			// The next label by cost and number.
			best, bestCost := -1, Forbidden
			for l := range g.in.sizes[s.variable] {
				c := s.cost(g.in.sizes, g.labels, l)
				after := c > lastCost || c == lastCost && l > last
				if after && c < bestCost {
					best, bestCost = l, c
				}
			}
			if tried++; best < 0 || tried > dives {
				return false
			}
			g.labels[s.variable], last, lastCost = best, best, bestCost
			if from(i - 1) {
				return true
			}
		}
	}
	return from(len(steps) - 1)
}
