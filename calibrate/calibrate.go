package calibrate

import (
	"context"
	"fmt"
	"time"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/environment"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/pricing"
)

// Options configure [Run].
type Options struct {
	// Rounds is the number of measurements of each call; 0 means 5. All calls are measured once in each round, so that
	// other processes disturb all rates alike.
	Rounds int
	// Budget bounds the time of the rounds; 0 means a minute. The first round is always complete; later rounds end when
	// the time is over. The time of a device is not included.
	Budget time.Duration
	// CallTime is the total time of the repeated runs of a call in each round. 0 means 12 ms.
	CallTime time.Duration
	// Force lets the profile have all rates as measured, also the uncertain ones: see [Rate].
	Force bool
	// MaxBytes is the maximum number of bytes that a call accesses. 0 means 128 MiB.
	MaxBytes int
	// Device, if set, is measured after the host. The profile then has the prices of the device, keyed by the name of its
	// driver. A small call of each kernel checks the device before the host is measured.
	Device graph.Device
	// Progress, if set, is called before each measurement. Its arguments are the number of finished measurements, the
	// number of all measurements, and the name of the measured kernel or access.
	Progress func(done, total int, what string)
}

// Result is a fitted profile and its measurements.
type Result struct {
	Profile *pricing.Profile
	Rates   []Rate // the rates of the host, in the order of the measurements
	Points  []Point
	Rounds  int // the number of complete rounds
	// Load is the mean number of runnable threads of other processes, on Linux; nil if unknown.
	Load *float64
	// RoundSpread is the time of the slowest complete round relative to the fastest: the median over all calls.
	RoundSpread float64
	Noise       string // notes on disturbances, in words; empty if there were none
}

// Point has the measured and the predicted time of a call. On a device, these are the times of a run of equal calls,
// including the wait for their end.
type Point struct {
	// Of is the inner kernel, the kind of memory access, or the kind of work on a device, that the call measures.
	Of          string
	Unit        string  // the unit of work of the fitted price
	Bytes       float64 // the bytes that the call accesses; on a device, the bytes of all calls of the run
	NS          float64 // the lower quartile of the times of the call; the median of those of a run, in nanoseconds
	PredictedNS float64 // the time that the fitted profile predicts, in nanoseconds
}

// Run measures the machine. With the default options it takes at most a minute, unless the first round takes longer.
// Uncertain rates have the values of the built-in profile, scaled, unless Options.Force is set: see [Rate]. Run never
// changes the built-in profile. [Result.Check] tells whether enough rates are certain to use the result. Run fails if
// ctx ends, or if a call fails; the error then names the call.
func Run(ctx context.Context, options Options) (*Result, error) {
	if options.Rounds <= 0 {
		options.Rounds = 5
	}
	if options.Budget <= 0 {
		options.Budget = time.Minute
	}
	if options.CallTime <= 0 {
		options.CallTime = 12 * time.Millisecond
	}
	if options.MaxBytes <= 0 {
		options.MaxBytes = 128 << 20
	}
	if options.Progress == nil {
		options.Progress = func(int, int, string) {}
	}
	measuring := &measurer{options: options, rates: kernels.Rates()}
	measuring.probes = append(memoryProbes(float64(options.MaxBytes)), kernelProbes(measuring.rates)...)
	if options.Device != nil {
		if err := checkDevice(ctx, options.Device, &options); err != nil {
			return nil, err
		}
	}
	if err := measuring.run(ctx); err != nil {
		return nil, err
	}
	fitted := measuring.fit()
	if device := options.Device; device != nil {
		if err := measuring.runDevice(ctx, device); err != nil {
			return nil, err
		}
	}
	return measuring.result(fitted), ctx.Err()
}

// probe is a measured call. Its time determines the price of a unit of work of an inner kernel, or one point of a
// memory curve. A memory curve is the price of a byte as a function of the number of bytes that a call accesses.
type probe struct {
	innerKernel    string         // the inner kernel whose price is measured; empty for a point of a memory curve
	unit           string         // the unit of work
	access         pricing.Access // for a point of a memory curve: the kind of access
	footprintBytes float64        // for a point of a memory curve: the number of bytes accessed
	call           graph.RateCall // the measured call
	// chainedCalls is the number of further calls. Each call reads the result of the previous call, as consecutive
	// steps of a graph do. The operand of such a call is in the caches, and the call may overwrite it.
	chainedCalls int
	stepWorks    []pricing.Work // the work of the timed steps
	roundNS      []float64      // lower quartiles of the times of each round, in nanoseconds
	took         time.Duration  // how long the last measurement took
	ns           float64        // the time to which prices are fitted, in nanoseconds
}

// name returns the name of the inner kernel, or the kind of access and the number of bytes.
func (p *probe) name() string {
	if p.innerKernel != "" {
		return p.innerKernel
	}
	return fmt.Sprintf("%v %s", p.access, machine.Bytes(int(p.footprintBytes)))
}

// kernelProbes returns the probes of the inner kernels that run on this machine. The prices of other inner kernels keep
// their defaults.
func kernelProbes(rates []graph.Rate) []*probe {
	var list []*probe
	for _, rate := range rates {
		for _, call := range rate.Calls {
			if isAvailable(call) {
				list = append(list, &probe{innerKernel: rate.Name, unit: rate.Unit, call: call})
			}
		}
	}
	return list
}

// isAvailable reports whether the implementation of a call is available. Some implementations need machine code.
func isAvailable(call graph.RateCall) bool {
	if call.Impl == "" {
		return true
	}
	const mayFuse = false // the graph has a single node
	values := newBuilder(mayFuse).addCall(call)
	if len(values) == 0 {
		return true // measure reports the error
	}
	n := values[0].Node
	impl, err := n.Op.Impl(call.Impl)
	return err != nil || len(impl.Walks(n.Call(), nil)) > 0
}

// measurer measures probes and fits the prices of a profile.
type measurer struct {
	options      Options
	profile      *pricing.Profile
	rates        []graph.Rate
	probes       []*probe
	steps        [2]probe           // empty steps with cold and with warm caches
	warmStepPS   float64            // time of an empty step with warm caches, in picoseconds
	kept         map[string]float64 // prices that are not fitted, by the names of their rates
	load         environment.LoadMeter
	devicePoints []Point // calls on the device
}

// run measures the price of starting a step and all probes, round by round.
func (m *measurer) run(ctx context.Context) error {
	start := time.Now()
	for round := range m.options.Rounds {
		done := round * (1 + len(m.probes))
		m.options.Progress(done, m.total(), "a step")
		for i := range m.steps {
			isCold := i == 0
			ns, err := stepNS(ctx, m.options.CallTime, isCold)
			if err != nil {
				return fmt.Errorf("the cost of a step: %w", err)
			}
			m.steps[i].roundNS = append(m.steps[i].roundNS, ns)
		}
		for i, p := range m.probes {
			begun := time.Now()
			if round > 0 && begun.Sub(start)+p.took > m.options.Budget-m.options.Budget/fitShare {
				return ctx.Err()
			}
			m.options.Progress(done+i+1, m.total(), p.name())
			m.load.Sample()
			if err := p.measure(ctx, m.options.CallTime); err != nil {
				return fmt.Errorf("%s (%s): %w", p.name(), p.call.Op, err)
			}
			p.took = time.Since(begun)
		}
	}
	return ctx.Err()
}

// fitShare is the part of the budget, 1/30 of it, that remains for fitting the prices.
const fitShare = 30

// total returns the number of all measurements: in each round a step and the probes, then those of a device.
func (m *measurer) total() int {
	total := m.options.Rounds * (1 + len(m.probes))
	if m.options.Device != nil {
		total += deviceMeasurements
	}
	return total
}

// runDevice measures a device, and adds its prices to the profile.
func (m *measurer) runDevice(ctx context.Context, device graph.Device) error {
	rates, points, err := measureDevice(ctx, device, &m.options,
		func(done int, what string) { m.options.Progress(m.total()-deviceMeasurements+done, m.total(), what) })
	if err == nil {
		m.profile, m.devicePoints = m.profile.WithDevice(device.Name(), rates), points
	}
	return err
}

// result returns the profile, with the measured and the predicted time of each probe and of the calls on a device.
func (m *measurer) result(rates []Rate) *Result {
	result := &Result{Profile: m.profile, Rates: rates, Load: m.load.Mean()}
	for _, p := range m.probes {
		point := Point{Of: p.name(), Unit: p.unit, NS: p.ns}
		for _, work := range p.stepWorks {
			point.PredictedNS += m.profileFor(p).PriceNS(work)
			point.Bytes = max(point.Bytes, work.Footprint)
		}
		result.Points = append(result.Points, point)
	}
	result.Points = append(result.Points, m.devicePoints...)
	m.addNoise(result)
	return result
}
