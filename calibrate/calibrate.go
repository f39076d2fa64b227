package calibrate

import (
	"context"
	"fmt"
	"time"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels"
)

// Options configure [Run].
type Options struct {
	// Rounds is the number of times that everything is measured; the median of all times counts. 0 is 3.
	Rounds int
	// Each is the time spent on a call per round; 0 is 12 ms.
	Each time.Duration
	// MostBytes bounds the memory that a call touches; 0 is 128 MiB.
	MostBytes int
	// Progress, if set, is called before each measurement; what names it.
	Progress func(done, total int, what string)
}

// Result is a fitted profile and its measurements.
type Result struct {
	Profile *machine.Profile
	Points  []Point
}

// Point is a measured call and its predicted time.
type Point struct {
	// Of is the inner kernel or the access that the call measures; Unit is the unit of its price.
	Of, Unit string
	// Bytes is the memory that the call touches.
	Bytes float64
	// NS is the median of the measured times, PredictedNS the price by the profile, both per run.
	NS, PredictedNS float64
}

// Run measures the machine. It takes some tens of seconds with the default options. The error is that of ctx,
// or names a call that failed.
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

// probe is a call that is measured for the rate of an inner kernel, or for one point of a memory curve.
type probe struct {
	rate   string // the kernel; empty for access and level
	unit   string
	access graph.Access
	level  float64 // bytes
	call   graph.RateCall
	// chained is the number of further calls, each on the result of the previous one: like the steps of a
	// graph, they find their operand in the caches and may overwrite it.
	chained int
	works   []graph.Work
	took    []float64 // times of all runs, in nanoseconds
	ns      float64   // median of took
}

// name returns the name of the kernel, or of the access and level.
func (p *probe) name() string {
	if p.rate != "" {
		return p.rate
	}
	return fmt.Sprintf("%v %s", p.access, machine.Bytes(int(p.level)))
}

// measurer measures probes and fits the rates of a profile.
type measurer struct {
	options    Options
	profile    *machine.Profile
	rates      []graph.Rate
	probes     []*probe
	warmStepPS float64 // the cost of a step with warm caches, in picoseconds
}

// run measures the cost of a step and all probes, round by round.
func (m *measurer) run(ctx context.Context) error {
	total := m.options.Rounds * (len(m.probes) + 1)
	for round := range m.options.Rounds {
		done := round * (len(m.probes) + 1)
		m.options.Progress(done, total, "a step")
		for i, ps := range [...]*float64{&m.profile.StepPS, &m.warmStepPS} {
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
