package exec

import (
	"cmp"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/workerpool"
	"github.com/graphrun/graphrun/pricing"
)

// This file divides the steps of a program into serial and shared sections, by estimates of their times. For example,
// cheap steps 0 to 4 are a serial section, and large products of matrices in steps 5 to 9 are a shared section.

// section is a range of steps that starts when all earlier steps are done. One worker runs a serial section in order,
// without counters or notifications, so that cheap steps cost no more than with a single thread. Several workers run a
// shared section: they run independent steps concurrently, and divide the chunks of a step among themselves.
type section struct {
	first, end int                    // steps [first, end)
	shared     *sharing               // nil for a serial section
	nextPolicy workerpool.StartPolicy // for a serial section: whether its start wakes workers for the next section
}

// sharing describes a shared section. All costs are estimates.
type sharing struct {
	waitCounts  []int32                  // indexed by step: number of steps in the section that the step waits for
	costsNS     []float64                // indexed by step: time on one worker, in nanoseconds
	policies    []workerpool.StartPolicy // indexed by step: whether the steps from this one on justify starting workers
	maxPolicy   workerpool.StartPolicy   // the maximum of policies
	minSharedNS float64                  // minimum work, in nanoseconds, that is given to another awake worker
}

// minSerialSteps is the number of consecutive serial steps that end a shared section. A serial step costs some tens of
// nanoseconds more in a shared section than in a serial one.
const minSerialSteps = 8

// wakeAheadNS is approximately the time in nanoseconds from waking a worker until it starts.
const wakeAheadNS = 1e5

// wakeWindow limits the period in which savings are counted, as a multiple of the minimum saving. Workers are woken
// if they save at least the minimum within this period. A longer period would be useless, because idle workers stop
// again before its end.
const wakeWindow = 4

// If workers save at least the minimum saving divided by trialDivisor, they are woken on trial
// ([workerpool.StartIfUsedRecently]). With the default profile, this threshold is 10 us.
const trialDivisor = 5

// cutSections divides the steps into sections. The memory plan must be complete, because it adds dependencies. The
// stages are: estimate the time of each step (stepCostsNS), choose the steps whose chunks are distributed
// (chooseSplits), estimate what sharing saves (savings), decide where workers are woken (wakePolicies), and start a
// shared section at each step for which sharing saves time. Steps with a kernel of the base have its times.
func (p *Program) cutSections(profile *pricing.Profile, base *Program) {
	count := len(p.steps)
	if p.threads == 1 || count == 0 {
		p.sections = []section{{end: count}} // one serial section with all steps
		return
	}
	if profile == nil {
		profile = pricing.SharedDefaultProfile()
	}
	whole := sharing{minSharedNS: cmp.Or(profile.ShareNS, pricing.DefaultShareNS)} // the sharing of all steps
	whole.costsNS = p.stepCostsNS(profile, whole.minSharedNS, base)
	p.costsNS = whole.costsNS
	isSplit := p.chooseSplits(whole.costsNS, whole.minSharedNS)
	savedNS := p.savings(whole.costsNS, isSplit, whole.minSharedNS)
	whole.policies = wakePolicies(whole.costsNS, savedNS, cmp.Or(profile.WakeNS, pricing.DefaultWakeNS))
	covered := 0 // end of the last section so far
	for first := 0; first < count; {
		if savedNS[first] == 0 { // no shared section starts here
			first++
			continue
		}
		end := sharedEnd(savedNS, first)
		if first > covered {
			p.addSerial(whole.costsNS, covered, first, whole.policies[first])
		}
		p.sections = append(p.sections, section{first: first, end: end, shared: p.sectionSharing(whole, first, end)})
		covered, first = end, end
	}
	if covered < count {
		p.sections = append(p.sections, section{first: covered, end: count})
	}
	if len(p.sections) > 1 || p.sections[0].shared != nil {
		p.setParts(isSplit)
	}
}

// sharedEnd returns the end of the shared section that starts at step first. It ends before minSerialSteps consecutive
// steps for which sharing saves nothing.
func sharedEnd(savedNS []float64, first int) int {
	end := first + 1
	for later := end; later < len(savedNS) && later < end+minSerialSteps; later++ {
		if savedNS[later] > 0 {
			end = later + 1
		}
	}
	return end
}

// maxElementNS is an upper estimate of the time for one element of a pointwise step, in nanoseconds.
const maxElementNS = 20

// stepCostsNS estimates the time of each step on one worker, in nanoseconds.
func (p *Program) stepCostsNS(profile *pricing.Profile, minSharedNS float64, base *Program) []float64 {
	costsNS := make([]float64, len(p.steps))
	forEachBatch(len(costsNS), p.threads, func(begin, end int) {
		for i := begin; i < end; i++ {
			if base != nil && len(base.costsNS) == len(costsNS) && base.steps[i].kernel == p.steps[i].kernel {
				costsNS[i] = base.costsNS[i]
				continue
			}
			costsNS[i] = p.steps[i].costNS(profile, minSharedNS)
		}
	})
	return costsNS
}

// costNS estimates the time of a step on one worker, in nanoseconds. The code of a compiled kernel gives its
// arithmetic. For other kernels the number of chunks gives a lower estimate, even if the op states no work. The stated
// work of small pointwise steps is ignored, because they are not worth sharing.
func (st *step) costNS(profile *pricing.Profile, minSharedNS float64) (ns float64) {
	if st.node.Impl.OnDevice() {
		return 0 // no worker computes
	}
	ns = max(st.kernel.Arithmetic, 0)
	isCompiled := ns > 0
	if !isCompiled {
		// Without a stated time, a chunk is assumed to take ten times its overhead.
		chunkNS := 10 * cmp.Or(profile.ChunkNS, pricing.DefaultChunkNS)
		for _, phase := range st.kernel.Phases {
			ns += float64(float64(max(phase.Chunks-1, 0)) * chunkNS) // float64(...) prevents fused multiply-adds
		}
	}
	isSmallPointwise := st.kernel.Loop != nil && float64(st.kernel.Loop.Numel())*maxElementNS < minSharedNS
	if isSmallPointwise {
		return ns
	}
	onlyMemory := isCompiled // ns has the arithmetic
	return max(ns, workNS(st.node, profile, onlyMemory))
}

// workNS estimates a node's time from the work that its implementation states ([graph.Impl.Work]). If onlyMemory is
// true, only memory accesses count. It returns 0 if the implementation states no work.
func workNS(n *graph.Node, profile *pricing.Profile, onlyMemory bool) (ns float64) {
	defer func() { _ = recover() }() // a panic in Work must not fail the compilation
	call := n.Call()
	impl := n.Op.Fitting(call)
	if impl == nil || impl.Work == nil {
		return 0
	}
	price := func(work pricing.Work) float64 {
		work.StartedSteps = 0 // workers cannot share the cost of starting a step
		if onlyMemory {
			work.Parts = [len(work.Parts)]pricing.Part{} // the computations; the rest of the work is memory accesses
		}
		return profile.PriceNS(work)
	}
	ns = price(impl.Work(call, call.Walk))
	operandWork := impl.OperandWorkFunc(call, call.Walk)
	for i, operand := range call.In {
		if operand.Kind == graph.TensorArg {
			if work, ok := operandWork(i, operand.Meta()); ok {
				ns += price(work)
			}
		}
	}
	return ns
}

// savings estimates the time that sharing saves for each step. Distributing the chunks of a step to n workers saves
// (n-1)/n of its time. Two successive steps that are worth sharing may run concurrently if the second does not wait for
// the first. This saves the time of the cheaper step. Each of the two steps gets half of the saving: of two independent
// steps of 60 and 40 us, each saves 20 us. If several savings apply to a step, the greatest counts.
func (p *Program) savings(costsNS []float64, isSplit []bool, minSharedNS float64) []float64 {
	savedNS := make([]float64, len(p.steps))
	// depth[i] is the length of the longest chain of dependent steps that ends at step i. Only steps that are worth
	// sharing count. If step i is worth sharing and depends on step k, depth[i] is greater than depth[k].
	depth := make([]int32, len(p.steps))
	previous := -1 // the last step before i that is worth sharing
	for i := range p.steps {
		step := &p.steps[i]
		if costsNS[i] >= minSharedNS {
			depth[i]++
			if isSplit[i] {
				savedNS[i] = costsNS[i] * (1 - 1/float64(min(step.chunkCount(), p.threads)))
			}
			isConcurrent := previous >= 0 && depth[i] <= depth[previous] // step i does not wait for the previous step
			if isConcurrent {
				halfNS := min(costsNS[i], costsNS[previous]) / 2
				savedNS[i], savedNS[previous] = max(savedNS[i], halfNS), max(savedNS[previous], halfNS)
			}
			previous = i
		}
		for _, k := range step.waitingSteps {
			depth[k] = max(depth[k], depth[i])
		}
	}
	return savedNS
}

// chunkCount returns the greatest number of chunks of a phase, at least 1.
func (st *step) chunkCount() int {
	chunks := 1
	for _, phase := range st.kernel.Phases {
		chunks = max(chunks, phase.Chunks)
	}
	return chunks
}

// wakePolicies returns, for each step, whether workers are woken at its start. It compares the time that the workers
// save in the following period (see wakeWindow) with wakeNS, the minimum saving in nanoseconds.
func wakePolicies(costsNS, savedNS []float64, wakeNS float64) []workerpool.StartPolicy {
	list := make([]workerpool.StartPolicy, len(costsNS))
	// The map has the minimum saving of each policy. Its order does not matter, because the greater policy wins.
	for policy, minSaving := range map[workerpool.StartPolicy]float64{
		workerpool.StartIfUsedRecently: wakeNS / trialDivisor, workerpool.StartAlways: wakeNS} {
		// The window is the steps [i, end). windowSaved is their total saving, windowNS their total time. The window
		// has step i even if this step alone exceeds the limit of the window.
		windowSaved, windowNS, end := 0.0, 0.0, 0
		for i := range costsNS {
			for end < len(costsNS) && (end <= i || windowNS+costsNS[end] <= wakeWindow*minSaving) {
				windowSaved, windowNS = windowSaved+savedNS[end], windowNS+costsNS[end]
				end++
			}
			if windowSaved >= minSaving {
				list[i] = max(list[i], policy)
			}
			windowSaved, windowNS = windowSaved-savedNS[i], windowNS-costsNS[i]
		}
	}
	return list
}

// addSerial adds the serial steps from first to end, which precede a section with the given policy. Workers are woken
// about wakeAheadNS before the last of these steps ends. At this point, the steps are divided into two sections.
func (p *Program) addSerial(costsNS []float64, first, end int, policy workerpool.StartPolicy) {
	remainingNS, wakeStep := 0.0, end
	for wakeStep > first && remainingNS < wakeAheadNS {
		wakeStep--
		remainingNS += costsNS[wakeStep]
	}
	if wakeStep > first {
		p.sections = append(p.sections, section{first: first, end: wakeStep})
	}
	p.sections = append(p.sections, section{first: wakeStep, end: end, nextPolicy: policy})
}

// sectionSharing returns the part of programSharing, the sharing of the whole program, that describes the steps [first,
// end).
func (p *Program) sectionSharing(programSharing sharing, first, end int) *sharing {
	policies := programSharing.policies[first:end]
	result := sharing{waitCounts: make([]int32, end-first), costsNS: programSharing.costsNS[first:end], policies: policies,
		maxPolicy: slices.Max(policies), minSharedNS: programSharing.minSharedNS}
	for i := first; i < end; i++ {
		for _, k := range p.steps[i].waitingSteps {
			if int(k) < end {
				result.waitCounts[int(k)-first]++
			}
		}
	}
	return &result
}

// setParts sets partOffsets. A part is the group of chunks with which one worker starts. In shared sections, a phase of
// a split step gets one part per worker, but at most one per chunk. Other phases, and phases of one chunk, get no
// parts: one worker runs all their chunks.
func (p *Program) setParts(isSplit []bool) {
	p.partOffsets = make([]int, p.phaseCount+1)
	for _, section := range p.sections {
		for i := section.first; i < section.end && section.shared != nil; i++ {
			step := &p.steps[i]
			for k, phase := range step.kernel.Phases {
				if phase.Chunks > 1 && isSplit[i] {
					p.partOffsets[step.firstPhase+k+1] = min(p.threads, phase.Chunks) // the number of parts of phase k
				}
			}
		}
	}
	for i := range p.phaseCount { // prefix sums of the numbers of parts
		p.partOffsets[i+1] += p.partOffsets[i]
	}
}

// This part chooses the split steps: the steps whose chunks are distributed to several workers. It estimates the time
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
