package index

import (
	"context"
	"math/bits"

	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// sortPositions returns the indices of keys in ascending order of the keys. Equal keys keep their order. words and
// swapped are temporary memory of the length of keys. sorted is one of these two lists, and free is the other. swapped
// may have the memory of keys if a difference of keys and an index have at most 64 bits together.
//
// A word has some bits of a key and, in its low bits, the index of the key. If a word is too short for all bits of a
// key, it first has the lowest bits of the key. After the words are sorted by these bits, the next bits of the keys
// replace them, and so on: a radix sort.
func sortPositions(ctx context.Context, keys, words, swapped []uint64) (sorted, free []uint64) {
	least, keyBits := keyRange(ctx, keys)
	indexBits := positionBits(len(keys))
	wordBits := 64 - indexBits // bits of the key in a word
	indexMask := uint64(1)<<indexBits - 1
	kit.ForEachBlock(ctx, len(keys), func(begin, end int) {
		for i, key := range keys[begin:end] {
			words[begin+i] = (key-least)<<indexBits | uint64(begin+i)
		}
	})
	words, swapped = sortWords(ctx, words, swapped, indexBits, min(wordBits, keyBits))
	for shift := wordBits; shift < keyBits; shift += wordBits {
		kit.ForEachBlock(ctx, len(words), func(begin, end int) {
			for i, word := range words[begin:end] {
				index := word & indexMask
				words[begin+i] = (keys[index]-least)>>shift<<indexBits | index
			}
		})
		words, swapped = sortWords(ctx, words, swapped, indexBits, min(wordBits, keyBits-shift))
	}
	kit.ForEachBlock(ctx, len(words), func(begin, end int) {
		block := words[begin:end]
		for i := range block {
			block[i] &= indexMask
		}
	})
	return words, swapped
}

// keyRange returns the least key, and the number of bits of the difference between the greatest and the least key.
func keyRange(ctx context.Context, keys []uint64) (least uint64, keyBits int) {
	least = keys[0]
	greatest := least
	kit.ForEachBlock(ctx, len(keys), func(begin, end int) {
		low, high := least, greatest
		for _, key := range keys[begin:end] {
			low, high = min(low, key), max(high, key)
		}
		least, greatest = low, high
	})
	return least, bits.Len64(greatest - least)
}

const (
	maxInsertionLen = 32   // greatest length of a list that is sorted by insertion
	maxShortLen     = 1024 // greatest length of a list that is sorted by digits of shortDigitBits
	shortDigitBits  = 8
	maxDigitBits    = 11
)

// sortWords sorts words by their bits from firstBit to firstBit+bitCount. Words with equal bits keep their order, and
// higher bits are 0. It returns the sorted words, in one of the given lists, and the other list.
func sortWords(ctx context.Context, words, swapped []uint64, firstBit, bitCount int) (sorted, free []uint64) {
	if len(words) <= maxInsertionLen {
		insertWords(words, firstBit)
		return words, swapped
	}
	digitBits := maxDigitBits
	if len(words) <= maxShortLen {
		digitBits = shortDigitBits
	}
	digits := kit.DivUp(bitCount, digitBits)
	digitBits = kit.DivUp(bitCount, max(1, digits)) // digits of about equal lengths
	var counts [1 << maxDigitBits]int
	for digit := range digits {
		sortByDigit(ctx, words, swapped, firstBit+digit*digitBits, counts[:1<<digitBits])
		words, swapped = swapped, words
	}
	return words, swapped
}

// insertWords is sortWords for short lists.
func insertWords(words []uint64, firstBit int) {
	for i := 1; i < len(words); i++ {
		word, k := words[i], i
		for ; k > 0 && words[k-1]>>(firstBit&63) > word>>(firstBit&63); k-- {
			words[k] = words[k-1]
		}
		words[k] = word
	}
}

// sortByDigit copies words to dst in the order of the digit from bit `shift` on. Words with equal digits keep their
// order. counts is temporary memory with an element for each digit.
func sortByDigit(ctx context.Context, words, dst []uint64, shift int, counts []int) {
	clear(counts)
	mask := uint64(len(counts) - 1)
	kit.ForEachBlock(ctx, len(words), func(begin, end int) {
		for _, word := range words[begin:end] {
			counts[word>>(shift&63)&mask]++
		}
	})
	position := 0 // of the first word of the next digit
	for digit, count := range counts {
		counts[digit] = position
		position += count
	}
	kit.ForEachBlock(ctx, len(words), func(begin, end int) {
		for _, word := range words[begin:end] {
			position := &counts[word>>(shift&63)&mask]
			dst[*position] = word
			*position++
		}
	})
}
