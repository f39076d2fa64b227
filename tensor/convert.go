package tensor

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/internal/strided"
)

// This file has a table with a conversion for each pair of dtypes, and the functions in it. Most functions have a fast
// loop over dense elements, which the compiler can simplify, and a loop over elements with any strides. Examples:
//
//	float32 -1.5, 0, NaN     to bool       1, 0, 1
//	float32 -1.5             to int8       -1
//	int32 300                to uint8      44: integers wrap
//	float32 3e9              to int32      -2147483648, the least int32: 3e9 is out of range
//	float64 0.1              to float16    the float16 nearest to float32(0.1)
//	complex64 2+3i           to float64    2

// ConvertFunc converts n elements from src to dst. Strides are in bytes and may be 0 or negative. dst and src must be
// the same elements, or have no memory in common.
type ConvertFunc func(dst, src unsafe.Pointer, dstStride, srcStride, n int)

// Converter returns the conversion from dtype src to dtype dst, by the rules of c10::convert. The conversion to bool
// compares with 0, for complex numbers too. The conversion to a 16-bit float goes through float32, and the conversion
// from a float to uint8 goes through int64. The conversion from a complex number to a real dtype keeps the real part.
// Integers wrap. A float outside the range of int32 or int64 becomes the least number of this dtype, as on amd64, on
// every processor. A conversion to a smaller integer goes through int32 or int64, and takes the low bits (see int32Of,
// int64Of, uint64Of). Converter panics if a dtype is invalid.
func Converter(dst, src DType) ConvertFunc {
	if !dst.Valid() || !src.Valid() {
		panic(fmt.Sprintf("tensor: there is no conversion from %v to %v", src, dst))
	}
	return converters[dst][src]
}

// converters[dst][src] is the conversion from dtype src to dtype dst.
var converters = func() (table [numDTypes][numDTypes]ConvertFunc) {
	fillReal[uint8](&table, Uint8)
	fillReal[int8](&table, Int8)
	fillReal[int16](&table, Int16)
	fillReal[int32](&table, Int32)
	fillReal[int64](&table, Int64)
	fillReal[uint16](&table, Uint16)
	fillReal[uint32](&table, Uint32)
	fillReal[uint64](&table, Uint64)
	fillReal[float32](&table, Float32)
	fillReal[float64](&table, Float64)
	if !goConvertsLikeAMD64 { // Go's conversions of floats to integers differ from amd64's
		fillFloat[float32](&table, Float32)
		fillFloat[float64](&table, Float64)
	}
	fillFromHalves(&table)
	for d := Bool; d < numDTypes; d++ {
		table[d][Bool] = table[d][Uint8]
		table[d][Complex64] = table[d][Float32] // the real part is first
		table[d][Complex128] = table[d][Float64]
	}
	for s := Bool; s < numDTypes; s++ {
		table[Complex64][s] = toComplex64(table[Float32][s])
		table[Complex128][s] = toComplex128(table[Float64][s])
	}
	// The special cases replace entries of the loops above.
	table[Bool][Complex64], table[Bool][Complex128] = notZero[complex64], notZero[complex128]
	table[Complex64][Complex128], table[Complex128][Complex64] = narrowComplex, widenComplex
	for d := Bool; d < numDTypes; d++ {
		table[d][d] = strided.MoverOf(dtypeInfo[d].size).Row
	}
	table[Bool][Bool] = notZero[uint8] // a byte other than 0 becomes 1
	return table
}()

// realNumber lists the Go types of the real dtypes, except bool and the 16-bit floats.
type realNumber interface {
	uint8 | int8 | int16 | int32 | int64 | uint16 | uint32 | uint64 | float32 | float64
}

// fillReal sets the conversions from a dtype, whose Go type is S, to the real dtypes.
func fillReal[S realNumber](table *[numDTypes][numDTypes]ConvertFunc, dtype DType) {
	table[Bool][dtype] = notZero[S]
	table[Uint8][dtype], table[Int8][dtype] = toUint8[S], convert[int8, S]
	table[Int16][dtype], table[Int32][dtype] = convert[int16, S], convert[int32, S]
	table[Int64][dtype] = convert[int64, S]
	table[Uint16][dtype], table[Uint32][dtype] = convert[uint16, S], convert[uint32, S]
	table[Uint64][dtype] = convert[uint64, S]
	table[Float32][dtype], table[Float64][dtype] = convert[float32, S], convert[float64, S]
	table[Float16][dtype], table[BFloat16][dtype] = toHalf[S], toBF16[S]
}

// convert converts by Go's conversion. It unrolls the loop over dense elements by four.
func convert[D, S realNumber](dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	var d D
	var s S
	if dstStride == int(unsafe.Sizeof(d)) && srcStride == int(unsafe.Sizeof(s)) {
		i := 0
		for last := n - 4; i <= last; i += 4 {
			out, in := (*[4]D)(unsafe.Add(dst, i*dstStride)), (*[4]S)(unsafe.Add(src, i*srcStride))
			out[0], out[1], out[2], out[3] = D(in[0]), D(in[1]), D(in[2]), D(in[3])
		}
		if i == n {
			return
		}
		dst, src, n = unsafe.Add(dst, i*dstStride), unsafe.Add(src, i*srcStride), n-i
	}
	for dstOffset, srcOffset := 0, 0; n > 0; n-- {
		*(*D)(unsafe.Add(dst, dstOffset)) = D(*(*S)(unsafe.Add(src, srcOffset)))
		dstOffset += dstStride
		srcOffset += srcStride
	}
}

// toUint8 converts through int64, so that numbers wrap alike on all processors.
func toUint8[S realNumber](dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	if out := unsafe.Slice((*uint8)(dst), n); dstStride == 1 && srcStride == int(unsafe.Sizeof(S(0))) {
		in := unsafe.Slice((*S)(src), n)[:len(out)]
		for i := range out {
			out[i] = uint8(int64(in[i]))
		}
		return
	}
	for i := range n {
		*(*uint8)(unsafe.Add(dst, i*dstStride)) = uint8(int64(*(*S)(unsafe.Add(src, i*srcStride))))
	}
}

// notZero converts to bool: 1 for a number other than 0, including NaN.
func notZero[S realNumber | complex64 | complex128](dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	if out := unsafe.Slice((*bool)(dst), n); dstStride == 1 && srcStride == int(unsafe.Sizeof(S(0))) {
		in := unsafe.Slice((*S)(src), n)[:len(out)]
		for i := range out {
			out[i] = in[i] != 0
		}
		return
	}
	for i := range n {
		var b uint8
		if *(*S)(unsafe.Add(src, i*srcStride)) != 0 {
			b = 1
		}
		*(*uint8)(unsafe.Add(dst, i*dstStride)) = b
	}
}

// fillFromHalves sets the conversions from the 16-bit floats. Conversions to integers go through int32 or int64.
func fillFromHalves(table *[numDTypes][numDTypes]ConvertFunc) {
	table[Int8][Float16], table[Int8][BFloat16] = halfViaInt32[int8], bf16ViaInt32[int8]
	table[Int16][Float16], table[Int16][BFloat16] = halfViaInt32[int16], bf16ViaInt32[int16]
	table[Int32][Float16], table[Int32][BFloat16] = halfViaInt32[int32], bf16ViaInt32[int32]
	table[Int64][Float16], table[Int64][BFloat16] = halfViaInt64[int64], bf16ViaInt64[int64]
	table[Uint8][Float16], table[Uint8][BFloat16] = halfViaInt64[uint8], bf16ViaInt64[uint8]
	table[Uint16][Float16], table[Uint16][BFloat16] = halfViaInt32[uint16], bf16ViaInt32[uint16]
	table[Uint32][Float16], table[Uint32][BFloat16] = halfViaInt64[uint32], bf16ViaInt64[uint32]
	table[Uint64][Float16], table[Uint64][BFloat16] = halfToUint64, bf16ToUint64
	table[Float32][Float16], table[Float32][BFloat16] = fromHalf[float32], fromBF16[float32]
	table[Float64][Float16], table[Float64][BFloat16] = fromHalf[float64], fromBF16[float64]
	table[Bool][Float16], table[Bool][BFloat16] = halfNotZero, halfNotZero
	table[BFloat16][Float16], table[Float16][BFloat16] = halfToBF16, bf16ToHalf
}

// fromHalf and fromBF16 convert from a 16-bit float through float32.
func fromHalf[D float32 | float64](dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	if out := unsafe.Slice((*D)(dst), n); dstStride == int(unsafe.Sizeof(D(0))) && srcStride == 2 {
		in := unsafe.Slice((*Half)(src), n)[:len(out)]
		for i := range out {
			out[i] = D(in[i].Float32())
		}
		return
	}
	for i := range n {
		*(*D)(unsafe.Add(dst, i*dstStride)) = D((*(*Half)(unsafe.Add(src, i*srcStride))).Float32())
	}
}

func fromBF16[D float32 | float64](dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	if out := unsafe.Slice((*D)(dst), n); dstStride == int(unsafe.Sizeof(D(0))) && srcStride == 2 {
		in := unsafe.Slice((*BF16)(src), n)[:len(out)]
		for i := range out {
			out[i] = D(in[i].Float32())
		}
		return
	}
	for i := range n {
		*(*D)(unsafe.Add(dst, i*dstStride)) = D((*(*BF16)(unsafe.Add(src, i*srcStride))).Float32())
	}
}

// toHalf and toBF16 round to a 16-bit float through float32.
func toHalf[S realNumber](dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	if out := unsafe.Slice((*Half)(dst), n); dstStride == 2 && srcStride == int(unsafe.Sizeof(S(0))) {
		in := unsafe.Slice((*S)(src), n)[:len(out)]
		for i := range out {
			out[i] = HalfOf(float32(in[i]))
		}
		return
	}
	for i := range n {
		*(*Half)(unsafe.Add(dst, i*dstStride)) = HalfOf(float32(*(*S)(unsafe.Add(src, i*srcStride))))
	}
}

func toBF16[S realNumber](dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	if out := unsafe.Slice((*BF16)(dst), n); dstStride == 2 && srcStride == int(unsafe.Sizeof(S(0))) {
		in := unsafe.Slice((*S)(src), n)[:len(out)]
		for i := range out {
			out[i] = BF16Of(float32(in[i]))
		}
		return
	}
	for i := range n {
		*(*BF16)(unsafe.Add(dst, i*dstStride)) = BF16Of(float32(*(*S)(unsafe.Add(src, i*srcStride))))
	}
}

// halfToBF16 and bf16ToHalf convert between the 16-bit floats through float32.
func halfToBF16(dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	if out := unsafe.Slice((*BF16)(dst), n); dstStride == 2 && srcStride == 2 {
		in := unsafe.Slice((*Half)(src), n)[:len(out)]
		for i := range out {
			out[i] = BF16Of(in[i].Float32())
		}
		return
	}
	for i := range n {
		*(*BF16)(unsafe.Add(dst, i*dstStride)) = BF16Of((*(*Half)(unsafe.Add(src, i*srcStride))).Float32())
	}
}

func bf16ToHalf(dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	if out := unsafe.Slice((*Half)(dst), n); dstStride == 2 && srcStride == 2 {
		in := unsafe.Slice((*BF16)(src), n)[:len(out)]
		for i := range out {
			out[i] = HalfOf(in[i].Float32())
		}
		return
	}
	for i := range n {
		*(*Half)(unsafe.Add(dst, i*dstStride)) = HalfOf((*(*BF16)(unsafe.Add(src, i*srcStride))).Float32())
	}
}

// halfNotZero is notZero for both 16-bit floats.
func halfNotZero(dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	const magnitudeBits = 0x7fff // all but the sign bit, the only bit of -0
	if dstStride == 1 && srcStride == 2 {
		i := 0
		for last := n - 4; i <= last; i += 4 {
			out, in := (*[4]bool)(unsafe.Add(dst, i)), (*[4]uint16)(unsafe.Add(src, 2*i))
			out[0], out[1] = in[0]&magnitudeBits != 0, in[1]&magnitudeBits != 0
			out[2], out[3] = in[2]&magnitudeBits != 0, in[3]&magnitudeBits != 0
		}
		if n -= i; n == 0 {
			return
		}
		dst, src = unsafe.Add(dst, i), unsafe.Add(src, 2*i)
	}
	for i := range n {
		var b uint8
		if *(*uint16)(unsafe.Add(src, i*srcStride))&magnitudeBits != 0 {
			b = 1
		}
		*(*uint8)(unsafe.Add(dst, i*dstStride)) = b
	}
}

// toComplex64 and toComplex128 return the conversion to a complex dtype. convertReal converts the real part; the
// imaginary part is 0. A complex source has its own conversion.
func toComplex64(convertReal ConvertFunc) ConvertFunc {
	return func(dst, src unsafe.Pointer, dstStride, srcStride, n int) {
		convertReal(dst, src, dstStride, srcStride, n)
		for i := range n {
			*(*float32)(unsafe.Add(dst, i*dstStride+4)) = 0
		}
	}
}

func toComplex128(convertReal ConvertFunc) ConvertFunc {
	return func(dst, src unsafe.Pointer, dstStride, srcStride, n int) {
		convertReal(dst, src, dstStride, srcStride, n)
		for i := range n {
			*(*float64)(unsafe.Add(dst, i*dstStride+8)) = 0
		}
	}
}

// narrowComplex converts complex128 to complex64, and widenComplex converts back.
func narrowComplex(dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	for i := range n {
		*(*complex64)(unsafe.Add(dst, i*dstStride)) = complex64(*(*complex128)(unsafe.Add(src, i*srcStride)))
	}
}

func widenComplex(dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	for i := range n {
		*(*complex128)(unsafe.Add(dst, i*dstStride)) = complex128(*(*complex64)(unsafe.Add(src, i*srcStride)))
	}
}
