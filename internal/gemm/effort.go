package gemm

// Effort is what the tiled way computes for a product of m x k by k x n elements: the multiplications of all
// register tiles, with those on padding, and how often an inner kernel is called.
func Effort[T Number](m, n, k int) (macs, calls float64) {
	set := kernelsOf[T]()
	if set.coded() {
		return set.effort(m, n, k)
	}
	tiles := float64(ceilDiv(m, set.mr) * ceilDiv(n, set.nr))
	return tiles * float64(set.mr*set.nr) * float64(k), tiles * float64(ceilDiv(max(k, 1), set.kc))
}

// PadsRows reports whether the tiled way computes whole panels of rows, of however few rows A has.
func PadsRows[T Number]() bool { return !kernelsOf[T]().coded() }

// fewSums are the vectors of sums below which each waits for the one before.
const fewSums = 8

// effort is that of machine code. Tiles of few sums wait for their own results, or for elements, and count as if they
// had more.
func (s *kernelSet) effort(m, n, k int) (macs, calls float64) {
	panels := func(cols, count int) {
		if cols == 0 {
			return
		}
		v := s.vectors(cols)
		size, whole, less := evenly(max(m, 1), s.tall[v])
		for _, t := range [2]struct{ rows, n int }{{size, whole}, {size - 1, less}} {
			turns := max(t.rows*v, t.rows+v, fewSums)
			macs += float64(count*t.n) * float64(turns*s.lanes) * float64(k)
		}
		calls += float64(count * (whole + less) * ceilDiv(max(k, 1), s.kc))
	}
	panels(min(n, s.nr), n/s.nr)
	panels(n%s.nr, 1)
	return macs, calls
}
