package calibrate

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/graphrun/graphrun/internal/environment"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/pricing"
)

// This file decides which rates are certain. A rate is what solve yields for the times of all calls, so its uncertainty
// is that of the solution, and not that of a call: if a rate has a small part in the times of its calls, a small change
// of these times changes the rate much. The prices are therefore solved for each pair of rounds, with the shorter of
// both times of each call, and for all rounds. The spread of a rate is the range of these solutions. One disturbed
// round changes none of them much. Two disturbed rounds do.

// Rate is a fitted rate with its spread. It is certain if its spread is at most [MaxSpread]. The profile has the value
// of the built-in profile in place of an uncertain rate, times the median ratio of measured and built-in rates of the
// same kind (memory or inner kernels). A machine is faster or slower than that of the built-in profile in most rates:
// an unscaled rate would not fit the measured ones.
type Rate struct {
	Of         string  // the inner kernel, the kind and the bytes of a memory access, or [StepRate]
	Unit       string  // the unit of work
	PS         float64 // the rate in the profile, in picoseconds per unit
	MeasuredPS float64 // the rate that the measurements of all rounds yield
	BuiltInPS  float64 // the rate in the built-in profile
	// Spread is the ratio of the greatest and the least rate that the measurements yield. It is +Inf if there were less
	// than four complete rounds, or if a solution is not positive: the calls then do not determine the rate.
	Spread    float64
	IsCertain bool
}

// MaxSpread is the greatest spread of a certain rate.
const MaxSpread = 1.25

// StepRate is the name of the rate of starting a step.
const StepRate = "step"

const (
	// minRounds is the minimum number of rounds of a certain rate. On a busy machine, up to 9 of 110 certain rates changed
	// by more than 1.25 from run to run with three rounds, and none to two with four or five.
	minRounds = 4
	// maxUncertain is the maximum share of uncertain rates.
	maxUncertain = .5
	// maxThreads is the maximum number of runnable threads of other processes per processor. Beyond, memory seemed up to
	// twice as slow in all rounds of some runs.
	maxThreads = 2
	// maxRoundSpread is the ratio of the times of the slowest and the fastest round above which there is a note.
	maxRoundSpread = 1.1
)

// Uncertain returns the uncertain rates.
func (r *Result) Uncertain() (list []Rate) {
	if r == nil {
		return nil
	}
	for _, rate := range r.Rates {
		if !rate.IsCertain {
			list = append(list, rate)
		}
	}
	return list
}

// Check returns an error if more than half of the rates are uncertain: the profile then tells little about the machine.
// It also returns an error if the other processes had more than two runnable threads per processor. Such a load can
// disturb all rounds alike, so the spreads do not show it.
func (r *Result) Check() error {
	if r == nil {
		return fmt.Errorf("calibrate: there is no result")
	}
	uncertain := len(r.Uncertain())
	if r.Rounds < minRounds && uncertain > 0 {
		return fmt.Errorf("the rates are uncertain: %d rounds are complete, and %d are needed", r.Rounds, minRounds)
	}
	if processors := runtime.NumCPU(); r.Load != nil && *r.Load > float64(maxThreads*processors) {
		return fmt.Errorf("%s, more than twice the %d processors", environment.LoadWarning(r.Load), processors)
	}
	if float64(uncertain) > maxUncertain*float64(len(r.Rates)) {
		return fmt.Errorf("%d of %d rates are uncertain: they differ by more than %g between rounds",
			uncertain, len(r.Rates), MaxSpread)
	}
	return nil
}

// timeOf returns the least time of a probe in some rounds, of those in which it was measured. For no rounds, it is the
// lower quartile of the times of all rounds: other processes can only lengthen them.
func (p *probe) timeOf(rounds ...int) float64 {
	least := math.Inf(1)
	for _, round := range rounds {
		if round < len(p.roundNS) {
			least = min(least, p.roundNS[round])
		}
	}
	if math.IsInf(least, 1) {
		return quartile(slices.Clone(p.roundNS))
	}
	return least
}

// solveRounds fits the prices to the times of some rounds, or of all (timeOf), and sets the profile. It returns the
// rates by their names.
func (m *measurer) solveRounds(rounds ...int) map[string]float64 {
	m.profile = pricing.DefaultProfile()
	m.profile.CPU, m.profile.Instructions = machine.CPUName(), machine.HostFeatures().Name()
	m.profile.Estimated = false
	m.profile.Measured = time.Now().UTC().Format(time.RFC3339)
	for _, p := range m.probes {
		p.ns = p.timeOf(rounds...)
	}
	m.profile.StepPS = m.steps[0].timeOf(rounds...) * pricing.PSPerNS
	m.warmStepPS = m.steps[1].timeOf(rounds...) * pricing.PSPerNS
	if price, isKept := m.kept[StepRate]; isKept {
		m.profile.StepPS = price
	}
	m.solve()
	rates := map[string]float64{StepRate: m.profile.StepPS}
	for _, p := range m.probes {
		if p.innerKernel != "" {
			rates[p.innerKernel] = m.profile.Kernels[p.innerKernel]
		} else {
			rates[p.name()] = m.profile.Memory.CurveOf(p.access).At(p.footprintBytes)
		}
	}
	return rates
}

// fit sets the profile and returns its rates. Each pass solves for every pair of rounds and for all. It then keeps the
// uncertain rates, so that the others are fitted to the rates that the profile will have. The range of a rate is over
// all passes: a rate that depends on whether others are kept is uncertain, too.
func (m *measurer) fit() []Rate {
	m.kept = map[string]float64{}
	measured := m.solveRounds()
	rates, ranges := m.listRates(), map[string]interval{}
	for i := range rates {
		rates[i].MeasuredPS, rates[i].IsCertain = measured[rates[i].Of], true
	}
	for m.updateSpreads(rates, ranges) && !m.options.Force {
		m.keepUncertain(rates)
	}
	final := m.solveRounds()
	for i := range rates {
		rates[i].PS = final[rates[i].Of]
	}
	return rates
}

// interval is a range of rates.
type interval struct{ least, greatest float64 }

// listRates lists the rates in the order of the measurements, with their values in the built-in profile.
func (m *measurer) listRates() []Rate {
	builtIn := pricing.SharedDefaultProfile()
	list := []Rate{{Of: StepRate, Unit: "the start of a step", BuiltInPS: builtIn.StepPS}}
	for _, p := range m.probes {
		rate := Rate{Of: p.name(), Unit: p.unit, BuiltInPS: builtIn.Kernels[p.innerKernel]}
		if p.innerKernel == "" {
			rate.BuiltInPS = builtIn.Memory.CurveOf(p.access).At(p.footprintBytes)
		}
		if !slices.ContainsFunc(list, func(other Rate) bool { return other.Of == rate.Of }) {
			list = append(list, rate)
		}
	}
	return list
}

// updateSpreads extends the ranges of the rates by the solutions for every pair of rounds and for all rounds, and
// computes the spreads of the rates that are certain so far. It reports whether any is no longer certain.
func (m *measurer) updateSpreads(rates []Rate, ranges map[string]interval) (changed bool) {
	extend := func(rounds ...int) {
		for name, ps := range m.solveRounds(rounds...) {
			if old, ok := ranges[name]; ok {
				ranges[name] = interval{min(old.least, ps), max(old.greatest, ps)}
			} else {
				ranges[name] = interval{ps, ps}
			}
		}
	}
	extend()
	for second := range m.completeRounds() {
		for first := range second {
			extend(first, second)
		}
	}
	for i := range rates {
		rate := &rates[i]
		if !rate.IsCertain {
			continue
		}
		rate.Spread = math.Inf(1)
		if m.completeRounds() >= minRounds {
			switch in := ranges[rate.Of]; {
			case in.least > minPS:
				rate.Spread = in.greatest / in.least
			case in.greatest <= minPS && rate.BuiltInPS == 0: // constants of some KiB, for example, are free
				rate.Spread = 1
			}
		}
		rate.IsCertain = rate.Spread <= MaxSpread
		changed = changed || !rate.IsCertain
	}
	return changed
}

// completeRounds returns the number of rounds in which all probes were measured.
func (m *measurer) completeRounds() int {
	rounds := len(m.steps[0].roundNS)
	for _, p := range m.probes {
		rounds = min(rounds, len(p.roundNS))
	}
	return rounds
}

// keepUncertain sets the prices in the profile of the uncertain rates.
func (m *measurer) keepUncertain(rates []Rate) {
	ratios := map[bool][]float64{} // measured/built-in of the certain rates, of inner kernels and of memory
	for _, rate := range rates {
		if rate.IsCertain && rate.BuiltInPS > 0 {
			isKernel := !strings.Contains(rate.Of, " ")
			ratios[isKernel] = append(ratios[isKernel], rate.MeasuredPS/rate.BuiltInPS)
		}
	}
	for _, rate := range rates {
		if !rate.IsCertain {
			scale := median(ratios[!strings.Contains(rate.Of, " ")])
			if scale == 0 {
				scale = 1
			}
			m.kept[rate.Of] = rate.BuiltInPS * scale
		}
	}
}

// addNoise adds the notes on disturbances to a result.
func (m *measurer) addNoise(result *Result) {
	result.Rounds, result.RoundSpread = m.completeRounds(), m.roundSpread()
	var notes []string
	if result.Rounds < m.options.Rounds {
		notes = append(notes, fmt.Sprintf("%d of %d rounds fit into %v", result.Rounds, m.options.Rounds,
			m.options.Budget))
	}
	if load := environment.LoadWarning(result.Load); load != "" {
		notes = append(notes, load)
	}
	if result.RoundSpread > maxRoundSpread {
		notes = append(notes, fmt.Sprintf("calls took %.0f%% longer in the slowest round than in the fastest",
			100*(result.RoundSpread-1)))
	}
	result.Noise = strings.Join(notes, "; ")
}

// roundSpread returns the time of the slowest complete round relative to the fastest: the median over all probes.
func (m *measurer) roundSpread() float64 {
	least, greatest := math.Inf(1), 0.0
	for round := range m.completeRounds() {
		var relative []float64
		for _, p := range m.probes {
			relative = append(relative, p.timeOf(round)/p.timeOf())
		}
		factor := median(relative)
		least, greatest = min(least, factor), max(greatest, factor)
	}
	return greatest / least
}
