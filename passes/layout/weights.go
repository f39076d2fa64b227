package layout

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Weights turn the three objectives of a plan into one number, the weighted cost: Time for each picosecond, Copy for
// each copy, and 1 for each unit of UnitBytes bytes of copies, where the bytes of each copy are rounded up to units.
// [Model.Weighted] has these costs.
//
// The weights of a new model are lexicographic: a picosecond weighs more than all copies and units that a plan can
// have, and a copy more than all units. The plan of least weighted cost then has the least cost, of these plans the
// fewest copies, and of these the fewest units. The unit is as small as 61-bit sums permit; for large graphs UnitBytes
// is 0, and memory does not count.
//
// A copy is an inserted step that moves elements into another layout. Copies that nodes of the graph make, such as a
// reshape where no view is possible, are not counted, but their bytes are.
type Weights struct {
	Time      int64 `json:"picosecond" doc:"The weight of a picosecond."`
	Copy      int64 `json:"copy" doc:"The weight of a copy; 0: copies do not count."`
	UnitBytes int64 `json:"unit_bytes" doc:"The bytes of copies whose weight is 1, rounded up for each copy; 0: bytes do not count."`
}

// copyOf returns the weight of a copy of some bytes, beside the weight of its time.
func (w Weights) copyOf(bytes int) int64 {
	return w.Copy + w.UnitsOf(bytes)
}

// UnitsOf returns the units of a copy of some bytes.
func (w Weights) UnitsOf(bytes int) int64 {
	if w.UnitBytes < 1 {
		return 0
	}
	return (int64(bytes) + w.UnitBytes - 1) / w.UnitBytes
}

// CopiesWithin returns a lower bound on the number of copies of a plan that costs at most budget picoseconds, if bound
// is a lower bound on the weighted cost of every plan, and no plan has more than the given number of units.
func (w Weights) CopiesWithin(bound, budget, units int64) int {
	if w.Copy < 1 || w.Time < 1 || budget < 0 || budget > bound/w.Time {
		return 0
	}
	rest := bound - w.Time*budget - units
	return int(max(0, (rest+w.Copy-1)/w.Copy))
}

// UnitsWithin returns a lower bound on the units of a plan that costs at most budget picoseconds and has at most the
// given number of copies, if bound is a lower bound on the weighted cost of every plan.
func (w Weights) UnitsWithin(bound, budget int64, copies int) int64 {
	if w.UnitBytes == 0 || w.Time < 1 || budget < 0 || budget > bound/w.Time {
		return 0
	}
	rest := bound - w.Time*budget
	if w.Copy > 0 && int64(copies) > rest/w.Copy {
		return 0
	}
	return rest - w.Copy*int64(copies)
}

// most has upper bounds for every plan of a model.
type most struct {
	ps     float64
	copies int64
	bytes  float64
}

// units returns an upper bound on the units of a plan.
func (m *most) units(unitBytes int64) int64 {
	if unitBytes == 0 {
		return 0
	}
	return int64(m.bytes/float64(unitBytes)) + m.copies
}

// Units returns an upper bound on the units of any plan, for the weights of the model.
func (m *Model) Units() int64 {
	if m == nil {
		return 0
	}
	return m.most.units(m.Weights.UnitBytes)
}

// findMost sets the bounds that limit weights.
func (m *Model) findMost() {
	m.most = most{}
	for i, t := range m.tasks {
		if t == nil {
			continue
		}
		work, reads := 0.0, make([]float64, len(m.Problem.Graph.Nodes[i].In))
		for k := range t.labels {
			work = max(work, float64(t.labels[k].cost))
			for q, costs := range t.labels[k].read {
				reads[q] = max(reads[q], largest(costs))
			}
		}
		for _, read := range reads {
			work += read
		}
		m.most.ps += work
	}
	m.mostCopied()
}

// mostCopied adds the bounds on copies.
func (m *Model) mostCopied() {
	views := graph.NewByValue[*viewed](m.Problem.Graph)
	for _, v := range m.views {
		if v == nil {
			continue
		}
		for _, out := range v.node.Out {
			views.Set(out, v)
		}
	}
	for _, x := range m.values {
		v := views.At(x.value)
		if x.need == 0 || constant(x.value) || v == nil && len(x.forms) == 1 {
			continue
		}
		steps, each := int64(len(x.forms)), 0.0
		if x.pin >= 0 {
			steps *= 2
		}
		if len(x.forms) > 1 {
			each = largest(m.copies(x))
		}
		if v != nil && v.copies != nil {
			for _, costs := range v.copies[x.value.Index] {
				each = max(each, largest(costs))
			}
			for _, costs := range v.plain {
				each = max(each, largest(costs))
			}
		}
		m.most.ps += float64(steps) * each
		m.most.copies += steps
		m.most.bytes += float64(steps) * float64(x.value.Meta.Bytes())
	}
}

// largest returns the largest possible cost of a list.
func largest(costs []int64) float64 {
	var most int64
	for _, c := range costs {
		if c < wcsp.Forbidden {
			most = max(most, c)
		}
	}
	return float64(most)
}

// maxUnitBytes limits the search for a unit.
const maxUnitBytes = 1 << 40

// weigh returns weights with the given ratio of time to copies, in which units decide only between plans that are equal
// otherwise. It returns false if sums of weighted costs could exceed the range.
func (m *Model) weigh(time, copies int64) (Weights, bool) {
	for unit := int64(1); unit <= maxUnitBytes; unit *= 2 {
		scale := m.most.units(unit) + 1
		if m.fits(float64(time)*float64(scale), float64(copies)*float64(scale), unit) {
			return Weights{Time: time * scale, Copy: copies * scale, UnitBytes: unit}, true
		}
	}
	return Weights{Time: time, Copy: copies}, m.fits(float64(time), float64(copies), 0)
}

// fits reports whether sums of weighted costs are in range.
func (m *Model) fits(time, copies float64, unitBytes int64) bool {
	sum := time*(m.most.ps+1) + copies*float64(m.most.copies+1) + float64(m.most.units(unitBytes))
	return sum < float64(wcsp.Forbidden)/2
}

// lexicographic returns the weights of a new model; those of time alone if the costs are too large for others.
func (m *Model) lexicographic() Weights {
	if w, ok := m.weigh(m.most.copies+1, 1); ok {
		return w
	}
	return Weights{Time: 1}
}

// WithWeights returns the model with other weights. Labels mean the same in both, but copies are made in the way of
// least weighted cost. It fails if sums of weighted costs exceed the range.
func (m *Model) WithWeights(w Weights) (_ *Model, err error) {
	defer interrupt.Catch(&err)
	if err := m.check(); err != nil {
		return nil, err
	}
	if w.Time < 1 || w.Copy < 0 || w.UnitBytes < 0 || !m.fits(float64(w.Time), float64(w.Copy), w.UnitBytes) {
		return nil, fmt.Errorf("weights %d for a picosecond, %d for a copy and units of %d bytes are out of range", w.Time,
			w.Copy, w.UnitBytes)
	}
	other := *m
	other.Weights = w
	if err := other.build(); err != nil {
		return nil, err
	}
	return &other, other.Weighted.Validate()
}
