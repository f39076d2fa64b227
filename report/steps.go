package report

// Step is one kernel call. The tag `of` names the set of a field's values for JSON Schemas.
type Step struct {
	Name      string   `json:"name" doc:"The name of the step."`
	Ops       []string `json:"ops" doc:"The nodes that it computes."`
	Op        string   `json:"op,omitzero" doc:"The op of its node; left out for several nodes."`
	Impl      string   `json:"impl,omitzero" doc:"The implementation of the op."`
	Device    string   `json:"device,omitzero" doc:"The device that computes it or that a transfer reads or writes; left out for the host."`
	Loop      *Loop    `json:"loop,omitzero" doc:"The loop over elements; left out for other kernels."`
	FastSetup string   `json:"fast_setup" of:"fast_setup" doc:"The fast path of TensorIterator that set up the loop."`
	CostNS    float64  `json:"cost_ns" doc:"The estimated cost of the step, in nanoseconds."`
	Bytes     int      `json:"bytes,omitzero" doc:"The bytes that it reads and writes, each operand once."`
	// MeasuredNS is nil in reports; a caller that measures steps may set it, as plan --measure does.
	MeasuredNS *float64 `json:"measured_ns,omitzero" doc:"The median of the measured times, in nanoseconds."`
	Work       []Work   `json:"work,omitzero" doc:"The work that is priced: first the work of the implementation, then the additional work for each operand."`
	Strides    []int    `json:"strides" doc:"The strides of its first output, in elements."`
	Buffer     int      `json:"buffer" doc:"The number of the buffer of its first output."`
}

// Loop is the iteration of a pointwise step.
type Loop struct {
	Shape   []int   `json:"shape" doc:"The coalesced shape, the fastest dimension first."`
	Strides [][]int `json:"strides" doc:"The byte strides of each operand, outputs first, in the same order of dimensions."`
}

// Work is an amount of work, in the units of a machine profile (`graphrun calibrate`). A profile has a price for
// each kind of memory access, for each inner kernel, and for starting a step. The price of an inner kernel is for one
// unit of its work, such as a multiply-add.
type Work struct {
	Footprint float64 `json:"footprint" doc:"The bytes of all memory that the step touches."`
	Steps     float64 `json:"steps" doc:"The number of steps that are started, each at a fixed price."`
	// For an operand, all fields are differences from the work for a dense operand. Bytes may then be negative.
	Bytes   map[string]float64 `json:"bytes" doc:"Bytes by the kind of access."`
	Kernels map[string]float64 `json:"kernels" doc:"Units of inner kernels that overlap with memory accesses."`
	Waits   map[string]float64 `json:"waits" doc:"Units of inner kernels that do not overlap with memory accesses."`
}

// Memory is the memory of a run in bytes, by purpose.
type Memory struct {
	Inputs          int       `json:"inputs" doc:"For the inputs."`
	Constants       int       `json:"constants" doc:"For the constants."`
	Originals       int       `json:"originals" doc:"The part of constants that no run reads: original weights that cannot be restored from their packed form."`
	Packed          int       `json:"packed" doc:"For packed constants."`
	Arena           int       `json:"arena" doc:"For the arena, which intermediate values share."`
	Outputs         int       `json:"outputs" doc:"For the outputs."`
	Scratch         int       `json:"scratch" doc:"For the scratch memory of all workers."`
	DeviceConstants int       `json:"device_constants,omitempty" doc:"Memory of the device for constants; not part of total."`
	DeviceArena     int       `json:"device_arena,omitempty" doc:"Memory of the device for the arena; not part of total."`
	Total           int       `json:"total" doc:"The sum."`
	Largest         []Holding `json:"largest" doc:"The largest values."`
}

// Holding is the memory of one value.
type Holding struct {
	Kind  string `json:"kind" doc:"Its purpose."`
	Name  string `json:"name" doc:"The value."`
	Bytes int    `json:"bytes" doc:"Its size."`
}
