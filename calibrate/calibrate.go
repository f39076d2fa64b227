package calibrate

import (
	"context"
	"fmt"
	"time"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels"
)

// Options choose how long is measured, and who hears of it.
type Options struct {
	// Rounds is how often everything is measured; medians of all times count. 0 is 3.
	Rounds int
	// Each is how long a call is measured in a round; 0 is 12 ms.
	Each time.Duration
	// MostBytes bounds the memory that a call goes over; 0 is 128 MiB.
	MostBytes int
	// Progress, if set, is told what is measured next.
	Progress func(done, total int, what string)
}

// Result is a profile, and how it was found.
type Result struct {
	Profile *machine.Profile
	Points  []Point
}

// Point is a call that was measured, and what the profile predicts for it.
type Point struct {
	// Of is the inner kernel, or the kind of access, that the call is for; Unit what that is the price of.
	Of, Unit string
	// Bytes is what the call goes over.
	Bytes float64
	// NS is the median of the times that were measured, PredictedNS the price by the profile.
	NS, PredictedNS float64
}

// Run measures the machine. It takes some tens of seconds with the usual options. The error is that of ctx, or
// tells which call could not be run.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Rounds <= 0 {
		o.Rounds = 3
	}
	if o.Each <= 0 {
		o.Each = 12 * time.Millisecond
	}
	if o.MostBytes <= 0 {
		o.MostBytes = 128 << 20
	}
	if o.Progress == nil {
		o.Progress = func(int, int, string) {}
	}
	m := &measurer{options: o, profile: machine.DefaultProfile(), rates: kernels.Rates()}
	m.profile.CPU, m.profile.Instructions = machine.CPUName(), machine.Instructions().String()
	m.profile.Measured = time.Now().UTC().Format(time.RFC3339)
	m.probes = append(memoryProbes(float64(o.MostBytes)), rateProbes(m.rates)...)
	if err := m.run(ctx); err != nil {
		return nil, err
	}
	m.solve()
	return m.result(), nil
}

// probe is a call that is measured for the rate of an inner kernel, or for what bytes take at a level of a curve.
type probe struct {
	rate   string // the kernel; empty: access and level
	unit   string
	access graph.Access
	level  float64 // bytes
	call   graph.RateCall
	// chained is how many more calls follow, each of which takes the result of the one before: as steps of a
	// graph find their operands, in the caches, and may write them over.
	chained int
	works   []graph.Work
	took    []float64 // the times of all runs, in nanoseconds
	ns      float64   // their median
}

// name is what the probe is for.
func (p *probe) name() string {
	if p.rate != "" {
		return p.rate
	}
	return fmt.Sprintf("%v %s", p.access, machine.Bytes(int(p.level)))
}

// measurer measures probes and solves for the rates of a profile.
type measurer struct {
	options Options
	profile *machine.Profile
	rates   []graph.Rate
	probes  []*probe
	near    float64 // what a step takes where caches are not flooded, in picoseconds
}

// run measures the cost of a step and all probes, round by round.
func (m *measurer) run(ctx context.Context) error {
	total := m.options.Rounds * (len(m.probes) + 1)
	for round := range m.options.Rounds {
		done := round * (len(m.probes) + 1)
		m.options.Progress(done, total, "a step")
		for i, ps := range [...]*float64{&m.profile.StepPS, &m.near} {
			ns, err := stepNS(ctx, m.options.Each, i == 0)
			if err != nil {
				return fmt.Errorf("the cost of a step: %w", err)
			}
			if round == 0 || ns*1e3 < *ps {
				*ps = ns * 1e3
			}
		}
		for i, p := range m.probes {
			m.options.Progress(done+i+1, total, p.name())
			if err := p.measure(ctx, m.options.Each); err != nil {
				return fmt.Errorf("%s (%s): %w", p.name(), p.call.Op, err)
			}
		}
	}
	return ctx.Err()
}

func (m *measurer) result() *Result {
	r := &Result{Profile: m.profile}
	for _, p := range m.probes {
		point := Point{Of: p.name(), Unit: p.unit, NS: p.ns}
		for _, w := range p.works {
			point.PredictedNS += m.prices(p).NS(w)
			point.Bytes = max(point.Bytes, w.Footprint)
		}
		r.Points = append(r.Points, point)
	}
	return r
}
