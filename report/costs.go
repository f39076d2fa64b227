package report

// Costs summarizes the cost, the memory and the copies of a plan.
type Costs struct {
	Copies      int `json:"copies" doc:"The number of inserted copies."`
	CopiedBytes int `json:"copied_bytes" doc:"The bytes of the inserted copies."`
	MovedBytes  int `json:"moved_bytes" doc:"The bytes that steps read and write, each operand once."`
	Elided      int `json:"elided" doc:"The number of nodes that were removed as redundant."`
	Steps       int `json:"steps" doc:"The number of steps."`
	PeakBytes   int `json:"peak_bytes" doc:"The memory of a run beside inputs and constants: the arena, the outputs and the scratch of all workers."`
	// PeakWithWeights excludes the inputs, whose memory belongs to the caller.
	PeakWithWeights int     `json:"peak_with_weights_bytes" doc:"The sum of peak_bytes and the memory of constants and packed constants."`
	Memory          Memory  `json:"memory" doc:"The memory of a run."`
	CostNS          float64 `json:"cost_ns" doc:"The estimated cost of the plan, in nanoseconds."`
	PlanMS          float64 `json:"plan_ms" doc:"The time of planning and compilation, in milliseconds."`
	// Places is nil if the program has no device.
	Places *Places `json:"places,omitzero" doc:"The work of a device and the transfers; left out without a device."`
}

// Places divides the steps of a plan between the host and a device.
type Places struct {
	Device           string `json:"device" doc:"The device."`
	Steps            int    `json:"steps" doc:"The number of steps that the device computes, without transfers."`
	Uploads          int    `json:"uploads" doc:"The number of copies to the device in each run."`
	Downloads        int    `json:"downloads" doc:"The number of copies to the host in each run."`
	TransferredBytes int    `json:"transferred_bytes" doc:"The bytes of uploads and downloads."`
}

// Costs returns the summary of a plan; zero for nil.
func (p *Plan) Costs() Costs {
	if p == nil {
		return Costs{}
	}
	c := Costs{Copies: len(p.Copies), MovedBytes: p.MovedBytes, Elided: len(p.Elided), Steps: len(p.Steps),
		PeakBytes: p.PeakBytes, PeakWithWeights: p.PeakBytes + p.Memory.Constants + p.Memory.Packed, Memory: p.Memory,
		CostNS: p.CostNS, PlanMS: p.PlanMS, Places: p.places()}
	for _, copied := range p.Copies {
		c.CopiedBytes += copied.Bytes
	}
	return c
}

// places counts the steps and transfers of a device; nil without a device.
func (p *Plan) places() *Places {
	if p.Device == "" {
		return nil
	}
	places := &Places{Device: p.Device}
	for _, step := range p.Steps {
		if step.Device != "" {
			places.Steps++
		}
	}
	for _, copied := range p.Copies {
		switch copied.Transfer {
		case "":
			continue
		case "upload":
			places.Uploads++
		default:
			places.Downloads++
		}
		places.Steps-- // a transfer is a step, too
		places.TransferredBytes += copied.Bytes
	}
	return places
}
