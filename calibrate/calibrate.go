package calibrate

import (
	"context"
	"fmt"
	"time"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/pricing"
)

// Options configure [Run].
type Options struct {
	// Rounds is the number of measurements of each call; 0 means 3. The result uses the median of all measured times.
	Rounds int
	// CallTime is the total time of the repeated runs of a call in each round. 0 means 12 ms.
	CallTime time.Duration
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
	Points  []Point
}

// Point has the measured and the predicted time of a call. On a device, these are the times of a run of equal calls,
// including the wait for their end.
type Point struct {
	// Of is the inner kernel, the kind of memory access, or the kind of work on a device, that the call measures.
	Of          string
	Unit        string  // the unit of work of the fitted price
	Bytes       float64 // the bytes that the call accesses; on a device, the bytes of all calls of the run
	NS          float64 // the median of the measured times of the call or run, in nanoseconds
	PredictedNS float64 // the time that the fitted profile predicts, in nanoseconds
}

// Run measures the machine. With the default options it takes some tens of seconds. It fails if ctx ends, or if a call
// fails; the error then names the call.
func Run(ctx context.Context, options Options) (*Result, error) {
	if options.Rounds <= 0 {
		options.Rounds = 3
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
	measuring := &measurer{options: options, profile: pricing.DefaultProfile(), rates: kernels.Rates()}
	measuring.profile.CPU, measuring.profile.Instructions = machine.CPUName(), machine.HostFeatures().Name()
	measuring.profile.Estimated = false
	measuring.profile.Measured = time.Now().UTC().Format(time.RFC3339)
	measuring.probes = append(memoryProbes(float64(options.MaxBytes)), kernelProbes(measuring.rates)...)
	if options.Device != nil {
		if err := checkDevice(ctx, options.Device, &options); err != nil {
			return nil, err
		}
	}
	if err := measuring.run(ctx); err != nil {
		return nil, err
	}
	measuring.solve()
	return measuring.result(), nil
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
	runTimes     []float64      // times of all runs, in nanoseconds
	ns           float64        // median of runTimes
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
	warmStepPS   float64 // time of an empty step with warm caches, in picoseconds
	devicePoints []Point // calls on the device
}

// run measures the price of starting a step and all probes, round by round. The price of a step is the minimum over the
// rounds.
func (m *measurer) run(ctx context.Context) error {
	perRound := 1 + len(m.probes) // measurements: the step and the probes
	total := m.options.Rounds * perRound
	hostTotal := total
	if m.options.Device != nil {
		total += deviceMeasurements
	}
	for round := range m.options.Rounds {
		done := round * perRound
		m.options.Progress(done, total, "a step")
		for i, price := range [...]*float64{&m.profile.StepPS, &m.warmStepPS} {
			coldCaches := i == 0 // StepPS is measured with cold caches
			ns, err := stepNS(ctx, m.options.CallTime, coldCaches)
			if err != nil {
				return fmt.Errorf("the cost of a step: %w", err)
			}
			if round == 0 || ns*pricing.PSPerNS < *price {
				*price = ns * pricing.PSPerNS
			}
		}
		for i, p := range m.probes {
			m.options.Progress(done+i+1, total, p.name())
			if err := p.measure(ctx, m.options.CallTime); err != nil {
				return fmt.Errorf("%s (%s): %w", p.name(), p.call.Op, err)
			}
		}
	}
	if device := m.options.Device; device != nil {
		rates, points, err := measureDevice(ctx, device, &m.options,
			func(done int, what string) { m.options.Progress(hostTotal+done, total, what) })
		if err != nil {
			return err
		}
		m.profile, m.devicePoints = m.profile.WithDevice(device.Name(), rates), points
	}
	return ctx.Err()
}

// result returns the profile, with the measured and the predicted time of each probe and of the calls on a device.
func (m *measurer) result() *Result {
	result := &Result{Profile: m.profile}
	for _, p := range m.probes {
		point := Point{Of: p.name(), Unit: p.unit, NS: p.ns}
		for _, work := range p.stepWorks {
			point.PredictedNS += m.profileFor(p).PriceNS(work)
			point.Bytes = max(point.Bytes, work.Footprint)
		}
		result.Points = append(result.Points, point)
	}
	result.Points = append(result.Points, m.devicePoints...)
	return result
}
