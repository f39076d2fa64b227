package layout

import (
	"fmt"
	"math"
)

// This file estimates the other memory of a plan, that is, the memory of a run except the constants. The search for the
// cheapest plan within a memory limit ([Model.CheapestWithin]) needs the estimate before it examines the plan.
//
// The other memory of a run is the greatest need of any step. The need of a step depends on the label of its node (the
// way to compute the node). It is at most the other memory of each examined plan in which the node has this label. The
// least of these upper bounds is recorded for a level: a class of equal nodes, and the bytes of constants that a node
// of the class reads.
//
// For example, let two equal convolutions each read 4 MB or 9 MB of constants. A plan with 4 MB and 9 MB needs 30 MB of
// other memory, so that both levels have the bound 30 MB. If a plan with 4 MB for both convolutions needs 20 MB, the
// bound of the level with 4 MB becomes 20 MB.
//
// The state of the search is a memorySearch. These fields are used here:
//
//   - bytesByLabel: by node and label, the bytes of constants that the label reads; nil for a node with a single label
//   - runBytesByLabels: the examined plans, with the bytes of a run
//   - smallest: the plan with the smallest constants; its unusedBytes are the limit minus the bytes of a run
//   - classes and otherBytes: the class of each node, and the recorded bounds

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
	return s.limit - s.smallest.unusedBytes - s.smallest.constantBytes
}

// levelOf returns the level of a node that reads as many bytes of constants as the limit allows.
func (s *memorySearch) levelOf(limit nodeLimit) classLevel {
	return classLevel{s.classes[limit.node], limit.bytes}
}

// measureOtherBytes examines a plan for each level of nodeLimits without a record, at most maxMeasured plans. Each plan
// differs in one node from the plan with the smallest constants.
func (s *memorySearch) measureOtherBytes(nodeLimits []nodeLimit) error {
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
		if _, err := s.tryLimits(limits, math.MaxInt64); err != nil { // examines the plan with these limits
			return err
		}
	}
	return nil
}
