package graphrun

import (
	"github.com/graphrun/graphrun/graph"
)

// WorkReport is what there is to do, in the terms that profiles of machines price: see `graphrun calibrate`.
type WorkReport struct {
	Footprint float64 `json:"footprint" doc:"The bytes of all that the step touches."`
	Steps     float64 `json:"steps" doc:"The steps that are begun."`
	// Bytes may be negative in the work of reading an operand: what is read otherwise is not read densely.
	Bytes   map[string]float64 `json:"bytes" doc:"Bytes by the kind of access."`
	Kernels map[string]float64 `json:"kernels" doc:"Units of inner kernels that work while memory is gone through."`
	Waits   map[string]float64 `json:"waits" doc:"Units of inner kernels for which memory waits."`
}

// worksOf returns the work of a node in the parts that are priced one by one: first that of its implementation, then
// what each operand takes more, lying as it does. It is nil for a node that computes nothing, and for nil.
func worksOf(n *graph.Node) []WorkReport {
	var list []WorkReport
	for _, w := range n.Works() {
		d := WorkReport{Footprint: w.Footprint, Steps: w.Steps, Bytes: map[string]float64{},
			Kernels: map[string]float64{}, Waits: map[string]float64{}}
		for a, b := range w.Bytes {
			if b != 0 {
				d.Bytes[graph.Access(a).String()] = b
			}
		}
		for _, p := range w.Parts {
			switch {
			case p.Kernel == "" || p.Units == 0:
			case p.Waits:
				d.Waits[p.Kernel] += p.Units
			default:
				d.Kernels[p.Kernel] += p.Units
			}
		}
		list = append(list, d)
	}
	return list
}
