package index

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// keyReader reads elements of a dtype as keys. Keys are unsigned numbers in the order of the elements: equal elements,
// such as 0 and -0, have equal keys. All NaN have one key, which is greater than the keys of numbers. If the order is
// descending, all bits of the keys are inverted.
type keyReader struct {
	loopDType tensor.DType       // the elements are first converted to this dtype
	convert   tensor.ConvertFunc // the conversion; nil if the elements have loopDType
	inverted  uint64             // the bits of keys that are inverted
	bits      int                // the keys of two elements differ by less than 1<<bits
}

// newKeyReader returns the reader for a dtype.
func newKeyReader(dtype tensor.DType, isDescending bool) *keyReader {
	reader := &keyReader{loopDType: kit.LoopDType(dtype), bits: 64}
	if reader.loopDType != dtype {
		reader.convert = tensor.Converter(reader.loopDType, dtype)
	}
	switch {
	case dtype.IsIntegral(true):
		reader.bits = 8 * dtype.Size()
		if dtype != tensor.Uint64 { // loopDType is int64, whose numbers have the order of uint64 if the sign is inverted
			reader.inverted = 1 << 63
		}
	case reader.loopDType == tensor.Float32:
		reader.bits = 32
	}
	if isDescending {
		reader.inverted = ^reader.inverted
	}
	return reader
}

// read reads the keys of elements that are step bytes apart, from address src on.
func (r *keyReader) read(keys []uint64, src unsafe.Pointer, step int) {
	if len(keys) == 0 {
		return
	}
	if r.convert != nil { // the converted elements are in the memory of the keys
		r.convert(unsafe.Pointer(&keys[0]), src, wordBytes, step, len(keys))
		src, step = unsafe.Pointer(&keys[0]), wordBytes
	}
	inverted := r.inverted
	switch r.loopDType {
	case tensor.Int64:
		for i := range keys {
			keys[i] = *(*uint64)(unsafe.Add(src, i*step)) ^ inverted
		}
	case tensor.Float32:
		for i := range keys {
			keys[i] = uint64(float32Key(*(*uint32)(unsafe.Add(src, i*step)))) ^ inverted
		}
	default:
		for i := range keys {
			keys[i] = float64Key(*(*uint64)(unsafe.Add(src, i*step))) ^ inverted
		}
	}
}

// float32Key returns the key of a float32 with the given bits. The bits of positive numbers have the order of the
// numbers, and the bits of negative numbers have the inverse order.
func float32Key(bits uint32) uint32 {
	const sign, infinity = 1 << 31, 0xff << 23
	switch {
	case bits&^sign > infinity:
		return math.MaxUint32 // NaN
	case bits == sign:
		return sign // -0, with the key of 0
	}
	return bits ^ (uint32(int32(bits)>>31) | sign)
}

// float64Key is float32Key for a float64.
func float64Key(bits uint64) uint64 {
	const sign, infinity = 1 << 63, 0x7ff << 52
	switch {
	case bits&^sign > infinity:
		return math.MaxUint64
	case bits == sign:
		return sign
	}
	return bits ^ (uint64(int64(bits)>>63) | sign)
}
