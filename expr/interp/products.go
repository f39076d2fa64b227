package interp

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// Sums and differences of products are single loops: a*b + c*d is a part of a complex product, and a + b*c an
// interpolation. Each product is rounded: conversions such as W(x*y) prevent fused multiply-adds. A single loop takes
// two thirds of the time of separate loops.
//
// joinProducts finds such an instruction and its products. For v3 = v1 - v2 with v1 = a * b and v2 = c * d, it returns
// the loop of a*b + sign * c*d with sign -1, and the operands a, b, c and d. productSums has the loops. An expr.Inst is
// an instruction, and an expr.Value the index of its result. A loop (loops.go) computes the elements of a result from
// operands in memory: the address of element i of an operand is ptr + offset + i*stride.

// sumLoops makes the loops of the sums of products of one [mixedOp] of Add: an addition with the dtypes of its
// operands, computation and result. The signs are 1 or -1.
type sumLoops struct {
	ofProducts  func(sign int) loop              // a*b + sign * c*d; nil for integers: only one product is joined
	withProduct func(sign, productSign int) loop // sign*a + productSign * b*c; may return nil
}

// joinProducts returns the loop that computes the sum or difference v and converts it to dtype `to`, and the values
// that the loop reads. The loop also computes the products that only v reads. joinProducts returns nil if there is no
// such loop. readers has the number of readers of each value. narrow has, for each value, its operands before their
// conversion from a narrower dtype, if they were converted.
func (prep *preparer) joinProducts(v expr.Value, to tensor.DType, readers []int, narrow []narrowOperands) (
	joined loop, read []expr.Value) {
	inst, sign := prep.code.Insts[v], 1
	switch inst.Op {
	case expr.Add: // sign is 1
	case expr.Sub:
		sign = -1
	default:
		return nil, nil
	}
	isProduct := func(operand expr.Value) bool { // a product that only v reads
		return prep.code.Insts[operand].Op == expr.Mul && readers[operand] == 1
	}
	// A product of narrow operands is joined only with a product of operands of the same narrow dtype.
	first, second := narrow[inst.A], narrow[inst.B]
	areNarrow := first.values != nil && first.dtype == second.dtype
	isNarrowSum := areNarrow && isProduct(inst.A) && isProduct(inst.B)
	from := inst.DType // dtype of the factors that the loop reads
	if isNarrowSum {
		from = first.dtype // the loop converts all four factors
	}
	factorsOf := func(operand expr.Value) []expr.Value { // nil if the operand is not a product that can be joined
		switch {
		case isNarrowSum:
			return narrow[operand].values
		case isProduct(operand) && narrow[operand].values == nil:
			return prep.code.Insts[operand].Operands()
		}
		return nil
	}
	firstFactors, secondFactors := factorsOf(inst.A), factorsOf(inst.B)
	loops, hasLoops := productSums[mixedOp{op: expr.Add, from: from, in: inst.DType, to: to}]
	switch {
	case !hasLoops: // no sum with these dtypes
	case firstFactors != nil && secondFactors != nil && loops.ofProducts != nil:
		return loops.ofProducts(sign), slices.Concat(firstFactors, secondFactors)
	case secondFactors != nil:
		// inst.A is added, and the product is added or subtracted. This case precedes the next one, because integers
		// have no loop of a product minus a number.
		return loops.withProduct(1, sign), append([]expr.Value{inst.A}, secondFactors...)
	case firstFactors != nil:
		// The product is added, and inst.B is added or subtracted.
		return loops.withProduct(sign, 1), append([]expr.Value{inst.B}, firstFactors...)
	}
	return nil, nil
}

// productSums has the loops by the dtypes of a sum. The op is Add; a sign of -1 stands for Sub.
var productSums = func() map[mixedOp]sumLoops {
	t := map[mixedOp]sumLoops{}
	setSums[float32, float32, float32](t, tensor.Float32, tensor.Float32, tensor.Float32)
	setSums[float64, float64, float64](t, tensor.Float64, tensor.Float64, tensor.Float64)
	setSums[float32, float64, float64](t, tensor.Float32, tensor.Float64, tensor.Float64)
	setSums[float64, float64, float32](t, tensor.Float64, tensor.Float64, tensor.Float32)
	setSums[float32, float64, float32](t, tensor.Float32, tensor.Float64, tensor.Float32)
	setIntegerSums[int8](t, tensor.Int8)
	setIntegerSums[int16](t, tensor.Int16)
	setIntegerSums[int32](t, tensor.Int32)
	setIntegerSums[int64](t, tensor.Int64)
	setIntegerSums[uint8](t, tensor.Uint8)
	setIntegerSums[uint16](t, tensor.Uint16)
	setIntegerSums[uint32](t, tensor.Uint32)
	setIntegerSums[uint64](t, tensor.Uint64)
	return t
}()

// setSums sets the loops of sums with operands of dtype T (from), computed in dtype W (in), with results of dtype R
// (to).
func setSums[T, W, R float](t map[mixedOp]sumLoops, from, in, to tensor.DType) {
	t[mixedOp{expr.Add, from, in, to}] = sumLoops{sumOfProducts[T, W, R], sumWithProduct[T, W, R]}
}

// setIntegerSums sets the loops of sums of an integer and a product.
func setIntegerSums[T integer](t map[mixedOp]sumLoops, dtype tensor.DType) {
	t[mixedOp{expr.Add, dtype, dtype, dtype}] = sumLoops{withProduct: integerSumWithProduct[T]}
}

// sumOfProducts returns the loop of a*b + sign * c*d. In a part of a complex product, such as x.re*y.re - x.im*y.im, a
// and c are the parts of one number, and b and d the parts of the other. The parts of a number have the same stride, so
// that one offset serves a and c, and another offset serves b and d.
func sumOfProducts[T, W, R float](sign int) loop {
	factor := W(sign)
	return func(o operands) {
		if o.a.stride != o.c.stride { // a and d may be the parts of one number, as in x.re*y.im + y.re*x.im
			o.c, o.d = o.d, o.c
		}
		a, b, c, d, dst := o.a, o.b, o.c, o.d, unsafe.Slice((*R)(o.dst.ptr), o.n)
		a.ptr, b.ptr, c.ptr, d.ptr = unsafe.Add(a.ptr, a.offset), unsafe.Add(b.ptr, b.offset),
			unsafe.Add(c.ptr, c.offset), unsafe.Add(d.ptr, d.offset)
		if a.stride == c.stride && b.stride == d.stride {
			offsetAC, offsetBD := 0, 0
			for i := range dst {
				dst[i] = R(W(W(*(*T)(unsafe.Add(a.ptr, offsetAC)))*W(*(*T)(unsafe.Add(b.ptr, offsetBD)))) +
					W(factor*W(W(*(*T)(unsafe.Add(c.ptr, offsetAC)))*W(*(*T)(unsafe.Add(d.ptr, offsetBD))))))
				offsetAC += a.stride
				offsetBD += b.stride
			}
			return
		}
		for i := range dst {
			dst[i] = R(W(W(*(*T)(unsafe.Add(a.ptr, i*a.stride)))*W(*(*T)(unsafe.Add(b.ptr, i*b.stride)))) +
				W(factor*W(W(*(*T)(unsafe.Add(c.ptr, i*c.stride)))*W(*(*T)(unsafe.Add(d.ptr, i*d.stride))))))
		}
	}
}

// sumWithProduct returns the loop of sign*a + productSign * b*c.
func sumWithProduct[T, W, R float](sign, productSign int) loop {
	factor, productFactor := W(sign), W(productSign)
	return func(o operands) {
		a, b, c, dst := o.a, o.b, o.c, unsafe.Slice((*R)(o.dst.ptr), o.n)
		for i := range dst {
			dst[i] = R(W(factor*W(*(*T)(unsafe.Add(a.ptr, a.offset)))) +
				W(productFactor*W(W(*(*T)(unsafe.Add(b.ptr, b.offset)))*W(*(*T)(unsafe.Add(c.ptr, c.offset))))))
			a.offset += a.stride
			b.offset += b.stride
			c.offset += c.stride
		}
	}
}

// integerSumWithProduct returns the loop of a + productSign * b*c, or nil if sign is negative.
func integerSumWithProduct[T integer](sign, productSign int) loop {
	if sign < 0 {
		return nil
	}
	mask := T(0) // a - p is ^(^a + p), which is faster than another multiplication
	if productSign < 0 {
		mask = ^mask
	}
	size := int(unsafe.Sizeof(T(0)))
	return func(o operands) {
		if o.b.stride == 0 { // in the fast loop below, c may be one number, but b may not
			o.b, o.c = o.c, o.b
		}
		a, b, c, dst, mask := o.a, o.b, o.c, unsafe.Slice((*T)(o.dst.ptr), o.n), mask
		areContiguous := a.stride == size && b.stride == size && (c.stride == 0 || c.stride == size)
		if areContiguous { // c may be one number; without offsets, the loop needs fewer registers
			first := unsafe.Slice((*T)(unsafe.Add(a.ptr, a.offset)), len(dst))
			second := unsafe.Slice((*T)(unsafe.Add(b.ptr, b.offset)), len(dst))
			if factor := *(*T)(unsafe.Add(c.ptr, c.offset)); c.stride == 0 {
				for i := range dst {
					dst[i] = ((first[i] ^ mask) + second[i]*factor) ^ mask
				}
				return
			}
			third := unsafe.Slice((*T)(unsafe.Add(c.ptr, c.offset)), len(dst))
			for i := range dst {
				dst[i] = ((first[i] ^ mask) + second[i]*third[i]) ^ mask
			}
			return
		}
		for i := range dst {
			dst[i] = ((*(*T)(unsafe.Add(a.ptr, a.offset)) ^ mask) +
				*(*T)(unsafe.Add(b.ptr, b.offset))**(*T)(unsafe.Add(c.ptr, c.offset))) ^ mask
			a.offset += a.stride
			b.offset += b.stride
			c.offset += c.stride
		}
	}
}
