package ir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/lane"
)

// Operand is the memory of a parameter for [Kernel.Run]. The parameter is the address of Mem[Offset].
type Operand struct {
	Mem    []byte
	Offset int
}

// addressBits is the number of low bits of an address that hold the offset in an operand's memory. The higher bits hold
// 1 plus the index of the operand, so that small numbers are not valid addresses.
const addressBits = 48

// Run interprets the kernel for a number of groups, one after another. The threads of a group execute in lockstep: each
// instruction is executed by all threads that reach it before the next instruction. Run returns an error for
//   - an invalid kernel;
//   - an access outside of the memory of all operands, or an access that is not aligned to its size;
//   - a barrier that not all threads reach;
//   - a loop that does not end after maxIterations iterations;
//   - a read of an element of the group's memory that no thread has written;
//   - a race: two threads access the same element of the group's memory without a barrier in between, and at least one
//     of them writes it.
func (k *Kernel) Run(groups int, operands []Operand) error {
	if err := k.Check(); err != nil {
		return err
	}
	if len(operands) != k.Params {
		return fmt.Errorf("ir: there are %d operands: want %d, one for each parameter", len(operands), k.Params)
	}
	state := &run{Kernel: k, operands: operands, values: make([][]uint64, len(k.Insts)), ends: k.ends(),
		words: map[Value][][MaxWords]uint64{}}
	for value := range state.values {
		state.values[value] = make([]uint64, k.GroupSize)
		if k.Insts[value].Op == Load {
			state.words[Value(value)] = make([][MaxWords]uint64, k.GroupSize)
		}
	}
	for _, array := range k.Shared {
		state.shared = append(state.shared, make([]cell, array.Length))
	}
	allThreads := slices.Repeat([]bool{true}, k.GroupSize)
	for state.group = range groups {
		for _, array := range state.shared {
			clear(array)
		}
		state.epoch = 1
		if err := state.runBlock(0, len(k.Insts), allThreads); err != nil {
			return err
		}
	}
	return nil
}

// cell is an element of the memory of a group. It records its last accesses, to detect races: accesses by two threads
// in the same epoch. An epoch is the time between two barriers.
type cell struct {
	bits                  uint64
	isWritten             bool // whether the group has written the cell
	writer, reader        int  // 1 plus the index of the thread of the last write or read; 0 means none
	writeEpoch, readEpoch int  // the epochs (run.epoch) of the last write and read
	severalReaders        bool // whether several threads have read the cell in readEpoch
}

// run is the state of [Kernel.Run]. All words of memory and all values have 64 bits. Shorter words and values are
// zero-extended. For example, values[5][3] is the value of instruction 5 in thread 3. runBlock executes a block of a
// Loop or an If, with a mask of the threads that execute the block.
type run struct {
	*Kernel
	operands []Operand
	values   [][]uint64                   // indexed by value and thread
	words    map[Value][][MaxWords]uint64 // for each Load: its words, indexed by thread and word
	ends     map[int]int                  // the result of Kernel.ends
	shared   [][]cell                     // indexed by array and element
	group    int                          // index of the group that runs
	epoch    int                          // the current epoch: 1 plus the number of barriers that the group has passed
}

// ends maps the index of each Loop, If and Else to the index of the Else or End that closes it.
func (k *Kernel) ends() map[int]int {
	ends, open := map[int]int{}, []int{}
	for index, inst := range k.Insts {
		if inst.Op == Else || inst.Op == End {
			ends[open[len(open)-1]] = index
			open = open[:len(open)-1]
		}
		if inst.Op == Loop || inst.Op == If || inst.Op == Else {
			open = append(open, index)
		}
	}
	return ends
}

// runBlock executes the instructions first to end-1 in the threads whose element of mask is true. A Break sets the
// elements of mask to false for threads that leave the loop.
func (r *run) runBlock(first, end int, mask []bool) error {
	for index := first; index < end; index++ {
		inst := &r.Insts[index]
		switch inst.Op {
		case Loop:
			if err := r.runLoop(index, mask); err != nil {
				return err
			}
			index = r.ends[index]
		case If:
			next, err := r.runIf(index, mask)
			if err != nil {
				return err
			}
			index = next
		case Break:
			for thread := range mask {
				mask[thread] = mask[thread] && r.values[inst.Args[0]][thread] == 0
			}
		case Barrier:
			if slices.Contains(mask, false) {
				return fmt.Errorf("ir: v%d: only some threads reach the barrier", index)
			}
			r.epoch++
		default:
			if err := r.runInst(index, mask); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxIterations is the maximum number of iterations of a loop. Run returns an error for more iterations.
const maxIterations = 1 << 20

// runLoop executes the Loop with the given index in the threads of mask, until all these threads have left the loop.
func (r *run) runLoop(index int, mask []bool) error {
	active := slices.Clone(mask)
	for iterations := 0; slices.Contains(active, true); iterations++ {
		if iterations == maxIterations {
			return fmt.Errorf("ir: the loop v%d does not end", index)
		}
		if err := r.runBlock(index+1, r.ends[index], active); err != nil {
			return err
		}
	}
	return nil
}

// runIf executes the If with the given index in the threads of mask, and returns the index of its End.
func (r *run) runIf(index int, mask []bool) (end int, err error) {
	whereTrue, whereFalse := slices.Clone(mask), slices.Clone(mask) // the threads with a true and with a false condition
	for thread := range mask {
		holds := r.values[r.Insts[index].Args[0]][thread] != 0
		whereTrue[thread], whereFalse[thread] = mask[thread] && holds, mask[thread] && !holds
	}
	end = r.ends[index]
	if slices.Contains(whereTrue, true) {
		if err := r.runBlock(index+1, end, whereTrue); err != nil {
			return 0, err
		}
	}
	if r.Insts[end].Op == Else {
		begin := end + 1
		end = r.ends[end]
		if slices.Contains(whereFalse, true) {
			return end, r.runBlock(begin, end, whereFalse)
		}
	}
	return end, nil
}

// runInst executes the instruction with the given index in the threads of mask.
func (r *run) runInst(index int, mask []bool) error {
	inst := &r.Insts[index]
	for thread := range mask {
		if !mask[thread] {
			continue
		}
		if err := r.step(index, inst, thread); err != nil {
			return fmt.Errorf("ir: v%d (%v), group %d, thread %d: %w", index, inst.Op, r.group, thread, err)
		}
	}
	return nil
}

// step executes the instruction with the given index in one thread. The instruction is not a Barrier, and does not
// begin, end or leave a block.
func (r *run) step(index int, inst *Inst, thread int) error {
	var args [3]uint64 // a Store has more operands, which access reads
	uses := inst.Operands()
	for k, operand := range uses[:min(len(uses), len(args))] {
		args[k] = r.values[operand][thread]
	}
	result := &r.values[index][thread]
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
		return r.access(index, inst, thread, args[0])
	case Extract:
		*result = r.words[inst.Args[0]][thread][inst.Imm]
	case Var, ReadVar:
		*result = args[0]
	case WriteVar:
		r.values[inst.Args[0]][thread] = args[1]
	case LoadShared, StoreShared:
		return r.accessShared(result, inst, thread, args)
	default: // the last operand has the dtype of the operation
		*result = lane.Eval(lane.Op(inst.Op), inst.DType, r.Type(uses[len(uses)-1]), args)
	}
	return nil
}

// access executes a Load or a Store of one thread at an address.
func (r *run) access(index int, inst *Inst, thread int, address uint64) error {
	size, words := uint64(inst.DType.Size()), inst.Imm
	if inst.Op == Store {
		words = uint64(len(inst.Operands()) - 1)
	}
	mem, err := r.memoryAt(address, size*words)
	if err != nil {
		return err
	}
	if inst.Op == Store {
		for k, word := range inst.Operands()[1:] {
			var bits [8]byte
			binary.LittleEndian.PutUint64(bits[:], r.values[word][thread])
			copy(mem[uint64(k)*size:][:size], bits[:])
		}
		return nil
	}
	for k := range words {
		var bits [8]byte
		copy(bits[:], mem[k*size:][:size])
		r.words[Value(index)][thread][k] = binary.LittleEndian.Uint64(bits[:])
	}
	r.values[index][thread] = r.words[Value(index)][thread][0]
	return nil
}

// memoryAt returns a number of bytes at an address. The address must be a multiple of this number.
func (r *run) memoryAt(address, bytes uint64) ([]byte, error) {
	operand, offset := address>>addressBits-1, address&(1<<addressBits-1)
	if operand >= uint64(len(r.operands)) || offset+bytes > uint64(len(r.operands[operand].Mem)) {
		return nil, fmt.Errorf("address %#x is outside of all operands", address)
	}
	if offset%bytes != 0 {
		return nil, fmt.Errorf("%d bytes at address %#x are not aligned", bytes, address)
	}
	return r.operands[operand].Mem[offset:][:bytes], nil
}

var errRace = errors.New("another thread accesses the element without a barrier in between")

// accessShared executes a LoadShared or a StoreShared in one thread, and reports races. args has the values of the
// operands. The value of a LoadShared is stored in *result.
func (r *run) accessShared(result *uint64, inst *Inst, thread int, args [3]uint64) error {
	if args[0] >= uint64(len(r.shared[inst.Imm])) {
		return fmt.Errorf("the index is %d, but the array has %d elements", args[0], len(r.shared[inst.Imm]))
	}
	element := &r.shared[inst.Imm][args[0]]
	writtenByOther := element.writeEpoch == r.epoch && element.writer != thread+1
	readByOther := element.readEpoch == r.epoch && (element.severalReaders || element.reader != thread+1)
	switch {
	case writtenByOther:
		return errRace
	case inst.Op == LoadShared:
		if !element.isWritten {
			return errors.New("no thread has written the element")
		}
		element.severalReaders = readByOther // this thread also reads the element in this epoch
		element.reader, element.readEpoch = thread+1, r.epoch
		*result = element.bits
	case readByOther:
		return errRace
	default:
		element.writer, element.writeEpoch = thread+1, r.epoch
		element.bits, element.isWritten = args[1], true
	}
	return nil
}

// Groups returns the least number of groups that together have at least the given number of threads.
func (k *Kernel) Groups(threads int) int { return (threads + k.GroupSize - 1) / k.GroupSize }
