package lower

import (
	"math/bits"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file adds the computation of indices and addresses to a kernel. Indices are uint32 and addresses uint64. For
// example, let the shape be [4, 3] and the strides [8, 32], with the fastest dimension first. Then the thread with the
// linear index 6 has the index [2, 1] (indexInShape), and the offset 2*8 + 1*32 = 48 bytes (offset).

// threadIndex returns the index of the thread among all threads of the launch.
func (s *scalarBuilder) threadIndex() ir.Value {
	const u32 = tensor.Uint32
	return s.add32(s.mul32(s.Emit(ir.Group, u32), groupSize), s.Emit(ir.Thread, u32))
}

// indexInShape splits a linear index below 2^31 into an index for each dimension. The first dimension of shape is the
// fastest.
func (s *scalarBuilder) indexInShape(index ir.Value, shape []int) (list []ir.Value) {
	for dim, size := range shape {
		indexInDim := index
		if dim < len(shape)-1 {
			quotient := s.quotient(index, size)
			indexInDim = s.sub32(index, s.mul32(quotient, size))
			index = quotient
		}
		list = append(list, indexInDim)
	}
	return list
}

// quotient returns floor(x/n) for a uint32 x below 2^31. If n is not a power of 2, let 2^(l-1) < n < 2^l and
// m = floor(2^(31+l)/n) + 1. The quotient is x*m >> (31+l), because x*m exceeds x*2^(31+l)/n by less than 2^(31+l)/n
// (Granlund and Montgomery, 1994).
func (s *scalarBuilder) quotient(x ir.Value, n int) ir.Value {
	const u32 = tensor.Uint32
	log := bits.Len(uint(n - 1))
	if n&(n-1) == 0 {
		return s.op(lane.Shr, u32, x, s.u32(log))
	}
	multiplier := uint64(1)<<(31+log)/uint64(n) + 1
	// The shift is by 31+log bits. MulHigh has already shifted by 32 bits.
	return s.op(lane.Shr, u32, s.Emit(ir.MulHigh, u32, x, s.Const(u32, multiplier)), s.u32(log-1))
}

// offset returns the sum of the products of indices and strides, which is below 2^32. It returns ir.None if the sum is
// always 0.
func (s *scalarBuilder) offset(index []ir.Value, shape, strides []int) ir.Value {
	sum := ir.None
	for dim, stride := range strides {
		if stride == 0 || shape[dim] == 1 {
			continue
		}
		term := s.mul32(index[dim], stride)
		if sum != ir.None {
			term = s.add32(sum, term)
		}
		sum = term
	}
	return sum
}

// addOffset returns an address plus an offset in bytes. The offset is a result of [scalarBuilder.offset]: ir.None means
// 0.
func (s *scalarBuilder) addOffset(address, offset ir.Value) ir.Value {
	if offset == ir.None {
		return address
	}
	return s.op(lane.Add, tensor.Uint64, address, s.op(lane.Convert, tensor.Uint64, offset))
}

// elementAddress returns the address of an element of a parameter. The index counts elements of size bytes.
func (s *scalarBuilder) elementAddress(param int, index ir.Value, size int) ir.Value {
	const u64 = tensor.Uint64
	offset := s.op(lane.Mul, u64, s.op(lane.Convert, u64, index), s.Const(u64, uint64(size)))
	return s.op(lane.Add, u64, s.EmitImm(ir.Param, u64, uint64(param)), offset)
}

// u32 returns the uint32 constant x modulo 2^32.
func (s *scalarBuilder) u32(x int) ir.Value { return s.Const(tensor.Uint32, uint64(uint32(x))) }

// add32 returns a + b for uint32 values.
func (s *scalarBuilder) add32(a, b ir.Value) ir.Value { return s.op(lane.Add, tensor.Uint32, a, b) }

// sub32 returns a - b for uint32 values.
func (s *scalarBuilder) sub32(a, b ir.Value) ir.Value { return s.op(lane.Sub, tensor.Uint32, a, b) }

// mul32 returns a*factor for a uint32 value.
func (s *scalarBuilder) mul32(a ir.Value, factor int) ir.Value {
	return s.op(lane.Mul, tensor.Uint32, a, s.u32(factor))
}

// isLess returns a < limit for a uint32 value.
func (s *scalarBuilder) isLess(a ir.Value, limit int) ir.Value {
	return s.op(lane.Lt, tensor.Bool, a, s.u32(limit))
}

// and returns the logical and of bools.
func (s *scalarBuilder) and(list ...ir.Value) ir.Value {
	conjunction := list[0]
	for _, condition := range list[1:] {
		conjunction = s.op(lane.And, tensor.Bool, conjunction, condition)
	}
	return conjunction
}
