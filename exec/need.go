package exec

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes the memory that a run needs, by purpose, and compares it with the limit. The need is compared
// twice: a lower bound (minNeed) before the graph is compiled, and the exact need (computeNeed) afterwards.

// Need is the memory of a run in bytes, by purpose: the document except its total and its largest values. Constants
// contains the original data of packed constants that cannot be unpacked (Originals), and Packed the constants of
// kernels.
type Need struct {
	report.Memory
	// Largest lists the largest values in descending order of size. Values in the arena need not be live at the same
	// time.
	Largest []Holding
}

// Holding is a value that takes memory.
type Holding struct {
	report.Holding // Kind is "input", "constant", "packed weight", "output" or "value"
	Meta           tensor.Meta
}

// String describes the value and its size.
func (h Holding) String() string {
	return fmt.Sprintf("%s %q (%v%s, %s)", h.Kind, h.Name, h.Meta.DType, tensor.ListString(h.Meta.Shape),
		machine.Bytes(h.Bytes))
}

// maxHoldings is the maximum number of values that a Need names.
const maxHoldings = 5

// addHolding records a value that takes memory.
func (n *Need) addHolding(kind string, v *graph.Value, bytes int) {
	isAmongLargest := len(n.Largest) < maxHoldings || bytes > n.Largest[maxHoldings-1].Bytes
	if bytes == 0 || !isAmongLargest {
		return
	}
	n.Largest = append(n.Largest, Holding{report.Holding{Kind: kind, Name: v.Name, Bytes: bytes}, v.Meta})
	n.sortLargest()
}

// sortLargest sorts Largest and truncates it to maxHoldings.
func (n *Need) sortLargest() {
	sorted.Func(n.Largest, func(a, b Holding) int { return cmp.Compare(b.Bytes, a.Bytes) })
	n.Largest = n.Largest[:min(len(n.Largest), maxHoldings)]
}

// AddInput adds the memory of an input. A nil input takes no memory.
func (n *Need) AddInput(v *graph.Value) {
	if v == nil {
		return
	}
	bytes := storageBytes(v)
	n.Inputs = sum(n.Inputs, bytes)
	n.addHolding("input", v, bytes)
}

// storageBytes returns the size of a value in bytes, including gaps between elements.
func storageBytes(v *graph.Value) int { return v.Meta.Extent() * v.Meta.DType.Size() }

// sum returns the sum of sizes, or math.MaxInt if the sum overflows.
func sum(sizes ...int) int {
	total := 0
	for _, size := range sizes {
		if size > math.MaxInt-total {
			return math.MaxInt
		}
		total += size
	}
	return total
}

// Total returns the sum of all parts.
func (n Need) Total() int {
	return sum(n.Inputs, n.Constants, n.Packed, n.Arena, n.Outputs, n.Scratch)
}

// Held returns the memory that the process holds after compilation.
func (n Need) Held() int { return n.Constants + n.Packed }

// Category is one part of a [Need].
type Category struct {
	Name  string
	Bytes int
}

// Categories lists the nonzero parts.
func (n Need) Categories() []Category {
	return slices.DeleteFunc([]Category{{"inputs", n.Inputs}, {"constants", n.Constants}, {"packed weights", n.Packed},
		{"arena", n.Arena}, {"outputs", n.Outputs}, {"scratch", n.Scratch}}, func(c Category) bool { return c.Bytes == 0 })
}

// String lists the nonzero parts with their sizes, such as "inputs 1.5 MiB, arena 3 MiB".
func (n Need) String() string {
	var texts []string
	for _, c := range n.Categories() {
		texts = append(texts, c.Name+" "+machine.Bytes(c.Bytes))
	}
	if texts == nil {
		return "nothing"
	}
	return strings.Join(texts, ", ")
}

// CombinedNeed returns the need of several programs of the same graph that run concurrently. Their runs share inputs
// and constants.
func CombinedNeed(programs ...*Program) Need {
	var total Need
	isListed := map[string]bool{}
	for _, p := range programs {
		n := p.need
		total.Inputs, total.Constants = max(total.Inputs, n.Inputs), max(total.Constants, n.Constants)
		total.Originals = max(total.Originals, n.Originals)
		total.Packed, total.Arena = sum(total.Packed, n.Packed), sum(total.Arena, n.Arena)
		total.Outputs, total.Scratch = sum(total.Outputs, n.Outputs), sum(total.Scratch, n.Scratch)
		total.DeviceConstants = max(total.DeviceConstants, n.DeviceConstants)
		total.DeviceArena = sum(total.DeviceArena, n.DeviceArena)
		for _, h := range n.Largest {
			if !isListed[h.Name] {
				isListed[h.Name] = true
				total.Largest = append(total.Largest, h)
			}
		}
	}
	total.sortLargest()
	return total
}

// MemoryError reports that a run needs more memory than the limit.
type MemoryError struct {
	Need  Need
	Held  int    // part of the need that the process already occupies, in bytes
	Left  int    // memory available in addition to Held, in bytes
	Limit int    // the limit in bytes
	From  string // origin of the limit
}

// Error gives the total, the limit, and the largest values.
func (e *MemoryError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "a run needs %s of memory", machine.Bytes(e.Need.Total()))
	if e.Held > e.Need.Total()/100 {
		fmt.Fprintf(&b, ", of which %s are taken already", machine.Bytes(e.Held))
	}
	fmt.Fprintf(&b, " (%v): %v", e.Need, machine.Limit{Available: e.Left, Total: e.Limit, Name: e.From})
	for i, h := range e.Need.Largest {
		if i > 0 && h.Bytes < e.Need.Total()/100 {
			break
		}
		if i == 0 {
			b.WriteString("; the largest values are ")
		} else {
			b.WriteString("; ")
		}
		b.WriteString(h.String())
	}
	return b.String()
}

// uncheckedBytes is the need in bytes below which the memory limit of the process is not queried, because the query
// takes longer than compiling a small graph.
const uncheckedBytes = 64 << 20

// Check returns a [*MemoryError] if the need exceeds the limit, as defined in [Options.MemoryLimit]. held is the part
// of the need that the process already holds.
func (n Need) Check(limit, held int) error {
	total := n.Total()
	switch {
	case limit < 0, limit == 0 && total-held < uncheckedBytes: // no limit, or no query of the limit for a small need
		return nil
	case limit > 0:
		if total > limit {
			return &MemoryError{Need: n, Held: held, Left: max(limit-held, 0), Limit: limit,
				From: "the memory limit of the program's options"}
		}
		return nil
	}
	if fromMachine, ok := machine.Fits(total - held); !ok {
		return &MemoryError{Need: n, Held: held, Left: fromMachine.Available, Limit: fromMachine.Total,
			From: fromMachine.Name}
	}
	return nil
}

// Need returns the memory that a run of the program takes. See [Options.MemoryLimit].
func (p *Program) Need() Need {
	need := p.need
	need.Largest = slices.Clone(need.Largest)
	return need
}

// computeNeed computes the program's need of memory. It counts each storage by its kind: input, output, arena, constant
// or packed constant.
func (p *Program) computeNeed() {
	onDevice := p.deviceNeed()
	need := Need{Memory: report.Memory{Arena: p.arenaSize, Scratch: p.workerBytes * p.threads,
		DeviceConstants: onDevice.Constants, DeviceArena: onDevice.Arena}}
	counted := map[*tensor.Storage]bool{} // constants that share memory count once
	for _, storage := range p.storages {
		if storage.place != tensor.Host {
			continue
		}
		switch storage.kind {
		case inInput:
			need.AddInput(storage.root)
		case inNewMemory:
			need.Outputs = sum(need.Outputs, storage.bytes)
			need.addHolding("output", storage.root, storage.bytes)
		case inArena:
			need.addHolding("value", storage.root, storage.bytes)
		case inConst:
			if !counted[storage.data.Storage()] {
				counted[storage.data.Storage()] = true
				need.addConstant(storage.root, storage.data.Storage().Len(), counted)
			}
		}
	}
	need.Outputs = sum(need.Outputs, p.outputPlan.copyBytes())
	p.need = need
}

// addConstant adds a constant. root is its value, or nil for a constant of a kernel. counted has the constants that are
// added already.
func (n *Need) addConstant(root *graph.Value, bytes int, counted map[*tensor.Storage]bool) {
	if root != nil && root.Packed == nil {
		n.Constants = sum(n.Constants, bytes)
		n.addHolding("constant", root, bytes)
		return
	}
	n.Packed = sum(n.Packed, bytes)
	if root != nil {
		n.addHolding("packed weight", root, bytes)
		n.addOriginal(root, counted)
	}
}

// addOriginal adds the original data of a packed constant, if they are kept.
func (n *Need) addOriginal(packed *graph.Value, counted map[*tensor.Storage]bool) {
	original := packed.Packed.Kept()
	if original == nil || counted[original.Storage()] {
		return
	}
	counted[original.Storage()] = true
	n.Constants = sum(n.Constants, original.Storage().Len())
	n.Originals = sum(n.Originals, original.Storage().Len())
}

// minNeed returns a lower bound on the need. The bound is known before compilation: inputs, constants, outputs, and the
// largest other value.
func minNeed(g *graph.Graph) Need {
	var n Need
	for _, v := range g.Inputs {
		n.AddInput(v)
	}
	for _, v := range g.Constants {
		n.Constants = sum(n.Constants, storageBytes(v))
	}
	outputs := planOutputs(g.Outputs)
	n.Outputs = outputs.copyBytes()
	for _, node := range g.Nodes {
		for _, v := range node.Out {
			switch bytes := storageBytes(v); {
			case v.Alias != nil || v.ContainedIn != nil || v.Place() != tensor.Host: // no host memory of its own
			case outputs.owned[v]:
				n.Outputs = sum(n.Outputs, bytes)
				n.addHolding("output", v, bytes)
			default:
				n.Arena = max(n.Arena, bytes)
				n.addHolding("value", v, bytes)
			}
		}
	}
	return n
}

// Lifetime describes a block of memory and the steps that use it. The block is in use from the first to the last of
// these steps.
type Lifetime struct {
	Bytes  int
	Output bool  // whether the caller owns the block after the run; otherwise it is in the arena
	Steps  []int // indices of the steps that use the block, ascending
}

// Lifetimes returns the lifetimes of a run's memory blocks. A block contains a value that a step computes, or the
// scratch memory that the workers of a step share. A result that overwrites an operand is in the block of the operand.
// Steps may run concurrently, so any of the listed steps may finish last.
func (p *Program) Lifetimes() []Lifetime {
	if p == nil {
		return nil
	}
	list := make([]Lifetime, 0, len(p.storages))
	listIndex := make([]int, len(p.storages)) // listIndex[s] is 1 + the index in list of storage s
	for i := range p.steps {
		step := &p.steps[i]
		for _, ref := range step.addresses {
			if ref.storage < 0 {
				continue
			}
			storage := &p.storages[ref.storage]
			isWrittenByStep := storage.kind == inArena || storage.kind == inNewMemory
			if !isWrittenByStep || storage.place != tensor.Host {
				continue
			}
			index := &listIndex[ref.storage]
			if *index == 0 {
				list = append(list, Lifetime{Bytes: storage.bytes, Output: storage.kind == inNewMemory})
				*index = len(list)
			}
			lifetime := &list[*index-1]
			if n := len(lifetime.Steps); n == 0 || lifetime.Steps[n-1] != i {
				lifetime.Steps = append(lifetime.Steps, i)
			}
		}
		if n := step.kernel.Scratch; n > 0 && step.kernel.Place == tensor.Host {
			list = append(list, Lifetime{Bytes: n, Steps: []int{i}})
		}
	}
	last := len(p.steps) - 1
	for k, index := range listIndex {
		if index > 0 && p.storages[k].lastStep > last { // outputs are copied from it after the last step
			if lifetime := &list[index-1]; lifetime.Steps[len(lifetime.Steps)-1] < last {
				lifetime.Steps = append(lifetime.Steps, last)
			}
		}
	}
	return list
}
