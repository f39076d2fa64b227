package graphrun

// PlanCosts are what a plan costs besides time.
type PlanCosts struct {
	Copies      int `json:"copies" doc:"How many copies were inserted."`
	CopiedBytes int `json:"copied_bytes" doc:"The bytes that they copy."`
	MovedBytes  int `json:"moved_bytes" doc:"The bytes of all that steps read and of all that they make, each operand once."`
	Elided      int `json:"elided" doc:"How many nodes were found to be needless."`
	Steps       int `json:"steps" doc:"How many steps run."`
	PeakBytes   int `json:"peak_bytes" doc:"Memory of the arena, the outputs and the scratch of one worker."`
	// PeakWithWeights leaves out the inputs, which are the caller's.
	PeakWithWeights int          `json:"peak_with_weights_bytes" doc:"That memory and that of the constants, packed ones too."`
	Memory          MemoryReport `json:"memory" doc:"What a run needs in all."`
	CostNS          float64      `json:"cost_ns" doc:"What the plan is estimated to cost, in nanoseconds."`
	PlanMS          float64      `json:"plan_ms" doc:"How long planning and compiling took, in milliseconds."`
}

// Costs sums up what a plan costs; zero for nil.
func (r *Report) Costs() PlanCosts {
	if r == nil {
		return PlanCosts{}
	}
	c := PlanCosts{Copies: len(r.Copies), MovedBytes: r.MovedBytes, Elided: len(r.Elided), Steps: len(r.Steps),
		PeakBytes: r.PeakBytes, PeakWithWeights: r.PeakBytes + r.Memory.Constants + r.Memory.Packed, Memory: r.Memory,
		CostNS: r.CostNS, PlanMS: r.PlanMS}
	for _, copied := range r.Copies {
		c.CopiedBytes += copied.Bytes
	}
	return c
}
