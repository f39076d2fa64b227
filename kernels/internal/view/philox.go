package view

import (
	"math/bits"

	"github.com/graphrun/graphrun/tensor"
)

// philox returns four random words for a counter and a key. It is the generator Philox4x32-10 of Salmon et al. Element
// i of a random op uses the words of counter i. Therefore the result depends only on the seed, not on the division of
// work.
func philox(counter, key uint64) [4]uint32 {
	// The number of rounds, the multipliers of the words and the increments of the key are from the paper by Salmon et
	// al.
	words := [4]uint32{uint32(counter), uint32(counter >> 32)} // the upper half of the 128-bit counter is 0
	k0, k1 := uint32(key), uint32(key>>32)
	for range 10 {
		high0, low0 := bits.Mul32(0xD2511F53, words[0])
		high1, low1 := bits.Mul32(0xCD9E8D57, words[2])
		words = [4]uint32{high1 ^ words[1] ^ k0, low1, high0 ^ words[3] ^ k1, low0}
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return words
}

// joinWords returns the number of 64 bits with the given halves.
func joinWords(high, low uint32) uint64 { return uint64(high)<<32 | uint64(low) }

// uniform converts random words to a number in [0, 1) with the precision of a dtype. It returns k * 2^-p. The integer k
// is the upper p bits of the words, and p is the number of mantissa bits of the dtype, including the leading 1.
func uniform(words [4]uint32, dtype tensor.DType) float64 {
	switch dtype {
	case tensor.Float64:
		return float64(joinWords(words[0], words[1])>>11) * 0x1p-53
	case tensor.Float16:
		return float64(words[0]>>21) * 0x1p-11
	case tensor.BFloat16:
		return float64(words[0]>>24) * 0x1p-8
	}
	return float64(words[0]>>8) * 0x1p-24
}
