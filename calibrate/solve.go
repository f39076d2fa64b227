package calibrate

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/pricing"
)

// fitPasses is the number of passes over all prices. One pass does not suffice: a call depends on several prices.
const fitPasses = 40

// minPS is the minimum of a price, in picoseconds. Without a minimum, a price would become 0 or negative if the cost of
// the other work of a call exceeds its measured time.
const minPS = 1e-2

// solve fits the prices to the measured times. It minimizes the sum of the squared relative errors by coordinate
// descent. It fits one price at a time, while all other prices are fixed.
//
// A probe is a measured call. It fits either the price of an inner kernel (m.profile.Kernels), or one point of a memory
// curve (m.profile.Memory): the price of a byte at the footprint of the probe. The price of an inner kernel is a
// compromise between its probes. The price at a point of a curve makes the predicted time of its probe equal to the
// measured time.
func (m *measurer) solve() {
	probesByKernel := map[string][]*probe{}
	for _, p := range m.probes {
		if p.innerKernel != "" {
			probesByKernel[p.innerKernel] = append(probesByKernel[p.innerKernel], p)
		}
	}
	curves := m.startCurves()
	for range fitPasses {
		for _, rate := range m.rates {
			if price, isKept := m.kept[rate.Name]; isKept {
				m.profile.Kernels[rate.Name] = price
			} else if probes := probesByKernel[rate.Name]; len(probes) > 0 {
				m.profile.Kernels[rate.Name] = m.unitPS(rate.Name, probes)
			}
		}
		for _, p := range m.probes {
			if p.innerKernel == "" {
				point := curvePoint(m.profile.Memory.CurveOf(p.access), p.footprintBytes)
				if price, isKept := m.kept[p.name()]; isKept {
					point.PS = price
				} else {
					point.PS = m.bytePS(p)
				}
			}
		}
	}
	for access := range curves {
		m.makeMonotone(access)
	}
}

// startCurves replaces the curves of the profile by curves with a point for each memory probe, and returns the new
// curves. The price at a point is the price on the previous curve. startCurves also sets the footprints of probes whose
// data stays in a cache.
func (m *measurer) startCurves() map[pricing.Access]pricing.Curve {
	curves := map[pricing.Access]pricing.Curve{}
	for _, p := range m.probes {
		if p.innerKernel != "" {
			continue
		}
		// Nothing evicts the data of this probe between calls, so the largest footprint of its steps selects the cache level.
		if p.bytesBetweenCalls() == 0 {
			p.footprintBytes = 0
			for _, w := range p.stepWorks {
				p.footprintBytes = max(p.footprintBytes, w.Footprint)
			}
		}
		curve := curves[p.access]
		curvePoint(&curve, p.footprintBytes).PS = m.profile.Memory.CurveOf(p.access).At(p.footprintBytes)
		curves[p.access] = curve
	}
	for access, curve := range curves {
		sorted.Func(curve, func(x, y pricing.Level) int { return int(x.Bytes - y.Bytes) })
		*m.profile.Memory.CurveOf(access) = curve
	}
	return curves
}

// curvePoint returns the point of a curve at a size. If the curve has no such point, curvePoint adds it.
func curvePoint(curve *pricing.Curve, bytes float64) *pricing.Level {
	for i := range *curve {
		if (*curve)[i].Bytes == bytes {
			return &(*curve)[i]
		}
	}
	*curve = append(*curve, pricing.Level{Bytes: bytes})
	return &(*curve)[len(*curve)-1]
}

// makeMonotone lowers each fitted point of a curve that is higher than a later fitted point. Other processes must have
// disturbed the measurement of such a point. Kept points are raised or lowered to lie between the fitted ones.
func (m *measurer) makeMonotone(access pricing.Access) {
	curve := *m.profile.Memory.CurveOf(access)
	isKept := make([]bool, len(curve))
	for _, p := range m.probes {
		if _, ok := m.kept[p.name()]; ok && p.innerKernel == "" && p.access == access {
			isKept[slices.IndexFunc(curve, func(l pricing.Level) bool { return l.Bytes == p.footprintBytes })] = true
		}
	}
	least := math.Inf(1) // of the later fitted points
	for i := range slices.Backward(curve) {
		if curve[i].PS = min(curve[i].PS, least); !isKept[i] {
			least = curve[i].PS
		}
	}
	for i := 1; i < len(curve); i++ {
		curve[i].PS = max(curve[i].PS, curve[i-1].PS)
	}
}

// bytePS returns the price of a byte in picoseconds that makes the predicted time of a probe equal to the measured
// time. All other prices are fixed.
func (m *measurer) bytePS(p *probe) float64 {
	remaining, bytes := p.ns*pricing.PSPerNS, 0.0 // remaining: the measured time minus the time of other work
	for _, w := range p.stepWorks {
		bytes += w.Bytes[p.access]
		otherWork := w // a copy of the work, without the bytes whose price is fitted
		otherWork.Bytes[p.access] = 0
		if p.access == pricing.Dense { // computation overlaps with dense access and adds no time
			otherWork.Parts = [pricing.MaxParts]pricing.Part{}
		}
		remaining -= m.workPS(p, otherWork)
	}
	if bytes <= 0 {
		return m.profile.Memory.CurveOf(p.access).At(p.footprintBytes)
	}
	return max(minPS, remaining/bytes)
}

// unitPS fits the price of a unit of work of an inner kernel to the times of the probes, while all other prices are
// fixed. The price is in picoseconds. It is the weighted least-squares solution of remaining = price*units over the
// probes. Here, remaining is the measured time without the cost of all other work:
//
//	price = sum(units*remaining/measured^2) / sum(units^2/measured^2)
func (m *measurer) unitPS(name string, probes []*probe) float64 {
	var numerator, denominator float64
	for _, p := range probes {
		remaining, units := p.ns*pricing.PSPerNS, 0.0
		for _, w := range p.stepWorks {
			otherWork := w // a copy of the work, without the units whose price is fitted
			isUnoverlapped := false
			for i := range otherWork.Parts {
				if part := &otherWork.Parts[i]; part.Kernel == name {
					isUnoverlapped = part.Unoverlapped
					units += part.Units
					part.Units = 0
				}
			}
			runsKernel := otherWork != w       // the loop has removed units
			if runsKernel && !isUnoverlapped { // dense access overlaps with computation and adds no time
				otherWork.Bytes[pricing.Dense] = 0
			}
			remaining -= m.workPS(p, otherWork)
		}
		measured := p.ns * pricing.PSPerNS // the weights 1/measured^2 make errors relative
		numerator += units / measured * remaining / measured
		denominator += units / measured * units / measured
	}
	if denominator == 0 {
		return m.profile.Kernels[name]
	}
	return max(minPS, numerator/denominator)
}

// profileFor returns the profile that predicts the time of a probe. A probe without intervening accesses runs with warm
// caches, in which a step costs less.
func (m *measurer) profileFor(p *probe) *pricing.Profile {
	profile := m.profile.WithConstants(p.bytesBetweenCalls())
	if p.bytesBetweenCalls() == 0 {
		profile.StepPS = m.warmStepPS
	}
	return profile
}

// networkBytes is the size of the constants of a typical network. It determines the cache level from which a call reads
// its constants.
const networkBytes = 2 << 20

// bytesBetweenCalls returns the number of bytes that are accessed between two runs of the probe's call. They represent
// the constants of the other steps of a network, which evict the constants of the call from caches. The number is 0
// for accesses to data that was just written.
func (p *probe) bytesBetweenCalls() float64 {
	switch {
	case p.innerKernel != "":
		return networkBytes
	case p.access == pricing.DenseConstants, p.access == pricing.Panels:
		return p.footprintBytes
	}
	return 0
}

// workPS returns the price of work in a probe, in picoseconds.
func (m *measurer) workPS(p *probe, work pricing.Work) float64 {
	return m.profileFor(p).UnclampedPS(work)
}
