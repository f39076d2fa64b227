package machine

// Profile is what a machine was measured to do, on one core: the prices of work. Numbers are a
// nanosecond's.
type Profile struct {
	// Bytes by kind of access: dense, strided, gathered.
	Bytes [3]float64
	// Ops by kind: simple ones, those of matrix products, functions.
	Ops [3]float64
	// StepNS is what it takes to begin a step.
	StepNS float64
}

// DefaultProfile is that of a desktop processor. It sets the scale only: decisions compare like
// with like.
func DefaultProfile() *Profile {
	return &Profile{Bytes: [3]float64{64, 12, 4}, Ops: [3]float64{2.5, 200, 0.2}, StepNS: 200}
}

// NS prices bytes by access, operations by kind, and steps: memory or arithmetic, whichever takes
// longer.
func (p *Profile) NS(bytes, ops [3]float64, steps float64) float64 {
	var move, compute float64
	for i, b := range bytes {
		move += b / p.Bytes[i]
	}
	for i, o := range ops {
		compute += o / p.Ops[i]
	}
	return steps*p.StepNS + max(move, compute)
}
