package gemm

// Effort is what the tiled way computes for a product of m x k by k x n elements: the multiplications of all
// register tiles, with those on padding, and how often an inner kernel is called.
func Effort[T Number](m, n, k int) (macs, calls float64) {
	set := kernelsOf[T]()
	if set.coded() {
		lanes := n / set.nr * set.nr
		lanes += roundUp(n-lanes, set.lanes)
		return float64(m) * float64(lanes) * float64(k), 0
	}
	blocks := float64(ceilDiv(max(k, 1), set.kc))
	each := func(rows, cols, count int) {
		if count == 0 {
			return
		}
		v := set.smallest(rows, cols)
		macs += float64(count) * float64(v.rows) * float64(v.cols) * float64(k)
		calls += float64(count) * blocks
	}
	each(set.mr, set.nr, m/set.mr*(n/set.nr))
	if r := m % set.mr; r > 0 {
		each(r, set.nr, n/set.nr)
	}
	if c := n % set.nr; c > 0 {
		each(set.mr, c, m/set.mr)
		if r := m % set.mr; r > 0 {
			each(r, c, 1)
		}
	}
	return macs, calls
}
