package writer

import (
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
)

// This file stores quantized bytes. [Quantizer.Pack] packs four registers of int32 sums into one. A part is a quarter
// of this register after [Quantizer.Arrange]: 16 bytes with AVX-512, and 8 bytes with AVX2. Part k has the bytes of sum
// register k.

// lastBytesMask is the mask register with a bit for each of the last bytes of a row, with AVX-512.
const lastBytesMask = asm.K2

// SetLastBytes sets lastBytesMask, which [Quantizer.StoreParts] applies to the last parts of a row. The last part has
// partialBytes bytes, and the parts before it have wholeBytes bytes together. For example, three parts of 16, 16 and 5
// bytes have the partialBytes 5 and the wholeBytes 32, and the mask has 37 bits. With AVX2, SetLastBytes does nothing,
// because AVX2 has no masks of bytes.
func (q *Quantizer) SetLastBytes(partialBytes target.Int, wholeBytes int64, temporaries [2]target.GReg) {
	if q.NoEVEX {
		return
	}
	mask, count := Reg(temporaries[0]), Reg(temporaries[1])
	if constant, ok := partialBytes.(target.Imm); ok {
		q.Emit("MOVL", asm.Imm(int64(constant)+wholeBytes), count)
	} else {
		q.Emit("MOVQ", intOperand(partialBytes), count)
		q.Emit("ADDQ", asm.Imm(wholeBytes), count)
	}
	q.Emit("MOVQ", asm.Imm(-1), mask)
	q.Emit("BZHIQ", count, mask, mask) // clears the bits from count on
	q.Emit("KMOVQ", mask, lastBytesMask)
}

// StoreParts stores parts first to first+n-1 of an arranged register. If part first+n-1 is partial, partialBytes is its
// number of bytes, a constant or a register; otherwise partialBytes is nil. scratch and temporaries are free registers.
//
// With AVX-512, first must be a multiple of n. The store is masked by lastBytesMask if a part is partial or n is 3,
// because no vector has the size of three parts. With AVX2, first must be even unless n is 1.
func (q *Quantizer) StoreParts(from, scratch target.VReg, first, n int, addr target.Addr, partialBytes target.Int,
	temporaries [2]target.GReg) {
	if !q.NoEVEX {
		q.storeParts512(int(from), int(scratch), first, n, Mem(addr), partialBytes != nil)
		return
	}
	wholeParts := n
	if partialBytes != nil {
		wholeParts--
	}
	q.storeParts256(q.Vec(from), q.Vec(scratch), first, wholeParts, Mem(addr))
	if partialBytes == nil {
		return
	}
	addr.Disp += wholeParts * 8
	part, addressReg := Reg(temporaries[0]), Reg(temporaries[1]) // part: a general register for the partial part
	q.movePart(q.Vec(from), q.Vec(scratch), first+wholeParts, part)
	if constant, ok := partialBytes.(target.Imm); ok {
		q.storeBytes(part, Mem(addr), int(constant))
	} else {
		q.storeCountedBytes(part, Mem(addr), intOperand(partialBytes), addressReg)
	}
}

// storeParts512 stores parts first to first+n-1, of 16 bytes each, as one vector of n parts. If isPartial is set or n
// is 3, the store is masked by lastBytesMask.
func (q *Quantizer) storeParts512(from, scratch, first, n int, addr asm.Mem, isPartial bool) {
	vector := map[int]func(int) asm.Vec{1: asm.X, 2: asm.Y, 3: asm.Z, 4: asm.Z}[n] // the register of n parts
	isMasked := n == 3 || isPartial
	if first > 0 { // only with n 1 or 2: first is a multiple of n, and there are four parts
		extract := map[int]string{1: "VEXTRACTI32X4", 2: "VEXTRACTI64X4"}[n] // moves vector first/n to the destination
		if !isMasked {
			q.Emit(extract, asm.Imm(first/n), asm.Z(from), addr)
			return
		}
		q.Emit(extract, asm.Imm(first/n), asm.Z(from), vector(scratch))
		from = scratch
	}
	if isMasked {
		q.Emit("VMOVDQU8", vector(from), lastBytesMask, addr)
	} else {
		q.Emit("VMOVDQU8", vector(from), addr)
	}
}

// storeParts256 stores parts first to first+n-1, of 8 bytes each, if possible both parts of a half of the register with
// one instruction.
func (q *Quantizer) storeParts256(from, scratch asm.Vec, first, n int, addr asm.Mem) {
	if n == 4 {
		q.Emit("VMOVDQU", from, addr)
		return
	}
	for part, end := first, first+n; part < end; {
		half := q.halfOf(from, scratch, part)
		if part%2 == 0 && part+1 < end { // both parts
			q.Emit("VMOVDQU", half, addr)
			part, addr.Disp = part+2, addr.Disp+16
			continue
		}
		name := "VMOVQ" // the low part
		if part%2 == 1 {
			name = "VMOVHPS" // the high part
		}
		q.Emit(name, half, addr)
		part, addr.Disp = part+1, addr.Disp+8
	}
}

// halfOf returns a register with the half of an AVX2 register that contains a part. It extracts an upper half to
// scratch.
func (q *Quantizer) halfOf(from, scratch asm.Vec, part int) asm.Vec {
	if part < 2 {
		return from.X()
	}
	q.Emit("VEXTRACTI128", asm.Imm(1), from, scratch.X())
	return scratch.X()
}

// movePart moves a part of 8 bytes to a general register.
func (q *Quantizer) movePart(from, scratch asm.Vec, part int, to asm.Reg) {
	half := q.halfOf(from, scratch, part)
	if part%2 == 1 {
		q.Emit("VPEXTRQ", asm.Imm(1), half, to)
	} else {
		q.Emit("VMOVQ", half, to)
	}
}

// moves are the instructions that store the first bytes of a general register, with their numbers of bytes.
var moves = []struct {
	size int
	name string
}{{8, "MOVQ"}, {4, "MOVL"}, {2, "MOVW"}, {1, "MOVB"}}

// storeBytes stores the first count bytes of a general register in pieces. There is a piece of n bytes (8, 4, 2 or
// 1) if count&n is not 0.
func (q *Quantizer) storeBytes(from asm.Reg, addr asm.Mem, count int) {
	for _, move := range moves {
		if count&move.size != 0 {
			q.Emit(move.name, from, addr)
			addr.Disp += int32(move.size)
			q.dropBytes(from, move.size)
		}
	}
}

// storeCountedBytes is storeBytes for a number of bytes in a register, whose bits the code tests.
func (q *Quantizer) storeCountedBytes(from asm.Reg, addr asm.Mem, count asm.Arg, addressReg asm.Reg) {
	q.Emit("LEAQ", addr, addressReg)
	for _, move := range moves {
		skip := q.Assembler.NewLabel()
		q.Emit("TESTL", asm.Imm(move.size), count)
		q.Emit("JEQ", skip)
		q.Emit(move.name, from, asm.Mem{Base: addressReg})
		q.Emit("ADDQ", asm.Imm(move.size), addressReg)
		q.dropBytes(from, move.size)
		q.Assembler.Bind(skip)
	}
}

// dropBytes shifts the first n bytes out of a register. After 8 bytes or the last single byte, no byte is left to
// store.
func (q *Quantizer) dropBytes(register asm.Reg, n int) {
	if n == 2 || n == 4 {
		q.Emit("SHRQ", asm.Imm(8*n), register)
	}
}
