package tensor

import (
	"math"
	"runtime"
	"unsafe"
)

// This file has the conversions of floats to integers, with the results of amd64 on every processor. For float32:
//
//	        int8   int32    int64    uint8   uint64
//	-1.5    -1     -1       -1       255     2^64-1
//	300.7   44     300      300      44      300
//	1e10    0      -2^31    1e10     0       1e10
//	NaN     0      -2^31    -2^63    0       2^63
//
// Conversions to small integers go through int32 or int64 and take the low bits of the result.

// goConvertsLikeAMD64 is true if Go's conversions of floats to integers have the results that int32Of, int64Of and
// uint64Of define. Go's specification does not define the results for NaN and for numbers out of range;
// TestFloatsOutOfRange checks them.
const goConvertsLikeAMD64 = runtime.GOARCH == "amd64"

// int32Of truncates x toward 0. If x is NaN or out of range, the result is the least int32.
func int32Of[S float32 | float64](x S) int32 {
	if goConvertsLikeAMD64 || x > math.MinInt32 && x < 1<<31 {
		return int32(x)
	}
	return math.MinInt32
}

// int64Of truncates x toward 0. If x is NaN or out of range, the result is the least int64.
func int64Of[S float32 | float64](x S) int64 {
	if goConvertsLikeAMD64 || x > math.MinInt64 && x < 1<<63 {
		return int64(x)
	}
	return math.MinInt64
}

// uint64Of truncates x toward 0. If x is negative and in the range of int64, the result wraps. If x is NaN or out of
// these ranges, the result is 1<<63.
func uint64Of[S float32 | float64](x S) uint64 {
	if goConvertsLikeAMD64 {
		return uint64(x)
	}
	if x >= 1<<63 && x < 1<<64 { // x - 2^63 fits an int64; bit 63 adds 2^63 again
		return uint64(int64(x-1<<63)) | 1<<63
	}
	return uint64(int64Of(x))
}

// fillFloat sets the conversions from a dtype, whose Go type is S, to integers.
func fillFloat[S float32 | float64](table *[numDTypes][numDTypes]ConvertFunc, dtype DType) {
	table[Int8][dtype], table[Int16][dtype] = viaInt32[int8, S], viaInt32[int16, S]
	table[Int32][dtype], table[Uint16][dtype] = viaInt32[int32, S], viaInt32[uint16, S]
	table[Int64][dtype], table[Uint8][dtype] = viaInt64[int64, S], viaInt64[uint8, S]
	table[Uint32][dtype] = viaInt64[uint32, S]
	table[Uint64][dtype] = toUint64[S]
}

// viaInt32 converts through int32, and viaInt64 through int64, so that smaller integers take the low bits. The
// functions halfVia... and bf16Via... do the same for 16-bit floats. They are not one generic function: the compiler
// would share its code, as Half and BF16 are both uint16, and would not inline Float32.
func viaInt32[D int8 | int16 | int32 | uint16, S float32 | float64](dst, src unsafe.Pointer,
	dstStride, srcStride, n int) {
	isDense := dstStride == int(unsafe.Sizeof(D(0))) && srcStride == int(unsafe.Sizeof(S(0)))
	if out := unsafe.Slice((*D)(dst), n); isDense {
		in := unsafe.Slice((*S)(src), n)[:len(out)]
		for i := range out {
			out[i] = D(int32Of(in[i]))
		}
		return
	}
	for i := range n {
		x := *(*S)(unsafe.Add(src, i*srcStride))
		*(*D)(unsafe.Add(dst, i*dstStride)) = D(int32Of(x))
	}
}

func viaInt64[D uint8 | uint32 | int64, S float32 | float64](dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	isDense := dstStride == int(unsafe.Sizeof(D(0))) && srcStride == int(unsafe.Sizeof(S(0)))
	if out := unsafe.Slice((*D)(dst), n); isDense {
		in := unsafe.Slice((*S)(src), n)[:len(out)]
		for i := range out {
			out[i] = D(int64Of(in[i]))
		}
		return
	}
	for i := range n {
		x := *(*S)(unsafe.Add(src, i*srcStride))
		*(*D)(unsafe.Add(dst, i*dstStride)) = D(int64Of(x))
	}
}

// toUint64 converts by uint64Of.
func toUint64[S float32 | float64](dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	if out := unsafe.Slice((*uint64)(dst), n); dstStride == 8 && srcStride == int(unsafe.Sizeof(S(0))) {
		in := unsafe.Slice((*S)(src), n)[:len(out)]
		for i := range out {
			out[i] = uint64Of(in[i])
		}
		return
	}
	for i := range n {
		x := *(*S)(unsafe.Add(src, i*srcStride))
		*(*uint64)(unsafe.Add(dst, i*dstStride)) = uint64Of(x)
	}
}

// The following functions convert float16, and then bfloat16, as viaInt32, viaInt64 and toUint64 do.

func halfViaInt32[D int8 | int16 | int32 | uint16](dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	if out := unsafe.Slice((*D)(dst), n); dstStride == int(unsafe.Sizeof(D(0))) && srcStride == 2 {
		in := unsafe.Slice((*Half)(src), n)[:len(out)]
		for i := range out {
			out[i] = D(int32Of(in[i].Float32()))
		}
		return
	}
	for i := range n {
		x := *(*Half)(unsafe.Add(src, i*srcStride))
		*(*D)(unsafe.Add(dst, i*dstStride)) = D(int32Of(x.Float32()))
	}
}

func halfViaInt64[D uint8 | uint32 | int64](dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	if out := unsafe.Slice((*D)(dst), n); dstStride == int(unsafe.Sizeof(D(0))) && srcStride == 2 {
		in := unsafe.Slice((*Half)(src), n)[:len(out)]
		for i := range out {
			out[i] = D(int64Of(in[i].Float32()))
		}
		return
	}
	for i := range n {
		x := *(*Half)(unsafe.Add(src, i*srcStride))
		*(*D)(unsafe.Add(dst, i*dstStride)) = D(int64Of(x.Float32()))
	}
}

func halfToUint64(dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	if out := unsafe.Slice((*uint64)(dst), n); dstStride == 8 && srcStride == 2 {
		in := unsafe.Slice((*Half)(src), n)[:len(out)]
		for i := range out {
			out[i] = uint64Of(in[i].Float32())
		}
		return
	}
	for i := range n {
		x := *(*Half)(unsafe.Add(src, i*srcStride))
		*(*uint64)(unsafe.Add(dst, i*dstStride)) = uint64Of(x.Float32())
	}
}

func bf16ViaInt32[D int8 | int16 | int32 | uint16](dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	if out := unsafe.Slice((*D)(dst), n); dstStride == int(unsafe.Sizeof(D(0))) && srcStride == 2 {
		in := unsafe.Slice((*BF16)(src), n)[:len(out)]
		for i := range out {
			out[i] = D(int32Of(in[i].Float32()))
		}
		return
	}
	for i := range n {
		x := *(*BF16)(unsafe.Add(src, i*srcStride))
		*(*D)(unsafe.Add(dst, i*dstStride)) = D(int32Of(x.Float32()))
	}
}

func bf16ViaInt64[D uint8 | uint32 | int64](dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	if out := unsafe.Slice((*D)(dst), n); dstStride == int(unsafe.Sizeof(D(0))) && srcStride == 2 {
		in := unsafe.Slice((*BF16)(src), n)[:len(out)]
		for i := range out {
			out[i] = D(int64Of(in[i].Float32()))
		}
		return
	}
	for i := range n {
		x := *(*BF16)(unsafe.Add(src, i*srcStride))
		*(*D)(unsafe.Add(dst, i*dstStride)) = D(int64Of(x.Float32()))
	}
}

func bf16ToUint64(dst, src unsafe.Pointer, dstStride, srcStride, n int) {
	if out := unsafe.Slice((*uint64)(dst), n); dstStride == 8 && srcStride == 2 {
		in := unsafe.Slice((*BF16)(src), n)[:len(out)]
		for i := range out {
			out[i] = uint64Of(in[i].Float32())
		}
		return
	}
	for i := range n {
		x := *(*BF16)(unsafe.Add(src, i*srcStride))
		*(*uint64)(unsafe.Add(dst, i*dstStride)) = uint64Of(x.Float32())
	}
}
