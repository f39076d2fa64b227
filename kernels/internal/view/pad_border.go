package view

import (
	"cmp"

	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/sym"
)

// This file has the padding modes reflect, replicate and circular. For each index of the result, it computes the index
// of the operand's element that is copied there. For example, two elements before and after the dimension a b c give
//
//	reflect     c b a b c b a
//	replicate   a a a b c c c
//	circular    b c a b c a b
//
// [BorderTable], for the reference, lists the operand's index for each index of the result. [BorderSpans] describes the
// same indices as ranges with a constant step, which kernels copy.

// padCounts returns the number of elements that pad adds at the beginning of dimension d, and at its end. Negative
// numbers remove elements. rank is the rank of the value.
func padCounts[S int | sym.Int](pad []S, rank, d int) (before, after S) {
	if i := 2 * (rank - 1 - d); i < len(pad) { // pad lists the last dimension first
		return pad[i], pad[i+1]
	}
	return before, after
}

// BorderTable returns, for each index of a padded dimension of the result, the index of the operand that is copied
// there. n is the size of the dimension in the operand.
func BorderTable(mode string, n, before, after int) []int {
	table := make([]int, n+before+after)
	for i := range table {
		source := i - before
		switch {
		case mode == "circular":
			source = (source%n + n) % n
		case mode == "replicate":
			source = min(max(source, 0), n-1)
		case mode == "reflect":
			period := max(2*(n-1), 1) // of 0 1 ... n-1 n-2 ... 1
			source = (source%period + period) % period
			source = min(source, period-source, n-1)
		}
		table[i] = source
	}
	if mode != "circular" || len(table) == 0 {
		return table
	}
	// In mode circular, PyTorch copies the padding from the result itself. If padding is negative on one side, the
	// operand is cropped on this side. The padding on the other side repeats the cropped operand: a b c d padded by 2
	// and -1 gives b c a b c. If the cropped operand is shorter than the padding, PyTorch copies uninitialized memory.
	// This implementation differs: padding before continues to the left in the uncropped operand, and padding after
	// repeats the cropped operand. For example, a b c padded by 3 and -2 gives b c a a, and padded by -2 and 3 gives c
	// c c c.
	first, end := max(before, 0), len(table)-max(after, 0) // the result without the padding
	for i := range first {
		table[i] = table[end-before+i]
	}
	for i := end; i < len(table); i++ {
		table[i] = table[first+i-end]
	}
	return table
}

// BorderSpans returns the spans ([copies.Span]) that fill a padded dimension. The spans read the indices in the table
// of [BorderTable]. The operand has n elements along this dimension. In mode replicate, and in mode reflect unless a
// reflection is reflected again, there are at most three spans: one before the operand's elements, one for these
// elements, and one after them.
func BorderSpans(mode string, n, before, after int) []copies.Span {
	switch {
	case mode == "circular":
		return circularSpans(n, before, after)
	case mode == "reflect":
		return reflectSpans(n, before, after)
	}
	size := n + before + after
	// The operand's elements are at the output indices first to end-1.
	first := min(max(before, 0), size)
	end := min(max(before+n, first), size)
	const copyStep, repeat = 1, 0 // a step of 0 repeats the first or the last element
	list := appendSpan(nil, first, 0, repeat)
	list = appendSpan(list, end-first, first-before, copyStep)
	return appendSpan(list, size-end, n-1, repeat)
}

// reflectSpans is BorderSpans for mode reflect. The operand's indices 0 to n-1 and then n-2 to 1 are repeated in both
// directions.
func reflectSpans(n, before, after int) (list []copies.Span) {
	if n == 1 {
		return appendSpan(nil, n+before+after, 0, 0)
	}
	period := 2 * (n - 1)
	for index := -before; index < n+after; {
		position := (index%period + period) % period
		start, step, count := position, 1, n-position
		if position >= n {
			start, step, count = period-position, -1, period-position
		}
		count = min(count, n+after-index)
		list = appendSpan(list, count, start, step)
		index += count
	}
	return list
}

// appendSpan appends a span of the given length. The new span begins at the output index at which the list ends.
func appendSpan(list []copies.Span, count, inStart, inStep int) []copies.Span {
	if count <= 0 {
		return list
	}
	outStart := 0
	if len(list) > 0 {
		last := list[len(list)-1]
		outStart = last.OutStart + last.Count
	}
	return append(list, copies.Span{OutStart: outStart, Count: count, InStart: inStart, InStep: inStep})
}

// circularSpans is BorderSpans for mode circular. [BorderTable] describes the rule.
func circularSpans(n, before, after int) (list []copies.Span) {
	// add adds spans that read count consecutive indices of the operand from start on, modulo n.
	add := func(start, count int) {
		for count > 0 {
			start = (start%n + n) % n
			part := min(count, n-start)
			list = appendSpan(list, part, start, 1)
			start, count = start+part, count-part
		}
	}
	// The indices start to end-1 of the operand remain after negative padding.
	start, end := max(-before, 0), n+min(after, 0)
	add(end-max(before, 0), max(before, 0)) // the padding before: the indices that precede end, modulo n
	add(start, end-start)
	period := cmp.Or(end-start, n) // if nothing remains, the padding repeats the operand
	for padded := 0; padded < after; padded += period {
		add(start, min(period, after-padded))
	}
	return list
}
