package exec

// Sections returns where sections begin and end, and which of them are shared.
func (p *Program) Sections() (bounds [][2]int, shared []bool) {
	for _, s := range p.sections {
		bounds, shared = append(bounds, [2]int{s.first, s.end}), append(shared, s.shared != nil)
	}
	return bounds, shared
}
