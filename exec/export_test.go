package exec

// Sections returns where sections begin and end, and which of them are shared.
func (p *Program) Sections() (bounds [][2]int, shared []bool) {
	for _, s := range p.sections {
		bounds, shared = append(bounds, [2]int{s.first, s.end}), append(shared, s.shared != nil)
	}
	return bounds, shared
}

// Unordered returns pairs of steps that use the same bytes of the arena for different storages, and neither of which
// waits for the other.
func (p *Program) Unordered() (pairs [][2]int) {
	after := make([]map[int]bool, len(p.steps)) // by step: those that wait for it
	for i := len(p.steps) - 1; i >= 0; i-- {
		after[i] = map[int]bool{}
		for _, n := range p.steps[i].waitingSteps {
			after[i][int(n)] = true
			for k := range after[n] {
				after[i][k] = true
			}
		}
	}
	apart := func(a, b int) bool {
		x, y := &p.storages[a], &p.storages[b]
		return a == b || x.kind != inArena || y.kind != inArena || x.arenaOffset+x.bytes <= y.arenaOffset ||
			y.arenaOffset+y.bytes <= x.arenaOffset
	}
	for i := range p.steps {
		for j := range i {
			if after[j][i] {
				continue
			}
			for _, a := range p.steps[i].addresses {
				for _, b := range p.steps[j].addresses {
					if a.storage >= 0 && b.storage >= 0 && !apart(a.storage, b.storage) {
						pairs = append(pairs, [2]int{j, i})
					}
				}
			}
		}
	}
	return pairs
}

// IdleSessions returns the number of sessions that the program keeps for later runs.
func (p *Program) IdleSessions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idleSessions)
}
