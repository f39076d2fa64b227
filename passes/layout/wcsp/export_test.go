package wcsp

// SolveCutShort is Exact.Solve with a proof, whose search ends when tables have so many entries together.
func SolveCutShort(p *Problem, o Options, entries int) (*Solution, error) {
	o.Proof = true
	s := newSearch(o)
	s.proofEntries = proofTables - entries
	return s.solve(p)
}
