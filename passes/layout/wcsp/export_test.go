package wcsp

// SolveCutShort is Exact.Solve with a proof, whose search ends when tables have so many entries together.
func SolveCutShort(p *Problem, options Options, entries int) (*Solution, error) {
	options.Proof = true
	s := newSearch(options)
	s.proofEntries = maxProofEntries - entries
	return s.solve(p)
}
