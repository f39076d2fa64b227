package machine

// Division divides units of work, such as rows of an image, into chunks, which workers execute in parallel. The sizes
// of the chunks differ by at most one unit. For example, 10 units in 4 chunks are the ranges [0, 2), [2, 5), [5, 7) and
// [7, 10).
type Division struct{ Units, Chunks int }

// DivideUnits divides units into chunks of about one grain. work is the amount of work of one unit, and a grain is the
// usual amount of work of a chunk. For example, 10 rows of 1000 elements with a grain of 2500 elements give 4 chunks.
//
// Work of less than two grains still gives two chunks if each chunk has at least a quarter of a grain. An additional
// chunk costs less than an idle worker.
//
// The number of chunks is 1, even, or the number of units (0 for no units). For any grain, the first half of the chunks
// therefore has the first half of the units, to within one unit. Operations that process the same rows one after the
// other may have different grains. Each of two workers then reads the rows that it wrote in the previous operation.
func DivideUnits(units, work, grain int) Division {
	grains := float64(units) * float64(max(1, work)) / float64(max(1, grain))
	if grains < 2 {
		grains = min(2, grains*4)
	}
	chunks := max(1, int(min(grains, float64(units))))
	if chunks > 1 && chunks%2 == 1 {
		chunks++
	}
	return Division{Units: units, Chunks: min(chunks, units)}
}

// ChunkRange returns the units [first, end) of a chunk. first is floor(Units*chunk/Chunks); the quotient and the
// remainder of Units/Chunks replace the product Units*chunk, which may overflow.
func (d Division) ChunkRange(chunk int) (first, end int) {
	quotient, remainder := d.Units/d.Chunks, d.Units%d.Chunks
	return quotient*chunk + remainder*chunk/d.Chunks, quotient*(chunk+1) + remainder*(chunk+1)/d.Chunks
}
