package layout

import (
	"fmt"
	"math"
)

// This file estimates the other memory of a plan, that is, the memory of a run except the constants. The search for the
// cheapest plan within a memory limit ([Model.CheapestWithin]) needs the estimate before it examines the plan.
//
// The other memory of a run is the greatest need of any step, and each node that computes is a step. The need of a node
// depends on how the node is computed, and so does the number of bytes of constants that the node reads. A level is a
// class of equal nodes together with such a number of bytes. An examined plan with 30 MB of other memory shows that the
// levels of its nodes need at most 30 MB. The least of these upper bounds is recorded for each level.
//
// For example, let two equal convolutions each read 4 MB or 9 MB of constants, and let two plans be examined:
//
//	plan           other memory   bound of level 4 MB   bound of level 9 MB
//	4 MB and 9 MB  30 MB          30 MB                 30 MB
//	4 MB and 4 MB  20 MB          20 MB                 30 MB
//
// Other files define these types and methods:
//
//   - memorySearch: the state of the search. limit is the maximum number of bytes of a run. bytesByLabel has, by node
//     and label (a way to compute the node), the bytes of constants that the label reads; it is nil for a node with a
//     single label or without constants. runBytesByLabels has the examined plans. classes has the class of each node.
//     otherBytes has the bounds.
//   - pricedPlan: a plan. constantBytes are the bytes of its constants, and unusedBytes the limit minus the bytes of a
//     run. The plan memorySearch.smallest has the smallest constants.
//   - nodeLimit: a node, and a limit on the bytes of constants that this node reads.
//   - limitsOf: returns, by node, the bytes of constants that a plan reads. As limits, they permit this plan.
//   - tryLimits: finds the cheapest plan within such limits and examines it.

// classLevel is a class of nodes, and a number of bytes of constants that such a node can read. Nodes of a class have
// results of equal size, and labels with equal bytes and costs. Their kernels probably need equal scratch memory.
type classLevel struct {
	class, bytes int64
}

// findClasses sets the class of each node that has a choice.
func (s *memorySearch) findClasses() {
	s.classes = make([]int64, len(s.bytesByLabel))
	classOf := map[string]int64{} // by the properties that nodes of a class have in common
	for i, bytesByLabel := range s.bytesByLabel {
		if bytesByLabel == nil {
			continue
		}
		computed := s.model.computedNodes[i]
		resultBytes := int64(0)
		for _, v := range computed.node.Out {
			resultBytes += int64(v.Meta.Bytes())
		}
		properties := []int64{resultBytes}
		for label, bytes := range bytesByLabel {
			properties = append(properties, bytes, computed.labels[label].leastCost())
		}
		text := fmt.Sprint(properties)
		if _, known := classOf[text]; !known {
			classOf[text] = int64(len(classOf))
		}
		s.classes[i] = classOf[text]
	}
}

// recordOtherMemory records the other memory of a plan for the levels of its nodes. A run of the plan needs runBytes
// bytes.
func (s *memorySearch) recordOtherMemory(plan *pricedPlan, runBytes int64) {
	otherBytes := runBytes - plan.constantBytes
	for i, bytes := range s.limitsOf(plan) {
		if s.bytesByLabel[i] != nil {
			level := classLevel{s.classes[i], bytes}
			if least, known := s.otherBytes[level]; !known || otherBytes < least {
				s.otherBytes[level] = otherBytes
			}
		}
	}
}

// otherBytesOf returns the recorded other memory for the level of a limit, in bytes. If there is none, it returns the
// other memory of the plan with the smallest constants.
func (s *memorySearch) otherBytesOf(limit nodeLimit) int64 {
	if other, known := s.otherBytes[s.levelOf(limit)]; known {
		return other
	}
	runBytes := s.limit - s.smallest.unusedBytes
	return runBytes - s.smallest.constantBytes
}

// levelOf returns the level of a node whose constants have exactly the bytes of the limit.
func (s *memorySearch) levelOf(limit nodeLimit) classLevel {
	return classLevel{s.classes[limit.node], limit.bytes}
}

// measureOtherBytes examines plans to record bounds for the levels of nodeLimits that have none: one plan for each
// level, but at most maxMeasured plans. Each plan differs in one node from the plan with the smallest constants.
func (s *memorySearch) measureOtherBytes(nodeLimits []nodeLimit) error {
	const anyCost = math.MaxInt64 // tryLimits examines a plan of any cost
	lastCount := len(s.runBytesByLabels) + maxMeasured
	for _, limit := range nodeLimits {
		if _, known := s.otherBytes[s.levelOf(limit)]; known {
			continue
		}
		if len(s.runBytesByLabels) >= lastCount {
			break
		}
		limits := s.limitsOf(s.smallest)
		limits[limit.node] = limit.bytes
		if _, err := s.tryLimits(limits, anyCost); err != nil { // tryLimits calls recordOtherMemory
			return err
		}
	}
	return nil
}
