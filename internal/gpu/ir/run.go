package ir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/jit/lane"
)

// Operand is memory for [Kernel.Run].
type Operand struct {
	Mem    []byte
	Offset int // the offset in Mem of the byte at the address of the kernel's parameter
}

// addressBits is the number of low bits of an address that hold the offset in an operand. The bits above hold 1 plus
// the index of the operand.
const addressBits = 48

// Run interprets the kernel for a number of groups, one after another. The threads of a group execute in lockstep: each
// instruction is executed by all threads that reach it before the next instruction. Run returns an error for
//   - an invalid kernel;
//   - an access outside of the memory of all operands, or without alignment;
//   - a barrier that not all threads reach;
//   - a race: two threads access the same element of the group's memory without a barrier between, and one writes.
func (k *Kernel) Run(groups int, operands []Operand) error {
	if err := k.Check(); err != nil {
		return err
	}
	if len(operands) != k.Params {
		return fmt.Errorf("ir: %d operands, the kernel has %d", len(operands), k.Params)
	}
	r := &run{Kernel: k, operands: operands, values: make([][]uint64, len(k.Insts)), ends: k.ends(),
		words: map[Value][][MaxWords]uint64{}}
	for v := range r.values {
		if r.values[v] = make([]uint64, k.GroupSize); k.Insts[v].Op == Load {
			r.words[Value(v)] = make([][MaxWords]uint64, k.GroupSize)
		}
	}
	for _, a := range k.Shared {
		r.shared = append(r.shared, make([]cell, a.Length))
	}
	all := slices.Repeat([]bool{true}, k.GroupSize)
	for r.group = range groups {
		for _, a := range r.shared {
			clear(a)
		}
		r.epoch = 1
		if err := r.block(0, len(k.Insts), all); err != nil {
			return err
		}
	}
	return nil
}

// cell is an element of the memory of a group. It records its last accesses, to detect races.
type cell struct {
	bits           uint64
	writer, reader int // the threads of the last write and the last read, plus 1; 0 for none
	// writeEpoch and readEpoch are the values of run.epoch at these accesses.
	writeEpoch, readEpoch     int
	severalReaders, isWritten bool // whether several threads read it in readEpoch; whether it was ever written
}

// run is the state of [Kernel.Run].
type run struct {
	*Kernel
	operands []Operand
	values   [][]uint64                   // indexed by value and thread
	words    map[Value][][MaxWords]uint64 // for each Load, indexed by thread
	ends     map[int]int                  // the result of Kernel.ends
	shared   [][]cell                     // indexed by array and element
	group    int                          // index of the group that runs
	epoch    int                          // 1 plus the number of barriers that the group has passed
}

// ends maps the index of each Loop, If and Else to the index of the Else or End that closes it.
func (k *Kernel) ends() map[int]int {
	ends, open := map[int]int{}, []int{}
	for v, i := range k.Insts {
		if i.Op == Else || i.Op == End {
			ends[open[len(open)-1]] = v
			open = open[:len(open)-1]
		}
		if i.Op == Loop || i.Op == If || i.Op == Else {
			open = append(open, v)
		}
	}
	return ends
}

// maxIterations bounds the iterations of a loop. Run returns an error for more.
const maxIterations = 1 << 20

// block executes the instructions with indices from `from` to end-1, in the threads that mask selects. A Break clears
// threads in mask.
func (r *run) block(from, end int, mask []bool) error {
	for v := from; v < end; v++ {
		inst := &r.Insts[v]
		switch inst.Op {
		case Loop:
			active := slices.Clone(mask)
			for n := 0; slices.Contains(active, true); n++ {
				if n == maxIterations {
					return fmt.Errorf("ir: the loop v%d does not end", v)
				}
				if err := r.block(v+1, r.ends[v], active); err != nil {
					return err
				}
			}
			v = r.ends[v]
		case If:
			next, err := r.conditional(v, mask)
			if err != nil {
				return err
			}
			v = next
		case Break:
			for thread := range mask {
				mask[thread] = mask[thread] && r.values[inst.Args[0]][thread] == 0
			}
		case Barrier:
			if slices.Contains(mask, false) {
				return fmt.Errorf("ir: v%d: only some threads reach the barrier", v)
			}
			r.epoch++
		default:
			for thread := range mask {
				if mask[thread] {
					if err := r.step(v, inst, thread); err != nil {
						return fmt.Errorf("ir: v%d (%v), group %d, thread %d: %w", v, inst.Op, r.group, thread, err)
					}
				}
			}
		}
	}
	return nil
}

// conditional executes an If, and returns the index of its End.
func (r *run) conditional(v int, mask []bool) (end int, err error) {
	chosen, others := slices.Clone(mask), slices.Clone(mask)
	for thread := range mask {
		holds := r.values[r.Insts[v].Args[0]][thread] != 0
		chosen[thread], others[thread] = mask[thread] && holds, mask[thread] && !holds
	}
	end = r.ends[v]
	if slices.Contains(chosen, true) {
		if err := r.block(v+1, end, chosen); err != nil {
			return 0, err
		}
	}
	if r.Insts[end].Op == Else {
		begin := end + 1
		if end = r.ends[end]; slices.Contains(others, true) {
			return end, r.block(begin, end, others)
		}
	}
	return end, nil
}

// step executes instruction v in one thread.
func (r *run) step(v int, inst *Inst, thread int) error {
	var args [3]uint64
	uses := inst.Uses()
	for k, u := range uses[:min(len(uses), len(args))] {
		args[k] = r.values[u][thread]
	}
	result := &r.values[v][thread]
	switch inst.Op {
	case Op(lane.Const):
		*result = inst.Imm
	case Op(lane.Lookup):
		*result = uint64(math.Float32bits(inst.Table[args[0]%uint64(len(inst.Table))]))
	case Param:
		*result = (inst.Imm+1)<<addressBits + uint64(r.operands[inst.Imm].Offset)
	case Thread:
		*result = uint64(thread)
	case Group:
		*result = uint64(r.group)
	case MulHigh:
		*result = args[0] * args[1] >> 32
	case Load, Store:
		return r.access(v, inst, thread, args[0])
	case Part:
		*result = r.words[inst.Args[0]][thread][inst.Imm]
	case Var, Get:
		*result = args[0]
	case Set:
		r.values[inst.Args[0]][thread] = args[1]
	case LoadShared, StoreShared:
		return r.accessShared(result, inst, thread, args)
	default:
		*result = lane.Eval(lane.Op(inst.Op), inst.DType, r.Type(uses[len(uses)-1]), args)
	}
	return nil
}

// access executes a Load or a Store in one thread.
func (r *run) access(v int, inst *Inst, thread int, address uint64) error {
	size, n := uint64(inst.DType.Size()), inst.Imm
	if inst.Op == Store {
		n = uint64(len(inst.Uses()) - 1)
	}
	operand, offset := address>>addressBits-1, address&(1<<addressBits-1)
	if operand >= uint64(len(r.operands)) || offset+size*n > uint64(len(r.operands[operand].Mem)) {
		return fmt.Errorf("address %#x is outside of all operands", address)
	}
	if offset%(size*n) != 0 {
		return fmt.Errorf("%d bytes at address %#x are not aligned", size*n, address)
	}
	mem := r.operands[operand].Mem[offset:][:size*n]
	if inst.Op == Store {
		for k, u := range inst.Uses()[1:] {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], r.values[u][thread])
			copy(mem[uint64(k)*size:][:size], b[:])
		}
		return nil
	}
	for k := range n {
		var b [8]byte
		copy(b[:], mem[k*size:][:size])
		r.words[Value(v)][thread][k] = binary.LittleEndian.Uint64(b[:])
	}
	r.values[v][thread] = r.words[Value(v)][thread][0]
	return nil
}

var errRace = errors.New("another thread accesses the element without a barrier in between")

// accessShared executes a LoadShared or a StoreShared in one thread, and reports races.
func (r *run) accessShared(result *uint64, inst *Inst, thread int, args [3]uint64) error {
	if args[0] >= uint64(len(r.shared[inst.Imm])) {
		return fmt.Errorf("element %d of an array of %d", args[0], len(r.shared[inst.Imm]))
	}
	element := &r.shared[inst.Imm][args[0]]
	if element.writeEpoch == r.epoch && element.writer != thread+1 {
		return errRace
	}
	if inst.Op == LoadShared {
		if !element.isWritten {
			return errors.New("no thread has written the element")
		}
		element.severalReaders = element.readEpoch == r.epoch && (element.severalReaders || element.reader != thread+1)
		element.reader, element.readEpoch, *result = thread+1, r.epoch, element.bits
		return nil
	}
	if element.readEpoch == r.epoch && (element.severalReaders || element.reader != thread+1) {
		return errRace
	}
	element.writer, element.writeEpoch, element.bits, element.isWritten = thread+1, r.epoch, args[1], true
	return nil
}

// Groups returns the number of groups that have at least the given number of threads together.
func (k *Kernel) Groups(threads int) int { return (threads + k.GroupSize - 1) / k.GroupSize }
