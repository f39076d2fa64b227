package calibrate

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
)

// sweeps is how often all rates are solved for, one by one: each depends on the others that its calls take, too.
const sweeps = 40

// leastPS bounds rates from below. If the other costs of a call exceed the measured time, the solution is 0 or less,
// and work would be free.
const leastPS = 1e-2

// solve finds the rates for which prices come nearest to what was measured, by the squares of relative errors: one
// rate after the other, with all others as they are, until nothing changes any more.
func (m *measurer) solve() {
	byRate, curves := map[string][]*probe{}, map[graph.Access]machine.Curve{}
	for _, p := range m.probes {
		if p.rate != "" {
			byRate[p.rate] = append(byRate[p.rate], p)
			continue
		}
		if curves[p.access] == nil {
			curves[p.access] = machine.Curve{}
		}
		c := curves[p.access]
		if p.kept() == 0 {
			p.level = 0
			for _, w := range p.works {
				p.level = max(p.level, w.Footprint)
			}
		}
		level(&c, p.level).PS = m.profile.Memory.Of(p.access).At(p.level)
		curves[p.access] = c
	}
	for a, c := range curves {
		slices.SortFunc(c, func(x, y machine.Level) int { return int(x.Bytes - y.Bytes) })
		*m.profile.Memory.Of(a) = c
	}
	for range sweeps {
		for _, r := range m.rates {
			if probes := byRate[r.Name]; len(probes) > 0 {
				m.profile.Kernels[r.Name] = m.unitPS(r.Name, probes)
			}
		}
		for _, p := range m.probes {
			if p.rate == "" {
				c := m.profile.Memory.Of(p.access)
				level(c, p.level).PS = m.bytesPS(p)
			}
		}
	}
	for a := range curves {
		rising(*m.profile.Memory.Of(a))
	}
}

// rising makes a curve one of bytes that take no less where there are more: what exceeds a later level was disturbed.
func rising(c machine.Curve) {
	for i := len(c) - 2; i >= 0; i-- {
		c[i].PS = min(c[i].PS, c[i+1].PS)
	}
}

// bytesPS is what a byte takes in the call of a probe, if all else takes what the profile says.
func (m *measurer) bytesPS(p *probe) float64 {
	rest, bytes := p.ns*1e3, 0.0
	for _, w := range p.works {
		bytes += w.Bytes[p.access]
		v := w
		v.Bytes[p.access] = 0
		if p.access == graph.Dense { // what is computed meanwhile takes no time of its own
			v.Parts = [machine.MaxParts]machine.Part{}
		}
		rest -= m.sum(p, v)
	}
	if bytes <= 0 {
		return m.profile.Memory.Of(p.access).At(p.level)
	}
	return max(leastPS, rest/bytes)
}

// unitPS is what a unit of an inner kernel takes in the calls of probes, if all else takes what the profile says.
func (m *measurer) unitPS(name string, probes []*probe) float64 {
	var above, below float64
	for _, p := range probes {
		rest, units := p.ns*1e3, 0.0
		for _, w := range p.works {
			v, waits := w, false
			for i := range v.Parts {
				if v.Parts[i].Kernel == name {
					waits = v.Parts[i].Waits
					units += v.Parts[i].Units
					v.Parts[i].Units = 0
				}
			}
			if v != w && !waits { // memory is gone through meanwhile
				v.Bytes[graph.Dense] = 0
			}
			rest -= m.sum(p, v)
		}
		t := p.ns * 1e3
		above += units / t * rest / t
		below += units / t * units / t
	}
	if below == 0 {
		return m.profile.Kernels[name]
	}
	return max(leastPS, above/below)
}

// prices are those for a probe.
func (m *measurer) prices(p *probe) *machine.Profile {
	r := m.profile.Keeping(p.kept())
	if p.kept() == 0 {
		r.StepPS = m.near
	}
	return r
}

// kept are the bytes that are gone over between two runs of the probe's call, as all steps of a network go over their
// constants; 0: none are.
func (p *probe) kept() float64 {
	switch {
	case p.rate != "":
		return nearBytes
	case p.access == graph.Kept, p.access == graph.Panels:
		return p.level
	}
	return 0
}

// sum prices work in a probe.
func (m *measurer) sum(p *probe, w graph.Work) float64 { return m.prices(p).Sum(w) }
