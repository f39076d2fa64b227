package arm64

import (
	"encoding/binary"
	"strings"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file selects instructions for integers. Operands and results are virtual registers of 16 bytes, the parts of a
// value. For example, a part of int8 has 16 lanes ("16b"), and a part of int64 has two ("2d").

// integerOp selects instructions for an operation on integers of a dtype. Lanes have the width of the dtype, so results
// wrap. b is 0 if the operation has one operand.
func (s *selector) integerOp(op lane.Op, dtype tensor.DType, a, b alloc.Virt) alloc.Virt {
	size := dtype.Size()
	shape := arrangement(size)
	switch op {
	case lane.Add:
		return s.op("add", shape, a, b)
	case lane.Sub:
		return s.op("sub", shape, a, b)
	case lane.Mul:
		if size == 8 {
			return s.multiplyLong(a, b)
		}
		return s.op("mul", shape, a, b)
	case lane.Div:
		return s.divide(dtype, a, b)
	case lane.Neg:
		return s.op("neg", shape, a)
	case lane.Abs:
		if !dtype.IsSigned() {
			return a
		}
		return s.op("abs", shape, a)
	case lane.Min, lane.Max:
		return s.integerExtremum(op, dtype, a, b)
	case lane.Shl, lane.Shr:
		return s.shift(op, dtype, a, b)
	case lane.And, lane.Or, lane.Xor, lane.Not:
		return s.maskOp(op, a, b)
	}
	s.fail("there is no instruction for %v of %v", op, dtype)
	return a
}

// multiplyLong multiplies integers of 64 bits. Modulo 2^64, a*b = aLow*bLow + 2^32*(aLow*bHigh + aHigh*bLow) for the
// halves of a and b. rev64 swaps the halves of b, so that one multiplication computes both products in parentheses.
func (s *selector) multiplyLong(a, b alloc.Virt) alloc.Virt {
	cross := s.op("mul", "4s", s.op("rev64", "4s", b), a)
	upper := s.immediateOp("shl", "2d", s.op("uaddlp", "2d 4s", cross), 32) // uaddlp adds the two products
	// umlal multiplies the low halves, which xtn extracts, and adds the products to upper: it is tied to upper's register.
	return s.tiedOp("umlal", "2d 2s", upper, s.op("xtn", "2s 2d", a), s.op("xtn", "2s 2d", b))
}

// divide divides integers lane by lane, because NEON has no integer division. A lane takes four instructions: two moves
// to general registers, the division, and the move back. The quotient of a division by 0 is 0.
func (s *selector) divide(dtype tensor.DType, a, b alloc.Virt) alloc.Virt {
	const perLane = 4
	name := "udiv"
	if dtype.IsSigned() {
		name = "sdiv"
	}
	return s.add(alloc.Inst{Name: name + " " + arrangement(dtype.Size()), Src: alloc.Sources(a, b),
		InstructionCount: uint8(perLane * s.lanesPerRegister(dtype.Size()))})
}

// lanesPerRegister returns the number of lanes of the given size in a register.
func (s *selector) lanesPerRegister(size int) int { return vectorBytes / size }

// integerExtremum selects instructions for Min or Max of integers. NEON has no such instruction for 64 bits.
func (s *selector) integerExtremum(op lane.Op, dtype tensor.DType, a, b alloc.Virt) alloc.Virt {
	sign, name := "u", "min"
	if dtype.IsSigned() {
		sign = "s"
	}
	if op == lane.Max {
		name = "max"
	}
	if dtype.Size() < 8 {
		return s.op(sign+name, arrangement(dtype.Size()), a, b)
	}
	greater := s.compareVectors(lane.Lt, lane.Type{DType: dtype}, b, a)
	if op == lane.Max {
		return s.selectBits(greater, a, b)
	}
	return s.selectBits(greater, b, a)
}

// shift selects instructions for a shift whose distance is taken modulo the width of the dtype. The machine instruction
// for variable distances shifts to the right if the distance is negative.
func (s *selector) shift(op lane.Op, dtype tensor.DType, a, b alloc.Virt) alloc.Virt {
	size := dtype.Size()
	shape, distanceMask := arrangement(size), uint64(8*size-1)
	sign := "u"
	if dtype.IsSigned() {
		sign = "s"
	}
	if constant, ok := s.constantBits(b, size); ok {
		switch distance := int64(constant & distanceMask); {
		case distance == 0:
			return a
		case op == lane.Shl:
			return s.immediateOp("shl", shape, a, distance)
		default:
			return s.immediateOp(sign+"shr", shape, a, distance)
		}
	}
	distance := s.bitwise("and", b, s.constant(size, distanceMask))
	if op == lane.Shr {
		distance = s.op("neg", shape, distance)
	}
	return s.op(sign+"shl", shape, a, distance)
}

// constantBits returns the bits of a lane of v, if v is a constant with equal lanes of the given size. A constant has a
// Reload, the load of its bytes (Mem.Data) from memory after the code.
func (s *selector) constantBits(v alloc.Virt, size int) (uint64, bool) {
	reload := s.Values[v].Reload
	if reload == nil || reload.Mem.Space != alloc.Constant {
		return 0, false
	}
	bits := binary.LittleEndian.Uint64([]byte(reload.Mem.Data[:8])) & (^uint64(0) >> (64 - 8*size))
	return bits, strings.Repeat(reload.Mem.Data[:size], vectorBytes/size) == reload.Mem.Data
}
