package jittest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// EdgeCases returns elements of a real dtype, as the bytes of a contiguous array. They are all values of an 8-bit
// dtype, and the edge cases of a wider dtype.
func EdgeCases(dtype tensor.DType) []byte {
	var list []byte
	add := func(bits uint64) {
		list = append(list, binary.LittleEndian.AppendUint64(nil, bits)[:dtype.Size()]...)
	}
	switch {
	case dtype == tensor.Bool:
		add(0)
		add(1)
	case dtype.Size() == 1:
		for number := range uint64(256) {
			add(number)
		}
	case dtype.IsFloat():
		for _, number := range floats {
			add(bitsOf(dtype, number))
		}
	default:
		for _, number := range integers(8 * dtype.Size()) {
			add(number)
		}
	}
	return list
}

// AllValues returns all values of a 16-bit dtype, and [EdgeCases] of another real dtype.
func AllValues(dtype tensor.DType) []byte {
	if dtype.Size() != 2 {
		return EdgeCases(dtype)
	}
	var list []byte
	for number := range 1 << 16 {
		list = binary.LittleEndian.AppendUint16(list, uint16(number))
	}
	return list
}

// RandomElements returns n random elements of any dtype. A quarter of the numbers (elements, or the parts of complex
// elements) have random bits, except for bools. Of floats, another quarter are ordinary numbers, so that not every
// result is NaN. The remaining numbers are from [EdgeCases].
func RandomElements(rng *rand.Rand, dtype tensor.DType, n int) []byte {
	realDType := dtype
	if dtype.IsComplex() {
		realDType = dtype.ToReal()
	}
	size, list := realDType.Size(), make([]byte, 0, n*dtype.Size())
	special := EdgeCases(realDType)
	for len(list) < n*dtype.Size() {
		switch choice := rng.IntN(4); {
		case choice == 0 && dtype != tensor.Bool:
			list = append(list, binary.LittleEndian.AppendUint64(nil, rng.Uint64())[:size]...)
		case choice == 1 && realDType.IsFloat():
			bits := bitsOf(realDType, math.Round(rng.NormFloat64()*100)/16)
			list = append(list, binary.LittleEndian.AppendUint64(nil, bits)[:size]...)
		default:
			start := rng.IntN(len(special)/size) * size
			list = append(list, special[start:start+size]...)
		}
	}
	return list
}

// Same reports whether two elements have the same bits or are both NaN. Of complex elements, it compares the parts.
func Same(dtype tensor.DType, a, b []byte) bool {
	if string(a) == string(b) {
		return true
	}
	if dtype.IsComplex() {
		realDType := dtype.ToReal()
		size := realDType.Size()
		return Same(realDType, a[:size], b[:size]) && Same(realDType, a[size:], b[size:])
	}
	if !dtype.IsFloat() {
		return false
	}
	return math.IsNaN(floatOf(dtype, a)) && math.IsNaN(floatOf(dtype, b))
}

// floats are edge cases of arithmetic, functions and conversions. They are zeros, infinities, NaN, the bounds of all
// dtypes, subnormals, and midpoints between two numbers of a narrower dtype.
var floats = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 1.5, 2, 2.5, 3, -7.25, 10, math.Pi, math.E, 100.5,
	math.Inf(1), math.Inf(-1), math.NaN(),
	math.SmallestNonzeroFloat64, -0x1p-1050, 0x1p-1022, 0x1p-149, 0x1p-150, 0x1.8p-150, -0x1p-126, 0x1.fffffcp-127,
	0x1p-133, 0x1p-134, 0x1p-24, 0x1p-25, 0x1.8p-25, 0x1.ffcp-15, 0x1p-14,
	1 + 0x1p-8, 1 + 0x1.8p-7, 1 + 0x1p-11, 1 + 0x1.8p-10, 1 + 0x1p-24, 1 + 0x1.8p-23, 1 + 0x1p-52, 1 - 0x1p-53,
	65504, 65519.99, 65520, -65536, 0x1.fep127, 0x1.ffp127, 0x1.fffffep127, 0x1.ffffffp127, -0x1p128, math.MaxFloat64,
	127.5, 128, -128.5, -129, 255.5, 256, 32767.5, -32769, 65535.5, 1 << 24, 1<<24 + 1, 1<<31 - 1, 1 << 31, -1<<31 - 1,
	1<<32 - 1, 1 << 32, 1<<53 + 2, 1 << 63, -1 << 63, 0x1.fffffffffffffp62, 1 << 64, 0x1.fffffffffffffp63, 5e9, -1e19,
	88.7, -88, 103.9, 709.7, -745.1, 1e5, 0x1.921fb6p24, 1e22}

// integers returns edge cases of integers with the given number of bits, and of their conversions to floats.
func integers(bits int) []uint64 {
	top := uint64(1) << (bits - 1)
	list := []uint64{0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 100, top - 1, top, top + 1, 2 * top / 3}
	for _, number := range []uint64{1, 2, 3, 7, 8, 32, 64, 101} {
		list = append(list, -number)
	}
	// Numbers at and near the midpoint between two floats. A conversion through a wider dtype would round them twice.
	for _, number := range []uint64{1<<24 + 1, 1<<25 + 2, 1<<25 + 6, 1<<53 + 1, 1<<54 + 6, 1<<62 + 1<<38 + 1,
		1<<62 - 1<<36} {
		list = append(list, number, -number)
	}
	for i := range list {
		list[i] &= 2*top - 1
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// bitsOf returns the bits of a number in a float dtype. The last arguments of the converter are the two strides, which
// have no effect here, and the number of elements.
func bitsOf(dtype tensor.DType, number float64) (bits uint64) {
	tensor.Converter(dtype, tensor.Float64)(unsafe.Pointer(&bits), unsafe.Pointer(&number), 0, 0, 1)
	return bits
}

// floatOf returns an element of a float dtype as a number.
func floatOf(dtype tensor.DType, element []byte) (number float64) {
	tensor.Converter(tensor.Float64, dtype)(unsafe.Pointer(&number), unsafe.Pointer(&element[0]), 0, 0, 1)
	return number
}
