package ir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/jit/lane"
)

// Operand is memory for [Kernel.Run]: the bytes of an operand, and the offset that its address points to.
type Operand struct {
	Mem    []byte
	Offset int
}

// addressBits is the number of bits of an address below the number of the operand.
const addressBits = 48

// Run interprets the kernel for a number of groups, one after another. The threads of a group execute the same
// instruction at the same time, if they execute it at all. Run returns an error for an invalid kernel, for an access
// outside of the memory of all operands or without alignment, for a barrier that not all threads reach, and for
// threads that access the same element of the group's memory without a barrier, if one of them writes.
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
		r.shared = append(r.shared, make([]cell, a.N))
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

// cell is an element of the memory of a group, with its last accesses: the thread plus 1, and the number of the barrier
// before the access.
type cell struct {
	bits                     uint64
	writer, writeEpoch       int
	reader, readEpoch        int
	readersDiffer, everWrote bool
}

type run struct {
	*Kernel
	operands []Operand
	values   [][]uint64                   // by value and thread
	words    map[Value][][MaxWords]uint64 // by Load and thread
	ends     map[int]int
	shared   [][]cell
	group    int
	epoch    int // 1 plus the number of barriers that the group has passed
}

// ends maps the Loop, If and Else instructions to the Else or End that closes them.
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

// maxIterations ends loops that do not end.
const maxIterations = 1 << 20

// block executes instructions from..end-1 by the threads of the mask. A Break clears threads in the mask.
func (r *run) block(from, end int, mask []bool) error {
	for v := from; v < end; v++ {
		i := &r.Insts[v]
		switch i.Op {
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
			for t := range mask {
				mask[t] = mask[t] && r.values[i.Args[0]][t] == 0
			}
		case Barrier:
			if slices.Contains(mask, false) {
				return fmt.Errorf("ir: v%d: only some threads reach the barrier", v)
			}
			r.epoch++
		default:
			for t := range mask {
				if mask[t] {
					if err := r.step(v, i, t); err != nil {
						return fmt.Errorf("ir: v%d (%v), group %d, thread %d: %w", v, i.Op, r.group, t, err)
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
	for t := range mask {
		c := r.values[r.Insts[v].Args[0]][t] != 0
		chosen[t], others[t] = mask[t] && c, mask[t] && !c
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

// step executes an instruction for a thread.
func (r *run) step(v int, i *Inst, t int) error {
	var x [3]uint64
	uses := i.Uses()
	for k, u := range uses[:min(len(uses), len(x))] {
		x[k] = r.values[u][t]
	}
	to := &r.values[v][t]
	switch i.Op {
	case Op(lane.Const):
		*to = i.Imm
	case Op(lane.Lookup):
		*to = uint64(math.Float32bits(i.Table[x[0]%uint64(len(i.Table))]))
	case Param:
		*to = (i.Imm+1)<<addressBits + uint64(r.operands[i.Imm].Offset)
	case Thread:
		*to = uint64(t)
	case Group:
		*to = uint64(r.group)
	case MulHigh:
		*to = x[0] * x[1] >> 32
	case Load, Store:
		return r.access(v, i, t, x[0])
	case Part:
		*to = r.words[i.Args[0]][t][i.Imm]
	case Var, Get:
		*to = x[0]
	case Set:
		r.values[i.Args[0]][t] = x[1]
	case LoadShared, StoreShared:
		return r.accessShared(to, i, t, x)
	default:
		*to = lane.Eval(lane.Op(i.Op), i.D, r.Type(uses[len(uses)-1]), x)
	}
	return nil
}

// access executes a Load or a Store.
func (r *run) access(v int, i *Inst, t int, address uint64) error {
	size, n := uint64(i.D.Size()), i.Imm
	if i.Op == Store {
		n = uint64(len(i.Uses()) - 1)
	}
	operand, offset := address>>addressBits-1, address&(1<<addressBits-1)
	if operand >= uint64(len(r.operands)) || offset+size*n > uint64(len(r.operands[operand].Mem)) {
		return fmt.Errorf("address %#x is outside of all operands", address)
	}
	if offset%(size*n) != 0 {
		return fmt.Errorf("%d bytes at address %#x are not aligned", size*n, address)
	}
	mem := r.operands[operand].Mem[offset:][:size*n]
	if i.Op == Store {
		for k, u := range i.Uses()[1:] {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], r.values[u][t])
			copy(mem[uint64(k)*size:][:size], b[:])
		}
		return nil
	}
	for k := range n {
		var b [8]byte
		copy(b[:], mem[k*size:][:size])
		r.words[Value(v)][t][k] = binary.LittleEndian.Uint64(b[:])
	}
	r.values[v][t] = r.words[Value(v)][t][0]
	return nil
}

var errRace = errors.New("another thread accesses the element without a barrier in between")

func (r *run) accessShared(to *uint64, i *Inst, t int, x [3]uint64) error {
	if x[0] >= uint64(len(r.shared[i.Imm])) {
		return fmt.Errorf("element %d of an array of %d", x[0], len(r.shared[i.Imm]))
	}
	c := &r.shared[i.Imm][x[0]]
	if c.writeEpoch == r.epoch && c.writer != t+1 {
		return errRace
	}
	if i.Op == LoadShared {
		if !c.everWrote {
			return errors.New("no thread has written the element")
		}
		c.readersDiffer = c.readEpoch == r.epoch && (c.readersDiffer || c.reader != t+1)
		c.reader, c.readEpoch, *to = t+1, r.epoch, c.bits
		return nil
	}
	if c.readEpoch == r.epoch && (c.readersDiffer || c.reader != t+1) {
		return errRace
	}
	c.writer, c.writeEpoch, c.bits, c.everWrote = t+1, r.epoch, x[1], true
	return nil
}

// Groups returns the number of groups for a number of threads.
func (k *Kernel) Groups(threads int) int { return (threads + k.GroupSize - 1) / k.GroupSize }
