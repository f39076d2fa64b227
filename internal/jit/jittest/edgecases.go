package jittest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// floats are edge cases of arithmetic, functions and conversions: zeros, infinities, NaN, the bounds of all dtypes,
// subnormals, and midpoints between two numbers of a narrower dtype.
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
	for _, k := range []uint64{1, 2, 3, 7, 8, 32, 64, 101} {
		list = append(list, -k)
	}
	// Numbers at and near the midpoint between two floats. A conversion through a wider dtype would round them twice.
	for _, k := range []uint64{1<<24 + 1, 1<<25 + 2, 1<<25 + 6, 1<<53 + 1, 1<<54 + 6, 1<<62 + 1<<38 + 1, 1<<62 - 1<<36} {
		list = append(list, k, -k)
	}
	for k := range list {
		list[k] &= 2*top - 1
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// EdgeCases returns elements of a real dtype, as adjacent bytes: all values of an 8-bit dtype, and the edge cases of a
// wider dtype.
func EdgeCases(d tensor.DType) []byte {
	var list []byte
	add := func(bits uint64) {
		list = append(list, binary.LittleEndian.AppendUint64(nil, bits)[:d.Size()]...)
	}
	switch {
	case d == tensor.Bool:
		add(0)
		add(1)
	case d.Size() == 1:
		for x := range uint64(256) {
			add(x)
		}
	case d.IsFloat():
		for _, x := range floats {
			var bits uint64
			tensor.Converter(d, tensor.Float64)(unsafe.Pointer(&bits), unsafe.Pointer(&x), 0, 0, 1)
			add(bits)
		}
	default:
		for _, x := range integers(8 * d.Size()) {
			add(x)
		}
	}
	return list
}

// AllValues returns all values of a 16-bit dtype, and [EdgeCases] of another real dtype.
func AllValues(d tensor.DType) []byte {
	if d.Size() != 2 {
		return EdgeCases(d)
	}
	var list []byte
	for x := range 1 << 16 {
		list = binary.LittleEndian.AppendUint16(list, uint16(x))
	}
	return list
}

// RandomElements returns n random elements of any dtype. A quarter of the elements have random bits. If the dtype is a
// float, another quarter are ordinary numbers, so that not every result is NaN. The remaining elements are from
// [EdgeCases].
func RandomElements(rng *rand.Rand, d tensor.DType, n int) []byte {
	part := d
	if d.IsComplex() {
		part = d.ToReal()
	}
	size, list := part.Size(), make([]byte, 0, n*d.Size())
	special := EdgeCases(part)
	for len(list) < n*d.Size() {
		switch k := rng.IntN(4); {
		case k == 0 && d != tensor.Bool:
			list = append(list, binary.LittleEndian.AppendUint64(nil, rng.Uint64())[:size]...)
		case k == 1 && part.IsFloat():
			x, bits := math.Round(rng.NormFloat64()*100)/16, uint64(0)
			tensor.Converter(part, tensor.Float64)(unsafe.Pointer(&bits), unsafe.Pointer(&x), 0, 0, 1)
			list = append(list, binary.LittleEndian.AppendUint64(nil, bits)[:size]...)
		default:
			at := rng.IntN(len(special)/size) * size
			list = append(list, special[at:at+size]...)
		}
	}
	return list
}

// Same reports whether two elements have the same bits or are both NaN.
func Same(d tensor.DType, a, b []byte) bool {
	if string(a) == string(b) {
		return true
	}
	if d.IsComplex() {
		part := d.ToReal()
		half := part.Size()
		return Same(part, a[:half], b[:half]) && Same(part, a[half:], b[half:])
	}
	if !d.IsFloat() {
		return false
	}
	var x, y float64
	tensor.Converter(tensor.Float64, d)(unsafe.Pointer(&x), unsafe.Pointer(&a[0]), 0, 0, 1)
	tensor.Converter(tensor.Float64, d)(unsafe.Pointer(&y), unsafe.Pointer(&b[0]), 0, 0, 1)
	return math.IsNaN(x) && math.IsNaN(y)
}
