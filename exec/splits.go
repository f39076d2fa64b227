package exec

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
)

// This file chooses the split steps: the steps whose chunks are distributed to several workers. It estimates the time
// that the workers save, and the time to move data between their cores. For example, a cheap step between two split
// steps is also split: otherwise half of its operand and half of its result would move to another core.

// The costs of sharing, as fractions of the minimum work that is worth sharing. If the minimum is 5 us, distributing
// a phase costs 1 us and reading a cache line from another core costs 10 ns.
const (
	distributeDivisor = 5   // the cost of distributing a phase is the minimum divided by this
	lineDivisor       = 500 // the cost of reading a cache line that another core wrote last is the minimum divided by this
)

// maxPasses is the maximum number of passes over all steps in chooseSplits. Networks need two or three.
const maxPasses = 8

// chooseSplits chooses the split steps. costsNS has the cost of each step, and minSharedNS is the minimum cost that is
// worth sharing. With two workers, a split step takes about half as long, but data between a split step and another
// step moves between cores. The search starts with all steps that have enough work. It then splits further steps while
// the avoided transfers outweigh the costs. Finally it reverts splits while this saves time.
func (p *Program) chooseSplits(costsNS []float64, minSharedNS float64) []bool {
	isSplit := make([]bool, len(p.steps))
	gainsNS := make([]float64, len(p.steps)) // gainsNS[i] is the time that a split of step i saves, without transfers
	hasSeveralChunks := make([]bool, len(p.steps))
	for i := range p.steps {
		chunks, phases := p.steps[i].chunkCount(), 0
		for _, phase := range p.steps[i].kernel.Phases {
			if phase.Chunks > 1 {
				phases++
			}
		}
		hasSeveralChunks[i] = chunks > 1
		isSplit[i] = hasSeveralChunks[i] && costsNS[i] >= minSharedNS
		// n workers save (n-1)/n of the time, and each phase of several chunks must be distributed. The conversions
		// prevent fused multiply-adds, so that all processors choose the same steps.
		gainsNS[i] = float64(costsNS[i]*(1-1/float64(min(chunks, p.threads)))) -
			float64(float64(phases)*minSharedNS/distributeDivisor)
	}
	search := splitSearch{isSplit: isSplit, hasSeveralChunks: hasSeveralChunks, gainsNS: gainsNS,
		transfers: p.transfers(minSharedNS / lineDivisor)}
	const toSplit = true
	search.changeWhileFaster(toSplit)
	search.changeWhileFaster(!toSplit)
	return isSplit
}

// splitSearch improves the choice of split steps. All lists except transfers are indexed by step.
type splitSearch struct {
	isSplit          []bool
	hasSeveralChunks []bool
	gainsNS          []float64 // the time that a split of the step saves, without transfers
	transfers        []transfer
}

// changeWhileFaster splits steps (if toSplit is true) or reverts splits, until no change saves time.
func (s *splitSearch) changeWhileFaster(toSplit bool) {
	lossesNS := make([]float64, len(s.isSplit)) // the time that the transfers of a step add if the step is split
	for range maxPasses {
		clear(lossesNS) // computed once per pass: changes of a pass affect only the next pass
		for _, transfer := range s.transfers {
			lossesNS[transfer.from] += transfer.lossNS(s.isSplit[transfer.to])
			lossesNS[transfer.to] += transfer.lossNS(s.isSplit[transfer.from])
		}
		changed := false
		for i := range s.isSplit {
			isFasterSplit := s.gainsNS[i] >= lossesNS[i] // whether the step should be split
			if s.hasSeveralChunks[i] && isFasterSplit == toSplit && s.isSplit[i] != toSplit {
				s.isSplit[i], changed = toSplit, true
			}
		}
		if !changed {
			return
		}
	}
}

// transfer describes data that one step passes to another step. If only one of the two steps is split, half of the
// bytes move between cores.
type transfer struct {
	from, to int32   // indices of the steps
	ns       float64 // cost of moving half of the bytes
}

// lossNS returns the additional time of the transfer if one of its two steps is split. The loss is negative if the
// other step is already split, because no bytes move between cores if both steps are split.
func (t *transfer) lossNS(otherIsSplit bool) float64 {
	if otherIsSplit {
		return -t.ns
	}
	return t.ns
}

// transfers lists the data that steps read from each other. lineNS is the cost of moving a cache line in nanoseconds.
// If several steps write a value, only the last of them counts. Steps without work, such as concatenations whose
// operands are in place, are skipped.
func (p *Program) transfers(lineNS float64) []transfer {
	var list []transfer
	writer := make([]int32, len(p.storages)) // indexed by storage: 1 + the last step that writes it
	for i := range p.steps {
		step := &p.steps[i]
		if !step.hasChunks() {
			continue
		}
		outCount := len(step.node.Out)
		for k, address := range step.addresses[outCount:] {
			operand := &step.node.In[k]
			if address.storage >= 0 && operand.Kind == graph.TensorArg && writer[address.storage] > 0 {
				from := writer[address.storage] - 1
				// The step reads a part of the result, or the other step writes a part of the operand.
				bytes := min(operand.Meta().Bytes(), p.steps[from].node.Out[0].Meta.Bytes())
				list = append(list, transfer{from: from, to: int32(i), ns: float64(bytes/2/machine.LineBytes) * lineNS})
			}
		}
		for _, address := range step.addresses[:outCount] {
			isCache := address.storage >= 0 && p.storages[address.storage].kind == inInput // only its new elements are written
			if address.storage >= 0 && !isCache {
				writer[address.storage] = int32(i) + 1
			}
		}
	}
	return list
}

// hasChunks reports whether a step has any chunks.
func (st *step) hasChunks() bool {
	for _, phase := range st.kernel.Phases {
		if phase.Chunks > 0 {
			return true
		}
	}
	return false
}
