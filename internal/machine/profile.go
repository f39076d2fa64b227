package machine

// Profile is what a machine was measured to do, on one core: the prices of work. Numbers are a
// nanosecond's, but for those named NS. Everything that weighs one way to compute against
// another reads it: prices of implementations, the tiling of matrix products, grains.
//
// Prices choose among implementations, which may round differently; within one no number of a profile
// may decide bits of a result. What does, such as the cuts of reductions and the depth of a product's
// blocks, is a constant where it is, and goes by shape alone.
type Profile struct {
	// Bytes by kind of access: dense, strided, gathered.
	Bytes [3]float64
	// Ops by kind: simple ones, those of matrix products as a whole, functions.
	Ops [3]float64
	// MACs are multiply-adds of 32-bit floats in the innermost loop of a matrix product, with
	// operands that are packed and near.
	MACs float64
	// StepNS is what it takes to begin a step, ChunkNS to hand a chunk of a step to a worker,
	// and PhaseNS to wait for all chunks of a phase before the next one.
	StepNS, ChunkNS, PhaseNS float64
	// ShareNS is the work that is worth handing to a worker that is awake, WakeNS the time that must be saved for it to
	// be worth waking some; 0 stands for what the default profile says.
	ShareNS, WakeNS float64
	// Cache is the bytes of a core's own caches: L1 for data, and L2.
	Cache [2]int
	// Far is the bytes of a result that is better written past the caches: beside what it is made of, it would
	// not stay in the last of them.
	Far int
}

// DefaultProfile is that of a desktop processor (the rates are those of a Zen 5 core, the caches
// those that most have). It sets the scale only: decisions compare like with like.
func DefaultProfile() *Profile {
	return &Profile{Bytes: [3]float64{64, 16, 4}, Ops: [3]float64{2.5, 200, 0.2}, MACs: 96,
		StepNS: 200, ChunkNS: 425, PhaseNS: 1280,
		ShareNS: 5e3, WakeNS: 5e4, Cache: [2]int{32 << 10, 1 << 20}, Far: 16 << 20}
}

// NS prices bytes by access, operations by kind, and steps. Memory that is gone through in order is read
// while the core computes, so that only what takes longer counts; other accesses it waits for.
func (p *Profile) NS(bytes, ops [3]float64, steps float64) float64 {
	var wait, compute float64
	for i, b := range bytes[1:] {
		wait += b / p.Bytes[1+i]
	}
	for i, o := range ops {
		compute += o / p.Ops[i]
	}
	return steps*p.StepNS + wait + max(bytes[0]/p.Bytes[0], compute)
}
